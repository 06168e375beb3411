"""Native loops of normalisation: each group is read twice while it is in the cache, and nothing is made on the way.

x is seen as (outer, groups, run): a group is the runs of all `outer`. For layer norm a group is one row; for group
norm one run of several channels; for batch norm the runs of one channel in all examples.
"""

from typing import Any

import numpy as np

from pellucid.core.large import row_sum
from pellucid.native import APART, native
from pellucid.native.words import Array, least, sqrt, wide

ROUNDED = 2.0**-24  # of a square of a float32
SPAN = 1024  # numbers that are added up in the floating type: 64 at a time, so that few digits are lost
BLOCK = 1 << 14  # elements of rows whose weight gradients are added up one after the other: longer sums lose digits


@native
def moments_loop(
    first: int, last: int, x: Array, out: Array, outer: int, groups: int, run: int, eps: float, centred: int
) -> None:
    """The mean, 1 / sqrt(var + eps), and var of each group, in the first three rows of `out`.

    A span is added up in the floating type, spans in double: that costs nothing and keeps the digits of long groups.
    """
    share = 1.0 / float(outer * run)
    for q in range(first, last):
        mean, var = 0.0, 0.0
        if outer == 1 and run <= SPAN:
            begin = q * run
            total = 0.0
            if centred:
                for i in range(begin, begin + run):
                    total += x[i]
            mean = total * share
            squares = 0.0
            for i in range(begin, begin + run):
                squares += (x[i] - mean) * (x[i] - mean)
            var = squares * share
        else:
            if centred:
                mean = float(deviations(x, outer, groups, q, run, 0.0, 0) * share)
            var = float(deviations(x, outer, groups, q, run, mean, 1) * share)
        if mean * mean * ROUNDED > var:  # the mean is rounded, so that the deviations have a sum: it is no variance
            rest = deviations(x, outer, groups, q, run, mean, 0) * share
            var = float(var - rest * rest)
            mean = float(mean + rest)
        out[q] = mean
        out[groups + q] = 1.0 / sqrt(var + eps)
        out[2 * groups + q] = var


def deviations(x: Array, outer: int, groups: int, q: int, run: int, mean: float, squared: int) -> float:
    """The sum of x - mean over a group, or that of its squares."""
    total = wide(0.0)
    for o in range(outer):
        end = (o * groups + q + 1) * run
        for start in range(end - run, end, SPAN):
            part = 0.0
            if squared:
                for i in range(start, least(start + SPAN, end)):
                    part += (x[i] - mean) * (x[i] - mean)
            else:
                for i in range(start, least(start + SPAN, end)):
                    part += x[i] - mean
            total = total + part
    return total


@native
def rows_loop(first: int, last: int, x: Array, w: Array, b: Array, moments: Array, y: Array, n: int, rows: int) -> None:
    """`(x - mean) * rstd * w + b` of rows of n numbers, with a weight for each place in a row."""
    for row in range(first, last):
        mean = moments[row]
        rstd = moments[rows + row]
        begin = row * n
        for i in range(n):
            y[begin + i] = (x[begin + i] - mean) * rstd * w[i] + b[i]


@native
def rows_back_loop(
    first: int, last: int, g: Array, x: Array, w: Array, moments: Array, dx: Array, dw: Array, db: Array,
    n: int, rows: int, block: int, line_size: int, centred: int,
) -> None:  # fmt: skip
    """The gradients of blocks of rows; those of the weight and the bias are added up in one line for each block."""
    for row in range(first * block, least(rows, last * block)):
        mean = moments[row]
        rstd = moments[rows + row]
        begin = row * n
        line = row // block * line_size
        total = 0.0
        along = 0.0
        for i in range(n):
            weighted = g[begin + i] * w[i]
            total += weighted
            along += weighted * (x[begin + i] - mean)
        pull = along * rstd * rstd / float(n)
        push = total / float(n) if centred else 0.0
        for i in range(n):
            d = x[begin + i] - mean
            dx[begin + i] = (g[begin + i] * w[i] - push - d * pull) * rstd
            dw[line + i] = dw[line + i] + g[begin + i] * d * rstd
            db[line + i] = db[line + i] + g[begin + i]


@native
def blocks_loop(
    first: int, last: int, x: Array, w: Array, b: Array, moments: Array, y: Array,
    outer: int, groups: int, channels: int, size: int, kinds: int,
) -> None:  # fmt: skip
    """`(x - mean) * rstd * w + b` of groups, with a weight for each of the channels of a group."""
    for q in range(first, last):
        mean = moments[q]
        rstd = moments[groups + q]
        for o in range(outer):
            for k in range(channels):
                channel = q % kinds * channels + k
                scale = rstd * w[channel]
                shift = b[channel]
                begin = ((o * groups + q) * channels + k) * size
                for i in range(begin, begin + size):
                    y[i] = (x[i] - mean) * scale + shift


@native
def blocks_back_loop(
    first: int, last: int, g: Array, x: Array, w: Array, moments: Array, dx: Array, dw: Array, db: Array,
    outer: int, groups: int, channels: int, size: int, kinds: int,
) -> None:  # fmt: skip
    """The gradients of groups, and for each group those of the weights and biases of its channels."""
    share = 1.0 / float(outer * channels * size)
    for q in range(first, last):
        mean = moments[q]
        rstd = moments[groups + q]
        total, along = wide(0.0), wide(0.0)
        for k in range(channels):
            sums, products = wide(0.0), wide(0.0)
            for o in range(outer):
                end = ((o * groups + q) * channels + k + 1) * size
                for start in range(end - size, end, SPAN):
                    part = 0.0
                    other = 0.0
                    for i in range(start, least(start + SPAN, end)):
                        part += g[i]
                        other += g[i] * (x[i] - mean)
                    sums = sums + part
                    products = products + other
            dw[q * channels + k] = products * rstd
            db[q * channels + k] = sums
            weight = w[q % kinds * channels + k]
            total = total + sums * weight
            along = along + products * weight
        push = float(total * share)
        pull = float(along * rstd * rstd * share)
        for o in range(outer):
            for k in range(channels):
                weight = w[q % kinds * channels + k]
                begin = ((o * groups + q) * channels + k) * size
                for i in range(begin, begin + size):
                    dx[i] = (g[i] * weight - push - (x[i] - mean) * pull) * rstd


def extent(layout: Any) -> tuple[int, int, int]:
    """A layout as (outer, groups, run)."""
    view = layout.view
    if len(view) == 2:
        return 1, view[0], view[1]
    run = view[2] * view[3]
    return (view[0], view[1], run) if layout.axes[0] == 0 else (1, view[0] * view[1], run)


def fit(layout: Any, *arrays: np.ndarray) -> bool:
    """Whether the loops take arrays of this layout: enough elements, and runs long enough to be worth a loop."""
    view = layout.view
    if len(view) not in (2, 4) or view[-1] < 8 or arrays[0].size < 2048:
        return False
    return moments_loop.fits(*arrays)


def moments(x: np.ndarray, out: np.ndarray, layout: Any, eps: float, centred: bool) -> None:
    """Fill in the moments of each group."""
    outer, groups, run = extent(layout)
    moments_loop(groups, outer * run, x, out, outer, groups, run, eps, centred)


def _beside(weight: np.ndarray, layout: Any, missing: float) -> np.ndarray:
    """A weight for each place in a row or each channel; one that is not there has no dimensions."""
    if weight.ndim:
        return np.ascontiguousarray(weight)
    view = layout.view
    return np.full(view[1] if len(view) == 2 else view[1] * view[2], missing, weight.dtype)


def normalised(x: np.ndarray, w: np.ndarray, b: np.ndarray, found: np.ndarray, layout: Any) -> np.ndarray:
    """`(x - mean) * rstd * w + b`."""
    y = np.empty(x.shape, x.dtype)
    w, b = _beside(w, layout, 1.0), _beside(b, layout, 0.0)
    view = layout.view
    if len(view) == 2:
        rows_loop(view[0], view[1], x, w, b, found, y, view[1], view[0])
        return y
    outer, groups, run = extent(layout)
    blocks_loop(groups, outer * run, x, w, b, found, y, outer, groups, view[2], view[3], view[1])
    return y


def gradients(
    g: np.ndarray, x: np.ndarray, w: np.ndarray, found: np.ndarray, layout: Any, centred: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The gradients of x, of the weight and of the bias."""
    dx, w, view = np.empty(x.shape, x.dtype), _beside(w, layout, 1.0), layout.view
    if len(view) == 2:
        rows, n = view
        block, line_size = max(1, BLOCK // n), n + APART
        blocks = -(-rows // block)
        dw, db = np.zeros((2, blocks, line_size), x.dtype)
        rows_back_loop(blocks, n * block, g, x, w, found, dx, dw, db, n, rows, block, line_size, centred)
        return dx, row_sum(dw[:, :n]), row_sum(db[:, :n])
    outer, groups, run = extent(layout)
    dw, db = np.empty((2, groups, view[2]), x.dtype)
    blocks_back_loop(groups, outer * run, g, x, w, found, dx, dw, db, outer, groups, view[2], view[3], view[1])
    each = (-1, view[1] * view[2])
    return dx, row_sum(dw.reshape(each)), row_sum(db.reshape(each))
