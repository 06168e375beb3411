"""Softmax and its relatives: one row each, which keeps its result."""

from typing import Any

import numpy as np

from pellucid.core.primitive import general
from pellucid.core.record import bind
from pellucid.ops.along import line_samples
from pellucid.ops.arguments import axis_of, refuse
from pellucid.ops.convert import as_type
from pellucid.ops.elementwise import exp
from pellucid.ops.operation import Draw, Sample, call, operation
from pellucid.ops.reduce import sum_row

add_reduce = np.add.reduce
maximum_reduce = np.maximum.reduce
subtract, exp_into, divide = np.subtract, np.exp, np.true_divide


def _softmax(a: np.ndarray, axis: int) -> np.ndarray:
    """With the largest element taken out, so that nothing overflows; one array is made and worked on in place."""
    if not a.size or not a.ndim:
        return np.exp(a - a)  # nothing, or 1 (NaN for NaN and infinities)
    y: np.ndarray = subtract(a, maximum_reduce(a, axis, None, None, True))
    exp_into(y, y)
    return divide(y, add_reduce(y, axis, None, None, True), y)


def _log_softmax(a: np.ndarray, axis: int) -> np.ndarray:
    if not a.size or not a.ndim:
        return a - a
    y: np.ndarray = subtract(a, maximum_reduce(a, axis, None, None, True))
    total = add_reduce(exp_into(y), axis, None, None, True)
    return subtract(y, np.log(total, total), y)


def total(a: Any, axis: int) -> Any:
    """The sum along an axis, kept; of a 0-d array itself."""
    return sum_row(a, (axis,) if a.ndim else (), True)


softmax_row = bind(
    general(
        "softmax", _softmax,
        lambda g, y, axis: softmax_back_row(g, y, axis),
        jvp=lambda tangents, y, inputs, params: softmax_back_row(tangents[0], y, *params),  # the Jacobian is symmetric
        dtypes="equal", batch=lambda op, a, axis: op(a, axis + 1),
    )
)  # fmt: skip


def _softmax_back(g: np.ndarray, y: np.ndarray, axis: int) -> Any:
    if not y.ndim:
        return g * y - g * y * y
    out = g * y
    out -= y * add_reduce(out, axis, None, None, True)
    return out


def _share_slope(v: Any, g: Any, y: Any, axis: int) -> Any:
    """The derivative of softmax_back with respect to y, applied to v."""
    return v * (g - total(g * y, axis)) - g * total(v * y, axis)


def _softmax_back_forward(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    (g, shares), (axis,) = inputs, params
    t, u = tangents
    along_g = None if t is None else softmax_back_row(t, shares, axis)
    if u is None:
        return along_g
    along_y = u * (g - total(g * shares, axis)) - shares * total(g * u, axis)
    return along_y if along_g is None else along_g + along_y


# softmax_back_row(g, y, axis) = y * (g - sum(g * y)), with one array made instead of three
softmax_back_row = bind(
    general(
        "softmax_back", _softmax_back,
        lambda g, b, axis: softmax_back_row(g, b, axis),
        lambda g, a, b, axis: _share_slope(g, a, b, axis),
        jvp=_softmax_back_forward, dtypes="equal", grad_name="SoftmaxBackwardDataBackward0",
        lower=lambda g, y, axis: y * (g - total(g * y, axis)),
        batch=lambda op, g, y, axis: op(g, y, axis + 1),
    )
)  # fmt: skip

log_softmax_row = bind(
    general(
        "log_softmax", _log_softmax,
        lambda g, y, axis: log_softmax_back_row(g, y, axis),
        jvp=lambda tangents, y, inputs, params: tangents[0] - total(exp(y) * tangents[0], *params),
        dtypes="equal", batch=lambda op, a, axis: op(a, axis + 1),
    )
)  # fmt: skip


def _log_softmax_back(g: np.ndarray, y: np.ndarray, axis: int) -> Any:
    if not y.ndim:
        return g - np.exp(y) * g
    out = np.exp(y)
    out *= add_reduce(g, axis, None, None, True)
    return subtract(g, out, out)


def _log_softmax_back_forward(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    (g, logs), (axis,) = inputs, params
    t, u = tangents
    along_g = None if t is None else log_softmax_back_row(t, logs, axis)
    if u is None:
        return along_g
    along_y = -u * exp(logs) * total(g, axis)
    return along_y if along_g is None else along_g + along_y


# log_softmax_back_row(g, y, axis) = g - exp(y) * sum(g), with one array made instead of three
log_softmax_back_row = bind(
    general(
        "log_softmax_back", _log_softmax_back,
        lambda g, b, axis: g - total(exp(b) * g, axis),
        lambda g, a, b, axis: -g * exp(b) * total(a, axis),
        jvp=_log_softmax_back_forward, dtypes="equal", grad_name="LogSoftmaxBackwardDataBackward0",
        lower=lambda g, y, axis: g - exp(y) * total(g, axis),
        batch=lambda op, g, y, axis: op(g, y, axis + 1),
    )
)  # fmt: skip


def softmax_samples(draw: Draw) -> list[Sample]:
    """Along one dimension, empty tensors, and large numbers."""
    return [*line_samples(draw), call(draw(2, 0), 1), call(draw(0, 3), dim=0), call(draw(2, 5, low=-900, high=900), 1)]


@operation(samples=softmax_samples)
def softmax(input: Any, dim: int, dtype: Any = None) -> Any:
    """Exponentials divided by their sum along a dimension: positive numbers that add up to 1.

    >>> import pellucid as torch
    >>> torch.tensor([0.0, 0.0]).softmax(0)
    tensor([0.5000, 0.5000])
    """
    if dtype is not None:
        input = as_type(input, dtype)
    if input.array.dtype.kind in "biuc":
        refuse(input, "biuc", "\"softmax_lastdim_kernel_impl\" not implemented for '{}'", NotImplementedError)
    return softmax_row(input, axis_of(dim, input.ndim))


@operation(samples=softmax_samples)
def log_softmax(input: Any, dim: int, dtype: Any = None) -> Any:
    """Logarithm of the softmax along a dimension, without overflow or loss of precision.

    >>> import pellucid as torch
    >>> torch.tensor([0.0, 0.0]).log_softmax(0)
    tensor([-0.6931, -0.6931])
    """
    if dtype is not None:
        input = as_type(input, dtype)
    if input.array.dtype.kind in "biuc":
        refuse(input, "biuc", "\"log_softmax_lastdim_kernel_impl\" not implemented for '{}'", NotImplementedError)
    return log_softmax_row(input, axis_of(dim, input.ndim))


@operation(samples=softmax_samples, methods=(), module="torch.nn.functional")
def softmin(input: Any, dim: int, dtype: Any = None) -> Any:
    """Softmax of the negative: the smallest element gets the largest share.

    >>> import pellucid as torch
    >>> softmin(torch.tensor([0.0, 0.0]), 0)
    tensor([0.5000, 0.5000])
    """
    return softmax(-input, dim, dtype)
