"""The first bad value: which operation made a NaN or an Inf, on which line, out of what, and the cure."""

import inspect

import pytest

import pellucid as torch
from pellucid.core import modes
from pellucid.diagnose.anomaly import Watcher, first_bad

nn, F = torch.nn, torch.nn.functional
CASES = {}


def case(code: str):
    """A program that goes wrong on the line that ends in `# here`."""

    def keep(program):
        CASES[program.__name__] = (code, program)
        return program

    return keep


def leaf(*values: float):
    return torch.tensor(list(values), requires_grad=True)


def found(program):
    """The finding for a program's loss, after its backward."""
    watcher = Watcher()
    with modes.switched(observers=(watcher,)):
        loss = program()
        loss.backward()
    return first_bad(watcher, loss)


@case("overflow")
def divided_by_an_infinity():
    powers = leaf(1.0, 200.0).exp()  # here
    return (powers / powers.sum())[0]  # 0, and the derivative of the division is NaN


@case("log-of-zero")
def log_of_probability():
    scores = leaf(0.0, 200.0)
    chances = scores.softmax(0)
    return -chances.log()[0] * 2  # here


@case("log-of-zero")
def log_far_from_the_loss():
    x = leaf(1.0, 0.0)
    logs = x.log()  # here
    shifted = logs + 1
    return (shifted * 2).mean()


@case("division-by-zero")
def no_element_counts():
    x, mask = leaf(1.0, 2.0), torch.zeros(2)
    return (x * mask).sum() / mask.sum()  # here


@case("division-by-zero")
def spread_of_one():
    x = torch.ones(1, 3, requires_grad=True)
    return x.std(0).sum()  # here


@case("division-by-zero")
def mean_of_nothing():
    x = leaf(1.0, 2.0)
    return x[x > 5].mean()  # here


@case("sqrt-at-zero")
def length_of_zero():
    x = leaf(0.0, 0.0)
    square = (x * x).sum()
    return square.sqrt()  # here


@case("sqrt-at-zero")
def power_below_one():
    x = leaf(0.0, 1.0)
    return (x**0.5).sum()  # here


@case("sqrt-at-zero")
def root_of_a_negative():
    x = leaf(-1e-8, 1.0)
    return x.sqrt().sum()  # here


@case("overflow")
def exponential():
    x = leaf(1.0, 1000.0)
    return x.exp().sum()  # here


@case("overflow")
def infinity_times_zero():
    x = leaf(1.0, 1000.0)
    big = x.exp()  # here
    return (big * torch.zeros(2)).sum()


@case("overflow")
def product():
    x = torch.full((2, 2), 1e30, requires_grad=True)
    return (x @ x).sum()  # here


@case("nan-in-unselected-branch")
def where_hides_it():
    x = leaf(0.0, 1.0)
    logs = x.log()  # here
    return torch.where(x > 0, logs, torch.zeros(2)).sum()


@case("nan-in-unselected-branch")
def where_hides_a_root():
    x = leaf(0.0, 1.0)
    return torch.where(x > 0, x.sqrt(), x).sum()  # here


@case("nan-input")
def bad_batch():
    weight, batch = leaf(1.0, 2.0), torch.tensor([1.0, float("nan")])
    return (weight * batch).sum()  # here


@case("division-by-zero")
def everything_masked():
    scores = leaf(1.0, 2.0)
    masked = scores + torch.full((2,), float("-inf"))
    return masked.softmax(0).sum()  # here


@pytest.mark.parametrize("name", CASES)
def test_code_and_line(name):
    code, program = CASES[name]
    lines, start = inspect.getsourcelines(program)
    guilty = start + next(i for i, line in enumerate(lines) if line.rstrip().endswith("# here"))
    finding = found(program)
    assert finding is not None
    assert (finding.code, finding.spot.line) == (code, guilty), str(finding)
    assert finding.spot.file == __file__
    assert finding.evidence and finding.fix and finding.message


def test_the_chain_leads_to_the_loss():
    finding = found(log_far_from_the_loss)
    first = finding.spot.line
    assert [related.spot.line - first for related in finding.related] == [1, 2]
    assert "index (1,)" in finding.evidence and "the input there is 0" in finding.evidence


def test_masks_are_not_findings():
    x = torch.randn(2, 4, requires_grad=True)
    mask = torch.ones(4, 4).triu(1).bool()

    def attention():
        scores = x.T @ x
        masked = scores.masked_fill(mask, float("-inf")) + torch.zeros(4, 4).masked_fill(mask, float("-inf"))
        return masked.softmax(-1).sum()

    assert found(attention) is None


def test_the_module_is_named():
    class Risky(nn.Module):
        def forward(self, x):
            return x.log()

    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), Risky())
    with torch.no_grad():
        model[0].bias.fill_(-9.0)
        model[0].weight.zero_()
    finding = found(lambda: model(torch.ones(1, 2)).sum())
    assert finding.code == "log-of-zero" and " in 2," in finding.message
