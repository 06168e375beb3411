"""Gradient checking: the central difference, its order, the sweep, and the planted mistake."""

from typing import Any

import numpy as np

from pellucid.lab.labs.lab import Criteria, expect
from pellucid.lab.labs.running import Work

criteria = Criteria()
POINTS = np.array([-2.0, 0.3, 4.0])
EPSILONS = [10.0**-k for k in range(1, 13)]


def _log_sigmoid(x: Any) -> Any:
    return np.log(0.5 * (1 + np.tanh(0.5 * x)))


def _slope(x: Any) -> Any:
    return 1 - 0.5 * (1 + np.tanh(0.5 * x))


def _errors() -> list[float]:
    """The largest relative error of the central difference of log(sigmoid) at the points, for each epsilon."""
    numeric = [(_log_sigmoid(POINTS + e) - _log_sigmoid(POINTS - e)) / (2 * e) for e in EPSILONS]
    wanted = _slope(POINTS)
    return [float(np.max(np.abs(n - wanted) / (np.abs(n) + np.abs(wanted) + 1e-8))) for n in numeric]


def truth() -> str:
    """The epsilon with the smallest error."""
    return f"{EPSILONS[int(np.argmin(_errors()))]:.0e}"


@criteria("central_difference gives known gradients to 1e-7, for arrays of any shape")
def known_gradients(work: Work) -> None:
    difference = work.named("checker.py", "central_difference")
    for shape in ((3,), (2, 3), ()):
        x = np.random.default_rng(0).normal(size=shape)
        given = np.asarray(difference(lambda x: (np.sin(x) * x).sum(), x))
        wanted = np.cos(x) * x + np.sin(x)
        expect(given.shape == x.shape, f"for an x of shape {x.shape} the gradient has shape {given.shape}")
        worst = float(np.max(np.abs(given - wanted)))
        expect(worst < 1e-7, f"the gradient of sum(x sin x) for shape {x.shape} is off by {worst:.2g}")


@criteria("central_difference leaves x as it was")
def restores(work: Work) -> None:
    x = np.array([0.1, 0.2, 0.3])
    before = x.copy()
    work.named("checker.py", "central_difference")(lambda x: (x**3).sum(), x, 1e-3)
    expect(np.array_equal(x, before), f"x was {before} and is {x} afterwards")


@criteria("it is central, not one-sided: a tenth of epsilon gives a hundredth of the error")
def second_order(work: Work) -> None:
    difference = work.named("checker.py", "central_difference")
    x = np.array([0.5])
    coarse, fine = (abs(float(difference(lambda x: np.exp(x).sum(), x, e)[0]) - np.exp(0.5)) for e in (1e-1, 1e-2))
    ratio = coarse / max(fine, 1e-300)
    expect(50 < ratio < 200, f"from epsilon 0.1 to 0.01 the error falls by a factor of {ratio:.3g}")


@criteria("relative_error is the largest |a - n| / (|a| + |n| + 1e-8)")
def relative(work: Work) -> None:
    given = work.named("checker.py", "relative_error")(np.array([1.0, 0.0, 2.0]), np.array([1.1, 0.0, 2.0]))
    wanted = 0.1 / (2.1 + 1e-8)
    expect(abs(given - wanted) < 1e-9, f"for [1, 0, 2] against [1.1, 0, 2] it is {given:.6g}, not {wanted:.6g}")


@criteria("sweep shows both ends for log(sigmoid(x)): truncation above, cancellation below, the best between")
def both_ends(work: Work) -> None:
    errors = _swept(work, EPSILONS)
    expect(len(errors) == len(EPSILONS), f"{len(errors)} errors for {len(EPSILONS)} epsilons")
    best = int(np.argmin(errors))
    shown = f"the errors are {', '.join(f'{e:.0e}' for e in errors)}"
    expect(1e-7 <= EPSILONS[best] <= 1e-3, f"the best epsilon is {EPSILONS[best]:.0e}; {shown}")
    expect(min(errors[0], errors[-1]) > 100 * errors[best], f"the ends are not much worse; {shown}")


def _swept(work: Work, epsilons: list[float]) -> list[float]:
    sweep = work.named("checker.py", "sweep")
    return [float(error) for error in sweep(lambda x: _log_sigmoid(x).sum(), _slope, POINTS.copy(), epsilons)]


@criteria("WORSE_EPSILON is at least 100 times worse than the best")
def worse(work: Work) -> None:
    epsilon: Any = getattr(work.module("checker.py"), "WORSE_EPSILON", None)
    expect(isinstance(epsilon, float) and epsilon > 0, "measure one with sweep and write it down")
    own, best = _swept(work, [epsilon])[0], min(_swept(work, EPSILONS))
    expect(own > 100 * best, f"with {epsilon:g} the error is {own:.2g}, the best is {best:.2g}")


@criteria("WRONG names the function whose gradient is wrong")
def found(work: Work) -> None:
    name = getattr(work.module("checker.py"), "WRONG", "")
    expect(name, "WRONG is empty: compare every gradient of functions.py with its central difference")
    expect(name == "elu", f"the gradient of {name} agrees with its central difference, on inputs of both signs")


@criteria("the gradient of that function is repaired")
def repaired(work: Work) -> None:
    x = np.array([-1.5, -0.2, 0.4])
    given, wanted = work.named("functions.py", "elu_gradient")(x), np.where(x > 0, 1.0, np.exp(x))
    expect(np.allclose(given, wanted), "one gradient of functions.py still differs from its central difference")
