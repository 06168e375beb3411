"""One self-contained page: no network, no eval, nothing but its own nonce may run.

Everything a user wrote (names, source lines, file names) travels as JSON and becomes text through textContent.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from pellucid.errors import printable

__all__ = ["page"]

# In the order in which they need each other.
SCRIPTS = (
    "words.js", "interpreter.js", "arrays.js", "routes.js", "model.js", "layout.js", "folding.js", "pictures.js",
    "boxes.js", "costs.js", "pointer.js", "drawing.js", "inputs.js", "shapes.js", "panel.js", "tree.js", "training.js",
    "search.js", "address.js", "predict.js", "quiz.js", "playground.js", "saving.js", "controls.js", "app.js",
)  # fmt: skip

ASKING = {"server": "ask_server.js", "notebook": "ask_notebook.js"}

# No string of the scripts goes over several lines, so that lines can be taken away (a test looks at that).
COMMENTS = re.compile(r"^ *(?://.*|/\*\*(?:.|\n)*?\*/)\n", re.MULTILINE)
INDENT = re.compile(r"^ +", re.MULTILINE)

FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'nonce-{nonce}'; \
style-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'{extra}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style nonce="{nonce}">
{style}
</style>
</head>
<body>
<noscript>This page draws a graph with JavaScript, which is switched off.</noscript>
<div id="app"></div>
<script type="application/json" id="data">{data}</script>
<script nonce="{nonce}">
"use strict";
(() => {{
{script}
}})();
</script>
</body>
</html>
"""


def page(
    snapshots: "Mapping[str, Any] | Sequence[Mapping[str, Any]]", title: str = "", asks: str = "",
    quiz: Mapping[str, Any] | None = None,
) -> str:  # fmt: skip
    """The HTML of one snapshot, or of several with a picker.

    `asks` says whom the page may ask: nobody, the "server" it came from, or the "notebook" around it.

    >>> html = page({"title": "</script>", "nodes": [], "edges": []})
    >>> html.count("</script>")
    2
    """
    several = [snapshots] if isinstance(snapshots, Mapping) else list(snapshots)
    if not several:
        raise ValueError("page needs at least one snapshot")
    title = printable(title) or several[0].get("title") or "Pellucid"
    data = _as_script({"title": title, "examples": several, "asks": asks, "quiz": quiz})
    script, style = code(asks), _static("style.css")
    nonce = base64.b64encode(hashlib.sha256(f"{data}{script}{style}".encode()).digest()[:18]).decode()
    extra = "; connect-src 'self'" if asks == "server" else ""
    return FRAME.format(nonce=nonce, title=escape(title), style=style, data=data, script=script, extra=extra)


@cache
def code(asks: str = "") -> str:
    """All scripts, one after the other; only a page that may ask somebody has the one that does."""
    return "\n".join(_lean(_static(name)) for name in ((ASKING[asks],) if asks else ()) + SCRIPTS)


def _lean(script: str) -> str:
    """A script without indentation and without the comments that fill lines: every page carries all of it.

    >>> _lean("/** Adds.\\n *  Twice. */\\nfunction add(a) {\\n  // why\\n  return a + a; // so\\n}")
    'function add(a) {\\nreturn a + a; // so\\n}'
    """
    return INDENT.sub("", COMMENTS.sub("", script))


@cache
def _static(name: str) -> str:
    return (files("pellucid.explorer") / "static" / name).read_text(encoding="utf-8").strip()


def _as_script(data: Any) -> str:
    """JSON that cannot end the element it stands in, nor start a comment or a script there."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))  # not ASCII: escaped, U+2028 too
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
