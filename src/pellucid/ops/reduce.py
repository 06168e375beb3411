"""Reductions: many elements to one."""

from typing import Any

import numpy as np

from pellucid.core.primitive import multilinear
from pellucid.core.record import bind
from pellucid.ops.operation import call, publish
from pellucid.ops.shape import expand_row, reshape_row


def kept(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with the reduced axes as 1."""
    return tuple(1 if i in axes else n for i, n in enumerate(shape))


def normal(dim: Any, ndim: int) -> tuple[int, ...]:
    """Axes as the rows take them: a tuple of non-negative integers; None or () means all."""
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(ndim))
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    return tuple(d % ndim if ndim else 0 for d in dims) if ndim else ()


def back(g: Any, shape: tuple[int, ...], axes: tuple[int, ...], keepdim: bool) -> Any:
    """Spread the gradient of a reduction over the elements that were reduced."""
    everything = len(axes) == len(shape)  # a 0-d gradient spreads as it is
    return expand_row(g if keepdim or everything else reshape_row(g, kept(shape, axes)), shape)


sum_row = bind(
    multilinear(
        "sum", lambda a, axes, keepdim: np.add.reduce(a, axis=axes, keepdims=keepdim),
        lambda g, a_shape, axes, keepdim: back(g, a_shape, axes, keepdim),
        dtypes="equal", lower="reduce.fadd",
        batch=lambda op, a, axes, keepdim: op(a, tuple(i + 1 for i in axes), keepdim),
    )
)  # fmt: skip


def sum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Sum of all elements, or along dimensions."""
    return sum_row(input, normal(dim, input.ndim), keepdim)


publish(sum, samples=lambda draw: [call(draw(2, 3)), call(draw(2, 3), 1), call(draw(2, 3), (0, 1), True), call(draw())])
