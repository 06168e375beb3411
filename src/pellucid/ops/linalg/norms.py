"""Norms of vectors and of matrices, as torch.linalg has them.

The row of all vector norms is in ops/norm.py. A matrix norm is one of those over both dimensions ("fro"), sums along
one dimension and an extreme along the other (1, inf), or made of the singular values (2, "nuc").
"""

import math
from typing import Any

from pellucid.core.attention import HALVES
from pellucid.ops.arguments import axis_of, expect, name_of, refusal
from pellucid.ops.axes import permute_row
from pellucid.ops.complex_numbers import abs
from pellucid.ops.convert import as_type
from pellucid.ops.extremes import amax_row, amin
from pellucid.ops.linalg.matrices import expect_floating, expect_matrix
from pellucid.ops.linalg.svd import svdvals_row
from pellucid.ops.norm import check_norm_dtype, check_order
from pellucid.ops.norm import vector_norm as general_vector_norm
from pellucid.ops.operation import COMPOSED, Draw, Sample, call, operation
from pellucid.ops.reduce import sum_row
from pellucid.ops.shape import reshape_row

ORDERS = (1, 2, math.inf)


def _vector_samples(draw: Draw) -> list[Sample]:
    return [
        *(call(draw(2, 3), order) for order in (2, 1, 0, 3, 0.5, -1, math.inf, -math.inf)), call(draw(2, 3)),
        call(draw(2, 3), 2, 1), call(draw(2, 3, 2), ord=3, dim=(0, -1), keepdim=True), call(draw()), call(draw(0, 2)),
        call(draw.complex(2, 3), 3, 0),
    ]  # fmt: skip


@operation(samples=_vector_samples, module="torch.linalg")
def vector_norm(input: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The norm of all elements as one vector, or of the vectors along dimensions: (sum of |x| ** ord) ** (1 / ord).

    >>> import pellucid as torch
    >>> torch.linalg.vector_norm(torch.tensor([[3.0, 4.0], [6.0, 8.0]]), dim=1)
    tensor([ 5., 10.])
    """
    if isinstance(ord, str):
        raise refusal(TypeError, "linalg_vector_norm(): argument 'ord' (position 2) must be Number, not str")
    return general_vector_norm(input, ord, dim, keepdim, dtype=dtype)


def _matrix_samples(draw: Draw) -> list[Sample]:
    return [
        *(call(draw(3, 2), order) for order in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)), call(draw(2, 2, 3)),
        call(draw(2, 3, 2), 1, (0, 2), True), call(draw(2, 3, 2), 2, dim=(0, -1), keepdim=True), call(draw(0, 2), 2),
        call(draw(2, 0, 3), math.inf), call(draw.complex(2, 3), "nuc"), call(draw.complex(2, 3), 1),
    ]  # fmt: skip


@operation(samples=_matrix_samples, module="torch.linalg", unclaimed=COMPOSED)
def matrix_norm(input: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The norm of every matrix: "fro", "nuc", 1 and inf (largest sum of a column, of a row), 2, or their negatives.

    >>> import pellucid as torch
    >>> torch.linalg.matrix_norm(torch.tensor([[1.0, -2.0], [3.0, 4.0]]), 1)
    tensor(6.)
    """
    name = "linalg.matrix_norm"
    expect_matrix(name, input)
    expect_floating(name, input)
    check_order(name, ord)
    supported = ord in ("fro", "nuc") if isinstance(ord, str) else math.fabs(ord) in ORDERS
    expect(supported, f"{name}: Order {ord} not supported.")
    rows, columns = _two_axes(name, dim, input.ndim)
    if ord == "fro":
        return general_vector_norm(input, 2, (rows, columns), keepdim, dtype=dtype)
    if dtype is not None:
        check_norm_dtype(name, input, dtype)
        input = as_type(input, dtype)
    if ord == "nuc" or math.fabs(ord) == 2:
        return _by_singular_values(name, input, ord, rows, columns, keepdim)
    first, second = (rows, columns) if math.fabs(ord) == 1 else (columns, rows)
    return _without(_extreme(sum_row(abs(input), (first,), True), second, ord), (first, second), keepdim)


def _two_axes(name: str, dim: Any, ndim: int) -> tuple[int, int]:
    dims = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    expect(len(dims) == 2, f"{name}: dim must be a 2-tuple. Got {' '.join(map(str, dims))}")
    rows, columns = (axis_of(d, ndim) for d in dims)
    expect(rows != columns, f"{name}: dims must be different. Got ({rows}, {columns})")
    return rows, columns


def _by_singular_values(name: str, A: Any, ord: Any, rows: int, columns: int, keepdim: bool) -> Any:
    expect(A.array.dtype not in HALVES, f"{name}: Low precision dtypes not supported. Got {name_of(A)}")
    others = tuple(i for i in range(A.ndim) if i not in (rows, columns))
    values = svdvals_row(permute_row(A, (*others, rows, columns)))
    last = values.ndim - 1
    y = sum_row(values, (last,), False) if ord == "nuc" else _without(_extreme(values, last, ord), (last,), False)
    return reshape_row(y, _kept(tuple(A.shape), (rows, columns))) if keepdim else y


def _extreme(values: Any, axis: int, ord: Any) -> Any:
    """The largest value along an axis, or the smallest if `ord` is negative; the largest of none is 0."""
    if ord < 0:
        return amin(values, axis, True)
    return amax_row(values, (axis,), True) if values.shape[axis] else sum_row(values, (axis,), True).detach()


def _kept(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 if i in axes else n for i, n in enumerate(shape))


def _without(y: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
    """Drop dimensions of size 1."""
    return y if keepdim else reshape_row(y, tuple(n for i, n in enumerate(y.shape) if i not in axes))


def _norm_samples(draw: Draw) -> list[Sample]:
    return [
        call(draw(3, 2)), call(draw(3)), call(draw(3), 1), call(draw(3, 2), 2), call(draw(3, 2), "nuc"),
        call(draw(2, 3, 2)), call(draw(2, 3, 2), 1, (1, 2)), call(draw(2, 3), math.inf, 1, True), call(draw(0)),
        call(draw(2, 3), dim=(0, 1), keepdim=True), call(draw.complex(2, 2), -1), call(draw()),
    ]  # fmt: skip


@operation(samples=_norm_samples, module="torch.linalg")
def norm(input: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """A vector or matrix norm, as the number of dimensions says: `vector_norm` of one, `matrix_norm` of two.

    Without `ord` it is the 2-norm of all elements, in however many dimensions they are.

    >>> import pellucid as torch
    >>> torch.linalg.norm(torch.tensor([[3.0, 0.0], [4.0, 0.0]]))
    tensor(5.)
    """
    dims = dim if dim is None or isinstance(dim, (tuple, list)) else (dim,)
    if dims is not None:
        expect(len(dims) in (1, 2), f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dims)}")
    elif ord is not None:
        what = f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {input.ndim}D."
        expect(input.ndim in (1, 2), what)
    if isinstance(ord, str) or (ord is not None and (input.ndim if dims is None else len(dims)) == 2):
        return matrix_norm(input, ord, (-2, -1) if dims is None else dims, keepdim, dtype=dtype)
    return general_vector_norm(input, 2 if ord is None else ord, dim, keepdim, dtype=dtype)
