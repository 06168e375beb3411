"""Native loops of convolution over lines and planes: some rows of the result at a time, their columns in the cache.

The columns of a tile are a matrix with a line for each channel and each place of the kernel; the convolution is its
product with the weight. `shape` says how everything lies, in the order of `Plane`.
"""

import math
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from pellucid.native import APART, HANDS_AT_MOST, MANY, native
from pellucid.native.vectors import strip
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


# The fields of a Plane by their place, for loops.
(
    CHANNELS, HEIGHT, WIDTH, OUTPUTS, ROWS, COLUMNS, KERNEL_HEIGHT, KERNEL_WIDTH, STRIDE_DOWN, STRIDE_RIGHT,
    PADDING_TOP, PADDING_LEFT, DILATION_DOWN, DILATION_RIGHT, GROUPS, TILE_ROWS,
) = range(16)  # fmt: skip


def first_window(right: int, stride: int) -> int:
    """The first window that sees an element, if it looks `right` of its own place."""
    if stride == 1:
        first = most(0, -right)
    else:
        first = (stride - 1 - right) // stride if right < 0 else 0
    return first


def windows_end(right: int, stride: int, first: int, wide: int, width: int) -> int:
    """The end of the windows that see an element."""
    if stride == 1:
        end = width - right
    else:
        end = (width - 1 - right) // stride + 1 if right < width else first
    return most(first, least(wide, end))


def spread(x: Array, begin: int, columns: Array, own: int, top: int, rows: int, s: Indices) -> None:
    """Write the columns of `rows` rows of the result, from `top` on; outside the image there is 0."""
    height, width, wide, stride = s[HEIGHT], s[WIDTH], s[COLUMNS], s[STRIDE_RIGHT]
    to = own
    for channel in range(s[CHANNELS]):
        for tap_down in range(s[KERNEL_HEIGHT]):
            for tap_right in range(s[KERNEL_WIDTH]):
                # Where this place of the kernel looks, seen from the window's own place.
                down = tap_down * s[DILATION_DOWN] - s[PADDING_TOP]
                right = tap_right * s[DILATION_RIGHT] - s[PADDING_LEFT]
                left = first_window(right, stride)
                beyond = windows_end(right, stride, left, wide, width)
                for row in range(rows):
                    y = (top + row) * s[STRIDE_DOWN] + down
                    origin = begin + (channel * height + y) * width + right
                    seen = beyond if y >= 0 and y < height else left
                    if stride == 1:
                        strip(x, origin, left, seen, columns, to, wide)
                    else:
                        for i in range(least(left, wide)):
                            columns[to + i] = 0.0
                        for i in range(left, seen):
                            columns[to + i] = x[origin + i * stride]
                        for i in range(seen, wide):
                            columns[to + i] = 0.0
                    to = to + wide


def fold(x: Array, begin: int, columns: Array, own: int, top: int, rows: int, s: Indices) -> None:
    """Add the columns of `rows` rows of the result to the elements they came from."""
    height, width, wide, stride = s[HEIGHT], s[WIDTH], s[COLUMNS], s[STRIDE_RIGHT]
    to = own
    for channel in range(s[CHANNELS]):
        for tap_down in range(s[KERNEL_HEIGHT]):
            for tap_right in range(s[KERNEL_WIDTH]):
                down = tap_down * s[DILATION_DOWN] - s[PADDING_TOP]
                right = tap_right * s[DILATION_RIGHT] - s[PADDING_LEFT]
                left = first_window(right, stride)
                beyond = windows_end(right, stride, left, wide, width)
                for row in range(rows):
                    y = (top + row) * s[STRIDE_DOWN] + down
                    if y >= 0 and y < height:
                        origin = begin + (channel * height + y) * width + right
                        if stride == 1:
                            for i in range(left, beyond):
                                x[origin + i] = x[origin + i] + columns[to + i]
                        else:
                            for i in range(left, beyond):
                                x[origin + i * stride] = x[origin + i * stride] + columns[to + i]
                    to = to + wide


@native
def convolve_loop(
    first: int, last: int, hand: int, x: Array, w: Array, bias: Array, y: Array, columns: Array, s: Indices,
    tiles: int, biased: int, space: int,
) -> None:  # fmt: skip
    """The convolution of images with a weight (outputs of a group, channels of a group x kernel) for each group."""
    taps = s[CHANNELS] * s[KERNEL_HEIGHT] * s[KERNEL_WIDTH]
    places = s[ROWS] * s[COLUMNS]
    for unit in range(first, last):
        part = unit // tiles
        top = unit % tiles * s[TILE_ROWS]
        rows = least(s[TILE_ROWS], s[ROWS] - top)
        group = part % s[GROUPS]
        spread(x, part * s[CHANNELS] * s[HEIGHT] * s[WIDTH], columns, hand * space, top, rows, s)
        result = part * s[OUTPUTS] * places + top * s[COLUMNS]
        if biased:
            for o in range(s[OUTPUTS]):
                for i in range(result + o * places, result + o * places + rows * s[COLUMNS]):
                    y[i] = bias[group * s[OUTPUTS] + o]
        gemm(
            0, 0, s[OUTPUTS], rows * s[COLUMNS], taps, 1.0, w, group * s[OUTPUTS] * taps, taps,
            columns, hand * space, rows * s[COLUMNS], 1.0 if biased else 0.0, y, result, places,
        )  # fmt: skip


@native
def transposed_loop(
    first: int, last: int, hand: int, g: Array, w: Array, x: Array, columns: Array, s: Indices, tiles: int, space: int
) -> None:
    """The adjoint in the images: each element of g adds a kernel."""
    taps = s[CHANNELS] * s[KERNEL_HEIGHT] * s[KERNEL_WIDTH]
    places = s[ROWS] * s[COLUMNS]
    for part in range(first, last):
        begin = part * s[CHANNELS] * s[HEIGHT] * s[WIDTH]
        for i in range(begin, begin + s[CHANNELS] * s[HEIGHT] * s[WIDTH]):
            x[i] = 0.0
        for tile in range(tiles):
            top = tile * s[TILE_ROWS]
            rows = least(s[TILE_ROWS], s[ROWS] - top)
            gemm(
                1, 0, taps, rows * s[COLUMNS], s[OUTPUTS], 1.0, w, part % s[GROUPS] * s[OUTPUTS] * taps, taps,
                g, part * s[OUTPUTS] * places + top * s[COLUMNS], places, 0.0, columns, hand * space, rows * s[COLUMNS],
            )  # fmt: skip
            fold(x, begin, columns, hand * space, top, rows, s)


@native
def weight_loop(
    first: int, last: int, hand: int, x: Array, g: Array, sums: Array, columns: Array, s: Indices,
    tiles: int, space: int, images: int, step: int,
) -> None:  # fmt: skip
    """The adjoint in the weight: for each chunk of the images, what the columns have in common with g.

    A product turns its second matrix before it begins, and g is smaller than the columns.
    """
    taps = s[CHANNELS] * s[KERNEL_HEIGHT] * s[KERNEL_WIDTH]
    places = s[ROWS] * s[COLUMNS]
    for chunk in range(first, last):
        for part in range(chunk * step * s[GROUPS], least(images, (chunk + 1) * step) * s[GROUPS]):
            for tile in range(tiles):
                top = tile * s[TILE_ROWS]
                rows = least(s[TILE_ROWS], s[ROWS] - top)
                spread(x, part * s[CHANNELS] * s[HEIGHT] * s[WIDTH], columns, hand * space, top, rows, s)
                gemm(
                    0, 1, taps, s[OUTPUTS], rows * s[COLUMNS], 1.0, columns, hand * space, rows * s[COLUMNS],
                    g, part * s[OUTPUTS] * places + top * s[COLUMNS], places,
                    1.0, sums, (chunk * s[GROUPS] + part % s[GROUPS]) * s[OUTPUTS] * taps, s[OUTPUTS],
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
    """Memory for the columns of a tile, for each hand; and how many elements each has: one may write beyond its own."""
    space = p.channels * p.kernel_height * p.kernel_width * p.tile * p.columns + APART
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
    sums = np.zeros((chunks, groups, math.prod(shape[1:]), shape[0] // groups), a.dtype)
    columns, space = _scratch(p, a.dtype)
    weight_loop(
        chunks, space * step, np.ascontiguousarray(a), np.ascontiguousarray(g), sums, columns, np.array(p),
        -(-p.rows // p.tile), space, len(a), step,
    )  # fmt: skip
    return np.ascontiguousarray(np.add.reduce(sums, 0).swapaxes(1, 2)).reshape(shape)
