"""Copies side by side: repeat, tile, repeat_interleave; grids and every combination of elements.

The gradient of a repeated element is the sum of the gradients of its copies.
"""

import math
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.attributes import concrete
from pellucid.core.primitive import multilinear
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor, wrap
from pellucid.ops.arguments import Shape, axis_of, refusal, sizes_of
from pellucid.ops.axes import transpose
from pellucid.ops.convert import clone_row
from pellucid.ops.create import check_room
from pellucid.ops.expand import expand_row
from pellucid.ops.flat_index import index_select_row
from pellucid.ops.formats import in_order
from pellucid.ops.join import stack
from pellucid.ops.operation import READS_VALUES, call, operation
from pellucid.ops.reduce import sum_row
from pellucid.ops.shape import aligned, flatten, reshape, reshape_row, unsqueeze


def _unrepeat(g: Any, shape: Shape, repeats: Shape) -> Any:
    """Sum the gradients of all copies."""
    padded = (1,) * (len(repeats) - len(shape)) + shape
    pairs = tuple(n for pair in zip(repeats, padded, strict=True) for n in pair)
    return reshape_row(sum_row(reshape_row(g, pairs), tuple(range(0, len(pairs), 2)), False), shape)


repeat_row = bind(
    multilinear(
        "repeat", in_order(np.tile), lambda g, a_shape, repeats: _unrepeat(g, a_shape, repeats),
        batch=lambda op, a, repeats: op(aligned(a, len(repeats)), (1, *repeats)),
    )
)  # fmt: skip


@operation(
    samples=lambda draw: [
        call(draw(3), 2), call(draw(3), 2, 2), call(draw(2, 3), (1, 2)), call(draw(), 3), call(draw(2, 3), 2, 1, 2),
        call(draw(2), 0), call(draw(0), 2), call(draw(1, 2), 2, 3), call(draw(2, 2), 1, 1), call(draw(), ()),
    ],
    reference="",
)  # fmt: skip
def repeat(input: Any, *counts: Any, repeats: Any = None) -> Any:
    """Copies of the tensor side by side, so many along each dimension.

    >>> import pellucid as torch
    >>> torch.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    if not counts and repeats is None:
        raise TypeError('repeat() missing 1 required positional arguments: "repeats"')
    counts = sizes_of(counts if repeats is None else (repeats,))
    if len(counts) < input.ndim:
        raise refusal(
            RuntimeError,
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor",
            f"got {len(counts)} counts for {input.ndim} dimensions",
            "put 1 for every dimension that is not to be repeated, or use tile",
        )
    if any(n < 0 for n in counts):
        raise refusal(RuntimeError, f"Trying to create tensor with negative dimension {min(counts)}")
    shape = (1,) * (len(counts) - input.ndim) + tuple(input.shape)
    check_room("repeat", tuple(n * m for n, m in zip(counts, shape, strict=True)), input.array.dtype)
    return repeat_row(input, counts)


@operation(
    samples=lambda draw: [
        call(draw(3), (2,)), call(draw(2, 3), (2,)), call(draw(3), (2, 2)), call(draw(), (2,)), call(draw(2), (1,)),
        call(draw(2, 3), (2, 2)), call(draw(2, 3), (3, 1, 2)), call(draw(0), (2,)), call(draw(2), (0,)),
        call(draw(3, 2).mT, [2]),
    ],
)  # fmt: skip
def tile(input: Any, *counts: Any, dims: Any = None) -> Any:
    """Like repeat, but missing counts (of leading dimensions) are 1.

    >>> import pellucid as torch
    >>> torch.tensor([[1], [2]]).tile(2)
    tensor([[1, 1],
            [2, 2]])
    """
    counts = sizes_of(counts if dims is None else (dims,))
    return repeat(input, (1,) * (input.ndim - len(counts)) + counts)


@operation(
    samples=lambda draw: [
        call(draw(3), 2), call(draw(2, 3), 2), call(draw(2, 3), 2, 1), call(draw(2, 3), 3, dim=0), call(draw(2), 0),
        call(draw(2, 3), draw.integers(3), 1), call(draw(2), draw.integers(2, low=1)), call(draw(), 2),
        call(draw(2, 2), draw.integers(1, low=2), 0), call(draw(2, 3), 1, -1),
    ], unclaimed=READS_VALUES
)  # fmt: skip
def repeat_interleave(input: Any, repeats: Any = None, dim: Any = None, *, output_size: int | None = None) -> Any:
    """Repeat every element (or every slice along a dimension) on the spot.

    With one argument, the repeats, these are the places: `repeat_interleave(torch.tensor([1, 2]))` is 0, 1, 1.

    >>> import pellucid as torch
    >>> torch.tensor([1, 2]).repeat_interleave(2)
    tensor([1, 1, 2, 2])
    """
    if repeats is None:
        input, repeats = wrap(np.arange(input.shape[0])), input
    if dim is None:
        input, dim = flatten(input), 0
    shape = tuple(input.shape)
    axis = axis_of(dim, len(shape))
    if isinstance(repeats, int):
        if repeats < 0:
            raise refusal(RuntimeError, "Repeats must be non-negative")
        wide = expand_row(unsqueeze(input, axis + 1), (*shape[: axis + 1], repeats, *shape[axis + 1 :]))
        return reshape(clone_row(wide, "C"), (*shape[:axis], shape[axis] * repeats, *shape[axis + 1 :]))
    counts = concrete(repeats, "repeat_interleave") if isinstance(repeats, Tensor) else np.asarray(repeats)
    if counts.dtype not in (np.int64, np.int32):
        what = f"\"repeat_interleave_cpu\" not implemented for '{dtypes.from_numpy_dtype(counts.dtype)}'"
        raise refusal(NotImplementedError, what, "repeats are whole numbers", "repeats.long()")
    if counts.size and counts.min() < 0:
        raise refusal(RuntimeError, "repeats can not be negative")
    if counts.size not in (1, shape[axis]):
        raise refusal(
            RuntimeError,
            f"repeats must have the same size as input along dim, but got repeats.size(0) = {counts.size} and "
            f"input.size({axis}) = {shape[axis]}",
        )
    places = np.repeat(np.arange(shape[axis]), counts.reshape(-1))
    return index_select_row(input, wrap(places), (axis,))


@operation(
    samples=lambda draw: [
        call(draw(2), draw(3), indexing="ij"), call(draw(2), draw(3), indexing="xy"),
        call(draw(), draw(2), indexing="ij"), call(draw(2), draw(1), draw(2), indexing="ij"),
        call(draw(2), draw(0), indexing="ij"), call(draw(3), indexing="ij"), call(draw(3), indexing="xy"),
        call(draw(2), draw(3), draw(2), indexing="xy"), call(draw(), draw(), indexing="ij"),
        call([draw(2), draw(3)], indexing="ij"),
    ],
    methods=(),
)  # fmt: skip
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Any, ...]:
    """Coordinate grids: every combination of the elements of vectors.

    >>> import pellucid as torch
    >>> torch.meshgrid(torch.tensor([1, 2]), torch.tensor([3, 4]), indexing="ij")[0]
    tensor([[1, 1],
            [2, 2]])
    """
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    if not tensors:
        raise refusal(RuntimeError, "meshgrid expects a non-empty TensorList")
    if len({x.dtype for x in tensors}) > 1:
        raise refusal(RuntimeError, "torch.meshgrid expects all tensors to have the same dtype")
    if indexing not in ("ij", "xy"):
        raise refusal(RuntimeError, f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    if any(x.ndim > 1 for x in tensors):
        raise refusal(RuntimeError, "torch.meshgrid: Expected 0D or 1D tensor in the tensor list")
    if indexing == "xy" and len(tensors) > 1:
        grids = [transpose(grid, 0, 1) for grid in meshgrid(*tensors)]
        return tuple(grids)
    shape = tuple(math.prod(x.shape) for x in tensors)
    rank = len(shape)
    return tuple(
        expand_row(reshape(x, (*(1,) * i, shape[i], *(1,) * (rank - 1 - i))), shape) for i, x in enumerate(tensors)
    )


@operation(
    samples=lambda draw: [
        call(draw(2), draw(3)), call(draw(3)), call(draw(2), draw(1), draw(2)), call(draw(1), draw(1)),
        call(draw(2), draw(0)), call(draw(0), draw(0)), call(draw(4), draw(2)), call(draw(1), draw(3), draw(1)),
        call(draw(0)), call(draw(2), draw(2), draw(2), draw(1)),
    ],
    methods=(),
)  # fmt: skip
def cartesian_prod(*tensors: Any) -> Any:
    """Every combination of the elements of vectors, one per row.

    >>> import pellucid as torch
    >>> torch.cartesian_prod(torch.tensor([1, 2]), torch.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])
    """
    for place, given in enumerate(tensors):
        if not isinstance(given, Tensor):
            what = f"expected Tensor as element {place} in argument 0, but got {type(given).__name__}"
            raise refusal(TypeError, what)
    if len(tensors) == 1:
        return tensors[0]
    return stack([reshape(grid, -1) for grid in meshgrid(*tensors, indexing="ij")], 1)
