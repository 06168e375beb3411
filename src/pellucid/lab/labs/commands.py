"""`pellucid lab list | start | check | hint | solution`: their arguments, and what they call."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pellucid.lab.terminal import add_command, is_interactive, reported, tell, typed


def add_lab_commands(commands: Any) -> None:
    """Add `lab` to the commands of `pellucid`."""
    lab = add_command(
        commands, "lab", "learn by building: a starter, a checklist, hints, a solution",
        epilog="examples:\n  pellucid lab list\n  pellucid lab start build-value\n  pellucid lab check build-value",
    )  # fmt: skip
    lab.set_defaults(function=reported(_list))
    actions = lab.add_subparsers(dest="action", metavar="list | start | check | hint | solution")
    add_command(actions, "list", "the labs").set_defaults(function=reported(_list))
    start = _action(actions, "start", "copy the starter into a folder", _start)
    start.add_argument("--force", action="store_true", help="overwrite what is there")
    check = _action(actions, "check", "go through the checklist", _check)
    for parser in (start, check):
        parser.add_argument("--predict", metavar="TEXT", help="answer the lab's question without being asked")
    _action(actions, "hint", "a hint; one more each time", _hint)
    solution = _action(actions, "solution", "show a solution; with --dir, write it into a folder", _solution)
    solution.add_argument("--force", action="store_true", help="overwrite what is there")


def _action(actions: Any, name: str, help: str, function: Callable[[argparse.Namespace], int]) -> Any:
    parser = add_command(actions, name, help)
    parser.add_argument("name", metavar="NAME", help="the name of the lab")
    parser.add_argument("--dir", metavar="D", help="your folder (default: the lab's name)")
    parser.set_defaults(function=reported(function))
    return parser


def _list(options: argparse.Namespace) -> int:
    from pellucid.lab.labs.lab import all_labs

    for lab in all_labs():
        print(f"{lab.name:<24} {lab.title}")
    print("\nBegin with: pellucid lab start NAME")
    return 0


def _start(options: argparse.Namespace) -> int:
    from pellucid.lab.labs.folder import folder_of, start
    from pellucid.lab.labs.lab import find

    lab = find(options.name)
    folder = folder_of(lab, options.dir)
    written = start(lab, folder, options.force)
    tell(f"# {lab.title}\n\n{lab.lesson}", paragraphs=True)
    tell("\nYou succeed when:\n" + "\n".join(f"[ ] {criterion.text}" for criterion in lab.criteria))
    tell("\nwritten: " + ", ".join(map(str, written)))
    where = f" --dir {folder}" if options.dir is not None else ""
    if not _prediction(lab, folder, options.predict):
        tell(f"Answer with --predict TEXT, or when `pellucid lab check {lab.name}{where}` asks.")
    tell(f"\nNow work in {folder}. `pellucid lab check {lab.name}{where}` says how far you are; `hint` helps.")
    return 0


def _prediction(lab: Any, folder: Path, given: str | None) -> str:
    """The learner's prediction: remembered, given now, or asked for at a terminal."""
    from pellucid.lab.labs.folder import save, state_of

    state = state_of(lab, folder)
    if state.prediction:
        if given is not None:
            tell(f"Your prediction stays: {state.prediction}")
        return state.prediction
    tell(f"\nPredict, before you run anything.\n{lab.question}", paragraphs=True)
    if given is None and is_interactive():
        given = typed("> ")
    state.prediction = (given or "").strip()
    if state.prediction:
        save(folder, state)
        tell(f"Noted: {state.prediction}")
    return state.prediction


def _check(options: argparse.Namespace) -> int:
    from pellucid.lab.labs.folder import compared, folder_of, state_of
    from pellucid.lab.labs.lab import find
    from pellucid.lab.labs.running import Outcome, check

    lab = find(options.name)
    folder = folder_of(lab, options.dir)
    state_of(lab, folder)  # a folder that was not started is told before anything is asked
    prediction = _prediction(lab, folder, options.predict)
    result = check(lab, folder)
    all_met, missing = result.passed, "answer the question above: --predict TEXT"
    result.outcomes.append(
        Outcome("you made a prediction before the reveal", bool(prediction), "" if prediction else missing)
    )
    tell(f"\n{lab.title}: {sum(o.met for o in result.outcomes)} of {len(result.outcomes)}")
    tell("\n".join(map(str, result.outcomes)))
    if not all_met and result.printed:
        tell("\nyour program printed:\n" + result.printed)
    if all_met and prediction:
        tell("\n" + compared(lab, prediction), paragraphs=True)
    return 0 if result.passed else 1


def _hint(options: argparse.Namespace) -> int:
    from pellucid.lab.labs.folder import folder_of, next_hint
    from pellucid.lab.labs.lab import find

    lab = find(options.name)
    tell(next_hint(lab, folder_of(lab, options.dir)), paragraphs=True)
    return 0


def _solution(options: argparse.Namespace) -> int:
    from pellucid.lab.labs.folder import write_files
    from pellucid.lab.labs.lab import find

    lab = find(options.name)
    if options.dir is not None:
        written = write_files(lab.solution, Path(options.dir), options.force)
        print("written: " + ", ".join(map(str, written)))
    else:
        print("\n".join(f"# --- {name}\n{text}" for name, text in lab.solution.items()))
    return 0
