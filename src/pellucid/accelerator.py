"""Accelerators, of which there is none: the CPU does the work."""

from typing import Any, NoReturn

from pellucid.core.provenance import here
from pellucid.errors import explain


def is_available() -> bool:
    """False: Pellucid runs on the CPU."""
    return False


def device_count() -> int:
    """No devices."""
    return 0


def current_accelerator(check_available: bool = False) -> Any:
    """None."""
    return None


def synchronize(device: Any = None) -> None:
    """Nothing runs elsewhere."""


def set_device_index(device: Any, /) -> NoReturn:
    """Refused, as by a PyTorch without accelerators: there is no device to choose."""
    raise RuntimeError(
        explain(
            "Cannot access accelerator device when none is available.",
            str(here()),
            "Pellucid runs on the CPU",
            "guard the call with `if torch.accelerator.is_available():`",
        )
    )


set_device_idx = set_stream = set_device_index


def current_stream(device: Any = None, /) -> NoReturn:
    """Refused: there is none, nor memory of one."""
    set_device_index(device)


get_device_capability = get_memory_info = current_stream
max_memory_allocated = max_memory_reserved = memory_allocated = memory_reserved = memory_stats = current_stream
reset_accumulated_memory_stats = reset_peak_memory_stats = current_stream


def empty_cache() -> NoReturn:
    """Refused: there is none."""
    set_device_index(None)


empty_host_cache = empty_cache


def current_device_index() -> NoReturn:
    """Refused: there is none."""
    set_device_index(None)


current_device_idx = current_device_index


class device_index:
    """A block on another device, refused when it begins; nothing happens if the index is None.

    >>> with device_index(None):
    ...     print("on the CPU")
    on the CPU
    """

    def __init__(self, device: int | None, /) -> None:
        self.index = device

    def __enter__(self) -> None:
        if self.index is not None:
            set_device_index(self.index)

    def __exit__(self, *error: object) -> None:
        pass
