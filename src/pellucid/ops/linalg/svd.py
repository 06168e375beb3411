"""Singular values: A = U S Vᴴ, with orthonormal columns in U and V.

With P = Uᴴ dA V the values move by the real diagonal of P, and the vectors by Ω = Uᴴ dU, which follows from P S + S Pᴴ
= Ω ∘ E, E the differences of the squared values (and likewise for V). Equal values have no derivative of their vectors.
`svdvals` computes no vectors where nobody will ask for a gradient. NumPy's kernel, LAPACK's gesdd, takes whole batches.
"""

from typing import Any

import numpy as np

from pellucid import return_types
from pellucid.core.primitive import general
from pellucid.core.record import bind
from pellucid.core.tensor import wrap
from pellucid.errors import LinAlgError
from pellucid.ops.arguments import expect, refusal
from pellucid.ops.linalg.decompositions import (
    FREE_SIGNS,
    added,
    along_columns,
    differences,
    expect_free_phase,
    hermitian_sum,
    is_complex,
    on_diagonal,
    per_gap,
    plain,
    real_part,
    skew_difference,
    turning,
    wants_gradient,
)
from pellucid.ops.linalg.matrices import (
    adjoint,
    as_column,
    diagonal_of,
    expect_floating,
    expect_matrix,
    expect_wide,
    matmul,
)
from pellucid.ops.operation import Draw, Sample, call, operation
from pellucid.ops.slicing import slice_row, unslice_row


def _svd(a: np.ndarray, full: bool, vectors: bool = True) -> Any:
    try:
        return np.linalg.svd(a, full, vectors)
    except np.linalg.LinAlgError:
        why = "is ill-conditioned or has repeated values" if np.isfinite(a).all() else "contained non-finite values"
        what = f"linalg.svd: The algorithm failed to converge because the input matrix {why}."
        raise refusal(LinAlgError, what) from None


def _values(a: np.ndarray) -> Any:
    return _svd(a, False, False)


# --- derivatives


def _columns(a: Any, count: int) -> Any:
    return slice_row(a, (..., slice(count)))


def _rows(a: Any, count: int) -> Any:
    return slice_row(a, (..., slice(count), slice(None)))


def _squared_gaps(s: Any) -> Any:
    """s[j]² - s[i]², as a product: the difference of two squares would lose digits."""
    return differences(s) * (along_columns(s) + as_column(s))


def _beyond(a: Any, basis: Any) -> Any:
    """What of the columns of a lies outside of the span of a basis."""
    return a - matmul(basis, matmul(adjoint(basis), a))


def _thin_back(gu: Any, gs: Any, gv: Any, u: Any, s: Any, v: Any) -> Any:
    """The gradient of A = U S Vᴴ; gu and gv (not both) may be None, and gs."""
    left, right = (None if g is None else matmul(adjoint(x), g) for g, x in ((gu, u), (gv, v)))
    expect_free_phase("svd_backward", "singular vectors", *(diagonal_of(x) for x in (left, right) if x is not None))
    total = matmul(u, matmul(_inner_gradient(left, gs, right, s), adjoint(v)))
    if gu is not None and u.shape[-2] > s.shape[-1]:
        total = total + matmul(_beyond(gu / along_columns(s), u), adjoint(v))
    if gv is not None and v.shape[-2] > s.shape[-1]:
        total = total + matmul(u, adjoint(_beyond(gv / along_columns(s), v)))
    return total


def _inner_gradient(left: Any, gs: Any, right: Any, s: Any) -> Any:
    """The gradient between U and Vᴴ, from left = Uᴴgᵤ, that of the values, and right = Vᴴgᵥ."""
    gaps = _squared_gaps(s)
    inner = None if gs is None else on_diagonal(gs)
    if left is not None:
        inner = added(per_gap(skew_difference(left), gaps) * along_columns(s), inner)
        if is_complex(left):
            inner = inner + on_diagonal(turning(diagonal_of(left)) / s)
    if right is not None:
        inner = added(as_column(s) * per_gap(skew_difference(right), gaps), inner)
    return inner


def _svd_back(g: Any, y: Any, full: bool) -> Any:
    (gu, gs, gvh), (u, s, vh) = g, (plain(part) for part in y)
    if full:  # what completes the bases has no derivative
        size = s.shape[-1]
        u, gu = _columns(u, size), None if gu is None else _columns(gu, size)
        vh, gvh = _rows(vh, size), None if gvh is None else _rows(gvh, size)
    if gu is None and gvh is None:
        return (matmul(u * along_columns(gs), vh),)
    return (_thin_back(gu, gs, None if gvh is None else adjoint(gvh), u, s, adjoint(vh)),)


def _thin_jvp(t: Any, u: Any, s: Any, v: Any) -> tuple[Any, Any, Any]:
    """How U, S and V move when A = U S Vᴴ moves by t."""
    moved = matmul(adjoint(u), matmul(t, v))
    gaps = _squared_gaps(s)
    left = per_gap(hermitian_sum(moved * along_columns(s)), gaps)
    right = per_gap(hermitian_sum(as_column(s) * moved), gaps)
    if is_complex(t):
        turn = on_diagonal(turning(diagonal_of(moved)) / (2 * s))
        left, right = left + turn, right - turn
    tu, tv = matmul(u, left), matmul(v, right)
    if u.shape[-2] > s.shape[-1]:
        tu = tu + _beyond(matmul(t, v) / along_columns(s), u)
    if v.shape[-2] > s.shape[-1]:
        tv = tv + _beyond(matmul(adjoint(t), u) / along_columns(s), v)
    return tu, real_part(diagonal_of(moved)), tv


def _svd_jvp(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    (u, s, vh), size = y, y[1].shape[-1]
    if not params[0]:
        tu, ts, tv = _thin_jvp(tangents[0], u, s, adjoint(vh))
        return tu, ts, adjoint(tv)
    tu, ts, tv = _thin_jvp(tangents[0], _columns(u, size), s, adjoint(_rows(vh, size)))
    completed = unslice_row(adjoint(tv), tuple(vh.shape), (..., slice(size), slice(None)))
    return unslice_row(tu, tuple(u.shape), (..., slice(size))), ts, completed


def _values_rule(g: Any, a: Any) -> Any:
    u, _, vh = svd_row(plain(a), False)
    return matmul(u * along_columns(g), vh)


def _values_jvp(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    u, _, vh = svd_row(inputs[0], False)
    return real_part(diagonal_of(matmul(adjoint(u), matmul(tangents[0], adjoint(vh)))))


# svd_row(a, full): U, S and Vᴴ; `full` completes U and V to square matrices.
svd_row = bind(
    general(
        "linalg_svd", _svd, None, pullback=_svd_back, jvp=_svd_jvp, outputs=3, dtypes="equal",
        batch=lambda op, a, full: op(a, full),
    )
)  # fmt: skip
svdvals_row = bind(
    general(
        "linalg_svdvals", _values, _values_rule, jvp=_values_jvp, dtypes="equal", batch=lambda op, a: op(a),
        grad_name="LinalgSvdBackward0",
    )
)  # fmt: skip


def singular_values(A: Any) -> Any:
    """Singular values, with the vectors that backward needs if there may be one."""
    return svd_row(A, False)[1] if wants_gradient(A) else svdvals_row(A)


# --- the public functions

SHAPES = [(3, 3), (4, 2), (2, 4), (2, 3, 2), (2, 2, 3), (0, 3), (3, 0), (0, 2, 2), (1, 1)]


def _svd_samples(draw: Draw, thin: bool) -> list[Sample]:
    """Square matrices with all vectors, others without those that complete a basis: they have no derivative."""
    wide = [(4, 2), (2, 4), (2, 3, 2), (2, 2, 3), (0, 3), (3, 0)]
    return [
        *(call(draw(*shape)) for shape in [(3, 3), (0, 2, 2), (1, 1)]),
        *(call(draw(*shape), thin) for shape in wide), *(call(draw(*shape).detach(), not thin) for shape in wide),
    ]  # fmt: skip


def expect_singular_values(A: Any) -> None:
    """Refuse what has no singular values: vectors, integers, 16-bit floats."""
    expect_matrix("linalg.svd", A)
    expect_floating("linalg.svd", A)
    expect_wide("linalg.svd", A, "linalg_svd_cpu")


@operation(samples=lambda draw: _svd_samples(draw, False), module="torch.linalg", unclaimed=FREE_SIGNS)
def svd(A: Any, full_matrices: bool = True, *, driver: str | None = None) -> Any:
    """Singular values, largest first, and singular vectors: A = U diag(S) Vh; U and Vh are square if `full_matrices`.

    >>> import pellucid as torch
    >>> U, S, Vh = torch.linalg.svd(torch.tensor([[3.0, 0.0], [0.0, -2.0]]))
    >>> S
    tensor([3., 2.])
    """
    what = "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
    expect(driver is None, what)
    expect_singular_values(A)
    return return_types.linalg_svd(*svd_row(A, bool(full_matrices)))


@operation(
    samples=lambda draw: [
        *(call(draw(*shape)) for shape in SHAPES), call(draw.complex(3, 2)), call(draw.complex(2, 2, 2)),
        call(draw(2, 3).detach()),
    ],
    module="torch.linalg",
)  # fmt: skip
def svdvals(A: Any, *, driver: str | None = None) -> Any:
    """Singular values, largest first.

    >>> import pellucid as torch
    >>> torch.linalg.svdvals(torch.tensor([[3.0, 0.0], [0.0, -2.0]]))
    tensor([3., 2.])
    """
    expect_singular_values(A)
    return singular_values(A)


@operation(
    samples=lambda draw: [*_svd_samples(draw, True), call(draw(3, 2), compute_uv=False)], name="svd",
    unclaimed=FREE_SIGNS,
)  # fmt: skip
def old_svd(input: Any, some: bool = True, compute_uv: bool = True) -> Any:
    """Singular values and vectors: input = U diag(S) Vᴴ; `linalg.svd`, which returns Vᴴ, is its newer form.

    >>> import pellucid as torch
    >>> torch.svd(torch.tensor([[3.0, 0.0], [0.0, -2.0]])).S
    tensor([3., 2.])
    """
    dimensions = f"input should have at least 2 dimensions, but has {input.ndim} dimensions instead"
    expect(input.ndim >= 2, f"linalg.svd: {dimensions}")
    expect_singular_values(input)
    if not compute_uv:
        *batch, rows, columns = input.shape
        u, v = (wrap(np.zeros((*batch, n, n), input.array.dtype)) for n in (rows, columns))
        return return_types.svd(u, singular_values(input), v)
    u, s, vh = svd_row(input, not some)
    return return_types.svd(u, s, vh.mH)
