"""The kernels of normalisation on ndarrays: few passes over memory, and BLAS wherever it does one faster.

Sums along rows are products with a vector, sums of squares are inner products of rows (`vecdot`): both read x once
and make nothing. What is broadcast along rows or columns is written or added by a product of rank 1 or 2, faster than
NumPy broadcasts (1 million float32: 110 : 200 µs).

Large arrays are worked on by several threads, each with its own rows (see workers.py).

A variance as "mean of squares - square of the mean" loses digits when the mean is large; where it would lose more
than four bits (`far`) the mean is taken off first, here and in everything that follows.
"""

from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import dgemm, sgemm

from pellucid.ops.nn.workers import in_parts
from pellucid.ops.softmax import ones

Shape = tuple[int, ...]
GEMM = {np.dtype(np.float32): sgemm, np.dtype(np.float64): dgemm}
FAR = 15.0  # times the variance: where the square of the mean is above, the mean is taken off first
FORWARD, BACKWARD, COMBINED = 5e-4, 1.6e-3, 1e-3  # microseconds per element, roughly
add_reduce = np.add.reduce
multiply, subtract, divide = np.multiply, np.subtract, np.true_divide


class Layout(NamedTuple):
    """What is normalised together: x is seen as an array of shape `view`, and each group reaches along `axes`.

    Two forms have kernels: rows `(count, size)` with axes (1,), a weight as long as a row (layer norm); and blocks
    `(batch, groups, channels of a group, size)` with a weight per channel, whose groups reach over the batch (batch
    norm) or not (group norm). Under vmap there is one more axis in front.
    """

    view: Shape
    axes: Shape
    weight: Shape  # the shape of the weight and of the bias, to broadcast against the view
    moments: Shape  # the view with the axes of a group as 1
    size: int  # how many elements are normalised together; at least 1, to divide by


@lru_cache(maxsize=1024)
def layout_of(view: Shape, axes: Shape, weight: Shape) -> Layout:
    """A layout with what follows from its form.

    >>> layout_of((6, 4), (1,), (4,)).moments
    (6, 1)
    """
    kept = tuple([1 if i in axes else n for i, n in enumerate(view)])
    return Layout(view, axes, weight, kept, prod([view[i] for i in axes]) or 1)


@lru_cache(maxsize=256)
def share(count: int, dtype: np.dtype) -> np.ndarray:
    """1 / count, as a 0-d array."""
    return np.asarray(1 / count, dtype)


def product(left: np.ndarray, right: np.ndarray, out: np.ndarray, add: bool) -> np.ndarray:
    """`left.T @ right` written or added to `out`; BLAS sees C order as the transposed matrix, and writes in place."""
    if out.size:
        GEMM[out.dtype](1.0, right.T, left, 1.0 if add else 0.0, out.T, 0, 0, 1)
    return out


def outer(column: np.ndarray, row: np.ndarray, out: np.ndarray, add: bool = False) -> np.ndarray:
    """Each element of the column times each of the row, written or added to `out`."""
    return product(column.reshape(1, -1), row.reshape(1, -1), out, add)


# --- moments


def moments_of(a: np.ndarray, layout: Layout, eps: float, centred: bool) -> np.ndarray:
    """For each group its mean, 1 / sqrt(var + eps), var, and whether a mean is far from 0, along a new first axis."""
    x = a.reshape(layout.view)
    out = np.zeros((4, *layout.moments), a.dtype)
    mean, rstd, var, far = out[0], out[1], out[2], out[3]
    factor = share(layout.size, a.dtype)
    sums, squares = _sums(x, layout)
    multiply(squares, factor, var)
    if centred:
        multiply(sums, factor, mean)
        multiply(mean, mean, rstd)
        subtract(var, rstd, var)
        if np.count_nonzero(var * FAR < rstd):
            far[...] = 1
            rest, squares = _sums(x - mean, layout)  # the rest is what rounding left of the mean
            multiply(squares - rest * rest * factor, factor, var)
    np.add(var, eps, rstd)
    divide(1, np.sqrt(rstd, rstd), rstd)
    return out


def _sums(x: np.ndarray, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """The sum of each group and that of its squares."""
    axes = layout.axes
    if x.size < 2 or x.ndim not in (2, 4) or x.shape[-1] == 1:
        return add_reduce(x, axes, keepdims=True), add_reduce(x * x, axes, keepdims=True)
    sums, squares = row_sums(x, x)
    if len(axes) > 1:
        sums, squares = add_reduce(sums, axes[:-1], keepdims=True), add_reduce(squares, axes[:-1], keepdims=True)
    return sums, squares


def row_sums(g: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Along the last axis, kept: the sums of g and those of g * x."""
    rows, shape = matrix(g), (*g.shape[:-1], 1)
    products = np.vecdot(rows, rows if g is x else matrix(x))
    return rows.dot(ones(g.shape[-1], g.dtype)).reshape(shape), products.reshape(shape)


def matrix(a: np.ndarray) -> np.ndarray:
    """All axes but the last as one."""
    return a if a.ndim == 2 else a.reshape(prod(a.shape[:-1]), a.shape[-1])


# --- forward


def normalised(
    a: np.ndarray, w: np.ndarray, b: np.ndarray, moments: np.ndarray, layout: Layout, eps: float, centred: bool
) -> np.ndarray:
    """`(a - mean) * rstd * w + b`; a weight or bias of no dimensions is not there."""
    x, mean, rstd = a.reshape(layout.view), moments[0], moments[1]
    if np.count_nonzero(moments[3]):
        x, mean = x - mean, np.zeros_like(mean)
    kernel = _rows if len(layout.view) == 2 else _blocks
    out = np.empty(a.shape, a.dtype)
    kernel(x, w, b, mean, rstd, centred, out.reshape(layout.view))
    return out


def _rows(
    x: np.ndarray, w: np.ndarray, b: np.ndarray, mean: np.ndarray, rstd: np.ndarray, centred: bool, out: np.ndarray
) -> None:
    """`x * (rstd ⊗ w) + (-mean rstd ⊗ w + 1 ⊗ b)`."""
    weight = w.reshape(-1) if w.ndim else ones(x.shape[1], x.dtype)
    left, right = [], []
    if centred:
        left.append((mean * -rstd).reshape(-1))
        right.append(weight)
    if b.ndim:
        left.append(ones(len(x), x.dtype))
        right.append(b.reshape(-1))
    columns, rows = np.array(left), np.array(right)

    def work(part: slice) -> None:
        y = out[part]
        outer(rstd[part], weight, y)
        multiply(y, x[part], y)
        if left:
            product(columns[:, part], rows, y, True)

    in_parts(work, len(x), x.size * FORWARD)


def _blocks(
    x: np.ndarray, w: np.ndarray, b: np.ndarray, mean: np.ndarray, rstd: np.ndarray, centred: bool, out: np.ndarray
) -> None:
    """One scale and one shift for each element of the batch and channel."""
    weight, bias = (each.reshape(*x.shape[1:3], 1) if each.ndim else each for each in (w, b))
    scale = rstd * weight
    shift = bias - mean * scale
    if x.shape[-1] == 1:
        np.add(multiply(x, scale, out), shift, out)
        return
    xs, ys, along = matrix(x), matrix(out), ones(x.shape[-1], x.dtype)
    scale, shift = _per_row(scale, x), _per_row(shift, x)

    def work(part: slice) -> None:
        y = outer(scale[part], along, ys[part])
        multiply(y, xs[part], y)
        outer(shift[part], along, y, True)

    in_parts(work, len(xs), x.size * FORWARD)


def _per_row(value: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(value, (*x.shape[:3], 1)).reshape(-1)


# --- backward: dx = rstd * (g w - mean(g w) - z mean(g w z)), where z = (x - mean) * unit is not made


def normalised_back(
    g: np.ndarray, a: np.ndarray, w: np.ndarray, moments: np.ndarray, layout: Layout, eps: float, centred: bool,
    bias: Shape,
) -> tuple[np.ndarray, Any, Any]:  # fmt: skip
    """The gradients of x, of the weight and of the bias, which has that shape."""
    x, mean, rstd = a.reshape(layout.view), moments[0], moments[1]
    unit = rstd
    if np.count_nonzero(moments[3]):
        x = (x - mean) * rstd
        mean, unit = np.zeros_like(mean), np.ones_like(rstd)
    kernel = _rows_back if len(layout.view) == 2 else _blocks_back
    dx = np.empty(a.shape, a.dtype)  # owns its memory, so that it can become a leaf's .grad as it is
    dw, db = kernel(g.reshape(layout.view), x, w, mean, unit, rstd, centred, layout, dx.reshape(layout.view))
    return dx, _shaped(dw, w.shape), _shaped(db, bias)


def _shaped(gradient: np.ndarray, shape: Shape) -> Any:
    """The gradient of a weight of that shape; one that is not there has no dimensions."""
    if not shape:
        return gradient.sum()
    return gradient if gradient.shape == shape else gradient.reshape(shape)


def _rows_back(
    g: np.ndarray, x: np.ndarray, w: np.ndarray, mean: np.ndarray, unit: np.ndarray, rstd: np.ndarray,
    centred: bool, layout: Layout, dx: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    weight = w.reshape(-1) if w.ndim else ones(x.shape[1], x.dtype)
    mean, unit, rstd = mean.reshape(-1), unit.reshape(-1), rstd.reshape(-1)

    def work(part: slice) -> tuple[np.ndarray, np.ndarray]:
        given = g[part], x[part], weight, mean[part], unit[part], rstd[part], dx[part]
        return _some_rows_back(*given, centred, share(layout.size, x.dtype))

    (dw, db), *rest = in_parts(work, len(x), x.size * BACKWARD)
    for more in rest:
        dw, db = dw + more[0], db + more[1]
    return dw, db


def _some_rows_back(
    g: np.ndarray, x: np.ndarray, weight: np.ndarray, mean: np.ndarray, unit: np.ndarray, rstd: np.ndarray,
    dx: np.ndarray, centred: bool, factor: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    products = multiply(g, x)
    total, along = g.dot(weight), products.dot(weight)
    dw, db = unit.dot(products), ones(len(x), x.dtype).dot(g)
    push = None
    if centred:
        shift = mean * unit
        dw -= shift.dot(g)
        along -= mean * total
    pull = rstd * unit * unit * (along * factor)
    if centred:
        push = pull * mean - rstd * (total * factor)
    outer(rstd, weight, dx)
    _combined(g, x, dx, pull, push, products)
    return dw, db


def _combined(
    g: np.ndarray, x: np.ndarray, scale: np.ndarray, pull: np.ndarray, push: Any, scratch: Any = None
) -> None:
    """`g * scale - x * pull + push`, the last two by rows; written into `scale`."""
    multiply(scale, g, scale)
    subtract(scale, multiply(x, pull[:, None], scratch), scale)
    if push is not None:
        outer(push, ones(x.shape[1], x.dtype), scale, True)


def _blocks_back(
    g: np.ndarray, x: np.ndarray, w: np.ndarray, mean: np.ndarray, unit: np.ndarray, rstd: np.ndarray,
    centred: bool, layout: Layout, dx: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    rest, factor = layout.axes[:-1], share(layout.size, x.dtype)
    weight = w.reshape(*x.shape[1:3], 1) if w.ndim else w
    sums, products = row_sums(g, x) if x.shape[-1] > 1 and x.size else (g, g * x)
    dw, db = add_reduce(unit * (products - mean * sums), 0), add_reduce(sums, 0)
    total, along = (add_reduce(part * weight, rest, keepdims=True) * factor for part in (sums, products))
    pull = rstd * unit * unit * (along - mean * total)
    push = pull * mean - rstd * total
    scale = rstd * weight
    if x.shape[-1] == 1:
        subtract(multiply(g, scale, dx), x * pull, dx)
        np.add(dx, push, dx)
        return dw, db
    scale, pull, push = (_per_row(each, x) for each in (scale, pull, push))
    gs, xs, ds = matrix(g), matrix(x), matrix(dx)

    def work(part: slice) -> None:
        rows = outer(scale[part], ones(xs.shape[1], x.dtype), ds[part])
        _combined(gs[part], xs[part], rows, pull[part], push[part])

    in_parts(work, len(xs), x.size * COMBINED)
    return dw, db
