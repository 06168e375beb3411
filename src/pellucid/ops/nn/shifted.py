"""Convolution of planes by shifted products: columns are made along the rows only, and rows are found by their place.

With columns over both dimensions (columns.py) a kernel of 3 x 3 copies every element nine times. Here each is copied
three times, for the three positions along a row; what a position along the other dimension sees is then the same
memory, begun some rows later, and its product with the weights of that position is added to the others'. So 16 images
of 16 channels, 32 x 32, under 3 x 3 take 1.9 ms on one core instead of 2.3.

Rows that are a stride apart lie together (`phases`), so that they too are one stretch of memory.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core.primitive import add_up
from pellucid.ops.arguments import Shape
from pellucid.ops.nn.windows import Windows, overlap
from pellucid.ops.nn.workers import HANDS, in_parts

SINGLE = 1 << 19  # OpenBLAS does a product of fewer multiplications on one thread
ROOM = 2 << 20  # bytes of rows that are made before they are used: half of it costs 10 % more in calls
MOST = 1 << 22  # elements: columns work through larger images in slabs
LEAST = 8  # a shorter inner dimension (one channel) makes slow products: then columns are as good


def fits(windows: Windows, channels: int, outputs: int, groups: int) -> bool:
    """Whether to go this way: windows over planes, several rows high, whose products the BLAS leaves to our threads."""
    if windows.rank != 2 or windows.kernel[0] == 1 or not groups:
        return False
    inner = channels // groups * windows.kernel[1]
    if channels * windows.kernel[1] * math.prod(windows.sizes) * windows.stride[0] > MOST:
        return False
    return inner >= LEAST and outputs // groups * inner * windows.sizes[1] < SINGLE


class Rows:
    """What the windows see along rows, of a few images: (images, channels, positions, phases, rows, places)."""

    def __init__(self, windows: Windows, shape: Shape, dtype: np.dtype, groups: int, outputs: int) -> None:
        self.windows, self.shape, self.groups = windows, shape, groups
        self.inner = shape[1] // groups * windows.kernel[1]
        stride = windows.stride[0]
        reach = (windows.kernel[0] - 1) * windows.dilation[0]
        self.high = reach // stride + windows.sizes[0]
        one = (shape[1], windows.kernel[1], min(stride, reach + 1), self.high, windows.sizes[1])
        self.many = max(1, ROOM // max(1, math.prod(one) * dtype.itemsize))
        self.images = max(1, min(self.many, shape[0]))
        self.array = np.zeros((self.images, *one), dtype)  # what lies outside an image is never written
        room = max(1, SINGLE // max(1, outputs // groups * self.inner * windows.sizes[1]))
        self.step = windows.sizes[0] if HANDS == 1 else room  # uncut where nobody shares: 5 to 15 % faster

    def few(self, images: slice) -> Iterator[slice]:
        """As many images at a time as there is room for."""
        return (slice(i, min(i + self.images, images.stop)) for i in range(images.start, images.stop, self.images))

    def parts(self) -> Iterator[tuple[int, int]]:
        """So many rows of places at a time that a product runs on one thread."""
        high = self.windows.sizes[0]
        return ((begin, min(begin + self.step, high)) for begin in range(0, high, self.step))

    def seen(self, images: int, position: int, begin: int, end: int) -> ndarray:
        """What places in some rows see at a position along the first dimension: (images, groups, inner, places)."""
        row, phase = divmod(position * self.windows.dilation[0], self.windows.stride[0])
        wide = self.windows.sizes[1]
        stretches = self.array[:images].reshape(images, self.groups, self.inner, -1, self.high * wide)
        return stretches[:, :, :, phase, (row + begin) * wide : (row + end) * wide]

    def lines(self) -> Iterator[tuple[Any, Any]]:
        """For each position along a row and each phase: the elements of the images, and where they go."""
        windows, (_, _, height, width) = self.windows, self.shape
        for phase in range(self.array.shape[3]):
            rows, ys = overlap(phase - windows.padding[0], windows.stride[0], self.high, height)
            for position in range(windows.kernel[1]):
                places, xs = windows.part(1, position, width)
                yield (..., ys, xs), (slice(None), slice(None), position, phase, rows, places)

    def spread(self, x: ndarray) -> None:
        """Fill in some images."""
        if self.windows.stride == (1, 1) and self.windows.sizes[1] == x.shape[3] and x.flags.c_contiguous:
            return self._spread_long(x)
        for source, goal in self.lines():
            self.array[: len(x)][goal] = x[source]

    def _spread_long(self, x: ndarray) -> None:
        """All rows of a plane as one, which is copied faster; what runs over into the next row is cleared."""
        windows, (_, _, height, width) = self.windows, self.shape
        long = self.array[: len(x)].reshape(*self.array[: len(x)].shape[:3], self.high * width)
        plane = x.reshape(*x.shape[:2], height * width)
        for position in range(windows.kernel[1]):
            offset = position * windows.dilation[1] - windows.padding[1]
            goal, source = overlap(offset - windows.padding[0] * width, 1, self.high * width, height * width)
            long[:, :, position, goal] = plane[:, :, source]
            inside, _ = windows.part(1, position, width)
            lines = self.array[: len(x), :, position]
            if inside.start:
                lines[..., : inside.start] = 0
            if inside.stop < width:
                lines[..., inside.stop :] = 0

    def fold(self, out: ndarray) -> None:
        """The adjoint of `spread`: add up what belongs to each element."""
        out.fill(0)
        for source, goal in self.lines():
            out[source] += self.array[: len(out)][goal]


def _by_position(b: ndarray, groups: int) -> ndarray:
    """A weight (outputs, channels / groups, *kernel) as matrices (positions, groups, outputs, inner)."""
    high, wide = b.shape[2:]
    apart = b.reshape(groups, len(b) // groups, b.shape[1], high, wide).transpose(3, 0, 1, 2, 4)
    return apart.reshape(high, groups, len(b) // groups, b.shape[1] * wide)


def _places(y: ndarray, groups: int) -> ndarray:
    """(images, outputs, *sizes) as (images, groups, outputs, places)."""
    return y.reshape(len(y), groups, y.shape[1] // groups, y.shape[2] * y.shape[3])


def _microseconds(windows: Windows, images: int, channels: int, outputs: int, groups: int) -> float:
    """About how long a kernel takes on one core."""
    columns = channels * math.prod(windows.kernel) * math.prod(windows.sizes)
    return images * columns * (0.0001 + 0.00003 * (outputs // groups))


def convolve(a: ndarray, b: ndarray, bias: ndarray | None, windows: Windows, groups: int) -> ndarray:
    """(images, channels, *sizes) with a weight (outputs, channels / groups, *kernel)."""
    y = np.empty((len(a), len(b), *windows.sizes), a.dtype)
    weights, results, wide = _by_position(b, groups), _places(y, groups), windows.sizes[1]

    def work(images: slice) -> None:
        rows = Rows(windows, (images.stop - images.start, *a.shape[1:]), a.dtype, groups, len(b))
        for few in rows.few(images):
            rows.spread(a[few])
            for begin, end in rows.parts():
                goal = results[few, :, :, begin * wide : end * wide]
                np.matmul(weights[0], rows.seen(len(goal), 0, begin, end), goal)
                for position in range(1, windows.kernel[0]):
                    goal += np.matmul(weights[position], rows.seen(len(goal), position, begin, end))
            if bias is not None:
                y[few] += bias.reshape(-1, 1, 1)

    in_parts(work, len(a), _microseconds(windows, len(a), a.shape[1], len(b), groups))
    return y


def with_weight(a: ndarray, g: ndarray, windows: Windows, groups: int) -> ndarray:
    """The adjoint in the weight: what `g`, the size of the result, has in common with what the windows see."""
    outputs, wide, given = g.shape[1], windows.sizes[1], _places(g, groups)
    shape = (windows.kernel[0], groups, outputs // groups, a.shape[1] // groups * windows.kernel[1])

    def work(images: slice) -> ndarray:
        total = np.zeros(shape, a.dtype)
        rows = Rows(windows, (images.stop - images.start, *a.shape[1:]), a.dtype, groups, outputs)
        for few in rows.few(images):
            rows.spread(a[few])
            for begin, end in rows.parts():
                part = given[few, :, :, begin * wide : end * wide]
                for position in range(windows.kernel[0]):
                    seen = rows.seen(len(part), position, begin, end)
                    total[position] += np.add.reduce(np.matmul(part, seen.swapaxes(-1, -2)), 0)
        return total

    sums = in_parts(work, len(a), _microseconds(windows, len(a), a.shape[1], outputs, groups))
    total = add_up(sums).reshape(*shape[:3], a.shape[1] // groups, windows.kernel[1])
    return total.transpose(1, 2, 3, 0, 4).reshape(outputs, a.shape[1] // groups, *windows.kernel)  # type: ignore[no-any-return]


def transposed(g: ndarray, b: ndarray, windows: Windows, groups: int, sizes: Shape) -> ndarray:
    """The adjoint in the input, which has these sizes: each element of `g` adds a kernel."""
    x = np.empty((len(g), b.shape[1] * groups, *sizes), g.dtype)
    weights, given, wide = _by_position(b, groups).swapaxes(-1, -2), _places(g, groups), windows.sizes[1]

    def work(images: slice) -> None:
        rows = Rows(windows, (images.stop - images.start, *x.shape[1:]), g.dtype, groups, len(b))
        for few in rows.few(images):
            rows.array.fill(0)
            for begin, end in rows.parts():
                part = given[few, :, :, begin * wide : end * wide]
                for position in range(windows.kernel[0]):
                    seen = rows.seen(len(part), position, begin, end)
                    seen += np.matmul(weights[position], part)
            rows.fold(x[few])

    in_parts(work, len(g), 2 * _microseconds(windows, len(g), x.shape[1], len(b), groups))
    return x
