"""The kernels of normalisation on ndarrays: few passes over memory, and BLAS wherever it does one faster.

Sums along rows are products with a vector, sums of squares are inner products of rows (`vecdot`): both read x once
and make nothing. What is broadcast along rows or columns is written or added by a product of rank 1 or 2, faster than
NumPy broadcasts (4096 rows of 256 float32: 130 : 230 µs). Small arrays take the formula as it stands, with few calls.

A variance as "mean of squares - square of the mean" loses digits when the mean is large; where it would lose more
than four bits (`far`) the mean is taken off first, here and in everything that follows.
"""

from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from pellucid.core.blas import turned_product
from pellucid.core.large import added_up, ones
from pellucid.ops.nn import norm_loops
from pellucid.ops.softmax import LONG, by_column

Shape = tuple[int, ...]
FAR = 15.0  # times the variance: where the square of the mean is above, the mean is taken off first
SMALL = 1 << 14  # elements: below, calls count more than passes over memory
LONG_GROUP = 1 << 12  # numbers: BLAS adds up fewer as exactly as blocks do
add_reduce = np.add.reduce
add, multiply, subtract = np.add, np.multiply, np.subtract


class Layout(NamedTuple):
    """What is normalised together: x is seen as an array of shape `view`, and each group reaches along `axes`.

    Two forms have kernels: rows `(count, size)` with axes (1,), a weight as long as a row (layer norm); and blocks
    `(batch, groups, channels of a group, size)` with a weight per channel, whose groups reach over the batch (batch
    norm) or not (group norm). Under vmap there is one more axis in front.
    """

    view: Shape
    axes: Shape
    weight: Shape  # the shape of the weight and of the bias, to broadcast against the view
    moments: Shape  # one for each group: (count,) for rows, else the view with the axes of a group as 1
    size: int  # how many elements are normalised together; at least 1, to divide by


@lru_cache(maxsize=1024)
def layout_of(view: Shape, axes: Shape, weight: Shape) -> Layout:
    """A layout with what follows from its form.

    >>> layout_of((6, 4), (1,), (4,)).moments
    (6,)
    """
    kept = tuple([1 if i in axes else n for i, n in enumerate(view)])
    return Layout(view, axes, weight, kept[:1] if len(view) == 2 else kept, prod([view[i] for i in axes]) or 1)


@lru_cache(maxsize=256)
def number(value: float, dtype: np.dtype) -> np.ndarray:
    """A number as a 0-d array, which NumPy takes faster than a Python float."""
    return np.asarray(value, dtype)


# --- broadcasting by BLAS


def scaled_rows(x: np.ndarray, column: np.ndarray, row: np.ndarray | None, out: np.ndarray) -> None:
    """`x * (column ⊗ row)` into `out`; no row stands for ones."""
    if row is None or x.shape[1] >= LONG:
        by_column(multiply, x, column[:, None], out)
        if row is not None:
            multiply(out, row, out)
    else:
        turned_product(column[None], row[None], out, False)
        multiply(out, x, out)


def raise_rows(out: np.ndarray, column: np.ndarray) -> None:
    """Add one number to each row."""
    if out.shape[1] >= LONG:
        by_column(add, out, column[:, None], out)
    else:
        turned_product(column[None], ones(out.shape[1], out.dtype)[None], out, True)


# --- moments


def moments_of(a: np.ndarray, layout: Layout, eps: float, centred: bool) -> np.ndarray:
    """For each group its mean, 1 / sqrt(var + eps), var, and whether a mean is far from 0, along a new first axis."""
    dtype = a.dtype
    out = np.zeros((4, *layout.moments), dtype)
    if norm_loops.fit(layout, a):
        norm_loops.moments(a, out, layout, eps, centred)
        return out
    x = a.reshape(layout.view)
    mean, rstd, var = out[0], out[1], out[2]
    share = number(1 / layout.size, dtype)
    sums, squares = _sums(x, layout)
    multiply(squares, share, var)
    if centred:
        multiply(sums, share, mean)
        multiply(mean, mean, rstd)
        subtract(var, rstd, var)
        far = FAR if layout.size < LONG_GROUP else 1.0
        if np.count_nonzero(var * number(far, dtype) >= rstd) < var.size:  # far, or the squares overflow: inf - inf
            out[3] = 1
            rest, squares = _sums(x - _beside(mean, x), layout)  # the rest is what rounding left of the mean
            moved = rest * share
            rest *= moved
            known = np.isfinite(rest)
            subtract(squares, rest, squares, where=known)
            multiply(squares, share, var)
            add(mean, moved, mean, where=known)
    add(var, number(eps, dtype), rstd)
    np.reciprocal(np.sqrt(rstd, rstd), rstd)
    return out


def _beside(moment: np.ndarray, x: np.ndarray) -> np.ndarray:
    """A moment of each group, to broadcast against x in the layout's view."""
    return moment[:, None] if moment.ndim == 1 else moment


def _sums(x: np.ndarray, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """The sum of each group and that of its squares."""
    if layout.size >= LONG_GROUP:
        return added_up(x, layout.axes, x.ndim != 2), added_up(x * x, layout.axes, x.ndim != 2)
    if x.ndim == 2:
        return x.dot(ones(x.shape[1], x.dtype)), np.vecdot(x, x)
    axes = layout.axes
    if x.ndim != 4 or x.shape[3] == 1 or not x.size:
        return add_reduce(x, axes, keepdims=True), add_reduce(x * x, axes, keepdims=True)
    sums, squares = _row_sums(x, x)
    return add_reduce(sums, axes[:-1], keepdims=True), add_reduce(squares, axes[:-1], keepdims=True)


def _row_sums(g: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Along the last axis, kept: the sums of g and those of g * x."""
    rows, shape = matrix(g), (*g.shape[:-1], 1)
    products = np.vecdot(rows, rows if g is x else matrix(x))
    return np.vecdot(rows, ones(g.shape[-1], g.dtype)).reshape(shape), products.reshape(shape)


def matrix(a: np.ndarray) -> np.ndarray:
    """All axes but the last as one."""
    return a.reshape(prod(a.shape[:-1]), a.shape[-1])


# --- forward


def normalised(
    a: np.ndarray, w: np.ndarray, b: np.ndarray, moments: np.ndarray, layout: Layout, eps: float, centred: bool
) -> np.ndarray:
    """`(a - mean) * rstd * w + b`; a weight or bias of no dimensions is not there."""
    if norm_loops.fit(layout, a, w, b, moments):
        return norm_loops.normalised(a, w, b, moments, layout)
    x, mean, rstd = a.reshape(layout.view), moments[0], moments[1]
    out = np.empty(a.shape, a.dtype)
    if x.size > SMALL and np.count_nonzero(moments[3]):
        x, mean = x - _beside(mean, x), np.zeros_like(mean)
    kernel = (_rows if x.size > SMALL else _few_rows) if x.ndim == 2 else _blocks
    kernel(x, w, b, mean, rstd, centred, out.reshape(layout.view))
    return out


def _few_rows(
    x: np.ndarray, w: np.ndarray, b: np.ndarray, mean: np.ndarray, rstd: np.ndarray, centred: bool, out: np.ndarray
) -> None:
    multiply(subtract(x, mean[:, None], out) if centred else x, rstd[:, None], out)
    if w.ndim:
        multiply(out, w.reshape(-1), out)
    if b.ndim:
        add(out, b.reshape(-1), out)


def _rows(
    x: np.ndarray, w: np.ndarray, b: np.ndarray, mean: np.ndarray, rstd: np.ndarray, centred: bool, out: np.ndarray
) -> None:
    """`x * (rstd ⊗ w) + (-mean rstd ⊗ w + 1 ⊗ b)`."""
    weight = w.reshape(-1) if w.ndim else None
    shift, bias = (mean * -rstd if centred else None), (b.reshape(-1) if b.ndim else None)
    scaled_rows(x, rstd, weight, out)
    _shift_rows(out, shift, weight, bias)


def _shift_rows(out: np.ndarray, shift: Any, weight: Any, bias: Any) -> None:
    """Add `shift ⊗ weight + 1 ⊗ bias`, as far as they are there."""
    rank_one = shift is not None and weight is not None
    if out.shape[1] < LONG and (rank_one or bias is not None):
        pairs = [(shift, weight)] if rank_one else []
        if bias is not None:
            pairs.append((ones(len(out), out.dtype), bias))
        turned_product(np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs]), out, True)
        bias = None
    elif rank_one:
        add(out, shift[:, None] * weight, out)
    if shift is not None and weight is None:
        raise_rows(out, shift)
    if bias is not None:
        add(out, bias, out)


def _blocks(
    x: np.ndarray, w: np.ndarray, b: np.ndarray, mean: np.ndarray, rstd: np.ndarray, centred: bool, out: np.ndarray
) -> None:
    """One scale and one shift for each element of the batch and channel."""
    weight, bias = (each.reshape(*x.shape[1:3], 1) if each.ndim else each for each in (w, b))
    scale = rstd * weight
    if x.shape[-1] == 1 or x.size <= SMALL:
        add(multiply(subtract(x, mean, out), scale, out), bias, out)
        return
    xs, ys = matrix(x), matrix(out)
    scaled_rows(xs, _per_row(scale, x), None, ys)
    raise_rows(ys, _per_row(bias - mean * scale, x))


def _per_row(value: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(value, (*x.shape[:3], 1)).reshape(-1)


# --- backward: dx = rstd * (g w - mean(g w) - z mean(g w z)), where z = (x - mean) * unit is not made if x is large


def normalised_back(
    g: np.ndarray, a: np.ndarray, w: np.ndarray, moments: np.ndarray, layout: Layout, eps: float, centred: bool,
    bias: Shape,
) -> tuple[np.ndarray, Any, Any]:  # fmt: skip
    """The gradients of x, of the weight and of the bias, which has that shape."""
    if not a.size:  # an empty batch has nothing to say
        return np.zeros(a.shape, a.dtype), np.zeros(w.shape, w.dtype), np.zeros(bias, w.dtype)
    if norm_loops.fit(layout, g, a, w, moments):
        dx, dw, db = norm_loops.gradients(g, a, w, moments, layout, centred)
        return dx, _shaped(dw, w.shape), _shaped(db, bias)
    x, mean, rstd = a.reshape(layout.view), moments[0], moments[1]
    unit, g = rstd, g.reshape(layout.view)
    dx = np.empty(a.shape, a.dtype)  # owns its memory, so that it can become a leaf's .grad as it is
    out = dx.reshape(layout.view)
    if x.ndim == 2 and x.size <= SMALL:
        dw, db = _few_rows_back(g, x, w, mean, rstd, centred, layout, out)
    else:
        if np.count_nonzero(moments[3]):
            x = (x - _beside(mean, x)) * _beside(rstd, x)
            mean, unit = np.zeros_like(mean), np.ones_like(rstd)
        kernel = _rows_back if x.ndim == 2 else _blocks_back
        dw, db = kernel(g, x, w, mean, unit, rstd, centred, layout, out)
    return dx, _shaped(dw, w.shape), _shaped(db, bias)


def _shaped(gradient: np.ndarray, shape: Shape) -> Any:
    """The gradient of a weight of that shape; one that is not there has no dimensions."""
    if not shape:
        return gradient.sum()
    return gradient if gradient.shape == shape else gradient.reshape(shape)


def _few_rows_back(
    g: np.ndarray, x: np.ndarray, w: np.ndarray, mean: np.ndarray, rstd: np.ndarray, centred: bool,
    layout: Layout, dx: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    scale = rstd[:, None]
    z = (x - mean[:, None] if centred else x) * scale
    along, share = ones(len(x), x.dtype), number(1 / layout.size, x.dtype)
    weighted = g * w.reshape(-1) if w.ndim else g
    turn = np.vecdot(weighted, z)
    turn *= share
    subtract(weighted, z * turn[:, None], dx)
    if centred:
        middle = weighted.dot(ones(x.shape[1], x.dtype))
        middle *= share
        subtract(dx, middle[:, None], dx)
    multiply(dx, scale, dx)
    z *= g
    return along.dot(z), along.dot(g)


def _rows_back(
    g: np.ndarray, x: np.ndarray, w: np.ndarray, mean: np.ndarray, unit: np.ndarray, rstd: np.ndarray,
    centred: bool, layout: Layout, dx: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    share, weight = number(1 / layout.size, x.dtype), w.reshape(-1) if w.ndim else None
    products = multiply(g, x)
    row = ones(x.shape[1], x.dtype) if weight is None else weight
    along = products.dot(row)
    dw, db = unit.dot(products), ones(len(x), x.dtype).dot(g)
    push = None
    if centred:
        total = g.dot(row)
        along -= mean * total
        dw -= (mean * unit).dot(g)
    along *= share
    pull = rstd * unit * unit * along
    if centred:
        total *= share
        push = pull * mean - rstd * total
    scaled_rows(g, rstd, weight, dx)
    _pull_rows(dx, x, pull, push, products)
    return dw, db


def _pull_rows(out: np.ndarray, x: np.ndarray, pull: np.ndarray, push: Any, scratch: Any = None) -> None:
    """Take `x * pull` off each row and add `push` to it."""
    scratch = np.empty(x.shape, x.dtype) if scratch is None else scratch
    scaled_rows(x, pull, None, scratch)
    subtract(out, scratch, out)
    if push is not None:
        raise_rows(out, push)


def _blocks_back(
    g: np.ndarray, x: np.ndarray, w: np.ndarray, mean: np.ndarray, unit: np.ndarray, rstd: np.ndarray,
    centred: bool, layout: Layout, dx: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    rest, share = layout.axes[:-1], number(1 / layout.size, x.dtype)
    weight = w.reshape(*x.shape[1:3], 1) if w.ndim else w
    sums, products = _row_sums(g, x) if x.shape[-1] > 1 and x.size else (g, g * x)
    dw, db = added_up(unit * (products - mean * sums), (0,)), added_up(sums, (0,))
    total, along = (added_up(part * weight, rest, True) * share for part in (sums, products))
    pull = rstd * unit * unit * (along - mean * total)
    push = pull * mean - rstd * total
    scale = rstd * weight
    if x.shape[-1] == 1 or x.size <= SMALL:
        add(subtract(multiply(g, scale, dx), x * pull, dx), push, dx)
        return dw, db
    scale, pull, push = (_per_row(each, x) for each in (scale, pull, push))
    scaled_rows(matrix(g), scale, None, matrix(dx))
    _pull_rows(matrix(dx), matrix(x), pull, push)
    return dw, db
