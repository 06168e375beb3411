"""The windows of pooling: how many there are along each dimension, and which elements each of them sees."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from pellucid.ops.arguments import Shape, as_int, expect, refusal


class Windows(NamedTuple):
    """Windows over the last dimensions of a tensor, each field with one number per dimension."""

    kernel: Shape
    stride: Shape
    padding: Shape
    dilation: Shape
    sizes: Shape  # how many windows there are

    @property
    def rank(self) -> int:
        return len(self.kernel)

    def part(self, axis: int, position: int, size: int) -> tuple[slice, slice]:
        """Which windows have an element at this position of theirs, and which elements of the input these are."""
        offset = position * self.dilation[axis] - self.padding[axis]
        return overlap(offset, self.stride[axis], self.sizes[axis], size)

    def empty(self, plane: Shape) -> ndarray:
        """Which windows have no element at all: a dilated one may step over a small input."""
        seen = np.ones((1,) * self.rank, np.bool_)
        for axis, size in enumerate(plane):
            along = np.zeros(self.sizes[axis], np.bool_)
            for position in range(self.kernel[axis]):
                along[self.part(axis, position, size)[0]] = True
            seen = seen & along.reshape(-1, *(1,) * (self.rank - 1 - axis))
        return ~seen


def overlap(offset: int, stride: int, count: int, size: int) -> tuple[slice, slice]:
    """Of the places offset, offset + stride, ... (count of them): which lie within a size, and where.

    >>> overlap(-1, 2, 2, 4)
    (slice(1, 2, None), slice(1, 2, 2))
    """
    begin = max(0, -(offset // stride))
    end = max(begin, min(count, (size - 1 - offset) // stride + 1))
    start = begin * stride + offset
    return slice(begin, end), slice(start, start + (end - begin - 1) * stride + 1 if end > begin else start, stride)


def last(*index: Any) -> tuple[Any, ...]:
    """An index of the last dimensions."""
    return (..., *index)


@lru_cache(maxsize=256)
def uneven_places(size: int, count: int) -> ndarray:
    """A size covered by a count of windows as even as can be: their first places, their second places, ...

    A window that has no further place repeats its last one.

    >>> uneven_places(5, 2)
    array([[0, 2],
           [1, 3],
           [2, 4]])
    """
    start, end = uneven_edges(size, count)
    longest = int((end - start).max(initial=1))
    return np.minimum(start + np.arange(longest)[:, None], end - 1)


def uneven_edges(size: int, count: int) -> tuple[ndarray, ndarray]:
    """Where the windows of adaptive pooling begin and end."""
    number = np.arange(count)
    return number * size // max(count, 1), -(-(number + 1) * size // max(count, 1))


def numbers(name: str, what: str, value: Any, rank: int) -> Shape:
    """A number per dimension: one int for all, or a sequence of one or of `rank` ints.

    >>> numbers("max_pool2d", "kernel_size", 3, 2)
    (3, 3)
    """
    given = tuple(map(as_int, value)) if isinstance(value, (tuple, list)) else (as_int(value),)
    if len(given) not in (1, rank):
        wanted = "an int" if rank == 1 else f"a single int, or a tuple of {rank} ints"
        raise refusal(RuntimeError, f"{name}: {what} must either be {wanted}, got {list(given)}")
    return given * rank if len(given) == 1 else given


def check_rank(name: str, input: Any, rank: int) -> None:
    """Refuse all but (channels, *spatial) and (batch, channels, *spatial); only the batch may be empty."""
    shape = tuple(input.shape)
    fits = len(shape) in (rank + 1, rank + 2) and 0 not in shape[-rank - 1 :]
    text = f"{name}: Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with optional 0 dim batch size for input"
    expect(fits, f"{text}, but got: {list(shape)}")


def windows_of(
    name: str, input: Any, rank: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Windows:
    """The windows that a call of a pooling function asks for, checked."""
    kernel = numbers(name, "kernel_size", kernel_size, rank)
    missing = stride is None or (isinstance(stride, (tuple, list)) and not stride)
    strides = kernel if missing else numbers(name, "stride", stride, rank)
    paddings, dilations = numbers(name, "padding", padding, rank), numbers(name, "dilation", dilation, rank)
    (_check_line if name == "max_pool1d" else _check_plane)(name, kernel, strides, paddings, dilations)
    check_rank(name, input, rank)
    columns = zip(input.shape[-rank:], kernel, strides, paddings, dilations, strict=True)
    sizes = tuple(_count(n, k, s, p, d, ceil_mode) for n, k, s, p, d in columns)
    if min(sizes) < 1:
        channels = input.shape[-rank - 1]
        before, after = ("x".join(map(str, (channels, *sizes))) for sizes in (tuple(input.shape[-rank:]), sizes))
        what = f"{name}: Given input size: ({before}). Calculated output size: ({after}). Output size is too small"
        raise refusal(RuntimeError, what, "a window is larger than the input", "a smaller kernel_size, or padding")
    return Windows(kernel, strides, paddings, dilations, sizes)


def _check_line(name: str, kernel: Any, strides: Any, paddings: Any, dilations: Any) -> None:
    """PyTorch's max_pool1d has words of its own."""
    for what, (value,) in (("kernel_size", kernel), ("stride", strides), ("dilation", dilations)):
        expect(value > 0, f"{name}() {what} must be greater than zero, but got {value}")
    expect(paddings[0] >= 0, f"{name}() padding must be non-negative, but got {paddings[0]}")
    what = f"{name}() padding should be at most half of kernel size, but got padding={paddings[0]}"
    expect(paddings[0] <= ((kernel[0] - 1) * dilations[0] + 1) // 2, f"{what} and kernel_size={kernel[0]}")


def _check_plane(name: str, kernel: Any, strides: Any, paddings: Any, dilations: Any) -> None:
    for what, values in (("kernel size", kernel), ("stride", strides), ("dilation", dilations)):
        expect(min(values) > 0, f"{name}: {what} should be greater than zero, but got {list(values)}")
    for p, k, d in zip(paddings, kernel, dilations, strict=True):
        expect(p >= 0, f"{name}: pad must be non-negative, but got pad: {p}")
        if p > (k if len(kernel) > 1 else (k - 1) * d + 1) // 2:
            what = f"{name}: pad should be at most half of effective kernel size, but got pad={p}"
            raise refusal(RuntimeError, f"{what}, kernel_size={k} and dilation={d}")


def _count(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """How many windows fit along a dimension; with ceil_mode the last may reach beyond the end, but begins inside."""
    extent = (kernel - 1) * dilation + 1
    count = (size + 2 * padding - extent + (stride - 1 if ceil_mode else 0)) // stride + 1
    return count - 1 if ceil_mode and (count - 1) * stride >= size + padding else count
