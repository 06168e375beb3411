"""Arithmetic of large arrays, shared among the cores: four operations that are nothing but passes over memory.

Where the loops do not fit (small arrays, shapes to broadcast, other types, no llvmlite) they are NumPy's, and for
tensors the table's own operations, so the rules of the table may use them too.
"""

import math
from typing import Any

import numpy as np

from pellucid.native import Kernel, native, part_of
from pellucid.native.words import Array

ndarray = np.ndarray
LARGE = 1 << 18  # elements from which on two cores are faster than one; 65536 of them lie in a cache and are not
MANY_ROWS = 1 << 15  # elements of a matrix whose rows are added up


@native
def plus_loop(first: int, last: int, a: Array, b: Array, out: Array) -> None:
    """a + b."""
    for i in range(first, last):
        out[i] = a[i] + b[i]


@native
def minus_loop(first: int, last: int, a: Array, b: Array, out: Array) -> None:
    """a - b."""
    for i in range(first, last):
        out[i] = a[i] - b[i]


@native
def times_loop(first: int, last: int, a: Array, b: Array, out: Array) -> None:
    """a * b."""
    for i in range(first, last):
        out[i] = a[i] * b[i]


@native
def gather_loop(first: int, last: int, total: Array, more: Array) -> None:
    """total += more."""
    for i in range(first, last):
        total[i] = total[i] + more[i]


@native
def leading_sum_loop(first: int, last: int, a: Array, sums: Array, n: int, part: int) -> None:
    """The rows of each part of a matrix, added up in a line for each part."""
    line = first // part * n
    for row in range(first, last):
        for i in range(n):
            sums[line + i] = sums[line + i] + a[row * n + i]


def _shared(loop: Kernel, a: Any, b: Any) -> Any:
    """The result of a loop, or None where it does not fit."""
    if type(a) is not ndarray or type(b) is not ndarray or a.size < LARGE or a.shape != b.shape or not loop.fits(a, b):
        return None
    out = np.empty(a.shape, a.dtype)
    loop(a.size, 1, a, b, out)
    return out


def plus(a: Any, b: Any) -> Any:
    """a + b.

    >>> plus(np.ones(2), np.ones(2))
    array([2., 2.])
    """
    out = _shared(plus_loop, a, b)
    return a + b if out is None else out


def minus(a: Any, b: Any) -> Any:
    """a - b."""
    out = _shared(minus_loop, a, b)
    return a - b if out is None else out


def times(a: Any, b: Any) -> Any:
    """a * b."""
    out = _shared(times_loop, a, b)
    return a * b if out is None else out


def gather(total: ndarray, more: ndarray) -> None:
    """total += more."""
    if total.size >= LARGE and total.shape == more.shape and gather_loop.fits(total, more):
        gather_loop(total.size, 1, total, more)
    else:
        np.add(total, more, total)


def leading_sum(a: ndarray, count: int) -> ndarray:
    """The sum over the first axes: NumPy takes rows one by one, here each core has some of them.

    >>> leading_sum(np.ones((2, 3, 4)), 2)
    array([6., 6., 6., 6.])
    """
    shape = a.shape[count:]
    size = math.prod(shape)
    if a.size < MANY_ROWS or size < 8 or not leading_sum_loop.fits(a):
        return np.add.reduce(a, tuple(range(count)))  # type: ignore[no-any-return]
    rows, part = a.size // size, part_of(size)
    sums = np.zeros((-(-rows // part), *shape), a.dtype)
    leading_sum_loop(rows, size, a, sums, size, part)
    return sums[0] if len(sums) == 1 else np.add.reduce(sums, 0)  # type: ignore[no-any-return]
