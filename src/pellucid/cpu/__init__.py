"""The CPU, seen as a device like the others."""

import platform
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pellucid.cpu import amp

__all__ = [
    "Stream", "StreamContext", "amp", "current_device", "current_stream", "device_count", "get_capabilities",
    "is_available", "is_initialized", "set_device", "stream", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """True.

    >>> is_available()
    True
    """
    return True


is_initialized: Callable[[], bool] = is_available


def device_count() -> int:
    """One."""
    return 1


def current_device() -> str:
    """The CPU."""
    return "cpu"


def set_device(device: Any) -> None:
    """Nothing to choose from."""


def synchronize(device: Any = None) -> None:
    """Nothing runs elsewhere."""


class Stream:
    """The one order of work that there is."""

    def __init__(self, priority: int = -1) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        """Nothing runs elsewhere."""


ONLY = Stream()


def current_stream(device: Any = None) -> Stream:
    """The only one."""
    return ONLY


def stream(stream: Any) -> AbstractContextManager[None]:
    """A context that changes nothing."""
    return nullcontext()


StreamContext = stream


@lru_cache(maxsize=1)
def get_capabilities() -> Mapping[str, Any]:
    """The architecture, and the instructions that the system says the processor has.

    >>> "architecture" in get_capabilities()
    True
    """
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith(("flags", "Features"))), [])
    return MappingProxyType({"architecture": platform.machine(), **dict.fromkeys(flags, True)})
