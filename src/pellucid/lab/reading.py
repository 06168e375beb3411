"""Reading YAML that a person wrote: every value is text with a place, and a mistake is told with file:line:column.

YAML guesses types (`no` is False, `12:30` is 750, `010` is 8) and lets a small file grow without bounds (aliases,
nesting). Here nothing is guessed: the one who knows what should stand there asks for a `text`, a `number`, `items` or
`fields`. Aliases, tags, double keys, deep nesting and large files are refused.
"""

import importlib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.errors import explain

SIZE, DEPTH, EVENTS = 1_000_000, 50, 100_000  # bytes, levels, and pieces of a file: about a second of reading
NUMBER = re.compile(r"[-+]?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


class LabError(ValueError):
    """What was given to the lab cannot be used; the message says what, where and what to do.

    >>> try:
    ...     parse("cards: [one, two}", "deck.yaml")
    ... except LabError as error:
    ...     print(str(error).splitlines()[0])
    deck.yaml:1:17: did not find expected ',' or ']'
    """


def needed(module: str, package: str) -> Any:
    """A module of the extra `lab`, imported when it is asked for."""
    try:
        return importlib.import_module(module)
    except ImportError:
        what = f"the package {package} is not installed"
        raise LabError(explain(what, why="it comes with the extra `lab`", try_="pip install 'pellucid[lab]'")) from None


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a file something stands, counted from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def error(self, problem: str, try_: str | None = None) -> LabError:
        return LabError(explain(f"{self}: {problem}", try_=try_))


@dataclass(frozen=True, slots=True)
class Node:
    """A piece of a file: text, a list of nodes, or nodes by name.

    >>> root = parse("id: no\\nanswer: 1e3", "quiz.yaml")
    >>> fields = root.fields(["id", "answer"])
    >>> fields["id"].text(), fields["answer"].number()
    ('no', 1000.0)
    """

    place: Place
    content: "str | list[Node] | dict[str, Node]"

    def text(self) -> str:
        """Text as it was written, whatever it looks like; without spaces around it, and never empty."""
        if not isinstance(self.content, str):
            raise self.place.error(f"text is wanted here, not {self.kind}")
        if not self.content.strip():
            raise self.place.error("text is wanted here, and there is none")
        if found := CONTROL.search(self.content):
            raise self.place.error(f"the control character {found[0]!r} cannot stand in a text")
        return self.content.strip()

    def number(self) -> float:
        text = self.text()
        if not NUMBER.fullmatch(text):
            raise self.place.error(f"a number is wanted here, not {text[:40]!r}", "42, -0.5 or 1e-3")
        return float(text)

    def choice(self, options: Collection[str]) -> str:
        """Text that is one of a few words."""
        text = self.text()
        if text not in options:
            raise self.place.error(f"{text[:40]!r} is not known here", f"one of {', '.join(options)}")
        return text

    def items(self) -> "list[Node]":
        if not isinstance(self.content, list):
            raise self.place.error(f"a list is wanted here, not {self.kind}")
        if not self.content:
            raise self.place.error("this list is empty")
        return self.content

    def fields(self, required: Collection[str], optional: Collection[str] = ()) -> "dict[str, Node]":
        """Nodes by name: all that are required, and none that is not known."""
        if not isinstance(self.content, dict):
            raise self.place.error(f"`key: value` lines are wanted here, not {self.kind}")
        for name, node in self.content.items():
            if name not in required and name not in optional:
                known = ", ".join([*required, *optional])
                raise node.place.error(f"the key {name[:40]!r} is not known here", f"one of {known}")
        for name in required:
            if name not in self.content:
                raise self.place.error(f"the key {name!r} is missing")
        return self.content

    @property
    def kind(self) -> str:
        return {str: "text", list: "a list", dict: "`key: value` lines"}[type(self.content)]


def read(path: str | Path) -> Node:
    """Read a YAML file.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "deck.yaml"
    >>> _ = file.write_text("time: 12:30")
    >>> read(file).fields(["time"])["time"].text()
    '12:30'
    """
    return parse(read_text(path), str(path))


def read_text(path: str | Path) -> str:
    """The text of a file of at most 1 MB in UTF-8."""
    try:
        with open(path, "rb") as file:
            raw = file.read(SIZE + 1)
    except OSError as error:
        raise LabError(explain(f"{path}: cannot be read", why=error.strerror)) from None
    if len(raw) > SIZE:
        raise LabError(explain(f"{path}:1:1: the file is larger than {SIZE:,} bytes"))
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8", "replace")
        raise _place_at(before, str(path)).error("the file is not text in UTF-8") from None


def _place_at(before: str, file: str) -> Place:
    """The place after a beginning of a file."""
    return Place(file, before.count("\n") + 1, len(before) - before.rfind("\n"))


def parse(text: str, file: str) -> Node:
    """The tree of a YAML text; `file` is the name that errors give."""
    yaml = needed("yaml", "PyYAML")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's parser, where PyYAML was built with it
    if len(text) > SIZE:
        raise Place(file, 1, 1).error(f"the file is larger than {SIZE:,} bytes")
    try:
        return _document(_bounded(yaml.parse(text, Loader=loader), file), file)
    except yaml.reader.ReaderError as error:
        raise _place_at(text[: error.position], file).error(error.reason) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _place(mark, file).error(error.problem or error.context or "this is not YAML") from None


def _place(mark: Any, file: str) -> Place:
    return Place(file, mark.line + 1, mark.column + 1) if mark else Place(file, 1, 1)


def _bounded(events: Iterator[Any], file: str) -> Iterator[Any]:
    for number, event in enumerate(events):
        if number > EVENTS:
            raise _place(event.start_mark, file).error(f"more than {EVENTS:,} values stand in this file")
        yield event


def _document(events: Iterator[Any], file: str) -> Node:
    root = None
    for event in events:
        name = type(event).__name__
        if name == "DocumentStartEvent":
            if root is not None:
                raise _place(event.start_mark, file).error("only one document may stand in a file")
            root = _node(next(events), events, file, 1)
    if root is None:
        raise Place(file, 1, 1).error("the file is empty")
    return root


def _node(event: Any, events: Iterator[Any], file: str, depth: int) -> Node:
    """The node that begins with an event; takes its other events from the stream."""
    place, name = _place(event.start_mark, file), type(event).__name__
    if depth > DEPTH:
        raise place.error(f"nested more than {DEPTH} levels deep")
    if name == "AliasEvent" or event.anchor is not None:
        raise place.error("anchors and aliases (& and *) are not allowed", "write the value out, or quote the text")
    if event.tag is not None:
        raise place.error(f"the tag {event.tag[:40]!r} is not allowed", "leave it out, or quote the text")
    if name == "ScalarEvent":
        return Node(place, event.value)
    if name == "SequenceStartEvent":
        return Node(place, [_node(each, events, file, depth + 1) for each in _until("SequenceEndEvent", events)])
    return Node(place, _mapping(events, file, depth))


def _until(end: str, events: Iterator[Any]) -> Iterator[Any]:
    while type(event := next(events)).__name__ != end:
        yield event


def _mapping(events: Iterator[Any], file: str, depth: int) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for event in _until("MappingEndEvent", events):
        key = _node(event, events, file, depth + 1)
        name = key.text()
        if name in found:
            raise key.place.error(f"the key {name[:40]!r} stands here twice")
        found[name] = _node(next(events), events, file, depth + 1)
    return found
