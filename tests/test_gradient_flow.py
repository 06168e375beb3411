"""The small tools: gradient flow as a table, NaN and Inf found, one batch inspected, hooks that raise."""

import random

import numpy as np
import pytest

import pellucid as torch
from pellucid import nn
from pellucid.errors import AnomalyError
from pellucid.nn import functional


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))


def batch():
    torch.manual_seed(1)
    return torch.randn(16, 4), torch.randn(16, 1)


def trained_once():
    model, (x, y) = network(), batch()
    functional.mse_loss(model(x), y).backward()
    return model


# --- check_gradient_flow


def test_norms_and_ratio_are_those_of_the_parameters():
    model = trained_once()
    flow = torch.check_gradient_flow(model)
    assert [row.name for row in flow] == [name for name, _ in model.named_parameters()]
    row = flow["0.weight"]
    assert row.status == "OK" and flow.ok
    assert row.grad_norm == pytest.approx(model[0].weight.grad.norm().item(), rel=1e-6)
    assert row.param_norm == pytest.approx(model[0].weight.norm().item(), rel=1e-6)
    assert row.ratio == pytest.approx(row.grad_norm / (row.param_norm + 1e-8))


def test_every_status():
    model = trained_once()
    model.register_parameter("spare", nn.Parameter(torch.ones(2)))
    model.register_parameter("still", nn.Parameter(torch.ones(2), requires_grad=False))
    model[0].weight.grad.fill_(0.0)
    model[0].bias.grad[0] = float("nan")
    model[2].weight.grad[0, 0] = float("inf")
    flow = torch.check_gradient_flow(model)
    assert {row.name: row.status for row in flow} == {
        "spare": "NO GRADIENT", "still": "NO GRADIENT", "0.weight": "ZERO", "0.bias": "NAN", "2.weight": "INF",
        "2.bias": "OK",
    }  # fmt: skip
    assert not flow.ok and flow["still"].frozen and not flow["spare"].frozen
    assert flow.as_json()[0]["name"] == "spare"


def test_the_table_has_a_bar_per_gradient():
    flow = torch.check_gradient_flow(trained_once())
    head, *lines = str(flow).splitlines()
    assert head.split() == ["parameter", "status", "|grad|", "|param|", "ratio", "|grad|,", "log", "scale"]
    assert len(lines) == 4 and all("█" in line for line in lines)
    longest = max(flow, key=lambda row: row.grad_norm)
    assert max(lines, key=lambda line: line.count("█")).startswith(longest.name)


def test_bars_show_a_vanishing_gradient():
    model = nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(4, 4), nn.Sigmoid())))
    model(torch.ones(2, 4)).sum().backward()
    flow = torch.check_gradient_flow(model)
    lengths = [len(flow.bar(flow[f"{i}.weight"])) for i in range(0, 16, 2)]
    assert lengths == sorted(lengths) and lengths[-1] >= 3 * lengths[0]


def test_half_precision_gradients_are_tested_too():
    layer = nn.Linear(2, 1).bfloat16()
    layer(torch.ones(1, 2, dtype=torch.bfloat16)).sum().backward()
    assert torch.check_gradient_flow(layer).ok
    layer.weight.grad[0, 0] = float("nan")
    assert torch.check_gradient_flow(layer)["weight"].status == "NAN"


def test_the_plot_has_a_bar_per_parameter():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    axes = torch.check_gradient_flow(trained_once()).plot()
    assert len(axes.patches) == 4
    assert [label.get_text() for label in axes.get_yticklabels()] == ["0.weight", "0.bias", "2.weight", "2.bias"]


# --- find_nan_gradients


def test_nan_and_inf_are_counted():
    model = trained_once()
    assert torch.find_nan_gradients(model) == []
    model[0].bias.grad[:3] = float("nan")
    model[2].weight.grad[0, :2] = -float("inf")
    assert torch.find_nan_gradients(model) == [("0.bias", 3, 0, 8), ("2.weight", 0, 2, 8)]


# --- inspect_batch


def test_a_healthy_batch():
    model, data = network(), batch()
    report = torch.inspect_batch(model, data, functional.mse_loss)
    assert report.ok and str(report).endswith("all values are finite")
    functional.mse_loss(model(data[0]), data[1]).backward()
    for measured, parameter in zip(report.gradients, model.parameters(), strict=True):
        assert measured.norm == pytest.approx(parameter.grad.norm().item(), rel=1e-6)
        assert measured.smallest == pytest.approx(parameter.grad.min().item())
        assert measured.largest == pytest.approx(parameter.grad.max().item())


@pytest.mark.parametrize(
    ("stage", "spoil"),
    [
        ("input", lambda model, x: x.__setitem__((0, 0), float("nan"))),
        ("output", lambda model, x: model[2].bias.data.fill_(float("inf"))),
        ("loss", lambda model, x: model[2].weight.data.fill_(1e30)),
    ],
)
def test_the_first_bad_stage_is_named(stage, spoil):
    model, (x, y) = network(), batch()
    spoil(model, x)
    report = torch.inspect_batch(model, (x, y), functional.mse_loss)
    assert report.first_bad[0] == stage and not report.ok
    assert f"first NaN or Inf: {stage}" in str(report)


def test_bad_gradients_behind_a_finite_loss():
    model, (x, y) = network(), batch()
    report = torch.inspect_batch(model, (x, y), lambda out, target: (torch.sqrt((out - out).abs()) * target).sum())
    assert report.first_bad[0] == "gradients" and report.loss.ok


def test_a_parameter_without_gradient_is_reported():
    model = network()
    model.register_parameter("spare", nn.Parameter(torch.ones(2)))
    report = torch.inspect_batch(model, batch(), functional.mse_loss)
    assert not report.ok and "no gradient: spare" in str(report)


def test_everything_is_left_as_it_was():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
    x, y = batch()
    model(x).sum().backward()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    grads = {name: p.grad.clone() for name, p in model.named_parameters()}
    objects = dict(model.named_buffers())
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    torch.inspect_batch(model, (x, y), functional.mse_loss)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(torch.equal(p.grad, grads[name]) for name, p in model.named_parameters())
    assert all(b is objects[name] for name, b in model.named_buffers())
    assert torch.equal(states[0], torch.get_rng_state()) and states[1] == random.getstate()
    assert (states[2] == np.random.get_state()[1]).all() and model.training  # noqa: NPY002


def test_a_model_that_fails_leaves_no_trace():
    norm = nn.BatchNorm1d(4)
    before = norm.running_mean.clone()

    def fail(output):
        raise ValueError("no loss")

    with pytest.raises(ValueError, match="no loss"):
        torch.inspect_batch(norm, torch.randn(8, 4), fail)
    assert torch.equal(norm.running_mean, before) and norm.num_batches_tracked.item() == 0


def test_other_forms_of_a_batch():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, left, right):
            return (left * right * self.scale).sum()

    pair = torch.ones(2), torch.ones(2)
    assert torch.inspect_batch(Two(), {"left": pair[0], "right": pair[1]}, lambda out: out).ok
    report = torch.inspect_batch(Two(), [*pair, torch.zeros(1)], lambda out, target: (out - target).sum())
    assert [each.name for each in report.inputs] == ["batch[0]", "batch[1]", "batch[2]"]
    with torch.no_grad():
        assert torch.inspect_batch(nn.Linear(2, 1), pair[0], lambda out: out.sum()).ok


# --- attach_gradient_nan_hooks


def test_hooks_raise_and_name_parameter_and_step():
    model, (x, y) = network(), batch()
    with torch.attach_gradient_nan_hooks(model):
        functional.mse_loss(model(x), y).backward()
        kept = [p.grad.clone() for p in model.parameters()]
        with pytest.raises(AnomalyError, match=r"gradient of 2\.(bias|weight) is not finite at step 1"):
            (functional.mse_loss(model(x), y) * float("nan")).backward()
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), kept, strict=True))
    (functional.mse_loss(model(x), y) * float("nan")).backward()  # the hooks are gone


def test_hooks_call_a_function_instead():
    model, (x, y) = network(), batch()
    seen = []
    hooks = torch.attach_gradient_nan_hooks(model, on_bad=lambda name, step, grad: seen.append((name, step)))
    functional.mse_loss(model(x), y).backward()
    (functional.mse_loss(model(x), y) * float("inf")).backward()
    assert sorted(seen) == [(name, 1) for name in ("0.bias", "0.weight", "2.bias", "2.weight")]
    hooks.remove()
    (functional.mse_loss(model(x), y) * float("inf")).backward()
    assert len(seen) == 4
    with pytest.raises(TypeError, match="'raise' or a function"):
        torch.attach_gradient_nan_hooks(model, on_bad="ignore")


@pytest.mark.parametrize("tool", ["check_gradient_flow", "find_nan_gradients", "attach_gradient_nan_hooks"])
def test_what_is_no_model_is_refused_in_words(tool):
    with pytest.raises(TypeError, match=rf"{tool} looks at a model, an nn.Module, not at list\n.*\n.*nn.ModuleList"):
        getattr(torch, tool)([nn.Linear(1, 1)])
    with pytest.raises(TypeError, match="not at NoneType"):
        getattr(torch, tool)(None)
    with pytest.raises(TypeError, match="inspect_batch looks at a model"):
        torch.inspect_batch(lambda x: x, torch.ones(2), torch.sum)


def test_a_loss_that_is_infinite_has_no_range():
    data = torch.ones(4, 2), torch.zeros(4, 1)
    report = torch.inspect_batch(torch.nn.Linear(2, 1), data, lambda out, target: (out * 0).log().sum())
    assert str(report.loss) == "loss: shape ()  ** 1 Inf **"
