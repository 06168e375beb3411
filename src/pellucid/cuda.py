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


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Not on a device that is not there."""
    return False


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


def reset_peak_memory_stats(device: Any = None) -> None:
    """Nothing to reset."""


def get_rng_state_all() -> list[Any]:
    """No states."""
    return []


def set_rng_state_all(new_states: Any) -> None:
    """No states."""


def device(device: Any) -> Any:
    """A context that changes nothing."""
    return nullcontext()


# What works only on a device that is there.
REFUSED = frozenset((
    "CUDAGraph", "Event", "Stream", "current_device", "current_stream", "default_stream",
    "get_device_capability", "get_device_name", "get_device_properties", "get_rng_state", "graph", "init",
    "ipc_collect", "mem_get_info", "memory_stats", "memory_summary", "set_device", "set_rng_state", "stream",
))  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "amp":
        return import_module("pellucid.amp")
    if name not in REFUSED:
        raise AttributeError(f"module 'torch.cuda' has no attribute {name!r}")

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            explain(
                f"torch.cuda.{name}: there is no CUDA in Pellucid",
                here().text,
                "Pellucid runs on the CPU",
                "guard the call with `if torch.cuda.is_available():`, or use the device 'cpu'",
            )
        )

    return refuse
