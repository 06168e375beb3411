"""The BLAS that kernels call: NumPy's own OpenBLAS, told to use one thread as long as a kernel runs.

The rows of a kernel are shared among the cores already. The BLAS's own threads would wait for the same cores, and a
process has only one setting for them: it is put back when the kernel ends.
"""

import ctypes
import os
from functools import lru_cache
from typing import Any

import numpy as np

NAMES = {
    "float": "scipy_cblas_sgemm64_", "double": "scipy_cblas_dgemm64_",
    "count": "scipy_openblas_get_num_threads64_", "choose": "scipy_openblas_set_num_threads64_",
}  # fmt: skip


@lru_cache(maxsize=1)
def library() -> Any:
    """The OpenBLAS inside NumPy's wheel, or None where NumPy was built with another BLAS."""
    from glob import glob  # late: half a millisecond of the import

    for path in glob(os.path.join(f"{os.path.dirname(np.__file__)}.libs", "libscipy_openblas64_*")):
        found = ctypes.CDLL(path)
        if all(hasattr(found, name) for name in NAMES.values()):
            return found
    return None


def address(what: str) -> int:
    """Where one of the functions of `NAMES` begins."""
    return ctypes.cast(getattr(library(), NAMES[what]), ctypes.c_void_p).value or 0
