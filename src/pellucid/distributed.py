"""Several processes, which are not supported: scripts that ask get an honest no."""

from typing import Any

from pellucid.absent import absent, absent_module


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


NAMES = """
Backend DeviceMesh FileStore PrefixStore ProcessGroup ReduceOp Store TCPStore Work all_gather
all_gather_into_tensor all_gather_object all_reduce all_to_all all_to_all_single broadcast
broadcast_object_list gather gather_object get_backend group init_device_mesh irecv isend monitored_barrier
new_group recv reduce reduce_scatter reduce_scatter_tensor scatter scatter_object_list send
"""
MODULES = "algorithms autograd checkpoint elastic fsdp nn optim pipelining rpc tensor"
WHY = "Pellucid trains in one process", "guard it with `if torch.distributed.is_available():`"


def __getattr__(name: str) -> Any:
    if name in MODULES.split():
        return absent_module(f"torch.distributed.{name}", *WHY)
    return absent("torch.distributed", NAMES, *WHY)(name)
