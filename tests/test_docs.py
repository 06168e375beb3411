"""Every fenced Python block of the documentation runs, and shows the output that it promises.

Blocks of one page run in order and share their names, as a reader would type them. A block with `>>>`
is a doctest; a plain block followed by a fenced `output` block must print exactly that.

A page that says `<!-- also on PyTorch -->` runs there too, except for blocks that need Pellucid by name. One that says
`<!-- runs in a process of its own ... -->` does.
"""

import contextlib
import doctest
import io
import linecache
import os
import re
import subprocess
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FENCE = re.compile(r"^```(python|pycon|output)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ALONE, ON_TORCH = "<!-- runs in a process of its own", "<!-- also on PyTorch -->"


def pages() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def blocks(text: str) -> list[tuple[str, str, int]]:
    """The kind, the source and the first line's number of every fenced block."""
    return [(match[1], match[2], text.count("\n", 0, match.start()) + 2) for match in FENCE.finditer(text)]


def holding(mark: str) -> list[Path]:
    return [page for page in pages() if mark in page.read_text(encoding="utf-8")]


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


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


def run_page(page: Path) -> None:
    where, text = named(page), page.read_text(encoding="utf-8")
    # Messages show source lines; seen from the folder the page runs in, it would not be found.
    linecache.cache[where] = (len(text), None, text.splitlines(keepends=True), where)
    names, printed = {"__name__": "__main__"}, ""
    for kind, source, line in blocks(text):
        if kind == "output":
            assert printed == source, f"{where}:{line}: the block above prints otherwise"
        elif source.startswith(">>> "):
            run_prompts(source, names, where, line)
        else:
            printed = run_plain(source, names, where, line)


@pytest.mark.parametrize("page", pages(), ids=named)
def test_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # an example may write files
    if page not in holding(ALONE):
        run_page(page)
        linecache.cache.pop(named(page))
        return
    places = os.pathsep.join(sys.path)
    program = [sys.executable, __file__, str(page)]
    ran = subprocess.run(program, env={**os.environ, "PYTHONPATH": places}, capture_output=True, text=True, timeout=200)
    assert ran.returncode == 0, ran.stderr


def on_torch(source: str) -> str | None:
    """The block as one for PyTorch; None if it needs Pellucid by name."""
    source = source.replace("import pellucid as torch", "import torch").replace(
        "from pellucid import", "from torch import"
    )
    return None if "pellucid" in source or "as_torch" in source else source


@pytest.mark.torch
@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("page", holding(ON_TORCH), ids=named)
def test_page_runs_on_torch(page):
    names, printed = {"__name__": "__main__"}, None
    for kind, source, line in blocks(page.read_text(encoding="utf-8")):
        if kind == "output":
            assert printed in (source, None), f"{named(page)}:{line}: PyTorch prints otherwise"
        elif (source := on_torch(source)) is None:
            printed = None
        else:
            printed = run_plain(source, names, named(page), line)


@pytest.mark.torch
@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_anomaly_mode_of_torch_is_content_with_infinity():
    """What docs/explanation/false-claims.md says of it."""
    import torch

    x = torch.tensor([0.0], requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that it is slow
        with torch.autograd.detect_anomaly():
            x.sqrt().sum().backward()
            (x - 1).log().sum().backward()
    assert x.grad.isinf().all()


def test_the_readme_counts_the_cards():
    pytest.importorskip("yaml", reason="the extra lab is not installed")
    from pellucid.lab.cards import read_deck

    cards = read_deck(None).cards
    told = f"{sum(bool(card.proof) for card in cards)} of the {len(cards)} cards"
    assert told in (ROOT / "README.md").read_text(encoding="utf-8")


if __name__ == "__main__":
    run_page(Path(sys.argv[1]))
