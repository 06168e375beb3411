"""LDL: A = L D Lᴴ (or L D Lᵀ) for Hermitian (or symmetric) A that need not be positive-definite, and solving with it.

D has blocks of one and of two rows; a negative pivot marks two. L and D share one matrix, and the pivots are counted
from one, as LAPACK's sytrf and hetrf leave them. As in PyTorch there are no derivatives: `linalg.solve` has them.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs

from pellucid import return_types
from pellucid.core.blas import one_thread
from pellucid.core.primitive import general
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor
from pellucid.ops.arguments import expect, name_of, refusal, underivable
from pellucid.ops.linalg.decompositions import symmetric
from pellucid.ops.linalg.matrices import (
    INT32,
    each_matrix,
    expect_floating,
    expect_same_dtype,
    expect_square,
    expect_wide,
    failure,
)
from pellucid.ops.operation import Draw, Sample, call, operation
from pellucid.ops.shape import aligned


@one_thread
def _factor(a: np.ndarray, hermitian: bool, name: str | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    (trf,) = get_lapack_funcs(("hetrf" if hermitian and a.dtype.kind == "c" else "sytrf",), (a,))
    factors, pivots = np.empty(a.shape, a.dtype), np.empty(a.shape[:-1], INT32)
    infos = np.zeros(a.shape[:-2], INT32)
    for index, (matrix,) in each_matrix(a if a.size else a[:0]):
        factors[index], pivots[index], infos[index] = trf(matrix, lower=1)
    if name is not None and infos.any():
        raise failure(name, infos, "The factorization has a zero on the diagonal of D, at {}: D is singular.")
    return np.tril(factors), pivots, infos


# ldl_factor_row(a, hermitian, name): L and D in one matrix, pivots, and 0 or where D is singular; with a name the
# error instead.
ldl_factor_row = bind(
    general(
        "linalg_ldl_factor_ex", _factor, None, outputs=3, dtypes="equal",
        pullback=underivable("linalg_ldl_factor_ex"), jvp=underivable("linalg_ldl_factor_ex"),
        batch=lambda op, a, hermitian, name: op(a, hermitian, name),
    )
)  # fmt: skip


def _blocks(pivots: np.ndarray) -> Iterator[tuple[slice, slice, list[int]]]:
    """The rows of each block of D, those below it, and the two rows that were exchanged for it."""
    first = 0
    while first < len(pivots):
        end = first + (1 if pivots[first] > 0 else 2)
        yield slice(first, end), slice(end, None), [end - 1, abs(int(pivots[first])) - 1]
        first = end


def _divided(x: np.ndarray, block: np.ndarray) -> np.ndarray:
    """A block of one or two rows, solved without complaint about a singular one."""
    if len(block) == 1:
        return x / block
    (a, b), (c, d) = block
    return np.array([[d, -b], [-c, a]]) @ x / (a * d - b * c)  # type: ignore[no-any-return]


def _solve_one(factors: np.ndarray, pivots: np.ndarray, right: np.ndarray, hermitian: bool) -> np.ndarray:
    """Forward through L and D, then back through Lᴴ, with each exchange of rows at its turn."""
    x, blocks = right.copy(), list(_blocks(pivots))
    turned = factors.conj().T if hermitian else factors.T
    whole = factors + np.triu(turned, 1)
    for block, below, rows in blocks:
        x[rows] = x[rows[::-1]]
        x[below] -= factors[below, block] @ x[block]
        x[block] = _divided(x[block], whole[block, block])
    for block, below, rows in reversed(blocks):
        x[block] -= turned[block, below] @ x[below]
        x[rows] = x[rows[::-1]]
    return x


def _solve(factors: np.ndarray, pivots: np.ndarray, b: np.ndarray, hermitian: bool) -> np.ndarray:
    batch = np.broadcast_shapes(factors.shape[:-2], b.shape[:-2])
    y = np.empty(batch + b.shape[-2:], b.dtype)
    if y.size:
        for index, (matrix, order, right) in each_matrix(factors, pivots[..., None], b):
            y[index] = _solve_one(matrix, order[:, 0], right, hermitian)
    return y


def _solve_batched(op: Any, factors: Any, pivots: Any, b: Any, hermitian: bool) -> Any:
    rank = max(factors.ndim, b.ndim) - 1
    return op(aligned(factors, rank), aligned(pivots, rank - 1), aligned(b, rank), hermitian)


ldl_solve_row = bind(
    general(
        "linalg_ldl_solve", _solve, None, None, None, batch=_solve_batched,
        pullback=underivable("linalg_ldl_solve"), jvp=underivable("linalg_ldl_solve"),
    )
)  # fmt: skip


# --- the public functions


def _samples(draw: Draw) -> list[Sample]:
    return [
        *(call(symmetric(draw, *shape).detach()) for shape in [(3, 3), (2, 4, 4), (1, 1), (0, 0), (0, 2, 2)]),
        call(symmetric(draw, 3, 3, complex=True).detach(), hermitian=True), call(draw.complex(3, 3).detach()),
    ]  # fmt: skip


@operation(samples=_samples, module="torch.linalg")
def ldl_factor(input: Any, *, hermitian: bool = False) -> Any:
    """L and D of A = L D Lᵀ (`hermitian`: L D Lᴴ) in one matrix, and the pivots; for `ldl_solve`.

    >>> import pellucid as torch
    >>> torch.linalg.ldl_factor(torch.tensor([[2.0, 4.0], [4.0, 1.0]])).pivots
    tensor([-2, -2], dtype=torch.int32)
    """
    return return_types.linalg_ldl_factor(*_factored(input, hermitian, "torch.linalg.ldl_factor")[:2])


@operation(samples=_samples, module="torch.linalg")
def ldl_factor_ex(input: Any, *, hermitian: bool = False, check_errors: bool = False) -> Any:
    """`ldl_factor` without an error where D is singular: `info` is then not 0.

    >>> import pellucid as torch
    >>> torch.linalg.ldl_factor_ex(torch.zeros(2, 2)).info
    tensor(1, dtype=torch.int32)
    """
    name = "torch.linalg.ldl_factor_ex" if check_errors else None
    return return_types.linalg_ldl_factor_ex(*_factored(input, hermitian, name))


def _factored(A: Any, hermitian: bool, name: str | None) -> tuple[Any, Any, Any]:
    expect_square("torch.linalg.ldl_factor_ex", A)
    expect_floating("torch.linalg.ldl_factor_ex", A)
    expect_wide("torch.linalg.ldl_factor_ex", A, "ldl_factor_kernel_cpu")
    return ldl_factor_row(A, bool(hermitian), name)  # type: ignore[no-any-return]


def _solve_samples(draw: Draw) -> list[Sample]:
    def sample(matrix: Tensor, *shape: int, hermitian: bool = False) -> Sample:
        right = draw.complex(*shape) if matrix.array.dtype.kind == "c" else draw(*shape)
        return call(*ldl_factor(matrix.detach(), hermitian=hermitian), right.detach(), hermitian=hermitian)

    return [
        sample(symmetric(draw, 3, 3), 3, 2), sample(symmetric(draw, 2, 4, 4), 2, 4, 1), sample(draw(0, 0), 0, 2),
        sample(symmetric(draw, 3, 3), 2, 3, 2), sample(symmetric(draw, 3, 3, complex=True), 3, 2, hermitian=True),
        sample(draw.complex(3, 3), 3, 1), sample(draw(0, 2, 2), 0, 2, 1),
    ]  # fmt: skip


@operation(samples=_solve_samples, module="torch.linalg")
def ldl_solve(LD: Any, pivots: Any, B: Any, *, hermitian: bool = False) -> Any:
    """The solution of A X = B, where A is given by what `ldl_factor` returns.

    >>> import pellucid as torch
    >>> factors = torch.linalg.ldl_factor(torch.tensor([[0.0, 2.0], [2.0, 0.0]]))
    >>> torch.linalg.ldl_solve(*factors, torch.tensor([[2.0], [4.0]]))
    tensor([[2.],
            [1.]])
    """
    name = "torch.linalg.ldl_solve"
    expect_square(name, LD)
    expect_floating(name, LD)
    expect_wide(name, LD, "ldl_solve_kernel_cpu")
    expect_same_dtype(name, LD, B)
    if B.ndim < 2:
        raise refusal(IndexError, "Dimension out of range (expected to be in range of [-1, 0], but got -2)")
    size, (rows, columns) = LD.shape[-1], B.shape[-2:]
    what = f"Incompatible matrix sizes for {name}: each A matrix is {size} by {size}"
    expect(rows == size, f"{what} but each b matrix is {rows} by {columns}")
    expect(pivots.array.dtype.kind in "iu", f"{name}: Expected pivots to be integers. Got {name_of(pivots)}")
    what = f"{name}: Expected LD.shape[:-1] and pivots.shape to be the same"
    shape = list(pivots.shape)
    expect(shape == list(LD.shape[:-1]), f"{what}, but got pivots with shape {shape} instead")
    if type(pivots.array) is np.ndarray:  # under a capture the values are not for Python to look at
        places = np.abs(pivots.array)
        fit = bool(((places >= 1) & (places <= size)).all())
        expect(fit, f"{name}: Expected |pivot| >= 1 and |pivot| <= {size}, the number of rows")
    return ldl_solve_row(LD, pivots, B, bool(hermitian))
