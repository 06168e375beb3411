"""`pellucid.explore(y)`: the graph behind a result as a page, to look at here, to save, or in a notebook."""

import os
import tempfile
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pellucid.core.provenance import getframe, outside
from pellucid.core.tensor import Tensor
from pellucid.errors import printable
from pellucid.explorer.notebook import framed, widget_of
from pellucid.explorer.page import page
from pellucid.explorer.program import Program
from pellucid.explorer.snapshot import look
from pellucid.scalar.value import Value

__all__ = ["Exploration", "explore"]


class Exploration:
    """A snapshot of a graph and its page; with its `program`, what is changed in a notebook is computed again.

    >>> import pellucid as torch
    >>> a = torch.tensor(2.0, requires_grad=True)
    >>> exploration = torch.explore(a * a)
    >>> exploration.html().startswith("<!doctype html>")
    True
    >>> [node["op"] for node in exploration.snapshot["nodes"]]
    ['leaf', 'mul']
    """

    def __init__(self, snapshot: dict[str, Any], title: str = "", program: Program | None = None) -> None:
        self.snapshot = snapshot
        self.title = printable(title or snapshot["title"])
        self.program = program

    def html(self) -> str:
        """The page: one file that needs nothing else."""
        return page(self.snapshot, self.title)

    def save_html(self, path: "str | Path") -> Path:
        """Write the page to a file, and return its path."""
        path = Path(path)
        path.write_text(self.html(), encoding="utf-8")
        return path

    def show(self) -> Path:
        """Open the page in the browser, from a temporary file."""
        descriptor, name = tempfile.mkstemp(suffix=".html", prefix="pellucid-")
        os.close(descriptor)
        path = self.save_html(name)
        webbrowser.open(path.as_uri())
        return path

    def _repr_html_(self) -> str:
        """A notebook shows the page in a frame of its own, which can run its scripts and reach nothing else."""
        return framed(self.html(), self.title)

    def _repr_mimebundle_(self, **options: Any) -> "dict[str, Any] | tuple[dict[str, Any], dict[str, Any]]":
        """With anywidget a notebook shows a widget, whose page asks this Pellucid; else the frame."""
        shown = widget_of(self)
        if shown is None:
            return {"text/plain": repr(self), "text/html": self._repr_html_()}
        bundle = shown._repr_mimebundle_(**options)
        (bundle[0] if isinstance(bundle, tuple) else bundle)["text/plain"] = repr(self)
        return bundle  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        nodes, steps = len(self.snapshot["nodes"]), max(0, len(self.snapshot["backward"]) - 1)
        return f"<Exploration of {nodes} nodes and {steps} backward steps: .show(), .save_html(path)>"


def explore(y: "Tensor | Value | Callable[..., Any]", *inputs: Any, title: str = "", **options: Any) -> Exploration:
    """Show the graph behind a tensor (of real PyTorch, too), a Value, or what a function makes of some inputs.

    Options are those of `pellucid.explorer.snapshot`: gradient, controls, note, training, times, beside, ...

    >>> import pellucid as torch
    >>> from pellucid.explorer import explore
    >>> a, b = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
    >>> explore(lambda a, b: (a + b) * b, a, b)
    <Exploration of 4 nodes and 2 backward steps: .show(), .save_html(path)>
    """
    frame = outside(getframe(1))
    options.setdefault("scope", dict(frame.f_globals) | dict(frame.f_locals))
    seen = look(y, *inputs, title=title, **options)
    return Exploration(seen.data, title, seen.program)
