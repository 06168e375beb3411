"""LU factorisation: A = P L U with L lower triangular (ones on its diagonal), U upper triangular, P a permutation.

One row packs both factors into one matrix, as LAPACK does; everything else is made of it. Of a square A = P L U the
gradient is P L⁻ᴴ (tril(Lᴴ gL, -1) + triu(gU Uᴴ)) U⁻ᴴ. A tall or wide A is a square block and a rest that depends on
it by one triangular solve: L₂ = A₂ U⁻¹ or U₂ = L⁻¹ A₂.
"""

from typing import Any

import numpy as np

from pellucid import return_types
from pellucid.core.blas import lu_factors
from pellucid.core.flags import Truth
from pellucid.core.primitive import constant, general
from pellucid.core.record import bind
from pellucid.core.tensor import wrap
from pellucid.ops.arguments import expect, name_of, refusal, refuse
from pellucid.ops.diagonal import tril_row, triu_row
from pellucid.ops.join import cat_row
from pellucid.ops.linalg.matrices import (
    INT32,
    adjoint,
    each_matrix,
    expect_matrix,
    expect_square,
    expect_wide,
    failure,
    identity_row,
    invertible,
)
from pellucid.ops.linalg.solve import expect_fitting, solve_triangular_row
from pellucid.ops.matmul import swap
from pellucid.ops.operation import COMPOSED, Draw, Sample, call, operation
from pellucid.ops.slicing import slice_row

ZERO_PIVOT = (
    "U[{0},{0}] is zero and using it on lu_solve would result in a division by zero. If you still want to perform the "
    "factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
)


# --- the factors


def _lu_factor(a: np.ndarray, name: str | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    batch, rank = a.shape[:-2], min(a.shape[-2:])
    lu, pivots, infos = np.array(a), np.zeros((*batch, rank), INT32), np.zeros(batch, INT32)
    if not a.size:
        return lu, pivots, infos
    for index, (matrix,) in each_matrix(a):
        lu[index], pivots[index], infos[index] = lu_factors(matrix)
    if name is not None and infos.any():
        raise failure(name, infos, ZERO_PIVOT)
    return lu, pivots, infos


def _blocks(a: Any) -> tuple[Any, Any, Any]:
    """The square block, what is below it and what is right of it; None where there is nothing."""
    m, n = a.shape[-2:]
    size = min(m, n)
    square = slice_row(a, (..., slice(0, size), slice(0, size))) if m != n else a
    below = slice_row(a, (..., slice(size, m), slice(None))) if m > size else None
    right = slice_row(a, (..., slice(None), slice(size, n))) if n > size else None
    return square, below, right


def _joined(square: Any, below: Any, right: Any) -> Any:
    """The inverse of `_blocks`."""
    if below is not None:
        return cat_row((square, below), square.ndim - 2)
    return square if right is None else cat_row((square, right), square.ndim - 1)


def _lower(lu: Any) -> Any:
    """L of a packed square matrix."""
    return tril_row(lu, -1) + identity_row(lu)


def _per_upper(a: Any, lu: Any) -> Any:
    """a U⁻ᵀ; the rule sees conjugates, so that this is U⁻ᴴ there."""
    return swap(solve_triangular_row(lu, swap(a), True, False))


def _lu_back(g: Any, y: Any, name: str | None) -> Any:
    lu, below, right = _blocks(y[0])
    (square, g_below, g_right), permutation = _blocks(g[0]), permutation_row(y[1], *_rows(y[0]))
    of_lower, of_upper = tril_row(square, -1), triu_row(square, 0)
    back = swap(lu)
    if below is not None:
        g_below = _per_upper(g_below, lu)
        of_upper = of_upper - swap(below) @ g_below
    if right is not None:
        g_right = solve_triangular_row(back, g_right, True, True)
        of_lower = of_lower - g_right @ swap(right)
    inside = tril_row(swap(_lower(lu)) @ of_lower, -1) + triu_row(of_upper @ swap(triu_row(lu, 0)), 0)
    of_square = _per_upper(solve_triangular_row(back, inside, True, True), lu)
    return (permutation @ _joined(of_square, g_below, g_right),)


def _rows(a: Any) -> tuple[int, np.dtype]:
    """How many rows a matrix has, and its dtype: what a permutation of them is made with."""
    return a.shape[-2], np.dtype(getattr(a, "array", a).dtype)


def _lu_jvp(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    lu, below, right = _blocks(y[0])
    square, t_below, t_right = _blocks(swap(permutation_row(y[1], *_rows(y[0]))) @ tangents[0])
    lower, upper = _lower(lu), triu_row(lu, 0)
    inside = swap(solve_triangular_row(swap(lu), swap(solve_triangular_row(lu, square, False, True)), False, False))
    of_lower, of_upper = lower @ tril_row(inside, -1), triu_row(inside, 0) @ upper
    if below is not None:
        t_below = swap(solve_triangular_row(swap(lu), swap(t_below - below @ of_upper), False, False))
    if right is not None:
        t_right = solve_triangular_row(lu, t_right - of_lower @ right, False, True)
    return _joined(of_lower + of_upper, t_below, t_right), None, None


# lu_factor_row(a, name): L and U in one matrix, the rows that were exchanged (counted from 1), and for each matrix 0
# or which diagonal element of U is zero; an error then if there is a name.
lu_factor_row = bind(
    general(
        "linalg_lu_factor_ex", _lu_factor, None, pullback=_lu_back, jvp=_lu_jvp,
        outputs=3, dtypes="equal", batch=lambda op, a, name: op(a, name),
    )
)  # fmt: skip


def _permutation(pivots: np.ndarray, rows: int, dtype: np.dtype) -> np.ndarray:
    """The matrix P of A = P L U: one exchange of rows after the other, for all of a batch at once."""
    if pivots.size and not (pivots.min() > 0 and pivots.max() <= rows):
        what = "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
        raise refusal(RuntimeError, f"{what} Did you properly pass the result of lu_factor?")
    batch = pivots.shape[:-1]
    flat = pivots.reshape(int(np.prod(batch)), pivots.shape[-1])
    order, each = np.tile(np.arange(rows), (len(flat), 1)), np.arange(len(flat))
    for i in range(flat.shape[1]):
        other = flat[:, i] - 1
        moved = order[each, other]
        order[each, other] = order[:, i]
        order[:, i] = moved
    y = np.zeros((len(flat), rows, rows), dtype)
    np.put_along_axis(y, order[:, None, :], 1, 1)
    return y.reshape(*batch, rows, rows)


permutation_row = bind(
    constant("permutation", _permutation, 1, batch=lambda op, pivots, rows, dtype: op(pivots, rows, dtype))
)


# --- the public forms


def _factored(name: str, A: Any, pivot: bool, checked: bool) -> Any:
    size = f"Expected tensor with 2 or more dimensions. Got size: {list(A.shape)} instead"
    expect(A.ndim >= 2, f"torch.lu_factor: {size}")
    refuse(A, "biu", "\"lu_cpu\" not implemented for '{}'", NotImplementedError)
    expect_wide(name, A, "lu_cpu")
    expect(pivot, "linalg.lu_factor: LU without pivoting is not implemented on the CPU")
    return lu_factor_row(A, f"torch.{name}" if checked else None)


def _lu_samples(draw: Draw) -> list[Sample]:
    shapes = [(3, 3), (2, 4, 2), (2, 4), (1, 1), (0, 0), (0, 3, 3), (3, 0)]
    real = [call(invertible(draw, *shape)) for shape in shapes]
    return [*real, call(draw.complex(2, 3, 3)), call(draw.complex(2, 3))]


@operation(samples=_lu_samples, module="torch.linalg")
def lu_factor(A: Any, *, pivot: bool = True) -> Any:
    """L and U of every matrix, packed into one, and which rows were exchanged; `lu_solve` takes both.

    >>> import pellucid as torch
    >>> torch.linalg.lu_factor(torch.tensor([[1.0, 2.0], [2.0, 2.0]]))
    torch.return_types.linalg_lu_factor(
    LU=tensor([[2.0000, 2.0000],
            [0.5000, 1.0000]]),
    pivots=tensor([2, 2], dtype=torch.int32))
    """
    return return_types.linalg_lu_factor(*_factored("linalg.lu_factor", A, pivot, True)[:2])


@operation(samples=_lu_samples, module="torch.linalg")
def lu_factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """`lu_factor` without an error where U has a zero on its diagonal: `info` then says where.

    >>> import pellucid as torch
    >>> torch.linalg.lu_factor_ex(torch.zeros(2, 2)).info
    tensor(1, dtype=torch.int32)
    """
    return return_types.linalg_lu_factor_ex(*_factored("linalg.lu_factor_ex", A, pivot, check_errors))


@operation(samples=_lu_samples, module="torch.linalg", unclaimed=COMPOSED)
def lu(A: Any, *, pivot: bool = True) -> Any:
    """P, L and U of every matrix, with A = P @ L @ U.

    >>> import pellucid as torch
    >>> torch.linalg.lu(torch.tensor([[1.0, 2.0], [2.0, 2.0]])).U
    tensor([[2., 2.],
            [0., 1.]])
    """
    factors, pivots, _ = _factored("linalg.lu", A, pivot, False)
    return return_types.linalg_lu(permutation_row(pivots, *_rows(A)), *_unpacked(factors))


def _unpacked(factors: Any) -> tuple[Any, Any]:
    square, below, right = _blocks(factors)
    return _joined(_lower(square), below, None), _joined(triu_row(square, 0), None, right)


@operation(samples=_lu_samples, name="lu", out="any")
def torch_lu(A: Any, pivot: bool = True, get_infos: Truth = False) -> Any:
    """L and U packed into one matrix and the pivots; with `get_infos` also where it failed. See `linalg.lu_factor`.

    >>> import pellucid as torch
    >>> factors, pivots = torch.lu(torch.eye(2))
    """
    found = _factored("linalg.lu_factor", A, pivot, False)
    return tuple(found if get_infos else found[:2])


def _unpack_samples(draw: Draw) -> list[Sample]:
    pivots = [([3, 2, 3], (3, 3)), ([[2, 2], [1, 2]], (2, 4, 2)), ([2, 2], (2, 4)), ([], (0, 0)), ([1], (1, 1))]
    return [call(draw(*shape), wrap(np.array(rows, INT32))) for rows, shape in pivots]


@operation(samples=_unpack_samples, methods=(), unclaimed=COMPOSED)
def lu_unpack(LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """P, L and U of what `lu_factor` packed into one matrix.

    >>> import pellucid as torch
    >>> torch.lu_unpack(*torch.linalg.lu_factor(torch.tensor([[4.0]]))).U
    tensor([[4.]])
    """
    what = "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype."
    expect(np.dtype(LU_pivots.array.dtype) == INT32, what)
    nothing = wrap(np.empty(0, np.dtype(LU_data.array.dtype)))
    permutation = permutation_row(LU_pivots, *_rows(LU_data)) if unpack_pivots else nothing
    return return_types.lu_unpack(permutation, *(_unpacked(LU_data) if unpack_data else (nothing, nothing)))


# --- solving with the factors


def _solved(factors: Any, pivots: Any, B: Any, adjoint_system: bool) -> Any:
    permutation = permutation_row(pivots, *_rows(factors))
    if adjoint_system:
        back = adjoint(factors)
        half = solve_triangular_row(back, B, False, False)
        return permutation @ solve_triangular_row(back, half, True, True)
    half = solve_triangular_row(factors, swap(permutation) @ B, False, True)
    return solve_triangular_row(factors, half, True, False)


def _solve_samples(draw: Draw) -> list[Sample]:
    def pivots(*rows: Any) -> Any:
        return wrap(np.array(rows, INT32))

    return [
        call(invertible(draw, 3, 3), pivots(2, 3, 3), draw(3, 2)),
        call(invertible(draw, 2, 2, 2), pivots([1, 2], [2, 2]), draw(2, 2, 1)),
        call(invertible(draw, 2, 2), pivots(2, 2), draw(3, 2), left=False),
        call(invertible(draw, 2, 2), pivots(2, 2), draw(4, 2, 1), adjoint=True),
        call(invertible(draw, 2, 2, complex=True), pivots(2, 2), draw.complex(3, 2), left=False, adjoint=True),
        call(draw(0, 0), wrap(np.zeros(0, INT32)), draw(0, 2)),
    ]  # fmt: skip


@operation(samples=_solve_samples, module="torch.linalg", unclaimed=COMPOSED)
def lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    """The solution of A X = B (`left=False`: X A = B; `adjoint`: with Aᴴ) by the factors that `lu_factor` made of A.

    >>> import pellucid as torch
    >>> torch.linalg.lu_solve(*torch.linalg.lu_factor(torch.tensor([[4.0]])), torch.tensor([[2.0]]))
    tensor([[0.5000]])
    """
    name = "linalg.lu_solve"
    expect_square(f"torch.{name}", LU)
    expect_matrix(name, B, "B")
    expect_fitting(name, LU, B, left)
    types = f"found LU of type {name_of(LU)} and B of type {name_of(B)} instead"
    same = np.dtype(LU.array.dtype) == np.dtype(B.array.dtype)
    expect(same, f"{name}: Expected LU and B to have the same dtype, but {types}")
    expect(np.dtype(pivots.array.dtype) == INT32, f"{name}: pivots should be a Tensor of scalar type torch.int32")
    shapes = f"Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with shape {list(pivots.shape)}"
    expect(tuple(LU.shape[:-1]) == tuple(pivots.shape), f"{name}: {shapes} instead")
    return _solved(LU, pivots, B, adjoint) if left else _conjugated(_solved(LU, pivots, _conjugated(B), not adjoint))


_conjugated = adjoint


@operation(
    samples=lambda draw: [call(s.args[2], *s.args[:2]) for s in _solve_samples(draw) if not s.kwargs],
    name="lu_solve", unclaimed=COMPOSED,
)  # fmt: skip
def torch_lu_solve(input: Any, LU_data: Any, LU_pivots: Any) -> Any:
    """The solution of A X = input by the factors that `lu_factor` made of A: `linalg.lu_solve`.

    >>> import pellucid as torch
    >>> torch.lu_solve(torch.tensor([[2.0]]), *torch.linalg.lu_factor(torch.tensor([[4.0]])))
    tensor([[0.5000]])
    """
    return lu_solve(LU_data, LU_pivots, input)
