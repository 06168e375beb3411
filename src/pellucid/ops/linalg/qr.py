"""QR: A = Q R with orthonormal columns in Q and an upper triangular R; and geqrf, which leaves Q as reflectors.

With C = Qᴴ dA R⁻¹ = Qᴴ dQ + dR R⁻¹, a skew-Hermitian part and an upper triangular one with real diagonal, both follow
from C alone: dR = U(C) R and dQ = dA R⁻¹ - Q U(C), where U folds the lower triangle onto the upper one. A wide matrix
A = [X Y] is Q [R V]: the decomposition of X, and V = Qᴴ Y.
"""

from typing import Any

import numpy as np

from pellucid import return_types
from pellucid.core.primitive import general
from pellucid.core.record import bind
from pellucid.core.tensor import wrap
from pellucid.ops.arguments import expect, refusal, underivable
from pellucid.ops.diagonal import tril_row, triu_row
from pellucid.ops.join import cat_row
from pellucid.ops.linalg.decompositions import added, expect_kernel, on_diagonal, plain, real_part
from pellucid.ops.linalg.matrices import adjoint, diagonal_of, expect_floating, expect_matrix, expect_wide, matmul
from pellucid.ops.linalg.solve import solve_triangular_row
from pellucid.ops.operation import Draw, Sample, call, operation
from pellucid.ops.slicing import slice_row

Pair = tuple[Any, Any]


def _qr(a: np.ndarray, mode: str) -> tuple[np.ndarray, np.ndarray]:
    return np.linalg.qr(a, mode)  # type: ignore[call-overload, no-any-return]


# --- derivatives


def _folded(c: Any) -> Any:
    """U: the part above the diagonal, plus that below it, conjugated and transposed; of the diagonal the real part."""
    return triu_row(c, 1) + adjoint(tril_row(c, -1)) + on_diagonal(real_part(diagonal_of(c)))


def _unfolded(m: Any) -> Any:
    """The adjoint of U: the part above the diagonal in both triangles."""
    above = triu_row(m, 1)
    return above + adjoint(above) + on_diagonal(real_part(diagonal_of(m)))


def _from_right(a: Any, r: Any) -> Any:
    """a R⁻ᴴ."""
    return adjoint(solve_triangular_row(r, adjoint(a), True, False))


def _columns(a: Any, part: slice) -> Any:
    return slice_row(a, (..., part))


def _narrow_back(gq: Any, gr: Any, q: Any, r: Any) -> Any:
    """The gradient of A, for A = Q R with square R."""
    m = added(None if gr is None else matmul(gr, adjoint(r)), None if gq is None else -matmul(adjoint(q), gq))
    return _from_right(added(matmul(q, _unfolded(m)), gq), r)


def _qr_back(g: Any, y: Any, mode: str) -> Any:
    (gq, gr), (q, r) = g, (plain(part) for part in y)
    rows, columns = r.shape[-2:]
    _expect_differentiable(mode, q.shape[-2], columns)
    if rows == columns:
        return (_narrow_back(gq, gr, q, r),)
    if gr is None:
        gr = r * 0
    left, right = slice(rows), slice(rows, None)
    ours, theirs = _columns(gr, left), _columns(gr, right)
    gq = added(matmul(q, matmul(_columns(r, right), adjoint(theirs))), gq)
    first = _narrow_back(gq, ours, q, _columns(r, left))
    return (cat_row((first, matmul(q, theirs)), first.ndim - 1),)


def _narrow_jvp(t: Any, q: Any, r: Any) -> Pair:
    per_r = adjoint(solve_triangular_row(adjoint(r), adjoint(t), False, False))
    upper = _folded(matmul(adjoint(q), per_r))
    return per_r - matmul(q, upper), matmul(upper, r)


def _qr_jvp(tangents: Any, y: Any, inputs: Any, params: Any) -> Pair:
    (t,), (q, r) = tangents, y
    rows, columns = r.shape[-2:]
    _expect_differentiable(params[0], q.shape[-2], columns)
    if rows == columns:
        return _narrow_jvp(t, q, r)
    left, right = slice(rows), slice(rows, None)
    tq, tr = _narrow_jvp(_columns(t, left), q, _columns(r, left))
    rest = matmul(adjoint(tq), matmul(q, _columns(r, right))) + matmul(adjoint(q), _columns(t, right))
    return tq, cat_row((tr, rest), tr.ndim - 1)


def _expect_differentiable(mode: str, rows: int, columns: int) -> None:
    if mode == "complete" and rows > columns:
        raise refusal(
            RuntimeError,
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols.",
            "the last columns of Q are any that complete a basis",
            "mode='reduced'",
        )


def _refuse_r(*_: Any) -> Any:
    raise refusal(
        RuntimeError,
        "The derivative of linalg.qr depends on Q, which is not computed when mode='r'.",
        try_="mode='reduced'",
    )


# qr_row(a, mode): Q and R; the mode is "reduced" or "complete".
qr_row = bind(
    general(
        "linalg_qr", _qr, None, pullback=_qr_back, jvp=_qr_jvp, outputs=2, dtypes="equal",
        batch=lambda op, a, mode: op(a, mode),
    )
)  # fmt: skip
r_row = bind(
    general(
        "linalg_qr_r", lambda a: np.linalg.qr(a, "r"), lambda g: _refuse_r(), jvp=_refuse_r, dtypes="equal",
        batch=lambda op, a: op(a), grad_name="LinalgQrBackward0",
    )
)  # fmt: skip


# --- the public functions


def _qr_samples(draw: Draw) -> list[Sample]:
    shapes = [(3, 3), (4, 2), (2, 4), (2, 3, 2), (2, 2, 3), (0, 3), (3, 0), (0, 2, 2), (1, 1)]
    return [
        *(call(draw(*shape)) for shape in shapes),
        call(draw.complex(3, 2)), call(draw.complex(2, 2, 3)), call(draw.complex(2, 2)),
    ]  # fmt: skip


@operation(
    samples=lambda draw: [
        *_qr_samples(draw), call(draw(2, 3), mode="complete"), call(draw(3, 3), "complete"),
        call(draw(2, 3, 2).detach(), "complete"), call(draw(2, 3, 2).detach(), "r"),
    ],
    module="torch.linalg",
)  # fmt: skip
def qr(A: Any, mode: str = "reduced") -> Any:
    """Q with orthonormal columns and an upper triangular R whose product is A.

    The mode is "reduced", "complete" (a square Q) or "r" (R alone).

    >>> import pellucid as torch
    >>> Q, R = torch.linalg.qr(torch.tensor([[3.0, 1.0], [4.0, 2.0]]))
    >>> Q @ R
    tensor([[3.0000, 1.0000],
            [4.0000, 2.0000]])
    """
    return return_types.linalg_qr(*_factors(A, mode))


def _factors(A: Any, mode: str) -> Pair:
    if mode not in ("reduced", "complete", "r"):
        modes = "'reduced' (default), 'r', or 'complete'"
        raise refusal(RuntimeError, f"qr received unrecognized mode '{mode}' but expected one of {modes}")
    expect_matrix("linalg.qr", A)
    expect_floating("linalg.qr", A)
    expect_wide("linalg.qr", A, "geqrf_cpu")
    if mode == "r":
        return wrap(np.zeros(0, A.array.dtype)), r_row(A)
    return qr_row(A, mode)


@operation(samples=_qr_samples, name="qr")
def old_qr(input: Any, some: bool = True) -> Any:
    """Q with orthonormal columns and an upper triangular R whose product is the input; `linalg.qr` is its newer form.

    >>> import pellucid as torch
    >>> torch.qr(torch.ones(3, 2), some=False).Q.shape
    torch.Size([3, 3])
    """
    return return_types.qr(*_factors(input, "reduced" if some else "complete"))


# --- reflectors


def _geqrf(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    reflectors, tau = np.linalg.qr(a, "raw")
    return reflectors.swapaxes(-1, -2), tau


geqrf_row = bind(
    general(
        "geqrf", _geqrf, None, pullback=underivable("geqrf"), jvp=underivable("geqrf"), outputs=2, dtypes="equal",
        batch=lambda op, a: op(a),
    )
)  # fmt: skip


@operation(
    samples=lambda draw: [
        *(call(draw(*shape).detach()) for shape in [(3, 3), (4, 2), (2, 4), (2, 3, 2), (0, 3), (3, 0), (0, 2, 2)]),
        call(draw.complex(3, 2).detach()),
    ],
    out="cast",
)  # fmt: skip
def geqrf(input: Any) -> Any:
    """R in the upper triangle and, below it, the reflectors that make Q; see `linalg.householder_product`.

    >>> import pellucid as torch
    >>> a, tau = torch.geqrf(torch.tensor([[3.0], [4.0]]))
    >>> a, tau
    (tensor([[-5.0000],
            [ 0.5000]]), tensor([1.6000]))
    """
    expect(input.ndim >= 2, "torch.geqrf: input must have at least 2 dimensions.")
    expect_kernel(input, "geqrf_cpu")
    return return_types.geqrf(*geqrf_row(input))
