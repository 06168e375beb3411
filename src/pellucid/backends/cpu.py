"""The CPU."""

import platform


def get_cpu_capability() -> str:
    """What the processor calls itself."""
    return platform.machine()
