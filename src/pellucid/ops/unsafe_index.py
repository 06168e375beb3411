"""What PyTorch's own composites are made of: indexing whose indices may point outside where a mask is false, and
_chunk_cat, which lays tensors out in chunks one behind the other.
"""

import math
from typing import Any

from pellucid.core.tensor import Tensor
from pellucid.ops.arguments import axis_of, expect
from pellucid.ops.create import zeros
from pellucid.ops.index import getitem, index_put
from pellucid.ops.join import cat
from pellucid.ops.masked import masked_fill
from pellucid.ops.operation import COMPOSED, Draw, Sample, call, operation
from pellucid.ops.select import clamp
from pellucid.ops.shape import reshape


def _inside(input: Any, indices: Any) -> tuple[Any, ...]:
    """Indices brought into range; None takes a whole dimension."""
    sizes = tuple(input.shape)
    return tuple(
        slice(None) if index is None else clamp(index, -size, size - 1)
        for index, size in zip(indices, sizes, strict=False)
    )


def _index_samples(draw: Draw) -> list[Sample]:
    rows, columns = draw.integers(4, 1, low=0, high=5), draw.integers(1, 3, low=0, high=4)
    return [
        call(draw(5, 4), draw.mask(4, 3), [rows, columns], 0.5), call(draw(3), draw.mask(6), [draw.integers(6)], 0.0),
        call(draw(3, 2), draw.mask(4, 2), [draw.integers(4)], 2.0), call(draw(2), draw.mask(0), [draw.integers(0)], 1),
    ]  # fmt: skip


@operation(samples=_index_samples, methods=(), unclaimed=COMPOSED)
def _unsafe_masked_index(input: Any, mask: Any, indices: Any, fill: Any) -> Any:
    """`input[indices]` where the mask is true, else `fill`; where it is false the indices do not matter.

    >>> import pellucid as torch
    >>> mask, index = torch.tensor([True, False]), torch.tensor([1, 99])
    >>> torch._unsafe_masked_index(torch.tensor([1.0, 2.0]), mask, [index], 0.0)
    tensor([2., 0.])
    """
    return masked_fill(getitem(input, _inside(input, indices)), ~mask, fill)


@operation(
    samples=lambda draw: [
        call(*sample.args[:3], draw(*getitem(sample.args[0], tuple(_inside(*sample.args[::2]))).shape))
        for sample in _index_samples(draw)
    ],
    methods=(), unclaimed=COMPOSED,
)  # fmt: skip
def _unsafe_masked_index_put_accumulate(input: Any, mask: Any, indices: Any, values: Any) -> Any:
    """The input with values added at the indices where the mask is true.

    >>> import pellucid as torch
    >>> mask, index = torch.tensor([True, False]), torch.tensor([1, 99])
    >>> torch._unsafe_masked_index_put_accumulate(torch.zeros(2), mask, [index], torch.ones(2))
    tensor([0., 1.])
    """
    return index_put(input, _inside(input, indices), masked_fill(values, ~mask, 0), accumulate=True)


@operation(
    samples=lambda draw: [
        call([draw(3, 2).detach(), draw(5, 2).detach()], 0, 2), call([draw(2, 3).detach(), draw(2, 2).detach()], 1, 2),
        call([draw(4).detach()], 0, 3), call([draw(2, 3, 2).detach(), draw(2, 2, 2).detach()], -2, 2),
    ],
    methods=(),
    out="cast",
)  # fmt: skip
def _chunk_cat(tensors: Any, dim: int, num_chunks: int) -> Any:
    """Every tensor cut into chunks along a dimension (the last filled up with zeros), k-th chunks side by side.

    >>> import pellucid as torch
    >>> torch._chunk_cat([torch.tensor([1, 2, 3]), torch.tensor([4])], 0, 2)
    tensor([[1, 2, 4],
            [3, 0, 0]])
    """
    expect(len(tensors) > 0, "_chunk_cat expects a non-empty input tensor list")
    expect(num_chunks >= 1, "_chunk_cat expects positive num_chunks")
    axis = _common_axis(tensors, dim)
    return cat([_chunks(tensor, axis, num_chunks) for tensor in tensors], axis + 1)


def _common_axis(tensors: Any, dim: int) -> int:
    """The dimension as one of all tensors, which agree in the dimensions before it."""
    shapes = [tuple(tensor.shape) for tensor in tensors]
    expect(all(math.prod(shape) for shape in shapes), "_chunk_cat expects non-empty tensor")
    expect(dim >= 0 or len(set(map(len, shapes))) == 1,
           "_chunk_cat expects non-negative dim when input tensors have different ndims")  # fmt: skip
    axis = axis_of(dim, len(shapes[0]))
    expect(all(axis < len(shape) for shape in shapes), "_chunk_cat expects dim < ndim for all input tensors")
    expect(len({shape[:axis] for shape in shapes}) == 1,
           "_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors")  # fmt: skip
    return axis


def _chunks(tensor: Tensor, axis: int, count: int) -> Any:
    """A tensor as (*before, chunk, rest): its dimensions from the axis on are one."""
    shape = list(tensor.shape)  # type: ignore[attr-defined]
    missing = -shape[axis] % count
    if missing:
        filler = zeros(*shape[:axis], missing, *shape[axis + 1 :], dtype=tensor.dtype)  # type: ignore[attr-defined]
        tensor = cat([tensor, filler], axis)
    return reshape(tensor, (*shape[:axis], count, -1))
