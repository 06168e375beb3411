"""Scatter: elements written, added or reduced to the places that an index tensor names along a dimension.

The adjoint of a scatter is a gather (along.py): the gradient of a source is read at the places it went to, and what
was overwritten gets zero.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core.kinds import plain
from pellucid.core.large import is_half
from pellucid.core.primitive import general, same
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor, wrap
from pellucid.ops.along import flat_positions, put_along_add_row, take_along_row
from pellucid.ops.arguments import Row, refusal
from pellucid.ops.convert import cast_row
from pellucid.ops.create import check_range
from pellucid.ops.expand import expand_row
from pellucid.ops.fill import value_for
from pellucid.ops.gather import lengthwise_index, lines
from pellucid.ops.operation import Draw, Sample, call, operation
from pellucid.ops.select import where_row
from pellucid.ops.shape import reshape, zeros_like_row
from pellucid.ops.slicing import jointly_linear, slice_row


def _scatter(a: ndarray, index: ndarray, c: ndarray, axis: int) -> ndarray:
    out = np.array(a, order="C")
    out.reshape(-1)[flat_positions(index, axis, a.shape)] = c
    return out


def scattering(name: str, grad_name: str) -> Row:
    """A row (a, index, src, axis): a with src written where the index, an array of src's shape, says."""
    return bind(
        jointly_linear(
            name, _scatter,
            lambda g, b, axis: scatter_row(g, b, zeros_like_row(take_along_row(g, b, axis)), axis), None,
            lambda g, b, axis: take_along_row(g, b, axis),
            grad_name=grad_name, batch=lambda op, a, b, c, axis: op(a, b, c, axis + 1),
        )
    )  # fmt: skip


scatter_row = scattering("scatter", "ScatterBackward0")
scatter_value_row = scattering("scatter_value", "ScatterBackward1")


def _scatter_add(a: ndarray, index: ndarray, c: ndarray, axis: int) -> ndarray:
    wide = np.dtype(np.float32) if is_half(a.dtype) else a.dtype
    out = np.array(a, wide, order="C")
    # Of vectors ufunc.at has a way ten times as fast as of other shapes (64000 float32: 1330 : 140 µs).
    positions = flat_positions(index, axis, a.shape).reshape(-1)
    np.add.at(out.reshape(-1), positions, c.reshape(-1).astype(wide, copy=False))
    return out.astype(a.dtype, copy=False)


def adding(name: str, grad_name: str) -> Row:
    """A row (a, index, src, axis): a with src added where the index, an array of src's shape, says."""
    return bind(
        jointly_linear(
            name, _scatter_add, same, None, lambda g, b, axis: take_along_row(g, b, axis),
            grad_name=grad_name, batch=lambda op, a, b, c, axis: op(a, b, c, axis + 1),
        )
    )  # fmt: skip


scatter_add_row = adding("scatter_add", "ScatterAddBackward0")
scatter_sum_row = adding("scatter_sum", "ScatterReduceBackward0")


def _scatter_samples(draw: Draw) -> list[Sample]:
    return [
        call(draw(3, 2), 0, wrap(np.array([[0, 1], [2, 0]])), draw(2, 2)),
        call(draw(2, 4), 1, wrap(np.array([[3, 0, 1], [1, 2, 0]])), draw(2, 3)),
        call(draw(3), 0, wrap(np.array([2])), draw(1)), call(draw(3), -1, wrap(np.zeros(0, np.int64)), draw(0)),
        call(draw(3, 2, 2), 0, wrap(np.array([[[1]], [[2]]])), draw(2, 1, 1)),
        call(draw(), 0, wrap(np.array(0)), draw()),
        call(draw(2, 3).mT, 0, wrap(np.array([[2, 0]])), draw(1, 2)), call(draw(3), 0, wrap(np.array(1)), draw()),
        call(draw(2, 3), -1, wrap(np.array([[1], [2]])), draw(2, 1)), call(draw(4), 0, wrap(np.array([3, 1])), draw(2)),
    ]  # fmt: skip


def _source(input: Any, index: Any, src: Any) -> Any:
    """The part of a scatter's source that the index speaks of."""
    if src.array.dtype != input.array.dtype:
        raise refusal(
            RuntimeError,
            f"scatter(): Expected self.dtype to be equal to src.dtype, got {input.dtype} and {src.dtype}",
        )
    if tuple(src.shape) == tuple(index.shape):
        return src
    if src.ndim != index.ndim:  # the index is empty, so its rank does not matter
        return reshape(slice_row(src, (slice(0, 0), ...)), tuple(index.shape))
    return slice_row(src, (*(slice(0, n) for n in index.shape), ...))


@operation(
    samples=lambda draw: [
        *_scatter_samples(draw),
        call(draw(3, 2), 0, draw.integers(2, 2), 1.5),
        call(draw(4), 0, draw.integers(2), value=2.0),
    ],
    inplace=True,
)
def scatter(input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Any:
    """Write a source (or one value) to the places that an index tensor names along a dimension.

    >>> import pellucid as torch
    >>> torch.zeros(3).scatter(0, torch.tensor([2, 0]), torch.tensor([1.0, 2.0]))
    tensor([2., 0., 1.])
    """
    src = value if src is None else src
    single = not isinstance(src, Tensor)
    axis, index = lengthwise_index(input, dim, index, "scatter", None if single else src)
    tensor, places = lines(input, index)
    if single:
        check_range(src, plain(input.array.dtype))
        source = expand_row(value_for(input, src), tuple(places.shape))
    else:
        source = _source(input, places, lines(src)[0])
    if reduce is None:
        out = (scatter_value_row if single else scatter_row)(tensor, places, source, axis)
    elif reduce in ("add", "multiply"):
        out = scatter_reduce(tensor, axis, places, source, "sum" if reduce == "add" else "prod")
    else:
        raise refusal(RuntimeError, f"reduce argument must be either add or multiply, got {reduce}")
    return out if input.ndim else reshape(out, ())


@operation(
    samples=lambda draw: [*_scatter_samples(draw), call(draw(2), 0, wrap(np.array([1, 1, 0])), draw(3))], inplace=True
)
def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Any:
    """Add a source to the places that an index tensor names along a dimension.

    >>> import pellucid as torch
    >>> torch.zeros(2).scatter_add(0, torch.tensor([1, 1]), torch.tensor([1.0, 2.0]))
    tensor([0., 3.])
    """
    axis, index = lengthwise_index(input, dim, index, "scatter_add", src)
    tensor, places, src = lines(input, index, src)
    out = scatter_add_row(tensor, places, _source(input, places, src), axis)
    return out if input.ndim else reshape(out, ())


# --- scatter_reduce

EXTREMES = {"prod": np.multiply, "amax": np.maximum, "amin": np.minimum}
NEUTRAL = {"prod": 1, "amax": -np.inf, "amin": np.inf}


def _neutral(reduce: str, dtype: np.dtype) -> Any:
    """What a reduction begins with."""
    if reduce == "prod" or dtype.kind not in "biu":
        return NEUTRAL[reduce]
    if dtype.kind == "b":
        return reduce == "amin"
    return np.iinfo(dtype).min if reduce == "amax" else np.iinfo(dtype).max


def _reduce_along(a: ndarray, index: ndarray, c: ndarray, axis: int, reduce: str, include_self: bool) -> ndarray:
    out = np.array(a, order="C")
    flat, positions = out.reshape(-1), flat_positions(index, axis, a.shape).reshape(-1)
    if not include_self:
        flat[positions] = _neutral(reduce, a.dtype)
    EXTREMES[reduce].at(flat, positions, c.reshape(-1))
    return out


def _ones_where(mask: Any, like: Any) -> Any:
    """A mask as numbers."""
    return mask * (zeros_like_row(like) + 1)


def _alike(a: Any, b: Any) -> Any:
    """Where two arrays are equal, or both NaN: NaNs share the gradient."""
    return (a == b) | ((a != a) & (b != b))


def _extreme_back(g: Any, y: Any, inputs: tuple[Any, ...], axis: int, include_self: bool) -> tuple[Any, Any]:
    """Those that equal the result share its gradient."""
    a, index, c = inputs
    mine = _ones_where(_alike(a, y), a)
    its = _ones_where(_alike(c, take_along_row(y, index, axis)), c)
    if not include_self:
        mine = scatter_row(mine, index, zeros_like_row(c), axis)
    many = scatter_add_row(mine, index, its, axis)
    share = g / (many + (many == 0))
    return mine * share, its * take_along_row(share, index, axis)


def _product_back(g: Any, y: Any, inputs: tuple[Any, ...], axis: int, include_self: bool) -> tuple[Any, Any]:
    """The product without the factor itself; a single zero among the factors has to be left out, not divided by."""
    a, index, c = inputs
    one = zeros_like_row(a) + 1
    a_nonzero = where_row(a == 0, one, a)
    mine = g * scatter_reduce_row(a_nonzero, index, c, axis, "prod", include_self) / a_nonzero
    if not include_self:
        mine = scatter_row(mine, index, zeros_like_row(c), axis)
    zeros = _ones_where(c == 0, c)
    together = zeros * take_along_row(put_along_add_row(zeros, index, axis, tuple(a.shape)), index, axis)
    if isinstance(together, Tensor) and isinstance(together.array, ndarray) and (together.array > 1).any():
        raise refusal(
            RuntimeError,
            "scatter_reduce(): Double backward is unsupported for src when >1 zeros in src are scattered to the same "
            "position in self",
        )
    single = together == 1
    c_one = zeros_like_row(c) + 1
    without = scatter_reduce_row(a, index, where_row(single, c_one, c), axis, "prod", include_self)
    divided = take_along_row(g * y, index, axis) / where_row(c == 0, c_one, c)
    return mine, where_row(single, take_along_row(g * without, index, axis), divided)


def _reduce_back(
    g: Any, y: Any, a: Any, b: Any, c: Any, axis: int, reduce: str, include_self: bool
) -> tuple[Any, None, Any]:
    back = _product_back if reduce == "prod" else _extreme_back
    first, second = back(g, y, (a, b, c), axis, include_self)
    return first, None, second


def _reduce_push(tangents: Sequence[Any], y: Any, inputs: Sequence[Any], params: tuple[Any, ...]) -> Any:
    """The tangent: the gradient rule gives every factor's weight, applied to ones."""
    one = zeros_like_row(y) + 1
    mine, _, its = _reduce_back(one, y, *inputs, *params)
    pushed = zeros_like_row(y) if tangents[0] is None else tangents[0] * mine
    return pushed if tangents[2] is None else scatter_add_row(pushed, inputs[1], tangents[2] * its, params[0])


scatter_reduce_row = bind(
    general(
        "scatter_reduce", _reduce_along, None, None, None, jvp=_reduce_push,
        pullback=_reduce_back,
        batch=lambda op, a, b, c, axis, reduce, include_self: op(a, b, c, axis + 1, reduce, include_self),
    )
)  # fmt: skip


@operation(
    samples=lambda draw: [
        call(draw(3, 2), 0, wrap(np.array([[0, 1], [0, 0]])), draw(2, 2), reduce, include_self=include)
        for reduce in ("sum", "prod", "mean", "amax", "amin")
        for include in (True, False)
    ],
    inplace=True,
)
def scatter_reduce(input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Any:
    """Reduce the elements of a source that go to the same place: by sum, prod, mean, amax or amin.

    >>> import pellucid as torch
    >>> torch.zeros(2).scatter_reduce(0, torch.tensor([1, 1]), torch.tensor([1.0, 2.0]), "amax")
    tensor([0., 2.])
    """
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise refusal(RuntimeError, f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    refused = {"amax": "c", "amin": "c", "mean": "b"}.get(reduce, "")
    if np.dtype(input.array.dtype).kind in refused:
        raise refusal(NotImplementedError, f"scatter_reduce: {reduce} is not implemented for {input.dtype}")
    axis, index = lengthwise_index(input, dim, index, "scatter_reduce", src)
    tensor, places, src = lines(input, index, src)
    source = _source(input, places, src)
    if reduce in EXTREMES:
        out = scatter_reduce_row(tensor, places, source, axis, reduce, bool(include_self))
    else:
        begin = tensor if include_self else scatter_row(tensor, places, zeros_like_row(source), axis)
        out = scatter_sum_row(begin, places, source, axis)
        if reduce == "mean":
            out = _mean(out, tensor, places, axis, include_self)
    return out if input.ndim else reshape(out, ())


def _mean(total: Any, tensor: Any, places: Any, axis: int, include_self: bool) -> Any:
    """Divide by how many elements went to each place."""
    ones = zeros_like_row(places) + 1
    many = put_along_add_row(ones, places, axis, tuple(tensor.shape))
    many = many + 1 if include_self else many + (many == 0)
    many = cast_row(many, plain(total.array.dtype), np.dtype(np.int64))
    return total // many if np.dtype(total.array.dtype).kind in "iu" else total / many
