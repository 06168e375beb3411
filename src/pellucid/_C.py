"""torch._C, PyTorch's compiled half, which is not here; a few names that libraries touch when they are imported."""

from typing import Any

from pellucid.absent import absent
from pellucid.core.tensor import Tensor as TensorBase
from pellucid.dtypes import device, dtype, layout, memory_format
from pellucid.interop.subclasses import disabled_torch_function, nobody_asked
from pellucid.ops.streams import Generator

__all__ = [
    "DisableTorchFunction", "DisableTorchFunctionSubclass", "DispatchKey", "DispatchKeySet", "Generator", "TensorBase",
    "device", "dtype", "layout", "memory_format",
]  # fmt: skip

_TensorBase = TensorBase
DisableTorchFunction = DisableTorchFunctionSubclass = nobody_asked
_disabled_torch_function_impl = disabled_torch_function


def _log_api_usage_once(*args: Any) -> None:
    """Nothing is logged."""


def _get_tracing_state() -> None:
    """Nothing is traced."""


class _AnyName(type):
    """A class of which every name is there, and is its own value."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class DispatchKey(metaclass=_AnyName):
    """The keys of PyTorch's dispatcher, by name: libraries name them when they are imported. Nothing is dispatched.

    >>> DispatchKey.AutocastCPU
    'AutocastCPU'
    """


class DispatchKeySet:
    """Some of the keys.

    >>> sorted((DispatchKeySet("CPU") | DispatchKeySet("CUDA")).keys)
    ['CPU', 'CUDA']
    """

    def __init__(self, key: Any) -> None:
        self.keys: frozenset[Any] = key.keys if isinstance(key, DispatchKeySet) else frozenset((key,))

    def __or__(self, other: "DispatchKeySet") -> "DispatchKeySet":
        both = DispatchKeySet(self)
        both.keys |= other.keys
        return both


NAMES = """
Graph Node ScriptFunction ScriptModule ScriptObject Value _VariableFunctions
_distributed_c10d _functions _functorch _nn
"""
__getattr__ = absent("torch._C", NAMES, "Pellucid is written in Python and has no compiled half")
