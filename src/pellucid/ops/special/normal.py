"""Functions of the normal distribution, and of information: ndtr and its kin, erfcx, entr, xlog1py."""

import math
from typing import Any

import numpy as np
import scipy.special

from pellucid.core.careful import IN_HALVES
from pellucid.ops.elementwise import exp, log, log1p, product_with_log
from pellucid.ops.operation import binary, unary
from pellucid.ops.select import drop
from pellucid.ops.special.kernel import real

ROOT_HALF, ROOT_TAU = math.sqrt(0.5), math.sqrt(2 * math.pi)

ndtr = unary(
    "ndtr", real(scipy.special.ndtr), lambda g, a: g * (exp(-0.5 * a * a) / ROOT_TAU), module="torch.special",
    inplace=False, unclaimed={"node_name": "one row; PyTorch multiplies erfc by a half"},
    doc="""The share of a normal distribution below each element.

    >>> import pellucid as torch
    >>> torch.special.ndtr(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([0.1587, 0.5000, 0.8413])
    """,
)  # fmt: skip
ndtri = unary("ndtri", real(scipy.special.ndtri), lambda g, y: g * (ROOT_TAU * exp(0.5 * y * y)), domain=(0.1, 0.9),
              module="torch.special", inplace=False, grad_name="SpecialNdtriBackward0",
              doc="The inverse of ndtr: below which number a share of the normal distribution lies.")  # fmt: skip
log_ndtr = unary(
    "log_ndtr", real(scipy.special.log_ndtr), lambda g, a: g * (2 / ROOT_TAU) / erfcx(-ROOT_HALF * a),
    module="torch.special", inplace=False, grad_name="SpecialLogNdtrBackward0",
    doc="Logarithm of ndtr, exact where that is small.",
)  # fmt: skip
erfcx = unary(
    "erfcx", real(scipy.special.erfcx), lambda g, y, a: g * (2 * a * y - 2 / math.sqrt(math.pi)),
    module="torch.special", inplace=False, grad_name="SpecialErfcxBackward0",
    doc="exp(x²) times erfc(x), which does not underflow.",
)  # fmt: skip
entr = unary(
    "entr", real(scipy.special.entr), lambda g, a: -g * (1 + log(a)), module="torch.special", inplace=False,
    grad_name="SpecialEntrBackward0", domain=(0.1, 3.0),
    doc="""-x * log(x), what a probability adds to an entropy: 0 at 0, -inf below.

    >>> import pellucid as torch
    >>> torch.special.entr(torch.tensor([0.0, 0.5, 1.0]))
    tensor([0.0000, 0.3466, -0.0000])
    """,
)  # fmt: skip


def _xlog1py(a: np.ndarray, b: np.ndarray) -> Any:
    """SciPy's hides NaN behind a 0 on the left only where the right one is a number, as PyTorch does."""
    return scipy.special.xlog1py(a, b)


def _xlog1py_first(g: Any, a: Any, b: Any) -> Any:
    return drop(g * log1p(b), (a == 0) & (b <= -1))


IN_HALVES["xlog1py"] = lambda half, a, b: product_with_log(half, a, b, np.log1p)
IN_HALVES["entr"] = lambda half, a: np.where(a < 0, np.float32(-np.inf), product_with_log(half, -a, a))
xlog1py = binary(
    "xlog1py", real(_xlog1py, "xlog1py"), _xlog1py_first, lambda g, a, b: g * (a / (b + 1)), dtypes="float",
    module="torch.special", inplace=False, grad_name="SpecialXlog1PyBackward0", domain=(-0.8, 3.0),
    doc="""input * log1p(other), and 0 where input is 0.

    >>> import pellucid as torch
    >>> torch.special.xlog1py(torch.tensor([0.0, 2.0]), torch.tensor([-1.0, 0.0]))
    tensor([0., 0.])
    """,
)  # fmt: skip
