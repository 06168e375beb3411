"""Native loops of max pooling: one plane after the other."""

import math

import numpy as np
from numpy import ndarray

from pellucid.native import MANY, native
from pellucid.native.words import Array, Indices, least, most
from pellucid.ops.nn.windows import Windows

INT64 = np.dtype(np.int64)


@native
def winners_loop(
    first: int, last: int, a: Array, index: Indices, height: int, width: int, rows: int, columns: int, tall: int,
    wide: int, down: int, right: int, above: int, before: int,
) -> None:  # fmt: skip
    """The index of the largest element of every window: rows x columns windows of tall x wide elements, down and right
    apart, which begin above and before the plane of height x width. The first of equals wins, and the last NaN."""
    for plane in range(first, last):
        base = plane * height * width
        for i in range(rows):
            top = most(i * down - above, 0)
            bottom = least(i * down - above + tall, height)
            for j in range(columns):
                left = most(j * right - before, 0)
                end = least(j * right - before + wide, width)
                winner = top * width + left
                best = a[base + winner]
                for row in range(top, bottom):
                    for spot in range(row * width + left, row * width + end):
                        value = a[base + spot]
                        wins = value > best or value != value
                        winner = spot if wins else winner
                        best = value if wins else best
                index[(plane * rows + i) * columns + j] = winner


@native
def winners_of_four_loop(
    first: int, last: int, a: Array, index: Indices, height: int, width: int, rows: int, columns: int
) -> None:
    """The same for windows of 2 x 2 elements side by side, the most frequent ones: with sizes that are known LLVM takes
    many windows at a time (20 times as fast)."""
    for plane in range(first, last):
        base = plane * height * width
        for i in range(rows):
            for j in range(columns):
                winner = 2 * i * width + 2 * j
                best = a[base + winner]
                for row in range(2):
                    for column in range(2):
                        spot = (2 * i + row) * width + 2 * j + column
                        value = a[base + spot]
                        wins = value > best or value != value
                        winner = spot if wins else winner
                        best = value if wins else best
                index[(plane * rows + i) * columns + j] = winner


@native
def pick_loop(first: int, last: int, a: Array, index: Indices, out: Array, size: int, count: int) -> None:
    """The elements that an index names, `count` of each plane of `size` elements."""
    for plane in range(first, last):
        for i in range(plane * count, (plane + 1) * count):
            out[i] = a[plane * size + index[i]]


@native
def spread_loop(first: int, last: int, g: Array, index: Indices, out: Array, size: int, count: int) -> None:
    """Each of `count` elements of a plane added at the place that the index names, in a plane of `size` elements."""
    for plane in range(first, last):
        for i in range(plane * count, (plane + 1) * count):
            out[plane * size + index[i]] += g[i]


def indices(a: ndarray, windows: Windows) -> ndarray | None:
    """The index of the largest element in each window, or None where the loop does not fit."""
    rank = windows.rank
    if rank > 2 or a.size < MANY or set(windows.dilation) != {1} or not winners_loop.fits(a):
        return None
    plane = (1, 1, *a.shape[a.ndim - rank :])[-2:]
    sizes, kernel, stride = ((1, *each)[-2:] for each in (windows.sizes, windows.kernel, windows.stride))
    lead, padding = a.shape[: a.ndim - rank], (0, *windows.padding)[-2:]
    index, planes, work = np.empty((*lead, *windows.sizes), INT64), math.prod(lead), math.prod(sizes)
    if kernel == stride == (2, 2) and not any(padding) and all(2 * o <= n for o, n in zip(sizes, plane, strict=True)):
        winners_of_four_loop(planes, 4 * work, a, index, *plane, *sizes)
    else:
        winners_loop(planes, math.prod(kernel) * work, a, index, *plane, *sizes, *kernel, *stride, *padding)
    return index


def picked(a: ndarray, index: ndarray, size: int, count: int) -> ndarray | None:
    """The elements that an index names within planes of a size, or None where the loop does not fit."""
    if not _fit(a, index, size) or not pick_loop.fits(a):
        return None
    out = np.empty(index.shape, a.dtype)
    pick_loop(index.size // count, count, a, index, out, size, count)
    return out


def spread_into(out: ndarray, g: ndarray, index: ndarray, size: int, count: int) -> bool:
    """Add elements at the places that an index names within planes of a size; False where the loop does not fit."""
    if not _fit(g, index, size) or not spread_loop.fits(g, out):
        return False
    spread_loop(index.size // count, count, g, index, out, size, count)
    return True


def _fit(a: ndarray, index: ndarray, size: int) -> bool:
    """Whether an index is large enough for a loop, and names nothing outside: a loop would not notice."""
    if index.size < MANY or index.dtype is not INT64 or not index.flags.c_contiguous:
        return False
    return bool(np.minimum.reduce(index, None) >= 0 and np.maximum.reduce(index, None) < size)
