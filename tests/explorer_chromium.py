"""A real Chromium for the tests of the explorer's page, and what the tests read off a page."""

import importlib.util
import os
import shutil
import time

import pytest

CHROMIUM = os.environ.get("PELLUCID_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
if importlib.util.find_spec("playwright") is None:
    pytest.skip("needs playwright: pip install playwright", allow_module_level=True)
if CHROMIUM is None:
    pytest.skip("needs a Chromium: apt install chromium, or PELLUCID_CHROMIUM=/path/to/it", allow_module_level=True)

from playwright.sync_api import sync_playwright  # noqa: E402

OPTIONS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 844}


def chromium():
    """One browser, for a fixture to hand out."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield browser
        browser.close()


def opening(browser):
    """Open an address; every error of the page, dialog and request to anywhere else fails the test, and so does a
    canary: a function that only text turned into code would call."""
    contexts, trouble = [], []

    def told(text):
        """Chromium itself notes a request that failed or was refused, which some tests want."""
        if not text.startswith("Failed to load resource"):
            trouble.append(text)

    def open_(address, own="file:", **options):
        context = browser.new_context(viewport=options.pop("viewport", WIDE), **options)
        context.add_init_script("window.canary = () => { window.sung = true; };")
        contexts.append(context)
        tab = context.new_page()
        tab.on("pageerror", lambda error: trouble.append(f"error: {error}"))
        tab.on("console", lambda message: told(message.text) if message.type == "error" else None)
        tab.on("dialog", lambda dialog: (trouble.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        tab.on("request", lambda request: request.url.startswith(own) or trouble.append(f"request: {request.url}"))
        tab.goto(address)
        tab.wait_for_selector("html[data-ready]", timeout=20_000)
        return tab

    yield open_
    for context in contexts:
        for tab in context.pages:
            trouble += [f"a canary sang in {frame.url}" for frame in tab.frames if frame.evaluate("window.sung")]
        context.close()
    assert trouble == []


def changes(tab, selector, before):
    """Wait until an element says something else: Playwright's own way to wait for that needs eval."""
    for _ in range(300):
        if tab.locator(selector).first.text_content() != before:
            return
        time.sleep(0.05)
    raise AssertionError(f"{selector} still says {before}")


def caption(tab):
    return tab.inner_text(".caption")


def texts(tab, node):
    """What a box shows: value and gradient."""
    tab.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    box = tab.locator(f'g.box[data-node="{node}"]')
    return box.locator(".value").text_content(), box.locator(".grad").text_content()


def move(tab, leaf, value):
    tab.locator(f'input[data-leaf="{leaf}"]').evaluate(
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input', { bubbles: true })); }",
        value,
    )
