"""Accelerators, of which there is none: the CPU does the work."""

from typing import Any


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
