"""The BLAS that we call: NumPy's own OpenBLAS. Kernels call it on one thread, others with those that it has.

The rows of a kernel are shared among the cores already. The BLAS's own threads would wait for the same cores, and a
process has only one setting for them: it is put back when the kernel ends.
"""

import ctypes
import os
from functools import lru_cache
from typing import Any

import numpy as np

PREFIX, SUFFIX = "scipy_", "64_"  # of every name in the library: integers have 64 bits
NAMES = {
    "float": "cblas_sgemm", "double": "cblas_dgemm",
    "count": "openblas_get_num_threads", "choose": "openblas_set_num_threads",
}  # fmt: skip


def bundled(module: Any) -> list[str]:
    """The OpenBLAS libraries inside a package's wheel: beside it, or within on macOS."""
    from glob import glob  # late: half a millisecond of the import

    package = os.path.dirname(module.__file__)
    folders = f"{package}.libs", os.path.join(package, ".dylibs")
    return [path for folder in folders for path in glob(os.path.join(folder, "*openblas*"))]


@lru_cache(maxsize=1)
def library() -> Any:
    """The OpenBLAS inside NumPy's wheel, or None where NumPy was built with another BLAS."""
    for path in bundled(np):
        found = ctypes.CDLL(path)
        if all(hasattr(found, f"{PREFIX}{name}{SUFFIX}") for name in NAMES.values()):
            return found
    return None


def function(name: str) -> Any:
    """A function of the library by its usual name; a new object, to be given types. None if it is not there."""
    try:
        return library()[f"{PREFIX}{name}{SUFFIX}"] if library() is not None else None
    except AttributeError:
        return None


def address(what: str) -> int:
    """Where one of the functions of `NAMES` begins."""
    return ctypes.cast(function(NAMES[what]), ctypes.c_void_p).value or 0
