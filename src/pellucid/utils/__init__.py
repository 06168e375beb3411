"""Helpers beside the engine, under PyTorch's names: `utils.checkpoint`, `utils.data`, `utils.tensorboard`, ..."""

from importlib import import_module as _import_module
from typing import Any as _Any

_LATER = (
    "_pytree", "benchmark", "checkpoint", "collect_env", "data", "dlpack", "hooks", "model_zoo", "progress",
    "tensorboard",
)  # fmt: skip


def __getattr__(name: str) -> _Any:
    if name in _LATER:
        return _import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
