"""Orthogonal polynomials, evaluated at each element: Chebyshev's four kinds, Hermite's two, Laguerre's, Legendre's.

The degree is a number or a tensor and counts without its digits after the point; below 0 the polynomial is 0. PyTorch
does not differentiate them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import eval_chebyt, eval_chebyu, eval_hermite, eval_hermitenorm, eval_laguerre, eval_legendre

from pellucid.ops.operation import BROADCASTS, Draw, Sample, binary, call
from pellucid.ops.special.kernel import real

Polynomial = Callable[[np.ndarray, np.ndarray], Any]  # of (degree, x)

LIMITS = {8: 512, 4: 128}  # by bytes per number: beyond this degree PyTorch gives NaN, for the numbers overflow
NONE = np.iinfo(np.int64).max


def _samples(draw: Draw) -> list[Sample]:
    drawn = [call(draw(*first), draw.integers(*second, low=-1, high=9)) for first, second in BROADCASTS[2:10:2]]
    return [*drawn, call(draw(3), 3), call(draw(2, 3), 12.0), call(1.5, draw.integers(4, high=5).double())]


def _publish(name: str, polynomial: Polynomial, doc: str, limited: bool = False) -> None:
    def forward(x: np.ndarray, degree: np.ndarray) -> np.ndarray:
        whole = degree.astype(np.int64)
        limit = LIMITS[x.dtype.itemsize] if limited else NONE
        y = polynomial(np.minimum(np.maximum(whole, 0), limit), x.astype(np.float64))
        y = np.where(whole > 0, y, whole == 0)  # the constant, also at infinity, and none below
        return np.where(whole > limit, np.nan, y).astype(x.dtype)

    binary(
        name, real(forward, name), None, None, dtypes="float", module="torch.special", inplace=False,
        samples=_samples, names=("x", "n"), doc=doc,
    )  # fmt: skip


def _third(n: np.ndarray, x: np.ndarray) -> Any:
    """V, of which V(cos t) = cos((n + 1/2) t) / cos(t / 2)."""
    return eval_chebyu(n, x) - np.where(n > 0, eval_chebyu(np.maximum(n - 1, 0), x), 0)


def _fourth(n: np.ndarray, x: np.ndarray) -> Any:
    """W, of which W(cos t) = sin((n + 1/2) t) / sin(t / 2)."""
    return eval_chebyu(n, x) + np.where(n > 0, eval_chebyu(np.maximum(n - 1, 0), x), 0)


KINDS: dict[str, tuple[Polynomial, str]] = {
    "t": (eval_chebyt, "first"), "u": (eval_chebyu, "second"), "v": (_third, "third"), "w": (_fourth, "fourth"),
}  # fmt: skip


def _shifted(polynomial: Polynomial) -> Polynomial:
    return lambda n, x: polynomial(n, 2 * x - 1)


for _letter, (_polynomial, _kind) in KINDS.items():
    _publish(f"chebyshev_polynomial_{_letter}", _polynomial, f"Chebyshev polynomial of the {_kind} kind.")
    _publish(f"shifted_chebyshev_polynomial_{_letter}", _shifted(_polynomial),
             f"Chebyshev polynomial of the {_kind} kind, moved from [-1, 1] to [0, 1].")  # fmt: skip

_publish("hermite_polynomial_h", eval_hermite, "Hermite polynomial, as physicists count.", limited=True)
_publish("hermite_polynomial_he", eval_hermitenorm, "Hermite polynomial, as probabilists count.", limited=True)
_publish("laguerre_polynomial_l", eval_laguerre, "Laguerre polynomial.")
_publish(
    "legendre_polynomial_p", eval_legendre,
    """Legendre polynomial.

    >>> import pellucid as torch
    >>> torch.special.legendre_polynomial_p(torch.tensor([0.5, 2.0]), 2)
    tensor([-0.1250,  5.5000])
    """,
)  # fmt: skip
