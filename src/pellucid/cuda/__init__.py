"""CUDA, which is not here: scripts that ask get an honest no, and go on on the CPU."""

from contextlib import nullcontext
from importlib import import_module
from typing import Any

from pellucid.core.provenance import here
from pellucid.errors import explain


def is_available() -> bool:
    """False: Pellucid runs on the CPU.

    >>> is_available()
    False
    """
    return False


def device_count() -> int:
    """No devices."""
    return 0


def is_initialized() -> bool:
    """Never."""
    return False


_initialized = False  # what PyTorch's own checkpointing asks for, and libraries that copied it


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Not on a device that is not there."""
    return False


def is_tf32_supported() -> bool:
    """Not on a device that is not there."""
    return False


has_magma = False  # PyTorch was built without that library of CUDA, is what a script reads here


def manual_seed(seed: int) -> None:
    """Nothing to seed: `torch.manual_seed` seeds the CPU."""


manual_seed_all = seed = seed_all = manual_seed


def empty_cache() -> None:
    """Nothing is cached."""


def synchronize(device: Any = None) -> None:
    """Nothing runs elsewhere."""


def memory_allocated(device: Any = None) -> int:
    """No bytes on a device that is not there."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated
memory_cached = max_memory_cached = memory_allocated


def reset_peak_memory_stats(device: Any = None) -> None:
    """Nothing to reset."""


reset_max_memory_allocated = reset_max_memory_cached = reset_accumulated_memory_stats = reset_peak_memory_stats


def is_current_stream_capturing() -> bool:
    """Never."""
    return False


def get_arch_list() -> list[str]:
    """No architectures."""
    return []


class OutOfMemoryError(RuntimeError):
    """What a device that is not there never raises; scripts name it to catch it.

    >>> import pellucid as torch
    >>> try:
    ...     result = torch.ones(2).sum()
    ... except torch.OutOfMemoryError:
    ...     print("a smaller batch, please")
    >>> result
    tensor(2.)
    """


def get_rng_state_all() -> list[Any]:
    """No states."""
    return []


def set_rng_state_all(new_states: Any) -> None:
    """No states."""


def device(device: Any) -> Any:
    """A context that changes nothing."""
    return nullcontext()


device_of = device


# What works only on a device that is there.
REFUSED = frozenset((
    "BoolTensor", "ByteTensor", "CUDAGraph", "DoubleTensor", "Event", "FloatTensor", "HalfTensor", "IntTensor",
    "LongTensor", "Stream", "current_device", "current_stream", "default_stream",
    "get_device_capability", "get_device_name", "get_device_properties", "get_rng_state", "graph", "init",
    "ipc_collect", "mem_get_info", "memory_stats", "memory_summary", "set_device", "set_rng_state", "stream",
))  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in ("amp", "nvtx"):
        return import_module(f"pellucid.cuda.{name}")
    if name not in REFUSED:
        raise AttributeError(f"module 'torch.cuda' has no attribute {name!r}")

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError(
            explain(
                f"torch.cuda.{name}: Torch not compiled with CUDA enabled",
                here().text,
                "Pellucid runs on the CPU",
                "guard the call with `if torch.cuda.is_available():`, or use the device 'cpu'",
            )
        )

    return refuse
