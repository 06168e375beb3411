"""BLAS and LAPACK beyond what NumPy offers, in NumPy's own library, so that one pool of threads does all the work.

NumPy's and SciPy's wheels each bring an OpenBLAS. Its threads go on looking for work for some 25 ms after a call, on
the cores that the other's threads need, and whoever waits for those waits for the scheduler: a product of 200x200 and
then an update of 32 768 numbers took 8 ms by both libraries, 0.11 by one (docs/decisions/0010). So

- what is used often is called in NumPy's library, with the threads that it has;
- what only SciPy offers is called on one thread (`one_thread`), and SciPy then gets its threads back;
- vectors go to SciPy's BLAS, whose way in is the shortest: up to FEW elements it takes one thread by itself. Those that
  are worth sharing among the cores (`longest`) go to kernels.

Where NumPy brings no OpenBLAS of its own (conda, Linux distributions, Accelerate) all of it is SciPy's, on one thread
if SciPy brings one.
"""

import ctypes
import os
import sys
from contextlib import ContextDecorator
from functools import lru_cache
from threading import RLock
from typing import Any

import numpy as np
import scipy
from scipy.linalg import get_blas_funcs, get_lapack_funcs
from scipy.linalg.blas import daxpy, dgemm, dscal, saxpy, sgemm, sscal

from pellucid.core.commit import Call
from pellucid.native import native
from pellucid.native.blas import bundled, function
from pellucid.native.kernel import PART, hands
from pellucid.native.words import Array

ndarray = np.ndarray
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
LETTERS = {F32: "s", F64: "d", np.dtype(np.complex64): "c", np.dtype(np.complex128): "z"}
FEW = 8192  # elements; OpenBLAS wakes its threads for an axpy of more than 10 000, for a scal of a million
AXPY, SCAL, GEMM = {F32: saxpy, F64: daxpy}, {F32: sscal, F64: dscal}, {F32: sgemm, F64: dgemm}


# --- SciPy's library


class OneThread(ContextDecorator):
    """`with one_thread:`, or `@one_thread` on a function: SciPy's own BLAS, if it has one, works on one thread.

    Several threads of a program may be inside; the last that leaves gives SciPy back what the first one found. Who
    meets at the door waits: one thread, found there by the other and given back at last, would stay for ever.
    """

    def __init__(self) -> None:
        self.inside: list[None] = []  # a list, since it grows and shrinks by calls that can be prepared
        self.before = 0
        self.door = RLock()  # a signal's handler may come while it is shut
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.alone)

    def alone(self) -> None:
        """After a fork: the threads that were inside, or at the door, stay behind in the parent."""
        self.inside, self.door = [], RLock()

    def __enter__(self) -> None:
        with self.door:
            if not self.inside:
                count, choose = scipy_threads()
                self.before = count()
                choose(1)
            self.inside.append(None)

    def __exit__(self, *_: Any) -> None:
        with self.door:
            self.inside.pop()
            if not self.inside:
                scipy_threads()[1](self.before)

    def around(self, calls: list[Call]) -> list[Call]:
        """Calls that will be run together, with those before and after them that choose the threads."""
        count, choose = scipy_threads()
        threads = count()
        if not self.inside:  # without the door: an interrupt here must not leave it shut
            self.before = threads
        if self.before == 1:
            return calls
        before: list[Call] = [(self.inside.append, None), (choose, 1)]
        return [*before, *calls, (choose, self.before), (self.inside.pop,)]


@lru_cache(maxsize=1)
def scipy_threads() -> tuple[Any, Any]:
    """What says how many threads SciPy's own BLAS has, and what chooses it; without effect where it has none."""
    for path in bundled(scipy):
        library = ctypes.CDLL(path)
        for prefix, suffix in (("scipy_", ""), ("scipy_", "64_"), ("", "")):
            count, choose = (f"{prefix}openblas_{verb}_num_threads{suffix}" for verb in ("get", "set"))
            if hasattr(library, count) and hasattr(library, choose):
                return library[count], library[choose]
    return lambda: 1, lambda count: None


one_thread = OneThread()


# --- NumPy's library

INT, ENUM, AT = ctypes.c_int64, ctypes.c_int, ctypes.c_void_p
BY_ROWS, BY_COLUMNS, AS_IT_LIES, TURNED, UPPER, LOWER, ANY, UNIT, LEFT = 101, 102, 111, 112, 121, 122, 131, 132, 141
# What each takes; None is a number of the type of the arrays.
ROUTINES: dict[str, tuple[Any, ...]] = {
    "cblas_{}trsm": (ENUM, ENUM, ENUM, ENUM, ENUM, INT, INT, None, AT, INT, AT, INT),
    "LAPACKE_{}getrf_work": (ENUM, INT, INT, AT, INT, AT),
}


@lru_cache
def routine(name: str, dtype: np.dtype) -> Any:
    """A routine of NumPy's library for arrays of a type, None where it cannot be found."""
    found = function(name.format(LETTERS[dtype]))
    if found is not None:
        real = {F32: ctypes.c_float, F64: ctypes.c_double}.get(dtype, AT)  # complex numbers are pointed at
        found.argtypes = [kind or real for kind in ROUTINES[name]]
        found.restype = INT if name.startswith("LAPACKE") else None
    return found


# --- vectors


@native
def axpy_loop(first: int, last: int, a: float, x: Array, y: Array) -> None:
    """y += a x."""
    for i in range(first, last):
        y[i] = y[i] + a * x[i]


@native
def scal_loop(first: int, last: int, a: float, x: Array) -> None:
    """x *= a."""
    for i in range(first, last):
        x[i] = a * x[i]


def longest() -> int:
    """Elements of the longest vector that goes to SciPy's BLAS: more than that a kernel shares among the cores.

    On one core both take the same time, but for the way in: 0.2 µs against 0.6 (an SGD step of twenty parameters of
    100x100 takes 35 µs so, 61 by kernels).
    """
    return PART if hands() > 1 and axpy_loop.available(F32) else sys.maxsize


def axpy_call(a: float, x: ndarray, y: ndarray) -> Call:
    """y ← y + a·x of long vectors, as a call to be made: by a kernel where they fit, else by SciPy's BLAS."""
    if axpy_loop.fits(x, y):
        return axpy_loop.prepared(y.size, 1, a, x, y)
    return AXPY[y.dtype], x, y, y.size, a


def scal_call(a: float, x: ndarray) -> Call:
    """x ← a·x, in the same way."""
    if scal_loop.fits(x):
        return scal_loop.prepared(x.size, 1, a, x)
    return SCAL[x.dtype], a, x


# --- matrices


def turned_product(left: ndarray, right: ndarray, out: ndarray, add: bool) -> None:
    """`left.T @ right`, of few rows, written or added to `out`, a matrix in C order; on one thread.

    >>> out = np.ones((1, 2))
    >>> turned_product(np.ones((3, 1)), np.ones((3, 2)), out, True)
    >>> out
    array([[4., 4.]])
    """
    with one_thread:  # SciPy's BLAS sees C order as the transposed matrix, and writes in place
        GEMM[out.dtype](1.0, right.T, left, float(add), out.T, 0, 0, 1)


def solve_triangle(a: ndarray, y: ndarray, upper: bool, unit: bool) -> None:
    """y ← a⁻¹ y, where `a` counts as triangular; y is a matrix of a's type in C order.

    >>> y = np.array([[4.0]])
    >>> solve_triangle(np.array([[2.0]]), y, upper=True, unit=False)
    >>> y
    array([[2.]])
    """
    n, count = y.shape
    call = routine("cblas_{}trsm", y.dtype)
    if call is None:
        (trsm,) = get_blas_funcs(("trsm",), (a, y))
        with one_thread:
            y[...] = trsm(1, a.T, y.T, side=1, lower=upper, diag=unit).T
        return
    turned = not a.flags.c_contiguous and a.T.flags.c_contiguous
    rows = np.ascontiguousarray(a.T if turned else a)
    one = 1.0 if y.dtype.kind == "f" else np.ones(1, y.dtype).ctypes.data
    call(
        BY_ROWS, LEFT, UPPER if upper != turned else LOWER, TURNED if turned else AS_IT_LIES, UNIT if unit else ANY,
        n, count, one, rows.ctypes.data, n, y.ctypes.data, count,
    )  # fmt: skip


def lu_factors(a: ndarray) -> tuple[ndarray, ndarray, int]:
    """L and U in one matrix, the row that each row was exchanged with, from 1, and 0 or which pivot is zero.

    >>> lu_factors(np.array([[1.0, 2.0], [2.0, 4.0]]))[1:]
    (array([2, 2]), 2)
    """
    call = routine("LAPACKE_{}getrf_work", a.dtype)
    if call is None:
        (getrf,) = get_lapack_funcs(("getrf",), (a,))
        with one_thread:
            lu, pivots, info = getrf(a)
        return lu, pivots + 1, info
    lu, pivots = np.array(a, order="F"), np.empty(min(a.shape), np.int64)
    info = call(BY_COLUMNS, *a.shape, lu.ctypes.data, max(1, len(a)), pivots.ctypes.data)
    return lu, pivots, info
