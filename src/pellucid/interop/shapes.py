"""NumPy's functions that move elements about: `np.reshape`, `np.concatenate`, `np.split`, `np.pad`; and those that
make arrays like another one."""

import math
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.tensor import Tensor
from pellucid.interop.reductions import axes_of, flat
from pellucid.interop.vocabulary import (
    Array,
    Function,
    as_dtype,
    as_type,
    beside,
    floating,
    lift,
    named,
    promoted,
    torch,
    unsupported,
)  # fmt: skip

# --- the same elements in another form


@named("shape")
def shape(a: Any) -> tuple[int, ...]:
    return tuple(lift(a).shape)


@named("ndim")
def ndim(a: Any) -> int:
    return int(lift(a).ndim)


@named("size")
def size(a: Any, axis: Any = None) -> int:
    sizes = lift(a).shape
    return math.prod(sizes[i] for i in axes_of(axis, len(sizes)))


@named("reshape")
def reshape(a: Any, /, shape: Any, order: str = "C", *, copy: bool | None = None) -> Tensor:
    values, wanted = lift(a), _sizes(shape)
    if order == "F":
        return reshape(values.permute(_reversed(values)), wanted[::-1]).permute(_reversed(wanted))
    result = values.reshape(wanted)
    shared = np.may_share_memory(result.array, values.array) if isinstance(result.array, np.ndarray) else True
    if copy is False and not shared:
        raise ValueError("reshape: this shape needs a copy")
    return result.clone() if copy and shared else result


def _sizes(shape: Any) -> tuple[int, ...]:
    return tuple(int(n) for n in (shape if hasattr(shape, "__len__") else (shape,)))


def _reversed(values: Any) -> tuple[int, ...]:
    return tuple(reversed(range(len(values.shape) if isinstance(values, Tensor) else len(values))))


@named("ravel")
def ravel(a: Any, order: str = "C") -> Tensor:
    return reshape(a, (-1,), order)


@named("transpose", "permute_dims")
def transpose(a: Any, axes: Any = None) -> Tensor:
    values = lift(a)
    return values.permute(_reversed(values) if axes is None else tuple(int(i) for i in np.atleast_1d(axes)))


@named("matrix_transpose", "linalg.matrix_transpose")
def matrix_transpose(x: Any, /) -> Tensor:
    values = lift(x)
    if values.ndim < 2:
        raise ValueError(f"matrix_transpose needs two dimensions or more, this tensor has {values.ndim}")
    return torch.transpose(values, -2, -1)


@named("moveaxis")
def moveaxis(a: Any, source: Any, destination: Any) -> Tensor:
    return torch.movedim(lift(a), source, destination)


@named("rollaxis")
def rollaxis(a: Any, axis: int, start: int = 0) -> Tensor:
    values = lift(a)
    axis, start = axis % values.ndim, start + values.ndim if start < 0 else start
    return torch.movedim(values, axis, start - 1 if axis < start else start)


@named("swapaxes")
def swapaxes(a: Any, axis1: int, axis2: int) -> Tensor:
    return torch.transpose(lift(a), axis1, axis2)


@named("expand_dims")
def expand_dims(a: Any, axis: Any = 0) -> Tensor:
    values = lift(a)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    rank = values.ndim + len(axes)
    if not all(-rank <= i < rank for i in axes) or len({i % rank for i in axes}) < len(axes):
        raise IndexError(f"expand_dims: axis {axis} does not fit a tensor of {values.ndim} dimensions")
    sizes = iter(values.shape)
    return values.reshape([1 if i in {j % rank for j in axes} else next(sizes) for i in range(rank)])


@named("squeeze")
def squeeze(a: Any, axis: Any = None) -> Tensor:
    values = lift(a)
    axes = None if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    if axes is not None and any(values.shape[i] != 1 for i in axes):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return torch.squeeze(values) if axes is None else torch.squeeze(values, tuple(axes))


@named("atleast_1d")
def atleast_1d(*arys: Any) -> Any:
    return _each(torch.atleast_1d, arys)


@named("atleast_2d")
def atleast_2d(*arys: Any) -> Any:
    return _each(torch.atleast_2d, arys)


@named("atleast_3d")
def atleast_3d(*arys: Any) -> Any:
    return _each(torch.atleast_3d, arys)


def _each(operation: Function, arrays: tuple[Any, ...]) -> Any:
    results = tuple(operation(lift(a)) for a in arrays)
    return results[0] if len(results) == 1 else results


@named("flip")
def flip(m: Any, axis: Any = None) -> Tensor:
    values = lift(m)
    return torch.flip(values, axes_of(axis, values.ndim))


@named("fliplr")
def fliplr(m: Any) -> Tensor:
    return torch.fliplr(lift(m))


@named("flipud")
def flipud(m: Any) -> Tensor:
    return torch.flipud(lift(m))


@named("rot90")
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Tensor:
    return torch.rot90(lift(m), k, tuple(axes))


@named("roll")
def roll(a: Any, shift: Any, axis: Any = None) -> Tensor:
    values = lift(a)
    if axis is None:
        return torch.roll(values.reshape((-1,)), int(np.sum(shift))).reshape(tuple(values.shape))
    pairs = [(int(by), int(along)) for by, along in np.broadcast(shift, axis)]
    return torch.roll(values, *zip(*pairs, strict=True)) if pairs else values.clone()


# --- repeated


@named("broadcast_to")
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Tensor:
    return torch.broadcast_to(lift(array), _sizes(shape))


@named("broadcast_arrays")
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Tensor, ...]:
    return tuple(torch.broadcast_tensors(*map(lift, args)))


@named("tile")
def tile(A: Any, reps: Any) -> Tensor:
    return torch.tile(lift(A), _sizes(reps))


@named("repeat")
def repeat(a: Any, repeats: Any, axis: Any = None) -> Tensor:
    values, axis = flat(lift(a), None if np.ndim(a) == 0 else axis)
    return torch.repeat_interleave(values, repeats if isinstance(repeats, int) else lift(repeats), axis)


@named("meshgrid")
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Tensor, ...]:
    vectors = [lift(x).reshape((-1,)) for x in xi]
    if not sparse:
        return tuple(torch.meshgrid(*promoted(*vectors), indexing=indexing)) if vectors else ()
    places = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        places[:2] = [1, 0]
    rank = range(len(vectors))
    return tuple(v.reshape([-1 if i == place else 1 for i in rank]) for v, place in zip(vectors, places, strict=True))


@named("lib.stride_tricks.sliding_window_view")
def sliding_window_view(x: Any, window_shape: Any, axis: Any = None) -> Tensor:
    values = lift(x)
    for place, width in zip(axes_of(axis, values.ndim), _sizes(window_shape), strict=True):
        values = values.unfold(place, width, 1)
    return values


# --- joined and split


@named("concatenate", "concat")
def concatenate(
    arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Tensor:
    parts = [as_type(a, dtype) for a in beside(*arrays)]
    return torch.cat([part.reshape((-1,)) for part in parts], 0) if axis is None else torch.cat(parts, int(axis))


@named("stack")
def stack(arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    return torch.stack([as_type(a, dtype) for a in promoted(*arrays)], axis)


@named("hstack")
def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    return torch.hstack([as_type(a, dtype) for a in beside(*tup)])


@named("vstack")
def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    return torch.vstack([as_type(a, dtype) for a in beside(*tup)])


@named("dstack")
def dstack(tup: Any) -> Tensor:
    return torch.dstack(beside(*tup))


@named("column_stack")
def column_stack(tup: Any) -> Tensor:
    return torch.column_stack(beside(*tup))


@named("block")
def block(arrays: Any) -> Tensor:
    depth = _depth(arrays)
    rank = max(depth, *(part.ndim for part in _leaves(arrays)))
    return _joined(arrays, depth, rank)


def _depth(tree: Any) -> int:
    return 1 + max(map(_depth, tree)) if isinstance(tree, list) else 0


def _leaves(tree: Any) -> list[Tensor]:
    return [leaf for part in tree for leaf in _leaves(part)] if isinstance(tree, list) else [lift(tree)]


def _joined(tree: Any, depth: int, rank: int) -> Array:
    """Lists of the innermost level are joined along the last axis, those around them along the one before."""
    if not isinstance(tree, list):
        part = lift(tree)
        return part.reshape((1,) * (rank - part.ndim) + tuple(part.shape))
    return torch.cat([_joined(part, depth - 1, rank) for part in tree], -depth)


@named("append")
def append(arr: Any, values: Any, axis: Any = None) -> Tensor:
    return concatenate([arr, values], axis=axis)


@named("delete")
def delete(arr: Any, obj: Any, axis: Any = None) -> Tensor:
    values, axis = flat(lift(arr), axis)
    left = np.delete(np.arange(values.shape[axis]), obj.numpy() if isinstance(obj, Tensor) else obj)
    return torch.index_select(values, axis, lift(left))


@named("split")
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    length = lift(ary).shape[axis]
    if isinstance(indices_or_sections, int) and length % indices_or_sections:
        raise ValueError(f"array split does not result in an equal division: {length} by {indices_or_sections}")
    return array_split(ary, indices_or_sections, axis)


@named("array_split")
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    return list(torch.tensor_split(lift(ary), _sections(indices_or_sections), axis))


def _sections(wanted: Any) -> Any:
    return wanted if isinstance(wanted, int) else [int(i) for i in wanted]


def _of_rank(name: str, ary: Any, rank: int) -> Any:
    if lift(ary).ndim < rank:
        raise ValueError(f"{name} only works on arrays of {rank} or more dimensions")
    return ary


@named("hsplit")
def hsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    return split(_of_rank("hsplit", ary, 1), indices_or_sections, 1 if lift(ary).ndim > 1 else 0)


@named("vsplit")
def vsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    return split(_of_rank("vsplit", ary, 2), indices_or_sections, 0)


@named("dsplit")
def dsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    return split(_of_rank("dsplit", ary, 3), indices_or_sections, 2)


@named("unstack")
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    return tuple(torch.unbind(lift(x), axis))


@named("pad")
def pad(
    array: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0, reflect_type: str = "even"
) -> Tensor:
    values = lift(array)
    if mode not in ("constant", "edge", "reflect", "symmetric", "wrap") or reflect_type != "even":
        raise unsupported(f"np.pad: mode {mode!r} ({reflect_type}) is not there for tensors")
    widths = np.broadcast_to(np.asarray(pad_width), (values.ndim, 2)).tolist()
    fills = torch.broadcast_to(as_type(constant_values, values.dtype), (values.ndim, 2))
    for axis, (before, after) in enumerate(widths):
        if mode == "constant":
            values = torch.cat([_slab(values, axis, before, fills[axis, 0]), values,
                                _slab(values, axis, after, fills[axis, 1])], axis)  # fmt: skip
        elif before or after:  # elements that are there already: NumPy pads their numbers
            numbers = np.pad(np.arange(values.shape[axis]), (before, after), mode=mode)  # type: ignore[call-overload]
            values = torch.index_select(values, axis, lift(numbers))
    return values


def _slab(values: Array, axis: int, width: int, fill: Tensor) -> Array:
    """One value in the shape of a tensor, but of another size along one axis."""
    return torch.broadcast_to(fill, tuple(width if i == axis else n for i, n in enumerate(values.shape)))


# --- diagonals and triangles


@named("diag")
def diag(v: Any, k: int = 0) -> Tensor:
    return torch.diag(lift(v), k)


@named("diagflat")
def diagflat(v: Any, k: int = 0) -> Tensor:
    return torch.diagflat(lift(v), k)


@named("diagonal")
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    return torch.diagonal(lift(a), offset, axis1, axis2)


@named("tril")
def tril(m: Any, k: int = 0) -> Tensor:
    return torch.tril(lift(m), k)


@named("triu")
def triu(m: Any, k: int = 0) -> Tensor:
    return torch.triu(lift(m), k)


# --- new ones: like another, or with `like=`


@named("copy")
def copy(a: Any, order: str = "K", subok: bool = False) -> Tensor:
    return lift(a).clone()


@named("astype")
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    return lift(x).to(as_dtype(dtype), copy=copy)


@named("array", "asarray", "asanyarray", "ascontiguousarray")
def array(a: Any, dtype: Any = None, **options: Any) -> Tensor:
    return as_type(a, dtype)


def _wanted(dtype: Any) -> dict[str, Any]:
    return {"dtype": None if dtype is None else as_dtype(dtype)}


@named("zeros_like")
def zeros_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Tensor:
    return full_like(a, 0, dtype, order, subok, shape)


@named("ones_like")
def ones_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Tensor:
    return full_like(a, 1, dtype, order, subok, shape)


@named("empty_like")
def empty_like(
    prototype: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Tensor:
    return full_like(prototype, 0, dtype, order, subok, shape)


@named("full_like")
def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Tensor:
    values = lift(a)
    if shape is None and isinstance(fill_value, (int, float, complex)):
        return torch.full_like(values, fill_value, **_wanted(dtype))
    sizes = tuple(values.shape) if shape is None else _sizes(shape)
    fill = as_type(fill_value, values.dtype if dtype is None else dtype)
    return torch.broadcast_to(fill, sizes).clone()


@named("zeros", "empty")
def zeros(shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None) -> Tensor:
    return torch.zeros(_sizes(shape), **_wanted(dtype))


@named("ones")
def ones(shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None) -> Tensor:
    return torch.ones(_sizes(shape), **_wanted(dtype))


@named("full")
def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, device: Any = None) -> Tensor:
    fill = as_type(fill_value, dtype)
    return torch.broadcast_to(fill, _sizes(shape)).clone()


@named("arange")
def arange(*bounds: Any, dtype: Any = None, device: Any = None) -> Tensor:
    return torch.arange(*bounds, **_wanted(dtype))


@named("eye")
def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = None, order: str = "C", *, device: Any = None) -> Tensor:
    columns = N if M is None else M
    offsets = torch.arange(columns)[None] - torch.arange(N)[:, None]
    return (offsets == k).to(dtypes.get_default_dtype() if dtype is None else as_dtype(dtype))


@named("identity")
def identity(n: int, dtype: Any = None) -> Tensor:
    return eye(n, dtype=dtype)


@named("linspace")
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    wanted = None if dtype is None else as_dtype(dtype)
    whole = wanted is None or wanted.category in ("bool", "integer")
    kind = floating(promoted(start, stop)[0]).dtype if whole else wanted
    first, last = (as_type(value, kind) for value in (start, stop))
    gaps = num - 1 if endpoint else num
    step = (last - first) / gaps if gaps > 0 else last - first
    values = first + torch.arange(num, dtype=kind).reshape([-1] + [1] * step.ndim) * step
    if endpoint and num > 1:  # exactly the last value, whatever the rounding
        values = torch.cat([values[:-1], torch.broadcast_to(last, tuple(step.shape))[None]], 0)
    result = as_type(torch.movedim(values, 0, axis), dtype)
    return (result, step) if retstep else result


@named("logspace")
def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0
) -> Tensor:
    exponents = linspace(start, stop, num, endpoint, axis=axis)
    return as_type(base**exponents if isinstance(base, (int, float)) else lift(base) ** exponents, dtype)
