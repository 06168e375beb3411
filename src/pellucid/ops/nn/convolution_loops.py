"""Native loops of convolution over lines and planes: some rows of the result at a time, their columns in the cache.

The columns of a tile are a matrix with a line for each channel and each place of the kernel; the convolution is its
product with the weight. `shape` says how everything lies, in the order of `Plane`.
"""

import math
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from pellucid.native import HANDS_AT_MOST, MANY, native
from pellucid.native.words import Array, Indices, gemm, least, most
from pellucid.ops.arguments import Shape
from pellucid.ops.nn.windows import Windows

TILE = 1 << 16  # elements of columns: a quarter of a megabyte
CHUNKS = 8  # parts of the images whose weight gradients are summed up apart, whatever the number of cores


class Plane(NamedTuple):
    """The sizes of a convolution of one group of channels."""

    channels: int
    height: int
    width: int
    outputs: int
    rows: int
    columns: int
    kernel_height: int
    kernel_width: int
    stride_down: int
    stride_right: int
    padding_top: int
    padding_left: int
    dilation_down: int
    dilation_right: int
    groups: int
    tile: int  # rows of the result that are worked on at a time


def spread(x: Array, begin: int, columns: Array, own: int, top: int, rows: int, s: Indices) -> None:
    """Write the columns of `rows` rows of the result, from `top` on; outside the image there is 0."""
    height, width, wide, stride = s[1], s[2], s[5], s[9]
    for tap in range(s[0] * s[6] * s[7]):
        channel = tap // (s[6] * s[7])
        down = tap // s[7] % s[6] * s[12] - s[10]  # where this place of the kernel looks, seen from the window's
        right = tap % s[7] * s[13] - s[11]
        left = (stride - 1 - right) // stride if right < 0 else 0  # the first window that sees an element here
        beyond = most(left, least(wide, (width - 1 - right) // stride + 1)) if right < width else left
        for row in range(rows):
            y = (top + row) * s[8] + down
            to = own + (tap * rows + row) * wide
            if y < 0 or y >= height:
                for i in range(to, to + wide):
                    columns[i] = 0.0
            else:
                origin = begin + (channel * height + y) * width + right
                for i in range(least(left, wide)):
                    columns[to + i] = 0.0
                if stride == 1:
                    for i in range(left, beyond):
                        columns[to + i] = x[origin + i]
                else:
                    for i in range(left, beyond):
                        columns[to + i] = x[origin + i * stride]
                for i in range(beyond, wide):
                    columns[to + i] = 0.0


def fold(x: Array, begin: int, columns: Array, own: int, top: int, rows: int, s: Indices) -> None:
    """Add the columns of `rows` rows of the result to the elements they came from."""
    height, width, wide, stride = s[1], s[2], s[5], s[9]
    for tap in range(s[0] * s[6] * s[7]):
        channel = tap // (s[6] * s[7])
        down = tap // s[7] % s[6] * s[12] - s[10]
        right = tap % s[7] * s[13] - s[11]
        left = (stride - 1 - right) // stride if right < 0 else 0
        beyond = most(left, least(wide, (width - 1 - right) // stride + 1)) if right < width else left
        for row in range(rows):
            y = (top + row) * s[8] + down
            if y >= 0 and y < height:
                origin = begin + (channel * height + y) * width + right
                to = own + (tap * rows + row) * wide
                if stride == 1:
                    for i in range(left, beyond):
                        x[origin + i] = x[origin + i] + columns[to + i]
                else:
                    for i in range(left, beyond):
                        x[origin + i * stride] = x[origin + i * stride] + columns[to + i]


@native
def convolve_loop(
    first: int, last: int, hand: int, x: Array, w: Array, bias: Array, y: Array, columns: Array, s: Indices,
    tiles: int, biased: int, space: int,
) -> None:  # fmt: skip
    """The convolution of images with a weight (outputs of a group, channels of a group x kernel) for each group."""
    taps = s[0] * s[6] * s[7]
    places = s[4] * s[5]
    for unit in range(first, last):
        part = unit // tiles
        top = unit % tiles * s[15]
        rows = least(s[15], s[4] - top)
        group = part % s[14]
        spread(x, part * s[0] * s[1] * s[2], columns, hand * space, top, rows, s)
        result = part * s[3] * places + top * s[5]
        if biased:
            for o in range(s[3]):
                for i in range(result + o * places, result + o * places + rows * s[5]):
                    y[i] = bias[group * s[3] + o]
        gemm(
            0, 0, s[3], rows * s[5], taps, 1.0, w, group * s[3] * taps, taps, columns, hand * space, rows * s[5],
            1.0 if biased else 0.0, y, result, places,
        )  # fmt: skip


@native
def transposed_loop(
    first: int, last: int, hand: int, g: Array, w: Array, x: Array, columns: Array, s: Indices, tiles: int, space: int
) -> None:
    """The adjoint in the images: each element of g adds a kernel."""
    taps = s[0] * s[6] * s[7]
    places = s[4] * s[5]
    for part in range(first, last):
        begin = part * s[0] * s[1] * s[2]
        for i in range(begin, begin + s[0] * s[1] * s[2]):
            x[i] = 0.0
        for tile in range(tiles):
            top = tile * s[15]
            rows = least(s[15], s[4] - top)
            gemm(
                1, 0, taps, rows * s[5], s[3], 1.0, w, part % s[14] * s[3] * taps, taps,
                g, part * s[3] * places + top * s[5], places, 0.0, columns, hand * space, rows * s[5],
            )  # fmt: skip
            fold(x, begin, columns, hand * space, top, rows, s)


@native
def weight_loop(
    first: int, last: int, hand: int, x: Array, g: Array, sums: Array, columns: Array, s: Indices,
    tiles: int, space: int, images: int, step: int,
) -> None:  # fmt: skip
    """The adjoint in the weight: for each chunk of the images, what g has in common with the columns."""
    taps = s[0] * s[6] * s[7]
    places = s[4] * s[5]
    for chunk in range(first, last):
        for part in range(chunk * step * s[14], least(images, (chunk + 1) * step) * s[14]):
            for tile in range(tiles):
                top = tile * s[15]
                rows = least(s[15], s[4] - top)
                spread(x, part * s[0] * s[1] * s[2], columns, hand * space, top, rows, s)
                gemm(
                    0, 1, s[3], taps, rows * s[5], 1.0, g, part * s[3] * places + top * s[5], places,
                    columns, hand * space, rows * s[5],
                    1.0, sums, (chunk * s[14] + part % s[14]) * s[3] * taps, taps,
                )  # fmt: skip


def fit(windows: Windows, images: int, channels: int, outputs: int, groups: int, dtype: np.dtype) -> bool:
    """Whether the loops take a convolution: lines or planes, and matrices rather than vectors to multiply."""
    if windows.rank > 2 or outputs // groups < 4 or not channels or min(windows.sizes) < 1:
        return False
    work = images * outputs * math.prod(windows.sizes) * channels // groups * math.prod(windows.kernel)
    return work >= 16 * MANY and convolve_loop.available(dtype)


def plane(windows: Windows, sizes: Shape, channels: int, outputs: int, groups: int) -> Plane:
    """A convolution as the loops see it; a line is a plane of height 1."""
    one = (1,) * (2 - windows.rank)
    rows, columns = (*one, *windows.sizes)
    taps = channels // groups * math.prod(windows.kernel)
    along = (
        (channels // groups,), one, sizes, (outputs // groups, rows, columns), one, windows.kernel, one, windows.stride,
        (0,) * len(one), windows.padding, one, windows.dilation, (groups, max(1, min(rows, TILE // (taps * columns)))),
    )  # fmt: skip
    return Plane._make(chain.from_iterable(along))


def _scratch(p: Plane, dtype: np.dtype) -> tuple[ndarray, int]:
    """Memory for the columns of a tile, for each hand; and how many elements each has."""
    space = p.channels * p.kernel_height * p.kernel_width * p.tile * p.columns
    return np.empty(HANDS_AT_MOST * space, dtype), space


def convolve(a: ndarray, b: ndarray, bias: ndarray | None, windows: Windows, groups: int) -> ndarray:
    """(images, channels, *sizes) with a weight (outputs, channels / groups, *kernel)."""
    p = plane(windows, a.shape[2:], a.shape[1], len(b), groups)
    y = np.empty((len(a), len(b), *windows.sizes), a.dtype)
    columns, space = _scratch(p, a.dtype)
    tiles = -(-p.rows // p.tile)
    given = y if bias is None else np.ascontiguousarray(bias)
    convolve_loop(
        len(a) * groups * tiles, space, np.ascontiguousarray(a), np.ascontiguousarray(b), given, y, columns,
        np.array(p), tiles, bias is not None, space,
    )  # fmt: skip
    return y


def transposed(g: ndarray, b: ndarray, windows: Windows, groups: int, sizes: Shape) -> ndarray:
    """The adjoint of `convolve` in its input, which has spatial `sizes`."""
    channels = b.shape[1] * groups
    p = plane(windows, sizes, channels, len(b), groups)
    x = np.empty((len(g), channels, *sizes), g.dtype)
    columns, space = _scratch(p, g.dtype)
    transposed_loop(
        len(g) * groups, space, np.ascontiguousarray(g), np.ascontiguousarray(b), x, columns, np.array(p),
        -(-p.rows // p.tile), space,
    )  # fmt: skip
    return x


def with_weight(a: ndarray, g: ndarray, windows: Windows, groups: int) -> ndarray:
    """The adjoint of `convolve` in its weight."""
    p = plane(windows, a.shape[2:], a.shape[1], g.shape[1], groups)
    shape = (g.shape[1], a.shape[1] // groups, *windows.kernel)
    step = -(-len(a) // CHUNKS)
    chunks = -(-len(a) // step)
    sums = np.zeros((chunks, *shape), a.dtype)
    columns, space = _scratch(p, a.dtype)
    weight_loop(
        chunks, space * step, np.ascontiguousarray(a), np.ascontiguousarray(g), sums, columns, np.array(p),
        -(-p.rows // p.tile), space, len(a), step,
    )  # fmt: skip
    return np.add.reduce(sums, 0)  # type: ignore[no-any-return]
