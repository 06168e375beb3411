"""What a snapshot tells besides values and gradients: time, memory, training runs, gradients from elsewhere."""

import json

import numpy as np
import pytest

import pellucid as torch
from pellucid import nn
from pellucid.explorer import Training, explore, snapshot
from pellucid.explorer.commands import _of_script
from pellucid.explorer.timing import TURNS


def trained(rate, steps=5, name=""):
    w = torch.tensor([3.0, -4.0], requires_grad=True)
    training = Training({"w": w}, name=name)
    for _ in range(steps):
        loss = (w * w).sum()
        loss.backward(retain_graph=True)
        training.step(loss)
        w.data = w.data - rate * w.grad
        w.grad = None
    return loss, training


# --- training


def test_an_update_is_told_as_a_share_of_the_parameter():
    _, training = trained(0.1)
    assert training.as_json()["updates"] == {"w": [0.2] * 4}  # rate × 2w, over w; the last step's is not known yet


def test_updates_of_nothing_and_of_another_shape():
    w = torch.zeros(2, requires_grad=True)
    training = Training({"w": w})
    for array in ([0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [1.0, 2.0, 3.0]):
        w.data = torch.tensor(array)
        training.step(1.0)
    assert training.as_json()["updates"]["w"] == [0, "Infinity"]  # no move; from nothing; none for a new shape


def test_two_runs_are_compared():
    (loss, first), (_, second) = trained(0.1, name="calm"), trained(0.4, name="bold\x1b[31m")
    told = snapshot(loss, training=[first, second])["training"]
    assert told["name"] == "calm" and told["other"]["name"] == "bold[31m"
    assert told["loss"][0] == told["other"]["loss"][0] and told["loss"][-1] != told["other"]["loss"][-1]
    assert snapshot(loss, training=first)["training"]["other"] is None
    with pytest.raises(TypeError, match="two to compare"):
        explore(loss, training=[first, second, first])
    with pytest.raises(TypeError, match="two to compare"):
        explore(loss, training=["a run"])


# --- time and memory


def test_times_only_where_they_are_asked_for():
    x = torch.randn(50, 60, requires_grad=True)
    f = lambda x: torch.nn.functional.cross_entropy(x.tanh(), torch.zeros(50, dtype=torch.int64))
    timed = explore(f, x, times=True).snapshot
    operations = [node for node in timed["nodes"] if node["row"] != "leaf" and node["row"] != "constant"]
    assert operations and all(min(node["ms"]) > 0 for node in operations)
    assert not any("ms" in node for node in explore(f, x).snapshot["nodes"])


def test_to_measure_changes_nothing():
    """The gradients are the same, hooks and a user's own rules run once, the random numbers go on as they would."""
    ran = []

    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ran.append("forward")
            return x * 2

        @staticmethod
        def backward(ctx, g):
            ran.append("backward")
            return g * 2

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    h = x * x
    h.register_hook(lambda g: ran.append("hook"))
    y = Own.apply(h).sum()
    torch.manual_seed(0)
    seen = explore(y, times=True).snapshot
    after = torch.rand(3)
    torch.manual_seed(0)
    assert torch.equal(after, torch.rand(3))
    assert ran == ["forward", "backward", "hook"] and x.grad is None and TURNS > 1
    assert seen["nodes"][0]["grad"]["numbers"] == [4, 8]


def test_a_script_is_shown_with_times(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import torch\nx = torch.ones(3, requires_grad=True)\n(x * x).sum().backward()\n")
    assert any("ms" in node for node in _of_script(str(script), [], 1).data["nodes"])


# --- gradients from elsewhere


def test_gradients_of_torch_stand_beside_ours():
    oracle = pytest.importorskip("torch")
    w, theirs = (lib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True) for lib in (torch, oracle))
    theirs.tanh().sum().backward()
    seen = explore(w.tanh().sum(), beside={"w": theirs.grad}).snapshot
    told = seen["nodes"][0]["beside"]
    assert told["grad"]["numbers"] == pytest.approx(theirs.grad.flatten().tolist()) and told["apart"] < 1e-6
    assert seen["notes"][-1].startswith("Beside 1 gradient given: ")


def test_what_is_given_beside_is_checked():
    w, v = torch.tensor([3.0, 4.0], requires_grad=True), torch.tensor(1.0)
    y = (w * w * v).sum()
    note = lambda **beside: explore(y, beside=beside, scope={"w": w}).snapshot["notes"][-1]
    assert note(w=[6.0, 8.0]) == "Beside 1 gradient given: the same to the last bit."
    assert note(w=[6.0, 9.0]) == "Beside 1 gradient given: at most 0.1111 of its size apart, in w."
    assert "NaN" in note(w=[6.0, np.nan])
    with pytest.raises(ValueError, match=r"no 'ww' in this graph\n  try:   one of w"):
        explore(y, beside={"ww": 1.0})
    with pytest.raises(ValueError, match=r"of shape \(2,\), not \(3,\)"):
        explore(y, beside={"w": np.ones(3)})


# --- what is shown can be shown anywhere


def test_no_control_character_reaches_a_page_or_a_terminal(tmp_path):
    nasty = "\x1b[31mred\x07"

    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.add_module(nasty, nn.Linear(2, 2))

        def forward(self, x):
            return getattr(self, nasty)(x).sum()

        def __repr__(self):
            return "\x1b[2J"

    shown = explore(lambda model, x: model(x), Odd(), torch.ones(2), title=nasty, note=nasty, scope={})
    text = "".join([json.dumps(shown.snapshot), shown.title, shown.html(), repr(shown), shown._repr_html_()])
    assert "[31mred" in text and not any(sign in text for sign in ("\x1b", "\x07", "\\u001b", "\\u0007"))


# --- graphs of real PyTorch


def test_a_graph_of_torch_is_shown_as_ours_is():
    oracle = pytest.importorskip("torch")

    def product(a, b):
        sum = a + b
        return (sum * b).tanh() - a.exp() / 7 + 3

    told = []
    for library in (torch, oracle):
        a, b = (library.tensor(value, dtype=library.float64, requires_grad=True) for value in (0.2, 0.3))
        told.append(explore(product, a, b).snapshot)
        assert a.grad is None
    ours, theirs = told
    assert [node["op"] for node in theirs["nodes"]] == [node["op"] for node in ours["nodes"]]
    for mine, torchs in zip(ours["nodes"], theirs["nodes"], strict=True):
        for what in ("value", "grad"):
            assert torchs[what]["numbers"] == pytest.approx(mine[what]["numbers"], rel=1e-12)
    assert theirs["live"] and len(theirs["backward"]) == len(ours["backward"])
    assert theirs["backward"][0]["caption"] == ours["backward"][0]["caption"]
    assert "graph of PyTorch" in theirs["notes"][0]


def test_a_model_of_torch():
    oracle = pytest.importorskip("torch")
    model = oracle.nn.Sequential(oracle.nn.Linear(2, 3), oracle.nn.ReLU(), oracle.nn.Linear(3, 2))
    x, labels = oracle.ones(4, 2), oracle.tensor([0, 1, 0, 1])
    seen = explore(lambda: oracle.nn.functional.cross_entropy(model(x), labels)).snapshot
    model.zero_grad()
    oracle.nn.functional.cross_entropy(model(x), labels).backward()
    nodes = {node["called"]: node for node in seen["nodes"]}
    for name, parameter in model.named_parameters():
        assert nodes[f"model.{name}"]["grad"]["numbers"] == pytest.approx(parameter.grad.flatten().tolist(), rel=1e-5)
        assert nodes[f"model.{name}"]["badge"] == "UPDATE!"
    words = {seen["nodes"][edge["from"]]["called"]: edge.get("words", "") for edge in seen["edges"]}
    assert words["model.2.bias"] == "summed over all that it was added to, shape (4, 2) → (2,)"


def test_what_torch_no_longer_has_is_told():
    oracle = pytest.importorskip("torch")
    x = oracle.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum()
    y.backward()
    seen = explore(y).snapshot
    assert "Trying to backward through the graph a second time" in seen["notes"][1]
    assert seen["nodes"][0]["grad"]["numbers"] == [2, 4] and x.grad.tolist() == [2, 4]
    with pytest.raises(RuntimeError, match="has no grad_fn"):
        explore(oracle.ones(2))
    assert explore(x[0] * 2 + oracle.ones(3)).snapshot["backward"][0]["caption"].startswith("Start at the end: every")
