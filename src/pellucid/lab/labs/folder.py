"""The learner's folder: the starter's files, the prediction, and how many hints were given."""

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from pellucid.errors import explain
from pellucid.lab.labs.lab import Lab
from pellucid.lab.reading import LabError
from pellucid.serialization.atomic import write_bytes

STATE = ".pellucid-lab.json"
NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")


@dataclass(slots=True)
class State:
    """What is remembered of a learner's work on a lab."""

    lab: str
    prediction: str = ""
    hints: int = 0


def folder_of(lab: Lab, given: str | None) -> Path:
    """Where the learner works: the folder that was given, this one if the lab was started in it, or one of its name."""
    if given is not None:
        return Path(given)
    return Path() if not Path(lab.name).exists() and _started(lab, Path()) else Path(lab.name)


def _started(lab: Lab, folder: Path) -> bool:
    try:
        return state_of(lab, folder).lab == lab.name
    except LabError:
        return False


def start(lab: Lab, folder: Path, force: bool = False) -> list[Path]:
    """Copy the starter; a file that is there already is overwritten only by force, and without it nothing is."""
    known = (folder / STATE).exists()
    if known:
        state_of(lab, folder)  # a folder of another lab is refused before anything is written
    written = write_files({"README.md": readme(lab), **lab.files}, folder, force)
    if not known:
        save(folder, State(lab.name))
    return written


def write_files(files: dict[str, str], folder: Path, force: bool) -> list[Path]:
    """Write files into a folder, all or (if one would be overwritten without force) none."""
    if folder.exists() and not folder.is_dir():
        raise LabError(explain(f"{folder} is a file", try_="--dir with the name of a folder"))
    there = [name for name in files if (folder / name).exists()]
    if there and not force:
        why = f"{', '.join(there)} would be overwritten"
        raise LabError(explain(f"{folder} has been started already", why=why, try_="--force, or another --dir"))
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write_bytes(folder / name, text.encode())
    return [folder / name for name in files]


def readme(lab: Lab) -> str:
    """What to do, for the learner's folder."""
    files = "\n".join(f"- `{name}`" for name in lab.files)
    boxes = "\n".join(f"- [ ] {criterion.text}" for criterion in lab.criteria)
    return (
        f"# {lab.title}\n\n{lab.lesson}\n\n## Predict first\n\n{lab.question}\n\n## Files\n\n{files}\n\n"
        f"## Success criteria\n\n{boxes}\n- [ ] you made a prediction before the reveal\n\n"
        f"`pellucid lab check {lab.name}` goes through this list; `pellucid lab hint {lab.name}` gives a hint.\n"
    )


def state_of(lab: Lab, folder: Path) -> State:
    """What is remembered of the work in a folder; a LabError if the lab was not started there."""
    file = folder / STATE
    try:
        found = State(**json.loads(file.read_text(encoding="utf-8")))
        valid = isinstance(found.prediction, str) and type(found.hints) is int and found.hints >= 0
    except FileNotFoundError:
        what = f"the lab {lab.name} was not started in {folder}"
        raise LabError(explain(what, try_=f"pellucid lab start {lab.name} --dir {folder}")) from None
    except NotADirectoryError:
        raise LabError(explain(f"{folder} is a file", try_="--dir with the name of a folder")) from None
    except (ValueError, TypeError):
        valid = False
    if not valid:
        why = "it remembers your prediction and how many hints you saw"
        raise LabError(explain(f"{file} cannot be read", why=why, try_="remove it and start again with --force"))
    if found.lab != lab.name:
        raise LabError(explain(f"{folder} is a folder of the lab {found.lab!r}, not of {lab.name!r}", try_="--dir"))
    return found


def save(folder: Path, state: State) -> None:
    """Remember."""
    write_bytes(folder / STATE, (json.dumps(asdict(state), indent=2) + "\n").encode())


def next_hint(lab: Lab, folder: Path) -> str:
    """One hint more than the last time, with those before it; after the last one it is told that there are no more."""
    state = state_of(lab, folder)
    more = state.hints < len(lab.hints)
    if more:
        state.hints += 1
        save(folder, state)
    shown = [f"hint {i} of {len(lab.hints)}: {text}" for i, text in enumerate(lab.hints[: state.hints], 1)]
    end = [] if more else [f"There are no more hints; `pellucid lab solution {lab.name}` shows a solution."]
    return "\n\n".join(shown + end)


def agrees(answer: str, truth: str) -> bool:
    """Whether a prediction came true: its numbers are those of the truth within 2 %, or it has the truth's word.

    >>> agrees("7, I think", "7"), agrees("6", "7"), agrees("by norm", "norm")
    (True, False, True)
    """
    wanted, given = NUMBER.findall(truth), NUMBER.findall(answer)
    if not wanted:
        return truth.casefold() in answer.casefold()
    close = [abs(float(a) - float(b)) <= 0.02 * abs(float(b)) + 1e-12 for a, b in zip(given, wanted)]
    return len(given) == len(wanted) and all(close)


def compared(lab: Lab, prediction: str) -> str:
    """A prediction against the truth, which is computed now."""
    truth = lab.checks.truth()
    verdict = (
        "as you said" if agrees(prediction, truth) else "not what you expected: that is where something is learned"
    )
    return f"you predicted: {prediction}\nthe truth:     {truth} ({verdict})\n\n{lab.reveal}"
