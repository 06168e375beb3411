"""Splits whose parts count as tensors of their own: PyTorch's unsafe_split and its kin.

The parts share the memory of the tensor like those of `split`, but autograd does not know it: a part may be written to,
and whether the others are still needed then is for the caller to know.
"""

from typing import Any

from pellucid.ops.operation import call, operation
from pellucid.ops.split import chunks_of, parts_of_size, parts_of_sizes, splitting

unsafe_split_row = splitting("unsafe_split")
unsafe_split_with_sizes_row = splitting("unsafe_split_with_sizes")


@operation(
    samples=lambda draw: [
        call(draw(5, 2), 2), call(draw(2, 5), 2, 1), call(draw(4), 9), call(draw(0), 1), call(draw(3, 4).mT, 3),
        call(draw(2, 3, 4), 2, dim=-2),
    ],
)  # fmt: skip
def unsafe_split(input: Any, split_size: int, dim: int = 0) -> tuple[Any, ...]:
    """Cut a tensor into parts of one size, the last perhaps smaller.

    >>> import pellucid as torch
    >>> torch.arange(5).unsafe_split(2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    return unsafe_split_row(input, parts_of_size(input, split_size, dim))  # type: ignore[no-any-return]


@operation(
    samples=lambda draw: [
        call(draw(5), [2, 3]), call(draw(2, 4), (1, 0, 3), 1), call(draw(3, 2), [3]), call(draw(0), [0, 0]),
        call(draw(2, 4), [2, 2], dim=-1), call(draw(3, 4).mT, [1, 3]),
    ],
)  # fmt: skip
def unsafe_split_with_sizes(input: Any, split_sizes: Any, dim: int = 0) -> tuple[Any, ...]:
    """Cut a tensor into parts of the sizes given.

    >>> import pellucid as torch
    >>> torch.arange(3).unsafe_split_with_sizes([1, 2])
    (tensor([0]), tensor([1, 2]))
    """
    indices = parts_of_sizes(input, split_sizes, dim)
    return unsafe_split_with_sizes_row(input, indices) if indices else ()


@operation(
    samples=lambda draw: [
        call(draw(5), 2), call(draw(2, 5), 3, 1), call(draw(4), 9), call(draw(0), 2), call(draw(3, 4).mT, 3),
        call(draw(2, 3, 4), 2, dim=-2),
    ],
)  # fmt: skip
def unsafe_chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """Cut a tensor into (at most) so many parts of equal size, the last perhaps smaller.

    >>> import pellucid as torch
    >>> torch.arange(5).unsafe_chunk(2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    return unsafe_split_row(input, chunks_of(input, chunks, dim))  # type: ignore[no-any-return]
