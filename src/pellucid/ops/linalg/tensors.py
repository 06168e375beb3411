"""Products, diagonals and systems of equations of tensors, as torch.linalg has them; also vander and renorm.

Composed of the operations that the main namespace has, with torch.linalg's defaults: vectors along the last dimension,
matrices in the last two.
"""

from math import isqrt, prod
from typing import Any

import numpy as np

from pellucid.dtypes import int64
from pellucid.ops.along import bare
from pellucid.ops.arguments import axis_of, expect, name_of, number, refuse
from pellucid.ops.axes import flip, movedim
from pellucid.ops.complex_numbers import conj
from pellucid.ops.create import ones_like, zeros
from pellucid.ops.diagonal import diagonal as general_diagonal
from pellucid.ops.expand import expand_row
from pellucid.ops.join import cat
from pellucid.ops.linalg.inverse import inv
from pellucid.ops.linalg.matrices import as_column, expect_floating
from pellucid.ops.linalg.solve import solve
from pellucid.ops.matmul import matmul, vdot
from pellucid.ops.norm import vector_norm
from pellucid.ops.operation import COMPOSED, Draw, Sample, call, operation, publish
from pellucid.ops.products import cross as general_cross
from pellucid.ops.reduce import sum as total
from pellucid.ops.scan import cumprod
from pellucid.ops.select import keep, where
from pellucid.ops.shape import reshape_row

publish(
    matmul, name="matmul", module="torch.linalg",
    samples=lambda draw: [call(draw(2, 3), draw(3, 4)), call(draw(2, 2, 3), draw(3, 1)), call(draw(3), draw(3))],
)  # fmt: skip


# --- vectors


@operation(
    samples=lambda draw: [
        call(draw(3), draw(3)), call(draw(2, 3), draw(2, 3)), call(draw(2, 3), draw(3)), call(draw(), draw()),
        call(draw(2, 3), draw(2, 1), dim=0), call(draw(2, 0), draw(2, 0)), call(draw.complex(3), draw.complex(3)),
        call(draw.complex(2, 3), draw.complex(2, 3), dim=0),
    ],
    module="torch.linalg",
)  # fmt: skip
def vecdot(x: Any, y: Any, *, dim: int = -1) -> Any:
    """The dot products of the vectors along a dimension; those of x are conjugated.

    >>> import pellucid as torch
    >>> torch.linalg.vecdot(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([10.0, 1.0]))
    tensor([12., 34.])
    """
    name = "linalg.vecdot"
    expect_floating(name, x)
    types = f"found x of type {name_of(x)} and y of type {name_of(y)} instead"
    expect(x.dtype == y.dtype, f"{name}: Expected x and y to have the same dtype, but {types}")
    return vdot(x, y) if x.ndim == y.ndim == 1 else total(conj(x) * y, dim)


@operation(
    samples=lambda draw: [
        call(draw(3), draw(3)), call(draw(2, 3), draw(1, 3)), call(draw(3, 2), draw(3, 2), dim=0),
        call(draw(0, 3), draw(0, 3)), call(draw(2, 3, 2), draw(1, 3, 2), dim=1), call(draw.complex(3), draw.complex(3)),
    ],
    module="torch.linalg",
)  # fmt: skip
def cross(input: Any, other: Any, *, dim: int = -1) -> Any:
    """Cross products of the vectors of three elements along a dimension.

    >>> import pellucid as torch
    >>> torch.linalg.cross(torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    refuse(input, "b", "\"cross\" not implemented for '{}'", NotImplementedError)
    types = f"expected scalar type {name_of(input)} but found {name_of(other)}"
    expect(input.dtype == other.dtype, types)
    return general_cross(input, other, dim)


# --- powers of a vector's elements


def _powers(x: Any, n: int) -> Any:
    """1, x, x², ... in a new last dimension: n of them, at least 1."""
    column = as_column(x)
    ones = ones_like(column)
    return ones if n == 1 else cat((ones, cumprod(expand_row(column, (*x.shape, n - 1)), -1)), -1)


@operation(
    samples=lambda draw: [
        call(draw(3)), call(draw(2, 3)), call(draw(3), N=2), call(draw(2), N=4), call(draw.complex(3)),
        call(draw.integers(3)), call(draw(0), N=3), call(draw(), N=2),
    ],
    module="torch.linalg",
)  # fmt: skip
def vander(x: Any, *, N: int | None = None) -> Any:
    """A matrix of powers for every vector: row i is 1, x[i], x[i]², ..., N of them (as many as x is long).

    >>> import pellucid as torch
    >>> torch.linalg.vander(torch.tensor([2, 3]), N=4)
    tensor([[ 1,  2,  4,  8],
            [ 1,  3,  9, 27]])
    """
    narrow = x.dtype.itemsize < 4 and x.dtype.is_floating_point
    what = "linalg.vander supports floating point, complex, and integer tensors, but got {}"
    expect(not narrow, what.format(name_of(x)))
    refuse(x, "b", what)
    x = x if x.ndim else reshape_row(x, (1,))
    size = x.shape[-1] if N is None else N
    expect(size > 1, "N must be greater than 1.")
    return _powers(x, size)


@operation(
    samples=lambda draw: [
        call(draw(3)), call(draw(3), 2), call(draw(2), 4, True), call(draw(3), 1), call(draw(3), 0), call(draw(0)),
        call(draw.integers(3), increasing=True), call(draw.complex(2)),
    ],
    name="vander", methods=(),
    unclaimed={
        **COMPOSED,
        "gradient_equals_torch": "PyTorch's vander overwrites what its backward needs, and fails",
        "second_order_equals_torch": "PyTorch's vander overwrites what its backward needs, and fails",
    },
)  # fmt: skip
def torch_vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """The powers of a vector's elements, one column for each, highest first unless `increasing`.

    >>> import pellucid as torch
    >>> torch.vander(torch.tensor([2, 3]), 4)
    tensor([[ 8,  4,  2,  1],
            [27,  9,  3,  1]])
    """
    expect(x.ndim == 1, "x must be a one-dimensional tensor.")
    size = x.shape[0] if N is None else N
    expect(size >= 0, "N must be non-negative.")
    if not size:
        return zeros((x.shape[0], 0), dtype=int64 if x.array.dtype.kind in "biu" else x.dtype)
    powers = _powers(x.to(int64) if x.array.dtype.kind in "biu" else x, size)
    return powers if increasing or size == 1 else flip(powers, (1,))


# --- matrices whose rows and columns are tensors


@operation(
    samples=lambda draw: [
        call(draw(3, 3)), call(draw(2, 3, 3)), call(draw(2, 3), offset=1), call(draw(2, 3, 3), dim1=0, dim2=1),
        call(draw(0, 2, 2)), call(draw(3, 2), offset=-1),
    ],
    module="torch.linalg",
)  # fmt: skip
def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """The diagonal of every matrix: a view.

    >>> import pellucid as torch
    >>> torch.linalg.diagonal(torch.tensor([[[1, 2], [3, 4]]]))
    tensor([[1, 4]])
    """
    return general_diagonal(A, offset, dim1, dim2)


def _split(what: str, shape: tuple[int, ...], place: int, name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of the rows and that of the columns, which must be as many as the rows."""
    rows, columns = shape[:place], shape[place:]
    requirement = f"prod(self.shape[{name}:]) == prod(self.shape[:{name}])"
    wanted = f"Expected self to satisfy the requirement {requirement}, but got {prod(columns)} != {prod(rows)}"
    expect(prod(rows) == prod(columns), f"{what}: {wanted}")
    return rows, columns


def _cube(draw: Draw, *shape: int) -> Any:
    """A sample that is invertible as a matrix."""
    tensor = draw(*shape, low=-1.0, high=1.0)
    size = isqrt(tensor.array.size)
    matrix = tensor.array.reshape(size, size)
    matrix += 3 * np.eye(size)
    return tensor


@operation(
    samples=lambda draw: [
        call(_cube(draw, 2, 2, 4)), call(_cube(draw, 2, 3, 3, 2)), call(_cube(draw, 4, 2, 2), ind=1),
        call(_cube(draw, 3, 3), 1), call(draw(0, 0), ind=1), call(_cube(draw, 2, 3, 6)),
    ],
    module="torch.linalg", unclaimed=COMPOSED,
    out="cast",
)  # fmt: skip
def tensorinv(input: Any, ind: int = 2) -> Any:
    """The inverse for `tensordot`: the tensor as a matrix, with the first `ind` dimensions for its rows, inverted.

    >>> import pellucid as torch
    >>> torch.linalg.tensorinv(torch.eye(4).reshape(2, 2, 4)).shape
    torch.Size([4, 2, 2])
    """
    expect(ind > 0, f"Expected a strictly positive integer for 'ind', but got {ind}")
    rows, columns = _split("linalg.tensorinv", tuple(input.shape), ind, "ind")
    return reshape_row(inv(reshape_row(input, (prod(rows), prod(columns)))), (*columns, *rows))


@operation(
    samples=lambda draw: [
        call(_cube(draw, 2, 2, 4), draw(2, 2)), call(_cube(draw, 4, 2, 2), draw(4)), call(_cube(draw, 3, 3), draw(3)),
        call(_cube(draw, 6, 3, 2), draw(3, 2), dims=(0,)), call(_cube(draw, 2, 3, 3, 2), draw(2, 3)),
    ],
    module="torch.linalg", unclaimed=COMPOSED,
    out="cast",
)  # fmt: skip
def tensorsolve(input: Any, other: Any, dims: Any = None) -> Any:
    """The X with tensordot(input, X, X.ndim) = other; `dims` of input are moved to the end first.

    >>> import pellucid as torch
    >>> torch.linalg.tensorsolve(2 * torch.eye(4).reshape(2, 2, 4), torch.ones(2, 2))
    tensor([0.5000, 0.5000, 0.5000, 0.5000])
    """
    if dims is not None:
        input = movedim(input, tuple(dims), tuple(range(-len(dims), 0)))
    rows, columns = _split("linalg.tensorsolve", tuple(input.shape), other.ndim, "other.ndim")
    solution = solve(reshape_row(input, (prod(rows), prod(columns))), reshape_row(other, (prod(other.shape),)))
    return reshape_row(solution, columns)


# --- norms that are too large


def _renorm_samples(draw: Draw) -> list[Sample]:
    return [
        call(draw(3, 3), 2, 0, 1.0), call(draw(2, 3), 1, 1, 2.5), call(draw(2, 3, 2), 3, -1, 2.0),
        call(draw(2, 3), 2, 0, 9), call(draw(3, 0), 2, 0, 1),
        call(draw(2, 3), 0.5, 0, 3.0), call(draw.complex(2, 3), 2, 0, 1.0),
    ]  # fmt: skip


@operation(samples=_renorm_samples, inplace=True, unclaimed=COMPOSED)
def renorm(input: Any, p: Any, dim: int, maxnorm: Any) -> Any:
    """Scale every part of a tensor along a dimension down until its p-norm is at most `maxnorm`.

    >>> import pellucid as torch
    >>> torch.renorm(torch.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    p, maxnorm = number(p), number(maxnorm)
    for name, value in (("p", p), ("maxnorm", maxnorm)):
        expect(not isinstance(value, complex), f"renorm: {name} must be real-valued")
    expect(p > 0, "renorm: non-positive-norm not supported")
    expect(maxnorm >= 0, f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    expect(input.ndim > 1, f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    axis = axis_of(dim, input.ndim)
    others = tuple(i for i in range(input.ndim) if i != axis)
    large = vector_norm(bare(input), p, others, True) > maxnorm
    part = keep(input, large)  # what stays as it is has no part in the norms either
    return where(large, part * (maxnorm / (vector_norm(part, p, others, True) + SAFE)), input)


SAFE = 1e-7  # what PyTorch adds to a norm before it divides by it
