"""Kernels that can be called: compiled when first used, for float32 or float64, and shared among the cores."""

import ctypes
import os
import sys
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from pellucid.native.language import Writer, parameters
from pellucid.native.words import Array

FLOATING = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}
DATA = 16  # bytes from the beginning of an array object to the address of its data
MANY = 4096  # elements from which on a compiled loop is used: for fewer NumPy is as fast
PART = 1 << 14  # elements that one core takes at a time: some microseconds of work


@lru_cache(maxsize=1)
def available() -> bool:
    """Whether kernels can be compiled here."""
    if os.environ.get("PELLUCID_NATIVE") == "0" or find_spec("llvmlite") is None or sys.maxsize < 1 << 32:
        return False
    probe = np.empty(1)
    return ctypes.c_size_t.from_address(id(probe) + DATA).value == probe.ctypes.data


def part_of(size: int) -> int:
    """How many rows of some size one core takes at a time."""
    return PART // size or 1


class Kernel:
    """A function `loop(first, last, ...)` of the language of kernels: what is done for the rows from first to last.

    Called as `kernel(rows, size, ...)`, where a row is `size` elements of work; arrays are in C order, do not overlap,
    and are of one floating type (indices of int64).
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.name = function, function.__name__.strip("_")
        self.__doc__ = function.__doc__
        self.kinds = list(parameters(function).values())[2:]
        self.arrays = [i for i, kind in enumerate(self.kinds) if kind not in (int, float)]
        self.leading = self.kinds.index(Array)
        self.entries: dict[np.dtype, Any] = {}

    def fits(self, *arrays: np.ndarray) -> bool:
        """Whether the kernel can take these arrays."""
        dtype = arrays[0].dtype
        for array in arrays:
            if array.dtype is not dtype or not array.flags.c_contiguous:
                return False
        return dtype in FLOATING and available()

    def __call__(self, rows: int, size: int, *arguments: Any) -> None:
        """Compute all rows; the arrays that the kernel writes are among the arguments."""
        dtype = arguments[self.leading].dtype
        entry = self.entries.get(dtype) or self.compiled(dtype)
        given = list(arguments)
        for i in self.arrays:
            given[i] = id(given[i])
        entry(rows, part_of(size), *given)

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
        from pellucid.native.pool import POOL

        name = f"pellucid_{self.name}_{FLOATING[dtype]}"
        types = [ctypes.c_double if kind is float else ctypes.c_int64 for kind in self.kinds]
        signature = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, *types)
        call = signature(compiled(assembly(self, name, FLOATING[dtype]))(name))

        def entry(rows: int, part: int, *given: Any) -> None:
            if rows > part and POOL.resting:
                POOL.wake()
            call(rows, part, *given)

        self.entries[dtype] = entry
        return entry


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
    from pellucid.native.pool import SHARE

    writer = Writer(floating)
    core = writer.kernel(f"{name}_rows", kernel.function)
    fields = [writer.type_of(kind) for kind in kernel.kinds]
    record = f"{{ {', '.join(fields)} }}"
    loads, stores, passed, given = [], [], ["i64 %first", "i64 %last"], ["i64 %rows", "i64 %part"]
    for i, (kind, field) in enumerate(zip(kernel.kinds, fields, strict=True)):
        loads += [
            f"  %p{i} = getelementptr {record}, ptr %arguments, i32 0, i32 {i}",
            f"  %a{i} = load {field}, ptr %p{i}",
        ]
        passed.append(f"{field} %a{i}")
        given.append(f"{'double' if kind is float else 'i64'} %g{i}")
        stores += _stored(i, kind, field, record)
    newline = "\n"
    return f"""
{core}
define internal void @{name}_part(i64 %first, i64 %last, ptr %arguments) {{
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
  call void @{name}_part(i64 0, i64 %rows, ptr %arguments)
  ret void
shared:
  %share = inttoptr i64 {SHARE} to ptr
  call void %share(ptr @{name}_part, ptr %arguments, i64 %rows, i64 %part)
  ret void
}}
"""


def _stored(i: int, kind: type, field: str, record: str) -> list[str]:
    """Put one argument into the record that all parts read; an array's data is found through its object."""
    if kind is int or kind is float:
        convert = f"fptrunc double %g{i} to float" if field == "float" else f"bitcast {field} %g{i} to {field}"
        lines = [f"  %v{i} = {convert}"]
    else:
        lines = [
            f"  %o{i} = inttoptr i64 %g{i} to ptr",
            f"  %d{i} = getelementptr i8, ptr %o{i}, i64 {DATA}",
            f"  %v{i} = load ptr, ptr %d{i}",
        ]
    place = f"  %s{i} = getelementptr {record}, ptr %arguments, i32 0, i32 {i}"
    return [*lines, place, f"  store {field} %v{i}, ptr %s{i}"]
