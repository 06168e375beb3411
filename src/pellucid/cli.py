"""The command line: parses and dispatches, nothing else."""

import argparse
import sys
from collections.abc import Sequence

from pellucid._version import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `pellucid ...`; returns the exit status.

    >>> main([])  # doctest: +ELLIPSIS
    usage: pellucid ...
    0
    """
    parser = parser_of_commands()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    return int(options.function(options))


def parser_of_commands() -> argparse.ArgumentParser:
    """The commands and their arguments."""
    parser = argparse.ArgumentParser(prog="pellucid", description="Autograd you can see through.")
    parser.add_argument("--version", action="version", version=f"pellucid {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command")
    run = commands.add_parser("run", help="run a PyTorch script unchanged: its `import torch` gives Pellucid")
    run.add_argument("script", help="the script")
    run.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script finds in sys.argv")
    run.set_defaults(function=run_command)
    return parser


def run_command(options: argparse.Namespace) -> int:
    """`pellucid run script.py ...`."""
    from pellucid.shim import run_script

    return run_script(options.script, options.arguments)


if __name__ == "__main__":
    sys.exit(main())
