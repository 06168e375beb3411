"""Sizes: the lengths of a tensor's dimensions."""

import math
import operator
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, SupportsIndex, overload

__all__ = ["Size", "trusted_size"]


class Size(tuple[int, ...]):
    """The lengths of a tensor's dimensions: a tuple of ints that stays a Size when cut or joined.

    >>> Size([2, 3]), Size([2, 3]).numel(), Size([2, 3])[1:] + (4,)
    (torch.Size([2, 3]), 6, torch.Size([3, 4]))
    """

    __slots__ = ()

    def __new__(cls, lengths: Iterable[SupportsIndex] = ()) -> "Size":
        return super().__new__(cls, map(_as_length, lengths, count()))

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    def __reduce__(self) -> tuple[Callable[..., "Size"], tuple[tuple[int, ...]]]:
        return (_made, (tuple(self),))

    def numel(self) -> int:
        """Return how many elements a tensor of this size has.

        >>> Size([]).numel(), Size([2, 0]).numel()
        (1, 0)
        """
        return math.prod(self)

    @overload
    def __getitem__(self, key: SupportsIndex) -> int: ...

    @overload
    def __getitem__(self, key: slice) -> "Size": ...

    def __getitem__(self, key: SupportsIndex | slice) -> "int | Size":
        found = super().__getitem__(key)
        return found if isinstance(found, int) else trusted_size(found)

    def __add__(self, other: tuple[Any, ...]) -> "Size":
        if not isinstance(other, tuple):
            raise TypeError(f"can only concatenate tuple (not {type(other).__name__}) to torch.Size")
        return Size(tuple(self) + tuple(other))

    def __radd__(self, other: tuple[Any, ...]) -> "Size":
        if not isinstance(other, tuple):
            raise TypeError(f"can only concatenate tuple (not {type(other).__name__}) to torch.Size")
        return Size(tuple(other) + tuple(self))

    def __mul__(self, times: SupportsIndex) -> "Size":
        return trusted_size(super().__mul__(times))

    def __rmul__(self, times: SupportsIndex) -> "Size":
        return trusted_size(super().__mul__(times))


def _made(lengths: tuple[int, ...]) -> Size:
    """A pickled size: a function is found whatever module the class says it is from."""
    return Size(lengths)


def _as_length(length: SupportsIndex, position: int) -> int:
    """Return one length as an int, or say which one is not."""
    try:
        return operator.index(length) + 0  # the sum makes True the int 1
    except TypeError:
        kind = type(length).__name__
        raise TypeError(f"torch.Size() takes an iterable of 'int' (item {position} is '{kind}')") from None


def trusted_size(lengths: tuple[int, ...]) -> Size:
    """Return a Size without checking the lengths: for `array.shape`, which NumPy has checked.

    >>> trusted_size((2, 3))
    torch.Size([2, 3])
    """
    return tuple.__new__(Size, lengths)
