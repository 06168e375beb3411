"""Indexing: x[...] and x[...] = v of every kind.

Basic indices (integers, slices, None, Ellipsis) give views (slicing.py). Index tensors give copies: those that stand
together are made one flat index over their dimensions (flat_index.py). As in PyTorch, integers are applied before
index tensors, and the dimensions of the index tensors come first in the result if they are not neighbours.
"""

from collections.abc import Iterator, Sequence
from operator import index as as_int
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core.attributes import concrete
from pellucid.core.flags import received
from pellucid.core.inplace import check_writable, note_written, overwrite
from pellucid.core.primitive import general
from pellucid.core.provenance import warn
from pellucid.core.record import attach, bind
from pellucid.core.tensor import Tensor, wrap
from pellucid.core.views import current_node
from pellucid.ops.arguments import ALL, Axes, Shape, refusal
from pellucid.ops.expand import expand_row
from pellucid.ops.fill import copy_into, fill_value, recording, value_for
from pellucid.ops.flat_index import fitting, index_put_row, index_row, misfit, numpy_index, picked_shape, same_dtype
from pellucid.ops.masked import index_mask_row, is_mask, masked_fill_, nonzero_row
from pellucid.ops.operation import READS_VALUES, call, operation
from pellucid.ops.shape import reshape_row
from pellucid.ops.slicing import alias_row, newaxis_row, out_of_range, select_row, slice_row
from pellucid.ops.split import unbind

BASIC = frozenset((int, slice, type(None), type(Ellipsis)))
# A list with one of these counts as a tuple, unless it is as long as no tuple of indices would be.
SEQUENCES = (list, tuple, range, ndarray, Tensor, slice, type(None), type(Ellipsis))
LONG = 32


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
            _check_slice(item)
            if item.step is not None and item.step <= 0:
                raise refusal(ValueError, "step must be greater than zero", try_="x.flip(dim) reverses a dimension")
    return row(self, index if ellipsis else (*index, ...))


def _check_slice(item: slice) -> None:
    """Refuse what is no place in a tensor, as Python does for lists."""
    for part in (item.start, item.stop, item.step):
        if not (part is None or type(part) is int or hasattr(part, "__index__")):
            raise refusal(TypeError, "slice indices must be integers or None or have an __index__ method")


class Mask:
    """An index that is one mask over the leading dimensions and nothing else."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def _parsed(self: Any, index: Any) -> tuple[Any, Any, Axes]:
    """An index of any kind as a view, a flat index into it (or a Mask), and the axes that this stands for."""
    several = isinstance(index, tuple) or (
        isinstance(index, list) and len(index) < LONG and any(isinstance(i, SEQUENCES) for i in index)
    )
    items = [index] if is_mask(index) else [_item(i) for i in (index if several else (index,))]
    if len(items) == 1 and is_mask(items[0]) and items[0].ndim:
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
            basic += [ALL if item.ndim or not is_mask(item) else None] * len(places)
            axis, consumed = axis + len(places), consumed + _consumes(item)
        else:
            basic.append(item)
            axis, consumed = axis + (type(item) is not int), consumed + (item is not None)
    view = self if all(i == ALL for i in basic) else _basic(self, tuple(basic))
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
    if isinstance(item, str):
        what = f"new(): invalid data type 'str': {item!r} is no index of a tensor"
        raise refusal(TypeError, what, "a tensor has positions, not names", "use an integer, a slice or a mask")
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
        warn("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.")
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


def _consumes(item: Any) -> int:
    """How many dimensions a part of an index stands for."""
    if is_mask(item):
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
    if not is_mask(item):
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


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """x[index] = value, for indices of every kind; what does not fit leaves the tensor as it was.

    >>> import pellucid as torch
    >>> x = torch.zeros(3)
    >>> x[1:] = torch.tensor([1.0, 2.0])
    >>> x
    tensor([0., 1., 2.])
    """
    given, value = value, value_for(self, value)
    if index is False:
        return
    items = index if type(index) is tuple else (index,)
    if BASIC.issuperset(map(type, items)):
        target = _basic(self, items)
        if _is_there(target, value):
            note_written(target, target.array, "setitem")
        else:
            copy_into(target, value, "setitem")
        return
    if value.array.ndim and value.array.shape[0] == 1:
        value = _without_leading_ones(value)
    if _is_integers(index) and self.array.ndim:
        same_dtype(self, given)
        _assign(self, index, (0,), value, False)
        return
    view, places, axes = _parsed(self, index)
    if axes and isinstance(given, Tensor) and given.array.size == 1 and _has_one_mask(items):
        value = fill_value(self, reshape_row(given, ()), "setitem")
    elif axes:
        same_dtype(self, given)
    if not axes:
        copy_into(view if view is not self else self[...], value, "setitem")
    elif isinstance(places, Mask):
        _assign_mask(view, places.tensor, value)
    else:
        _assign(view, places, axes, value, False)


def _without_leading_ones(value: Tensor) -> Tensor:
    """A value to be assigned by index tensors: dimensions of size 1 in front do not matter there."""
    shape = tuple(value.array.shape)
    first = next((i for i, n in enumerate(shape) if n != 1), len(shape))
    return reshape_row(value, shape[first:])  # type: ignore[no-any-return]


def _has_one_mask(items: Sequence[Any]) -> bool:
    """Whether an index picks by a mask alone: PyTorch then fills, with one element of any shape and dtype."""
    picking = [item for item in items if type(item) not in BASIC]
    return len(picking) == 1 and (isinstance(picking[0], bool) or is_mask(picking[0]))


def _is_there(target: Tensor, value: Tensor) -> bool:
    """Whether a value is the very view it is to be written to: `x[i] += 1` has changed x when it comes here."""
    new, old = target.window, value.window
    if old is None or new is None or old.base is not new.base or old.steps != new.steps:
        return False
    memory = getattr(value.array, "base", None)  # other kinds of array have none
    return memory is not None and memory is getattr(target.array, "base", None) and not recording(target, value)


def _assign_mask(target: Tensor, mask: Tensor, value: Tensor) -> None:
    """x[mask] = value."""
    check_writable(target, "setitem")
    if not recording(target, value, mask):
        try:
            target.array[mask.array] = value.array
        except (ValueError, TypeError):
            picked = (int(np.count_nonzero(mask.array)), *target.array.shape[mask.array.ndim :])
            raise misfit(value.array.shape, picked) from None
        note_written(target, target.array, "setitem")
        return
    if value.array.size == 1 and current_node(value) is None:
        wide = reshape_row(mask, (*mask.array.shape, *(1,) * (target.ndim - mask.array.ndim)))  # type: ignore[attr-defined]
        masked_fill_(target, wide, reshape_row(value, ()))
        return
    places = _flat(list(unbind(nonzero_row(mask), 1)), list(target.array.shape[: mask.array.ndim]))
    _assign(target, places, tuple(range(mask.array.ndim)), value, False)


def _assign(target: Tensor, places: Any, axes: Axes, value: Tensor, accumulate: bool) -> None:
    """x[places] = value, or += value."""
    check_writable(target, "index_put_")
    array, where = target.array, places.array
    picked = picked_shape(tuple(array.shape), tuple(where.shape), axes)
    if accumulate or recording(target, value, places):
        wide = fitting(value, picked)
        overwrite(target, index_put_row(target, places, wide, axes, accumulate), "index_put_")
        return
    if value.array.ndim > len(picked):  # NumPy would leave sizes of 1 in front out
        raise misfit(value.array.shape, picked)
    try:
        array[numpy_index(where, array.shape, axes)] = value.array
    except IndexError as error:
        raise out_of_range(array.shape, where, error) from None
    except ValueError:
        raise misfit(value.array.shape, picked) from None
    note_written(target, array, "index_put_")


attach("__getitem__", getitem)
attach("__iter__", iterate)
setattr(Tensor, "__setitem__", setitem)  # noqa: B010 (mypy knows no attributes that come later)


# --- index_put: the same by name


@operation(
    samples=lambda draw: [
        call(draw(3, 2), (draw.integers(2),), draw(2)),
        call(draw(3, 3), (draw.integers(2), draw.integers(2)), draw(2), True),
        call(draw(3), (wrap(np.array([1, 2])),), draw(2)),
        call(draw(3), (wrap(np.array([1, 1])),), draw(2), accumulate=True),
        call(draw(2, 3), (draw.mask(2, 3),), draw()), call(draw(3), (wrap(np.array([-1, 0])),), draw()),
        call(draw(3, 2), (wrap(np.array([[0], [2]])), wrap(np.array([1, 0]))), draw(2, 2)),
        call(draw(2, 3, 2), (wrap(np.array([1, 0])), wrap(np.array([2, 1]))), draw(2, 2)),
        call(draw(3), (wrap(np.zeros(0, np.int64)),), draw(0)),
        call(draw(2, 3).mT, (wrap(np.array([2, 0])),), draw(1, 2)),
        call(draw(2, 3), (wrap(np.array([1, 1, 0])),), draw(3), True),
    ],
    methods=("index_put",), unclaimed=READS_VALUES,
)  # fmt: skip
def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """The tensor with the elements that the index tensors name replaced by (or increased by) values.

    >>> import pellucid as torch
    >>> torch.zeros(3).index_put((torch.tensor([1, 1]),), torch.tensor(2.0), accumulate=True)
    tensor([0., 4., 0.])
    """
    view, places, axes = _put_places(input, indices)
    value = fitting(same_dtype(input, values), picked_shape(tuple(input.shape), tuple(places.shape), axes))
    return index_put_row(view, places, value, axes, bool(accumulate))


def _put_places(input: Any, indices: Any) -> tuple[Any, Any, Axes]:
    if not indices:
        raise refusal(RuntimeError, "index_put_(): at least one index tensor is needed, the list of indices is empty")
    view, places, axes = _parsed(input, tuple(ALL if i is None else i for i in indices))
    if not axes:
        raise refusal(TypeError, "index_put_(): at least one index tensor is needed, all indices are None or a number")
    if isinstance(places, Mask):
        mask = places.tensor
        axes = tuple(range(mask.array.ndim))
        places = _flat(list(unbind(nonzero_row(mask), 1)), list(input.shape[: mask.array.ndim]))
    return view, places, axes


def index_put_(self: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """In-place form of `index_put`."""
    _, places, axes = _put_places(self, indices)
    _assign(self, places, axes, same_dtype(self, values), bool(accumulate))
    return self


attach("index_put_", received(index_put_))
