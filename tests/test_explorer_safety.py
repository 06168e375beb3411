"""No text of the user's runs: in the page, in a notebook, in what other programs read. trust.md T50, T51, T53."""

import json
import sys
import xml.etree.ElementTree
from importlib.resources import files
from itertools import cycle
from types import SimpleNamespace

import pytest

import pellucid as torch
from explorer_chromium import changes
from payloads import PAYLOADS
from pellucid import nn
from pellucid.explorer import Training, examples, explore, page, run_source, snapshot
from pellucid.explorer.answers import Answers
from pellucid.explorer.notebook import _answered, _widget, widget_of
from pellucid.explorer.quiz import Quiz
from pellucid.explorer.server import Server
from pellucid.scalar import Value


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


FOREIGN = "script:not([nonce]):not(#data), img, iframe, object, a, math, body style, [onerror], [onload], [ontoggle]"


def saved(tmp_path, pages, title="Hostile", **options):
    path = tmp_path / "hostile.html"
    path.write_text(page(pages, title, **options), encoding="utf-8")
    return path.as_uri()


def test_every_text_of_a_page_may_be_a_payload(opened, tmp_path):
    """Names, formulas, sentences, badges, dtypes, notes: whatever is text in the data, without asking who wrote it."""
    assert len(PAYLOADS) >= 100
    chosen = [each for each in examples() if each["id"] in ("loss", "layer", "nan", "xor")]
    payloads = cycle(PAYLOADS)
    pages = [hostile(chosen[i % 4], payloads) for i in range(12)]
    told = json.dumps(pages)
    assert all(json.dumps(payload)[1:-1] in told for payload in PAYLOADS)
    tab = opened(saved(tmp_path, pages, PAYLOADS[0]))
    tab.evaluate(VISIT, PAYLOADS[: len(pages)])
    assert tab.locator(FOREIGN).count() == 0
    assert tab.evaluate("document.title") == PAYLOADS[0]


def program_with(payload):
    """A program whose module, operation, doc string, source lines, file and training are called by a payload."""

    def backward(context, gradient):
        return gradient * 2

    functions = {"forward": staticmethod(lambda context, x: x * 2), "backward": staticmethod(backward)}
    model = nn.Sequential()
    model.add_module(payload.replace(".", "·"), nn.Linear(1, 1))
    model.__doc__ = payload
    given = {"double": type(payload, (torch.autograd.Function,), {"__doc__": payload, **functions}), "model": model}
    line = payload.replace("\u2028", " ").replace("\u2029", " ")
    source = f"x = torch.ones(1, 1, requires_grad=True)\nh = model(x)  # {line}\ny = double.apply(h).sum()  # {line}\n"
    found, watch = run_source(source, f"/tmp/{payload}.py", given)
    training = Training({payload: found["x"]})
    training.step(1.0, note=payload)
    scope = {**found, "model": model}
    annotate = {"y": {"badge": payload, "symbol": payload}}
    seen = snapshot(found["y"], watch=watch, scope=scope, title=payload, note=payload, training=training,
                    annotate=annotate)  # fmt: skip
    return {**seen, "code": source}


def test_real_programs_with_hostile_names(opened, tmp_path):
    """T50 over modules, operations, doc strings, source lines, files, notes: 110 programs on one page."""
    pages = [program_with(payload) for payload in PAYLOADS]
    first = json.dumps(pages[0])
    assert first.count("</script><script>canary()") >= 8  # it did get in: module, op, line, file, title, note, training
    tab = opened(saved(tmp_path, pages))
    tab.evaluate(VISIT, PAYLOADS)
    assert tab.locator(FOREIGN).count() == 0


@pytest.mark.parametrize("name", ["constructor", "__proto__", "toString", "hasOwnProperty"])
def test_names_that_mean_something_to_javascript(opened, tmp_path, name):
    tab = opened(saved(tmp_path, [program_with(name)]))
    for box in tab.locator("g.box").all():
        box.dispatch_event("click")
        tab.keyboard.press("ArrowLeft")
    assert name in tab.inner_text(".side")


def test_labels_of_values_are_shown_as_they_are_written(opened, tmp_path):
    pages = [snapshot(Value(2.0, label=payload) * 3, scope={}, title=payload) for payload in PAYLOADS]
    tab = opened(saved(tmp_path, pages))
    tab.evaluate(VISIT, PAYLOADS)
    tab.select_option("header select", "1")
    assert PAYLOADS[1] in tab.locator(".tree li").first.text_content()


class HostileQuestion:
    """A question of the lab, every text of which is a payload."""

    def __init__(self, kind, payload):
        both = {"en": payload, "es": payload}
        self.id, self.topic, self.kind, self.question, self.explain = f"q-{kind}-{payload}", payload, kind, both, both
        self.predict = self.worked = None
        self.choices = [SimpleNamespace(text=both, right=False)] * 2 if kind == "single" else []
        self.parts = [SimpleNamespace(name=payload, value=1.0, paths=())] if kind == "numeric" else []
        self.starter, self.tolerance = payload if kind == "code" else None, 1e-3
        self.answer = lambda language: payload


ANSWER_ALL = """async () => {
  const { quizPanel } = document.getElementById("app").explorer;
  const wait = () => new Promise((done) => setTimeout(done, 40));
  for (const [index] of quizPanel.quiz.questions.entries()) {
    quizPanel.show(index);
    const form = document.querySelector(".answers");
    form.querySelectorAll("input[type=radio]").forEach((input) => (input.checked = true));
    form.querySelectorAll("input[type=text]").forEach((input) => (input.value = "2"));
    form.requestSubmit();
    await wait();
  }
  return document.querySelectorAll(".verdict *").length;
}"""


@pytest.mark.parametrize("key", [True, False])
def test_hostile_questions_verdicts_and_errors(opened, tmp_path, key):
    """Questions, remarks, what a program printed, and the texts of exceptions."""

    def grade(question, answer, language):
        if question.kind == "code":
            raise ValueError(question.starter)
        return SimpleNamespace(right=False, remarks=(question.question["en"],), printed=question.question["en"])

    asked = [HostileQuestion(kind, payload) for kind in ("single", "numeric", "code") for payload in PAYLOADS[::6]]
    quiz = Quiz(asked, grade)
    data = [snapshot(Value(2.0, label="x") * 3, scope={})]
    if key:
        tab = opened(saved(tmp_path, data, quiz=quiz.as_json(key=True)))
        assert tab.evaluate(ANSWER_ALL) > 0
        assert tab.locator(FOREIGN).count() == 0
        return
    with Server(data, quiz=quiz) as server:
        tab = opened(server.url, own=f"http://127.0.0.1:{server.http.server_port}/")
        assert tab.evaluate(ANSWER_ALL) > 0
        assert tab.locator(FOREIGN).count() == 0


def test_an_error_of_the_server_is_text(opened):
    with Server([snapshot(Value(2.0, label="x") * 3, scope={})]) as server:
        tab = opened(server.url, own=f"http://127.0.0.1:{server.http.server_port}/")
        for payload in PAYLOADS[::6]:
            tab.fill(".playground input", payload.replace("\u2028", "").replace("\u2029", "") + " ;")
            tab.click("text=Show it")
            changes(tab, ".playground output", "")
            assert tab.locator(FOREIGN).count() == 0


# --- T51: in a notebook, and in what other programs read


def host_of(content):
    return f"<!doctype html><html data-ready><body>{content}</body></html>"


def test_no_payload_runs_in_a_notebook(opened, tmp_path):
    """Eleven frames with ten labels each: a page each would take a minute."""
    frames = []
    for start in range(0, len(PAYLOADS), 10):
        total = Value(1.0)
        for payload in PAYLOADS[start : start + 10]:
            total = total + Value(2.0, label=payload)
        frames.append(explore(total, title=PAYLOADS[start], scope={})._repr_html_())
    (tmp_path / "notebook.html").write_text(host_of("".join(frames)), encoding="utf-8")
    tab = opened((tmp_path / "notebook.html").as_uri())
    assert tab.locator("iframe").count() == len(frames) == 11
    for place, inside in enumerate(tab.frames[1:]):
        tab.locator("iframe").nth(place).scroll_into_view_if_needed()  # what is out of sight is not drawn
        inside.wait_for_selector("html[data-ready]")
        assert inside.locator("g.box").count() >= 5 and inside.locator(FOREIGN).count() == 0


HOST = """([script, page, title]) => {
  const heard = [];
  window.model = {
    get: (name) => ({ page, title })[name],
    send: (content) => window.kernel(content).then((told) => heard.forEach((hear) => hear(told))),
    on: (kind, hear) => heard.push(hear),
    off: () => {},
  };
  const module = new Blob([script], { type: "text/javascript" });
  return import(URL.createObjectURL(module)).then((found) => {
    window.clean = found.default.render({ model: window.model, el: document.body });
  });
}"""


def test_a_widget_asks_the_kernel(opened, tmp_path):
    """The widget's script as a notebook runs it, with the page that the widget has, and our answers."""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    shown = explore((x * x).logsumexp(0), title=PAYLOADS[1])
    told = page({**shown.snapshot, "repeats": True}, PAYLOADS[1], asks="notebook")
    (tmp_path / "host.html").write_text(host_of(""), encoding="utf-8")
    tab = opened((tmp_path / "host.html").as_uri(), own=("file:", "blob:"))
    answers = Answers([shown.program])
    tab.expose_function("kernel", lambda content: _answered(answers, content))
    script = (files("pellucid.explorer") / "static" / "widget.js").read_text()
    tab.evaluate(HOST, [script, told, PAYLOADS[1]])
    inside = tab.frames[1]
    inside.wait_for_selector("html[data-ready]")
    assert tab.get_attribute("iframe", "sandbox") == "allow-scripts"
    assert tab.get_attribute("iframe", "title") == PAYLOADS[1]
    before = inside.text_content(".caption")
    inside.fill('input[data-leaf-number="0.1"]', "1.5")
    changes(inside, ".caption", before)
    assert tab.locator("img, script:not(:empty)").count() == 0
    tab.evaluate("window.clean()")


class Trait:
    """A stand-in for traitlets.Unicode and for anywidget, so that our side is tested without them too."""

    def tag(self, **kinds):
        assert kinds == {"sync": True}
        return self


class StandIn:
    def __init__(self, **traits):
        self.traits, self.sent = traits, []

    def on_msg(self, hear):
        self.hear = hear

    def send(self, content):
        self.sent.append(content)

    def _repr_mimebundle_(self, **options):
        return {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}, "text/plain": "widget"}


@pytest.fixture
def anywidget(monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", SimpleNamespace(AnyWidget=StandIn))
    monkeypatch.setitem(sys.modules, "traitlets", SimpleNamespace(Unicode=Trait))
    _widget.cache_clear()
    yield
    _widget.cache_clear()


def test_a_notebook_with_anywidget_gets_a_widget(anywidget):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    shown = explore((x * x).sum())
    bundle = shown._repr_mimebundle_(include=None, exclude=None)
    assert "application/vnd.jupyter.widget-view+json" in bundle and bundle["text/plain"] == repr(shown)
    widget = widget_of(shown)
    assert set(widget.traits) == {"page", "title"} and "<!doctype html>" in widget.traits["page"]
    widget.hear(widget, {"id": 7, "what": "change", "content": {"graph": 0, "values": {"0": [3.0, 4.0]}}}, [])
    assert widget.sent[0]["id"] == 7 and widget.sent[0]["told"]["nodes"][0]["grad"]["numbers"] == [6, 8]


@pytest.mark.parametrize(
    "asked",
    [None, "x", [], {}, {"what": "change"}, {"what": "answer", "content": {}}, {"what": "change", "content": []},
     {"what": "change", "content": {"graph": 1, "values": {}}}, {"what": ["change"], "content": {"graph": 0}},
     {"what": "change", "content": {"graph": 0, "values": {"1": [1.0]}}},
     {"what": "change", "content": {"graph": 0, "values": {"0": [1.0]}}},
     {"what": "change", "content": {"graph": 0, "values": {"0": [1.0, "<img>"]}}},
     {"what": "change", "content": {"graph": 0, "values": {"0": [1.0, float("nan")]}}},
     {"what": "change", "content": {"graph": 0, "values": {"-1": [1.0, 2.0]}}},
     {"what": "change", "content": {"graph": 0, "values": {"0": {"times": "2"}}}},
     {"what": "change", "content": {"graph": True, "values": {"0": [1.0, 2.0]}}}],
    ids=repr,
)  # fmt: skip
def test_bad_questions_of_a_widget_are_answered_with_an_error(anywidget, asked):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    widget = widget_of(explore((x * x).sum()))
    widget.hear(widget, asked, [])
    assert widget.sent[0]["error"]


def test_a_notebook_without_anywidget_gets_the_frame(monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    _widget.cache_clear()
    bundle = explore(Value(2.0, label="x") * 3)._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"} and bundle["text/html"].startswith("<iframe srcdoc=")
    _widget.cache_clear()


def test_the_real_anywidget():
    pytest.importorskip("anywidget", reason="needs anywidget: pip install pellucid[notebook]")
    _widget.cache_clear()
    shown = explore(Value(2.0, label=PAYLOADS[0]) * 3, title=PAYLOADS[1])
    widget = widget_of(shown)
    assert widget.title == PAYLOADS[1] and PAYLOADS[0] not in widget.page
    assert shown._repr_mimebundle_()


def test_other_formats_escape_what_the_user_wrote():
    """Anki's fields are HTML, an SVG is markup: nothing of a payload stands there as it was written."""
    from pellucid.lab.anki import escaped
    from pellucid.scalar.drawing import to_svg

    for payload in PAYLOADS:
        assert "<" not in escaped(payload).replace("<br>", "")
        x = Value(2.0, label=payload)
        drawn = to_svg(x * x)
        assert "<script" not in drawn and "<img" not in drawn and "onload=" not in drawn.split("<text")[0]
        assert xml.etree.ElementTree.fromstring(drawn) is not None
    model = nn.Sequential()
    model.add_module("<script>canary()</script>", nn.Linear(1, 1))
    y = model(torch.ones(1, 1)).sum()
    told = torch.explain(y, wrt=model[0].weight)._repr_html_()
    assert "canary()" in told and "<script" not in told


# --- T53


def test_a_saved_page_works_without_network(opened, tmp_path):
    tab = opened(saved(tmp_path, examples()), java_script_enabled=True, offline=True)
    tab.keyboard.press("ArrowRight")
    assert tab.inner_text(".caption") == "a = x * 3 = 2 * 3 = 6."


TRY = """() => new Promise((done) => {
  const tried = [];
  addEventListener("securitypolicyviolation", (event) => tried.push(event.effectiveDirective));
  const script = document.createElement("script");
  script.textContent = "canary()";
  const picture = document.createElement("img");
  picture.src = "http://evil.example/x.png";
  document.body.append(script, picture);
  fetch("http://evil.example/").catch(() => {});
  setTimeout(() => done(tried.sort()), 300);
})"""


def test_the_policy_of_a_page_refuses_what_got_in(browser, tmp_path):
    """Even a script that somehow stood in the page could not run, load or send anything."""
    tab = browser.new_context().new_page()
    asked = []
    tab.on("requestfinished", lambda request: asked.append(request.url))
    tab.goto(saved(tmp_path, examples()[:1]))
    policy = tab.get_attribute("meta[http-equiv]", "content")
    assert policy.startswith("default-src 'none'; script-src 'nonce-") and "unsafe" not in policy
    assert tab.evaluate(TRY) == ["connect-src", "img-src", "script-src-elem"]
    assert all(url.startswith("file:") for url in asked)
    tab.context.close()
