"""Helpers beside the engine, under PyTorch's names: `utils.checkpoint`, `utils.data`, `utils.tensorboard`, ..."""

from importlib import import_module as _import_module
from typing import Any as _Any

_LATER = (
    "_python_dispatch", "_pytree", "benchmark", "checkpoint", "collect_env", "cpp_extension", "data", "deterministic",
    "dlpack", "flop_counter", "hooks", "model_zoo", "progress", "tensorboard",
)  # fmt: skip


def set_module(obj: _Any, mod: str) -> None:
    """Say that an object belongs to another module."""
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod


def __getattr__(name: str) -> _Any:
    if name in _LATER:
        return _import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
