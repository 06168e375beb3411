"""The learner's terminal: text that fits its width, lines that are typed, and an end without a traceback."""

import argparse
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable
from typing import Any

from pellucid.lab.reading import LabError

WIDEST = 100  # longer lines are hard to read
INDENT = re.compile(r" *(?:\[.\] |- |\w\) )?")
INTERRUPTED = 130  # the exit status of a program that was ended with Ctrl-C


def tell(text: str = "", *, paragraphs: bool = False) -> None:
    """Print a text: in a terminal, its lines are broken between words to fit; elsewhere it stays as it is.

    `paragraphs`: the text is markdown, whose paragraphs were broken into lines already.
    """
    if sys.stdout.isatty():
        width = min(shutil.get_terminal_size().columns, WIDEST)
        text = fitted(joined(text) if paragraphs else text, width)
    print(text, flush=True)


def fitted(text: str, width: int) -> str:
    """A text with no line longer than a width (unless a word is); what is broken is indented like its line.

    >>> print(fitted("  a) one two three\\n\\nfour", 12))
      a) one two
         three
    <BLANKLINE>
    four
    """
    return "\n".join(_broken(line, width) for line in text.split("\n"))


def _broken(line: str, width: int) -> str:
    beginning = INDENT.match(line)
    indent = " " * (beginning.end() if beginning else 0)
    if len(line) <= width:
        return line
    return textwrap.fill(
        line, max(width, len(indent) + 20), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def joined(markdown: str) -> str:
    """Markdown with each paragraph on one line; lists, tables and code keep their lines.

    >>> joined("one\\ntwo\\n\\n- three\\n- four")
    'one two\\n\\n- three\\n- four'
    """
    lines: list[str] = []
    for line in markdown.split("\n"):
        plain = line[:1].isalnum() or line[:1] in ("`", "(", '"', "*")
        if plain and lines and lines[-1] and not lines[-1].startswith((" ", "|", "#")):
            lines[-1] += f" {line}"
        else:
            lines.append(line)
    return "\n".join(lines)


def typed(prompt: str) -> str | None:
    """A line that the learner types; None at the end of the input and on Ctrl-C."""
    try:
        return input(prompt)
    except (EOFError, KeyboardInterrupt, RuntimeError):  # input() says RuntimeError where there is no stdin at all
        print()
        return None


def is_interactive() -> bool:
    """Whether somebody can answer."""
    return sys.stdin is not None and sys.stdin.isatty()


def reported(action: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """A command whose troubles with the user's files and names are told without a traceback."""

    def command(options: argparse.Namespace) -> int:
        try:
            status = action(options)
            sys.stdout.flush()
            return status
        except BrokenPipeError:  # as of `pellucid drill --list | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except (LabError, OSError) as error:
            print(f"pellucid: {error}", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            print("\npellucid: stopped", file=sys.stderr)
            return INTERRUPTED

    return command


def add_command(commands: Any, name: str, purpose: str, **texts: Any) -> argparse.ArgumentParser:
    """A command of a parser: its purpose stands in the list of all commands and above its own help."""
    return commands.add_parser(  # type: ignore[no-any-return]
        name, help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter, **texts,
    )  # fmt: skip


def count(text: str) -> int:
    """A number of things on the command line.

    >>> count("10")
    10
    """
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"0 or more is wanted, not {text!r}")
    return int(text)
