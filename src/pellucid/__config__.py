"""torch.__config__: what this was built with, for bug reports."""

import platform
from importlib.util import find_spec

import numpy as np

from pellucid import switches
from pellucid._version import __version__

__all__ = ["parallel_info", "show"]


def show() -> str:
    """What the numbers are computed with.

    >>> import pellucid as torch
    >>> torch.__config__.show().splitlines()[0]
    'Pellucid built with:'
    """
    parts = (
        f"Pellucid {__version__}", f"Python {platform.python_version()}", f"NumPy {np.__version__}",
        f"kernels as machine code: {'yes' if find_spec('llvmlite') else 'no'}", "CUDA: no",
    )  # fmt: skip
    return "\n".join(("Pellucid built with:", *(f"  - {part}" for part in parts))) + "\n"


def parallel_info() -> str:
    """How many threads share the work.

    >>> import pellucid as torch
    >>> "get_num_threads" in torch.__config__.parallel_info()
    True
    """
    return f"torch.get_num_threads() : {switches.get_num_threads()}\n"
