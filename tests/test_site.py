"""The documentation site: it builds without a warning, its links lead somewhere, it loads nothing from a network."""

import os
import re
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parent.parent
WEBSITE = ROOT / "docs" / "website"
sys.path.insert(0, str(WEBSITE))

from sweep import AT, central_difference, function, sweep, sweep_svg  # noqa: E402

from pellucid.ops import load_families  # noqa: E402
from pellucid.ops.operation import OPERATIONS  # noqa: E402
from pellucid.scalar import Value, derivative  # noqa: E402

zensical = pytest.mark.skipif(find_spec("zensical") is None, reason="zensical is not installed: make docs installs it")
# Tags that make a browser fetch something by itself, and the attribute that says what.
LOADING = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "video": "src"}


class Page(HTMLParser):
    """The links of a page, what it loads, and the places in it that a link may name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.places |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if found.get(LOADING.get(tag, "")):
            self.loads.append(found[LOADING[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built once from an empty folder."""
    folder = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path])}
    program = [sys.executable, str(WEBSITE), str(folder)]
    built = subprocess.run(program, capture_output=True, text=True, env=environment, timeout=280)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def is_outside(address: str) -> bool:
    return bool(urlsplit(address).scheme or urlsplit(address).netloc) and not address.startswith("data:")


@zensical
def test_nothing_is_loaded_from_a_network(site, pages):
    loaded = [(path.name, address) for path, page in pages.items() for address in page.loads if is_outside(address)]
    assert not loaded
    for sheet in site.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        assert not re.search(r"@import|url\(\s*[\"']?(?:https?:)?//", text), sheet


@zensical
def test_every_link_leads_somewhere(site, pages):
    files = {str(path) for path in site.rglob("*") if path.is_file()}
    places = {str(path): page.places for path, page in pages.items()}
    broken = []
    for path, page in pages.items():
        for address in {*page.links, *page.loads} if path.name != "404.html" else ():
            parts = urlsplit(address)
            target = os.path.normpath(path.parent / unquote(parts.path)) if parts.path else str(path)
            if parts.scheme or parts.netloc:
                continue
            if target not in files or unquote(parts.fragment) not in {"", *places.get(target, ())}:
                broken.append(f"{path.relative_to(site)}: {address}")
    assert not broken


@zensical
def test_the_reference_has_every_operation(pages):
    load_families()
    listed = set().union(*(page.places for path, page in pages.items() if path.parent.name == "reference"))
    missing = {f"torch.{path}" for path in OPERATIONS} - listed
    assert not missing


@zensical
def test_the_reference_shows_examples(site):
    """Of everything, but for further names of a thing and old ones, which lead to the entry that does."""
    text = "".join(path.read_text(encoding="utf-8") for path in (site.parent / "docs" / "reference").glob("*.md"))
    entries = [entry for entry in re.split(r"^## ", text, flags=re.MULTILINE) if re.match(r"(torch|pellucid)\.", entry)]
    leads = re.compile(r"\]\([\w-]+\.md#(torch|pellucid)\.")
    without = [entry.split()[0] for entry in entries if ">>>" not in entry and not leads.search(entry)]
    assert len(entries) > 1000
    assert without == ["torch.Tensor.record_stream"]  # which does nothing


@zensical
def test_explorer_pages_are_embedded(site, pages):
    frames = [address for page in pages.values() for address in page.loads if "graphs/" in address]
    assert len(frames) >= 8
    assert all((site / "graphs" / Path(address).name).exists() for address in frames)


def test_every_page_is_in_the_menu():
    menu = tomllib.loads((ROOT / "docs" / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    listed = set(re.findall(r"[\w/-]+\.md", str(menu)))
    written = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    missing = {name for name in written if not name.startswith("decisions/")} - listed
    assert not missing, "add them to nav in docs/zensical.toml"


# --- three ways to one derivative: the picture


def test_dual_reverse_and_difference_agree():
    x = Value(AT)
    function(x).backward()
    assert x.grad == pytest.approx(derivative(function, AT), abs=1e-13)
    assert central_difference(function, AT, 1e-5) == pytest.approx(x.grad, abs=1e-8)
    assert x.grad == pytest.approx(6.971829, abs=1e-6)


def test_the_sweep_has_two_sides_and_its_least_where_theory_says():
    measured = sweep()
    error = dict(zip(measured.steps, measured.errors, strict=True))
    right = [step for step in measured.steps if 1e-4 < step < 0.1]
    ratios = [error[step] / step**2 for step in right]
    assert max(ratios) < 1.05 * min(ratios)  # truncation: in proportion to the square of the step
    left = [step for step in measured.steps if step < 1e-7]
    unit = 2.0**-53 * abs(function(AT))
    assert all(error[step] < 8 * unit / step + 1e-12 for step in left)  # cancellation: at most about u |f| / step,
    assert max(error[step] * step for step in left) > 0.5 * unit  # and of that size
    assert error[min(measured.steps)] > 1e6 * min(measured.errors)
    assert measured.theory / 10 < measured.best < measured.theory * 10


def test_the_picture_shows_what_was_measured():
    measured = sweep()
    picture = sweep_svg(measured)
    assert picture.count("<circle") == len(measured.steps)
    assert f"theory: {measured.theory:.1e}" in picture
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")


# --- in a browser


@zensical
@pytest.mark.skipif(which("chromium") is None or find_spec("playwright") is None, reason="there is no browser here")
def test_pages_ask_for_nothing_outside_and_the_search_works(site):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=which("chromium"), args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 390, "height": 800})
        outside, errors = [], []
        page.on("request", lambda request: outside.append(request.url) if request.url.startswith("http") else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        for name in ("index", "tutorial/2-paths", "explanation/three-ways", "reference/torch-s"):
            page.goto((site / f"{name}.html").as_uri())
            page.wait_for_timeout(300)
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
        question = page.locator("input:not([type=checkbox]):not([type=radio])").first
        question.wait_for(state="attached")
        page.keyboard.press("Control+k")
        question.fill("logsumexp")
        page.get_by_text("torch.logsumexp").first.wait_for()
        browser.close()
    assert not outside
    assert not errors
