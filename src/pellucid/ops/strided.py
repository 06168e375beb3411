"""Windows onto memory: unfold (overlapping windows along a dimension) and as_strided (sizes and strides at will).

Elements may appear in several windows; the adjoint adds their gradients up.
"""

from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core import aliasing
from pellucid.core.kinds import layers, pattern, plain
from pellucid.core.meta import Meta
from pellucid.core.primitive import multilinear
from pellucid.core.record import bind
from pellucid.ops.arguments import ALL, Shape, axis_of, refusal, sizes_of
from pellucid.ops.layout import Geometry, geometry, strided
from pellucid.ops.operation import call, operation
from pellucid.ops.shape import reshaped_in_place, unsqueeze
from pellucid.ops.slicing import select_row


def _windows(a: ndarray, axis: int, size: int, step: int) -> ndarray:
    count = (a.shape[axis] - size) // step + 1
    shape = (*a.shape[:axis], count, *a.shape[axis + 1 :], size)
    strides = (*a.strides[:axis], a.strides[axis] * step, *a.strides[axis + 1 :], a.strides[axis])
    return strided(a, shape, strides)


def _overlap_add(g: ndarray, shape: Shape, axis: int, size: int, step: int) -> ndarray:
    """Add every window to its place: one pass per position in the window, or for long steps one per step."""
    if step >= LONG_STEP:
        return _overlap_add_steps(g, shape, axis, size, step)
    out = np.zeros(shape, g.dtype)
    span = (g.shape[axis] - 1) * step + 1
    for k in range(size):
        out[(*(ALL,) * axis, slice(k, k + span, step))] += g[..., k]
    return out


LONG_STEP = 8  # elements: from here on whole steps are added faster than single positions (400 every 160: 15 times)


def _overlap_add_steps(g: ndarray, shape: Shape, axis: int, size: int, step: int) -> ndarray:
    """The array in rows of one step: the k-th step of every window is added to the rows from k on."""
    count, passes = g.shape[axis], -(-size // step)
    long = (count + passes - 1) * step
    out = np.zeros((*shape[:axis], *shape[axis + 1 :], max(long, shape[axis])), g.dtype)
    rows = out[..., :long].reshape(*out.shape[:-1], count + passes - 1, step)
    windows = np.moveaxis(g, axis, -2)
    for k in range(passes):
        part = windows[..., k * step : (k + 1) * step]
        rows[..., k : k + count, : part.shape[-1]] += part
    return np.moveaxis(out[..., : shape[axis]], -1, axis)


unfold_row = bind(
    multilinear(
        "unfold", _windows,
        lambda g, a_shape, axis, size, step: overlap_add_row(g, a_shape, axis, size, step),
        view=True, batch=lambda op, a, axis, size, step: op(a, axis + 1, size, step),
    )
)  # fmt: skip
overlap_add_row = bind(
    multilinear(
        "unfold_backward", _overlap_add,
        lambda g, shape, axis, size, step: unfold_row(g, axis, size, step),
        batch=lambda op, g, shape, axis, size, step: op(g, (g.shape[0], *shape), axis + 1, size, step),
    )
)  # fmt: skip


@operation(
    samples=lambda draw: [
        call(draw(7), 0, 3, 2), call(draw(2, 5), 1, 2, 1), call(draw(5, 2), 0, 5, 1), call(draw(6), -1, 2, 3),
        call(draw(2, 5, 2), 1, 3, 1), call(draw(4), 0, 1, 1), call(draw(), 0, 1, 1), call(draw(2, 0), 0, 1, 1),
        call(draw(3, 5), -1, 3, 2), call(draw(5, 3).mT, 1, 2, 2), call(draw(2, 30, 1), 1, 12, 9),
    ],
    reference="",
)  # fmt: skip
def unfold(input: Any, dimension: int, size: int, step: int) -> Any:
    """All windows of a size along a dimension; the window is the last dimension of the result: a view.

    >>> import pellucid as torch
    >>> torch.arange(4).unfold(0, 2, 1)
    tensor([[0, 1],
            [1, 2],
            [2, 3]])
    """
    if not input.ndim:
        input = unsqueeze(input, 0)
        return select_row(unfold(input, dimension, size, step), (0, ...))
    axis = axis_of(dimension, input.ndim)
    if size < 0:
        raise refusal(RuntimeError, f"size is {size} but must be >= 0")
    if step <= 0:
        raise refusal(RuntimeError, f"step is {step} but must be > 0")
    if size > input.shape[axis]:
        raise refusal(
            RuntimeError, f"maximum size for tensor at dimension {axis} is {input.shape[axis]} but size is {size}"
        )
    return unfold_row(input, axis, int(size), int(step))


def places(geometry: Geometry) -> ndarray:
    """The number of the storage element that each element of a view is."""
    shape, strides, offset = geometry
    found = np.full(shape, offset, np.int64)
    for axis, (size, step) in enumerate(zip(shape, strides, strict=True)):
        found += (np.arange(size) * step).reshape(-1, *(1,) * (len(shape) - 1 - axis))
    return found


def extent(*geometries: Geometry) -> int:
    """How many storage elements the views reach over."""
    return max(
        offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1 if 0 not in shape else 0
        for shape, strides, offset in geometries
    )


def _strided(a: ndarray, source: Geometry, target: Geometry) -> ndarray:
    """The window `target` onto the memory of an array that lies there as `source` says."""
    memory = aliasing.owner_of(a).ravel("K")
    if geometry(a) == source and extent(target) * a.itemsize <= memory.nbytes:
        shape, strides, offset = target
        return ndarray(shape, a.dtype, memory, offset * a.itemsize, tuple(s * a.itemsize for s in strides))
    storage = np.zeros(extent(source, target), a.dtype)
    storage[places(source)] = a
    return storage[places(target)]


def _unstrided(g: ndarray, source: Geometry, target: Geometry) -> ndarray:
    """The adjoint: add up per storage element; elements that overlap in the input share their gradient."""
    size = extent(source, target)
    storage = np.zeros(size, g.dtype)
    np.add.at(storage, places(target), g)
    found = places(source)
    copies = np.bincount(found.reshape(-1), minlength=size)[found]
    return (storage[found] / copies).astype(g.dtype) if (copies > 1).any() else storage[found]


def _many(geometry: Geometry, count: int, step: int) -> Geometry:
    """How many arrays lie in memory of which each lies like the first, so many elements further on."""
    shape, strides, offset = geometry
    return (count, *shape), (step, *strides), offset


def _batch_strided(op: Any, a: Any, source: Geometry, target: Geometry) -> Any:
    """The same window onto every example; of examples that lie otherwise, as gradients may, onto copies."""
    (count, *_), (step, *_), _ = lies = geometry(pattern(a))
    if lies != _many(source, count, step):
        step = extent(source, target)
    return op(a, _many(source, count, step), _many(target, count, step))


def _batch_unstrided(op: Any, g: Any, source: Geometry, target: Geometry) -> Any:
    count, step = g.shape[0], extent(source, target)
    return op(g, _many(source, count, step), _many(target, count, step))


as_strided_row = bind(
    multilinear(
        "as_strided", _strided, lambda g, source, target: unstrided_row(g, source, target), view=True,
        batch=_batch_strided,
    )
)  # fmt: skip
unstrided_row = bind(
    multilinear(
        "unstrided", _unstrided, lambda g, source, target: as_strided_row(g, source, target), batch=_batch_unstrided
    )
)


@operation(
    samples=lambda draw: [
        call(draw(6), (2, 3), (3, 1)), call(draw(6), (2, 2), (1, 1)), call(draw(6), (2,), (2,), 1),
        call(draw(2, 3), (3, 2), (1, 3)), call(draw(4), (3, 2), (0, 1)), call(draw(4), (), (), 2),
        call(draw(6), (0,), (1,)), call(draw(6), (1, 1, 2), (0, 3, 2)), call(draw(2, 3), (6,), (1,)),
        call(draw(6), [3], [2], 0),
    ], unclaimed={"layout_does_not_matter": "it reads memory by strides, whatever lies there"},
)  # fmt: skip
def as_strided(input: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """A window onto the memory of a tensor, with sizes and strides at will: a view.

    >>> import pellucid as torch
    >>> torch.arange(4).as_strided((3, 2), (1, 1))
    tensor([[0, 1],
            [1, 2],
            [2, 3]])
    """
    return as_strided_row(input, *windows(input, size, stride, storage_offset))


def windows(input: Any, size: Any, stride: Any, storage_offset: int | None) -> tuple[Geometry, Geometry]:
    """How a tensor lies in memory, and the window onto it that is asked for."""
    array = np.empty(input.array.shape, plain(input.array.dtype)) if isinstance(input.array, Meta) else input.array
    array = pattern(array)
    shape, strides = sizes_of((tuple(size),)), sizes_of((tuple(stride),))
    source = geometry(array)
    target = (shape, strides, source[2] if storage_offset is None else int(storage_offset))
    if len(shape) != len(strides):
        raise refusal(RuntimeError, "mismatch in length of strides and shape")
    if any(s < 0 for s in strides):
        raise refusal(
            RuntimeError, f"as_strided: Negative strides are not supported at the moment, got strides: {list(strides)}"
        )
    if extent(target) * array.itemsize > aliasing.owner_of(array).nbytes or target[2] < 0:
        raise refusal(
            RuntimeError,
            f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {target[2]}, and itemsize "
            f"{array.itemsize} are out of bounds for storage of size {aliasing.owner_of(array).nbytes}",
        )
    if any(kind.batched for kind in layers(input.array).values()) and not np.isin(places(target), places(source)).all():
        raise refusal(
            RuntimeError,
            f"as_strided: sizes {list(shape)}, strides {list(strides)} and storage offset {target[2]} reach memory "
            "outside of one example. This is not supported inside of vmap",
        )
    return source, target


reshaped_in_place(as_strided, "as_strided_")
