"""The functions of neural networks, as torch.nn.functional has them."""

from importlib import import_module as _import_module
from typing import Any

import pellucid.ops.nn  # noqa: F401 (loading a family publishes its operations)
from pellucid.ops.operation import namespace as _namespace

globals().update(_namespace("torch.nn.functional"))


def __getattr__(name: str) -> Any:  # the table of operations gives all other names
    if name == "grad":
        return _import_module("pellucid.nn.grad")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
