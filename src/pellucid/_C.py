"""torch._C, PyTorch's compiled half, which is not here; a few names that libraries touch when they are imported."""

from typing import Any

from pellucid.absent import absent
from pellucid.core.tensor import Tensor as TensorBase
from pellucid.dtypes import device, dtype, layout, memory_format
from pellucid.errors import LinAlgError
from pellucid.interop.subclasses import disabled_torch_function, nobody_asked
from pellucid.ops import load_families
from pellucid.ops.operation import OPERATIONS
from pellucid.ops.streams import Generator

__all__ = [
    "DisableTorchFunction", "DisableTorchFunctionSubclass", "DispatchKey", "DispatchKeySet", "Generator", "TensorBase",
    "device", "dtype", "layout", "memory_format",
]  # fmt: skip

_TensorBase = TensorBase
_TensorMeta = type
_LinAlgError = LinAlgError
DisableTorchFunction = DisableTorchFunctionSubclass = nobody_asked
_disabled_torch_function_impl = disabled_torch_function


def _log_api_usage_once(*args: Any) -> None:
    """Nothing is logged."""


def _jit_set_profiling_mode(enabled: bool) -> bool:
    """Accepted: nothing is compiled.

    >>> _jit_set_profiling_mode(False)
    False
    """
    return False


_jit_set_profiling_executor = _jit_override_can_fuse_on_cpu = _jit_override_can_fuse_on_gpu = _jit_set_profiling_mode


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


class _Functions:
    """Functions that programs find elsewhere, where PyTorch's graphs say that they are.

    >>> import pellucid as torch
    >>> torch._C._nn.gelu is torch.nn.functional.gelu, torch._C._linalg.linalg_norm is torch.linalg.norm
    (True, True)
    """

    def __init__(self, home: str, prefix: str = "") -> None:
        self._home, self._prefix = home, prefix

    def __getattr__(self, name: str) -> Any:
        load_families()
        found = OPERATIONS.get(f"{self._home}.{name.removeprefix(self._prefix)}")
        if found is None or not name.startswith(self._prefix):
            raise AttributeError(f"module 'torch._C' has no function {name!r}")
        return found.function


_nn, _special = _Functions("nn.functional"), _Functions("special", "special_")
_linalg, _fft = _Functions("linalg", "linalg_"), _Functions("fft", "fft_")

NAMES = """
Graph Node ScriptFunction ScriptModule ScriptObject Value _VariableFunctions
_distributed_c10d _functions _functorch
"""
__getattr__ = absent("torch._C", NAMES, "Pellucid is written in Python and has no compiled half")
