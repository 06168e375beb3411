"""Variances and standard deviations, alone or together with the mean.

The deviations from the mean are computed once more in backward rather than kept.
"""

import math
from operator import mul
from typing import Any

import numpy as np

from pellucid.core.large import added_up
from pellucid.core.primitive import general
from pellucid.core.record import bind
from pellucid.ops.arguments import is_floating, name_of, number, refusal, shifted
from pellucid.ops.arithmetic import by_number
from pellucid.ops.elementwise import sqrt
from pellucid.ops.formats import in_order
from pellucid.ops.operation import Draw, Sample, call, operation
from pellucid.ops.reduce import (
    average,
    back,
    count_along,
    mean,
    mean_row,
    normal,
    spread_row,
    sum_row,
)
from pellucid.ops.select import drop

FEW = 4096  # numbers of float32 whose variance is as fast in float64
ROUNDED = {"f": 2.0**-24, "d": 2.0**-53}  # of a mean


@in_order
def _var(a: np.ndarray, axes: tuple[int, ...], correction: float, keepdim: bool) -> Any:
    few, count = a.dtype.char == "f" and a.size < FEW, count_along(a.shape, axes)
    wide = a.astype(np.float64) if few else a
    mean = added_up(wide, axes, True) / count
    squares = wide - mean
    squares = squares * squares if not squares.ndim else np.multiply(squares, squares, squares)
    total = added_up(squares, axes, keepdim)
    if a.size >= FEW:
        total = _without_rest(total, a, mean, axes)
    freedom = count - correction
    y = total / (freedom if freedom > 0 else 0.0)
    return y.astype(np.float32) if few else y


def _without_rest(total: Any, a: np.ndarray, mean: np.ndarray, axes: tuple[int, ...]) -> Any:
    """A mean that is large beside the deviations is rounded so much that they have a sum, which is no variance.

    Of numbers near 10 000 that deviate by 1 that is the fourth digit.
    """
    count = count_along(a.shape, axes)
    doubtful = mean * mean * (count * ROUNDED.get(a.dtype.char, 0.0))
    if not (doubtful.reshape(total.shape) > total).any():
        return total
    rest = added_up(a - mean, axes, True).reshape(total.shape)
    return total - rest * (rest / count)


def _std(a: np.ndarray, axes: tuple[int, ...], correction: float, keepdim: bool) -> Any:
    return np.sqrt(_var(a, axes, correction, keepdim))


def _slope(a: Any, axes: tuple[int, ...], correction: float) -> tuple[Any, float]:
    """The derivative of the variance with respect to each element: deviations, and the number that all are times.

    That may be too small for a half, so a gradient is multiplied by it in single precision.
    """
    freedom = count_along(tuple(a.shape), axes) - correction
    return a - mean_row(a, axes, True), 2 / freedom if freedom > 0 else math.inf


def per_root(g: Any, y: Any) -> Any:
    """g / (2 y), the derivative of the root, and 0 where the root is 0."""
    return drop(g / (2 * y + (y == 0)), y == 0)


def _var_back(g: Any, a: Any, axes: tuple[int, ...], correction: float, keepdim: bool) -> Any:
    deviations, factor = _slope(a, axes, correction)
    return back(by_number(g, factor, mul), tuple(a.shape), axes, keepdim) * deviations


def _var_forward(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    axes, correction, keepdim = params
    deviations, factor = _slope(inputs[0], axes, correction)
    return by_number(sum_row(tangents[0] * deviations, axes, keepdim), factor, mul)


var_row = bind(
    general(
        "var", _var, _var_back, jvp=_var_forward, dtypes="equal",
        batch=lambda op, a, axes, correction, keepdim: op(a, shifted(axes), correction, keepdim),
    )
)  # fmt: skip

std_row = bind(
    general(
        "std", _std,
        lambda g, a, y, axes, correction, keepdim: _var_back(per_root(g, y), a, axes, correction, keepdim),
        jvp=lambda tangents, y, inputs, params: per_root(_var_forward(tangents, y, inputs, params), y),
        dtypes="equal", batch=lambda op, a, axes, correction, keepdim: op(a, shifted(axes), correction, keepdim),
    )
)  # fmt: skip


def _with_mean(spread: Any) -> Any:
    def forward(a: np.ndarray, axes: tuple[int, ...], correction: float, keepdim: bool) -> Any:
        return spread(a, axes, correction, keepdim), average(a, axes, keepdim)

    return forward


def _var_mean_back(g: Any, a: Any, axes: tuple[int, ...], correction: float, keepdim: bool) -> Any:
    total = None if g[0] is None else _var_back(g[0], a, axes, correction, keepdim)
    if g[1] is None:
        return (total,)
    shape = tuple(a.shape)
    mean_part = spread_row(g[1], shape, axes, keepdim, count_along(shape, axes) or 1)
    return (mean_part if total is None else total + mean_part,)


def _std_mean_back(g: Any, a: Any, y: Any, axes: tuple[int, ...], correction: float, keepdim: bool) -> Any:
    of_var = None if g[0] is None else per_root(g[0], y[0])
    return _var_mean_back((of_var, g[1]), a, axes, correction, keepdim)


def _mean_forward(t: Any, params: Any) -> Any:
    return mean_row(t, params[0], params[2])


var_mean_row = bind(
    general(
        "var_mean", _with_mean(_var), None, pullback=_var_mean_back, outputs=2, dtypes="equal",
        jvp=lambda tangents, y, inputs, params: (
            _var_forward(tangents, y, inputs, params), _mean_forward(tangents[0], params)
        ),
        batch=lambda op, a, axes, correction, keepdim: op(a, shifted(axes), correction, keepdim),
    )
)  # fmt: skip

std_mean_row = bind(
    general(
        "std_mean", _with_mean(_std), None, pullback=_std_mean_back, outputs=2, dtypes="equal",
        jvp=lambda tangents, y, inputs, params: (
            per_root(_var_forward(tangents, y, inputs, params), y[0]), _mean_forward(tangents[0], params)
        ),
        batch=lambda op, a, axes, correction, keepdim: op(a, shifted(axes), correction, keepdim),
    )
)  # fmt: skip


def variance_arguments(input: Any, dim: Any, unbiased: Any, correction: Any, keepdim: bool) -> tuple[Any, ...]:
    """The params of the variance rows from PyTorch's two ways to ask: var(unbiased) and var(dim, correction=...)."""
    if not is_floating(input):
        what = "std and var only support floating point and complex dtypes"
        raise refusal(RuntimeError, what, f"this is {name_of(input)}", "convert it first, e.g. x.float()")
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None:
        correction = int(unbiased)
    return normal(dim, input.ndim), 1 if correction is None else number(correction), keepdim


def variance_samples(draw: Draw) -> list[Sample]:
    """Both ways to ask, and degrees of freedom other than n - 1."""
    return [
        call(draw(2, 3)), call(draw(2, 3), 1), call(draw(2, 3), -1, keepdim=True), call(draw(2, 3, 4), (0, -1)),
        call(draw(2, 3), unbiased=False), call(draw(2, 3), False), call(draw(2, 3), 0, False, True),
        call(draw(2, 3), correction=0), call(draw(2, 3), dim=1, correction=2, keepdim=True), call(draw(4, 3), dim=None),
        call(draw(5), 0),
    ]  # fmt: skip


@operation(samples=variance_samples, out="cast")
def var(
    input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: Any = None
) -> Any:
    """Variance of all elements, or along dimensions; divided by n - correction (1 unless told).

    >>> import pellucid as torch
    >>> torch.tensor([1.0, 2.0, 3.0]).var(), torch.tensor([1.0, 2.0, 3.0]).var(correction=0)
    (tensor(1.), tensor(0.6667))
    """
    params = variance_arguments(input, dim, unbiased, correction, keepdim)
    if input.array.dtype.kind == "c":
        return var_row(input.real, *params) + var_row(input.imag, *params)
    return var_row(input, *params)


@operation(samples=variance_samples, out="cast")
def std(
    input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: Any = None
) -> Any:
    """Standard deviation of all elements, or along dimensions; the gradient at 0 is 0.

    >>> import pellucid as torch
    >>> torch.tensor([1.0, 2.0, 3.0]).std()
    tensor(1.)
    """
    if input.array.dtype.kind == "c":
        return sqrt(var(input, dim, unbiased, keepdim, correction=correction))
    return std_row(input, *variance_arguments(input, dim, unbiased, correction, keepdim))


@operation(samples=variance_samples, methods=())
def var_mean(
    input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: Any = None
) -> Any:
    """Variance and mean at once.

    >>> import pellucid as torch
    >>> torch.var_mean(torch.tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """
    if input.array.dtype.kind == "c":
        return var(input, dim, unbiased, keepdim, correction=correction), mean(input, _dims(dim), keepdim)
    return var_mean_row(input, *variance_arguments(input, dim, unbiased, correction, keepdim))


@operation(samples=variance_samples, methods=())
def std_mean(
    input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: Any = None
) -> Any:
    """Standard deviation and mean at once.

    >>> import pellucid as torch
    >>> torch.std_mean(torch.tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """
    if input.array.dtype.kind == "c":
        return std(input, dim, unbiased, keepdim, correction=correction), mean(input, _dims(dim), keepdim)
    return std_mean_row(input, *variance_arguments(input, dim, unbiased, correction, keepdim))


def _dims(dim: Any) -> Any:
    return None if isinstance(dim, bool) else dim
