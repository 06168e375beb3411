"""Memory formats: the order in which the dimensions of a tensor lie in memory, apart from that of its shape.

Of a batch of images (batch, channels, height, width), `channels_last` keeps the channels of each pixel side by side.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid import dtypes
from pellucid.ops.arguments import Shape, refusal

RANKS = {dtypes.channels_last: 4, dtypes.channels_last_3d: 5}


def check_format(memory_format: Any, rank: int) -> bool:
    """Whether a format moves dimensions; one that cannot move these is refused.

    >>> check_format(dtypes.channels_last, 4), check_format(dtypes.contiguous_format, 4)
    (True, False)
    """
    needed = RANKS.get(memory_format)
    if needed not in (None, rank):
        name = "channels_last" if needed == 4 else "channels_last_3d"
        raise refusal(RuntimeError, f"required rank {needed} tensor to use {name} format", f"it has {rank} dimensions")
    return needed is not None


def order_of(rank: int) -> list[int]:
    """The dimensions as they lie in memory with the channels last.

    >>> order_of(4)
    [0, 2, 3, 1]
    """
    return [0, *range(2, rank), 1]


def shape_order(rank: int) -> list[int]:
    """The way back: where in memory each dimension lies."""
    return [0, rank - 1, *range(1, rank - 1)]


def settled(y: Any) -> Any:
    """A result in the order of its shape: NumPy keeps the order of its inputs where PyTorch makes a new one.

    A transposed tensor may not be viewed as a flat one, but its sum along a dimension, its softmax or what it was
    joined to may.

    >>> settled(np.zeros((3, 2)).T).flags.c_contiguous
    True
    """
    return y if y.flags.c_contiguous else np.ascontiguousarray(y)


def in_order(forward: Callable[..., Any]) -> Callable[..., Any]:
    """A forward whose result is settled."""

    @wraps(forward)
    def ordered(*args: Any) -> Any:
        return settled(forward(*args))

    return ordered


def channels_last_copy(a: ndarray) -> ndarray:
    """A copy whose channels lie last in memory; the shape stays.

    >>> channels_last_copy(np.zeros((2, 3, 4, 5), np.int8)).strides
    (60, 1, 15, 3)
    """
    return a.transpose(order_of(a.ndim)).copy("C").transpose(shape_order(a.ndim))


def is_channels_last(a: ndarray) -> bool:
    """Whether an array lies in memory with the channels last; a dimension of size 1 may lie anywhere."""
    return bool(a.transpose(order_of(a.ndim)).flags.c_contiguous)


def steps_channels_last(shape: Shape) -> tuple[int, ...]:
    """The strides, in elements, of a shape with the channels last.

    >>> steps_channels_last((2, 3, 4, 5))
    (60, 1, 15, 3)
    """
    steps, step = [0] * len(shape), 1
    for axis in reversed(order_of(len(shape))):
        steps[axis] = step
        step *= shape[axis]
    return tuple(steps)


def asks_channels_last(a: ndarray) -> bool:
    """Whether the strides of an array say that its channels lie last; where they say either, they do not.

    >>> asks_channels_last(channels_last_copy(np.zeros((2, 3, 4, 5)))), asks_channels_last(np.zeros((2, 3, 1, 1)))
    (True, False)
    """
    if a.ndim not in (4, 5):
        return False
    strides, least = a.strides, 0
    if strides[1] != a.itemsize or not a.size:  # by far the most frequent: out with one comparison
        return False
    for axis in (1, *range(a.ndim - 1, 1, -1), 0):
        if strides[axis] < least or (axis == 0 and least == strides[1]):
            return False
        least = strides[axis] * a.shape[axis]
    return True


def in_format(forward: Callable[..., Any], asked: int = 1) -> Callable[..., Any]:
    """A forward whose result has its channels last if one of its first inputs has: one, or two of a convolution."""

    @wraps(forward)
    def formatted(*args: Any) -> Any:
        y = forward(*args)
        for a in args[:asked]:
            if a.ndim == y.ndim and asks_channels_last(a):
                return channels_last_copy(y)
        return y

    return formatted
