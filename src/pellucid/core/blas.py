"""SciPy's BLAS for the kernels that write in place, on one thread.

NumPy and SciPy each bring a BLAS with threads of its own, and the threads of one spin for the cores that the other's
want: a layer norm of 4096 rows of 256 took 26 ms with both at two threads, 4.3 ms with SciPy's at one (a vector
update 10 ms instead of 0.1). NumPy's, which does the matrix products, keeps its threads.
"""

import ctypes
import glob
import os

import scipy
from scipy.linalg.blas import daxpy, dgemm, dscal, saxpy, sgemm, sscal

__all__ = ["daxpy", "dgemm", "dscal", "saxpy", "sgemm", "sscal"]


def calm_scipy() -> bool:
    """Give SciPy's own BLAS one thread, if it can be found; OPENBLAS_NUM_THREADS, when set, decides instead."""
    if "OPENBLAS_NUM_THREADS" in os.environ:
        return False
    for path in glob.glob(os.path.join(f"{os.path.dirname(scipy.__file__)}.libs", "libscipy_openblas*")):
        choose = getattr(ctypes.CDLL(path), "scipy_openblas_set_num_threads", None)
        if choose is not None:
            choose(1)
            return True
    return False


calm_scipy()
