"""A learner's program in a process of its own: with a limit of time and of what it may write, and an end for sure."""

import math
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from pellucid.errors import printable

__all__ = ["bounded", "run", "run_within", "tail"]

PATIENCE = 3  # on a busy machine a second of work takes so many of the clock's
HOME = str(Path(__file__).resolve().parents[2])  # where this Pellucid is, for the process to find the same one


def run(arguments: list[str], folder: Path, printed: Path, limit: float) -> int | None:
    """Run Python with these arguments in a folder; its exit status, or None if it had to be stopped.

    The limit is in seconds of work, so that a program is not blamed for others that keep the machine busy. It is a
    session of its own, and is ended together with all that it started, such as the runs of mutants.
    """
    with open(printed, "wb") as out:
        process = subprocess.Popen([sys.executable, *arguments], **_options(folder, out), start_new_session=True)
        try:
            return _status(process, limit)
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()
            process.wait()


def run_within(arguments: list[str], folder: Path, printed: Path, limit: float) -> int | None:
    """The same for a run that one of these processes starts: it stays in that session, and ends with it."""
    with open(printed, "wb") as out:
        process = subprocess.Popen([sys.executable, *arguments], **_options(folder, out))
        try:
            return _status(process, limit)
        finally:
            process.kill()
            process.wait()


def _options(folder: Path, out: BinaryIO) -> dict[str, Any]:
    paths = os.pathsep.join(filter(None, [HOME, os.environ.get("PYTHONPATH")]))
    environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **os.environ, "PYTHONPATH": paths}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    return {
        "stdin": subprocess.DEVNULL, "stdout": out, "stderr": subprocess.STDOUT, "cwd": folder, "env": environment,
    }  # fmt: skip


def _status(process: "subprocess.Popen[bytes]", limit: float) -> int | None:
    """How a process ended, or None if it took longer than it may."""
    by_work = _limited(process.pid, limit)
    try:
        status = process.wait(limit * PATIENCE if by_work else limit)
    except subprocess.TimeoutExpired:
        return None
    return None if by_work and status == -signal.SIGXCPU else status


def _limited(process: int, limit: float) -> bool:
    """Bound the time of work of a process, which SIGXCPU then ends, without a dump of its memory; only Linux can."""
    try:
        from resource import RLIMIT_CORE, RLIMIT_CPU, prlimit
    except ImportError:
        return False
    seconds = math.ceil(limit)
    with suppress(
        ProcessLookupError, PermissionError, ValueError
    ):  # it has ended, or a lower bound is in force already
        prlimit(process, RLIMIT_CPU, (seconds, seconds + 5))
        prlimit(process, RLIMIT_CORE, (0, 0))
    return True


def tail(file: Path) -> str:
    """The end of what was printed, without what would move the terminal's cursor."""
    text = file.read_bytes()[-2_000:].decode("utf-8", "replace")
    return printable(text)


def bounded(size: int) -> None:
    """From now on no file that this process writes may grow beyond a size: it must not fill the disk."""
    with suppress(ImportError, ValueError):  # not on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
