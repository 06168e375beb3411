"""Numeric derivatives: what a function does when its inputs are moved a little.

Everything is counted in real numbers: a complex array is twice as many reals, and a gradient in PyTorch's
convention (dL/dre + i·dL/dim) is then the plain gradient of those reals. Inputs are moved in place and put back to
the bit, so that a function may take them as arguments or close over them.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid.core import backward
from pellucid.core.provenance import here
from pellucid.core.tensor import Tensor, wrap
from pellucid.core.views import current_node
from pellucid.errors import explain

Function = Callable[..., Any]
STEPS = tuple(10.0**-k for k in range(2, 11))


def reals(array: Any) -> np.ndarray:
    """The elements as a flat float64 vector; a complex number gives two.

    >>> reals(np.array([1 + 2j, 3]))
    array([1., 2., 3., 0.])
    """
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype.kind == "c":
        flat = flat.view(flat.real.dtype)
    return flat.astype(np.float64)


def from_reals(flat: np.ndarray, like: np.ndarray) -> np.ndarray:
    """The inverse of `reals`: an array with the shape and dtype of another."""
    if like.dtype.kind == "c":
        flat = flat.view(np.complex128)
    return flat.reshape(like.shape).astype(like.dtype)


@contextmanager
def moved(array: np.ndarray, index: int, step: float) -> Iterator[None]:
    """One real of an array moved by a step while a block runs."""
    parts = 2 if array.dtype.kind == "c" else 1
    place = np.unravel_index(index // parts, array.shape)
    before = array[place]
    array[place] = before + (step if index % parts == 0 else 1j * step)
    try:
        yield
    finally:
        array[place] = before


@contextmanager
def moved_along(array: np.ndarray, direction: np.ndarray, step: float) -> Iterator[None]:
    """A whole array moved by a step along a direction while a block runs."""
    before = array.copy()
    array[...] = before + from_reals(direction * step, before)
    try:
        yield
    finally:
        array[...] = before


def jacobian_by_differences(
    function: Callable[[], list[np.ndarray]], array: np.ndarray, eps: float
) -> list[np.ndarray]:
    """Central differences: per result of `function`, one row per output real and one column per input real."""
    columns: list[list[np.ndarray]] = []
    for index in range(reals(array).size):
        with moved(array, index, eps):
            above = function()
        with moved(array, index, -eps):
            below = function()
        columns.append([(a - b) / (2 * eps) for a, b in zip(above, below, strict=True)])
    if not columns:
        return [np.zeros((y.size, 0)) for y in function()]
    return [np.stack(column, axis=1) for column in zip(*columns, strict=True)]


def writable(tensor: Tensor, position: int) -> np.ndarray:
    """The memory of an input that is about to be moved; refused where moving one element moves another."""
    array = tensor.array
    if array.size and any(step == 0 and size > 1 for step, size in zip(array.strides, array.shape, strict=True)):
        raise RuntimeError(
            explain(
                f"The {position}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly",
                str(here()),
                f"its shape {tuple(array.shape)} was expanded: several elements are one place in memory",
                "call .contiguous() or .clone() on the input before passing it",
            )
        )
    if not array.flags.writeable:
        raise RuntimeError(
            explain(
                f"The {position}th input is read-only and cannot be moved", str(here()), try_="pass a clone() of it"
            )
        )
    return array


# --- helpers for people


def numeric_gradient(f: Function, x: Any, eps: float = 1e-6, kind: str = "central") -> Tensor:
    """The gradient of a scalar function by finite differences, one element at a time.

    `kind` is "central", with an error of order eps², or "forward", with an error of order eps.

    >>> import pellucid as torch
    >>> x = torch.tensor([1.0, 2.0], dtype=torch.float64)
    >>> numeric_gradient(lambda x: (x * x).sum(), x)
    tensor([2.0000, 4.0000], dtype=torch.float64)
    """
    if kind not in ("central", "forward"):
        raise ValueError(f"kind must be 'central' or 'forward', not {kind!r}")
    point = x if isinstance(x, Tensor) else Tensor.from_data(x)
    array = writable(point, 0)
    slopes = np.zeros(reals(array).size)
    here_value = scalar(_called(f, point))
    for index in range(slopes.size):
        with moved(array, index, eps):
            above = scalar(_called(f, point))
        if kind == "central":
            with moved(array, index, -eps):
                slopes[index] = (above - scalar(_called(f, point))) / (2 * eps)
        else:
            slopes[index] = (above - here_value) / eps
    return wrap(from_reals(slopes, array))


def _called(f: Function, x: Tensor) -> Any:
    """Call a loss as a function of x, or without arguments if it closes over x."""
    try:
        takes_none = not inspect.signature(f).parameters
    except (TypeError, ValueError):
        takes_none = False
    return f() if takes_none else f(x)


def scalar(value: Any) -> float:
    """The one number a loss returned."""
    array = value.array if isinstance(value, Tensor) else np.asarray(value)
    if array.size != 1:
        raise RuntimeError(
            explain(
                f"a loss must be one number, this one has shape {tuple(array.shape)}",
                str(here()),
                try_="reduce it with .sum() or .mean()",
            )
        )
    return float(array.reshape(()))


@dataclass(frozen=True)
class GradientCheck:
    """What `gradient_check` found; unpacks as (loss, max_relative_error, analytic, numeric)."""

    loss: float
    max_relative_error: float
    analytic: Tensor
    numeric: Tensor

    def __iter__(self) -> Iterator[Any]:
        return iter((self.loss, self.max_relative_error, self.analytic, self.numeric))


def gradient_check(loss_fn: Function, param: Tensor, eps: float = 1e-5) -> GradientCheck:
    """Compare the gradient of a loss by backward with finite differences; the parameter stays as it was.

    `loss_fn` takes the parameter, or nothing if it closes over it. The error is |a-n| / (|a|+|n|+1e-8).

    >>> import pellucid as torch
    >>> w = torch.tensor([0.5, -1.5], dtype=torch.float64, requires_grad=True)
    >>> result = gradient_check(lambda: (w * w * w).sum(), w)
    >>> result.max_relative_error < 1e-8
    True
    """
    loss = _called(loss_fn, param)
    analytic = backward.gradients([loss], [None], [param], False, False)[0]
    if analytic is None:
        analytic = wrap(np.zeros_like(param.array))
    numeric = numeric_gradient(loss_fn, param, eps)
    a, n = reals(analytic.array), reals(numeric.array)
    error = np.abs(a - n) / (np.abs(a) + np.abs(n) + 1e-8)
    return GradientCheck(scalar(loss), float(error.max(initial=0.0)), analytic, numeric)


@dataclass(frozen=True)
class Sweep:
    """Errors of finite differences against the gradient by backward, per step size; prints as a table."""

    steps: tuple[float, ...]
    forward: tuple[float, ...]
    central: tuple[float, ...]

    @property
    def best(self) -> float:
        """The step whose central difference is nearest to the gradient."""
        return self.steps[int(np.argmin(self.central))]

    def verdict(self, step: float) -> str:
        """What limits the accuracy at a step: truncation above the best step, cancellation below it."""
        if step == self.best:
            return "best"
        return "truncation: step too large" if step > self.best else "cancellation: step too small"

    def __str__(self) -> str:
        lines = ["    eps    forward    central"]
        for step, one_sided, central in zip(self.steps, self.forward, self.central, strict=True):
            lines.append(f"{step:7.0e}  {one_sided:9.2e}  {central:9.2e}  {self.verdict(step)}")
        return "\n".join(lines)


def epsilon_sweep(f: Function, x: Tensor, steps: Sequence[float] = STEPS) -> Sweep:
    """Try finite differences with many step sizes and compare each with the gradient by backward.

    >>> import pellucid as torch
    >>> x = torch.tensor([0.7], dtype=torch.float64, requires_grad=True)
    >>> 1e-7 < epsilon_sweep(lambda x: (x * x * x).sum(), x).best < 1e-3
    True
    """
    point = x if current_node(x) is not None else wrap(x.array).requires_grad_()  # type: ignore[attr-defined]
    exact = gradient_check(f, point).analytic
    errors: dict[str, list[float]] = {"forward": [], "central": []}
    for kind, found in errors.items():
        for step in steps:
            difference = reals(numeric_gradient(f, point, step, kind).array) - reals(exact.array)
            found.append(float(np.abs(difference).max(initial=0.0)))
    return Sweep(tuple(steps), tuple(errors["forward"]), tuple(errors["central"]))
