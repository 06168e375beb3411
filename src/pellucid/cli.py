"""The command line: parses and dispatches, nothing else."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pellucid._version import __version__
from pellucid.lab.commands import add_commands
from pellucid.lab.labs.commands import add_lab_commands
from pellucid.lab.terminal import add_command, reported

if TYPE_CHECKING:
    from pellucid.explorer.quiz import Quiz


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `pellucid ...`; returns the exit status.

    >>> main([])  # doctest: +ELLIPSIS
    usage: pellucid ...
    0
    """
    parser = parser_of_commands()
    own, script_arguments = _split(list(sys.argv[1:] if arguments is None else arguments))
    options = parser.parse_args(own)
    if options.command is None:
        parser.print_help()
        return 0
    if script_arguments:
        options.arguments = script_arguments
    return int(options.function(options))


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """What is for us and, after `--`, what is for the script; `run` hands on everything after the script anyway."""
    if "--" not in arguments or arguments[0] == "run":
        return arguments, []
    cut = arguments.index("--")
    return arguments[:cut], arguments[cut + 1 :]


def parser_of_commands() -> argparse.ArgumentParser:
    """The commands and their arguments."""
    parser = argparse.ArgumentParser(prog="pellucid", description="Autograd you can see through.")
    parser.add_argument("--version", action="version", version=f"pellucid {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command")
    _add_run(commands)
    _add_doctor(commands)
    _add_replay(commands)
    _add_explore(commands)
    add_commands(commands)
    add_lab_commands(commands)
    return parser


def _add_run(commands: Any) -> None:
    run = add_command(
        commands, "run", "run a PyTorch script unchanged: its `import torch` gives Pellucid",
        epilog="examples:\n  pellucid run train.py --epochs 3\n  pellucid run --record flight.zip train.py",
    )  # fmt: skip
    run.add_argument(
        "--record", type=new_file, metavar="FILE", help="keep the last steps, and write them to FILE if training fails"
    )
    run.add_argument("script", type=script_file, help="the script")
    rest = run.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script finds in sys.argv")
    rest.required = False  # argparse would ask for them when the script is missing
    run.set_defaults(function=run_command)


def _add_doctor(commands: Any) -> None:
    doctor = add_command(
        commands, "doctor", "run a training script and say what is wrong with it, root cause first",
        usage="pellucid doctor [options] script.py [-- what the script finds in sys.argv]",
        epilog="example:\n  pellucid doctor train.py --steps 200 --json findings.json -- --epochs 3",
    )  # fmt: skip
    doctor.add_argument("script", type=script_file, help="the script")
    doctor.add_argument("--steps", type=positive(int), metavar="N", help="stop after N backward passes")
    doctor.add_argument("--seconds", type=positive(float), metavar="S", help="stop after S seconds")
    doctor.add_argument("--json", type=new_file, metavar="FILE", help="write the findings as JSON")
    doctor.add_argument("--report", type=new_file, metavar="FILE", help="write a post-mortem in markdown")
    doctor.set_defaults(function=reported(doctor_command), arguments=[])


def _add_replay(commands: Any) -> None:
    replay = add_command(commands, "replay", "run a step again that `run --record` or pellucid.Recorder wrote")
    replay.add_argument("file", type=old_file, help="the recording")
    replay.add_argument("--step", type=int, metavar="N", help="the number of the step (default: the last)")
    replay.add_argument("--trace", action="store_true", help="print every operation with its line and its result")
    replay.set_defaults(function=reported(replay_command))


def _add_explore(commands: Any) -> None:
    explore = add_command(
        commands, "explore", "see a graph move in the browser: the playground, an expression, or a script's backward",
        epilog='examples:\n  pellucid explore\n  pellucid explore "(a + b) * b" a=2 b=3\n  pellucid explore train.py',
    )  # fmt: skip
    explore.add_argument("what", nargs="?", default="", help="an expression, or a script.py (default: the playground)")
    explore.add_argument("values", nargs="*", metavar="name=number", help="numbers of its leaves (default: 1)")
    explore.add_argument("--number", type=positive(int), default=1, metavar="N", help="show the script's N-th backward")
    explore.add_argument(
        "--save", type=new_file, metavar="FILE", help="write one self-contained HTML file instead of serving"
    )
    explore.add_argument("--port", type=port, default=0, help="the port on 127.0.0.1 (default: any free one)")
    explore.add_argument("--no-browser", action="store_true", help="only print the address")
    explore.set_defaults(function=explore_command, arguments=[])


# --- arguments, checked before anything runs: a file that cannot be written is noticed before a day of training


def old_file(text: str) -> str:
    """A file that is there."""
    if os.path.isdir(text):
        raise argparse.ArgumentTypeError(f"{text} is a folder, not a file")
    if not os.path.exists(text):
        raise argparse.ArgumentTypeError(f"there is no file {text}")
    return text


def script_file(text: str) -> str:
    """A script that is there, or a folder with a __main__.py."""
    return text if os.path.exists(os.path.join(text, "__main__.py")) else old_file(text)


def new_file(text: str) -> str:
    """A file that can be written."""
    folder = os.path.dirname(text) or "."
    if os.path.isdir(text):
        raise argparse.ArgumentTypeError(f"{text} is a folder, not a file")
    if not os.path.isdir(folder):
        raise argparse.ArgumentTypeError(f"there is no folder {folder} to write to")
    return text


def positive(kind: type) -> Callable[[str], Any]:
    """A number above zero."""

    def read(text: str) -> Any:
        try:
            number = kind(text)
        except ValueError:
            number = 0
        if not number > 0:
            wanted = "a whole number above 0" if kind is int else "a number above 0"
            raise argparse.ArgumentTypeError(f"{wanted} is wanted, not {text!r}")
        return number

    return read


def port(text: str) -> int:
    """The number of a port, 0 for any."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"a number from 0 to 65535 is wanted, not {text!r}")
    return int(text)


# --- commands


def run_command(options: argparse.Namespace) -> int:
    """`pellucid run script.py ...`."""
    from pellucid.shim import run_script

    if options.record is not None:
        from pellucid.diagnose.recorder import record_script

        return record_script(options.script, options.arguments, options.record)
    return run_script(options.script, options.arguments)


def replay_command(options: argparse.Namespace) -> int:
    """`pellucid replay FILE`."""
    from pellucid.diagnose.replay import print_replay

    return print_replay(options.file, options.step, options.trace)


def explore_command(options: argparse.Namespace) -> int:
    """`pellucid explore ...`."""
    from pellucid.explorer.commands import explore_command as run

    return run(options, quiz_for_the_page)


def quiz_for_the_page() -> "Quiz | None":
    """The lab's questions as the explorer asks them; none where the extra `lab` is not installed."""
    from pellucid.explorer.quiz import Quiz
    from pellucid.lab.grading import grade
    from pellucid.lab.phrases import PHRASES
    from pellucid.lab.progress import Progress
    from pellucid.lab.questions import QUIZZES, Question, read_questions
    from pellucid.lab.reading import LabError

    def keep(question: Question, language: str) -> None:
        with Progress.opened() as progress:
            progress.add(question.card(language))

    try:
        return Quiz(read_questions(), grade, keep, PHRASES, QUIZZES)
    except LabError:
        return None


def doctor_command(options: argparse.Namespace) -> int:
    """`pellucid doctor script.py ...`."""
    from pellucid.diagnose.script import examine

    return examine(
        options.script, options.arguments, steps=options.steps, seconds=options.seconds, json_file=options.json,
        report=options.report,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
