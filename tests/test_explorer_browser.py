"""The explorer's page in a real browser: steps, sliders, keys, themes, routes, predictions."""

import re
import xml.etree.ElementTree

import pytest

import pellucid as torch
from explorer_chromium import NARROW, WIDE, caption, move, texts
from pellucid import nn
from pellucid.explorer import examples, explore, page, snapshot
from pellucid.scalar import Value

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


ARRAYS = [
    "w * b + 1", "torch.tanh(x @ w)", "(x @ w).mean(0)", "(w @ w.T).sum(1)",
    "(x @ w).sum(0, keepdim=True)", "w.mean(1) - b.sum()", "torch.softmax(x @ w, 1)", "torch.log_softmax(x @ w, 0)",
    "w.reshape(9).pow(3)", "w.unsqueeze(0).expand(2, 3, 3) * b", "w.T * w", "torch.dot(b, b) * w",
    "nn.functional.linear(x, w, b).relu()", "nn.functional.linear(x, w)", "nn.functional.mse_loss(x @ w, x)",
    "nn.functional.mse_loss(w, w * b, reduction='sum')", "nn.functional.mse_loss(x @ w, x, reduction='none')",
    "torch.where(w > b, w, b.exp())", "torch.maximum(w, b) / (1 + w.abs())", "w.clamp(min=-0.5, max=0.6) * w",
    "nn.functional.leaky_relu(w) + (w + 3).rsqrt()", "w.sinh() * b.cosh()", "(w @ b).sigmoid()",
    "w.unsqueeze(0).expand(2, 3, 3).transpose(0, 2).mean((0, 1))", "x.unsqueeze(2).permute(2, 0, 1).sum(0) @ w",
    "(w * b).squeeze()", "w.detach() * w", "(w @ w).sum() * w.mean()", "w.T.reshape(9) * 2",
    "w.unsqueeze(0).squeeze(0) * b", "w.unsqueeze(0).unsqueeze(3).squeeze((0, 3)) * b",
    "torch.cat([w[0], b * 2]) ** 2", "w[:, 1:].flip(0) * w[1, 2]", "torch.stack([b, w[2]]).roll(1, 0) * b",
    "nn.functional.pad(w.tril(), (1, 0), value=3.0) ** 2", "w[:2].repeat(2, 1) * b", "w.diagonal() * w.unbind(0)[1]",
    "torch.cat([w, w]).T @ torch.cat([w, x, b.unsqueeze(0)])",
]  # fmt: skip


def test_small_arrays_are_computed_as_pellucid_does(opened, tmp_path):
    """Every row that the page computes on arrays: after a change the same values, gradients and sentences."""
    other = [0.3, -0.8, 1.1, 0.9, -0.2, 0.7, -1.3, 0.4, 0.1]

    def run(source, numbers):
        given = {
            "x": torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], dtype=torch.float64),
            "w": torch.tensor(numbers, dtype=torch.float64).reshape(3, 3).requires_grad_(),
            "b": torch.tensor([0.2, -0.4, 0.6], dtype=torch.float64, requires_grad=True),
        }
        return snapshot(lambda: eval(source, {"torch": torch, "nn": nn, **given}), scope=given)

    pages = [run(source, [0.1 * i - 0.35 for i in range(9)]) for source in ARRAYS]
    assert all(seen["arrays"] and not seen["live"] for seen in pages)
    (tmp_path / "arrays.html").write_text(page(pages), encoding="utf-8")
    tab = opened((tmp_path / "arrays.html").as_uri())
    for index, source in enumerate(ARRAYS):
        expected = run(source, other)
        w = next(node["id"] for node in expected["nodes"] if node["name"] == "w")
        tab.goto(f"{(tmp_path / 'arrays.html').as_uri()}#example={index}&v{w}={','.join(map(str, other))}")
        found = tab.evaluate(CHANGED)
        assert found["captions"] == [step["caption"] for step in expected["backward"]], source
        for name in ("value", "grad"):
            for mine, theirs in zip(found[name], expected["nodes"], strict=True):
                if theirs[name]:
                    assert mine == pytest.approx(theirs[name]["numbers"], rel=1e-9, abs=1e-12), (
                        source,
                        theirs["called"],
                    )


CHANGED = """async () => {
  await new Promise((done) => setTimeout(done, 30));
  const { model } = document.getElementById("app").explorer;
  const numbers = (name) => model.nodes.map((node) => node[name] && node[name].numbers);
  const captions = model.backward.map((_, step) => model.caption("backward", step));
  return { captions, value: numbers("value"), grad: numbers("grad") };
}"""


def test_an_element_of_an_array_is_changed_by_its_field_or_the_slider(opened, gallery):
    tab = opened(f"{gallery}#example=layer")
    before = texts(tab, 7)[0]
    tab.fill('input[data-leaf-number="0.1"]', "2")
    assert texts(tab, 7)[0] != before and "norm" in caption(tab)
    again = opened(tab.evaluate("location.href"))
    assert caption(again) == caption(tab) and again.input_value('input[data-leaf-number="0.1"]') == "2"
    tab.click("text=Reset")
    assert texts(tab, 7)[0] == before


def test_a_page_says_when_its_numbers_are_fixed(opened, tmp_path):
    x = torch.randn(20, 30, requires_grad=True)
    tab = opened(explore(lambda x: (x @ x.T).logsumexp(0).sum(), x).save_html(tmp_path / "fixed.html").as_uri())
    assert "fixed on this page" in tab.inner_text(".inputs")


# --- routes, reasons, predictions


def test_whole_routes_add_up(opened, gallery):
    tab = opened(f"{gallery}#example=sliders&node=1")
    assert tab.locator(".routes li .route").all_text_contents() == ["c ← b", "c ← sum ← b"]
    assert tab.locator(".routes li .route-numbers").all_text_contents() == ["1 × 5 = 5", "1 × 3 × 1 = 3"]
    assert "Two routes: 5 + 3 = 8" in tab.inner_text(".node")
    move(tab, 1, -2)
    assert "Two routes: -2 + 0 = -2" in tab.inner_text(".node")


def test_many_routes_are_counted_and_the_strongest_listed(opened, tmp_path):
    y = Value(1.0, label="x")
    for _ in range(40):
        y = y + y * 0.5
    tab = opened(explore(y, scope={}).save_html(tmp_path / "routes.html").as_uri() + "#node=0")
    assert "the strongest of 1.1e12" in tab.inner_text(".node") and tab.locator(".routes li").count() == 6
    assert "more routes) = 1.106e7" in tab.inner_text(".node")


@pytest.mark.parametrize(
    ("example", "question", "reason"),
    [
        ("nan", "Why not a number?", "It starts in log(x): 0 × ∞ = NaN."),
        ("vanishing", "Why so small?", "21 steps, each of which multiplies it by 0.247 on average."),
        ("relu-tanh&v0=-40", "Why zero?", "Every route has a factor 0: in"),
    ],
)
def test_why_a_gradient_is_bad(opened, gallery, example, question, reason):
    tab = opened(f"{gallery}#example={example}&node=0")
    assert tab.inner_text(".why").startswith(f"{question} {reason}")


def test_what_if_draws_the_gradient_as_a_slope(opened, gallery):
    tab = opened(f"{gallery}#example=sliders&node=1")
    assert tab.locator("svg.tangent .triangle").count() == 1
    assert "changes c at a rate of 8; the gradient says 8." in tab.inner_text(".node")


def test_predictions_are_judged_before_the_step_is_shown(opened, gallery):
    tab = opened(f"{gallery}#example=sliders")
    tab.click("button.predict-button")
    assert caption(tab) == "Start at the end: ∂c/∂c = 1." and texts(tab, 1)[1] == "grad ?"
    assert tab.locator(".routes, table.paths").count() == 0  # nothing gives it away
    tab.fill("#prediction", "5")
    tab.keyboard.press("Enter")
    assert tab.inner_text(".predict-said") == "Right. ∂c/∂b = 5."
    tab.fill("#prediction", "3")
    tab.keyboard.press("Enter")
    said = tab.inner_text(".predict-said")
    assert said.startswith("Not 3. That is path 2 alone; the paths add up: ∂c/∂b = 8.") and "1 of 2 right" in said
    assert texts(tab, 1)[1] == "grad 8"
    tab.click("button.mode.forward")
    tab.fill("#prediction", "five")
    tab.keyboard.press("Enter")
    assert tab.inner_text(".predict-said") == "Type a number."


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
        ("saved>0", "2 of 5"),
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


def test_the_picture_can_be_saved(opened, gallery, tmp_path):
    tab = opened(f"{gallery}#example=layer")
    with tab.expect_download() as saved:
        tab.click("button[aria-label='Save the picture as SVG']")
    saved.value.save_as(tmp_path / "graph.svg")
    drawn = xml.etree.ElementTree.parse(tmp_path / "graph.svg").getroot()
    said = [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"W", "UPDATE!", "∂loss/∂W = δ xᵀ", "loss"} <= set(said)
    assert texts(tab, 7)[0] == "1.417"  # the page goes on as before


def test_an_update_badge_stands_on_parameters_only(opened, gallery):
    tab = opened(f"{gallery}#example=layer")
    assert tab.locator("g.box:has(.badge) .name").all_text_contents() == ["W", "b"]
    assert tab.locator(".badge").all_text_contents() == ["UPDATE!", "UPDATE!"]
    assert texts(tab, 2)[1] == "(no grad)"


# --- models


def test_modules_open_and_fold(opened, tmp_path):
    model = nn.Sequential(*[nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0) for _ in range(3)])
    path = explore(lambda model, x: model(x).sum(), model, torch.ones(1, 2, 8)).save_html(tmp_path / "model.html")
    tab = opened(path.as_uri())
    assert tab.locator("g.box.module .name").all_text_contents() == ["model.0", "model.1", "model.2"]
    tab.locator("g.box.module").first.click(force=True)
    tab.wait_for_timeout(100)
    assert "0.self_attn" in tab.locator("g.box.module .name").all_text_contents()
    tab.locator(".crumbs button", has_text="model.0").click()
    tab.wait_for_timeout(100)
    assert tab.locator("g.box.module").count() == 3


def test_a_list_of_blocks_is_open_at_first(opened, tmp_path):
    """What holds only other modules would be one box that says nothing."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(4, 4)
            self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True) for _ in range(4))

        def forward(self, x):
            x = self.first(x)
            for block in self.blocks:
                x = block(x)
            return x.sum()

    net = Net().eval()
    tab = opened(explore(net, torch.ones(1, 2, 4)).save_html(tmp_path / "blocks.html").as_uri())
    names = tab.locator("g.box.module .name").all_text_contents()
    assert [name.removeprefix("self.") for name in names if "block" in name] == [f"blocks.{i}" for i in range(4)]


def test_of_many_leaves_the_selected_one_can_be_changed(opened, tmp_path):
    model = nn.Sequential(*[nn.Linear(2, 2) for _ in range(5)])
    path = explore(lambda model, x: model(x).sum(), model, torch.ones(1, 2)).save_html(tmp_path / "model.html")
    tab = opened(path.as_uri())
    assert tab.locator(".inputs .array-input").count() == 1
    tab.select_option(".inputs select", label="model.3.bias (2)")
    tab.fill(".cells input >> nth=1", "7")
    assert "%2C7" in tab.evaluate("location.hash")
    tab.evaluate("document.getElementById('app').explorer.select(4)")
    assert tab.locator(".inputs select").evaluate("(e) => e.selectedOptions[0].textContent") == "model.2.weight (2×2)"


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
    loud = tab.locator("[aria-live], [role=status], output").evaluate_all(
        "(all) => all.filter((each) => each.textContent.trim()).map((each) => each.className)"
    )
    assert loud == ["caption backward"]  # one voice: what else changes is read when one goes there
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


LABELS = """() => {
  const places = [...document.querySelectorAll(".line-label rect")].map((each) => each.getBoundingClientRect());
  const over = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  return [places.length, places.some((a, i) => places.some((b, j) => i < j && over(a, b)))];
}"""


@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_no_label_lies_on_another(opened, gallery, viewport):
    tab = opened(gallery, viewport=viewport)
    for example in ("sliders", "accumulation", "softmax", "nan", "relu-tanh", "shapes"):
        tab.goto(f"{gallery}#example={example}&mode=backward&step=99")
        tab.wait_for_timeout(100)
        many, overlap = tab.evaluate(LABELS)
        assert many >= 2 and not overlap, example


def test_a_comparison_is_true_or_false(opened, gallery):
    tab = opened(f"{gallery}#example=nan")
    box = tab.locator("g.box", has_text="(x > 0)").locator(".value")
    assert box.text_content() == "false"
    move(tab, 0, 1)
    tab.wait_for_timeout(100)
    assert tab.locator("g.box", has_text="(x > 0)").locator(".value").text_content() == "true"
