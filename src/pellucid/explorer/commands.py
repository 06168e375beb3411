"""`pellucid explore`: a playground, an expression, or the graph of a script's backward pass."""

import argparse
import os
import time
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pellucid.core.tensor import Tensor
from pellucid.errors import printable
from pellucid.explorer.examples import seen_examples
from pellucid.explorer.expression import ExpressionError, value_of
from pellucid.explorer.page import page
from pellucid.explorer.quiz import Quiz
from pellucid.explorer.server import Server
from pellucid.explorer.snapshot import Seen, look
from pellucid.explorer.watch import watching
from pellucid.shim import run_script

__all__ = ["explore_command"]


class Enough(BaseException):
    """The pass to be shown has been seen; not an Exception, so that a script's own handlers let it through."""


def explore_command(options: argparse.Namespace, quiz: Callable[[], Quiz | None] = lambda: None) -> int:
    """`pellucid explore [script.py | expression] [name=number ...]`; the playground also asks a quiz."""
    try:
        seen = _asked_for(options)
    except (ExpressionError, OSError) as error:
        print(f"pellucid explore: {printable(str(error))}")
        return 2
    title = seen[0].data["title"] if options.what else "Pellucid playground"
    asked = None if options.what else quiz()
    if options.save:
        told = None if asked is None else asked.as_json(key=True)
        Path(options.save).write_text(page([each.data for each in seen], title, quiz=told), encoding="utf-8")
        print(f"written: {options.save}")
        return 0
    return _serve(seen, title, options, asked)


def _asked_for(options: argparse.Namespace) -> Sequence[Seen]:
    if not options.what:
        return seen_examples()
    if options.what.endswith(".py"):
        return [_of_script(options.what, options.arguments, options.number)]
    return [look(value_of(options.what, _values(options.values)), scope={}, title=options.what)]


def _values(pairs: Sequence[str]) -> dict[str, float]:
    """Numbers by name, from `a=2 b=-1.5`."""
    values = {}
    for pair in pairs:
        name, _, number = pair.partition("=")
        try:
            values[name] = float(number)
        except ValueError:
            raise ExpressionError(f"{pair}: write name=number, for example a=2") from None
    return values


def _of_script(path: str, arguments: Sequence[str], number: int) -> Seen:
    """Run a script until it calls backward for the n-th time, and look at that graph."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no file {path}")
    found: list[Seen] = []
    kind: Any = Tensor  # rows and attributes give a tensor its methods: mypy knows none of them
    original = kind.backward

    def backward(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        count[0] += 1
        if count[0] == number:
            found.append(look(self, watch=watch, title=f"{os.path.basename(path)}, backward {number}"))
            raise Enough
        return original(self, *args, **kwargs)

    count = [0]
    with watching() as watch:
        kind.backward = backward
        try:
            run_script(path, arguments)
        except Enough:
            pass
        finally:
            kind.backward = original
    if not found:
        raise ExpressionError(f"{path} called backward {count[0]} times, so there is no number {number} to show")
    return found[0]


def _serve(seen: Sequence[Seen], title: str, options: argparse.Namespace, quiz: Quiz | None) -> int:
    data, programs = [each.data for each in seen], [each.program for each in seen]
    with Server(data, title, options.port, programs, quiz) as server:
        print(f"open {server.url}\nCtrl-C ends it", flush=True)
        if not options.no_browser:
            webbrowser.open(server.url)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            return 0
