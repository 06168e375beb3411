"""Least squares: the X that makes A X - B smallest, and of all such X the smallest itself.

X = A⁺ B with the pseudoinverse A⁺. What A⁺ and A⁺ᴴ do to a matrix is again a least-squares solution, of A and of Aᴴ: so
the row's derivatives are written with the row. With the rest R = B - A X,

    dX = A⁺ (dB - dA X) + A⁺ A⁺ᴴ dAᴴ R + (I - A⁺ A) dAᴴ A⁺ᴴ X.
"""

from typing import Any

import numpy as np
import scipy.linalg

from pellucid import return_types
from pellucid.core.attention import HALVES
from pellucid.core.blas import one_thread
from pellucid.core.primitive import add_up, general
from pellucid.core.record import bind
from pellucid.core.tensor import wrap
from pellucid.ops.arguments import expect, name_of
from pellucid.ops.complex_numbers import abs, real
from pellucid.ops.linalg.decompositions import plain
from pellucid.ops.linalg.matrices import (
    adjoint,
    as_column,
    each_matrix,
    expect_floating,
    paired,
    without_column,
)
from pellucid.ops.linalg.solve import moved_right
from pellucid.ops.operation import COMPOSED, READS_VALUES, Draw, Sample, call, operation
from pellucid.ops.reduce import sum_row
from pellucid.ops.shape import reshape_row
from pellucid.ops.slicing import slice_row

DRIVERS = ("gels", "gelsy", "gelsd", "gelss")  # LAPACK's: QR; QR that finds the rank; SVD by halves; SVD
BLOCK = 64  # columns LAPACK works on at a time, if it is given room for that


# --- the kernel


def _lstsq(a: np.ndarray, b: np.ndarray, rcond: float, driver: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The solutions, and for each matrix of `a` its rank and singular values (of the drivers that find them)."""
    (m, n), count = a.shape[-2:], b.shape[-1]
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    solutions, ranks = np.zeros((*batch, n, count), a.dtype), np.zeros(batch, np.int64)
    values = np.zeros((*batch, min(m, n)), a.real.dtype)
    for index, (matrix, right) in each_matrix(a, b) if m and n else ():
        # LAPACK refuses to solve for nothing; the rank is found all the same
        x, rank, found = _one(matrix, right if count else np.zeros((m, 1), a.dtype), rcond, driver)
        solutions[index], ranks[index] = x[:, :count], rank
        values[index] = 0 if found is None else found
    of_matrices = tuple(slice(0, size) for size in a.shape[:-2])
    return solutions, ranks[of_matrices], values[of_matrices]


@one_thread
def _one(a: np.ndarray, b: np.ndarray, rcond: float, driver: str) -> tuple[Any, Any, Any]:
    if driver != "gels":
        x, _, rank, values = scipy.linalg.lstsq(a, b, rcond, lapack_driver=driver, check_finite=False)
        return x, rank, values
    (gels,) = scipy.linalg.get_lapack_funcs(("gels",), (a,))
    (m, n), count = a.shape, b.shape[1]
    room = np.zeros((max(m, n), count), a.dtype)
    room[:m] = b
    return gels(a, room, lwork=BLOCK * (m + n + count))[1][:n], 0, None


# --- derivatives


def _back(g: Any, a: Any, b: Any, y: Any, needs: tuple[bool, ...], rcond: float, driver: str) -> Any:
    g, matrix, solution, how = g[0], plain(a), plain(y[0]), (rcond, driver)
    transposed = adjoint(matrix)
    right = solved(transposed, g, *how)
    if not needs[0]:
        return None, right
    rest = plain(b) - matrix @ solution
    outside = g - solved(matrix, matrix @ g, *how)  # the part of g that A does not see
    left = rest @ adjoint(solved(matrix, right, *how)) - right @ adjoint(solution)
    return left + solved(transposed, solution, *how) @ adjoint(outside), right


def _jvp(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    (a, b), solution, moved = inputs, y[0], tangents[0]
    terms = [solved(a, moved_right(tangents, solution), *params)]
    if moved is not None:
        transposed, turned = adjoint(a), adjoint(moved)
        terms.append(solved(a, solved(transposed, turned @ (b - a @ solution), *params), *params))
        onto = turned @ solved(transposed, solution, *params)
        terms.append(onto - solved(a, a @ onto, *params))
    return add_up(terms), None, None


# lstsq_row(a, b, rcond, driver): a⁺ b, the ranks and the singular values; only the first is differentiated.
lstsq_row = bind(
    general(
        "linalg_lstsq", _lstsq, None, None, pullback=_back, jvp=_jvp, outputs=3, dtypes="equal", batch=paired,
    )
)  # fmt: skip


def solved(a: Any, b: Any, rcond: float, driver: str) -> Any:
    """a⁺ b."""
    return lstsq_row(a, b, rcond, driver)[0]


# --- the public form


def _samples(draw: Draw) -> list[Sample]:
    return [
        call(draw(4, 2), draw(4, 3)), call(draw(2, 4), draw(2, 3)), call(draw(2, 3, 2), draw(2, 3)),
        call(draw(4, 2), draw(4, 1), driver="gelsd"), call(draw(2, 4, 2), draw(1, 4, 2), driver="gels"),
        call(draw(2, 4), draw(2, 1), driver="gels"), call(draw(3, 2), draw(3, 1), rcond=1e-3, driver="gelss"),
        call(draw(0, 3, 2), draw(0, 3, 1)), call(draw.complex(3, 2), draw.complex(3, 2), driver="gelsd"),
    ]  # fmt: skip


@operation(samples=_samples, module="torch.linalg", unclaimed={**COMPOSED, **READS_VALUES}, out="cast")
def lstsq(input: Any, b: Any, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """The least-squares solution of A X = B: also `residuals` (‖A X - B‖² per column), `rank` and `singular_values`.

    `driver` is LAPACK's: "gelsy" unless given; "gels" for matrices of full rank; "gelsd" and "gelss" also find the
    singular values. What a driver does not find is an empty tensor.

    >>> import pellucid as torch
    >>> torch.linalg.lstsq(torch.tensor([[1.0], [1.0]]), torch.tensor([1.0, 3.0])).solution.round(decimals=4)
    tensor([2.])
    """
    driver = "gelsy" if driver is None else driver
    _check(input, b, driver)
    is_vector = _is_vector(input, b)
    right = as_column(b) if is_vector else b
    rows, columns = input.shape[-2:]
    if rcond is None:
        rcond = float(np.finfo(np.dtype(input.array.dtype)).eps) * max(rows, columns)
    solution, rank, values = lstsq_row(input, right, float(rcond), driver)
    residuals = _residuals(input, right, solution, rank, driver)
    nothing = wrap(np.empty(0, np.int64))
    return return_types.linalg_lstsq(
        without_column(solution) if is_vector else solution,
        residuals,
        nothing if driver == "gels" else rank,
        values.detach() if driver in ("gelsd", "gelss") else wrap(np.empty(0, np.dtype(values.array.dtype))),
    )


def _is_vector(input: Any, b: Any) -> bool:
    """Whether the right-hand sides are single vectors: one, or one for each matrix."""
    return b.ndim == 1 or tuple(b.shape) == tuple(input.shape[:-1])


def _check(input: Any, b: Any, driver: str) -> None:
    name = "torch.linalg.lstsq"
    expect(input.ndim >= 2, f"{name}: input must have at least 2 dimensions.")
    expect(b.ndim >= 1, f"{name}: other must have at least 1 dimension.")
    types = f"but got input's dtype {name_of(input)} and other's dtype {name_of(b)}"
    same = np.dtype(input.array.dtype) == np.dtype(b.array.dtype)
    expect(same, f"{name}: Expected input and other to have the same dtype, {types}")
    ranks = "input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1"
    expect(0 <= input.ndim - b.ndim <= 1, f"{name}: {ranks}")
    axis = -1 if _is_vector(input, b) else -2
    expect(input.shape[-2] == b.shape[axis], f"{name}: input.size(-2) should match other.size({axis})")
    expect(driver in DRIVERS, f"{name}: parameter `driver` should be one of ({', '.join(DRIVERS)})")
    expect_floating(name, input)
    expect(input.array.dtype not in HALVES, f"{name}: This function doesn't handle types other than float and double")


def _residuals(a: Any, b: Any, solution: Any, rank: Any, driver: str) -> Any:
    """‖A X - B‖² per column where A is tall and of full rank, and the driver can tell; else nothing."""
    rows, columns = a.shape[-2:]
    if rows > columns and driver != "gelsy" and (driver == "gels" or _all_equal(rank, columns)):
        size = abs(a @ solution - b)
        return sum_row(size * size, (size.ndim - 2,), False)
    flat = reshape_row(real(solution), (int(np.prod(solution.shape)),))
    return slice_row(flat, (slice(0, 0), ...))


def _all_equal(rank: Any, columns: int) -> bool:
    """Whether all matrices are of full rank; inside vmap nobody knows, and they are taken to be."""
    return not isinstance(rank.array, np.ndarray) or bool((rank == columns).all())
