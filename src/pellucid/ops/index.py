"""Indexing: x[...] and x[...] = v of every kind, gather and scatter, masks.

Basic indices (integers, slices, None, Ellipsis) give views. Index tensors give copies: several of them that stand
together are first made one flat index over their dimensions, so one row (`index`) and its adjoint (`put_add`)
serve them all. As in PyTorch, integers are applied before index tensors, and the dimensions of the index tensors
come first in the result if they are not neighbours.
"""

import math
from collections.abc import Iterator, Sequence
from operator import index as as_int
from typing import Any

import numpy as np

from pellucid.core import aliasing, modes
from pellucid.core.attributes import concrete
from pellucid.core.careful import HALVES, current_node, plain
from pellucid.core.inplace import check_writable, overwrite
from pellucid.core.primitive import constant, general, multilinear, same
from pellucid.core.record import attach, bind
from pellucid.core.tensor import Tensor, wrap
from pellucid.ops.along import flat_positions, put_along_add_row, take_along_row
from pellucid.ops.join import unbind
from pellucid.ops.operation import Draw, Sample, broadcast_hint, call, operation
from pellucid.ops.select import drop, keep, where_row
from pellucid.ops.shape import (
    ALL,
    Axes,
    Row,
    Shape,
    _align,
    _broadcast,
    _cannot_expand,
    alias_row,
    axis_of,
    cast_row,
    expand_row,
    jointly_linear,
    newaxis_row,
    out_of_range,
    permute_row,
    refusal,
    reshape,
    reshape_row,
    select_row,
    slice_row,
    unslice_row,
    unsqueeze_row,
    zeros_like_row,
)

ndarray = np.ndarray
BASIC = frozenset((int, slice, type(None), type(Ellipsis)))
UNSIGNED = {4: np.uint32, 8: np.uint64}
SEQUENCES = (list, tuple, ndarray, Tensor, slice, type(None), type(Ellipsis))  # a list with one of these is a tuple


# --- rows: elements named by a flat index over some axes


def _adjacent(axes: Axes) -> bool:
    return axes[-1] - axes[0] == len(axes) - 1


def _merged(shape: Shape, axes: Axes) -> Shape:
    """The shape with neighbouring axes made one."""
    size = math.prod(shape[axis] for axis in axes)
    return (*shape[: axes[0]], size, *shape[axes[-1] + 1 :])


def _numpy_index(b: ndarray, shape: Shape, axes: Axes) -> tuple[Any, ...]:
    """NumPy's own form of the index: one array per axis."""
    if len(axes) == 1:
        return (*(ALL,) * axes[0], b)
    index: list[Any] = [ALL] * len(shape)
    for axis, places in zip(axes, np.unravel_index(b, tuple(shape[axis] for axis in axes)), strict=True):
        index[axis] = places
    return tuple(index)


def _index(a: ndarray, b: ndarray, axes: Axes) -> ndarray:
    try:
        if len(axes) == 1:
            return a.take(b, axes[0])
        if a.flags.c_contiguous and _adjacent(axes):
            return a.reshape(_merged(a.shape, axes)).take(b, axes[0])
    except IndexError as error:
        raise out_of_range(a.shape, b, error) from None
    return a[_numpy_index(b, a.shape, axes)]


def _put_add(g: ndarray, b: ndarray, axes: Axes, shape: Shape) -> ndarray:
    """Zeros of the shape, with g added where the index says: the adjoint of `index`."""
    if not _adjacent(axes):  # the picked axes come first in g: add there, then move them home
        order = (*axes, *(i for i in range(len(shape)) if i not in axes))
        front = _put_add(g, b, tuple(range(len(axes))), tuple(shape[i] for i in order))
        return front.transpose(np.argsort(order))
    merged = _merged(shape, axes)
    wide = np.dtype(np.float32) if g.dtype in HALVES else g.dtype
    first = axes[0]
    rows = g.astype(wide, copy=False)
    if first:  # bring the picked axis to the front
        rows = np.moveaxis(rows, range(first, first + b.ndim), range(b.ndim))
        merged = (merged[first], *merged[:first], *merged[first + 1 :])
    rest = merged[1:]
    places = b.reshape(-1)
    total = add_rows(rows.reshape(places.size, math.prod(rest)), places, merged[0]).reshape(merged)
    if first:
        total = np.moveaxis(total, 0, first)
    return total.reshape(shape).astype(g.dtype, copy=False)


def add_rows(rows: ndarray, places: ndarray, count: int) -> ndarray:
    """Sum the rows that belong to each place.

    Float32, microseconds, np.add.at : here. 64 rows of 16: 14 : 10, 512 of 64: 350 : 80, 2048 of 128 into 65 places:
    4400 : 1000, 4096 of 64 into 5000: 5200 : 1900, 100000 single numbers into 1000: 2000 : 320.
    """
    width = rows.shape[1]
    if rows.size < 256 or rows.dtype.char not in "fd":
        out = np.zeros((count, width), rows.dtype)
        np.add.at(out, places, rows)
        return out
    if places.min() < 0:
        places = np.where(places < 0, places + count, places)
    if width <= 8 or rows.size <= 65536:
        flat = places if width == 1 else (places[:, None] * width + np.arange(width)).reshape(-1)
        return np.bincount(flat, rows.reshape(-1), count * width).reshape(count, width).astype(rows.dtype, copy=False)
    # Sorted 16-bit numbers are sorted by digits, five times as fast.
    order = (places.astype(np.uint16) if count <= 65536 else places).argsort(kind="stable")
    places = places[order]
    starts = np.flatnonzero(np.concatenate(([True], places[1:] != places[:-1])))
    out = np.zeros((count, width), rows.dtype)
    out[places[starts]] = np.add.reduceat(rows.take(order, 0), starts, 0)
    return out


def _with_batch(b: Any, sizes: Shape) -> Any:
    """A batch of flat indices as one flat index over (batch, *sizes)."""
    size = math.prod(sizes)
    b = b + (b < 0) * size
    return b + (np.arange(b.shape[0]) * size).reshape(-1, *(1,) * (b.ndim - 1))


def _index_batch(op: Row, a: Any, b: Any, axes: Axes) -> Any:
    picked = op(a, _with_batch(b, tuple(a.shape[i + 1] for i in axes)), (0, *(i + 1 for i in axes)))
    return _home(picked, b.ndim - 1, axes)


def _home(picked: Any, rank: int, axes: Axes) -> Any:
    """Behind the batch axis come `rank` picked axes: move them to where the picked axes stood."""
    first = axes[0] if _adjacent(axes) else 0
    if not first:
        return picked
    before = range(1 + rank, 1 + rank + first)
    return permute_row(picked, (0, *before, *range(1, 1 + rank), *range(1 + rank + first, picked.ndim)))


def _abroad(g: Any, rank: int, axes: Axes) -> Any:
    """The inverse of `_home`."""
    first = axes[0] if _adjacent(axes) else 0
    if not first:
        return g
    last = 1 + first + rank
    return permute_row(g, (0, *range(1 + first, last), *range(1, 1 + first), *range(last, g.ndim)))


def _put_add_batch(op: Row, g: Any, b: Any, axes: Axes, shape: Shape) -> Any:
    there = _with_batch(b, tuple(shape[i] for i in axes))
    return op(_abroad(g, b.ndim - 1, axes), there, (0, *(i + 1 for i in axes)), (g.shape[0], *shape))


def picking(name: str) -> Row:
    """A row (a, index, axes): the elements that the flat index over the axes names."""
    return bind(
        multilinear(
            name, _index, lambda g, b, a_shape, axes: put_add_row(g, b, axes, a_shape), None, batch=_index_batch
        )
    )


index_row, index_select_row, take_row = (picking(name) for name in ("index", "index_select", "take"))
put_add_row = bind(
    multilinear(
        "put_add", _put_add, lambda g, b, axes, shape: index_row(g, b, axes), None, batch=_put_add_batch,
    )
)  # fmt: skip


# --- rows: a with elements replaced or added to


def _index_put(a: ndarray, b: ndarray, c: ndarray, axes: Axes, accumulate: bool) -> ndarray:
    if accumulate:
        return a + _put_add(_broadcast(c, _picked_shape(a.shape, b.shape, axes)), b, axes, a.shape)
    out = a.copy()
    out[_numpy_index(b, a.shape, axes)] = c
    return out


def _picked_shape(shape: Shape, index: Shape, axes: Axes) -> Shape:
    """The shape of what an index picks."""
    if _adjacent(axes):
        return (*shape[: axes[0]], *index, *shape[axes[-1] + 1 :])
    return (*index, *(n for i, n in enumerate(shape) if i not in axes))


def placing(name: str) -> Row:
    """A row (a, index, values, axes, accumulate): a with the named elements replaced by (or increased by) values."""

    def old(g: Any, b: Any, axes: Axes, accumulate: bool) -> Any:
        return g if accumulate else index_put_row(g, b, zeros_like_row(index_row(g, b, axes)), axes, False)

    def batch(op: Row, a: Any, b: Any, c: Any, axes: Axes, accumulate: bool) -> Any:
        there = _with_batch(b, tuple(a.shape[i + 1] for i in axes))
        return op(a, there, _abroad(c, b.ndim - 1, axes), (0, *(i + 1 for i in axes)), accumulate)

    return bind(
        jointly_linear(
            name, _index_put, old, None, lambda g, b, axes, accumulate: index_row(g, b, axes), batch=batch
        )
    )


index_put_row, index_copy_row, index_fill_row, index_add_row = (
    placing(name) for name in ("index_put", "index_copy", "index_fill", "index_add")
)


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
    out = np.array(a, order="C")
    np.add.at(out.reshape(-1), flat_positions(index, axis, a.shape), c)
    return out


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


# --- rows: masks


def _masked_fill(a: ndarray, mask: ndarray, value: ndarray) -> ndarray:
    shape = a.shape if a.shape == mask.shape else np.broadcast_shapes(a.shape, mask.shape)
    out = np.array(_broadcast(a, shape))
    np.copyto(out, value, "unsafe", where=mask)
    return out


def _fill_batch(op: Row, a: Any, mask: Any, value: Any) -> Any:
    rank = max(a.ndim, mask.ndim) - 1
    return op(_align(a, rank), _align(mask, rank), _align(value, rank))


def filling(name: str, grad_name: str) -> Row:
    """A row (a, mask, value): a with the value where the mask is true."""
    return bind(
        jointly_linear(
            name, _masked_fill, lambda g, b: drop(g, b), None, lambda g, b: keep(g, b),
            grad_name=grad_name, batch=_fill_batch,
        )
    )  # fmt: skip


masked_fill_row = filling("masked_fill", "MaskedFillBackward0")
masked_fill_by_tensor_row = filling("masked_fill_by_tensor", "MaskedFillBackward1")


def _masked_put(g: ndarray, mask: ndarray, shape: Shape) -> ndarray:
    out = np.zeros(shape, g.dtype)
    out[mask] = g
    return out


def selecting(name: str, grad_name: str) -> Row:
    """A row (a, mask): the elements (or slices) of a where the mask is true, one after the other."""
    return bind(
        multilinear(
            name, lambda a, mask: a[mask], lambda g, b, a_shape: masked_put_row(g, b, a_shape), None,
            grad_name=grad_name,
        )
    )  # fmt: skip


masked_select_row = selecting("masked_select", "MaskedSelectBackward0")
index_mask_row = selecting("index_mask", "IndexBackward0")
masked_put_row = bind(
    multilinear("masked_put", _masked_put, lambda g, b, shape: index_mask_row(g, b), None)
)


def _masked_scatter(a: ndarray, mask: ndarray, source: ndarray) -> ndarray:
    out = a.copy()
    out[mask] = source.reshape(-1)[: np.count_nonzero(mask)]
    return out


def _used(g: Any, mask: Any, shape: Shape) -> Any:
    """The gradient of a masked_scatter's source: what was used of it, then zeros."""
    used = masked_select_row(g, mask)
    return reshape_row(unslice_row(used, (math.prod(shape),), (slice(0, used.shape[0]),)), shape)


masked_scatter_row = bind(
    jointly_linear(
        "masked_scatter", _masked_scatter,
        lambda g, b: drop(g, b), None, lambda g, b, c_shape: _used(g, b, c_shape),
    )
)  # fmt: skip

nonzero_row = bind(constant("nonzero", lambda a: np.stack(a.nonzero(), -1) if a.ndim else _nonzero_of_number(a), 1))


def _nonzero_of_number(a: ndarray) -> ndarray:
    return np.zeros((int(bool(a)), 0), np.int64)


# --- rows: whole tensors overwritten


def overwriting(name: str, grad_name: str) -> Row:
    """A row (a, b): b in the shape and dtype of a. Of the old a nothing is left, its gradient is zero."""
    return bind(
        jointly_linear(
            name, lambda a, b: _broadcast(b, a.shape).astype(a.dtype), lambda g: zeros_like_row(g), same,
            grad_name=grad_name, batch=lambda op, a, b: op(a, _align(b, a.ndim - 1)),
        )
    )  # fmt: skip


replace_row = overwriting("replace", "CopyBackwards")
fill_row = overwriting("fill", "FillBackward0")
zero_row = bind(multilinear("zero", np.zeros_like, lambda g: zeros_like_row(g), batch=lambda op, a: op(a)))


# --- reading an index


def getitem(self: Any, index: Any) -> Any:
    """x[index]: a view for basic indices, a copy for index tensors, lists and masks.

    >>> import pellucid as torch
    >>> x = torch.arange(6).reshape(2, 3)
    >>> x[0], x[:, 1], x[torch.tensor([1, 0]), 2]
    (tensor([0, 1, 2]), tensor([1, 4]), tensor([5, 2]))
    """
    kind = type(index)
    if kind is int:
        return select_row(self, (index, ...))
    if kind is tuple:
        if BASIC.issuperset(map(type, index)):
            return _basic(self, index)
        if len(index) <= self.ndim and all(map(_is_integers, index)):
            return index_row(self, _flat(list(index), self.shape[: len(index)]), tuple(range(len(index))))
    elif kind in BASIC:
        return _basic(self, (index,))
    elif _is_integers(index) and self.ndim:
        return index_row(self, index, (0,))
    view, places, axes = _parsed(self, index)
    if not axes:
        return view
    if isinstance(places, Mask):
        return index_mask_row(view, places.tensor)
    return index_row(view, places, axes)


def _is_integers(index: Any) -> bool:
    return isinstance(index, Tensor) and index.array.shape != () and index.array.dtype.char in "ilqh"


def _basic(self: Any, index: tuple[Any, ...]) -> Any:
    """A view; its row is the one PyTorch would apply last."""
    row, ellipsis = alias_row, False
    for item in index:
        if item is None:
            row = newaxis_row
        elif item is Ellipsis:
            ellipsis = True
        elif type(item) is int:
            row = select_row
        elif item != ALL or len(index) == 1:
            row = slice_row
            if item.step is not None and item.step <= 0:
                raise refusal(ValueError, "step must be greater than zero", try_="x.flip(dim) reverses a dimension")
    return row(self, index if ellipsis else (*index, ...))


class Mask:
    """An index that is one mask over the leading dimensions and nothing else."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def _parsed(self: Any, index: Any) -> tuple[Any, Any, Axes]:
    """An index of any kind as a view, a flat index into it (or a Mask), and the axes that this stands for."""
    several = isinstance(index, tuple) or (isinstance(index, list) and any(isinstance(i, SEQUENCES) for i in index))
    items = [index] if _is_mask(index) else [_item(i) for i in (index if several else (index,))]
    if len(items) == 1 and _is_mask(items[0]) and items[0].ndim:
        _check_mask(self, items[0], 0)
        return self, Mask(items[0]), (0,)
    basic: list[Any] = []
    found: list[tuple[int, Any]] = []
    axis = consumed = 0  # in the view that the basic part gives; in self
    free = self.ndim - sum(_consumes(i) for i in items)
    if free < 0:
        raise refusal(IndexError, f"too many indices for tensor of dimension {self.ndim}")
    for item in items:
        if item is Ellipsis:
            basic += [ALL] * free
            axis, consumed = axis + free, consumed + free
        elif isinstance(item, Tensor):
            places = _places(self, item, consumed)
            found += [(axis + i, p) for i, p in enumerate(places)]
            basic += [ALL if item.ndim or not _is_mask(item) else None] * len(places)
            axis, consumed = axis + len(places), consumed + _consumes(item)
        else:
            basic.append(item)
            axis, consumed = axis + (type(item) is not int), consumed + (item is not None)
    view = self if all(i is ALL for i in basic) else _basic(self, tuple(basic))
    if not found:
        return view, None, ()
    return view, _flat([p for _, p in found], [view.shape[a] for a, _ in found]), tuple(a for a, _ in found)


def _item(item: Any) -> Any:
    """One part of an index in normal form: int, slice, None, Ellipsis, or a tensor of integers or truth values."""
    if type(item) in (int, type(None), type(Ellipsis)):
        return item
    if isinstance(item, slice):
        return slice(*(None if part is None else as_int(part) for part in (item.start, item.stop, item.step)))
    if isinstance(item, (bool, np.bool_)):
        return wrap(np.asarray(bool(item)))
    if isinstance(item, np.integer):
        return int(item)
    if isinstance(item, (list, tuple, range, ndarray)):
        item = _as_index(item)
    if not isinstance(item, Tensor):
        raise refusal(
            IndexError,
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
            f"(got {type(item).__name__})",
        )
    kind = np.dtype(item.array.dtype).kind
    if kind not in "biu":
        raise refusal(
            IndexError,
            f"tensors used as indices must be long, int, byte or bool tensors, not {item.dtype}",
            try_="x.long()",
        )
    if item.array.dtype == np.uint8:
        return wrap(item.array != 0)
    if kind != "b" and not item.ndim and type(item.array) is ndarray:
        return int(item.array)
    return item


def _as_index(values: Any) -> Tensor:
    """A list (perhaps with tensors in it) or an ndarray as an index tensor."""
    if isinstance(values, (list, tuple)) and any(isinstance(v, Tensor) for v in values):
        values = [concrete(v, "indexing") if isinstance(v, Tensor) else v for v in values]
    array = np.asarray(values)
    return wrap(array if array.size or array.dtype.kind in "biu" else array.astype(np.int64))


def _is_mask(item: Any) -> bool:
    return isinstance(item, Tensor) and np.dtype(item.array.dtype).kind == "b"


def _consumes(item: Any) -> int:
    """How many dimensions a part of an index stands for."""
    if _is_mask(item):
        return int(item.ndim)
    return int(item is not None and item is not Ellipsis)


def _check_mask(self: Any, mask: Tensor, first: int) -> None:
    there, wanted = tuple(mask.array.shape), tuple(self.shape[first : first + mask.array.ndim])
    if there != wanted:
        at = next((i for i, (n, m) in enumerate(zip(there, wanted, strict=False)) if n != m), len(wanted))
        raise refusal(
            IndexError,
            f"The shape of the mask {list(there)} at index {at} does not match the shape of the indexed tensor "
            f"{list(self.shape)} at index {at + first}",
        )


def _places(self: Any, item: Tensor, first: int) -> list[Any]:
    """The index tensors that one part of an index comes to; a mask comes to one per dimension."""
    if not _is_mask(item):
        return [item]
    if not item.array.ndim:
        return [wrap(np.zeros(int(bool(item)), np.int64))]
    _check_mask(self, item, first)
    return list(unbind(nonzero_row(item), 1))


def _flat(places: list[Any], sizes: Sequence[int]) -> Any:
    """Several index tensors as one flat index over their dimensions."""
    if len(places) == 1:
        return places[0]
    if all(p.shape == places[0].shape for p in places):
        return ravel_row(places, tuple(sizes))
    try:
        shape = np.broadcast_shapes(*(tuple(p.shape) for p in places))
    except ValueError:
        shapes = ", ".join(str(list(p.shape)) for p in places)
        raise refusal(
            IndexError, f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
        ) from None
    return ravel_row([expand_row(p, shape) for p in places], tuple(sizes))


def _ravel(arrays: tuple[ndarray, ...], sizes: Shape) -> ndarray:
    flat: Any = 0
    for dim, (places, size) in enumerate(zip(arrays, sizes, strict=True)):
        if places.size and np.minimum.reduce(places, None) < 0:
            places = places + (places < 0) * size
        if places.size and (np.minimum.reduce(places, None) < 0 or np.maximum.reduce(places, None) >= size):
            bad = next(int(i) for i in arrays[dim].reshape(-1) if not -size <= i < size)
            raise refusal(IndexError, f"index {bad} is out of bounds for dimension {dim} with size {size}")
        flat = flat * size + places
    return flat  # type: ignore[no-any-return]


# A sequence of integers in, integers out: there is nothing to differentiate.
ravel_row = bind(
    general(
        "ravel_index", _ravel, jvp=None, pullback=lambda g, needs, sizes: (None,) * len(needs),
        batch=lambda op, arrays, sizes: op(arrays, sizes),
    )
)  # fmt: skip


def iterate(self: Any) -> Iterator[Any]:
    """The slices along the first dimension."""
    if not self.ndim:
        raise TypeError("iteration over a 0-d tensor")
    return iter(unbind(self, 0))


# --- writing


def _recording(*tensors: Any) -> bool:
    """Whether an in-place operation on these must go through the graph, a kind of array or an observer."""
    mode = modes.MODE.get()
    if mode is not None and (mode.observers or mode.anomaly):
        return True
    if any(type(t.array) is not ndarray for t in tensors):
        return True
    return (mode is None or mode.grad) and any(
        current_node(t) is not None or (t.window is not None and t.window.base.node is not None) for t in tensors
    )


def _value(self: Tensor, value: Any, what: str = "assign") -> Tensor:
    """What is written as a tensor of the target's dtype."""
    if not isinstance(value, Tensor):
        if not isinstance(value, (int, float, complex, np.generic, ndarray)):
            raise refusal(TypeError, f"can't {what} a {type(value).__name__} to a {self.type()}")  # type: ignore[attr-defined]
        value = wrap(_number_for(self, value))
    source, target = value.array.dtype, self.array.dtype
    return value if source == target else cast_row(value, plain(target), plain(source))


def _number_for(self: Tensor, value: Any) -> ndarray:
    target = np.dtype(self.array.dtype)
    if isinstance(value, complex) and target.kind != "c":
        raise refusal(RuntimeError, f"value cannot be converted to type {self.dtype} without overflow")  # type: ignore[attr-defined]
    return np.asarray(value).astype(plain(target))


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """x[index] = value, for indices of every kind; what does not fit leaves the tensor as it was.

    >>> import pellucid as torch
    >>> x = torch.zeros(3)
    >>> x[1:] = torch.tensor([1.0, 2.0])
    >>> x
    tensor([0., 1., 2.])
    """
    if index is False:
        return
    value = _value(self, value)
    items = index if type(index) is tuple else (index,)
    if BASIC.issuperset(map(type, items)):
        _copy_into(_basic(self, items), value, "setitem")
        return
    if _is_integers(index) and self.array.ndim:
        _assign(self, index, (0,), value, False)
        return
    view, places, axes = _parsed(self, index)
    if not axes:
        _copy_into(view if view is not self else self[...], value, "setitem")
    elif isinstance(places, Mask):
        _assign_mask(view, places.tensor, value)
    else:
        _assign(view, places, axes, value, False)


def _copy_into(target: Tensor, value: Tensor, name: str) -> Tensor:
    """Overwrite a tensor, with a value that broadcasts to it."""
    shape = tuple(target.array.shape)
    if value.array.ndim > len(shape):  # sizes of 1 in front do not matter
        spare = value.array.ndim - len(shape)
        if all(n == 1 for n in value.array.shape[:spare]):
            value = reshape_row(value, tuple(value.array.shape[spare:]))
    check_writable(target, name)
    if _recording(target, value):
        return overwrite(target, replace_row(target, value), name)
    try:
        target.array[...] = value.array
    except ValueError:
        raise _cannot_expand(value.array.shape, shape) from None
    aliasing.note_write(target.array, name)
    return target


def _assign_mask(target: Tensor, mask: Tensor, value: Tensor) -> None:
    """x[mask] = value."""
    check_writable(target, "setitem")
    if not _recording(target, value, mask):
        try:
            target.array[mask.array] = value.array
        except (ValueError, TypeError):
            picked = (int(np.count_nonzero(mask.array)), *target.array.shape[mask.array.ndim :])
            raise _misfit(value.array.shape, picked) from None
        aliasing.note_write(target.array, "setitem")
        return
    if value.array.size == 1:
        wide = reshape_row(mask, (*mask.array.shape, *(1,) * (target.ndim - mask.array.ndim)))  # type: ignore[attr-defined]
        masked_fill_(target, wide, reshape_row(value, ()))
        return
    places = _flat(list(unbind(nonzero_row(mask), 1)), list(target.array.shape[: mask.array.ndim]))
    _assign(target, places, tuple(range(mask.array.ndim)), value, False)


def _assign(target: Tensor, places: Any, axes: Axes, value: Tensor, accumulate: bool) -> None:
    """x[places] = value, or += value."""
    check_writable(target, "index_put_")
    array, where = target.array, places.array
    picked = _picked_shape(tuple(array.shape), tuple(where.shape), axes)
    if accumulate or _recording(target, value, places):
        wide = _fitting(value, picked)
        overwrite(target, index_put_row(target, places, wide, axes, accumulate), "index_put_")
        return
    try:
        array[_numpy_index(where, array.shape, axes)] = value.array
    except IndexError as error:
        raise out_of_range(array.shape, where, error) from None
    except ValueError:
        raise _misfit(value.array.shape, picked) from None
    aliasing.note_write(array, "index_put_")


def _fitting(value: Any, picked: Shape) -> Any:
    """A value expanded to what an index picks."""
    shape = tuple(value.shape)
    spare = max(len(shape) - len(picked), 0)
    padded = shape[spare:]
    extra = len(picked) - len(padded)
    if any(n != 1 for n in shape[:spare]) or any(n not in (1, m) for n, m in zip(padded, picked[extra:], strict=True)):
        raise _misfit(shape, picked)
    return expand_row(reshape_row(value, padded) if spare else value, picked)


def _misfit(shape: Shape, picked: Shape) -> Exception:
    return refusal(
        RuntimeError,
        f"shape mismatch: value tensor of shape {list(shape)} cannot be broadcast to indexing result of shape "
        f"{list(picked)}",
    )


attach("__getitem__", getitem)
attach("__iter__", iterate)
setattr(Tensor, "__setitem__", setitem)  # noqa: B010 (mypy knows no attributes that come later)


# --- copy_, fill_, zero_


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Overwrite this tensor with another that broadcasts to it; gradients flow to that one.

    >>> import pellucid as torch
    >>> torch.zeros(2).copy_(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    if src is self:
        return self
    value = _value(self, src, "copy")
    if value.array.ndim > self.array.ndim:
        raise refusal(
            RuntimeError,
            f"The size of tensor a {tuple(self.array.shape)} must match the size of tensor b "
            f"{tuple(value.array.shape)}: copy_ cannot make a tensor larger",
        )
    return _copy_into(self, value, "copy_")


def zero_(self: Tensor) -> Tensor:
    """Overwrite this tensor with zeros.

    >>> import pellucid as torch
    >>> torch.ones(2).zero_()
    tensor([0., 0.])
    """
    check_writable(self, "zero_")
    if _recording(self):
        return overwrite(self, zero_row(self), "zero_")
    self.array.fill(0)
    aliasing.note_write(self.array, "zero_")
    return self


def fill_(self: Tensor, value: Any) -> Tensor:
    """Overwrite every element of this tensor with one value.

    >>> import pellucid as torch
    >>> torch.zeros(2).fill_(3)
    tensor([3., 3.])
    """
    check_writable(self, "fill_")
    number = _fill_value(self, value, "fill_")
    if _recording(self, number):
        return overwrite(self, fill_row(self, number), "fill_")
    self.array[...] = number.array
    aliasing.note_write(self.array, "fill_")
    return self


def _fill_value(self: Any, value: Any, name: str) -> Tensor:
    number = _value(self, value, "fill")
    if number.array.ndim:
        raise refusal(
            RuntimeError,
            f"{name} only supports a 0-dimensional value tensor, but got tensor with {number.array.ndim} dimension(s).",
        )
    return number


def _fill_samples(draw: Draw) -> list[Sample]:
    return [call(draw(2, 3), 1.5), call(draw(), 2), call(draw(3), draw()), call(draw(0), 1.0)]


@operation(samples=_fill_samples, methods=())
def fill(input: Any, value: Any) -> Any:
    """A tensor of the same shape with one value everywhere.

    >>> import pellucid as torch
    >>> torch.fill(torch.zeros(2), 3)
    tensor([3., 3.])
    """
    return fill_row(input, _fill_value(input, value, "fill"))


for _method in (copy_, zero_, fill_):
    attach(_method.__name__, _method)


# --- index_select, index_add, index_copy, index_fill, index_put, take, put


def _index_of(index: Any, name: str) -> Any:
    if not isinstance(index, Tensor):
        raise refusal(TypeError, f"{name}(): argument 'index' must be Tensor, not {type(index).__name__}")
    if index.array.dtype.char not in "ilq":
        raise refusal(RuntimeError, f"{name}(): Expected dtype int32/int64 for index", try_="index.long()")
    return index


def _vector(index: Any, name: str) -> Any:
    index = _index_of(index, name)
    if index.ndim > 1:
        raise refusal(IndexError, f"{name}(): Index is supposed to be a vector, but got dim: {index.ndim}")
    return index if index.ndim else unsqueeze_row(index, (1,))


def _check_range(index: Any, dim: int, size: int, kind: type[Exception] = IndexError, lowest: int = 0) -> None:
    array = index.array
    if type(array) is not ndarray or not array.size:  # under a capture the values are not for Python to look at
        return
    if lowest == 0:  # read without their sign negative numbers are large: one pass instead of two
        fits = np.maximum.reduce(array.view(UNSIGNED[array.dtype.itemsize]), None) < size
    else:
        fits = array.min() >= lowest and array.max() < size
    if not fits:
        bad = next(int(i) for i in array.reshape(-1) if not lowest <= i < size)
        raise refusal(kind, f"index {bad} is out of bounds for dimension {dim} with size {size}")


def _line(input: Any, dim: int, index: Any, name: str, kind: type[Exception] = IndexError) -> tuple[Any, int, Any]:
    """Normal arguments of an operation on slices along one dimension; a 0-d tensor counts as a vector."""
    index = _vector(index, name)
    axis = axis_of(dim, input.ndim)
    tensor = input if input.ndim else unsqueeze_row(input, (1,))
    _check_range(index, axis, tensor.shape[axis], kind)
    return tensor, axis, index


@operation(
    samples=lambda draw: [
        call(draw(3, 2), 0, draw.integers(4)), call(draw(2, 3), 1, draw.integers(2)),
        call(draw(3), 0, draw.integers(0)), call(draw(3), -1, draw.integers(5)),
        call(draw(2, 3, 2), 1, draw.integers(3)), call(draw(4), 0, draw.integers()),
    ]
)  # fmt: skip
def index_select(input: Any, dim: int, index: Any) -> Any:
    """The slices along a dimension that the index names.

    >>> import pellucid as torch
    >>> torch.index_select(torch.tensor([10, 20, 30]), 0, torch.tensor([2, 0]))
    tensor([30, 10])
    """
    tensor, axis, places = _line(input, dim, index, "index_select")
    picked = index_select_row(tensor, places, (axis,))
    return picked if input.ndim else reshape(picked, ())


def _source_samples(draw: Draw) -> list[Sample]:
    return [
        call(draw(4, 2), 0, wrap(np.array([2, 0, 3])), draw(3, 2)),
        call(draw(2, 4), 1, wrap(np.array([1, 3])), draw(2, 2)),
        call(draw(3), -1, wrap(np.array([1])), draw(1)), call(draw(3), 0, wrap(np.zeros(0, np.int64)), draw(0)),
        call(draw(2, 3, 2), 1, wrap(np.array([2, 0])), draw(2, 2, 2)),
    ]  # fmt: skip


def _check_source(name: str, input: Any, axis: int, index: Any, source: Any) -> None:
    wanted = (*input.shape[:axis], index.shape[0], *input.shape[axis + 1 :])
    if source.array.dtype != input.array.dtype:
        raise refusal(
            RuntimeError, f"{name}(): self and source expected to have the same dtype, but got (self) {input.dtype} "
            f"and (source) {source.dtype}"
        )  # fmt: skip
    if source.ndim == input.ndim and tuple(source.shape) != wanted:
        raise refusal(
            RuntimeError if name == "index_add" else IndexError,
            f"{name}(): Source/destination tensor must have same slice shapes: the source has {list(source.shape)}, "
            f"expected {list(wanted)}",
        )


@operation(
    samples=lambda draw: [
        *_source_samples(draw), call(draw(2), 0, wrap(np.array([0, 0, 1])), draw(3)),
        call(draw(3, 2), 0, wrap(np.array([1, 1])), draw(2, 2), alpha=2.5),
    ],
    inplace=True,
)  # fmt: skip
def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    """Add slices of a source to those that the index names.

    >>> import pellucid as torch
    >>> torch.zeros(3).index_add(0, torch.tensor([0, 0, 2]), torch.tensor([1.0, 2.0, 3.0]))
    tensor([3., 0., 3.])
    """
    tensor, axis, places = _line(input, dim, index, "index_add")
    source = source if source.ndim else unsqueeze_row(source, (1,))
    _check_source("index_add", tensor, axis, places, source)
    added = index_add_row(tensor, places, source if alpha == 1 else source * alpha, (axis,), True)
    return added if input.ndim else reshape(added, ())


@operation(samples=_source_samples, inplace=True)
def index_copy(input: Any, dim: int, index: Any, source: Any) -> Any:
    """Replace the slices that the index names by those of a source.

    >>> import pellucid as torch
    >>> torch.zeros(3).index_copy(0, torch.tensor([2, 0]), torch.tensor([1.0, 2.0]))
    tensor([2., 0., 1.])
    """
    tensor, axis, places = _line(input, dim, index, "index_copy")
    source = source if source.ndim else unsqueeze_row(source, (1,))
    _check_source("index_copy", tensor, axis, places, source)
    copied = index_copy_row(tensor, places, source, (axis,), False)
    return copied if input.ndim else reshape(copied, ())


@operation(
    samples=lambda draw: [
        call(draw(3, 2), 0, draw.integers(2), 1.5), call(draw(2, 3), 1, draw.integers(2), draw()),
        call(draw(3), -1, draw.integers(0), 0.0), call(draw(2, 3, 2), 1, draw.integers(4), 2),
    ],
    inplace=True,
)
def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    """Fill the slices that the index names with one value.

    >>> import pellucid as torch
    >>> torch.zeros(3).index_fill(0, torch.tensor([1]), 5.0)
    tensor([0., 5., 0.])
    """
    tensor, axis, places = _line(input, dim, index, "index_fill")
    if type(places.array) is ndarray:
        places = wrap(np.unique(places.array))  # a place that is named twice is filled once, and so is its gradient
    number = _fill_value(tensor, value, "index_fill_")
    values = _fitting(number, _picked_shape(tuple(tensor.shape), tuple(places.shape), (axis,)))
    filled = index_fill_row(tensor, places, values, (axis,), False)
    return filled if input.ndim else reshape(filled, ())


@operation(
    samples=lambda draw: [
        call(draw(3, 2), (draw.integers(2),), draw(2)),
        call(draw(3, 3), (draw.integers(2), draw.integers(2)), draw(2), True),
        call(draw(3), (wrap(np.array([1, 2])),), draw(2)),
        call(draw(3), (wrap(np.array([1, 1])),), draw(2), accumulate=True),
        call(draw(2, 3), (draw.mask(2, 3),), draw()),
    ],
    methods=("index_put",),
)  # fmt: skip
def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """The tensor with the elements that the index tensors name replaced by (or increased by) values.

    >>> import pellucid as torch
    >>> torch.zeros(3).index_put((torch.tensor([1, 1]),), torch.tensor(2.0), accumulate=True)
    tensor([0., 4., 0.])
    """
    view, places, axes = _put_places(input, indices)
    value = _fitting(_same_dtype(input, values), _picked_shape(tuple(input.shape), tuple(places.shape), axes))
    return index_put_row(view, places, value, axes, bool(accumulate))


def _same_dtype(input: Any, values: Any) -> Any:
    if values.array.dtype != input.array.dtype:
        raise refusal(
            RuntimeError,
            f"Index put requires the source and destination dtypes match, got {input.dtype} for the destination and "
            f"{values.dtype} for the source.",
        )
    return values


def _put_places(input: Any, indices: Any) -> tuple[Any, Any, Axes]:
    view, places, axes = _parsed(input, tuple(ALL if i is None else i for i in indices))
    if isinstance(places, Mask):
        mask = places.tensor
        axes = tuple(range(mask.array.ndim))
        places = _flat(list(unbind(nonzero_row(mask), 1)), list(input.shape[: mask.array.ndim]))
    return view, places, axes


def index_put_(self: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """In-place form of `index_put`."""
    _, places, axes = _put_places(self, indices)
    _assign(self, places, axes, _same_dtype(self, values), bool(accumulate))
    return self


attach("index_put_", index_put_)


@operation(
    samples=lambda draw: [
        call(draw(3, 2), draw.integers(4)), call(draw(3, 2), draw.integers(2, 2)), call(draw(3), draw.integers()),
        call(draw(3), draw.integers(0)), call(draw(2, 2), wrap(np.array([-1, 3]))),
    ]
)
def take(input: Any, index: Any) -> Any:
    """Elements by their number in the flattened tensor.

    >>> import pellucid as torch
    >>> torch.tensor([[1, 2], [3, 4]]).take(torch.tensor([0, 3]))
    tensor([1, 4])
    """
    count = math.prod(input.shape)
    _check_range(_index_of(index, "take"), 0, count, IndexError, -count)
    return take_row(reshape(input, (count,)), index, (0,))


@operation(
    samples=lambda draw: [
        call(draw(2, 3), wrap(np.array([1, 4])), draw(2)), call(draw(3), wrap(np.array([0, 0])), draw(2), True),
        call(draw(4), wrap(np.array([[3], [1]])), draw(2, 1)),
    ],
    inplace=True,
)
def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """The tensor with elements, by their number in the flattened tensor, replaced by (or increased by) a source.

    >>> import pellucid as torch
    >>> torch.zeros(2, 2).put(torch.tensor([3]), torch.tensor([1.0]))
    tensor([[0., 0.],
            [0., 1.]])
    """
    count, shape = math.prod(input.shape), tuple(input.shape)
    _check_range(_index_of(index, "put_"), 0, count, IndexError, -count)
    values = reshape(_same_dtype(input, source), tuple(index.shape))
    return reshape(index_put_row(reshape(input, (count,)), index, values, (0,), bool(accumulate)), shape)


# --- gather and scatter


def _along(input: Any, dim: int, index: Any, name: str, src: Any = None) -> tuple[int, Any]:
    """Check the arguments of gather and scatter: the axis and the index with as many dimensions as the tensor."""
    index = _index_of(index, name)
    axis = axis_of(dim, input.ndim)
    if (index.ndim or 1) != (input.ndim or 1):
        raise refusal(
            RuntimeError,
            f"{name}(): Index tensor must have the same number of dimensions as "
            f"{'input' if name == 'gather' else 'self'} tensor",
            f"the index has shape {tuple(index.shape)}, the tensor {tuple(input.shape)}",
        )
    for other, n in enumerate(index.shape if index.ndim and input.ndim else ()):
        if (other != axis and n > input.shape[other]) or (src is not None and src.ndim and n > src.shape[other]):
            raise refusal(
                RuntimeError,
                f"Size does not match at dimension {other} expected index {list(index.shape)} to be no larger than "
                f"self {list(input.shape)} apart from dimension {axis}",
            )
    _check_range(index, axis, input.shape[axis] if input.ndim else 1, RuntimeError)
    return axis, index


def _lines(*tensors: Any) -> list[Any]:
    """0-d tensors as vectors: the rows below want at least one dimension."""
    return [x if x.ndim else unsqueeze_row(x, (1,)) for x in tensors]


@operation(
    samples=lambda draw: [
        call(draw(3, 2), 0, draw.integers(2, 2)), call(draw(2, 3), 1, draw.integers(2, 4)),
        call(draw(3), 0, draw.integers(5)),
        call(draw(2, 3), -1, draw.integers(1, 2)), call(draw(3, 2, 2), 0, draw.integers(1, 2, 1)),
        call(draw(3), 0, draw.integers(0)), call(draw(), 0, wrap(np.array(0))),
    ]
)  # fmt: skip
def gather(input: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    """Elements that an index tensor names along a dimension, one per element of the index.

    >>> import pellucid as torch
    >>> torch.gather(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([[0], [1]]))
    tensor([[1],
            [4]])
    """
    axis, index = _along(input, dim, index, "gather")
    tensor, places = _lines(input, index)
    found = take_along_row(tensor, places, axis)
    return found if index.ndim else reshape(found, ())


@operation(
    samples=lambda draw: [
        call(draw(3, 2), draw.integers(2, 2), 0), call(draw(2, 3), draw.integers(2, 1), 1),
        call(draw(3, 2), draw.integers(1, 2), 0), call(draw(2, 3), draw.integers(4)),
        call(draw(2, 1), draw.integers(1, 3, high=2), 0),
    ]
)  # fmt: skip
def take_along_dim(input: Any, indices: Any, dim: Any = None) -> Any:
    """Like gather, but the other dimensions broadcast.

    >>> import pellucid as torch
    >>> x = torch.tensor([[3, 1, 2]])
    >>> x.take_along_dim(x.argsort(dim=1), 1)
    tensor([[1, 2, 3]])
    """
    if dim is None:
        return gather(reshape(input, (-1,)), 0, reshape(indices, (-1,)))
    axis = axis_of(dim, input.ndim)
    if input.ndim != indices.ndim:
        raise refusal(
            RuntimeError,
            f"torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{input.ndim} dimensions for input, and {indices.ndim} dimensions for indices",
        )
    shape = [max(n, m) if 0 not in (n, m) else 0 for n, m in zip(input.shape, indices.shape, strict=True)]
    wide = expand_row(input, tuple(input.shape[axis] if i == axis else n for i, n in enumerate(shape)))
    places = expand_row(indices, tuple(indices.shape[axis] if i == axis else n for i, n in enumerate(shape)))
    return gather(wide, axis, places)


def _scatter_samples(draw: Draw) -> list[Sample]:
    return [
        call(draw(3, 2), 0, wrap(np.array([[0, 1], [2, 0]])), draw(2, 2)),
        call(draw(2, 4), 1, wrap(np.array([[3, 0, 1], [1, 2, 0]])), draw(2, 3)),
        call(draw(3), 0, wrap(np.array([2])), draw(1)), call(draw(3), -1, wrap(np.zeros(0, np.int64)), draw(0)),
        call(draw(3, 2, 2), 0, wrap(np.array([[[1]], [[2]]])), draw(2, 1, 1)),
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
    return slice_row(src, (*(slice(0, n) for n in index.shape), ...))


@operation(
    samples=lambda draw: [
        *_scatter_samples(draw), call(draw(3, 2), 0, draw.integers(2, 2), 1.5),
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
    axis, index = _along(input, dim, index, "scatter", None if single else src)
    tensor, places = _lines(input, index)
    if single:
        source = expand_row(_value(input, src), tuple(places.shape))
    else:
        source = _source(input, places, _lines(src)[0])
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
    axis, index = _along(input, dim, index, "scatter_add", src)
    tensor, places, src = _lines(input, index, src)
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


def _reduce_along(
    a: ndarray, index: ndarray, c: ndarray, axis: int, reduce: str, include_self: bool
) -> ndarray:
    out = np.array(a, order="C")
    flat, positions = out.reshape(-1), flat_positions(index, axis, a.shape)
    if not include_self:
        flat[positions] = _neutral(reduce, a.dtype)
    EXTREMES[reduce].at(flat, positions, c)
    return out


def _ones_where(mask: Any, like: Any) -> Any:
    """A mask as numbers."""
    return mask * (zeros_like_row(like) + 1)


def _extreme_back(g: Any, y: Any, inputs: tuple[Any, ...], axis: int, include_self: bool) -> tuple[Any, Any]:
    """Those that equal the result share its gradient."""
    a, index, c = inputs
    mine = _ones_where(a == y, a)
    its = _ones_where(c == take_along_row(y, index, axis), c)
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
    single = (zeros * take_along_row(put_along_add_row(zeros, index, axis, tuple(a.shape)), index, axis)) == 1
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
    axis, index = _along(input, dim, index, "scatter_reduce", src)
    tensor, places, src = _lines(input, index, src)
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


# --- masks


def _mask_of(mask: Any, name: str) -> Any:
    if not _is_mask(mask):
        shown = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise refusal(
            RuntimeError, f"{name} only supports boolean masks, but got mask with dtype {shown}", try_="compare first"
        )
    return mask


@operation(
    samples=lambda draw: [
        call(draw(2, 3), draw.mask(2, 3), 1.5), call(draw(2, 3), draw.mask(3), 0.0),
        call(draw(3), draw.mask(2, 3), 2.0),
        call(draw(2, 3), draw.mask(2, 1), draw()), call(draw(), draw.mask(), 1.0), call(draw(0), draw.mask(0), 1.0),
        call(draw(2, 3), draw.mask(), -1.0), call(draw(2, 1), draw.mask(1, 3), draw()),
    ],
    inplace=True,
)  # fmt: skip
def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """The tensor with one value wherever the mask is true.

    >>> import pellucid as torch
    >>> torch.ones(2).masked_fill(torch.tensor([True, False]), 0.0)
    tensor([0., 1.])
    """
    row = masked_fill_by_tensor_row if isinstance(value, Tensor) else masked_fill_row
    return row(input, _mask_of(mask, "masked_fill"), _fill_value(input, value, "masked_fill_"))


masked_fill_ = Tensor.masked_fill_  # type: ignore[attr-defined]


def _together(input: Any, mask: Any) -> tuple[Any, Any]:
    """A tensor and a mask in their common shape."""
    why, try_ = broadcast_hint([tuple(input.shape), tuple(mask.shape)], ())
    if why is not None:
        raise refusal(RuntimeError, why[0].upper() + why[1:], try_=try_)
    shape = np.broadcast_shapes(tuple(input.shape), tuple(mask.shape))
    return expand_row(input, shape), expand_row(mask, shape)


@operation(
    samples=lambda draw: [
        call(draw(2, 3), draw.mask(2, 3)), call(draw(2, 3), draw.mask(3)), call(draw(3), draw.mask(2, 3)),
        call(draw(), draw.mask(3)), call(draw(0), draw.mask(0)),
    ]
)
def masked_select(input: Any, mask: Any) -> Any:
    """The elements where the mask is true, one after the other.

    >>> import pellucid as torch
    >>> torch.masked_select(torch.tensor([1, 2, 3]), torch.tensor([True, False, True]))
    tensor([1, 3])
    """
    return masked_select_row(*_together(input, _mask_of(mask, "masked_select")))


@operation(
    samples=lambda draw: [
        call(draw(2, 3), draw.mask(2, 3), draw(6)), call(draw(2, 3), draw.mask(3), draw(2, 3)),
        call(draw(3), draw.mask(3), draw(5)),
    ],
    inplace=True,
)  # fmt: skip
def masked_scatter(input: Any, mask: Any, source: Any) -> Any:
    """The tensor with the elements where the mask is true replaced by those of a source, in order.

    >>> import pellucid as torch
    >>> torch.zeros(3).masked_scatter(torch.tensor([True, False, True]), torch.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """
    if source.array.dtype != input.array.dtype:
        raise refusal(
            RuntimeError,
            f"masked_scatter: expected self and source to have same dtypes but got {input.dtype} and {source.dtype}",
        )
    tensor, mask = _together(input, _mask_of(mask, "masked_scatter"))
    needed = np.count_nonzero(concrete(mask, "masked_scatter"))
    if needed > math.prod(source.shape):
        raise refusal(
            RuntimeError,
            f"Number of elements of source < number of ones in mask ({math.prod(source.shape)} < {needed})",
        )
    return masked_scatter_row(tensor, mask, source)


@operation(
    samples=lambda draw: [
        call(draw.integers(2, 3)), call(draw.mask(4)), call(draw.integers(3), as_tuple=True), call(draw.mask(0)),
        call(draw.mask()),
    ]
)
def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """The indices of the elements that are not zero: one row each, or one tensor per dimension.

    >>> import pellucid as torch
    >>> torch.nonzero(torch.tensor([0, 3, 0, 4]))
    tensor([[1],
            [3]])
    """
    if as_tuple:
        return tuple(unbind(nonzero_row(input if input.ndim else unsqueeze_row(input, (1,))), 1))
    return nonzero_row(input)


@operation(samples=lambda draw: [call(draw.integers(2, 3)), call(draw.mask(4)), call(draw.mask())])
def argwhere(input: Any) -> Any:
    """The indices of the elements that are not zero, one row each.

    >>> import pellucid as torch
    >>> torch.argwhere(torch.tensor([0, 3]))
    tensor([[1]])
    """
    return nonzero_row(input)
