"""Where a gradient is lost: what the rules about missing gradients share, on small programs under the doctor.

The rules' own examples and the corpus show that the right line is named; here are the finer points.
"""

from pathlib import Path

import pytest

import pellucid as torch
from pellucid import nn
from pellucid.diagnose.doctor import doctor
from pellucid.diagnose.ledger import ledger_of


def trained(model, optimizer, loss_of, steps=4):
    """The doctor's view of a training run."""
    with doctor() as watch:
        for _ in range(steps):
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
    return watch


def codes(watch, *severities):
    return [finding.code for finding in watch.findings if finding.severity in (severities or ("error", "warning"))]


def line_with(text):
    lines = Path(__file__).read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if text in line and "line_with" not in line)


def two_layers():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
    return model, torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(10, 4)


def test_all_parameters_before_a_cut_are_one_finding():
    model, optimizer, x = two_layers()
    watch = trained(model, optimizer, lambda m: m[2](m[1](m[0](x)).detach()).square().mean())  # the cut
    assert codes(watch) == ["detached"]
    assert watch.findings[0].spot.line == line_with("# the cut")
    assert "2 of 4 parameters got no gradient in 4 backward passes" in watch.findings[0].evidence


def test_a_cut_that_another_pass_makes_good_is_no_finding():
    model, optimizer, x = two_layers()
    turn = iter(range(100))

    def loss_of(m):
        hidden = m[1](m[0](x))
        return m[2](hidden.detach() if next(turn) % 2 else hidden).square().mean()

    assert codes(trained(model, optimizer, loss_of)) == []


def test_a_step_function_gives_zeros_and_is_named():
    model, optimizer, x = two_layers()
    watch = trained(model, optimizer, lambda m: m[2](m[1](m[0](x)).round()).square().mean())
    assert codes(watch) == ["non-differentiable-op"]
    assert "only zeros as gradient" in watch.findings[0].evidence


def test_indices_inside_max_are_no_cut():
    model, optimizer, x = two_layers()

    def loss_of(m):
        largest = m[0](x).reshape(10, 3, 2).max(2).values
        return m[2](largest.repeat(1, 2).detach()).square().mean()

    watch = trained(model, optimizer, loss_of)
    assert codes(watch) == ["detached"]  # and not the argmax that finds where the largest are


def test_a_number_that_python_scaled_is_recognised():
    model, optimizer, x = two_layers()

    def loss_of(m):
        size = m[0].weight.abs().sum().item()  # leaves here
        return m(x).square().mean() + 0.05 * size

    watch = trained(model, optimizer, loss_of)
    assert [(f.code, f.spot.line) for f in watch.errors] == [("left-the-graph", line_with("# leaves here"))]


def test_a_loss_without_gradient_is_explained():
    model, _, x = two_layers()

    def step():
        with torch.no_grad():
            loss = model(x).mean()  # inside
        loss.backward()

    with doctor() as watch, pytest.raises(RuntimeError, match="does not require grad"):
        step()
    assert (watch.findings[0].code, watch.findings[0].spot.line) == ("no-grad-region", line_with("# inside"))
    assert watch.findings[0].related[0].role == "gradients are switched off here"


def test_a_loaded_frozen_beginning_is_only_information():
    model, _, x = two_layers()
    with doctor() as watch:
        model[0].load_state_dict({name: value.clone() for name, value in model[0].state_dict().items()})
        model[0].requires_grad_(False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(4):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    assert codes(watch) == []
    assert "frozen-parameter" in codes(watch, "info")


def test_the_line_of_the_reassignment_not_of_the_factory():
    torch.manual_seed(0)

    def make():
        return nn.Linear(4, 1)

    x = torch.randn(10, 4)
    with doctor() as watch:
        model = make()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model = make()  # made anew
        for _ in range(4):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    assert [(f.code, f.spot.line) for f in watch.errors] == [("stale-optimizer", line_with("# made anew"))]


def test_rules_share_one_ledger_per_run():
    model, optimizer, x = two_layers()
    watch = trained(model, optimizer, lambda m: m(x).square().mean())
    assert ledger_of(watch.trace) is ledger_of(watch.trace)
    assert ledger_of(watch.trace).seen >= {0, 1, 2, 3}
    assert ledger_of(watch.trace).silent(watch.trace) == []


@pytest.mark.parametrize(
    "form",
    [
        "torch.unique(x)", "torch.unique(x[:, None], dim=0)", "torch.unique_consecutive(x)", "x // 2",
        "torch.bincount(torch.tensor([0, 1, 1]), weights=x)", "torch.heaviside(x, x)", "torch.histogram(x, 2).hist",
        "torch.binomial(x, x * 0.1)",
    ],
)  # fmt: skip
def test_a_derivative_that_nobody_has_is_refused_not_left_out(form):
    reference = pytest.importorskip("torch")
    names = []
    for lib in (torch, reference):
        x = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = eval(form, {"torch": lib, "x": x})
        assert y.requires_grad
        with pytest.raises(RuntimeError, match="not implemented"):
            (y.sum() + x.sum()).backward()
        names.append(y.grad_fn.name() if lib is torch else type(y.grad_fn).__name__)
        with lib.no_grad():
            assert not eval(form, {"torch": lib, "x": x}).requires_grad
    assert names[0] == names[1]
