"""Several processes, which are not supported: scripts that ask get an honest no."""

from typing import Any


def is_available() -> bool:
    """False.

    >>> is_available()
    False
    """
    return False


def is_initialized() -> bool:
    """False: there is one process."""
    return False


is_torchelastic_launched = is_nccl_available = is_gloo_available = is_mpi_available = is_initialized


def get_rank(group: Any = None) -> int:
    """0: there is one process."""
    return 0


def get_world_size(group: Any = None) -> int:
    """1: there is one process."""
    return 1


def init_process_group(*args: Any, **kwargs: Any) -> None:
    """Refused."""
    raise RuntimeError("Pellucid trains in one process: torch.distributed is not available")


def barrier(*args: Any, **kwargs: Any) -> None:
    """Nobody to wait for."""


def destroy_process_group(*args: Any, **kwargs: Any) -> None:
    """Nothing to end."""
