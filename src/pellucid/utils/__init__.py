"""Helpers beside the engine, under PyTorch's names: `utils.checkpoint`, `utils.data`, `utils.tensorboard`, ..."""

from importlib import import_module as _import_module
from typing import Any as _Any
from weakref import ref as _ref

from pellucid.core.tensor import Leaf as _Leaf
from pellucid.core.tensor import Tensor as _Tensor

_LATER = (
    "_python_dispatch", "_pytree", "benchmark", "checkpoint", "collect_env", "cpp_extension", "data", "deterministic",
    "dlpack", "flop_counter", "hooks", "model_zoo", "progress", "tensorboard",
)  # fmt: skip


def set_module(obj: _Any, mod: str) -> None:
    """Say that an object belongs to another module."""
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod


def swap_tensors(t1: _Tensor, t2: _Tensor) -> None:
    """Exchange two tensors: whoever holds the one now holds the other, with its values, its class and its gradient.

    >>> import pellucid as torch
    >>> a, b = torch.zeros(2), torch.ones(3)
    >>> torch.utils.swap_tensors(a, b)
    >>> a, b
    (tensor([1., 1., 1.]), tensor([0., 0.]))
    """
    for name in ("__class__", "__dict__", *_Tensor.__slots__[2:]):
        first, second = getattr(t1, name, False), getattr(t2, name, False)  # `_aside` and `_left` are mostly not set
        setattr(t1, name, second)
        setattr(t2, name, first)
    for tensor in (t1, t2):
        if isinstance(tensor.node, _Leaf):
            tensor.node.tensor = _ref(tensor)


def __getattr__(name: str) -> _Any:
    if name in _LATER:
        return _import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
