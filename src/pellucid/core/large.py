"""Arithmetic of large arrays, shared among the cores: operations that are nothing but passes over memory.

Where the loops do not fit (small arrays, shapes to broadcast, other types, no llvmlite) they are NumPy's, and for
tensors the table's own operations, so the rules of the table may use them too.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from pellucid.native import Kernel, native
from pellucid.native.words import Array, Indices, least, product

ndarray = np.ndarray
add_reduce: Any = np.add.reduce
LARGE = 1 << 16  # elements from which on two cores are faster than one
MANY_ROWS = 1 << 15  # elements of a matrix whose rows are added up
QUIET = 9216  # elements: OpenBLAS multiplies a smaller matrix by a vector on one thread
MANY_NUMBERS = 512  # elements whose sum along middle axes is worth a thought
BLOCK = 32  # rows that are added up one after the other: sums of blocks keep the digits that one long sum loses


@native
def copy_loop(first: int, last: int, a: Array, out: Array) -> None:
    """a."""
    for i in range(first, last):
        out[i] = a[i]


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
def gather_product_loop(first: int, last: int, total: Array, a: Array, b: Array) -> None:
    """total += a * b, to the bit what two passes give."""
    for i in range(first, last):
        total[i] = total[i] + product(a[i], b[i])


@native
def scale_loop(first: int, last: int, a: Array, b: Array) -> None:
    """a *= b."""
    for i in range(first, last):
        a[i] = a[i] * b[i]


@native
def leading_sum_loop(first: int, last: int, a: Array, sums: Array, n: int, rows: int) -> None:
    """The rows of each block of a matrix, added up in a line for each block."""
    for row in range(first * BLOCK, least(rows, last * BLOCK)):
        line = row // BLOCK * n
        for i in range(n):
            sums[line + i] = sums[line + i] + a[row * n + i]


@native
def word_sums_loop(
    first: int, last: int, precision: Array, words: Indices, sums: Indices, count: int, n: int, block: int
) -> None:
    """Lines of n words, added up in a line for each block of so many lines."""
    for part in range(first, last):
        for i in range(n):
            sums[part * n + i] = 0
        for begin in range(part * block * n, least(count, (part + 1) * block * n), n):
            for i in range(least(n, count - begin)):
                sums[part * n + i] = sums[part * n + i] + words[begin + i]


def _shared(loop: Kernel, a: Any, b: Any) -> Any:
    """The result of a loop, or None where it does not fit."""
    if type(a) is not ndarray or type(b) is not ndarray or a.size < LARGE or a.shape != b.shape or not loop.fits(a, b):
        return None
    out = np.empty(a.shape, a.dtype)
    loop.evenly(a.size, a, b, out)
    return out


def copied(a: ndarray) -> ndarray:
    """A copy in C order.

    >>> copied(np.ones((2, 2)).T)
    array([[1., 1.],
           [1., 1.]])
    """
    if a.size < LARGE or not copy_loop.fits(a):
        return a.copy()
    out = np.empty(a.shape, a.dtype)
    copy_loop.evenly(a.size, a, out)
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


def products(g: Any, factors: Sequence[Any], totals: Sequence[ndarray | None], free: bool) -> list[Any]:
    """g times each factor: added to a total where there is one (and None then), the last in g's memory if it is free.

    A chain of 21 products and sums of 1024x1024 walks back in 4.8 ms so, in 8 to 9 with an array for each product.

    >>> total = np.ones(2)
    >>> products(np.array([2.0, 3.0]), [np.array([5.0, 5.0]), np.array([1.0, 2.0])], [None, total], free=False), total
    ([array([10., 15.]), None], array([3., 7.]))
    """
    results: list[Any] = [None] * len(factors)
    waiting = [
        i for i, factor in enumerate(factors) if factor is not None and not _gathered_product(totals[i], g, factor)
    ]
    for i in waiting:
        last = free and i == waiting[-1]
        results[i] = _changed(scale_loop, np.multiply, g, factors[i]) if last else times(g, factors[i])
    return results


def _gathered_product(total: Any, a: Any, b: Any) -> bool:
    """total += a * b, where the loop fits."""
    if type(total) is not ndarray or type(a) is not ndarray or not total.shape == a.shape == b.shape:
        return False
    if not gather_product_loop.fits(total, a, b):
        return False
    gather_product_loop.evenly(a.size, total, a, b)
    return True


def _changed(loop: Kernel, ufunc: np.ufunc, a: ndarray, b: ndarray) -> ndarray:
    """What becomes of a, in its own memory."""
    if a.size >= LARGE and a.shape == b.shape and loop.fits(a, b):
        loop.evenly(a.size, a, b)
    else:
        ufunc(a, b, a)
    return a


def gather(total: ndarray, more: ndarray) -> None:
    """total += more."""
    _changed(gather_loop, np.add, total, more)


@lru_cache(maxsize=64)
def ones(size: int, dtype: np.dtype) -> ndarray:
    """A vector of ones: rows are summed by their inner product with it, twice as fast as by np.add.reduce."""
    vector = np.ones(size, dtype)
    vector.flags.writeable = False
    return vector


def row_sum(a: ndarray) -> ndarray:
    """The sum over the last axis but one, in blocks: NumPy adds row by row, and 4096 rows cost it the last three bits.

    >>> row_sum(np.ones((2, 3, 4)))
    array([[3., 3., 3., 3.],
           [3., 3., 3., 3.]])
    """
    *leading, rows, size = a.shape
    if not leading and a.size < QUIET:
        if rows <= 4 * BLOCK:  # BLAS adds up four rows at a time
            return _added(a)
    elif rows <= 8 * BLOCK:
        total = _added(a[..., :BLOCK, :])
        for begin in range(BLOCK, rows, BLOCK):
            total += _added(a[..., begin : begin + BLOCK, :])
        return total
    blocks, rest = divmod(rows, BLOCK)
    side_by_side = a[..., : rows - rest, :].reshape(*leading, blocks, BLOCK * size)
    total = _added(row_sum(side_by_side).reshape(*leading, BLOCK, size))
    return total + _added(a[..., rows - rest :, :]) if rest else total


def _added(a: ndarray) -> ndarray:
    """Row by row; a small matrix by its product with ones (128 rows of 32: 1.2 µs, by NumPy's sum 4 to 6)."""
    if a.ndim == 2 and a.size < QUIET and a.dtype.char in "fd":
        return ones(len(a), a.dtype).dot(a)  # type: ignore[no-any-return]
    return add_reduce(a, -2)  # type: ignore[no-any-return]


def is_half(dtype: np.dtype) -> bool:
    """Whether numbers have so few digits that they are added up in float32: from 256 on, bfloat16 takes no more ones.

    >>> is_half(np.dtype(np.float16)), is_half(np.dtype(np.int16))
    (True, False)
    """
    return dtype.itemsize == 2 and dtype.kind in "fV"


def leading_sum(a: ndarray, count: int) -> ndarray:
    """The sum over the first axes, of large arrays with some of the rows for each core.

    >>> leading_sum(np.ones((2, 3, 4)), 2)
    array([6., 6., 6., 6.])
    """
    shape = a.shape[count:]
    size = math.prod(shape)
    if not shape or not size or a.dtype.char not in "fdFD" or not a.flags.c_contiguous:
        if is_half(a.dtype):
            return leading_sum(a.astype(np.float32), count).astype(a.dtype)
        return add_reduce(a, tuple(range(count)))  # type: ignore[no-any-return]
    if a.dtype.kind == "c":  # both parts side by side
        return leading_sum(a.view(a.real.dtype), count).view(a.dtype)
    rows = a.size // size
    if a.size < MANY_ROWS or size * BLOCK < QUIET or not leading_sum_loop.fits(a):
        sums = row_sum(a.reshape(rows, size))
        return sums if sums.shape == shape else sums.reshape(shape)  # a view would be copied before it is a leaf's
    blocks = -(-rows // BLOCK)
    sums = np.zeros((blocks, size), a.dtype)
    leading_sum_loop(blocks, size * BLOCK, a, sums, size, rows)
    sums = row_sum(sums)
    return sums if sums.shape == shape else sums.reshape(shape)


NO_PRECISION = np.empty(0)  # a kernel is compiled for a floating type, and this one has no use for any


def add_words(words: ndarray, block: int, sums: ndarray) -> None:
    """The words of a flat int64 array in lines, added up in a row of `sums` for each block of so many lines.

    >>> sums = np.empty((2, 2), np.int64)
    >>> add_words(np.arange(7), 2, sums)
    >>> sums
    array([[ 2,  4],
           [10,  5]])
    """
    blocks, n = sums.shape
    if words.size >= MANY_ROWS and word_sums_loop.available(NO_PRECISION.dtype):
        word_sums_loop.evenly(blocks, NO_PRECISION, words, sums, words.size, n, block)
        return
    for i in range(blocks):
        part = words[i * block * n : (i + 1) * block * n]
        lines, rest = divmod(part.size, n)
        add_reduce(part[: lines * n].reshape(lines, n), 0, None, sums[i])
        sums[i, :rest] += part[lines * n :]


def added_up(a: ndarray, axes: tuple[int, ...], keepdim: bool = False) -> Any:
    """The sum of an array along axes, in blocks whatever its layout: NumPy does that along the innermost axis only.

    >>> rows = np.full((2000, 50), 0.1, np.float32)
    >>> print(f"{added_up(rows, (0,))[0]:.3f} {np.add.reduce(rows, 0)[0]:.3f}")
    200.000 200.003
    """
    if not axes or a.ndim == 1 or a.dtype.char not in "fdFD":
        if is_half(a.dtype):
            return np.asarray(added_up(a.astype(np.float32), axes, keepdim)).astype(a.dtype)
        return add_reduce(a, axes, None, None, keepdim)
    count = len(axes)
    if a.flags.c_contiguous:
        if axes == tuple(range(a.ndim - count, a.ndim)):
            return add_reduce(a, axes, None, None, keepdim)
        if axes == tuple(range(count)):
            total = leading_sum(a, count)
            return total.reshape((1,) * count + total.shape) if keepdim else total
    if a.size < MANY_NUMBERS:
        return add_reduce(a, axes, None, None, keepdim)
    total = _in_steps(a, axes)
    return total.reshape([1 if i in axes else n for i, n in enumerate(a.shape)]) if keepdim else total


def _rows_added(a: ndarray) -> ndarray:
    return leading_sum(a, 1) if a.ndim == 2 and a.flags.c_contiguous else row_sum(a)


def _in_steps(a: ndarray, axes: tuple[int, ...]) -> ndarray:
    """The sum along axes, first those that lie innermost in memory: NumPy adds these in blocks, `row_sum` the others.

    >>> _in_steps(np.ones((2, 3, 4)).transpose(2, 0, 1), (0, 1))
    array([8., 8., 8.])
    """
    left = sorted(range(a.ndim), key=lambda i: -abs(a.strides[i]) if a.shape[i] > 1 else -math.inf)  # as in memory
    a = a.transpose(left)
    while gone := [i for i, axis in enumerate(left) if axis in axes]:
        end = gone[-1] + 1
        begin = end - 1
        while begin - 1 in gone and a.strides[begin - 1] == a.shape[begin] * a.strides[begin]:
            begin -= 1  # side by side in memory: one axis
        outer, inner = a.shape[:begin], a.shape[end:]
        if math.prod(inner) != 1:
            a = _rows_added(a.reshape(*outer, -1, math.prod(inner))).reshape(outer + inner)
        else:
            if math.prod(a.shape[i] for i in gone if i < begin) <= BLOCK:  # so few may be added one after the other
                begin, end = 0, a.ndim
            a = add_reduce(a, tuple(i for i in gone if begin <= i < end))
        left = [axis for i, axis in enumerate(left) if not (begin <= i < end and i in gone)]
    return a.transpose([left.index(axis) for axis in sorted(left)])
