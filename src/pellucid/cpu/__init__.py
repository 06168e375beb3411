"""The CPU, seen as a device like the others."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from pellucid.cpu import amp

__all__ = [
    "amp", "current_device", "current_stream", "device_count", "is_available", "is_initialized", "set_device", "stream",
    "synchronize",
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


def current_stream(device: Any = None) -> None:
    """There are no streams."""


def stream(stream: Any) -> AbstractContextManager[None]:
    """A context that changes nothing."""
    return nullcontext()
