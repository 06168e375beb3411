"""Products of other forms: outer, inner, tensordot, kron, cross, and chains of matrices.

All but `cross` are spelled with reshapes and the products of matmul.py.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from pellucid.core.primitive import multilinear
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor
from pellucid.ops.arguments import Shape, axis_of, expect, number
from pellucid.ops.axes import permute_row
from pellucid.ops.convert import as_type
from pellucid.ops.matmul import column, dot_row, matmul
from pellucid.ops.operation import COMPOSED, call, operation
from pellucid.ops.reduce import sum_row
from pellucid.ops.shape import aligned, reshape_row


@operation(
    samples=lambda draw: [
        call(draw(2), draw(3)), call(draw(0), draw(3)), call(draw(1), draw(1)), call(draw(3), draw(2)),
        call(draw(3), draw(0)), call(draw(1), draw(4)), call(draw(4), draw(1)),
        call(draw.complex(2), draw.complex(2)), call(draw.integers(2), draw.integers(3)), call(draw(0), draw(0)),
    ],
    aliases=("ger",),
    out="cast",
)  # fmt: skip
def outer(input: Any, vec2: Any) -> Any:
    """Every element of one vector times every element of another.

    >>> import pellucid as torch
    >>> torch.outer(torch.tensor([1, 2]), torch.tensor([1, 10]))
    tensor([[ 1, 10],
            [ 2, 20]])
    """
    for name, vector in (("self", input), ("vec2", vec2)):
        expect(vector.ndim == 1, f"outer: Expected 1-D argument {name}, but got {vector.ndim}-D")
    return column(input) * vec2


@operation(
    samples=lambda draw: [
        call(draw(3), draw(3)), call(draw(2, 3), draw(4, 3)), call(draw(2, 3), draw(3)), call(draw(), draw(2, 3)),
        call(draw(2, 1, 3), draw(2, 3)), call(draw(2), draw()), call(draw(), draw()), call(draw(3), draw(2, 3)),
        call(draw(3, 2).mT, draw(4, 3)), call(draw(0), draw(0)), call(draw(2, 0), draw(3, 0)),
    ], unclaimed=COMPOSED,
)  # fmt: skip
def inner(input: Any, other: Any) -> Any:
    """Sums of products along the last dimension of both.

    >>> import pellucid as torch
    >>> torch.inner(torch.ones(2, 3), torch.ones(3))
    tensor([3., 3.])
    """
    if not input.ndim or not other.ndim:
        return input * other
    expect(input.dtype is other.dtype, "inner: both inputs should have same dtype")
    shapes = f"{list(input.shape)} and {list(other.shape)}"
    expect(
        input.shape[-1] == other.shape[-1],
        f"inner() the last dimension must match on both input tensors but got shapes {shapes}",
    )
    return dot_row(input, other) if input.ndim == other.ndim == 1 else tensordot(input, other, ([-1], [-1]))


@operation(
    samples=lambda draw: [
        call(draw(2, 3), draw(3, 4), 1), call(draw(2, 3, 4), draw(3, 4, 2)), call(draw(2, 3), draw(4), 0),
        call(draw(2, 3, 4), draw(4, 3, 5), ([1, 2], [1, 0])), call(draw(2, 3), draw(4, 3), dims=([-1], [-1])),
        call(draw(2, 3), draw(2, 3), 2), call(draw(0, 3), draw(3, 2), 1), call(draw(2, 0), draw(0, 2), 1),
        call(draw(), draw(), 0), call(draw(3, 2).mT, draw(3, 4), 1),
    ],
    methods=(),
)  # fmt: skip
def tensordot(a: Any, b: Any, dims: Any = 2) -> Any:
    """Contract some dimensions of two tensors: the last `dims` with the first, or two lists of dimensions.

    >>> import pellucid as torch
    >>> torch.tensordot(torch.ones(2, 3, 4), torch.ones(4, 3, 5), dims=([1, 2], [1, 0])).shape
    torch.Size([2, 5])
    """
    first, second = _contracted(a.ndim, b.ndim, dims)
    expect(len(first) == len(second), "tensordot: both dimension lists should have same length")
    for i, j in zip(first, second, strict=True):
        if 1 in (a.shape[i], b.shape[j]):  # a dimension of size 1 meets one of any size
            a = a if a.shape[i] == 1 else as_type(sum_row(a, (i,), True), a.dtype)
            b = b if b.shape[j] == 1 else as_type(sum_row(b, (j,), True), b.dtype)
        sizes = f"first has size {a.shape[i]} in dim {i} and second has size {b.shape[j]} in dim {j}"
        expect(a.shape[i] == b.shape[j], f"tensordot: contracted dimensions need to match, but {sizes}")
    free_a = [i for i in range(a.ndim) if i not in first]
    free_b = [i for i in range(b.ndim) if i not in second]
    inside = prod(a.shape[i] for i in first)
    shape_a, shape_b = [a.shape[i] for i in free_a], [b.shape[i] for i in free_b]
    left = reshape_row(permute_row(a, (*free_a, *first)), (prod(shape_a), inside))
    right = reshape_row(permute_row(b, (*second, *free_b)), (inside, prod(shape_b)))
    return reshape_row(matmul(left, right), (*shape_a, *shape_b))


def _contracted(n: int, m: int, dims: Any) -> tuple[list[int], list[int]]:
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    dims = number(dims)
    if isinstance(dims, int):
        expect(dims >= 0, f"tensordot expects dims >= 0, but got dims={dims}")
        expect(dims <= min(n, m), f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        return list(range(n - dims, n)), list(range(dims))
    first, second = ([dim] if isinstance(dim, int) else dim for dim in dims)
    return [axis_of(dim, n) for dim in first], [axis_of(dim, m) for dim in second]


@operation(
    samples=lambda draw: [
        call(draw(2, 3), draw(3, 2)), call(draw(2), draw(3)), call(draw(2, 1, 2), draw(3, 2)), call(draw(), draw(2)),
        call(draw(0, 2), draw(2, 2)), call(draw(), draw()), call(draw(2), draw(2, 2)), call(draw(1, 1), draw(3, 2)),
        call(draw(3, 2).mT, draw(1, 2)), call(draw.complex(2), draw.complex(2)),
    ], unclaimed=COMPOSED,
    out="cast",
)  # fmt: skip
def kron(input: Any, other: Any) -> Any:
    """Kronecker product: every element of the first times the whole second.

    >>> import pellucid as torch
    >>> torch.kron(torch.tensor([1, 10]), torch.tensor([1, 2, 3]))
    tensor([ 1,  2,  3, 10, 20, 30])
    """
    for position, value in enumerate((input, other)):
        if not isinstance(value, Tensor):
            raise TypeError(f"kron(): argument (position {position + 1}) must be Tensor, not {type(value).__name__}")
    rank = max(input.ndim, other.ndim)
    first = (1,) * (rank - input.ndim) + tuple(input.shape)
    second = (1,) * (rank - other.ndim) + tuple(other.shape)
    spread = reshape_row(input, tuple(size for n in first for size in (n, 1)))
    product = spread * reshape_row(other, tuple(size for n in second for size in (1, n)))
    return reshape_row(product, tuple(n * m for n, m in zip(first, second, strict=True)))


def _cross(a: np.ndarray, b: np.ndarray, axis: int) -> np.ndarray:
    one, two = [1, 2, 0], [2, 0, 1]
    return a.take(one, axis) * b.take(two, axis) - a.take(two, axis) * b.take(one, axis)


# The axis counts from the end, so that it is the same for inputs of different rank.
cross_row = bind(
    multilinear(
        "linalg_cross", _cross, lambda g, b, axis: cross_row(b, g, axis), lambda g, a, axis: cross_row(g, a, axis),
        dtypes="promote",
        batch=lambda op, a, b, axis: op(aligned(a, b.ndim - 1), aligned(b, a.ndim - 1), axis),
    )
)  # fmt: skip


@operation(
    samples=lambda draw: [
        call(draw(3), draw(3), 0), call(draw(2, 3), draw(2, 3), dim=1), call(draw(3, 2), draw(3, 2), 0),
        call(draw(4, 3), draw(1, 3), dim=-1), call(draw(0, 3), draw(0, 3), dim=1),
        call(draw(3, 2).mT, draw(2, 3), dim=1), call(draw(2, 3, 4), draw(2, 3, 4), dim=1),
        call(draw(1, 3), draw(1, 3), -1), call(draw(2, 1, 3), draw(1, 4, 3), dim=-1),
        call(draw.complex(3), draw.complex(3), 0),
    ],
)  # fmt: skip
def cross(input: Any, other: Any, dim: int | None = None) -> Any:
    """Cross product of vectors of three elements along a dimension (the first of size 3 if none is given).

    >>> import pellucid as torch
    >>> torch.cross(torch.tensor([1, 0, 0]), torch.tensor([0, 1, 0]), dim=0)
    tensor([0, 0, 1])
    """
    expect(input.ndim == other.ndim, "linalg.cross: inputs must have the same number of dimensions.")
    if dim is None:
        dim = next((i for i, n in enumerate(input.shape) if n == 3), None)
        expect(dim is not None, "no dimension of size 3 in input")
    axis = axis_of(dim, input.ndim) - input.ndim
    both = f"{input.shape[axis]} and {other.shape[axis]}"
    expect(
        input.shape[axis] == other.shape[axis] == 3,
        f"linalg.cross: inputs dimension {dim} must have length 3. Got {both}",
    )
    return cross_row(input, other, axis)


@operation(
    samples=lambda draw: [
        call([draw(2, 3), draw(3, 4), draw(4, 2)]), call([draw(3), draw(3, 4), draw(4)]),
        call([draw(2, 3), draw(3, 2)]), call([draw(2, 3), draw(3, 5), draw(5, 1), draw(1, 2)]),
        call([draw(3), draw(3)]), call([draw(2, 3), draw(3)]), call([draw(3), draw(3, 2)]),
        call([draw(1, 1), draw(1, 1), draw(1, 1)]), call([draw(3, 2).mT, draw(3, 2), draw(2, 3)]),
        call([draw(0, 2), draw(2, 3), draw(3, 1)]),
    ],
    module="torch.linalg",
    methods=(), unclaimed=COMPOSED,
)  # fmt: skip
def multi_dot(tensors: Sequence[Any]) -> Any:
    """Product of several matrices, multiplied in the cheapest order; the first and last may be vectors.

    >>> import pellucid as torch
    >>> multi_dot([torch.ones(2, 3), torch.ones(3, 4), torch.ones(4)])
    tensor([12., 12.])
    """
    factors = list(tensors)
    expect(len(factors) >= 2, f"multi_dot(): expected at least 2 tensors but got {len(factors)}")
    _check_ranks(factors)
    for i, (one, two) in enumerate(pairwise(factors)):
        shapes = f"tensors {i} and {i + 1} with shapes {list(one.shape)} and {list(two.shape)}"
        fits = one.shape[-1] == two.shape[0 if two.ndim == 1 else -2]
        expect(fits, f"multi_dot(): {shapes} cannot be multiplied")
    lengths = tuple(t.shape[0] if t.ndim > 1 else 1 for t in factors[:1]) + tuple(
        t.shape[-1] if t.ndim > 1 or i == 0 else 1 for i, t in enumerate(factors)
    )
    return _multiplied(factors, 0, len(factors) - 1, lengths)


def _check_ranks(factors: Sequence[Any]) -> None:
    """Refuse what is no chain of matrices of one dtype with perhaps a vector at either end."""
    last = len(factors) - 1
    for i, factor in enumerate(factors):
        name = {0: "the first tensor", last: "the last tensor"}.get(i, f"tensor {i}")
        inside = 0 < i < last
        wanted = "2D" if inside else "1D or 2D"
        fits = factor.ndim == 2 or (factor.ndim == 1 and not inside)
        expect(fits, f"multi_dot(): {name} must be {wanted} but got {factor.ndim}D")
        types = f"tensor 0 is {factors[0].dtype} and tensor {i} {factor.dtype}"
        same = factor.dtype == factors[0].dtype
        expect(same, f"multi_dot(): all tensors must have be the same dtype but {types}")


def _multiplied(factors: Sequence[Any], first: int, last: int, lengths: Shape) -> Any:
    if first == last:
        return factors[first]
    _, cut = _cheapest(first, last, lengths)
    return matmul(_multiplied(factors, first, cut, lengths), _multiplied(factors, cut + 1, last, lengths))


@lru_cache(maxsize=1024)
def _cheapest(first: int, last: int, lengths: Shape) -> tuple[int, int]:
    """The number of multiplications that factors first..last cost, and after which factor to cut them in two."""
    if first == last:
        return 0, first
    return min(
        (_cheapest(first, i, lengths)[0] + _cheapest(i + 1, last, lengths)[0]
         + lengths[first] * lengths[i + 1] * lengths[last + 1], i)
        for i in range(first, last)
    )  # fmt: skip


@operation(
    samples=lambda draw: [
        call(draw(2, 3), draw(3, 4), draw(4, 2)), call(draw(2, 3), draw(3, 2)), call(draw(2, 3)),
        call(draw(2, 3), draw(3, 5), draw(5, 1), draw(1, 2)), call(draw(1, 1), draw(1, 1)),
        call(draw(3, 2).mT, draw(3, 2)), call(draw(5, 1), draw(1, 5), draw(5, 1)),
        call(draw(3, 3), draw(3, 3), draw(3, 3)), call(draw(1, 4), draw(4, 1), draw(1, 4)),
        call(draw(2, 2), draw(2, 3)),
    ],
    methods=(), unclaimed=COMPOSED,
)  # fmt: skip
def chain_matmul(*matrices: Any) -> Any:
    """Product of several matrices in the cheapest order; `linalg.multi_dot` is its newer form.

    >>> import pellucid as torch
    >>> torch.chain_matmul(torch.ones(2, 3), torch.ones(3, 1))
    tensor([[3.],
            [3.]])
    """
    for each in matrices:
        expect(each.ndim == 2, f"chain_matmul: Tensor dimension is {each.ndim}, expected 2 instead.")
    return matrices[0] if len(matrices) == 1 else multi_dot(matrices)
