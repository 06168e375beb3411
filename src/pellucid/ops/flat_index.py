"""Elements named by a flat index over some axes: the rows below x[...], index_select, take and index_put.

Several index tensors that stand together are first made one flat index over their dimensions, so one row (`index`) and
its adjoint (`put_add`) serve them all. `index_put` replaces (or adds to) the elements that `index` would pick.
"""

import math
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid import dtypes
from pellucid.core import large
from pellucid.core.attention import HALVES
from pellucid.core.backward import expands_to
from pellucid.core.primitive import multilinear
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor
from pellucid.native import native
from pellucid.native.words import Array, Indices, least
from pellucid.ops.arguments import ALL, Axes, Row, Shape, refusal, shifted
from pellucid.ops.axes import permute_row
from pellucid.ops.expand import broadcast, expand_row
from pellucid.ops.shape import zeros_like_row
from pellucid.ops.slicing import jointly_linear, out_of_range

BLOCK = 64  # columns that one core adds up
SOME = 1024  # elements from which on the loop is used: 32 rows of 32 take 3.4 µs, by np.add.at 8.3


def _adjacent(axes: Axes) -> bool:
    return axes[-1] - axes[0] == len(axes) - 1


def _merged(shape: Shape, axes: Axes) -> Shape:
    """The shape with neighbouring axes made one."""
    size = math.prod(shape[axis] for axis in axes)
    return (*shape[: axes[0]], size, *shape[axes[-1] + 1 :])


def numpy_index(b: ndarray, shape: Shape, axes: Axes) -> tuple[Any, ...]:
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
    return a[numpy_index(b, a.shape, axes)]


def _put_add(g: ndarray, b: ndarray, axes: Axes, shape: Shape, onto: ndarray | None = None) -> ndarray:
    """Zeros of the shape (or an array `onto`), with g added where the index says: the adjoint of `index`."""
    if not _adjacent(axes):  # the picked axes come first in g: add there, then move them home
        order = (*axes, *(i for i in range(len(shape)) if i not in axes))
        moved = None if onto is None else onto.transpose(order)
        front = _put_add(g, b, tuple(range(len(axes))), tuple(shape[i] for i in order), moved)
        return front.transpose(np.argsort(order))
    before, behind = math.prod(shape[: axes[0]]), math.prod(shape[axes[-1] + 1 :])
    size = math.prod(shape[axis] for axis in axes)
    places = b.reshape(-1)
    if places.size and np.minimum.reduce(places) < 0:
        places = np.where(places < 0, places + size, places)
    if before != 1:  # a row per element of the axes before
        places = (np.arange(0, before * size, size)[:, None] + places).reshape(-1)
    wide = np.dtype(np.float32) if g.dtype in HALVES else g.dtype
    rows = g.astype(wide, copy=False).reshape(places.size, behind)
    return add_rows(rows, places, (before * size, behind), shape, onto).astype(g.dtype, copy=False)


@native
def add_rows_loop(
    first: int, last: int, rows: Array, places: Indices, total: Array, count: int, width: int, block: int
) -> None:
    """Add each row to the row at its place; cores take columns, so that no two write to one element."""
    for strip in range(first, last):
        begin, end = strip * block, least(width, (strip + 1) * block)
        for i in range(count):
            to = places[i] * width
            for j in range(begin, end):
                total[to + j] = total[to + j] + rows[i * width + j]


def add_rows(rows: ndarray, places: ndarray, matrix: Shape, shape: Shape, onto: ndarray | None = None) -> ndarray:
    """A matrix (in another shape, if need be) each of whose rows is the sum of those rows that name its place.

    A product with a sparse matrix of ones is the fastest for rows of some length; single numbers are added one by one.
    Float32, microseconds, here : np.add.at on whole rows: 64 rows of 16: 8 : 14, 512 of 64: 60 : 440, 2048 of 128 into
    65 places: 120 : 3700, 8192 of 128 into 10000: 560 : 12000, 100000 single numbers into 1000: 190 : 1400.
    """
    width = matrix[1]
    if width >= 8 and rows.size >= SOME and add_rows_loop.fits(rows) and places.dtype == np.int64:
        total = np.zeros(shape, rows.dtype) if onto is None else large.copied(onto.astype(rows.dtype, copy=False))
        blocks = -(-width // BLOCK)
        add_rows_loop(blocks, rows.size // blocks, rows, np.ascontiguousarray(places), total, len(rows), width, BLOCK)
        return total
    if width > 1 and rows.size >= 16384 and rows.dtype.kind in "fciu":
        from scipy.sparse import csc_array  # late: it takes 0.1 s to load

        ones = np.ones(places.size, rows.dtype)
        total = csc_array((ones, places, np.arange(places.size + 1)), shape=(matrix[0], places.size)) @ rows
        total = total if shape == matrix else total.reshape(shape)  # a view would be copied before it is a leaf's
        return total if onto is None else np.add(onto, total, total)
    out = np.zeros(shape, rows.dtype) if onto is None else np.array(onto, rows.dtype, order="C")
    flat = places if width == 1 else (places[:, None] * width + np.arange(width)).reshape(-1)
    np.add.at(out.reshape(-1), flat, rows.reshape(-1))  # the fast form of add.at: everything has one axis
    return out


def _with_batch(b: Any, sizes: Shape) -> Any:
    """A batch of flat indices as one flat index over (batch, *sizes)."""
    size = math.prod(sizes)
    b = b + (b < 0) * size
    return b + (np.arange(b.shape[0]) * size).reshape(-1, *(1,) * (b.ndim - 1))


def index_batch(op: Row, a: Any, b: Any, axes: Axes) -> Any:
    """The batching of a row that picks by a flat index: the batch becomes one more axis of the index."""
    picked = op(a, _with_batch(b, tuple(a.shape[i + 1] for i in axes)), (0, *shifted(axes)))
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
    return op(_abroad(g, b.ndim - 1, axes), there, (0, *shifted(axes)), (g.shape[0], *shape))


def picking(name: str) -> Row:
    """A row (a, index, axes): the elements that the flat index over the axes names."""
    return bind(
        multilinear(name, _index, lambda g, b, a_shape, axes: put_add_row(g, b, axes, a_shape), None, batch=index_batch)
    )


index_row, index_select_row, take_row = (picking(name) for name in ("index", "index_select", "take"))
put_add_row = bind(
    multilinear(
        "put_add", _put_add, lambda g, b, axes, shape: index_row(g, b, axes), None, batch=_put_add_batch,
    )
)  # fmt: skip


# --- a with elements replaced or added to


def _index_put(a: ndarray, b: ndarray, c: ndarray, axes: Axes, accumulate: bool) -> ndarray:
    if accumulate:
        return _put_add(broadcast(c, picked_shape(a.shape, b.shape, axes)), b, axes, a.shape, a)
    out = a.copy()
    out[numpy_index(b, a.shape, axes)] = c
    return out


def picked_shape(shape: Shape, index: Shape, axes: Axes) -> Shape:
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
        return op(a, there, _abroad(c, b.ndim - 1, axes), (0, *shifted(axes)), accumulate)

    return bind(
        jointly_linear(name, _index_put, old, None, lambda g, b, axes, accumulate: index_row(g, b, axes), batch=batch)
    )


index_put_row, index_copy_row, index_add_row = (placing(name) for name in ("index_put", "index_copy", "index_add"))


def fitting(value: Any, picked: Shape) -> Any:
    """A value expanded to what an index picks."""
    if not expands_to(tuple(value.shape), picked):
        raise misfit(tuple(value.shape), picked)
    return expand_row(value, picked)


def misfit(shape: Shape, picked: Shape) -> Exception:
    """A value that does not broadcast to what an index picks."""
    return refusal(
        RuntimeError,
        f"shape mismatch: value tensor of shape {list(shape)} cannot be broadcast to indexing result of shape "
        f"{list(picked)}",
    )


def same_dtype(input: Any, values: Any) -> Any:
    """The values to be put, refused when they are of another dtype than the tensor; numbers fit any."""
    if isinstance(values, Tensor) and values.array.dtype != input.array.dtype:
        raise refusal(
            RuntimeError,
            "Index put requires the source and destination dtypes match, got "
            f"{dtypes.scalar_name(input.dtype)} for the destination and {dtypes.scalar_name(values.dtype)} for the "
            "source.",
        )
    return values
