"""Columns: what a kernel sees at every place, laid out for a matrix product (im2col), and their adjoint (col2im).

Windows over several dimensions are windows over one of them at a time, last to first: only the first, smallest step
copies short rows, each later one moves whole planes. A few images at a time keep the columns in the cache:
(64, 3, 32, 32) under 3x3 with padding takes 0.4 ms so, 0.5 ms if all places are copied at once, on one core.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from pellucid.ops.arguments import ALL, Shape
from pellucid.ops.nn.windows import Windows, overlap

Index = tuple[Any, ...]
CACHE = 2 << 20  # bytes of columns that are made before they are used; fewer cost more calls than they save
MOST = 16 << 20  # an image whose columns take more is worked through in slabs


class Piece(NamedTuple):
    """A few images (or a slab of one) to be worked on at once."""

    images: slice
    places: slice  # along the first dimension of the places
    elements: slice  # what these see along the first dimension of the images
    steps: "Steps"
    whole: bool  # whether these are all places


def pieces(
    windows: Windows, shape: Shape, images: slice, dtype: np.dtype, cache: int, beside: bool
) -> Iterator[Piece]:
    """Work through images of a shape, as many at a time as have their columns in the cache."""
    count, size = windows.sizes[0], shape[2]
    steps = Steps(windows, shape, dtype, beside)
    row = max(1, shape[1] * math.prod(windows.kernel) * math.prod(windows.sizes[1:]) * dtype.itemsize)
    if not steps.stages:  # nothing is copied, so there is no reason to stop
        yield Piece(images, slice(0, count), slice(0, size), steps, True)
    elif row * count <= MOST:
        for few in _few(images, cache // max(1, row * count)):
            yield Piece(few, slice(0, count), slice(0, size), steps, True)
    else:
        for places in _few(slice(0, count), cache // row):
            elements, slab = _slab(windows, size, places)
            steps = Steps(slab, (*shape[:2], elements.stop - elements.start, *shape[3:]), dtype, beside)
            for one in _few(images, 1):
                yield Piece(one, places, elements, steps, False)


def _few(whole: slice, many: int) -> Iterator[slice]:
    """A range in parts of at most so many (at least one)."""
    many = max(1, many)
    return (slice(begin, min(begin + many, whole.stop)) for begin in range(whole.start, whole.stop, many))


def _slab(windows: Windows, size: int, places: slice) -> tuple[slice, Windows]:
    """For some of the places along the first dimension: the elements that they see, and their windows over those."""
    stride, start = windows.stride[0], places.start * windows.stride[0] - windows.padding[0]
    begin = min(max(0, start), size)
    reach = (windows.kernel[0] - 1) * windows.dilation[0] + (places.stop - places.start - 1) * stride + 1
    end = max(begin, min(size, start + reach))
    sizes = (places.stop - places.start, *windows.sizes[1:])
    return slice(begin, end), windows._replace(padding=(begin - start, *windows.padding[1:]), sizes=sizes)


def _flat(x: ndarray, first: int) -> ndarray:
    """All axes from the first on as one."""
    return x.reshape(*x.shape[:first], math.prod(x.shape[first:]))


class Steps:
    """The columns of a few images, made one axis after the other; the arrays serve again for the next few.

    Between the steps an array is (images, channels, *positions in the windows, *places): a step turns an axis of
    places into an axis of positions, in front of the others, and the places of the windows. With `beside` the last
    of them lies in memory as (channels, *positions, images, *places): one matrix for all images.
    """

    def __init__(self, windows: Windows, shape: Shape, dtype: np.dtype, beside: bool = False) -> None:
        self.windows, self.dtype, self.beside = windows, dtype, beside
        self.stages: list[tuple[int, Shape]] = []  # axis, and the shape of an image after the step
        places = list(shape[2:])
        positions: Shape = ()
        for axis in reversed(range(windows.rank)):
            if not self._is_plain(axis, places[axis]):
                places[axis], positions = windows.sizes[axis], (windows.kernel[axis], *positions)
                self.stages.append((axis, (shape[1], *positions, *places)))
        self._arrays: list[ndarray] = []

    def _is_plain(self, axis: int, size: int) -> bool:
        """Whether the windows along an axis are its elements, so that there is nothing to do."""
        kernel, stride, padding, _, sizes = (field[axis] for field in self.windows)
        return kernel == stride == 1 and padding == 0 and sizes == size

    def arrays(self, images: int) -> list[ndarray]:
        """The arrays after each step. Zero at first: what lies outside an input is never written."""
        if not self._arrays or len(self._arrays[0]) != images:
            self._arrays = [np.zeros((images, *shape), self.dtype) for _, shape in self.stages]
            if self.beside and self.stages:
                shape = self.stages[-1][1]
                middle = len(shape) - self.windows.rank
                whole = np.zeros((*shape[:middle], images, *shape[middle:]), self.dtype)
                self._arrays[-1] = np.moveaxis(whole, middle, 0)
        return self._arrays

    def columns(self, x: ndarray) -> ndarray:
        """(images, channels, *sizes) to (images, channels, *kernel, *places), without plain axes of the kernel."""
        for (axis, _), out in zip(self.stages, self.arrays(len(x)), strict=True):
            if self._runs_on(axis, x):
                self._spread_rows(x, out)
            else:
                self._spread(x, out, axis)
            x = out
        return x

    def fold(self, out: ndarray) -> None:
        """The adjoint: add what stands in the last of the arrays to the elements it would be taken from."""
        *stages, columns = self.arrays(len(out))
        for (axis, _), x in zip(reversed(self.stages), reversed([out, *stages]), strict=True):
            x.fill(0)
            if self._runs_on(axis, x):
                self._gather_rows(columns, x)
            else:
                self._gather(columns, x, axis)
            columns = x

    def _positions(self, axis: int, size: int) -> Iterator[tuple[Index, Index]]:
        """For each position of the windows: the elements that stand there, and where they go among the columns."""
        behind = (ALL,) * (self.windows.rank - 1 - axis)
        for position in range(self.windows.kernel[axis]):
            places, elements = self.windows.part(axis, position, size)
            yield (..., elements, *behind), (ALL, ALL, position, ..., places, *behind)

    def _spread(self, x: ndarray, out: ndarray, axis: int) -> None:
        """One position of the windows after the other."""
        for source, goal in self._positions(axis, x.shape[axis - self.windows.rank]):
            out[goal] = x[source]

    def _gather(self, columns: ndarray, x: ndarray, axis: int) -> None:
        for source, goal in self._positions(axis, x.shape[axis - self.windows.rank]):
            x[source] += columns[goal]

    # --- rows that run on: all rows of an image are one long row, but for what wraps around at their ends

    def _runs_on(self, axis: int, x: ndarray) -> bool:
        """Whether the places of a row go on in the next row as if there were no rows."""
        windows = self.windows
        last = axis == windows.rank - 1 > 0
        return last and x.shape[-1] == windows.stride[-1] * windows.sizes[-1] and x.flags.c_contiguous

    def _row_part(self, position: int, rows: ndarray, long: ndarray) -> tuple[slice, slice]:
        offset = position * self.windows.dilation[-1] - self.windows.padding[-1]
        return overlap(offset, self.windows.stride[-1], rows.shape[-1], long.shape[-1])

    def _clear_ends(self, columns: ndarray, position: int, size: int) -> None:
        """Zero where a place would see an element of a neighbouring row."""
        inside, _ = self.windows.part(self.windows.rank - 1, position, size)
        columns[:, :, position, ..., : inside.start] = 0
        columns[:, :, position, ..., inside.stop :] = 0

    def _spread_rows(self, x: ndarray, out: ndarray) -> None:
        long, rows = _flat(x, 2), _flat(out, 3)
        for position in range(self.windows.kernel[-1]):
            places, elements = self._row_part(position, rows, long)
            rows[:, :, position, places] = long[:, :, elements]
            self._clear_ends(out, position, x.shape[-1])

    def _gather_rows(self, columns: ndarray, x: ndarray) -> None:
        long, rows = _flat(x, 2), _flat(columns, 3)
        for position in range(self.windows.kernel[-1]):
            self._clear_ends(columns, position, x.shape[-1])
            places, elements = self._row_part(position, rows, long)
            long[:, :, elements] += rows[:, :, position, places]
