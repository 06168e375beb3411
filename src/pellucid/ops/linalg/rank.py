"""How near a matrix is to one of lower rank: matrix_rank, the condition number, and the pseudo-inverse.

A singular value counts as zero if it is not above max(atol, rtol·largest); without tolerances rtol is the dtype's
epsilon times the larger side. Within one rank the pseudo-inverse P is differentiable:
dP = -P dA P + P Pᴴ dAᴴ (I - A P) + (I - P A) dAᴴ Pᴴ P.
"""

import math
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.primitive import constant, general
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor, wrap
from pellucid.ops.arguments import expect, is_floating, name_of, refusal
from pellucid.ops.compare import gt
from pellucid.ops.linalg.decompositions import plain, symmetric
from pellucid.ops.linalg.eigen import eigh_row, eigvalsh_row
from pellucid.ops.linalg.inverse import inv_ex_row
from pellucid.ops.linalg.matrices import adjoint, as_column, expect_factorable, expect_square, invertible, matmul
from pellucid.ops.linalg.norms import matrix_norm
from pellucid.ops.linalg.svd import expect_singular_values, singular_values, svd_row, svdvals_row
from pellucid.ops.operation import COMPOSED, Draw, Sample, call, operation
from pellucid.ops.reduce import sum_row
from pellucid.ops.select import nan_to_num, where
from pellucid.ops.shape import aligned
from pellucid.ops.slicing import slice_row

Tolerance = Any  # a number, a tensor that broadcasts against the batch, or None


def tolerances(name: str, input: Any, atol: Tolerance, rtol: Tolerance) -> tuple[Any, Any]:
    """Both tolerances as tensors; the relative one is 0 by default where an absolute one is given."""
    for label, value in (("atol", atol), ("rtol", rtol)):
        if isinstance(value, Tensor) and value.array.dtype.kind == "c":
            what = f"{name}: {label} tensor of complex type is not supported. Got {name_of(value)}"
            raise refusal(RuntimeError, what, "a tolerance is compared with sizes, which are real")
    default = float(dtypes.finfo(input.dtype).eps) * max(input.shape[-2:])
    relative = _default_rtol(atol, default) if rtol is None else rtol
    return _as_tensor(0.0 if atol is None else atol), _as_tensor(relative)


def _default_rtol(atol: Tolerance, default: float) -> Any:
    """None is needed where there is an absolute tolerance."""
    if isinstance(atol, Tensor):
        return where(gt(atol, 0), 0.0, default)
    return default if atol is None or atol <= 0 else 0.0


def _as_tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else wrap(np.asarray(value, np.float64))


def _counts(sizes: np.ndarray, atol: np.ndarray, rtol: np.ndarray) -> np.ndarray:
    """Which singular values do not count as zero."""
    largest = sizes.max(-1, initial=0.0)
    counted: np.ndarray = sizes > np.maximum(atol, rtol * largest)[..., None]
    return counted


def _with_tolerances(op: Any, a: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
    """The `batch` column: tolerances broadcast against the matrices' own batch."""
    rank = max(a.ndim - 3, atol.ndim - 1, rtol.ndim - 1)
    return op(aligned(a, rank + 2), aligned(atol, rank), aligned(rtol, rank), hermitian)


# --- rank


def _rank(a: np.ndarray, atol: np.ndarray, rtol: np.ndarray, hermitian: bool) -> np.ndarray:
    if not a.size:
        return np.zeros(a.shape[:-2], np.int64)
    sizes = np.abs(eigvalsh_row(a, "L")) if hermitian else svdvals_row(a)
    return _counts(sizes, atol, rtol).sum(-1)  # type: ignore[no-any-return]


matrix_rank_row = bind(constant("linalg_matrix_rank", _rank, 3, batch=_with_tolerances))


@operation(
    samples=lambda draw: [
        call(draw(3, 3)), call(draw(2, 3, 2)), call(draw(3, 2), 0.5), call(draw(3, 2), tol=1.0),
        call(draw(2, 3, 3), atol=1.0, rtol=0.3), call(draw(2, 3, 3), rtol=draw(2, low=0.1, high=0.9)),
        call(symmetric(draw, 3, 3), hermitian=True), call(draw.complex(3, 2)), call(draw(0, 3)), call(draw(0, 2, 2)),
    ],
    module="torch.linalg",
    out="cast",
)  # fmt: skip
def matrix_rank(
    input: Any, tol: Tolerance = None, hermitian: bool = False, *, atol: Tolerance = None, rtol: Tolerance = None
) -> Any:
    """How many singular values (`hermitian`: eigenvalues) of each matrix are not zero, to within a tolerance.

    `tol` is an absolute tolerance alone; a value counts if it is above max(atol, rtol·largest).

    >>> import pellucid as torch
    >>> torch.linalg.matrix_rank(torch.tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(1)
    """
    name = "torch.linalg.matrix_rank"
    expect(input.ndim >= 2, f"{name}: The input tensor input must have at least 2 dimensions.")
    _expect_wide_floats(input, "This function doesn't handle types other than float and double")
    if tol is not None and (atol is not None or rtol is not None):
        what = "linalg_matrix_rank() received an invalid combination of arguments: tol beside atol or rtol"
        raise refusal(TypeError, what, "tol is another name for atol, with rtol=0", "atol=..., rtol=...")
    if hermitian:
        expect_square("linalg.eigh", input)
    absolute, relative = (tol, 0.0) if tol is not None else (atol, rtol)
    return matrix_rank_row(input, *tolerances(name, input, absolute, relative), bool(hermitian))


def _expect_wide_floats(A: Any, what: str) -> None:
    if not is_floating(A) or A.array.dtype.itemsize < 4:
        raise refusal(RuntimeError, what, f"the dtype is {A.dtype}", "A.float()")


# --- the pseudo-inverse


def _pinv(a: np.ndarray, atol: np.ndarray, rtol: np.ndarray, hermitian: bool) -> np.ndarray:
    if not a.size:
        return np.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)
    if hermitian:
        values, v = eigh_row(a, "L")
        u, sizes = v, np.abs(values)
    else:
        u, values, vh = svd_row(a, False)
        v, sizes = vh.conj().swapaxes(-1, -2), values
    counted = _counts(sizes, atol, rtol)
    inverse = np.divide(1, values, out=np.zeros(counted.shape, values.dtype), where=counted)
    return np.matmul(v * inverse[..., None, :], u.conj().swapaxes(-1, -2))


def _pinv_rule(g: Any, y: Any, a: Any, hermitian: bool) -> Any:
    p, a, gh = plain(y), plain(a), adjoint(g)
    ph = adjoint(p)
    left = matmul(gh - matmul(a, matmul(p, gh)), matmul(p, ph))
    right = matmul(matmul(ph, p), gh - matmul(matmul(gh, p), a))
    return left + right - matmul(ph, matmul(g, ph))


def _pinv_jvp(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    t, a, yh = tangents[0], inputs[0], adjoint(y)
    th = adjoint(t)
    left = matmul(matmul(y, yh), th - matmul(matmul(th, a), y))
    right = matmul(th - matmul(y, matmul(a, th)), matmul(yh, y))
    return left + right - matmul(y, matmul(t, y))


# pinv_row(a, atol, rtol, hermitian): the pseudo-inverse.
pinv_row = bind(
    general(
        "linalg_pinv", _pinv, _pinv_rule, None, None, jvp=_pinv_jvp, batch=_with_tolerances,
    )
)  # fmt: skip


def _pinv_samples(draw: Draw) -> list[Sample]:
    shapes = [(3, 3), (4, 2), (2, 4), (2, 3, 2), (0, 3), (3, 0), (0, 2, 2), (1, 1)]
    return [*(call(draw(*shape)) for shape in shapes), call(draw.complex(3, 2)), call(draw.complex(2, 2, 3))]


@operation(
    samples=lambda draw: [
        *_pinv_samples(draw), call(draw(3, 2), 0.01), call(draw(3, 2), rtol=0.01), call(draw(3, 2), atol=0.01),
        call(draw(2, 3, 2), atol=draw.integers(2) * 0.1), call(symmetric(draw, 3, 3).detach(), hermitian=True),
    ],
    module="torch.linalg",
    out="cast",
)  # fmt: skip
def pinv(
    input: Any, rcond: Tolerance = None, hermitian: bool = False, *, atol: Tolerance = None, rtol: Tolerance = None
) -> Any:
    """The pseudo-inverse (Moore–Penrose): of singular values only those are inverted that are not zero.

    `rcond` is an older name of `rtol`; a value counts if it is above max(atol, rtol·largest).

    >>> import pellucid as torch
    >>> torch.linalg.pinv(torch.tensor([[2.0, 0.0], [0.0, 0.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.0000]])
    """
    _expect_wide_floats(input, _expected_matrix(input))
    expect(input.ndim >= 2, _expected_matrix(input))
    if rcond is not None:
        atol, rtol = 0.0, rcond
    if hermitian:
        expect_square("linalg.eigh", input)
    return pinv_row(input, *tolerances("torch.linalg.pinv", input, atol, rtol), bool(hermitian))


def _expected_matrix(A: Any) -> str:
    given = f"{name_of(A)}{{{list(A.shape)}}}"
    types = "expected a tensor with 2 or more dimensions of float, double, cfloat or cdouble types"
    return f"linalg.pinv({given}): {types}"


@operation(samples=_pinv_samples)
def pinverse(input: Any, rcond: float = 1e-15) -> Any:
    """The pseudo-inverse; `linalg.pinv` is its newer form.

    >>> import pellucid as torch
    >>> torch.pinverse(torch.tensor([[2.0], [0.0]]))
    tensor([[0.5000, 0.0000]])
    """
    return pinv(input, rcond)


# --- the condition number


def _first(s: Any) -> Any:
    return slice_row(s, (..., 0))


def _last(s: Any) -> Any:
    return slice_row(s, (..., s.shape[-1] - 1))


# What the condition number is, of the singular values.
BY_VALUES: dict[Any, Any] = {
    None: lambda s: _first(s) / _last(s),
    2: lambda s: _first(s) / _last(s),
    -2: lambda s: _last(s) / _first(s),
    "nuc": lambda s: sum_row(s, (s.ndim - 1,), False) * sum_row(1 / s, (s.ndim - 1,), False),
}
BY_NORMS = ("fro", 1, -1, math.inf, -math.inf)

FAILS = "PyTorch's own backward fails where the norm of the inverse is asked for"


@operation(
    samples=lambda draw: [
        call(invertible(draw, 3, 3)), call(draw(2, 3, 2)), *(call(invertible(draw, 3, 3), p) for p in (-2, "nuc")),
        *(call(invertible(draw, 2, 2, 2), p) for p in BY_NORMS), call(invertible(draw, 2, 2, complex=True), "fro"),
        call(draw(0, 0).detach()), call(draw(2, 0, 0).detach(), 1),
    ],
    module="torch.linalg", unclaimed={**COMPOSED, "gradient_equals_torch": FAILS, "second_order_equals_torch": FAILS},
    out="cast",
)  # fmt: skip
def cond(input: Any, p: Any = None) -> Any:
    """How much solving with a matrix can magnify errors: its norm times that of its inverse.

    `p` names the norm: 2 (the default: the largest singular value per smallest), -2, "fro", "nuc", 1, -1, inf, -inf.

    >>> import pellucid as torch
    >>> torch.linalg.cond(torch.tensor([[4.0, 0.0], [0.0, 2.0]]))
    tensor(2.)
    """
    expect(input.ndim >= 2, "linalg.cond: The input tensor must have at least 2 dimensions.")
    expect(p in BY_VALUES or p in BY_NORMS, f"linalg.cond got an invalid norm type: {p}")
    if p in BY_NORMS or p == "nuc":
        expect_square(f"linalg.cond(ord={p})", input)
    if not math.prod(input.shape):
        expect_singular_values(input)
        return sum_row(svdvals_row(input), (input.ndim - 2,), False)
    if p in BY_VALUES:
        expect_singular_values(input)
        return BY_VALUES[p](singular_values(input))
    return _by_norms(input, p)


def _by_norms(A: Any, p: Any) -> Any:
    """A singular matrix has an inverse of infinite norm, and so an infinite condition number."""
    expect_factorable("linalg.inv", A)
    inverse, info = inv_ex_row(A, None)
    inverse = where(as_column(as_column(info)) > 0, math.inf, inverse)
    return nan_to_num(matrix_norm(A, p) * matrix_norm(inverse, p), math.inf, math.inf, -math.inf)
