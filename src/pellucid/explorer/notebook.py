"""The page in a notebook: in a frame; with anywidget (`pip install pellucid[notebook]`) it can ask the kernel."""

from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from pellucid.explorer.answers import Answers
from pellucid.explorer.page import page

if TYPE_CHECKING:
    from pellucid.explorer.exploration import Exploration

__all__ = ["framed", "widget_of"]


def framed(html: str, title: str) -> str:
    """A page inside another: it can run its own scripts and reach nothing else.

    >>> framed("<p>", 'a "b"')[:28]
    '<iframe srcdoc="&lt;p&gt;" s'
    """
    return (
        f'<iframe srcdoc="{escape(html, quote=True)}" sandbox="allow-scripts" width="100%" height="640" '
        f'style="border:0" title="{escape(title, quote=True)}"></iframe>'
    )


def widget_of(exploration: "Exploration") -> Any:
    """The widget of an exploration, or None without anywidget."""
    kind = _widget()
    if kind is None:
        return None
    told = {**exploration.snapshot, "repeats": exploration.program is not None}
    shown = kind(page=page(told, exploration.title, asks="notebook"), title=exploration.title)
    answers = Answers([exploration.program])
    shown.on_msg(lambda widget, content, _: widget.send(_answered(answers, content)))
    return shown


def _answered(answers: Answers, asked: Any) -> dict[str, Any]:
    """What to send back for {"id": 1, "what": "change", "content": {...}}."""
    if not isinstance(asked, dict):
        return {"error": "expected a question"}
    told = {"id": asked.get("id")}
    try:
        return {**told, "told": answers(str(asked.get("what")), asked.get("content"))}
    except (ValueError, TypeError) as error:
        return {**told, "error": str(error)}


@cache
def _widget() -> Any:
    """The class of the widget; it is made only where anywidget is installed."""
    try:
        import anywidget  # type: ignore[import-not-found]
        import traitlets  # type: ignore[import-not-found]
    except ImportError:
        return None
    script = (files("pellucid.explorer") / "static" / "widget.js").read_text(encoding="utf-8")
    traits = {name: traitlets.Unicode().tag(sync=True) for name in ("page", "title")}
    return type("ExplorerWidget", (anywidget.AnyWidget,), {"_esm": script, **traits})
