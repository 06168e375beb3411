"""The memory behind a tensor, and what PyTorch asks about it: resize_, sum_to_size, resolve_conj, chalf ..."""

from math import prod
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core import aliasing
from pellucid.core.attributes import concrete
from pellucid.core.record import attach
from pellucid.core.tensor import Tensor
from pellucid.core.views import current_node
from pellucid.ops.arguments import expect, refusal, sizes_of
from pellucid.ops.complex_numbers import both
from pellucid.ops.create import check_room
from pellucid.ops.formats import RANKS, check_format, order_of, shape_order
from pellucid.ops.layout import geometry
from pellucid.ops.operation import call, operation
from pellucid.ops.reduce import sum
from pellucid.ops.shape import reshape


def resize_(self: Tensor, *sizes: Any, memory_format: Any = None) -> Tensor:
    """Give a tensor other sizes: fewer elements of the same memory, or more, of which the new ones are not set.

    >>> import pellucid as torch
    >>> torch.arange(6).resize_(2, 2)
    tensor([[0, 1],
            [2, 3]])
    """
    shape = sizes_of(sizes)
    expect(current_node(self) is None, "cannot resize variables that require grad")
    array = concrete(self, "resize_()")
    check_room("resize_", shape, array.dtype)
    if memory_format is not None and check_format(memory_format, len(shape)):
        moved = _resized(array, tuple(shape[i] for i in order_of(len(shape))))
        self.array, self.window = moved.transpose(shape_order(len(shape))), None
    elif shape != array.shape or memory_format is dtypes.contiguous_format:
        self.array, self.window = _resized(array, shape), None
    return self


def _resized(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The first elements of an array's memory, in that memory if there is room, else in new memory."""
    memory = aliasing.owner_of(array).ravel("K")
    begin, needed = geometry(array)[2], prod(shape)
    if begin + needed <= memory.size and np.may_share_memory(memory, array):
        return memory[begin : begin + needed].reshape(shape)
    if aliasing.is_exposed(memory):
        raise refusal(
            RuntimeError, "Trying to resize storage that is not resizable", "a NumPy array shares this memory",
            "clone() the tensor first",
        )  # fmt: skip
    larger = np.empty(needed, array.dtype)
    there = memory[begin:][:needed]
    larger[: there.size] = there
    return larger.reshape(shape)


def resize_as_(self: Tensor, the_template: Any, *, memory_format: Any = None) -> Tensor:
    """Give a tensor the sizes of another; see `resize_`.

    >>> import pellucid as torch
    >>> torch.arange(6).resize_as_(torch.zeros(2, 2)).shape
    torch.Size([2, 2])
    """
    if memory_format is dtypes.preserve_format:
        memory_format = next((each for each in RANKS if _lies(the_template, each)), None)
    return resize_(self, tuple(the_template.shape), memory_format=memory_format)


def _lies(tensor: Any, memory_format: Any) -> bool:
    """Whether a tensor's memory has a format that is not the one of all tensors."""
    return tensor.is_contiguous(memory_format=memory_format) and not tensor.is_contiguous()


@operation(
    samples=lambda draw: [
        call(draw(2, 3), 1, 3), call(draw(2, 3), (2, 1)), call(draw(2, 3, 4), 3, 1), call(draw(3), 1), call(draw(), ()),
        call(draw(2, 3), (3,)), call(draw(2, 3), (1,)), call(draw(2, 3), 2, 3), call(draw(2, 0), (2, 1)),
    ],
    reference="torch.Tensor.sum_to_size",
)  # fmt: skip
def sum_to_size(input: Any, *size: Any) -> Any:
    """Sum over dimensions so that the result has this size: the opposite of expand.

    >>> import pellucid as torch
    >>> torch.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])
    """
    if not size:
        raise refusal(TypeError, 'sum_to_size() missing 1 required positional arguments: "size"')
    goal, shape = sizes_of(size), tuple(input.shape)
    if not goal:
        return sum(input)
    extra = len(shape) - len(goal)
    fits = extra >= 0 and all(n in (1, m) for n, m in zip(goal, shape[extra:], strict=True))
    expect(fits, f"size {{{list(goal)}}} is not expandable to size {{{list(shape)}}}.")
    axes = (*range(extra), *(extra + i for i, n in enumerate(goal) if n == 1 != shape[extra + i]))
    total = sum(input, axes, True) if axes else input
    return reshape(total, goal) if extra else total


@operation(samples=both, tensors=1)
def resolve_conj(input: Any) -> Any:
    """The tensor itself: conjugates are computed at once, never noted for later.

    >>> import pellucid as torch
    >>> torch.resolve_conj(torch.tensor([1 + 2j]).conj())
    tensor([1.-2.j])
    """
    return input


@operation(samples=both, tensors=1)
def resolve_neg(input: Any) -> Any:
    """The tensor itself: negatives are computed at once, never noted for later.

    >>> import pellucid as torch
    >>> torch.resolve_neg(torch.tensor([1.0]))
    tensor([1.])
    """
    return input


@operation(samples=both, tensors=1)
def is_conj(input: Any) -> bool:
    """Whether a conjugate is still to be computed: never."""
    return False


@operation(samples=both, tensors=1)
def is_neg(input: Any) -> bool:
    """Whether a negative is still to be computed: never."""
    return False


@operation(samples=lambda draw: [call(draw(2), draw(2)), call(draw(2), draw(1, 2)), call(draw(), draw(0))])
def is_same_size(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape.

    >>> import pellucid as torch
    >>> torch.zeros(2).is_same_size(torch.ones(2))
    True
    """
    return tuple(input.shape) == tuple(other.shape)


def chalf(input: Any, memory_format: Any = None) -> Any:
    """Always an error: NumPy has no complex numbers of half precision. `x.cfloat()` makes complex64.

    >>> import pellucid as torch
    >>> torch.ones(2).cfloat()
    tensor([1.+0.j, 1.+0.j])
    """
    why = "NumPy has no complex numbers of half precision"
    raise refusal(NotImplementedError, "complex32 is not supported", why, "x.cfloat()")


for _method in (resize_, resize_as_, chalf):
    attach(_method.__name__, _method)
