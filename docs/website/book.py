"""Where every name of the reference stands, which of several names of one thing is the main one, and links to them."""

import inspect
import re
from collections.abc import Mapping
from typing import Any

from sources import Sources

from pellucid.ops.operation import OPERATIONS, Operation

NAME = re.compile(r"`([A-Za-z_][\w.]*)(\(\))?`")


def target_of(thing: Any) -> Any:
    """What is called: an operation's function, or the thing itself."""
    return thing.function if isinstance(thing, Operation) else thing


class Book:
    """The names of all pages. `mains` leads from a further name of a thing to its main one."""

    def __init__(self, pages: Mapping[str, Mapping[str, Any]], sources: Sources) -> None:
        self.sources = sources
        self.files = {path: file for file, things in pages.items() for path in things}
        self.mains = further_names({path: thing for things in pages.values() for path, thing in things.items()})

    def link(self, path: str, shown: str = "") -> str:
        return f"[`{shown or path}`]({self.files[path]}#{path})"

    def linked(self, line: str, path: str, thing: Any) -> str:
        """A line of the entry at `path`: `names` of other entries become links, its own arguments do not."""
        own = {*arguments(thing), *(dir(thing) if inspect.isclass(thing) else ())}

        def replaced(found: re.Match[str]) -> str:
            there = None if found[1] in own else self.found(found[1], path.rpartition(".")[0])
            return found[0] if there in (None, path) else self.link(there or "", found[0].strip("`"))

        return NAME.sub(replaced, line)

    def found(self, name: str, home: str) -> str | None:
        """The entry that a name means in a text of this namespace."""
        return next((path for path in (f"{home}.{name}", f"torch.{name}", name) if path in self.files), None)


def arguments(thing: Any) -> list[str]:
    try:
        return list(inspect.signature(target_of(thing)).parameters)
    except (TypeError, ValueError):
        return []


def further_names(things: Mapping[str, Any]) -> dict[str, str]:
    """The main name of every thing that has several: an operation's own, else the shortest path."""
    published = {f"torch.{path}": order for order, path in enumerate(OPERATIONS)}
    by_thing: dict[int, list[str]] = {}
    for path, thing in things.items():
        by_thing.setdefault(id(target_of(thing)), []).append(path)

    def rank(path: str) -> tuple[int, int, bool, str]:
        name = getattr(target_of(things[path]), "__name__", "")
        return published.get(path, len(published)), path.count("."), path.rpartition(".")[2] != name, path

    mains = {min(paths, key=rank): paths for paths in by_thing.values()}
    return {path: main for main, paths in mains.items() for path in paths if path != main}
