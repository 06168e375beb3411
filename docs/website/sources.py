"""Coloured copies of the source files that the pages link to, so that a link to code works without a repository."""

import inspect
import keyword
import os
import re
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

FRAME = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><link rel="stylesheet" href="{up}style.css"></head>
<body class="source"><p><a href="{up}../index.html">Pellucid</a> / {title}</p>
{body}
</body></html>
"""
# What gets a colour, on text whose <, > and & are escaped. A tokenizer would be exact, and takes 30 times as long.
TOKEN = re.compile(
    r'(?P<text>\b[rbfu]{0,2}(?:"""(?:\\.|[^\\])*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')'
    r'|"""(?:\\.|[^\\])*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')'
    r"|(?P<note>#[^\n]*)|(?P<name>(?<=def )\w+|(?<=class )\w+|@[\w.]+)"
    rf"|(?P<word>\b(?:{'|'.join(keyword.kwlist)})\b)|(?P<number>\b\d[\w.]*)",
    re.DOTALL,
)
STYLE = """body { margin: 1rem auto; padding: 0 1rem; max-width: 78rem; font: 16px/1.5 sans-serif; }
body { color: #24292f; background: #fff; --text: #0a6640; --note: #6a737d; --word: #b3261e; --name: #5b3cc4; }
pre { font-size: 13px; line-height: 1.45; overflow-x: auto; }
pre a { color: #767676; text-decoration: none; padding-right: 1rem; user-select: none; }
pre a:target { background: #fff3c4; color: #000; outline: 2px solid #e0a800; }
.text { color: var(--text); } .note { color: var(--note); } .word { color: var(--word); }
.name { color: var(--name); font-weight: bold; } .number { color: #0550ae; }
@media (prefers-color-scheme: dark) {
  body { color: #e6e6e6; background: #16181d; --text: #7ee2a8; --note: #9aa4b2; --word: #ff9b8e; --name: #c4b5fd; }
  body > p a, li a { color: #8ab4f8; } pre a { color: #8a8f98; } .number { color: #8ab4f8; }
}
"""


class Sources:
    """The files that were linked to, and the pages they become."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.package, self.folder = root, root / "src" / "pellucid", folder
        self.wanted: set[Path] = set()

    def page(self, path: Path) -> str:
        """The place of a file's page (or a folder's), seen from the folder of sources."""
        if not path.exists():
            raise FileNotFoundError(f"a page links to {path}, which is not there")
        self.wanted.update([path, *(_files(path) if path.is_dir() else ())])
        name = path.relative_to(self.package)
        return (name / "index.html" if path.is_dir() else name.with_suffix(path.suffix + ".html")).as_posix()

    def page_of_module(self, module: str) -> str:
        """The page of the module of this name."""
        return self.page(self.root / "src" / (module.replace(".", "/") + ".py"))

    def link(self, thing: Any) -> str | None:
        """The page and line where a function or class is defined, if it is one of ours."""
        try:
            code = inspect.unwrap(thing)
            file = Path(inspect.getsourcefile(code) or "")
        except TypeError:
            return None
        line = code.__code__.co_firstlineno if hasattr(code, "__code__") else _line_of_class(file, code)
        return f"{self.page(file)}#L-{line}" if line and file.is_relative_to(self.package) else None

    def write(self) -> None:
        """Write the pages of all files that were asked for."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "style.css").write_text(STYLE, encoding="utf-8")
        for path in sorted(self.wanted):
            page = self.folder / self.page(path)
            page.parent.mkdir(parents=True, exist_ok=True)
            body = _listing(path) if path.is_dir() else _coloured(path)
            up = os.path.relpath(self.folder, page.parent) + "/"
            title = escape(path.relative_to(self.root).as_posix())
            page.write_text(FRAME.format(title=title, up=up, body=body), encoding="utf-8")


@cache
def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _line_of_class(file: Path, thing: Any) -> int | None:
    found = re.search(rf"^ *class {getattr(thing, '__name__', '')}\b", _text(file), re.MULTILINE)
    return _text(file).count("\n", 0, found.start()) + 1 if found else None


def _coloured(path: Path) -> str:
    """The lines of a file, numbered, each with a place of its own to link to."""
    text = escape(_text(path), quote=False)
    if path.suffix == ".py":
        text = TOKEN.sub(lambda token: f'<span class="{token.lastgroup}">{token[0]}</span>', text)
    lines = [f'<a id="L-{i}" href="#L-{i}">{i:4}</a>{line}' for i, line in enumerate(text.splitlines(), 1)]
    return "<pre>" + "\n".join(lines) + "</pre>"


def _listing(path: Path) -> str:
    names = [each.name for each in _files(path)]
    return "<ul>" + "".join(f'<li><a href="{name}.html">{name}</a></li>' for name in names) + "</ul>"


def _files(folder: Path) -> list[Path]:
    """What can be read in a folder."""
    return sorted(each for each in folder.iterdir() if each.suffix in (".py", ".md", ".yaml"))
