"""The explorer: the numbers of a snapshot, and a page that is one file and lets nothing of the user's run."""

import html
import json
import re
from importlib.resources import files

import numpy as np
import pytest

import pellucid as torch
from pellucid import nn
from pellucid.errors import printable
from pellucid.explorer import Training, examples, explore, page, snapshot, snapshot_source, watching
from pellucid.explorer.snapshot import changed, look
from pellucid.scalar import Value
from pellucid.testing import graphs


def leaf(value):
    return torch.tensor(value, requires_grad=True)


def by_name(seen):
    return {node["called"]: node for node in seen["nodes"]}


def values(seen):
    return {name: node["value"]["numbers"][0] for name, node in by_name(seen).items() if node["value"]}


def grads(seen):
    return {name: node["grad"]["numbers"][0] for name, node in by_name(seen).items() if node["grad"]}


def example(name):
    return next(each for each in examples() if each["id"] == name)


# --- golden numbers of mission.md


def test_X1_chain():
    seen = example("chain")
    assert values(seen) == {"x": 2, "a": 6, "b": 7, "c": 49}
    assert grads(seen) == {"x": 42, "a": 14, "b": 14, "c": 1}
    assert len(seen["forward"]) == 3  # with the start: four states
    assert seen["start"] == {"mode": "forward", "step": 0}
    assert [step["caption"] for step in seen["backward"]] == [
        "Start at the end: ∂c/∂c = 1.",
        "Through c = b ** 2: ∂c/∂b = 1 × 14 = 14.",
        "Through b = a + 1: ∂c/∂a = 14 × 1 = 14.",
        "Through a = x * 3: ∂c/∂x = 14 × 3 = 42.",
    ]


def test_X2_loss_graph_of_eight_nodes():
    seen = example("loss")
    assert len(seen["nodes"]) == 8 and len(seen["backward"]) == 5
    expected = {"z1": 1.0, "z2": 1.1, "diff": 0.3, "loss": 0.09}
    for name, value in expected.items():
        assert values(seen)[name] == pytest.approx(value, rel=1e-5)
    for name, gradient in {"diff": 0.6, "z2": 0.6, "z1": 0.6, "b": 0.6, "x": 0.3, "w": 1.2}.items():
        assert grads(seen)[name] == pytest.approx(gradient, rel=1e-5)
    target = by_name(seen)["target"]
    assert target["grad"] is None and target["needs"] is False


def test_X3_two_paths_of_three():
    seen = example("accumulation")
    assert [edge["sent"] for edge in seen["edges"]] == [3, 3]
    assert grads(seen)["x"] == 6
    assert seen["backward"][1]["caption"].endswith("two paths add up: 3 + 3 = 6.")


def test_X4_paths_are_named():
    seen = example("sliders")
    assert by_name(seen)["b"]["paths"] == "Two paths: 5 (direct) + 3 (via sum)"
    assert grads(seen) == {"a": 3, "b": 8, "sum": 3, "c": 1}
    assert sorted(seen["controls"].values(), key=str) == [{"min": -5, "max": 5, "step": 0.5}] * 2


def test_X5_layer_with_parameters():
    nodes = by_name(example("layer"))
    assert [name for name, node in nodes.items() if node.get("badge") == "UPDATE!"] == ["W", "b"]
    assert "δ xᵀ" in nodes["W"]["symbol"] and nodes["x"]["grad"] is None
    w, x, b = (np.array(nodes[name]["value"]["numbers"]) for name in "Wxb")
    y = np.tanh(w.reshape(3, 4) @ x + b)
    delta = 2 * y * (1 - y**2)
    assert nodes["W"]["grad"]["numbers"] == pytest.approx(np.outer(delta, x).ravel(), rel=1e-4)
    assert nodes["b"]["grad"]["numbers"] == pytest.approx(delta, rel=1e-4)


def test_softmax_nan_vanishing_detach():
    softmax = example("softmax")
    assert values(softmax)["p"] == pytest.approx(0.268941, abs=1e-6)
    assert grads(softmax)["x"] == pytest.approx(0.196612, abs=1e-6)
    nan = example("nan")
    assert values(nan)["log(x)"] == "-Infinity" and values(nan)["y"] == 0
    assert grads(nan)["x"] == "NaN" and "0 × ∞ = NaN" in nan["backward"][-1]["caption"]
    assert 0 < grads(example("vanishing"))["x"] < 2 * 0.25**20
    detach = by_name(example("detach"))
    assert detach["frozen"]["op"] == "detach" and detach["a"]["grad"] is None
    assert detach["x"]["grad"]["numbers"] == [9]


def test_X6_xor_training():
    seen = example("xor")
    training = seen["training"]
    assert training["loss"][0] == pytest.approx(1.0835, abs=5e-5)
    assert training["loss"][-1] < 1e-5 and len(training["loss"]) == 200
    assert training["frames"][-1]["note"] == "0.00 1.00 1.00 0.00"
    assert set(training["gradients"]) == {"W1", "b1", "W2", "b2"}


def test_examples_are_all_there():
    names = [each["id"] for each in examples()]
    assert names[:8] == ["chain", "loss", "accumulation", "sliders", "layer", "softmax", "relu-tanh", "xor"]
    assert names[8:] == ["nan", "vanishing", "detach", "shapes"]


GOLDEN = [
    (lambda w, x, b: (w * x + b) ** 2, (2.0, 3.0, 1.0), 49, (42, 28, 14)),
    (lambda x: x * x + x, (3.0,), 12, (7,)),
    (lambda a: (a + a) * a, (2.0,), 8, (8,)),
    (lambda a, b, c: (a * b + c) * (a - c), (2.0, 3.0, 4.0), -20, (4, -4, -12)),
    (lambda x: x**3, (2.0,), 8, (12,)),
]


@pytest.mark.parametrize("kind", [leaf, Value])
@pytest.mark.parametrize(("function", "at", "value", "gradients"), GOLDEN)
def test_golden_expressions_of_tensors_and_values(kind, function, at, value, gradients):
    inputs = [kind(number) for number in at]
    y = function(*inputs)
    seen = snapshot(y)
    assert seen["live"] and seen["nodes"][seen["root"]]["value"]["numbers"] == [value]
    leaves = [node for node in seen["nodes"] if node["op"] == "leaf"]
    assert [node["grad"]["numbers"][0] for node in leaves] == list(gradients)
    for node in leaves:
        sent = [edge["sent"] for edge in seen["edges"] if edge["from"] == node["id"]]
        assert sum(sent) == node["grad"]["numbers"][0]


def test_a_value_keeps_its_grad():
    x = Value(3.0, label="x")
    y = x * x
    y.backward()
    snapshot(y)
    assert x.grad == 6


# --- what a snapshot knows


def test_a_finished_tensor_shows_what_can_be_known():
    x = leaf(2.0)
    y = ((x * 3) + 1) ** 2
    seen = snapshot(y)
    assert [node["value"]["numbers"][0] for node in seen["nodes"]] == [2, 6, 7, 49]
    assert seen["nodes"][2]["formula"] == "(x * 3) + 1"
    assert x.grad is None
    y.backward()  # the graph is still whole
    assert x.grad.item() == 42


def test_a_freed_graph_is_still_drawn():
    x = leaf(3.0)
    y = x * x
    y.backward()
    seen = snapshot(y)
    assert "freed" in seen["notes"][0] and seen["backward"] == []
    assert grads(seen) == {"x": 6}
    v = leaf([1.0, 2.0])
    first, second = (v**2).unbind()
    z = first * second
    z.backward()
    assert [node["formula"] for node in snapshot(z)["nodes"][1:3]] == ["v ** …", "unbind(v ** …)"]


def test_a_function_is_watched_with_its_names():
    def loss(w, t):
        hidden = w * 2
        return (hidden - t) ** 2

    w, t = leaf(1.0), torch.tensor(5.0)
    seen = snapshot(loss, w, t)
    assert [node["called"] for node in seen["nodes"]] == ["w", "t", "hidden", "(hidden - t)", "loss"]
    assert by_name(seen)["hidden"]["grad"]["numbers"] == [-6]
    line = seen["sources"][by_name(seen)["hidden"]["source"]]
    assert line["text"] == "hidden = w * 2" and line["file"].endswith("test_explorer.py")


def test_what_was_watched_can_be_handed_in():
    x = leaf(2.0)
    with watching() as watch:
        with torch.no_grad():
            scale = x * 10
        y = x * scale
    nodes = by_name(snapshot(y, watch=watch))
    assert nodes["scale"]["formula"] == "x * 10" and nodes["scale"]["grad"] is None
    assert nodes["x"]["grad"]["numbers"] == [20]


def test_modules_are_groups_and_parameters_belong_to_them():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 1)))
    seen = snapshot(lambda model, x: model(x).sum(), model, torch.ones(2, 3))
    paths = [group["path"] for group in seen["groups"]]
    assert paths == ["model", "model.0", "model.1", "model.2", "model.2.0"]
    nodes = by_name(seen)
    assert seen["groups"][nodes["model.2.0.weight"]["group"]]["path"] == "model.2.0"
    assert nodes["model.0.weight"]["badge"] == "UPDATE!"


def test_a_module_that_is_called_twice_has_two_runs():
    layer = nn.Linear(2, 2)
    seen = snapshot(lambda x: layer(torch.tanh(layer(x))).sum(), torch.ones(1, 2))
    assert [group["path"] for group in seen["groups"]] == ["layer", "layer"]
    weight = by_name(seen)["layer.weight"]
    assert "group" not in weight and weight["paths"].startswith("Two paths: norm ")


def test_operations_with_several_results():
    v = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    seen = snapshot(lambda v: v.unbind()[0] * v.unbind()[1], v)
    assert by_name(seen)["v"]["grad"]["numbers"] == [2, 1, 0]
    first, second = v.unbind()[:2]
    seen = snapshot(first * second)
    assert by_name(seen)["v"]["grad"]["numbers"] == [2, 1, 0]


def test_large_tensors_are_summed_up():
    w = torch.randn(200, 300, requires_grad=True)
    seen = snapshot((w * w).mean())
    told = by_name(seen)["w"]["value"]
    assert "numbers" not in told and sum(told["histogram"]) == 60_000
    assert told["heat"]["rows"] == told["heat"]["columns"] == 32
    assert told["norm"] == pytest.approx(float(np.linalg.norm(w.array)), rel=1e-5)
    assert len(json.dumps(told)) < 2_500


def test_bad_numbers_survive_json():
    x = torch.tensor([1.0, 0.0, float("nan")], requires_grad=True)
    seen = snapshot((1 / x).sum())
    text = json.dumps(seen, allow_nan=False)
    assert "NaN" in text and "Infinity" in text
    told = by_name(seen)["x"]["value"]
    assert told["nan"] == 1


def test_gradients_of_a_result_with_several_elements():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    assert by_name(snapshot(x * 3))["x"]["grad"]["numbers"] == [3, 3]
    assert by_name(snapshot(x * 3, gradient=torch.tensor([1.0, -1.0])))["x"]["grad"]["numbers"] == [3, -3]


def test_refusals_say_what_to_do():
    with pytest.raises(TypeError, match="takes a Tensor, a Value or a function"):
        explore(3.0)
    with pytest.raises(RuntimeError, match="does not require grad"):
        explore(torch.ones(2))
    with pytest.raises(TypeError, match="only after a function"):
        explore(leaf(1.0) * 2, leaf(2.0))
    with pytest.raises(ValueError, match="no tensor"):
        snapshot_source("x = 3")
    with pytest.raises(TypeError, match="dictionary of the tensors"):
        Training({"w": 3.0})
    with pytest.raises(ValueError, match="at least one"):
        page([])


def test_a_refused_function_leaves_no_observer():
    def fails(x):
        raise KeyError("mine")

    import sys

    from pellucid.core import modes

    with pytest.raises(KeyError):
        explore(fails, leaf(1.0))
    assert modes.current().observers == () and sys.getprofile() is None


def test_training_keeps_a_bounded_number_of_pictures():
    w = leaf([3.0, 4.0])
    training = Training({"w": w})
    for _ in range(500):
        loss = (w * w).sum()
        loss.backward()
        training.step(loss)
        w.grad = None
    data = training.as_json()
    assert len(data["loss"]) == 500 and len(data["frames"]) <= 60
    assert data["norms"]["w"][0] == 5 and data["gradients"]["w"][0] == 10


def test_random_programs_have_the_gradients_of_backward():
    checked = 0
    for index in range(40):
        for kind in ("graph", "alias"):
            program = graphs.write(kind, 7, index)
            try:
                with watching(names=False) as watch:
                    names, loss = graphs.forward(program, torch, program.values())
                seen = snapshot(loss, watch=watch if index % 2 else None, scope=names)
                loss.backward()
            except RuntimeError:  # an alias program may rightly be refused
                continue
            json.dumps(seen, allow_nan=False)
            told = {node["name"]: node for node in seen["nodes"]}
            for name, _ in program.leaves:
                gradient = names[name].grad
                if gradient is not None and gradient.array.size <= 64:
                    expected = gradient.array.ravel().tolist()
                    found = [float(number) for number in told[name]["grad"]["numbers"]]
                    assert found == pytest.approx(expected, nan_ok=True)
                    checked += 1
    assert checked > 60


def test_a_parameter_shows_the_values_that_the_graph_was_computed_with():
    with watching() as watch:
        norm = nn.LayerNorm(3)  # made with ones in place, after its memory
        w = torch.zeros(2, requires_grad=True)
        for _ in range(3):
            with torch.no_grad():
                w.add_(1.0)
            y = (w * w).sum() + norm(torch.ones(1, 3)).sum()
    nodes = by_name(snapshot(y, watch=watch, scope={"norm": norm, "w": w}))
    assert nodes["norm.weight"]["value"]["numbers"] == [1, 1, 1]
    assert nodes["w"]["value"]["numbers"] == [3, 3] and nodes["w"]["grad"]["numbers"] == [6, 6]


def test_what_is_kept_for_backward_is_counted():
    x = torch.ones(10, 10, requires_grad=True)
    nodes = by_name(snapshot(lambda x: (x * x).sum(), x))
    assert nodes["(x * x)"]["saved"] == 400 and "saved" not in nodes["y"]


def test_a_finished_tensor_shows_the_data_that_its_rules_kept():
    x, w = torch.ones(2, 3), torch.ones(3, requires_grad=True)
    nodes = by_name(snapshot((x @ w).sum()))
    assert nodes["x"]["op"] == "constant" and nodes["x"]["grad"] is None


# --- changed numbers, computed by Pellucid


torch.manual_seed(3)
DATA, CLASSES = torch.randn(4, 6), torch.tensor([0, 1, 2, 0])
REPEATED = {
    "square": lambda w: (w * w).sum(),
    "layer": lambda w: torch.tanh(DATA @ w).pow(2).mean(),
    "cross entropy": lambda w: nn.functional.cross_entropy(DATA @ w, CLASSES),
    "layer norm": lambda w: (nn.functional.layer_norm(DATA @ w, (3,)) ** 3).sum(),
    "several results": lambda w: (w.unbind(0)[0] * w.unbind(0)[1]).sum(),
    "one of several": lambda w: (DATA @ w).max(1)[0].sum(),
    "cat": lambda w: torch.cat([DATA @ w, w[:4]], 1).std(),
    "detach": lambda w: ((DATA @ w).detach() * w[:4]).sum(),
    "softmax": lambda w: (torch.softmax(DATA @ w, 1) ** 2).sum(),
    "attention": lambda w: nn.functional.scaled_dot_product_attention(w[None], w[None], w[None]).sum(),
    "not scalar": lambda w: w * 2 + w.sum(),
}  # fmt: skip


@pytest.mark.parametrize("name", REPEATED)
def test_a_program_is_run_again_with_other_numbers(name):
    """Values, gradients and sentences are those of a fresh run with the other numbers."""
    function = REPEATED[name]
    start, other = np.linspace(-1, 1, 18).reshape(6, 3), np.linspace(0.3, -2, 18).reshape(6, 3)
    w = torch.tensor(start, dtype=torch.float32, requires_grad=True)
    seen = look(function, w, scope={"w": w})
    before = json.dumps(seen.data)
    place = by_name(seen.data)["w"]["id"]
    told = changed(seen.program, {place: other})
    v = torch.tensor(other, dtype=torch.float32, requires_grad=True)
    fresh = look(function, v, scope={"w": v}).data
    for found, expected in zip(told["nodes"], fresh["nodes"], strict=True):
        for kind in ("value", "grad"):
            assert (found[kind] is None) == (expected[kind] is None)
            if found[kind] and "numbers" in found[kind]:
                assert found[kind]["numbers"] == pytest.approx(expected[kind]["numbers"], rel=1e-5, abs=1e-6)
    assert told["captions"] == [step["caption"] for step in fresh["backward"]]
    assert json.dumps(seen.data) == before and w.grad is None


def test_a_model_is_run_again():
    model = nn.Sequential(
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0), nn.Linear(8, 2), nn.LogSoftmax(-1)
    )
    seen = look(lambda model, x: model(x)[0, 0, 1], model, torch.randn(1, 3, 8))
    weight = next(node for node in seen.data["nodes"] if node["called"] == "model.1.weight")
    other = np.asarray(model[1].weight.array) * 2
    told = changed(seen.program, {weight["id"]: other})
    assert told["captions"][0] == seen.data["backward"][0]["caption"]
    assert told["nodes"][seen.data["root"]]["value"] != seen.data["nodes"][seen.data["root"]]["value"]


def test_what_comes_out_differently_is_refused():
    x = torch.ones(4, requires_grad=True)
    program = look(lambda x: (x * 2).sum(), x).program
    program.graph.items[1].value = np.zeros(4, np.float32)  # as if a row had drawn other numbers
    with pytest.raises(ValueError, match="differently"):
        program.run({0: np.ones(4)})


def test_a_graph_with_unknown_inputs_has_no_program():
    x = torch.ones(3, requires_grad=True)
    y = (x + torch.ones(3)).sum()  # adding keeps nothing: the ones are gone
    assert look(y, scope={}).program is None
    assert look(Value(2.0) * 3).program is None  # the page computes these by itself


# --- the page


FETCHES = r"https?:|//[a-z]|@import|url\((?!#)|\bsrc=|<link|<img|<iframe"
DANGERS = r"https?:|\beval\(|new Function|(inner|outer)HTML|insertAdjacent|document\.write|fetch\(|XMLHttp|import\("


def test_the_page_is_one_file(tmp_path):
    text = explore(example_of_fifty()).save_html(tmp_path / "page.html").read_text()
    assert len(text.encode()) <= 300_000
    code = text.replace("http://www.w3.org/2000/svg", "")  # the name of SVG, never fetched
    assert not re.search(FETCHES, code.split("<style", 1)[1].split('id="data"')[0])
    assert not re.search(DANGERS, code.rsplit("<script nonce", 1)[1])
    assert "default-src 'none'; script-src 'nonce-" in text


def example_of_fifty():
    h = x = torch.randn(40, 40, requires_grad=True)
    for _ in range(25):
        h = torch.tanh(h @ x)
    return h.sum()


def test_pages_are_reproducible():
    y = leaf(1.0) * 2
    assert explore(y).html() == explore(y).html()


PAYLOADS = [
    "</script><script>canary()</script>", "<img src=x onerror=canary()>", "<svg onload=canary()>", "javascript:x()",
    "\u2028canary()\u2029", "{{canary()}}", "${canary()}", "&quot;><script>canary()</script>", "<!--<script>", "]]>",
    "'-canary()-'", '"onmouseover="canary()"', "<style>@import 'x'</style>", "\x00<b>", "\u202e", "🙂",
]  # fmt: skip


@pytest.mark.parametrize("payload", PAYLOADS)
def test_what_the_user_wrote_stays_data(payload):
    x = Value(2.0, label=payload)
    seen = snapshot(x * x, title=payload, note=payload)
    text = page(seen, payload)
    data = text.split('id="data">')[1].split("</script>")[0]
    assert not set(data) & set("<>&\u2028\u2029") and data.isascii()
    assert json.loads(data)["examples"][0]["nodes"][0]["name"] == printable(payload)
    assert text.count("<script") == 2 and text.count("</script>") == 2
    assert f"<title>{html.escape(printable(payload) or seen['title'])}</title>" in text


def test_a_notebook_gets_a_frame_with_everything_escaped():
    shown = explore(Value(1.0, label='"><script>canary()</script>') * 2, title='"><b>')._repr_html_()
    assert shown.startswith('<iframe srcdoc="') and "<script" not in shown and shown.count(">") == 2
    assert 'sandbox="allow-scripts"' in shown


def test_an_exploration_says_what_it_is():
    assert repr(explore(leaf(1.0) * 2)) == "<Exploration of 2 nodes and 1 backward steps: .show(), .save_html(path)>"


def test_what_a_bias_gets_is_said_as_it_is():
    """It is no factor: its gradient is a sum."""
    layers = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 2))
    seen = snapshot(lambda x: layers(x).pow(2).sum(), torch.ones(2, 1, 4, 4), scope={"layers": layers})
    words = {seen["nodes"][edge["from"]]["called"]: edge.get("words", "") for edge in seen["edges"]}
    for number in (0, 2):
        assert words[f"layers.{number}.weight"].startswith("times the other factor")
        assert words[f"layers.{number}.bias"].startswith("summed over all that it was added to, shape (2, ")


def test_an_index_stands_in_the_formula():
    x = torch.arange(12.0).reshape(3, 4).requires_grad_()
    seen = snapshot(lambda x: x[0, 1:] * x[:, ::2][2, -1] + x[..., 3], x, scope={"x": x})
    formulas = [node["formula"] for node in seen["nodes"] if node["op"] in ("select", "slice")]
    assert formulas == ["x[0, 1:]", "x[:, ::2]", "x[:, ::2][2, -1]", "x[..., 3]"]


def test_where_elements_go_is_found_by_running_the_operation():
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    places = torch.tensor([[2], [0]])

    def moved(x):
        return torch.cat([x.gather(1, places), nn.functional.pad(x.roll(1, 1), (0, 1))], 1).sum() + x[x > 2].sum()

    nodes = {node["op"]: node for node in snapshot(moved, x, scope={"x": x})["nodes"]}
    assert nodes["take_along"]["moves"] == [[0, 2], [0, 3]]
    assert nodes["constant_pad_nd"]["moves"] == [[0, 0], [0, 1], [0, 2], [], [0, 3], [0, 4], [0, 5], []]
    assert nodes["cat"]["moves"][:2] == [[0, 0], [1, 0]]
    assert "moves" not in nodes["index"]  # its mask is computed from x: another x, other places


def test_a_freed_graph_tells_no_moves():
    x = torch.ones(2, 2, requires_grad=True)
    y = x[0].roll(1, 0).sum()
    y.backward()
    assert all("moves" not in node or node["moves"] for node in snapshot(y, scope={"x": x})["nodes"])


def test_no_string_of_the_page_goes_over_several_lines():
    """Pages carry the scripts without indentation and comments: inside a string that would change it."""
    for script in (files("pellucid.explorer") / "static").iterdir():
        lines = script.read_text(encoding="utf-8").splitlines() if script.name.endswith(".js") else []
        assert [line for line in lines if line.count("`") % 2 or line.endswith("\\")] == [], script.name
