"""Matrix products shared among the cores: each takes some rows, or some columns, by a product of its own.

NumPy's BLAS has threads too, but they and those of our kernels would wait for the same cores: between two kernels a
product of 512x64 by 64x256 takes 110 µs here and 140 to 400 there.
"""

from typing import Any

import numpy as np

from pellucid.native import hands, native, products, words
from pellucid.native.words import Array

WORTH = 1 << 18  # multiplications from which on NumPy's BLAS would wake its threads
SHARED = 1 << 20  # multiplications from which on the cores share the work


@native
def gemm_loop(
    first: int, last: int, a: Array, b: Array, c: Array, bias: Array,
    across_a: int, across_b: int, m: int, n: int, k: int, step: int, by_rows: int, biased: int, calm: int,
) -> None:  # fmt: skip
    """`c = a b`, or `a b + bias`, in strips of `step` rows or columns of c."""
    for strip in range(first, last):
        begin = strip * step
        row = begin if by_rows else 0
        column = 0 if by_rows else begin
        height = words.least(step, m - begin) if by_rows else m
        width = n if by_rows else words.least(step, n - begin)
        if biased:
            for i in range(row, row + height):
                for j in range(column, column + width):
                    c[i * n + j] = bias[j]
        words.gemm(
            across_a, across_b, height, width, k, 1.0,
            a, row if across_a else row * k, m if across_a else k,
            b, column * k if across_b else column, k if across_b else n,
            1.0 if biased else 0.0, c, row * n + column, n,
        )  # fmt: skip


@native
def stack_loop(
    first: int,
    last: int,
    a: Array,
    b: Array,
    c: Array,
    across_a: int,
    across_b: int,
    m: int,
    n: int,
    k: int,
    calm: int,
) -> None:
    """The products of two stacks of matrices."""
    for i in range(first, last):
        words.gemm(
            across_a, across_b, m, n, k, 1.0, a, i * m * k, m if across_a else k, b, i * k * n, k if across_b else n,
            0.0, c, i * m * n, n,
        )  # fmt: skip


def across(a: np.ndarray) -> int | None:
    """0 if each matrix lies in rows, 1 if in columns, None if in neither."""
    flags = a.flags
    if flags.c_contiguous:
        return 0
    turned = flags.f_contiguous if a.ndim == 2 else a.swapaxes(-1, -2).flags.c_contiguous
    return 1 if turned else None


def _shareable(a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None) -> bool:
    """Whether a kernel can multiply these, and gains by it: for one core alone the BLAS may be as fast."""
    if a.dtype is not b.dtype or not gemm_loop.available(a.dtype) or (hands() == 1 and not products.are_ours()):
        return False
    return bias is None or (bias.dtype is a.dtype and bias.shape == b.shape[1:] and bias.flags.c_contiguous)


def gemm(a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """`a @ b` of two matrices, plus a bias for each column.

    >>> gemm(np.ones((1, 2)), np.ones((2, 1)))
    array([[2.]])
    """
    (m, k), (inner, n) = a.shape, b.shape
    if m * n * k >= WORTH and inner == k and _shareable(a, b, bias):
        first, second = across(a), across(b)
        if first is not None and second is not None:
            return _in_strips(a, b, bias, first, second)
    y = np.dot(a, b)
    if bias is not None:
        y += bias
    return y  # type: ignore[no-any-return]


def _in_strips(a: np.ndarray, b: np.ndarray, bias: np.ndarray | None, first: int, second: int) -> np.ndarray:
    """A product in strips along its longer side: one for each core, or for one core if they are not worth waking."""
    (m, k), n = a.shape, b.shape[1]
    c = np.empty((m, n), a.dtype)
    work, by_rows = m * n * k, m >= n
    size, share = max(m, n), WORTH
    if work < SHARED:
        step, share = max(1, WORTH // (work // size)), 1
    else:
        step = -(-size // hands())
    strips = -(-size // step)
    gemm_loop(
        strips, share, a, b, c, c if bias is None else bias, first, second, m, n, k, step, by_rows, bias is not None,
        work > strips * WORTH,
    )  # fmt: skip
    return c


def stacked(a: np.ndarray, b: np.ndarray) -> Any:
    """`a @ b` of two stacks of matrices."""
    m, k = a.shape[-2:]
    n = b.shape[-1]
    if a.size * n >= WORTH and a.shape[:-2] == b.shape[:-2] and b.shape[-2] == k and _shareable(a, b):
        first, second = across(a), across(b)
        if first is not None and second is not None:
            c = np.empty((*a.shape[:-1], n), a.dtype)
            stack_loop(c.size // (m * n), m * n, a, b, c, first, second, m, n, k, m * n * k > WORTH)
            return c
    return np.matmul(a, b)
