"""Every fenced Python block of the documentation runs, and shows the output that it promises.

Blocks of one page run in order and share their names, as a reader would type them. A block with `>>>`
is a doctest; a plain block followed by a fenced `output` block must print exactly that.
"""

import contextlib
import doctest
import io
import linecache
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FENCE = re.compile(r"^```(python|pycon|output)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def blocks(text: str) -> list[tuple[str, str, int]]:
    """The kind, the source and the first line's number of every fenced block."""
    return [(match[1], match[2], text.count("\n", 0, match.start()) + 2) for match in FENCE.finditer(text)]


def run_prompts(source: str, names: dict, page: str, line: int) -> None:
    test = doctest.DocTestParser().get_doctest(source, names, page, page, line - 1)
    report = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    runner.run(test, out=report.write, clear_globs=False)
    names.update(test.globs)  # the parser copies the names it is given
    assert not runner.failures, report.getvalue()


def run_plain(source: str, names: dict, page: str, line: int) -> str:
    printed = io.StringIO()
    # Leading newlines make tracebacks point at the line of the page.
    code = compile("\n" * (line - 1) + source, page, "exec")
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    return printed.getvalue()


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # an example may write files
    where, text = page.relative_to(ROOT).as_posix(), page.read_text(encoding="utf-8")
    # Messages show source lines; seen from the folder the page runs in, it would not be found.
    monkeypatch.setitem(linecache.cache, where, (len(text), None, text.splitlines(keepends=True), where))
    names, printed = {"__name__": "__main__"}, ""
    for kind, source, line in blocks(text):
        if kind == "output":
            assert printed == source, f"{where}:{line}: the block above prints otherwise"
        elif ">>> " in source:
            run_prompts(source, names, where, line)
        else:
            printed = run_plain(source, names, where, line)
