"""`pellucid explore`: a playground, an expression, or the graph of a script's backward pass."""

import argparse
import os
import sys
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
        return _explore(options, quiz)
    except (ExpressionError, OSError) as error:
        print(f"pellucid explore: {printable(str(error))}", file=sys.stderr)
        return 2


def _explore(options: argparse.Namespace, quiz: Callable[[], Quiz | None]) -> int:
    seen = _asked_for(options)
    title = seen[0].data["title"] if options.what else "Pellucid playground"
    asked = None if options.what else quiz()
    if options.save:
        told = None if asked is None else asked.as_json(key=True)
        Path(options.save).write_text(page([each.data for each in seen], title, quiz=told), encoding="utf-8")
        print(f"written: {printable(str(options.save))}")
        return 0
    return _serve(seen, title, options, asked)


def _asked_for(options: argparse.Namespace) -> Sequence[Seen]:
    if not options.what:
        return seen_examples()
    if options.what.endswith(".py"):
        return [_of_script(options.what, options.arguments, options.number)]
    values = _values(options.values)
    result = value_of(options.what, values)
    unused = set(values) - {value.label for value in result.graph()}
    if unused:
        raise ExpressionError(f"{', '.join(sorted(unused))} is not a name in {options.what}")
    return [look(result, scope={}, title=options.what)]


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
            title = f"{os.path.basename(path)}, backward {number}"
            found.append(look(self, watch=watch, title=title, times=True))
            raise Enough
        return original(self, *args, **kwargs)

    count = [0]
    with watching() as watch:
        kind.backward = backward
        try:
            failed = run_script(path, arguments)
        except Enough:
            failed = 0
        finally:
            kind.backward = original
    if not found:
        ending = "stopped with the error above and" if failed else "ended and"
        raise ExpressionError(f"{path} {ending} called backward {count[0]} times: there is no number {number} to show")
    return found[0]


def _serve(seen: Sequence[Seen], title: str, options: argparse.Namespace, quiz: Quiz | None) -> int:
    data, programs = [each.data for each in seen], [each.program for each in seen]
    try:
        started = Server(data, title, options.port, programs, quiz)
    except OSError as error:
        raise OSError(f"port {options.port}: {error.strerror}; leave --port out to have a free one chosen") from None
    with started as server:
        print(f"open {server.url}\nCtrl-C ends it", flush=True)
        if not options.no_browser:
            webbrowser.open(server.url)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            return 0
