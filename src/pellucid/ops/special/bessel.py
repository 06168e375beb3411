"""Bessel functions and the Airy function. PyTorch differentiates i0, i0e, i1 and i1e; the others cut the graph."""

from typing import Any

import numpy as np
import scipy.special

from pellucid.ops.compare import sign
from pellucid.ops.operation import Function, unary
from pellucid.ops.select import where_row
from pellucid.ops.shape import zeros_like_row
from pellucid.ops.special.kernel import real


def _flat(name: str, kernel: Any, doc: str, domain: tuple[float, float] = (-9.0, 9.0), **options: Any) -> Function:
    """A function that PyTorch does not differentiate."""
    return unary(
        name, real(kernel, name), None, module="torch.special", inplace=False, domain=domain, doc=doc, **options
    )


def _airy(a: np.ndarray) -> Any:
    """Ai alone of the four functions that SciPy computes together, and 0 where it underflows to that."""
    return np.where(a > 105, a.dtype.type(0), scipy.special.airy(a)[0])


def _spherical(a: np.ndarray) -> Any:
    """sin(x) / x, and 1 at 0, 0 at infinity."""
    flat = a == 0
    return np.where(np.isinf(a), 0, (np.sin(a) + flat) / (a + flat)).astype(a.dtype)


ROUGH = {"forward_equals_torch": "PyTorch's is right to 1e-6 only (for |x| from 2 to 15); SciPy's to the last digit"}
POSITIVE = (0.2, 9.0)

airy_ai = _flat(
    "airy_ai", _airy,
    """The Airy function Ai, the solution of y'' = x y that falls to 0 on the right.

    >>> import pellucid as torch
    >>> torch.special.airy_ai(torch.tensor([0.0, 1.0]))
    tensor([0.3550, 0.1353])
    """,
    unclaimed=ROUGH,
)  # fmt: skip
bessel_j0 = _flat("bessel_j0", scipy.special.j0, "Bessel function of the first kind, order 0.", unclaimed=ROUGH)
bessel_j1 = _flat("bessel_j1", scipy.special.j1, "Bessel function of the first kind, order 1.", unclaimed=ROUGH)
bessel_y0 = _flat(
    "bessel_y0", scipy.special.y0, "Bessel function of the second kind, order 0.", POSITIVE, unclaimed=ROUGH
)
bessel_y1 = _flat(
    "bessel_y1", scipy.special.y1, "Bessel function of the second kind, order 1.", POSITIVE, unclaimed=ROUGH
)
spherical_bessel_j0 = _flat("spherical_bessel_j0", _spherical, "Spherical Bessel function, order 0: sin(x) / x.")
modified_bessel_i0 = _flat("modified_bessel_i0", scipy.special.i0, "Modified Bessel function, order 0.")
modified_bessel_i1 = _flat("modified_bessel_i1", scipy.special.i1, "Modified Bessel function, order 1.")
modified_bessel_k0 = _flat(
    "modified_bessel_k0", scipy.special.k0, "Modified Bessel function of the second kind, order 0.", POSITIVE
)
modified_bessel_k1 = _flat(
    "modified_bessel_k1", scipy.special.k1, "Modified Bessel function of the second kind, order 1.", POSITIVE
)
scaled_modified_bessel_k0 = _flat(
    "scaled_modified_bessel_k0", scipy.special.k0e, "modified_bessel_k0 times exp(x).", POSITIVE
)
scaled_modified_bessel_k1 = _flat(
    "scaled_modified_bessel_k1", scipy.special.k1e, "modified_bessel_k1 times exp(x).", POSITIVE
)


# --- those with derivatives; e is for "exponentially scaled"


def _per(y: Any, a: Any) -> Any:
    """y / a for an odd function y that begins as a / 2; where a is tiny the limit, as PyTorch has it."""
    tiny = abs(a) <= np.finfo(np.float64 if a.dtype == np.float64 else np.float32).eps
    return where_row(tiny, zeros_like_row(a) + 0.5, y / (a + tiny))


i0 = unary(
    "i0", real(scipy.special.i0), lambda g, a: g * i1(a), aliases=("torch.special.i0",),
    doc="""Modified Bessel function of the first kind, order 0.

    >>> import pellucid as torch
    >>> torch.i0(torch.tensor([0.0, 1.0]))
    tensor([1.0000, 1.2661])
    """,
)  # fmt: skip
i0e = unary("i0e", real(scipy.special.i0e), lambda g, y, a: g * (i1e(a) - sign(a) * y), grad_name="SpecialI0EBackward0",
            module="torch.special", inplace=False, doc="i0 times exp(-|x|), which does not overflow.")  # fmt: skip
i1 = unary("i1", real(scipy.special.i1), lambda g, y, a: g * (i0(a) - _per(y, a)), module="torch.special",
           inplace=False, grad_name="SpecialI1Backward0",
           doc="Modified Bessel function of the first kind, order 1.")  # fmt: skip
i1e = unary("i1e", real(scipy.special.i1e), lambda g, y, a: g * (i0e(a) - sign(a) * y - _per(y, a)),
            grad_name="SpecialI1EBackward0", module="torch.special", inplace=False,
            doc="i1 times exp(-|x|), which does not overflow.")  # fmt: skip
