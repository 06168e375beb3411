"""Diagonals and triangles of matrices: diagonal, diag_embed, diag, trace, tril, triu.

A diagonal is a view; its adjoint puts a vector on the diagonal of a matrix of zeros.
"""

import math
from operator import index as as_int
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid import dtypes
from pellucid.core.primitive import BOUND, multilinear
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor, bearing
from pellucid.ops.arguments import Row, Shape, axis_of, expect, refusal
from pellucid.ops.convert import clone_row
from pellucid.ops.create import check_room, made
from pellucid.ops.expand import expand_row
from pellucid.ops.operation import Draw, Sample, call, operation
from pellucid.ops.reduce import sum_row
from pellucid.ops.shape import reshape


def _diagonal(a: ndarray, offset: int, axis1: int, axis2: int) -> ndarray:
    found = a.diagonal(offset, axis1, axis2)
    if a.flags.writeable:
        found.flags.writeable = True  # NumPy gives a view but locks it
    return found


def _embed(g: ndarray, shape: Shape, offset: int, axis1: int, axis2: int) -> ndarray:
    out = np.zeros(shape, g.dtype)
    _diagonal(out, offset, axis1, axis2)[...] = g
    return out


diagonal_row = bind(
    multilinear(
        "diagonal", _diagonal,
        lambda g, a_shape, offset, axis1, axis2: diag_embed_row(g, a_shape, offset, axis1, axis2),
        view=True, batch=lambda op, a, offset, axis1, axis2: op(a, offset, axis1 + 1, axis2 + 1),
    )
)  # fmt: skip
diag_embed_row = bind(
    multilinear(
        "diag_embed", _embed,
        lambda g, shape, offset, axis1, axis2: diagonal_row(g, offset, axis1, axis2),
        batch=lambda op, a, shape, offset, axis1, axis2: op(a, (a.shape[0], *shape), offset, axis1 + 1, axis2 + 1),
    )
)  # fmt: skip


@operation(
    samples=lambda draw: [
        call(draw(3, 3)), call(draw(2, 4), 1), call(draw(4, 2), -1), call(draw(2, 3, 4), 0, 1, 2),
        call(draw(2, 3), 5), call(draw(2, 3, 3), 0, -2, -1), call(draw(3, 2, 3), 1, 2, 0), call(draw(0, 2)),
        call(draw(3, 4).mT, 1), call(draw(1, 1)),
    ],
)  # fmt: skip
def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """The diagonal of every matrix, as the last dimension: a view.

    >>> import pellucid as torch
    >>> torch.arange(9).reshape(3, 3).diagonal()
    tensor([0, 4, 8])
    """
    first, second = axis_of(dim1, input.ndim), axis_of(dim2, input.ndim)
    if first == second:
        raise refusal(RuntimeError, f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return diagonal_row(input, as_int(offset), first, second)


@operation(
    samples=lambda draw: [
        call(draw(3)), call(draw(3), 1), call(draw(2, 3), -2), call(draw(2, 3), 0, 0, 2), call(draw(2, 0)),
        call(draw(2, 2), 0, -1, -3), call(draw(1)), call(draw(2, 3), 1), call(draw(2, 2, 2), -1),
        call(draw(3, 2).mT, 0, 1, 0),
    ],
)  # fmt: skip
def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Matrices with the last dimension on their diagonal and zeros elsewhere.

    >>> import pellucid as torch
    >>> torch.diag_embed(torch.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    rank = input.ndim + 1
    first, second = axis_of(dim1, rank), axis_of(dim2, rank)
    if first == second:
        raise refusal(RuntimeError, f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    size = input.shape[-1] + abs(offset)
    shape = list(input.shape[:-1])
    for axis in sorted((first, second)):
        shape.insert(axis, size)
    return diag_embed_row(input, tuple(shape), as_int(offset), first, second)


@operation(
    samples=lambda draw: [
        call(draw(3)), call(draw(3), 1), call(draw(3, 3)), call(draw(2, 3), 1), call(draw(2, 3), -1), call(draw(0)),
        call(draw(3), -2), call(draw(3, 2)), call(draw(0, 3)), call(draw(2, 3).mT, 1), call(draw(1, 1)),
    ],
)  # fmt: skip
def diag(input: Any, diagonal: int = 0) -> Any:
    """The diagonal of a matrix as a vector, or a matrix with a vector on its diagonal.

    >>> import pellucid as torch
    >>> torch.diag(torch.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    if input.ndim not in (1, 2):
        raise refusal(RuntimeError, f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    return bearing("DiagonalBackward0_copy", clone_row(diagonal_row(input, as_int(diagonal), 0, 1), "C"))


@operation(
    samples=lambda draw: [
        call(draw(3)), call(draw(2, 2)), call(draw(2), 1), call(draw()), call(draw(2), -2), call(draw(0)),
        call(draw(2, 3), 1), call(draw(2, 1, 2)), call(draw(3, 2).mT), call(draw(), -1),
    ],
)  # fmt: skip
def diagflat(input: Any, offset: int = 0) -> Any:
    """A matrix with all elements of a tensor on its diagonal.

    >>> import pellucid as torch
    >>> torch.diagflat(torch.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    return diag_embed(reshape(input, (math.prod(input.shape),)), offset)


def triangle(name: str, upper: bool) -> Row:
    """A row (a, diagonal) that keeps one triangle of every matrix and makes the rest zero."""

    def forward(a: ndarray, diagonal: int) -> ndarray:
        rows, columns = a.shape[-2:]
        below = np.tri(rows, columns, max(-rows, min(diagonal, columns)) - upper, bool)
        y = np.zeros(a.shape, a.dtype)
        np.copyto(y, a, where=~below if upper else below)  # 800x800: 0.3 ms; np.where of an int64 mask takes 1.5
        return y

    return bind(
        multilinear(
            name, forward, lambda g, diagonal: BOUND[name](g, diagonal),
            batch=lambda op, a, diagonal: op(a, diagonal),
        )
    )  # fmt: skip


tril_row = triangle("tril", upper=False)
triu_row = triangle("triu", upper=True)


def _triangle_samples(draw: Draw) -> list[Sample]:
    return [
        call(draw(3, 3)), call(draw(2, 4), 1), call(draw(4, 2), -1), call(draw(2, 3, 3)), call(draw(0, 2)),
        call(draw(3, 3), diagonal=2), call(draw(3, 3), -5), call(draw(1, 1)), call(draw(2, 2, 2, 3), 1),
        call(draw(3, 3), 5),
    ]  # fmt: skip


def _of_matrices(input: Any, name: str) -> Any:
    if input.ndim < 2:
        raise refusal(RuntimeError, f"{name}: input tensor must have at least 2 dimensions")
    return input


@operation(samples=_triangle_samples, inplace=True)
def tril(input: Any, diagonal: int = 0) -> Any:
    """The lower triangle of every matrix; zeros above the diagonal.

    >>> import pellucid as torch
    >>> torch.tril(torch.tensor([[1, 2], [3, 4]]))
    tensor([[1, 0],
            [3, 4]])
    """
    return tril_row(_of_matrices(input, "tril"), as_int(diagonal))


@operation(samples=_triangle_samples, inplace=True)
def triu(input: Any, diagonal: int = 0) -> Any:
    """The upper triangle of every matrix; zeros below the diagonal.

    >>> import pellucid as torch
    >>> torch.triu(torch.tensor([[1, 2], [3, 4]]))
    tensor([[1, 2],
            [0, 4]])
    """
    return triu_row(_of_matrices(input, "triu"), as_int(diagonal))


def _triangle_sizes(draw: Draw) -> list[Sample]:
    sizes = [(3, 3), (2, 4, 1), (4, 2, -1), (0, 0), (1, 1), (3, 0), (0, 3), (2, 3, 2), (4, 4, -3), (3, 3, -5)]
    return [call(*size) for size in sizes]


@operation(samples=_triangle_sizes, methods=())
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Rows and columns of the lower triangle of a matrix.

    >>> import pellucid as torch
    >>> torch.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    _check_triangle("tril_indices", row, col)
    return _indices(np.tril_indices(row, offset, col), dtype, device)


@operation(samples=_triangle_sizes, methods=())
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Rows and columns of the upper triangle of a matrix.

    >>> import pellucid as torch
    >>> torch.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    _check_triangle("triu_indices", row, col)
    return _indices(np.triu_indices(row, offset, col), dtype, device)


def _check_triangle(name: str, row: int, col: int) -> None:
    """NumPy finds the indices in a mask of the whole matrix, which must fit into memory."""
    for what, size in (("row", row), ("col", col)):
        expect(size >= 0, f"{what} must be non-negative, got {size}")
    check_room(name, (row, col), np.dtype(np.bool_))


def _indices(pair: Any, dtype: Any, device: Any) -> Tensor:
    dtypes.check_device(device)
    return made(np.stack(pair).astype(np.int64 if dtype is None else dtypes.as_numpy_dtype(dtype)), device=device)


trace_row = bind(
    multilinear(
        "trace", lambda a: np.add.reduce(a.diagonal(), dtype=np.int64 if a.dtype.kind in "biu" else None),
        lambda g, a_shape: diag_embed_row(expand_row(g, (min(a_shape),)), a_shape, 0, 0, 1),
        dtypes="equal", batch=lambda op, a: sum_row(diagonal_row(a, 0, 1, 2), (1,), False),
    )
)  # fmt: skip


@operation(
    samples=lambda draw: [
        *(call(draw(*shape)) for shape in [(3, 3), (2, 4), (4, 2), (0, 3), (3, 0), (1, 1), (1, 5), (0, 0)]),
        call(draw(3, 4).mT), call(draw.complex(2, 2)),
    ]
)  # fmt: skip
def trace(input: Any) -> Any:
    """Sum of the diagonal of a matrix.

    >>> import pellucid as torch
    >>> torch.trace(torch.tensor([[1, 2], [3, 4]]))
    tensor(5)
    """
    expect(input.ndim == 2, f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    return trace_row(input)
