"""torch.multiprocessing: Python's own, with processes that are forked.

A forked process has the program's tensors, and those moved by `share_memory_` stay common to all. Tensors that go
through a queue or a pipe are copied. "spawn" and "forkserver" are accepted and fork too: a process that starts anew
would not know that `torch` means Pellucid. Where there is no fork the platform's own way is used.
"""

import multiprocessing as _standard
from collections.abc import Sequence
from multiprocessing import *  # noqa: F403
from typing import Any

_METHOD = "fork" if "fork" in _standard.get_all_start_methods() else "spawn"
_context: Any = _standard.get_context(_METHOD)
for _name in (
    "Array", "Barrier", "BoundedSemaphore", "Condition", "Event", "JoinableQueue", "Lock", "Manager", "Pipe", "Pool",
    "Process", "Queue", "RLock", "RawArray", "RawValue", "Semaphore", "SimpleQueue", "Value",
):  # fmt: skip
    globals()[_name] = getattr(_context, _name)


def set_start_method(method: str | None, force: bool = False) -> None:  # type: ignore[no-redef]
    """Accepted; processes are forked."""
    if method not in (None, "fork", "spawn", "forkserver"):
        raise ValueError(f"cannot find context for {method!r}")


def get_start_method(allow_none: bool = False) -> str:  # type: ignore[no-redef]
    """How processes are started."""
    return _METHOD


def get_context(method: str | None = None) -> Any:  # type: ignore[no-redef]
    """Everything of this module for one way of starting processes, which is always to fork."""
    set_start_method(method)
    return _context


def set_sharing_strategy(new_strategy: str) -> None:
    """Accepted: shared memory is anonymous and needs neither names nor descriptors."""


def get_sharing_strategy() -> str:
    """The name of PyTorch's default."""
    return "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """The names of PyTorch's strategies."""
    return {"file_descriptor", "file_system"}


class ProcessRaisedException(Exception):
    """A process that `spawn` started failed."""


class ProcessContext:
    """The processes that `spawn` started."""

    def __init__(self, processes: Sequence[Any]) -> None:
        self.processes = list(processes)

    def pids(self) -> list[int]:
        """The processes' numbers."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None) -> bool:
        """Wait for all; True when they have ended, an error that names the one that failed."""
        for index, process in enumerate(self.processes):
            process.join(timeout)
            if process.exitcode not in (0, None):
                for other in self.processes:
                    other.terminate()
                raise ProcessRaisedException(f"process {index} terminated with exit code {process.exitcode}")
        return all(process.exitcode is not None for process in self.processes)


SpawnContext = ProcessContext


def start_processes(
    fn: Any, args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """Run fn(i, *args) in `nprocs` processes."""
    processes = [_context.Process(target=fn, args=(i, *args), daemon=daemon) for i in range(nprocs)]
    for process in processes:
        process.start()
    started = ProcessContext(processes)
    if not join:
        return started
    started.join()
    return None


spawn = start_processes
