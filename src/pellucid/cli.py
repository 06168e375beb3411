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
    parser = argparse.ArgumentParser(prog="pellucid", description="Autograd you can see through.")
    parser.add_argument("--version", action="version", version=f"pellucid {__version__}")
    parser.parse_args(arguments)
    parser.print_help()
    return 0


if __name__ == "__main__":
    sys.exit(main())
