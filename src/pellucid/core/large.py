"""Arithmetic of large arrays, shared among the cores: four operations that are nothing but passes over memory.

Where the loops do not fit (small arrays, shapes to broadcast, other types, no llvmlite) they are NumPy's, and for
tensors the table's own operations, so the rules of the table may use them too.
"""

from typing import Any

import numpy as np

from pellucid.native import Kernel, native
from pellucid.native.words import Array

ndarray = np.ndarray
LARGE = 1 << 18  # elements from which on two cores are faster than one; 65536 of them lie in a cache and are not


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
