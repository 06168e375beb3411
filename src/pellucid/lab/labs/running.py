"""Checking a learner's work in a process of its own, with a time limit.

    python -P -m pellucid.lab.labs.running LAB FOLDER RESULT

is that process: it goes through the lab's criteria and writes a line of JSON to the file RESULT after each of them, so
that the one who waits knows how far it came when it had to be stopped.
"""

import importlib
import json
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pellucid.lab.elsewhere import bounded, run, tail
from pellucid.lab.labs.lab import Lab, Unmet, expect, find

LIMIT = 30.0  # seconds for all criteria of a lab together
WRITTEN = 50_000_000  # bytes that a program may write to one file, or print


@dataclass(frozen=True, slots=True)
class Outcome:
    """A line of the checklist after the check; the reason says why it is not met."""

    text: str
    met: bool
    reason: str = ""

    def __str__(self) -> str:
        mark = "[x]" if self.met else "[ ]"
        return f"{mark} {self.text}" + "".join(f"\n      {line}" for line in self.reason.splitlines())


@dataclass(slots=True)
class Result:
    """The outcome of every criterion, and what the learner's program printed."""

    outcomes: list[Outcome]
    printed: str = ""

    @property
    def passed(self) -> bool:
        return all(outcome.met for outcome in self.outcomes)


def check(lab: Lab, folder: Path, limit: float = LIMIT) -> Result:
    """Go through the criteria of a lab for the work in a folder."""
    with tempfile.TemporaryDirectory(prefix="pellucid-lab-") as scratch:
        lines, printed = Path(scratch) / "lines.jsonl", Path(scratch) / "printed.txt"
        lines.touch()
        command = ["-P", "-m", "pellucid.lab.labs.running", lab.name, str(folder.resolve()), str(lines)]
        status = run(command, folder, printed, limit)
        return Result(_outcomes(lab, read_lines(lines), status, limit), tail(printed).strip())


def read_lines(file: Path) -> list[Any]:
    """The lines of JSON of a file; the last one may have been cut off."""
    whole = file.read_text(encoding="utf-8").rpartition("\n")[0]
    return [json.loads(line) for line in whole.splitlines()]


def _outcomes(lab: Lab, done: list[dict[str, Any]], status: int | None, limit: float) -> list[Outcome]:
    """What was written, and for the criteria that were not reached, why."""
    stopped = f"stopped after {limit:g} seconds" if status is None else f"your program ended the process ({status})"
    outcomes = []
    for i, criterion in enumerate(lab.criteria):
        if i < len(done):
            outcomes.append(Outcome(criterion.text, done[i]["met"], done[i]["reason"]))
        else:
            outcomes.append(Outcome(criterion.text, False, stopped if i == len(done) else "not reached"))
    return outcomes


# --- inside the process


class Work:
    """The learner's work as the criteria see it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def module(self, file: str) -> ModuleType:
        """A file of the learner's as a module."""
        expect((self.folder / file).is_file(), f"{file} is missing")
        return importlib.import_module(file.removesuffix(".py"))

    def named(self, file: str, name: str) -> Any:
        """What a file of the learner's defines under a name."""
        found = getattr(self.module(file), name, None)
        expect(found is not None, f"{file} defines no {name}")
        return found

    def text(self, file: str) -> str:
        """What a file says."""
        expect((self.folder / file).is_file(), f"{file} is missing")
        return (self.folder / file).read_text(encoding="utf-8")


def judge(lab: Lab, folder: Path, lines: Path) -> None:
    """Go through the criteria in this process."""
    from pellucid.shim import as_torch

    bounded(WRITTEN)
    sys.path.insert(0, str(folder))
    with as_torch(), open(lines, "a", encoding="utf-8") as out:
        for criterion in lab.criteria:
            reason = _reason(criterion.check, Work(folder))
            print(json.dumps({"met": not reason, "reason": reason}), file=out, flush=True)


def _reason(criterion: Any, work: Work) -> str:
    """Why a criterion does not hold; empty if it does."""
    try:
        criterion(work)
    except Unmet as unmet:
        return str(unmet)
    except SyntaxError as error:
        return f"{Path(error.filename or '?').name}:{error.lineno}: {type(error).__name__}: {error.msg}"
    except (Exception, SystemExit) as error:
        return told(error, work.folder)
    return ""


def told(error: BaseException, folder: Path) -> str:
    """An error with the learner's line that it came from.

    >>> told(ZeroDivisionError("division by zero"), Path("nowhere"))
    'ZeroDivisionError: division by zero'
    """
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).parent == folder]
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}: " if frames else ""
    if isinstance(error, NotImplementedError) and frames:
        return f"{place}{frames[-1].name} is not written yet"
    return place + "".join(traceback.format_exception_only(error)).strip()


if __name__ == "__main__":
    judge(find(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
