"""torch._C, PyTorch's compiled half, which is not here; a few names that libraries touch when they are imported."""

from typing import Any

from pellucid.absent import absent
from pellucid.core.tensor import Tensor as TensorBase
from pellucid.dtypes import device, dtype, layout, memory_format
from pellucid.interop.subclasses import disabled_torch_function, nobody_asked
from pellucid.ops.streams import Generator

__all__ = [
    "DisableTorchFunction", "DisableTorchFunctionSubclass", "Generator", "TensorBase", "device", "dtype", "layout",
    "memory_format",
]  # fmt: skip

_TensorBase = TensorBase
DisableTorchFunction = DisableTorchFunctionSubclass = nobody_asked
_disabled_torch_function_impl = disabled_torch_function


def _log_api_usage_once(*args: Any) -> None:
    """Nothing is logged."""


def _get_tracing_state() -> None:
    """Nothing is traced."""


NAMES = """
DispatchKey DispatchKeySet Graph Node ScriptFunction ScriptModule ScriptObject Value _VariableFunctions
_distributed_c10d _functions _functorch _nn
"""
__getattr__ = absent("torch._C", NAMES, "Pellucid is written in Python and has no compiled half")
