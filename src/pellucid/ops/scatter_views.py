"""A tensor with one of its views replaced: diagonal_scatter, select_scatter, slice_scatter, as_strided_scatter.

The inverse of looking: the gradient of what was written is the view of the gradient, the tensor gets the rest.
"""

from operator import index as as_int
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core.primitive import BOUND
from pellucid.core.record import bind
from pellucid.ops.arguments import ALL, Row, axis_of, expect
from pellucid.ops.convert import as_type
from pellucid.ops.copies import slice_index
from pellucid.ops.diagonal import diagonal, diagonal_row
from pellucid.ops.layout import Geometry
from pellucid.ops.operation import call, operation
from pellucid.ops.shape import zeros_like_row
from pellucid.ops.slicing import jointly_linear, select, slice_row
from pellucid.ops.strided import as_strided, as_strided_row, extent, places, windows


def _replacing(view: Row) -> Row:
    """A kernel (a, b, params): a with the part that a view looks at replaced by b."""

    def forward(a: ndarray, b: ndarray, *params: Any) -> ndarray:
        out = np.array(a)
        view(out, *params)[...] = b
        return out

    return forward


def _indexed(name: str) -> Row:
    """A row (a, b, index) for a view by a basic index."""
    return bind(
        jointly_linear(
            name, _replacing(slice_row),
            lambda g, index: BOUND[name](g, zeros_like_row(slice_row(g, index)), index),
            lambda g, index: slice_row(g, index),
            batch=lambda op, a, b, index: op(a, b, (ALL, *index)),
        )
    )  # fmt: skip


_select_scatter_row, _slice_scatter_row = _indexed("select_scatter"), _indexed("slice_scatter")
_diagonal_scatter_row = bind(
    jointly_linear(
        "diagonal_scatter", _replacing(diagonal_row),
        lambda g, b_shape, offset, axis1, axis2: _diagonal_scatter_row(
            g, zeros_like_row(diagonal_row(g, offset, axis1, axis2)), offset, axis1, axis2
        ),
        lambda g, offset, axis1, axis2: diagonal_row(g, offset, axis1, axis2),
        batch=lambda op, a, b, offset, axis1, axis2: op(a, b, offset, axis1 + 1, axis2 + 1),
    )
)  # fmt: skip


def _write_strided(a: ndarray, b: ndarray, source: Geometry, target: Geometry) -> ndarray:
    """Through the storage: both the tensor and the window say which of its elements are theirs."""
    storage = np.zeros(extent(source, target), a.dtype)
    storage[places(source)] = a
    storage[places(target)] = b
    return storage[places(source)]


_as_strided_scatter_row = bind(
    jointly_linear(
        "as_strided_scatter", _write_strided,
        lambda g, b_shape, source, target: _as_strided_scatter_row(
            g, zeros_like_row(as_strided_row(g, source, target)), source, target
        ),
        lambda g, source, target: as_strided_row(g, source, target),
    )
)  # fmt: skip


def _written(row: Row, input: Any, src: Any, part: Any, *params: Any) -> Any:
    """Run a row, if what is written has the shape of the part it replaces."""
    size, slot = list(src.shape), list(part.shape)
    expect(size == slot, f"expected src to have a size equal to the slice of self. src size = {size}, "
                         f"slice size = {slot}")  # fmt: skip
    return row(input, as_type(src, input.dtype), *params)


@operation(
    samples=lambda draw: [
        call(draw(3, 3), draw(3)), call(draw(2, 4), draw(2), 1), call(draw(4, 2), draw(2), -1),
        call(draw(2, 3, 4), draw(2, 3), 0, 1, 2), call(draw(0, 2), draw(0)), call(draw(3, 2).mT, draw(2)),
        call(draw(3, 2, 3), draw(2, 2), 1, 2, 0),
    ],
)  # fmt: skip
def diagonal_scatter(input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """The tensor with the diagonal of every matrix replaced.

    >>> import pellucid as torch
    >>> torch.diagonal_scatter(torch.zeros(2, 2), torch.ones(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    part = diagonal(input.detach(), offset, dim1, dim2)
    axes = axis_of(dim1, input.ndim), axis_of(dim2, input.ndim)
    return _written(_diagonal_scatter_row, input, src, part, as_int(offset), *axes)


@operation(
    samples=lambda draw: [
        call(draw(4, 3), draw(3), 0, 1), call(draw(4, 3), draw(4), 1, -1), call(draw(4), draw(), 0, 2),
        call(draw(2, 3, 4), draw(2, 3), -1, 0), call(draw(2, 0), draw(0), 0, 1), call(draw(3, 4).mT, draw(3), 0, 1),
    ],
)  # fmt: skip
def select_scatter(input: Any, src: Any, dim: int, index: int) -> Any:
    """The tensor with one slice along a dimension replaced.

    >>> import pellucid as torch
    >>> torch.select_scatter(torch.zeros(2, 2), torch.ones(2), 0, 1)
    tensor([[0., 0.],
            [1., 1.]])
    """
    part = select(input.detach(), dim, index)
    before = (ALL,) * axis_of(dim, input.ndim)
    return _written(_select_scatter_row, input, src, part, (*before, int(index), ...))


@operation(
    samples=lambda draw: [
        call(draw(5), draw(5)), call(draw(5, 2), draw(3, 2), 0, 1, 4), call(draw(2, 5), draw(2, 3), 1, 0, 5, 2),
        call(draw(5), draw(2), 0, -3, -1), call(draw(5), draw(3), start=2), call(draw(2, 0), draw(2, 0), 1),
        call(draw(2, 5).mT, draw(2, 2), end=2),
    ],
)  # fmt: skip
def slice_scatter(
    input: Any, src: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    """The tensor with every `step`-th slice from `start` to before `end` along a dimension replaced.

    >>> import pellucid as torch
    >>> torch.slice_scatter(torch.zeros(4), torch.ones(2), 0, 1, 3)
    tensor([0., 1., 1., 0.])
    """
    index = slice_index(input, dim, start, end, step)
    return _written(_slice_scatter_row, input, src, slice_row(input.detach(), index), index)


@operation(
    samples=lambda draw: [
        call(draw(6), draw(2, 2), (2, 2), (3, 1)), call(draw(6), draw(2), (2,), (2,), 1),
        call(draw(2, 3), draw(3, 2), (3, 2), (1, 3)), call(draw(4), draw(), (), (), 2),
        call(draw(6), draw(0), (0,), (1,)), call(draw(2, 3), draw(6), (6,), (1,)),
    ],
    unclaimed={
        "layout_does_not_matter": "it writes to memory by strides, whatever lies there",
        "gradient_equals_torch": "PyTorch gives the tensor the gradient of what was overwritten (its gradcheck fails)",
        "second_order_equals_torch": "for the same reason",
    },
)  # fmt: skip
def as_strided_scatter(input: Any, src: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """The tensor with a window onto its memory replaced (see as_strided).

    >>> import pellucid as torch
    >>> torch.as_strided_scatter(torch.zeros(4), torch.ones(2), (2,), (2,))
    tensor([1., 0., 1., 0.])
    """
    part = as_strided(input.detach(), size, stride, storage_offset)
    return _written(_as_strided_scatter_row, input, src, part, *windows(input, size, stride, storage_offset))
