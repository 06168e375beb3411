"""Kernels that can be called: compiled when first used, for float32 or float64, and shared among the cores."""

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from itertools import count
from threading import Lock
from typing import Any

import numpy as np

from pellucid.native.language import Writer, parameters
from pellucid.native.words import Array, Doubles, Indices

FLOATING = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}
C_TYPES: dict[type, Any] = {
    int: ctypes.c_int64, float: ctypes.c_double, Array: ctypes.py_object, Indices: ctypes.py_object,
    Doubles: ctypes.py_object,
}  # fmt: skip
COMPILING, NUMBERS = Lock(), count()
DATA = 16  # bytes from the beginning of an array object to the address of its data
MANY = 4096  # elements from which on a compiled loop is used: for fewer NumPy is as fast
PART = 1 << 14  # elements that one core takes at a time, at least: some microseconds of work
PARTS = 32  # at most: long runs of memory are read ahead (a softmax's backward of 4 million elements: 450 -> 290 µs)
APART = 128  # elements between lines that are added up in parallel: cores that write side by side wait for each other


@lru_cache(maxsize=1)
def available() -> bool:
    """Whether kernels can be compiled here."""
    if os.environ.get("PELLUCID_NATIVE") == "0" or find_spec("llvmlite") is None:
        return False
    if sys.maxsize < 1 << 32 or not hasattr(os, "sched_yield"):  # 32 bits; a system without POSIX, such as Windows
        return False  # pragma: no cover
    probe = np.empty(1)
    return ctypes.c_size_t.from_address(id(probe) + DATA).value == probe.ctypes.data


@lru_cache(maxsize=1)
def has_products() -> bool:
    """Whether there are matrix products that kernels can call: ours, or those of a BLAS."""
    from pellucid.native import blas, products

    return products.are_ours() or blas.library() is not None


HANDS_AT_MOST = 8  # threads that share a kernel: memory that each needs for itself is made for so many


def _first_choice() -> int:
    """As many threads as the BLAS was told to use, else one per core."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        told = os.environ.get(name, "")
        if told.isdigit() and int(told) > 0:
            return min(int(told), HANDS_AT_MOST)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, HANDS_AT_MOST)


_hands = _first_choice()
RESTING: list[Any] = [None]  # an event for each thread of the pool that sleeps; None: there are threads to be started


def hands() -> int:
    """How many threads share a kernel's work."""
    return _hands


def choose_hands(count: int) -> None:
    """Let so many threads share the work of kernels from now on."""
    global _hands
    _hands = min(count, HANDS_AT_MOST)
    RESTING.append(None)


class Kernel:
    """A function `loop(first, last, ...)` of the language of kernels: what is done for the rows from first to last.

    A third parameter called `hand` is told who computes, a number below HANDS_AT_MOST: for memory that each has alone.
    Called as `kernel(rows, size, ...)`, where a row is `size` elements of work; arrays are in C order, do not overlap,
    and are of one floating type (indices of int64).
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.name = function, function.__name__.strip("_")
        self.number = next(NUMBERS)  # two kernels may have one name
        self.__doc__ = function.__doc__
        names, kinds = zip(*parameters(function).items(), strict=True)
        self.handed = "hand" in names
        self.names, self.kinds = (each[3 if self.handed else 2 :] for each in (names, kinds))
        self.leading = self.kinds.index(Array)
        self.multiplies = "gemm" in function.__code__.co_names
        self.entries: dict[np.dtype, Any] = {}

    def fits(self, *arrays: np.ndarray) -> bool:
        """Whether the kernel can take these arrays."""
        dtype = arrays[0].dtype
        for array in arrays:
            if array.dtype is not dtype or not array.flags.c_contiguous:
                return False
        return self.available(dtype)

    def available(self, dtype: np.dtype) -> bool:
        """Whether the kernel can be compiled here, for arrays of a type."""
        return dtype in FLOATING and available() and (not self.multiplies or has_products())

    def __call__(self, rows: int, size: int, *arguments: Any) -> None:
        """Compute all rows; the arrays that the kernel writes are among the arguments."""
        dtype = arguments[self.leading].dtype
        call = self.entries.get(dtype) or self.compiled(dtype)
        part = max(PART // size, -(-rows // PARTS))  # whatever the number of cores: sums of parts are the same then
        if rows > part and RESTING:
            wake()
        call(rows, part, *arguments)

    def prepared(self, rows: int, size: int, *arguments: Any) -> tuple[Any, ...]:
        """The same as a call that waits to be made: a function written in C, and its arguments."""
        dtype = arguments[self.leading].dtype
        call = self.entries.get(dtype) or self.compiled(dtype)
        part = max(PART // size, -(-rows // PARTS))
        if rows > part and RESTING:
            wake()
        return (call, rows, part, *arguments)

    def evenly(self, size: int, *arguments: Any) -> None:
        """Compute all elements in one part for each core: every core then meets the same pieces in its own cache.

        A product of 512x512 takes 27 to 40 µs so, in parts that any core takes 47 to 55 (NumPy: 78 to 97).
        """
        dtype = arguments[self.leading].dtype
        call = self.entries.get(dtype) or self.compiled(dtype)
        if RESTING:
            wake()
        call(size, -(-size // _hands), *arguments)

    def mapped(self, *arrays: np.ndarray, outputs: int = 1) -> Any:
        """What a kernel of single elements makes of many; None if they are too few for it, or do not fit."""
        a = arrays[0]
        if a.size < MANY or not self.fits(*arrays) or any(each.shape != a.shape for each in arrays):
            return None
        results = [np.empty(a.shape, a.dtype) for _ in range(outputs)]
        self(a.size, 1, *arrays, *results)
        return results[0] if outputs == 1 else tuple(results)

    def compiled(self, dtype: np.dtype) -> Any:
        """What Python calls for arrays of one floating type."""
        from pellucid.native.llvm import compiled

        with COMPILING:  # two threads that meet here need one program, not two of the same name
            if dtype not in self.entries:
                name = f"pellucid_{self.name}_{self.number}_{FLOATING[dtype]}"
                signature = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, *(C_TYPES[k] for k in self.kinds))
                self.entries[dtype] = signature(compiled(assembly(self, name, FLOATING[dtype]))(name))
        return self.entries[dtype]


def wake() -> None:
    """Let the threads that sleep look for work."""
    from pellucid.native.pool import POOL

    POOL.wake()


def native(function: Callable[..., Any]) -> Kernel:
    """Make a kernel of a function.

    >>> from pellucid.native.words import Array
    >>> @native
    ... def doubled(first: int, last: int, x: Array, y: Array) -> None:
    ...     for i in range(first, last):
    ...         y[i] = 2.0 * x[i]
    """
    return Kernel(function)


def assembly(kernel: Kernel, name: str, floating: str) -> str:
    """The kernel, its form for parts of the rows, and the entry that Python calls."""
    from pellucid.native import products
    from pellucid.native.pool import SHARE

    writer = Writer(floating, products.address)
    core = writer.kernel(f"{name}_rows", kernel.function)
    fields = [writer.type_of(kind) for kind in kernel.kinds]
    record = f"{{ {', '.join(fields)} }}"
    hand = ["i64 %hand"] if kernel.handed else []
    loads, stores, passed, given = [], [], ["i64 %first", "i64 %last", *hand], ["i64 %rows", "i64 %part"]
    for i, (kind, field) in enumerate(zip(kernel.kinds, fields, strict=True)):
        loads += [
            f"  %p{i} = getelementptr {record}, ptr %arguments, i32 0, i32 {i}",
            f"  %a{i} = load {field}, ptr %p{i}",
        ]
        passed.append(f"{field} %a{i}")
        given.append(f"{'double' if kind is float else 'i64' if kind is int else 'ptr'} %g{i}")
        stores += _stored(i, kind, field, record)
    newline = "\n"
    before, after = one_thread(kernel.names) if kernel.multiplies and not products.are_ours() else ("", "")
    return f"""
{core}
define internal void @{name}_part(i64 %first, i64 %last, i64 %hand, ptr %arguments) {{
{newline.join(loads)}
  call void @{name}_rows({", ".join(passed)})
  ret void
}}
define void @{name}({", ".join(given)}) {{
  %arguments = alloca {record}
{newline.join(stores)}
  %few = icmp sle i64 %rows, %part
  br i1 %few, label %here, label %shared
here:
  call void @{name}_part(i64 0, i64 %rows, i64 0, ptr %arguments)
  ret void
shared:
{before}
  %share = inttoptr i64 {SHARE} to ptr
  call void %share(ptr @{name}_part, ptr %arguments, i64 %rows, i64 %part)
{after}
  ret void
}}
"""


def one_thread(names: Sequence[str]) -> tuple[str, str]:
    """What makes the BLAS use one thread, if it had more, and what gives it back those it had.

    It takes 3 µs, and small products use one thread anyway: a kernel with a parameter `calm` says whether it is needed.
    """
    from pellucid.native.blas import address

    asked = f"icmp ne i64 %g{names.index('calm')}, 0" if "calm" in names else "icmp eq i64 0, 0"
    before = f"""
  %count = inttoptr i64 {address("count")} to ptr
  %choose = inttoptr i64 {address("choose")} to ptr
  %threads = call i32 %count()
  %several = icmp sgt i32 %threads, 1
  %asked = {asked}
  %many = and i1 %several, %asked
  br i1 %many, label %calm, label %ready
calm:
  call void %choose(i32 1)
  br label %ready
ready:"""
    after = """
  br i1 %many, label %restore, label %end
restore:
  call void %choose(i32 %threads)
  br label %end
end:"""
    return before, after


def _stored(i: int, kind: type, field: str, record: str) -> list[str]:
    """Put one argument into the record that all parts read; an array's data is found through its object."""
    if kind is int or kind is float:
        convert = f"fptrunc double %g{i} to float" if field == "float" else f"bitcast {field} %g{i} to {field}"
        lines = [f"  %v{i} = {convert}"]
    else:
        lines = [
            f"  %d{i} = getelementptr i8, ptr %g{i}, i64 {DATA}",
            f"  %v{i} = load ptr, ptr %d{i}",
        ]
    place = f"  %s{i} = getelementptr {record}, ptr %arguments, i32 0, i32 {i}"
    return [*lines, place, f"  store {field} %v{i}, ptr %s{i}"]
