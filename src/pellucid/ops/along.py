"""Picking along one axis by an array of indices, and its adjoint: what gather, scatter_add, sort and topk are made of.

The index has as many axes as the array; along the other axes it may be shorter (PyTorch's gather allows that).
Indices are already non-negative and in range here: the public operations look at them.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np

from pellucid.core.attention import HALVES
from pellucid.core.departures import departed
from pellucid.core.primitive import backward_name, multilinear
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor, wrap
from pellucid.core.views import current_array
from pellucid.ops.operation import Draw, Sample, call
from pellucid.ops.shape import reshape_row


@lru_cache(maxsize=4096)
def kept(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with the reduced axes as 1.

    >>> kept((2, 3), (1,))
    (2, 1)
    """
    return tuple(1 if i in axes else n for i, n in enumerate(shape))


def bare(tensor: Tensor) -> Tensor:
    """A tensor's array without its history: for working out indices, which have no derivative."""
    return wrap(current_array(tensor))


def handed_out(result: Any, input: Any, values: Any, index: Any) -> Any:
    """Values and the places they come from, as the user gets them: the places have left the graph, and know it.

    Costs 1 µs, and one walk to the leaves of an input that was not walked from before.
    """
    index.cut = values.cut if values.node is None else departed(result.__name__, (input.node,))
    return result(values, index)


def line_samples(draw: Draw) -> list[Sample]:
    """Along one dimension."""
    return [
        call(draw(5), 0), call(draw(2, 3), 1), call(draw(2, 3), -1), call(draw(2, 3), 0), call(draw(2, 3, 4), 1),
        call(draw(2, 3, 4), dim=-3), call(draw(), 0), call(draw(), -1), call(draw(1, 1), 1), call(draw(3, 1), 0),
    ]  # fmt: skip


def flat_positions(index: np.ndarray, axis: int, shape: tuple[int, ...]) -> np.ndarray:
    """Where the picked elements lie in the flattened array; flat positions are three times as fast as a grid.

    >>> flat_positions(np.array([[1], [0]]), 1, (2, 3))
    array([[1],
           [3]])
    """
    step = math.prod(shape[axis + 1 :])
    positions = index * step if step != 1 else index
    for other, size in enumerate(index.shape):
        if other != axis and size > 1:
            step = math.prod(shape[other + 1 :])
            offsets = np.arange(0, size * step, step) if step else np.zeros(size, np.int64)
            positions = positions + offsets.reshape(-1, *(1,) * (index.ndim - 1 - other))
    return positions


def take_along(a: np.ndarray, index: np.ndarray, axis: int) -> np.ndarray:
    """The elements that the index names along an axis; np.take_along_axis is three times as slow.

    >>> take_along(np.array([[5, 6], [7, 8]]), np.array([[1], [0]]), 1)
    array([[6],
           [7]])
    """
    return a.reshape(-1).take(flat_positions(index, axis, a.shape))


def _put_along_add(g: np.ndarray, index: np.ndarray, axis: int, shape: tuple[int, ...]) -> np.ndarray:
    """Add every element of g at its place in an array of zeros; halves are added up in float32."""
    wide = np.dtype(np.float32) if g.dtype in HALVES else g.dtype
    out = np.zeros(shape, wide)
    positions = flat_positions(index, axis, shape).reshape(-1)
    np.add.at(out.reshape(-1), positions, g.reshape(-1).astype(wide, copy=False))
    return out.astype(g.dtype, copy=False)


def lengthwise(forward: Any) -> Any:
    """The same forward for 0-d arrays too: they have one element along axis 0."""

    def along(a: np.ndarray, axis: int, *params: Any) -> Any:
        return forward(a, axis, *params) if a.ndim else forward(a.reshape(1), 0, *params).reshape(())

    return along


def taker(name: str, grad_name: str = "") -> Any:
    """The row of an operation that picks elements along an axis: gather, sort, topk, cummax ...

    `row(a, index, axis)`: the index, of the result's shape, was worked out before, so only it is kept.
    """
    return bind(
        multilinear(
            name, take_along,
            lambda g, a_shape, b, axis: put_along_add_row(g, b, axis, a_shape),
            None,
            grad_name=grad_name or backward_name(name),
            batch=lambda op, a, index, axis: op(a, index, axis + 1),
        )
    )  # fmt: skip


# take_along_row(a, index, axis): the elements of `a` that `index` names along `axis`; the shape is the index's.
take_along_row = taker("take_along", "GatherBackward0")

# put_along_add_row(g, index, axis, shape): zeros of `shape` with the elements of `g` added where `index`, an array
# of g's shape, says.
put_along_add_row = bind(
    multilinear(
        "put_along_add", _put_along_add,
        lambda g, b, axis, shape: take_along_row(g, b, axis),
        None,
        grad_name="ScatterAddBackward0",
        batch=lambda op, g, index, axis, shape: op(g, index, axis + 1, (g.shape[0], *shape)),
    )
)  # fmt: skip


def picker(name: str, grad_name: str) -> Any:
    """The row of an operation that picks one element per line along an axis: max, median, kthvalue ...

    `row(a, index, axis, keepdim)`: the index, of the result's shape, was worked out before, so only it is kept.
    """
    return bind(
        multilinear(
            name, lambda a, index, axis, keepdim: _pick(a, index, axis, keepdim),
            lambda g, a_shape, b, axis, keepdim: put_along_add_row(
                unreduced(g, a_shape, axis, keepdim), unreduced(b, a_shape, axis, keepdim), axis, a_shape
            ),
            None,
            grad_name=grad_name,
            batch=lambda op, a, index, axis, keepdim: op(a, index, axis + 1, keepdim),
        )
    )  # fmt: skip


def unreduced(g: Any, shape: tuple[int, ...], axis: int, keepdim: bool) -> Any:
    """Put the reduced axis back, of size 1."""
    return g if keepdim else reshape_row(g, kept(shape, (axis,)))


def _pick(a: np.ndarray, index: np.ndarray, axis: int, keepdim: bool) -> np.ndarray:
    whole = index if keepdim else index.reshape(kept(a.shape, (axis,)))
    return take_along(a, whole, axis).reshape(index.shape)
