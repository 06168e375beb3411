"""A learner's program in a process of its own: with a limit of time and of what it may write, and an end for sure."""

import math
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from pellucid.errors import printable

__all__ = ["bounded", "run", "tail"]

PATIENCE = 3  # on a busy machine a second of work takes so many of the clock's
HOME = str(Path(__file__).resolve().parents[2])  # where this Pellucid is, for the process to find the same one


def run(arguments: list[str], folder: Path, printed: Path, limit: float, session: bool = True) -> int | None:
    """Run Python with these arguments in a folder; its exit status, or None if it had to be stopped.

    The limit is in seconds of work, so that a program is not blamed for others that keep the machine busy. As a session
    of its own it is ended together with all that it started, such as the runs of mutants.
    """
    paths = os.pathsep.join(filter(None, [HOME, os.environ.get("PYTHONPATH")]))
    environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **os.environ, "PYTHONPATH": paths}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    with open(printed, "wb") as out:
        process = subprocess.Popen(
            [sys.executable, *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd=folder,
            env=environment, start_new_session=session,
        )  # fmt: skip
        try:
            by_work = _limited(process.pid, limit)
            status = process.wait(limit * PATIENCE if by_work else limit)
            return None if by_work and status == -signal.SIGXCPU else status
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL) if session and hasattr(os, "killpg") else process.kill()
            process.wait()


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
