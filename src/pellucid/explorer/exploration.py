"""`pellucid.explore(y)`: the graph behind a result as a page, to look at here or to save."""

import os
import tempfile
import webbrowser
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

from pellucid.core.provenance import getframe, outside
from pellucid.core.tensor import Tensor
from pellucid.explorer.page import page
from pellucid.explorer.snapshot import snapshot
from pellucid.scalar.value import Value

__all__ = ["Exploration", "explore"]


class Exploration:
    """A snapshot of a graph and its page."""

    def __init__(self, snapshot: dict[str, Any], title: str = "") -> None:
        self.snapshot = snapshot
        self.title = title or snapshot["title"]

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
        return (
            f'<iframe srcdoc="{escape(self.html(), quote=True)}" sandbox="allow-scripts" width="100%" height="640" '
            f'style="border:0" title="{escape(self.title, quote=True)}"></iframe>'
        )

    def __repr__(self) -> str:
        nodes, steps = len(self.snapshot["nodes"]), max(0, len(self.snapshot["backward"]) - 1)
        return f"<Exploration of {nodes} nodes and {steps} backward steps: .show(), .save_html(path)>"


def explore(y: "Tensor | Value | Callable[..., Any]", *inputs: Any, title: str = "", **options: Any) -> Exploration:
    """Show the graph behind a tensor, a Value, or what a function makes of some inputs.

    Options are those of `pellucid.explorer.snapshot`: gradient, controls, note, training, ...

    >>> import pellucid as torch
    >>> from pellucid.explorer import explore
    >>> a, b = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
    >>> explore(lambda a, b: (a + b) * b, a, b)
    <Exploration of 4 nodes and 2 backward steps: .show(), .save_html(path)>
    """
    frame = outside(getframe(1))
    options.setdefault("scope", dict(frame.f_globals) | dict(frame.f_locals))
    return Exploration(snapshot(y, *inputs, title=title, **options), title)
