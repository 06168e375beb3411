"""Systems of linear equations: A X = B, for any square A and for triangular ones.

With X = A⁻¹B the gradient of B is G = A⁻ᴴ g, and that of A is -G Xᴴ: backward solves one more system. The kernels are
NumPy's `solve`, which takes whole batches, and BLAS's `trsm`. PyTorch's backward does not fail where A is singular, so
rules solve by `solve_ex_row`, which then gives infinities and NaN.
"""

from math import prod
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs

from pellucid import return_types
from pellucid.core.blas import LETTERS, one_thread, solve_triangle
from pellucid.core.primitive import general
from pellucid.core.record import bind
from pellucid.ops.arguments import expect
from pellucid.ops.convert import clone_row
from pellucid.ops.diagonal import tril_row, triu_row
from pellucid.ops.linalg.matrices import (
    INT32,
    as_column,
    each_matrix,
    expect_factorable,
    expect_floating,
    expect_matrix,
    expect_same_dtype,
    expect_square,
    failure,
    invertible,
    paired,
    without_column,
)
from pellucid.ops.matmul import product_hint, sizes, swap
from pellucid.ops.operation import COMPOSED, Draw, Sample, call, operation

# --- any square matrix


def _solve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _solve_ex(a, b, "torch.linalg.solve")[0]


def _solve_ex(a: np.ndarray, b: np.ndarray, name: str | None = None) -> tuple[np.ndarray, np.ndarray]:
    try:
        return np.linalg.solve(a, b), np.zeros(a.shape[:-2], INT32)
    except np.linalg.LinAlgError:
        solution, infos = solve_each(a, b)
    if name is not None and infos.any():  # on the edge of singular NumPy's LAPACK and SciPy's may not agree
        raise failure(name, infos, "The solver failed because the input matrix is singular.")
    return solution, infos


@one_thread
def solve_each(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One matrix after the other, some of them singular; `infos` says at which diagonal element U is zero."""
    getrf, getrs = get_lapack_funcs(("getrf", "getrs"), (a, b))
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    solution, infos = np.empty(batch + b.shape[-2:], a.dtype), np.zeros(a.shape[:-2], INT32)
    for index, (matrix,) in each_matrix(a):
        infos[index] = getrf(matrix)[2]
    for index, (matrix, right) in each_matrix(a, b):
        solution[index] = getrs(*getrf(matrix)[:2], right)[0]
    return solution, infos


def _solve_back(g: Any, a: Any, y: Any, needs: tuple[bool, ...]) -> Any:
    right = solve_ex_row(swap(a), g)[0]
    return (-(right @ swap(y)) if needs[0] else None, right)


def _solve_ex_back(g: Any, a: Any, y: Any, needs: tuple[bool, ...], name: str | None = None) -> Any:
    return _solve_back(g[0], a, y[0], needs)


def moved_right(tangents: Any, y: Any) -> Any:
    """How the right-hand side of A X = B moves when A and B do, and X stands still."""
    left, right = tangents
    if left is None:
        return right
    return -(left @ y) if right is None else right - left @ y


# solve_row(a, b): a⁻¹ b, or an error if one of the matrices is singular.
solve_row = bind(
    general(
        "linalg_solve", _solve, None, None, pullback=_solve_back,
        jvp=lambda tangents, y, inputs, params: solve_ex_row(inputs[0], moved_right(tangents, y))[0],
        dtypes="equal", batch=paired, hint=product_hint, grad_name="LinalgSolveExBackward0",
    )
)  # fmt: skip

# solve_ex_row(a, b): a⁻¹ b and, for each matrix of a, 0 or which diagonal element made it singular. With a name as
# the last param, the error that names it if one is.
solve_ex_row = bind(
    general(
        "linalg_solve_ex", _solve_ex, None, None, pullback=_solve_ex_back,
        jvp=lambda tangents, y, inputs, params: (
            solve_ex_row(inputs[0], moved_right(tangents, y[0]))[0], None
        ),
        outputs=2, dtypes="equal", batch=paired, hint=product_hint,
    )
)  # fmt: skip


def solve_samples(draw: Draw) -> list[Sample]:
    """Matrices and vectors on the right, batches that broadcast, empty ones, complex ones."""
    return [
        call(invertible(draw, 3, 3), draw(3, 2)), call(invertible(draw, 3, 3), draw(3)),
        call(invertible(draw, 2, 3, 3), draw(2, 3, 2)), call(invertible(draw, 2, 3, 3), draw(2, 3)),
        call(invertible(draw, 2, 1, 2, 2), draw(3, 2, 1)), call(invertible(draw, 2, 2), draw(3, 2), left=False),
        call(draw(0, 0), draw(0, 2)), call(draw(0, 2, 2), draw(0, 2, 3)), call(invertible(draw, 2, 2), draw(2, 0)),
        call(invertible(draw, 2, 2, complex=True), draw.complex(2, 3)),
    ]  # fmt: skip


@operation(samples=solve_samples, module="torch.linalg")
def solve(A: Any, B: Any, *, left: bool = True) -> Any:
    """The solution of A X = B (`left=False`: of X A = B), for every matrix of a batch.

    >>> import pellucid as torch
    >>> torch.linalg.solve(torch.tensor([[2.0, 0.0], [1.0, 1.0]]), torch.tensor([2.0, 3.0]))
    tensor([1., 2.])
    """
    a, b, back = _arranged("linalg.solve", A, B, left)
    return back(solve_row(a, b))


@operation(samples=solve_samples, module="torch.linalg")
def solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    """`solve` without an error where a matrix is singular: `info` is then not 0.

    >>> import pellucid as torch
    >>> torch.linalg.solve_ex(torch.zeros(2, 2), torch.ones(2)).info
    tensor(1, dtype=torch.int32)
    """
    a, b, back = _arranged("linalg.solve", A, B, left)
    result, info = solve_ex_row(a, b, "torch.linalg.solve_ex" if check_errors else None)
    return return_types.linalg_solve_ex(back(result), info)


def _arranged(name: str, A: Any, B: Any, left: bool) -> tuple[Any, Any, Any]:
    """The matrices of a system A X = B, after checking their shapes, and what brings X into the shape of B."""
    expect_factorable(name, A)
    expect_same_dtype(name, A, B)
    if is_vector(A, B):
        expect(left, f"{name}: Vector broadcasting of the left hand side is not supported for left=False.")
        expect(B.shape[-1] == A.shape[-1], incompatible(name, A, B, left))
        return A, as_column(B), without_column
    expect_matrix(name, B, "B")
    expect_fitting(name, A, B, left)
    return (A, B, lambda solution: solution) if left else (swap(A), swap(B), swap)


def is_vector(A: Any, B: Any) -> bool:
    """Whether B is one right-hand side for each matrix of A, not a matrix of several."""
    return B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape[:-1]))


def expect_fitting(name: str, A: Any, B: Any, left: bool) -> None:
    """Refuse a B that has not as many rows (or columns, where it stands on the left) as A."""
    expect(A.shape[-2] == B.shape[-2 if left else -1], incompatible(name, A, B, left))


def incompatible(name: str, A: Any, B: Any, left: bool) -> str:
    """PyTorch's words for an A and a B that do not fit."""
    shapes = f"({sizes(tuple(A.shape[-2:]))} and {sizes(tuple(B.shape[-2:]))})"
    return f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} {shapes}"


# --- triangular matrices: only one triangle of A is read, and not its diagonal where that is ones


def _solve_triangular(a: np.ndarray, b: np.ndarray, upper: bool, unit: bool) -> np.ndarray:
    if a.dtype not in LETTERS:  # BLAS has no numbers of 16 bits
        return _solve_triangular(a.astype(np.float64), b.astype(np.float64), upper, unit).astype(a.dtype)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    y = np.empty(batch + b.shape[-2:], a.dtype)
    if not y.size:
        return y
    y[...] = b
    if prod(batch) > a.shape[-1]:
        return _substituted(a, y, upper, unit)
    for index, (matrix,) in each_matrix(np.broadcast_to(a, batch + a.shape[-2:])):
        solve_triangle(matrix, y[index], upper, unit)
    return y


def _substituted(a: np.ndarray, y: np.ndarray, upper: bool, unit: bool) -> np.ndarray:
    """Many small systems, row by row for all of them at once; y holds the right-hand sides and becomes the solution."""
    n = a.shape[-1]
    for i in reversed(range(n)) if upper else range(n):
        known = slice(i + 1, n) if upper else slice(0, i)
        y[..., i, :] -= np.matmul(a[..., i : i + 1, known], y[..., known, :])[..., 0, :]
        if not unit:
            y[..., i, :] /= a[..., i, i, None]
    return y


def _triangle(a: Any, upper: bool, unit: bool) -> Any:
    """The part of a matrix that was read."""
    return triu_row(a, int(unit)) if upper else tril_row(a, -int(unit))


def _triangular_back(g: Any, a: Any, y: Any, needs: tuple[bool, ...], upper: bool, unit: bool) -> Any:
    right = solve_triangular_row(swap(a), g, not upper, unit)
    return (_triangle(-(right @ swap(y)), upper, unit) if needs[0] else None, right)


def _triangular_jvp(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    left, right = tangents
    read = None if left is None else _triangle(left, *params)
    return solve_triangular_row(inputs[0], moved_right((read, right), y), *params)


# solve_triangular_row(a, b, upper, unit): a⁻¹ b, where `a` counts as triangular, with ones on the diagonal if `unit`.
solve_triangular_row = bind(
    general(
        "linalg_solve_triangular", _solve_triangular, None, None, pullback=_triangular_back, jvp=_triangular_jvp,
        dtypes="equal", batch=paired, hint=product_hint,
    )
)  # fmt: skip


@operation(
    samples=lambda draw: [
        call(invertible(draw, 3, 3), draw(3, 2), upper=True), call(invertible(draw, 3, 3), draw(3, 2), upper=False),
        call(invertible(draw, 2, 3, 3), draw(3, 1), upper=True, unitriangular=True),
        call(invertible(draw, 3, 3), draw(2, 2, 3), upper=False, left=False),
        call(invertible(draw, 2, 1, 2, 2), draw(3, 2, 2), upper=True), call(draw(0, 0), draw(0, 2), upper=True),
        call(draw(0, 2, 2), draw(0, 2, 1), upper=False), call(invertible(draw, 2, 2), draw(2, 0), upper=True),
        call(invertible(draw, 3, 3, complex=True), draw.complex(3, 2), upper=False, unitriangular=True),
        call(invertible(draw, 2, 2, complex=True), draw.complex(3, 2), upper=True, left=False),
    ],
    module="torch.linalg",
)  # fmt: skip
def solve_triangular(input: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    """The solution of A X = B (`left=False`: of X A = B) for triangular A, of which only that triangle is read.

    >>> import pellucid as torch
    >>> torch.linalg.solve_triangular(torch.tensor([[2.0, 1.0], [0.0, 1.0]]), torch.tensor([[5.0], [1.0]]), upper=True)
    tensor([[2.],
            [1.]])
    """
    name = "linalg.solve_triangular"
    expect_square(name, input)
    expect_matrix(name, B, "B")
    expect_fitting(name, input, B, left)
    expect_same_dtype(name, input, B)
    expect_floating(name, input)
    if left:
        return solve_triangular_row(input, B, upper, unitriangular)
    return swap(solve_triangular_row(swap(input), swap(B), not upper, unitriangular))


@operation(
    samples=lambda draw: [
        call(draw(3, 2), invertible(draw, 3, 3)), call(draw(3, 1), invertible(draw, 3, 3), upper=False),
        call(draw(3, 2), invertible(draw, 3, 3), transpose=True), call(draw(3, 2), invertible(draw, 3, 3), False, True),
        call(draw(2, 3, 2), invertible(draw, 2, 3, 3), unitriangular=True), call(draw(0, 2), draw(0, 0)),
        call(draw.complex(2, 2), invertible(draw, 2, 2, complex=True), transpose=True),
    ],
    unclaimed=COMPOSED,
)  # fmt: skip
def triangular_solve(
    input: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    """The solution of A X = input for triangular A, and a copy of A; `linalg.solve_triangular` is its newer form.

    >>> import pellucid as torch
    >>> torch.triangular_solve(torch.tensor([[4.0]]), torch.tensor([[2.0]])).solution
    tensor([[2.]])
    """
    expect_matrix("torch.triangular_solve", input, "b")
    expect_square("triangular_solve", A)
    expect_fitting("triangular_solve", A, input, True)
    expect_same_dtype("triangular_solve", A, input)
    expect_floating("triangular_solve", A)
    matrix, above = (swap(A), not upper) if transpose else (A, upper)
    solution = solve_triangular_row(matrix, input, above, unitriangular)
    return return_types.triangular_solve(solution, clone_row(A, "K"))
