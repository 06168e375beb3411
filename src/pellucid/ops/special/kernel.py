"""What the special functions compute with: SciPy's kernels, for real numbers of every length."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pellucid.ops.compare import in_single, only


def real(function: Callable[..., Any], name: str | None = None) -> Callable[..., Any]:
    """A forward of SciPy's function: complex numbers are refused, halves computed in float32."""

    def forward(*arguments: np.ndarray) -> Any:
        return function(*arguments)

    forward.__name__ = name or function.__name__
    return only("f", in_single(forward))
