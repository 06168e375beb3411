"""Splitting: the ways to cut a tensor into views.

A split into n parts is one node with n results, and its backward puts the n gradients together in one pass: the
cost of a split does not depend on how many parts are used.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from math import prod
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core import modes
from pellucid.core.careful import MULTI_VIEW, made_under
from pellucid.core.primitive import BOUND, TABLE, general
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor
from pellucid.core.views import lead_nowhere, view_of
from pellucid.ops.arguments import ALL, Row, Shape, axis_of, name_of, number, refusal, sizes_of
from pellucid.ops.operation import Draw, Sample, call, named, operation
from pellucid.ops.slicing import slice_row

Indices = tuple[tuple[Any, ...], ...]


def _put_together(parts: tuple[ndarray, ...], indices: Indices, shape: Shape) -> ndarray:
    whole = sum([part.size for part in parts]) == prod(shape)  # they are disjoint
    out = (np.empty if whole else np.zeros)(shape, parts[0].dtype)
    for part, index in zip(parts, indices, strict=True):
        out[index] = part
    return out


def _arrived(g: Sequence[Any], indices: Indices, shape: Shape) -> Any:
    """Put those gradients (or tangents) together that there are."""
    there = [(part, index) for part, index in zip(g, indices, strict=True) if part is not None]
    return put_together_row([part for part, _ in there], tuple([index for _, index in there]), shape)


put_together_row = bind(
    general(
        "put_together", _put_together,
        jvp=lambda tangents, y, inputs, params: _arrived(tangents, *params),
        pullback=lambda g, indices, shape: BOUND["split"](g, indices),
        batch=lambda op, parts, indices, shape: op(parts, _behind_batch(indices), (parts[0].shape[0], *shape)),
    )
)  # fmt: skip


def _behind_batch(indices: Indices) -> Indices:
    return tuple((ALL, *index) for index in indices)


def splitting(name: str) -> Row:
    """A row (a, indices) with one result per basic index, all of them views of disjoint parts."""
    return bind(
        general(
            name, lambda a, indices: tuple([a[index] for index in indices]), None, outputs=0,
            jvp=lambda tangents, y, inputs, params: BOUND[name](tangents[0], *params),
            pullback=lambda g, a_shape, indices: (_arrived(g, indices, a_shape),),
            batch=lambda op, a, indices: op(a, _behind_batch(indices)),
        )
    )  # fmt: skip


split_row, split_with_sizes_row, unbind_row = (splitting(name) for name in ("split", "split_with_sizes", "unbind"))


def _views(row: Row, input: Any, indices: Indices) -> tuple[Any, ...]:
    """Run a split; each part is also a plain slice of the input, whose history it renews when that is changed."""
    if not indices:
        return ()
    parts: tuple[Any, ...] = row(input, indices)
    mode = modes.current()
    if isinstance(input, Tensor) and not (mode.inference and input.is_inference()):
        step = TABLE["slice"]
        forbids = MULTI_VIEW.format(row.__name__) if mode.grad else made_under(mode)
        for part, index in zip(parts, indices, strict=True):
            part.window = view_of(input, step, (index,), forbids)
            if not mode.grad:
                lead_nowhere(part)
                part.cut = part.cut.beyond if part.cut is not None else None  # a view of an ordinary tensor is one too
    return parts


def _ranges(sizes: Sequence[int], axis: int) -> Indices:
    """One index per part: consecutive ranges of the given sizes."""
    before = (ALL,) * axis
    return tuple((*before, slice(stop - n, stop), ...) for stop, n in zip(accumulate(sizes), sizes, strict=True))


def _needs_dimension(input: Any, name: str) -> None:
    if not input.ndim:
        raise refusal(RuntimeError, f"{name} expects at least a 1-dimensional tensor")


@operation(
    samples=lambda draw: [
        call(draw(5, 2), 2), call(draw(5, 2), [1, 4]), call(draw(2, 5), 2, 1), call(draw(4), 4), call(draw(4), 9),
        call(draw(0), 1), call(draw(2, 4), (1, 0, 3), -1), call(draw(3), 1), call(draw(3, 4).mT, 3),
        call(draw(2, 3, 4), 2, dim=-2),
    ],
)  # fmt: skip
def split(tensor: Any, split_size_or_sections: Any, dim: int = 0) -> tuple[Any, ...]:
    """Cut a tensor into parts of one size (the last may be smaller), or of the sizes given: views.

    >>> import pellucid as torch
    >>> torch.arange(5).split(2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    if isinstance(split_size_or_sections, (tuple, list)):
        return split_with_sizes(tensor, split_size_or_sections, dim)
    return _views(split_row, tensor, parts_of_size(tensor, split_size_or_sections, dim))


def _split_method(self: Any, split_size: Any, dim: int = 0) -> tuple[Any, ...]:
    """Like torch.split, whose argument has another name."""
    return split(self, split_size, dim)


Tensor.split = named(_split_method, "split")  # type: ignore[attr-defined]


def parts_of_size(input: Any, split_size: Any, dim: int) -> Indices:
    """The indices of parts of one size; the last may be smaller."""
    _needs_dimension(input, "split")
    axis, size = axis_of(dim, input.ndim), int(split_size)
    length = input.shape[axis]
    if size < 0:
        raise refusal(RuntimeError, f"split expects split_size be non-negative, but got split_size={size}")
    if size == 0 and length:
        what = f"split_size can only be 0 if dimension size is 0, but got dimension size of {length}"
        raise refusal(RuntimeError, what)
    return _equal_ranges(length, size, axis)


@lru_cache(maxsize=256)
def _equal_ranges(length: int, size: int, axis: int) -> Indices:
    sizes = [size] * (length // size) + ([length % size] if length % size else []) if size and length else [length]
    return _ranges(sizes, axis)


@operation(
    samples=lambda draw: [
        call(draw(5), [2, 3]), call(draw(2, 4), (1, 0, 3), 1), call(draw(3, 2), [3]), call(draw(4), [1, 1, 1, 1]),
        call(draw(0), [0, 0]), call(draw(2, 4), [2, 2], -1), call(draw(3, 4).mT, [1, 3]),
        call(draw(2, 3, 2), [1, 2], 1), call(draw(1), [1]), call(draw(2, 0), [1, 1]),
    ],
)  # fmt: skip
def split_with_sizes(input: Any, split_sizes: Any, dim: int = 0) -> tuple[Any, ...]:
    """Cut a tensor into parts of the sizes given: views.

    >>> import pellucid as torch
    >>> torch.arange(3).split_with_sizes([1, 2])
    (tensor([0]), tensor([1, 2]))
    """
    return _views(split_with_sizes_row, input, parts_of_sizes(input, split_sizes, dim))


def parts_of_sizes(input: Any, split_sizes: Any, dim: int) -> Indices:
    """The indices of parts of the sizes given."""
    _needs_dimension(input, "split")
    axis, sizes = axis_of(dim, input.ndim), sizes_of((tuple(split_sizes),))
    if sum(sizes) != input.shape[axis] or any(n < 0 for n in sizes):
        raise refusal(
            RuntimeError,
            f"split_with_sizes expects split_sizes to sum exactly to {input.shape[axis]} (input tensor's size at "
            f"dimension {axis}), but got split_sizes={list(sizes)}",
        )
    return _ranges(sizes, axis)


@operation(
    samples=lambda draw: [
        call(draw(5), 2), call(draw(2, 5), 3, 1), call(draw(4), 4), call(draw(4), 9), call(draw(3, 2), 1),
        call(draw(0), 2), call(draw(2, 4), 2, -1), call(draw(3, 4).mT, 3), call(draw(2, 3, 4), 2, dim=1),
        call(draw(1), 1),
    ],
)  # fmt: skip
def chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """Cut a tensor into (at most) so many parts of equal size, the last perhaps smaller: views.

    >>> import pellucid as torch
    >>> torch.arange(5).chunk(2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    row = split_row if input.ndim and input.shape[axis_of(dim, input.ndim)] else split_with_sizes_row
    return _views(row, input, chunks_of(input, chunks, dim))


def chunks_of(input: Any, chunks: int, dim: int) -> Indices:
    """The indices of (at most) so many parts of equal size."""
    _needs_dimension(input, "chunk")
    if chunks <= 0:
        raise refusal(RuntimeError, f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    axis = axis_of(dim, input.ndim)
    length = input.shape[axis]
    return parts_of_size(input, -(-length // chunks), axis) if length else _ranges([0] * chunks, axis)


@operation(
    samples=lambda draw: [
        call(draw(3, 2)), call(draw(3, 2), 1), call(draw(4)), call(draw(2, 3, 2), -1), call(draw(1, 1)),
        call(draw(2, 0)), call(draw(3, 4).mT), call(draw(2, 3, 2), dim=1), call(draw(1)), call(draw(3, 2), -2),
    ],
)  # fmt: skip
def unbind(input: Any, dim: int = 0) -> tuple[Any, ...]:
    """All slices along a dimension: views.

    >>> import pellucid as torch
    >>> torch.tensor([[1, 2], [3, 4]]).unbind()
    (tensor([1, 2]), tensor([3, 4]))
    """
    if not input.ndim:
        raise refusal(IndexError, "Dimension specified as 0 but tensor has no dimensions")
    axis = axis_of(dim, input.ndim)
    before = (ALL,) * axis
    return _views(unbind_row, input, tuple((*before, i, ...) for i in range(input.shape[axis])))


@operation(
    samples=lambda draw: [
        call(draw(5), 2), call(draw(5), (1, 3)), call(draw(2, 5), 3, 1), call(draw(4), 6), call(draw(4), [2, 9]),
        call(draw(5), [3, 1]), call(draw(2, 4), (1,), -1), call(draw(0), 2), call(draw(3, 4).mT, 3),
        call(draw(2, 3, 4), [1, 2], dim=1),
    ],
)  # fmt: skip
def tensor_split(input: Any, indices_or_sections: Any, dim: int = 0) -> tuple[Any, ...]:
    """Cut a tensor at the indices given, or into so many nearly equal parts: views.

    >>> import pellucid as torch
    >>> torch.arange(5).tensor_split((1, 3))
    (tensor([0]), tensor([1, 2]), tensor([3, 4]))
    """
    if not input.ndim:
        raise refusal(
            RuntimeError, "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    axis = axis_of(dim, input.ndim)
    indices_or_sections = number(indices_or_sections)
    if isinstance(indices_or_sections, bool):
        what = "argument 'indices_or_sections' must be int, tuple or Tensor, not bool"
        raise refusal(TypeError, f"tensor_split(): {what}")
    if isinstance(indices_or_sections, Tensor):
        if indices_or_sections.array.dtype != np.int64:
            what = f"tensor_indices_or_sections to have dtype of long, but got {name_of(indices_or_sections)}"
            raise refusal(RuntimeError, f"tensor_split expected {what}")
        if indices_or_sections.array.ndim > 1:
            what = f"zero-dimensional or one-dimensional tensor, but got {indices_or_sections.array.ndim} dims"
            raise refusal(RuntimeError, f"tensor_split expected tensor_indices_or_sections to be a {what}")
        indices_or_sections = indices_or_sections.tolist()  # type: ignore[attr-defined]
    before, length = (ALL,) * axis, input.shape[axis]
    if isinstance(indices_or_sections, int):
        if indices_or_sections <= 0:
            raise refusal(RuntimeError, f"number of sections must be larger than 0, got {indices_or_sections}")
        size, larger = divmod(length, indices_or_sections)
        sizes = [size + 1] * larger + [size] * (indices_or_sections - larger)
        return tuple(slice_row(input, index) for index in _ranges(sizes, axis))
    cuts = [0, *sizes_of((tuple(indices_or_sections),)), length]
    return tuple(slice_row(input, (*before, slice(a, b), ...)) for a, b in pairwise(cuts))


def _block_samples(draw: Draw) -> list[Sample]:
    return [
        call(draw(2, 2, 4), 2), call(draw(4, 4, 4), [1, 3]), call(draw(2, 4, 2), 1), call(draw(3, 3, 3), 3),
        call(draw(3, 3, 3), (1,)), call(draw(1, 1, 1), 1), call(draw(2, 2, 2, 2), 2), call(draw(2, 4, 2).mT, 2),
        call(draw(3, 3, 3), [2, 2]), call(draw(2, 2, 2), (0, 5)),
    ]  # fmt: skip


def _split_along(name: str, axis: int, rank: int) -> None:
    """hsplit, vsplit, dsplit: tensor_split along a fixed dimension."""

    def function(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
        if input.ndim < rank:
            raise refusal(
                RuntimeError,
                f"torch.{name} requires a tensor with at least {rank} dimension, but got a tensor "
                f"with {input.ndim} dimensions!",
            )
        along = 0 if name == "hsplit" and input.ndim == 1 else axis
        sections = indices_or_sections = number(indices_or_sections)
        if isinstance(sections, int) and (sections <= 0 or input.shape[along] % sections):
            raise refusal(
                RuntimeError,
                f"torch.{name} attempted to split along dimension {along}, but the size of the dimension "
                f"{input.shape[along]} is not divisible by the split_size {indices_or_sections}!",
            )
        return tensor_split(input, indices_or_sections, along)  # type: ignore[no-any-return]

    function.__name__ = name
    function.__doc__ = f"""Cut a tensor along dimension {axis}: views.

    >>> import pellucid as torch
    >>> len(torch.zeros(2, 2, 2).{name}(2))
    2
    """
    operation(samples=_block_samples)(function)


for _name, _axis, _rank in (("hsplit", 1, 1), ("vsplit", 0, 2), ("dsplit", 2, 3)):
    _split_along(_name, _axis, _rank)
