"""Softmax and its relatives: one row each, which keeps its result."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.large import QUIET, added_up, ones
from pellucid.core.primitive import general
from pellucid.core.record import bind
from pellucid.native import Kernel, native, words
from pellucid.native.words import Array
from pellucid.ops.along import line_samples
from pellucid.ops.arguments import axis_of, refuse
from pellucid.ops.compare import in_single
from pellucid.ops.convert import as_type
from pellucid.ops.elementwise import exp
from pellucid.ops.formats import settled
from pellucid.ops.operation import Draw, Sample, call, operation
from pellucid.ops.reduce import sum_row

add_reduce = np.add.reduce
maximum_reduce, minimum_reduce = np.maximum.reduce, np.minimum.reduce
subtract, multiply, exp_into, log_into, divide = np.subtract, np.multiply, np.exp, np.log, np.true_divide

SMALL = 2048  # elements: below, the calls count and not the passes over memory
BLOCK = 1 << 16  # elements that are worked on at a time, so that all passes but the first find them in the cache
LONG, LARGE = 800, 1 << 15  # a row, and a matrix, for which NumPy broadcasts a column faster without its buffer
MICROSECONDS = 1.5e-3  # that a kernel takes for each element, roughly
PART = 1024  # numbers of a row that are added up by themselves: one long sum of 30 000 loses its last two digits
CALM = 16.0  # exponentials of numbers below need no shift: neither they nor their sums overflow
FAINT = 1e-7  # a sum of exponentials below is made again with a shift, which keeps all its digits


def by_column(ufunc: np.ufunc, a: np.ndarray, column: np.ndarray, out: np.ndarray) -> np.ndarray:
    """`ufunc(a, column, out)` of a matrix and a column.

    NumPy first writes the column out over a buffer of 8192 elements; with a buffer that is shorter than a row it does
    not, which for long rows saves more than it costs to ask (1024 rows of 1024 float32: 230 -> 130 µs).
    """
    if a.shape[1] < LONG or a.size < LARGE:
        return ufunc(a, column, out)  # type: ignore[no-any-return]
    before = np.setbufsize(16)
    try:
        return ufunc(a, column, out)  # type: ignore[no-any-return]
    finally:
        np.setbufsize(before)


def blockwise(kernel: Callable[..., Any], out: np.ndarray, *arrays: np.ndarray) -> np.ndarray:
    """Let a kernel fill `out` from arrays of its shape: it sees matrices, some rows of the last axis at a time.

    From a million elements on, several threads share the rows; they live with the family of neural networks.

    >>> y = blockwise(lambda out, a: np.negative(a, out), np.empty((900, 100)), np.ones((900, 100)))
    >>> int(y.sum())
    -90000
    """
    size = out.shape[-1]
    matrices = [array.reshape(-1, size) for array in (out, *arrays)]
    count, step = out.size // size, max(1, BLOCK // size)
    if count <= step:
        kernel(*matrices)
        return out

    def work(part: slice) -> None:
        for begin in range(part.start, part.stop, step):
            block = slice(begin, min(begin + step, part.stop))
            kernel(*[matrix[block] for matrix in matrices])

    if out.size < 1 << 20:
        work(slice(0, count))
    else:
        from pellucid.ops.nn.workers import in_parts

        in_parts(work, count, out.size * MICROSECONDS)
    return out


def by_loop(loop: Kernel, kernel: Callable[..., Any], *arrays: np.ndarray) -> np.ndarray:
    """What a native loop makes of the rows of arrays of one shape; where there is none, what a kernel of NumPy does."""
    shape = arrays[-1].shape
    out = np.empty(shape, arrays[-1].dtype)
    arrays = tuple(map(np.ascontiguousarray, arrays))  # NumPy adds up strided rows one by one: 30 000 lose two digits
    if loop.fits(*arrays):
        loop(out.size // shape[-1], shape[-1], *arrays, out, shape[-1])
        return out
    return blockwise(kernel, out, *arrays)


def by_rows(a: np.ndarray, axis: int) -> bool:
    """Whether blocks of rows are worth while: the last axis of many floats that BLAS knows (halves it does not)."""
    return axis == a.ndim - 1 and a.size > SMALL and a.dtype.char in "fd"


def exponentials(y: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Write the exponentials of the rows of a matrix into y: their sums, and the shift if one was taken off first.

    With the largest element taken out nothing overflows; where all elements are moderate that is not needed, and not
    done, as it would cost another pass.
    """
    along = ones(a.shape[1], a.dtype)
    if maximum_reduce(a, None) < CALM:
        sums = row_sums(exp_into(a, y), along)
        if minimum_reduce(sums) > FAINT:
            return sums, None
    shift = maximum_reduce(a, 1, None, None, True)
    return row_sums(exp_into(subtract(a, shift, y), y), along), shift


def row_sums(rows: np.ndarray, along: np.ndarray) -> np.ndarray:
    """The products of rows with a vector. BLAS takes a third of the time (256 rows of 32: 1.2 µs, not 4.2), but it
    would wake its threads for large matrices, which are worked on by ours. Long rows are added up in blocks."""
    if rows.shape[1] > PART:
        return add_reduce(rows, 1)  # type: ignore[no-any-return]
    return rows.dot(along) if rows.size < QUIET else np.vecdot(rows, along)  # type: ignore[no-any-return]


def _softmax_rows(y: np.ndarray, a: np.ndarray) -> None:
    sums, _ = exponentials(y, a)
    by_column(divide, y, sums[:, None], y)


def _log_softmax_rows(y: np.ndarray, a: np.ndarray) -> None:
    sums, shift = exponentials(y, a)
    by_column(subtract, a if shift is None else subtract(a, shift, y), log_into(sums, sums)[:, None], y)


def largest_of(a: Array, begin: int, n: int) -> float:
    """The largest of n numbers, for loops; NaN if one is."""
    top = a[begin]
    for i in range(begin, begin + n):
        top = words.larger(top, a[i])
    return top  # type: ignore[no-any-return]


def exponentials_of(a: Array, y: Array, begin: int, n: int, top: float) -> float:
    """Write the exponentials of n numbers, `top` taken off before, for loops; their sum."""
    total = 0.0
    for start in range(begin, begin + n, PART):
        part = 0.0
        for i in range(start, words.least(start + PART, begin + n)):
            e = words.exp(a[i] - top)
            y[i] = e
            part += e
        total += part
    return total


@native
def softmax_loop(first: int, last: int, a: Array, y: Array, n: int) -> None:
    """The softmax of rows of n numbers."""
    for row in range(first, last):
        begin = row * n
        total = exponentials_of(a, y, begin, n, largest_of(a, begin, n))
        share = 1.0 / total
        for i in range(begin, begin + n):
            y[i] = y[i] * share


@native
def log_softmax_loop(first: int, last: int, a: Array, y: Array, n: int) -> None:
    """The logarithm of the softmax of rows of n numbers."""
    for row in range(first, last):
        begin = row * n
        top = largest_of(a, begin, n)
        total = 0.0
        for start in range(begin, begin + n, PART):
            part = 0.0
            for i in range(start, words.least(start + PART, begin + n)):
                part += words.exp(a[i] - top)
            total += part
        shift = words.log(total)
        for i in range(begin, begin + n):
            y[i] = (a[i] - top) - shift


@native
def softmax_back_loop(first: int, last: int, g: Array, y: Array, out: Array, n: int) -> None:
    """y * (g - sum(g * y)) of rows of n numbers."""
    for row in range(first, last):
        begin = row * n
        dot = 0.0
        for start in range(begin, begin + n, PART):
            part = 0.0
            for i in range(start, words.least(start + PART, begin + n)):
                part += g[i] * y[i]
            dot += part
        for i in range(begin, begin + n):
            out[i] = (g[i] - dot) * y[i]


@native
def log_softmax_back_loop(first: int, last: int, g: Array, y: Array, out: Array, n: int) -> None:
    """g - exp(y) * sum(g) of rows of n numbers."""
    for row in range(first, last):
        begin = row * n
        total = 0.0
        for start in range(begin, begin + n, PART):
            part = 0.0
            for i in range(start, words.least(start + PART, begin + n)):
                part += g[i]
            total += part
        for i in range(begin, begin + n):
            out[i] = g[i] - words.exp(y[i]) * total


def _softmax(a: np.ndarray, axis: int) -> np.ndarray:
    """Along the last axis by matrix products; along others with the largest element taken out."""
    if not a.size or not a.ndim:
        return np.exp(a - a)  # nothing, or 1 (NaN for NaN and infinities)
    if by_rows(a, axis):
        return by_loop(softmax_loop, _softmax_rows, a)
    y: np.ndarray = settled(subtract(a, maximum_reduce(a, axis, None, None, True)))
    exp_into(y, y)
    return divide(y, added_up(y, (axis,), True), y)


def _log_softmax(a: np.ndarray, axis: int) -> np.ndarray:
    if not a.size or not a.ndim:
        return a - a
    if by_rows(a, axis):
        return by_loop(log_softmax_loop, _log_softmax_rows, a)
    y: np.ndarray = settled(subtract(a, maximum_reduce(a, axis, None, None, True)))
    total = added_up(exp_into(y), (axis,), True)
    return subtract(y, log_into(total, total), y)


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


def _softmax_back_rows(out: np.ndarray, g: np.ndarray, y: np.ndarray) -> None:
    dots = np.vecdot(g, y) if y.shape[1] <= PART else add_reduce(multiply(g, y, out), 1)
    by_column(subtract, g, dots[:, None], out)
    multiply(out, y, out)


def _softmax_back(g: np.ndarray, y: np.ndarray, axis: int) -> Any:
    if not y.ndim:
        return y * (g - g * y)
    if by_rows(y, axis):
        return by_loop(softmax_back_loop, _softmax_back_rows, g, y)
    if g.dtype.itemsize == 2:
        return _softmax_back_of_halves(g, y, axis)  # a sum of halves would lose most of its digits
    out = g * y
    subtract(g, added_up(out, (axis,), True), out)
    return multiply(out, y, out)


_softmax_back_of_halves = in_single(_softmax_back)


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


def _log_softmax_back_rows(out: np.ndarray, g: np.ndarray, y: np.ndarray) -> None:
    exp_into(y, out)
    by_column(multiply, out, row_sums(g, ones(g.shape[1], g.dtype))[:, None], out)
    subtract(g, out, out)


def _log_softmax_back(g: np.ndarray, y: np.ndarray, axis: int) -> Any:
    if not y.ndim:
        return g - np.exp(y) * g
    if by_rows(y, axis):
        return by_loop(log_softmax_back_loop, _log_softmax_back_rows, g, y)
    if g.dtype.itemsize == 2:
        return _log_softmax_back_of_halves(g, y, axis)
    out = np.exp(y)
    out *= added_up(g, (axis,), True)
    return subtract(g, out, out)


_log_softmax_back_of_halves = in_single(_log_softmax_back)


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
    """Along one dimension, empty tensors, large numbers, and more of them than are worked on one by one."""
    return [
        *line_samples(draw), call(draw(2, 0), 1), call(draw(0, 3), dim=0), call(draw(2, 5, low=-900, high=900), 1),
        call(draw(20, 130), 1), call(draw(20, 130, low=-90, high=90), 1), call(draw(20, 130, low=-90, high=-80), 1),
    ]  # fmt: skip


@operation(samples=softmax_samples, aliases=("torch.special.softmax",))
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


@operation(samples=softmax_samples, aliases=("torch.special.log_softmax",))
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


@operation(
    samples=lambda draw: [
        call(draw(2, 3), draw(2, 3), 1, dtypes.float64), call(draw(4), draw(4), 0, dtypes.float64),
        call(draw(2, 3, 4), draw(2, 3, 4), -2, dtypes.float64), call(draw(), draw(), 0, dtypes.float64),
    ],
    methods=(),
)  # fmt: skip
def _softmax_backward_data(grad_output: Any, output: Any, dim: int, input_dtype: Any) -> Any:
    """The gradient of softmax's input, from that of its result and the result itself; narrower if the input was.

    >>> import pellucid as torch
    >>> shares, grad = torch.tensor([0.25, 0.75]), torch.tensor([1.0, 0.0])
    >>> torch._softmax_backward_data(grad, shares, 0, torch.float32)
    tensor([ 0.1875, -0.1875])
    """
    result = softmax_back_row(grad_output, output, axis_of(dim, output.ndim))
    return as_type(result, input_dtype) if input_dtype.itemsize < grad_output.dtype.itemsize else result
