"""The largest singular values only, found with random vectors: svd_lowrank, and principal components from it.

A few random combinations of the columns of A span almost the same space as its largest singular vectors; multiplying
by A Aᴴ some times makes that better. In this small space the decomposition is cheap. All of it is made of products
and other decompositions, so it needs no derivative of its own.
"""

from typing import Any

from pellucid.core.flags import Truth
from pellucid.ops.linalg.decompositions import FREE_SIGNS
from pellucid.ops.linalg.matrices import adjoint
from pellucid.ops.linalg.qr import qr
from pellucid.ops.linalg.svd import svd
from pellucid.ops.matmul import matmul
from pellucid.ops.operation import COMPOSED, call, operation
from pellucid.ops.random import randn
from pellucid.ops.reduce import mean

Factors = tuple[Any, Any, Any]


def _basis(A: Any, count: int, rounds: int) -> Any:
    """Orthonormal columns that span nearly the space of the largest left singular vectors."""
    q = qr(matmul(A, randn(A.shape[-1], count, dtype=A.dtype))).Q
    for _ in range(rounds):
        q = qr(matmul(adjoint(A), q)).Q
        q = qr(matmul(A, q)).Q
    return q


def _largest(A: Any, count: int, rounds: int) -> Factors:
    if A.shape[-2] < A.shape[-1]:
        v, s, u = _largest(adjoint(A), count, rounds)
        return u, s, v
    q = _basis(A, count, rounds)
    u, s, vh = svd(matmul(adjoint(q), A), full_matrices=False)
    return matmul(q, u), s, adjoint(vh)


def _rows_and_columns(A: Any) -> tuple[int, int]:
    *_, rows, columns = A.shape
    return rows, columns


UNCLAIMED = {**COMPOSED, **FREE_SIGNS, "capture_replays": "a capture refuses to draw random numbers"}


@operation(
    samples=lambda draw: [
        call(draw(3, 3), 3), call(draw(4, 2), 2), call(draw(2, 4), q=2, niter=1), call(draw(2, 3, 2), 2),
        call(draw(4, 3), 2, niter=0), call(draw(3, 2), 2, M=draw(1, 2)), call(draw(4, 2), 2, 3),
    ],
    methods=(), unclaimed=UNCLAIMED,
)  # fmt: skip
def svd_lowrank(A: Any, q: int | None = 6, niter: int | None = 2, M: Any = None) -> Factors:
    """The q largest singular values of A - M and their vectors, nearly: U, S and V, by random numbers.

    >>> import pellucid as torch
    >>> U, S, V = torch.svd_lowrank(torch.ones(50, 40), q=1)
    >>> S.round()
    tensor([45.])
    """
    _rows_and_columns(A)
    return _largest(A if M is None else A - M, 6 if q is None else q, 2 if niter is None else niter)


@operation(
    samples=lambda draw: [
        call(draw(4, 3), 2), call(draw(4, 2), 2), call(draw(3, 4), q=2, niter=1), call(draw(2, 4, 2), 2),
        call(draw(4, 3), 3, center=False), call(draw(4, 2), niter=0),
    ],
    methods=(), unclaimed=UNCLAIMED,
)  # fmt: skip
def pca_lowrank(A: Any, q: int | None = None, center: Truth = True, niter: int = 2) -> Factors:
    """Principal components: the q largest singular values, nearly, of A less the mean of its rows, and their vectors.

    >>> import pellucid as torch
    >>> data = torch.tensor([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
    >>> torch.pca_lowrank(data, q=1)[1]
    tensor([2.])
    """
    smaller = min(_rows_and_columns(A))
    q = min(6, smaller) if q is None else q
    if not 0 <= q <= smaller:
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={smaller}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return _largest(A - mean(A, -2, keepdim=True) if center else A, q, niter)
