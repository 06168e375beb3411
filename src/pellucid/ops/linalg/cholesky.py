"""Cholesky: A = L Lᴴ for Hermitian positive-definite A, and what one does with L: solving, inverting.

The gradient is that of A among the Hermitian matrices, spread evenly over both triangles, though only one is read:
with Φ the lower triangle and half the diagonal, dL = L Φ(L⁻¹ dA L⁻ᴴ). The kernel is NumPy's, which takes batches.
"""

from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs

from pellucid import return_types
from pellucid.core.blas import one_thread
from pellucid.core.primitive import general
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor
from pellucid.errors import LinAlgError
from pellucid.ops.arguments import expect, name_of, refusal
from pellucid.ops.diagonal import tril_row
from pellucid.ops.linalg.decompositions import ALSO_FORWARD, expect_kernel, hermitian_sum, plain, positive
from pellucid.ops.linalg.matrices import (
    INT32,
    adjoint,
    each_matrix,
    expect_floating,
    expect_square,
    expect_wide,
    failure,
    identity_row,
    matmul,
    paired,
)
from pellucid.ops.linalg.solve import solve_triangular_row
from pellucid.ops.operation import Draw, Sample, call, operation

WHY = (
    "The factorization could not be completed because the input is not positive-definite "
    "(the leading minor of order {} is not positive-definite)."
)

# --- the factor


def _cholesky(a: np.ndarray, upper: bool, name: str) -> np.ndarray:
    try:
        factor = np.linalg.cholesky(a, upper=upper)
        failed = bool(a.size) and bool(np.isnan(factor[..., -1, -1]).any())  # a NaN spreads to the last element
    except np.linalg.LinAlgError:
        failed = True
    if failed:
        factor, infos = _cholesky_each(a, upper)
        if infos.any():  # on the edge of positive-definite NumPy's LAPACK and SciPy's may not agree
            raise failure(name, infos, WHY)
    return factor


def _cholesky_ex(a: np.ndarray, upper: bool, name: str | None) -> tuple[np.ndarray, np.ndarray]:
    try:
        return _cholesky(a, upper, name or "linalg.cholesky"), np.zeros(a.shape[:-2], INT32)
    except LinAlgError:
        if name is not None:
            raise
        return _cholesky_each(a, upper)


@one_thread
def _cholesky_each(a: np.ndarray, upper: bool) -> tuple[np.ndarray, np.ndarray]:
    """One matrix after the other, some of them not positive-definite; `infos` says which minor is the first."""
    (potrf,) = get_lapack_funcs(("potrf",), (a,))
    factor, infos = np.empty(a.shape, a.dtype), np.zeros(a.shape[:-2], INT32)
    for index, (matrix,) in each_matrix(a):
        factor[index], infos[index] = potrf(matrix, lower=not upper)
    unnoticed = np.isnan(factor.diagonal(0, -2, -1))  # LAPACK may pass over a NaN, of which no minor is positive
    return factor, np.where((infos == 0) & unnoticed.any(-1), unnoticed.argmax(-1) + 1, infos).astype(INT32)


def _half(a: Any) -> Any:
    """Φ: the lower triangle with half the diagonal."""
    return tril_row(a, 0) * 0.5 + tril_row(a, -1) * 0.5


def _lower(factor: Any, upper: bool) -> Any:
    return adjoint(factor) if upper else factor


def _cholesky_rule(g: Any, y: Any, upper: bool, name: Any = None) -> Any:
    factor = _lower(plain(y), upper)
    inner = tril_row(matmul(adjoint(factor), _lower(g, upper)), 0)
    inner = (inner + adjoint(tril_row(inner, -1))) * 0.5
    left = solve_triangular_row(adjoint(factor), inner, True, False)
    return adjoint(solve_triangular_row(adjoint(factor), adjoint(left), True, False))


def _cholesky_jvp(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    upper = params[0]
    factor = _lower(y, upper)
    left = solve_triangular_row(factor, tangents[0], False, False)
    inner = adjoint(solve_triangular_row(factor, adjoint(left), False, False))
    return _lower(matmul(factor, _half(inner)), upper)


def factoring(name: str, grad_name: str) -> Any:
    """A row (a, upper, name): the Cholesky factor, or an error that names the caller."""
    return bind(
        general(
            name, _cholesky, _cholesky_rule, jvp=_cholesky_jvp, grad_name=grad_name, dtypes="equal",
            batch=lambda op, a, upper, name: op(a, upper, name),
        )
    )  # fmt: skip


linalg_cholesky_row = factoring("linalg_cholesky", "LinalgCholeskyExBackward0")
cholesky_row = factoring("cholesky", "CholeskyBackward0")

# cholesky_ex_row(a, upper, name): the factor and, per matrix, 0 or the order of the minor that is not positive; with
# a name the error instead.
cholesky_ex_row = bind(
    general(
        "linalg_cholesky_ex", _cholesky_ex, None,
        pullback=lambda g, y, upper, name: (_cholesky_rule(g[0], y[0], upper),),
        jvp=lambda tangents, y, inputs, params: (_cholesky_jvp(tangents, y[0], inputs, params), None),
        outputs=2, dtypes="equal", batch=lambda op, a, upper, name: op(a, upper, name),
    )
)  # fmt: skip


def _cholesky_samples(draw: Draw) -> list[Sample]:
    return [
        call(positive(draw, 3, 3)), call(positive(draw, 3, 3), upper=True), call(positive(draw, 2, 3, 3)),
        call(positive(draw, 2, 2, complex=True)), call(positive(draw, 2, 2, 2, complex=True), upper=True),
        call(draw(0, 0)), call(draw(0, 2, 2)), call(positive(draw, 1, 1)),
    ]  # fmt: skip


@operation(samples=_cholesky_samples, module="torch.linalg", unclaimed=ALSO_FORWARD)
def cholesky(input: Any, *, upper: bool = False) -> Any:
    """The lower triangular L of A = L Lᴴ (`upper`: its adjoint), for Hermitian positive-definite matrices.

    >>> import pellucid as torch
    >>> torch.linalg.cholesky(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    _expect_factorable("linalg.cholesky", input)
    return linalg_cholesky_row(input, bool(upper), "linalg.cholesky")


def _expect_factorable(name: str, A: Any) -> None:
    expect_square(name, A)
    expect_floating(name, A)
    expect_wide(name, A, "cholesky_cpu")


@operation(samples=_cholesky_samples, module="torch.linalg", unclaimed=ALSO_FORWARD)
def cholesky_ex(input: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    """`cholesky` without an error where a matrix is not positive-definite: `info` is then not 0.

    >>> import pellucid as torch
    >>> torch.linalg.cholesky_ex(torch.tensor([[1.0, 2.0], [2.0, 1.0]])).info
    tensor(2, dtype=torch.int32)
    """
    _expect_factorable("linalg.cholesky", input)
    name = "torch.linalg.cholesky_ex" if check_errors else None
    return return_types.linalg_cholesky_ex(*cholesky_ex_row(input, bool(upper), name))


@operation(samples=_cholesky_samples, name="cholesky", unclaimed=ALSO_FORWARD, out="cast")
def old_cholesky(input: Any, upper: bool = False) -> Any:
    """The lower triangular L of A = L Lᴴ (`upper`: its adjoint); `linalg.cholesky` is its newer form.

    >>> import pellucid as torch
    >>> torch.cholesky(torch.tensor([[4.0]]))
    tensor([[2.]])
    """
    expect_square("cholesky", input)
    expect_kernel(input, "cholesky_cpu")
    return cholesky_row(input, bool(upper), "cholesky")


# --- what one does with a factor


def _factor_gradient(gradient: Any, factor: Any, upper: bool) -> Any:
    """The gradient of L (or U) from that of A = L Lᴴ (or Uᴴ U)."""
    both = hermitian_sum(gradient)
    return matmul(factor, both) if upper else matmul(both, factor)


def _moved_product(tangent: Any, factor: Any, upper: bool) -> Any:
    """How A = L Lᴴ (or Uᴴ U) moves with L (or U)."""
    return hermitian_sum(matmul(adjoint(factor), tangent) if upper else matmul(tangent, adjoint(factor)))


def _solve_with(b: Any, factor: Any, upper: bool) -> Any:
    """A⁻¹ b by two triangular systems."""
    lower = _lower(factor, upper)
    return solve_triangular_row(adjoint(lower), solve_triangular_row(lower, b, False, False), True, False)


def _solve_back(g: Any, b: Any, y: Any, needs: Any, upper: bool) -> Any:
    factor = plain(b)
    right = cholesky_solve_row(g, factor, upper)
    return right, _factor_gradient(-matmul(right, adjoint(plain(y))), factor, upper) if needs[1] else None


def _solve_jvp(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    right, turn = tangents
    _, factor = inputs
    moved = None if turn is None else -matmul(_moved_product(turn, factor, *params), y)
    if right is not None:
        moved = right if moved is None else moved + right
    return cholesky_solve_row(moved, factor, *params)


# cholesky_solve_row(b, factor, upper): the solution of A X = b, for A given by its factor.
cholesky_solve_row = bind(
    general(
        "cholesky_solve", _solve_with, None, None, pullback=_solve_back, jvp=_solve_jvp, dtypes="equal", batch=paired
    )
)


def _inverse(a: Any, upper: bool) -> Any:
    half = solve_triangular_row(_lower(a, upper), identity_row(a), False, False)
    return matmul(adjoint(half), half)


def _inverse_rule(g: Any, y: Any, a: Any, upper: bool) -> Any:
    inverse = plain(y)
    return _factor_gradient(-matmul(inverse, matmul(g, inverse)), plain(a), upper)


def _inverse_jvp(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    return -matmul(y, matmul(_moved_product(tangents[0], inputs[0], *params), y))


# cholesky_inverse_row(factor, upper): the inverse of A, given by its factor.
cholesky_inverse_row = bind(
    general(
        "cholesky_inverse", _inverse, _inverse_rule, jvp=_inverse_jvp, dtypes="equal",
        batch=lambda op, a, upper: op(a, upper),
    )
)  # fmt: skip


def _triangle(draw: Draw, *shape: int, upper: bool = False, complex: bool = False) -> Tensor:
    """A sample of triangular matrices with a positive diagonal."""
    tensor = draw.complex(*shape) if complex else draw(*shape, low=-1.0, high=1.0)
    array = np.triu(tensor.array, 1) if upper else np.tril(tensor.array, -1)
    tensor.array[...] = array + (2 + tensor.array.real) * np.eye(shape[-1])
    return tensor


# PyTorch's gradient of a factor is a full matrix, though only one triangle is read.
FULL = "the gradient of a triangular factor is not cut down to its triangle, as in PyTorch"
OF_FACTORS = {"gradient_equals_differences": FULL, "second_order_equals_differences": FULL}


@operation(
    samples=lambda draw: [
        call(_triangle(draw, 3, 3)), call(_triangle(draw, 3, 3, upper=True), upper=True), call(_triangle(draw, 1, 1)),
        call(_triangle(draw, 2, 3, 3)), call(_triangle(draw, 2, 2, complex=True)), call(draw(0, 0)),
        call(_triangle(draw, 2, 2, 2, complex=True, upper=True), True), call(draw(0, 2, 2)),
    ],
    unclaimed=OF_FACTORS,
    out="cast",
)  # fmt: skip
def cholesky_inverse(input: Any, upper: bool = False) -> Any:
    """The inverse of the matrix whose Cholesky factor is given.

    >>> import pellucid as torch
    >>> torch.cholesky_inverse(torch.tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor([[0.2500, 0.0000],
            [0.0000, 1.0000]])
    """
    expect_square("cholesky_inverse", input)
    expect_kernel(input, "cholesky_inverse_out_cpu")
    if type(input.array) is np.ndarray:  # under a capture the values are not for Python to look at
        zeros = np.argwhere(np.diagonal(input.array, axis1=-2, axis2=-1) == 0)
        if len(zeros):
            what = f"The diagonal element {zeros[0][-1] + 1} is zero, the inversion could not be completed because"
            raise refusal(LinAlgError, f"cholesky_inverse: {what} the input matrix is singular.")
    return cholesky_inverse_row(input, bool(upper))


@operation(
    samples=lambda draw: [
        call(draw(3, 2), _triangle(draw, 3, 3)), call(draw(3, 2), _triangle(draw, 3, 3, upper=True), upper=True),
        call(draw(2, 3, 1), _triangle(draw, 2, 3, 3)), call(draw(3, 1), _triangle(draw, 2, 3, 3)),
        call(draw(2, 3, 1), _triangle(draw, 3, 3)), call(draw(0, 2), draw(0, 0)), call(draw(0, 2, 1), draw(0, 2, 2)),
        call(draw.complex(2, 3), _triangle(draw, 2, 2, complex=True)),
    ],
    unclaimed=OF_FACTORS,
    out="cast",
)  # fmt: skip
def cholesky_solve(input: Any, input2: Any, upper: bool = False) -> Any:
    """The solution of A X = input, where A is given by its Cholesky factor, `input2`.

    >>> import pellucid as torch
    >>> torch.cholesky_solve(torch.tensor([[8.0], [3.0]]), torch.tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor([[2.],
            [3.]])
    """
    for letter, matrix in (("b", input), ("u", input2)):
        what = f"{letter} should have at least 2 dimensions, but has {matrix.ndim} dimensions instead"
        expect(matrix.ndim >= 2, f"cholesky_solve: {what}")
    expect_square("cholesky_solve", input2)
    (rows, columns), size = input.shape[-2:], input2.shape[-1]
    what = f"Incompatible matrix sizes for cholesky_solve: each A matrix is {size} by {size}"
    expect(rows == size, f"{what} but each b matrix is {rows} by {columns}")
    if np.dtype(input.array.dtype) != np.dtype(input2.array.dtype):
        types = f"found b of type {name_of(input)} and A of type {name_of(input2)} instead"
        raise refusal(RuntimeError, f"Expected b and A to have the same dtype, but {types}.", try_="b.to(A.dtype)")
    expect_kernel(input2, "cholesky_solve_cpu")
    return cholesky_solve_row(input, input2, bool(upper))
