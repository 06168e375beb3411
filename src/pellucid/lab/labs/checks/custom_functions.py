"""Custom functions: the numbers of each, and that backward multiplies with what comes from above."""

from typing import Any

import numpy as np

import pellucid
from pellucid.lab.labs.lab import Criteria, expect
from pellucid.lab.labs.running import Work

criteria = Criteria()
torch: Any = pellucid  # its names are made when it is imported: no type checker knows them
FILE = "functions.py"


def truth() -> str:
    """The naive formula."""
    return f"{torch.tensor([1000.0, 1001.0, 1002.0], dtype=torch.float64).exp().sum().log().item():g}"


def _applied(work: Work, name: str, numbers: list[float], *others: Any, above: float = 1.0) -> tuple[Any, Any]:
    """What a function of the learner's gives for numbers, and the gradient of `above` times the sum of it."""
    x = torch.tensor(numbers, dtype=torch.float64, requires_grad=True)
    y = work.named(FILE, name).apply(x, *others)
    (above * y.sum()).backward()
    expect(x.grad is not None, f"{name}: the input has no gradient afterwards")
    return y.detach().numpy(), x.grad.numpy()


def _expect_numbers(name: str, what: str, given: Any, wanted: list[float], within: float) -> None:
    same = np.shape(given) == np.shape(wanted) and np.allclose(given, wanted, rtol=0, atol=within)
    expect(same, f"{name}: the {what} is {np.round(given, 4)}, not {wanted}")


@criteria("StraightThroughRound: [0.3, 0.7, 1.2, 1.8] becomes [0, 1, 1, 2], the gradients are 1")
def straight_through(work: Work) -> None:
    name = "StraightThroughRound"
    value, gradient = _applied(work, name, [0.3, 0.7, 1.2, 1.8])
    _expect_numbers(name, "result", value, [0, 1, 1, 2], 0)
    _expect_numbers(name, "gradient", gradient, [1, 1, 1, 1], 0)


@criteria("StableLogSumExp([1000, 1001, 1002]) is 1002.4076, its gradient [0.0900, 0.2447, 0.6652]")
def log_sum_exp(work: Work) -> None:
    name = "StableLogSumExp"
    value, gradient = _applied(work, name, [1000.0, 1001.0, 1002.0])
    _expect_numbers(name, "result", value, 1002.4076, 5e-5)  # type: ignore[arg-type]
    _expect_numbers(name, "gradient", gradient, [0.0900, 0.2447, 0.6652], 6e-5)


@criteria("ClampedSigmoid with 0.01 at [-5, -2, 0, 2, 5] has the gradients [0.01, 0.105, 0.25, 0.105, 0.01]")
def clamped(work: Work) -> None:
    name, numbers = "ClampedSigmoid", [-5.0, -2.0, 0.0, 2.0, 5.0]
    value, gradient = _applied(work, name, numbers, 0.01)
    _expect_numbers(name, "result", value, (1 / (1 + np.exp(-np.array(numbers)))).round(6).tolist(), 1e-6)
    _expect_numbers(name, "gradient", gradient, [0.01, 0.105, 0.25, 0.105, 0.01], 1e-4)


@criteria("each backward multiplies with the gradient from above: three times the loss, three times the gradient")
def chained(work: Work) -> None:
    for name, others in (("StraightThroughRound", ()), ("StableLogSumExp", ()), ("ClampedSigmoid", (0.01,))):
        _, once = _applied(work, name, [0.3, -1.2, 2.0], *others)
        _, thrice = _applied(work, name, [0.3, -1.2, 2.0], *others, above=3.0)
        expect(np.allclose(thrice, 3 * once), f"{name}: {np.round(once, 4)} became {np.round(thrice, 4)}")


@criteria("torch.autograd.gradcheck agrees: StableLogSumExp anywhere, ClampedSigmoid where it is not clamped")
def numerically(work: Work) -> None:
    x = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64, requires_grad=True)
    log_sum = work.named(FILE, "StableLogSumExp").apply
    sigmoid = work.named(FILE, "ClampedSigmoid").apply
    torch.autograd.gradcheck(log_sum, (x,))
    torch.autograd.gradcheck(lambda x: sigmoid(x, 0.01), (x,))
