"""What a page may ask the Pellucid behind it: a local server or a notebook. Four questions, and no fifth.

expression   the graph of some typed arithmetic; it is read with an allow-list, not run
change       the numbers of a graph after some of its leaves were changed
answer       the verdict on an answer to a quiz question; a program that answers one is run, as by `pellucid quiz`
card         keep a quiz question as a drill card
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pellucid.explorer.expression import LARGEST, ExpressionError, is_ordinary, value_of
from pellucid.explorer.program import Program
from pellucid.explorer.quiz import Quiz
from pellucid.explorer.snapshot import changed, snapshot

__all__ = ["Answers"]


class Answers:
    """Answers a page: `answers("expression", {"text": "a * b"})`; what cannot be answered is a ValueError."""

    def __init__(self, programs: Sequence[Program | None] = (), quiz: Quiz | None = None) -> None:
        self.programs, self.quiz = programs, quiz
        self.known: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "expression": _expression, "change": self._change,
        }  # fmt: skip
        if quiz is not None:
            self.known |= {"answer": quiz.judged, "card": quiz.kept}

    def __call__(self, what: str, content: Any) -> dict[str, Any]:
        """The answer, as plain data."""
        if what not in self.known or not isinstance(content, Mapping):
            raise ValueError(f"expected an object with a question of: {', '.join(self.known)}")
        try:
            with np.errstate(all="ignore"):
                return self.known[what](content)
        except (ArithmeticError, RecursionError, MemoryError) as error:
            raise ValueError(f"this is more than can be computed here: {str(error) or type(error).__name__}") from error

    def _change(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """{"graph": 0, "values": {"3": [1.0, 2.0], "4": {"times": 0.5}}}: numbers, or the recorded ones times one."""
        which, values = content.get("graph"), content.get("values")
        if type(which) is not int or not 0 <= which < len(self.programs) or not isinstance(values, Mapping):
            raise ValueError('expected {"graph": number, "values": {"leaf": [numbers]}}')
        program = self.programs[which]
        if program is None:
            raise ValueError("this graph cannot be computed again: not everything it was made from is known")
        return changed(program, dict(_changes(program, values)))


def _changes(program: Program, values: Mapping[str, Any]) -> Any:
    for key, asked in values.items():
        index = int(key) if str(key).isdecimal() and len(str(key)) < 10 else None
        if not program.editable(index):
            raise ValueError(f"there is no leaf {str(key)[:20]!r} whose numbers may be changed")
        recorded = np.asarray(program.graph.items[index].value)  # type: ignore[index]
        if isinstance(asked, Mapping):
            yield index, recorded * _numbers([asked.get("times")])[0]
        else:
            yield index, _numbers(asked, recorded.size).reshape(recorded.shape)


def _numbers(given: Any, size: int = 1) -> np.ndarray:
    """Finite numbers, as many as are wanted."""
    listed = given if isinstance(given, list) else [given]
    if len(listed) != size or not all(map(is_ordinary, listed)):
        raise ValueError(f"expected {size} ordinary number{'s'[: size != 1]}, at most {LARGEST:g}")
    return np.array(listed, np.float64)


def _expression(content: Mapping[str, Any]) -> dict[str, Any]:
    """{"text": "(a + b) * b", "values": {"a": 2}}: its snapshot."""
    text, values = content.get("text"), content.get("values", {})
    if not isinstance(text, str):
        raise ExpressionError('expected {"text": "an expression", "values": {"name": number}}')
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise ExpressionError("values must be numbers by name")
    seen = snapshot(value_of(text, values), scope={}, title=text)
    return {**seen, "code": seen["title"]}
