"""vmap: a Batched array is many arrays of one shape, stacked in front, that pretend to be one of them.

An operation on a Batched array runs once on the whole stack: elementwise rows broadcast over the batch axis by
themselves, others say in their `batch` column how they do it, and a row without that column runs slice by slice.
A Batched array sits under Tensor like an ndarray and is recorded like one, so gradients pass in and out of vmap: they
enter the level marked as coming from outside, and leave it summed over the batch where an unbatched tensor was used.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pellucid.core.careful import compute, seen_from
from pellucid.core.inplace import copied, write_part
from pellucid.core.kinds import Kind, bare, foreign, layers, memory_of, moved, pattern, plain, with_room
from pellucid.core.primitive import BOUND, TABLE, Primitive, as_written, multilinear
from pellucid.core.provenance import here
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor
from pellucid.core.views import way_in
from pellucid.errors import explain
from pellucid.ops.axes import permute_row
from pellucid.ops.expand import expand_row
from pellucid.ops.random import NO_DRAWS
from pellucid.ops.reduce import sum_row
from pellucid.ops.shape import reshape_row
from pellucid.ops.slicing import slice_row
from pellucid.transforms.levels import (
    Roots,
    apart,
    belongs,
    check_room,
    entered_from_outside,
    layer,
    looks_at,
    next_level,
)
from pellucid.transforms.tree import Structure, flatten, spread


class Batched(Kind):
    """A stack of arrays that acts as one of them; the batch axis is the first of `value`."""

    __slots__ = ("adjoint", "dtype", "level", "shape", "value")
    batched = True

    def __init__(self, value: Any, level: int, adjoint: bool = False) -> None:
        self.value = value if isinstance(value, Kind) else np.asanyarray(value)
        self.level = level
        self.adjoint = adjoint
        self.shape = tuple(self.value.shape[1:])
        self.dtype = foreign(self.value.dtype)

    @property
    def batch_size(self) -> int:
        """How many arrays are stacked."""
        return int(self.value.shape[0])

    def layers(self) -> dict[int, Kind]:
        return {**layers(self.value), self.level: self}

    def admit(self, tensor: Tensor) -> Tensor:
        return into_every(tensor, self.batch_size, False, self.level)  # type: ignore[no-any-return]

    def custom(self, function: Any, args: tuple[Any, ...]) -> Any:
        from pellucid.transforms.custom import run_inside

        return run_inside(function, args, self)

    def memory(self) -> list[np.ndarray]:
        return memory_of(self.value)

    def overwrite(self, value: Any, name: str, note: Callable[[np.ndarray, str], None]) -> None:
        check_room(value, self.level, name)
        if not belongs(value, self.level):
            value = into_every(value, self.batch_size, False, self.level)
        write_part(self.value, value.value, name, note)

    def bare(self) -> Any:
        return Batched(bare(self.value), self.level, self.adjoint)

    def with_room(self, value: Any) -> Any:
        inside = with_room(self.value, value.value if belongs(value, self.level) else value)
        return self if inside is self.value else Batched(inside, self.level, self.adjoint)

    def ways_out(self) -> tuple[Callable[[Tensor], Tensor], ...]:
        return (lambda tensor: leave(tensor, 0, self.batch_size, self.level),)

    def repeated(self, array: Any) -> Any:
        return copied(into_every(array, self.batch_size, False, self.level))

    def moved(self, levels: Mapping[int, int]) -> "Batched":
        return Batched(moved(self.value, levels), levels.get(self.level, self.level), self.adjoint)

    def pattern(self) -> np.ndarray:
        stack = pattern(self.value)
        return stack[0] if len(stack) else np.empty(self.shape, plain(self.dtype))

    def why_no_values(self, what: str) -> str:
        if what == "item()":
            words = "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item()"
        else:
            words = "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow"
        return f"{words}: inside of vmap a tensor stands for many values"

    def detached(self) -> Any:
        return Batched(self.value.detached(), self.level) if isinstance(self.value, Kind) else self

    def given(self, values: Any) -> Any:
        if not isinstance(self.value, Kind):
            return values
        stack = values.value if belongs(values, self.level) else repeated(values, self.batch_size)
        return Batched(self.value.given(stack), self.level, self.adjoint)

    def apply(self, p: Primitive, arrays: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Run an operation on the whole stack at once, or slice by slice where the row knows no better way."""
        level, size = self.level, self.batch_size
        adjoint = any(belongs(array, level) and array.adjoint for array in arrays)
        if works_elementwise(p):
            y = compute(p, _aligned(arrays, level), params)
        elif p.batch is not None:
            y = _all_at_once(p, arrays, params, level, size)
        else:
            y = _slice_by_slice(p, arrays, params, level, size)
        parts = (y,) if p.outputs == 1 else y
        if not looks_at(p, parts, arrays):
            parts = tuple(apart(part, *arrays) for part in parts)
        made = tuple(Batched(part, level, adjoint) for part in parts)
        return made[0] if p.outputs == 1 else made

    def __repr__(self) -> str:
        return f"Batched(batch_size={self.batch_size}, value={self.value!r}, level={self.level})"


def works_elementwise(p: Primitive) -> bool:
    """Whether a row treats every element alone, so that a batch axis in front changes nothing."""
    if p.batch is not None:
        return False
    return p.elementwise or (isinstance(p.forward, np.ufunc) and p.forward.signature is None)


def _aligned(arrays: Sequence[Any], level: int) -> tuple[Any, ...]:
    """The stacks with size-1 axes behind the batch axis, so that they broadcast as their slices would."""
    rank = max(len(array.shape) for array in arrays)
    return tuple(_padded(array.value, rank) if belongs(array, level) else array for array in arrays)


def _padded(value: Any, rank: int) -> Any:
    missing = rank + 1 - len(value.shape)
    return reshape_row(value, (value.shape[0], *(1,) * missing, *value.shape[1:])) if missing else value


def _run(p: Primitive, *arguments: Any) -> Any:
    """A row's function for its `batch` column: on arrays of any kind and dtype."""
    if p.variadic:
        return compute(p, tuple(arguments[0]), arguments[1:])
    return compute(p, arguments[: len(p.rules)], arguments[len(p.rules) :])


def repeated(array: Any, size: int) -> Any:
    """An array once per slice of the batch, without copying it."""
    return expand_row(reshape_row(array, (1, *array.shape)), (size, *array.shape))


def _all_at_once(p: Primitive, arrays: tuple[Any, ...], params: tuple[Any, ...], level: int, size: int) -> Any:
    """Let the row's `batch` column act on the stacks.

    A 0-d array may be reduced, scanned or sorted along "axis 0" although it has none; one axis further there is
    nothing either, so such calls go slice by slice.
    """
    stacks = tuple(array.value if belongs(array, level) else repeated(array, size) for array in arrays)
    try:
        return p.batch(functools.partial(_run, p), *((stacks,) if p.variadic else stacks), *params)  # type: ignore[misc]
    except IndexError:
        if all(array.shape for array in arrays):
            raise
        return _slice_by_slice(p, arrays, params, level, size)


def _slice_by_slice(p: Primitive, arrays: tuple[Any, ...], params: tuple[Any, ...], level: int, size: int) -> Any:
    """The way that always works: one slice after the other. An empty batch runs on zeros to learn the shape."""
    stacks = {i: array.value for i, array in enumerate(arrays) if belongs(array, level)}
    if not size:
        stacks = {i: np.zeros((1, *value.shape[1:]), plain(value.dtype)) for i, value in stacks.items()}
    slices = []
    for k in range(size or 1):
        taken = tuple(_slice(stacks[i], k) if i in stacks else array for i, array in enumerate(arrays))
        slices.append(compute(p, taken, params))
    _check_alike(p, slices)
    if p.outputs == 1:
        return _stacked(slices, size)
    return tuple(_stacked(parts, size) for parts in zip(*slices, strict=True))


def _check_alike(p: Primitive, slices: Sequence[Any]) -> None:
    """Refuse results whose shapes differ from slice to slice: they cannot be stacked."""
    firsts = slices if p.outputs == 1 else [parts[0] for parts in slices if parts]
    shapes = sorted({tuple(part.shape) for part in firsts})
    if len(shapes) > 1:
        raise RuntimeError(
            explain(
                f"vmap: {as_written(p.name)} gives results of shape {shapes[0]} and of shape {shapes[-1]} in one batch",
                str(here()),
                "We do not support batching operators that can output dynamic shape: how many elements this one picks "
                "depends on the values",
                "keep the shape, e.g. torch.where(mask, x, 0), or loop over the batch",
            )
        )


def _slice(value: Any, k: int) -> Any:
    part = slice_row(value, (k,))
    return part if isinstance(part, Kind) else np.asanyarray(part)


def _stacked(slices: Sequence[Any], size: int) -> Any:
    """Arrays of any kind, stacked along a new first axis of this size."""
    if not any(isinstance(part, Kind) for part in slices):
        return np.stack(slices)[:size]
    rows = tuple(reshape_row(part, (1, *part.shape)) for part in slices)
    return joined(rows, 0)


def joined(parts: Sequence[Any], axis: int) -> Any:
    """Arrays or tensors, joined along an axis."""
    return parts[0] if len(parts) == 1 else BOUND["cat"](tuple(parts), axis)


# --- the ways in and out of a level, recorded so that backward finds its way through


def _to_front(a: Any, axis: int) -> Any:
    if axis == 0:
        return a
    return permute_row(a, (axis, *(i for i in range(len(a.shape)) if i != axis)))


def _from_front(a: Any, axis: int) -> Any:
    if axis == 0:
        return a
    return permute_row(a, (*range(1, axis + 1), 0, *range(axis + 1, len(a.shape))))


def _out(a: Any, axis: int, size: int, level: int) -> Any:
    return _from_front(a.value if belongs(a, level) else repeated(a, size), axis)


def _total(a: Any, size: int, level: int) -> Any:
    return sum_row(a.value, (0,), False)


def _leave(g: Any, size: int, level: int) -> Any:
    """The gradient of an unbatched array that every slice used: the sum of theirs, on a walk outside the level."""
    return total(g, size, level) if entered_from_outside(g, level) else g


# One axis of an array becomes the batch.
into_batch: Callable[..., Any] = bind(
    multilinear(
        "into_batch",
        lambda a, axis, size, adjoint, level: Batched(_to_front(a, axis), level, adjoint),
        lambda g, axis, size, adjoint, level: out_of_batch(g, axis, size, level),
        batch=lambda op, a, axis, size, adjoint, level: op(a, axis + 1, size, adjoint, level),
        boundary="in",
        view=True,
    )
)

# The batch becomes an axis of an array.
out_of_batch: Callable[..., Any] = bind(
    multilinear(
        "out_of_batch",
        _out,
        lambda g, axis, size, level: into_batch(g, axis, size, True, level),
        batch=lambda op, a, axis, size, level: op(a, axis + 1, size, level),
        boundary="out",
    )
)

# The same array in every slice of the batch.
into_every: Callable[..., Any] = bind(
    multilinear(
        "into_every",
        lambda a, size, adjoint, level: Batched(repeated(a, size), level, adjoint),
        lambda g, size, adjoint, level: _leave(g, size, level),
        batch=lambda op, a, size, adjoint, level: op(a, size, adjoint, level),
        boundary="in",
        view=True,
    )
)

# The sum of all slices of the batch.
total: Callable[..., Any] = bind(
    multilinear(
        "total_of_batch",
        _total,
        lambda g, size, level: into_every(g, size, True, level),
        batch=lambda op, a, size, level: op(a, size, level),
        boundary="out",
    )
)


def enter(tensor: Tensor, axis: int, level: int) -> Tensor:
    """Make one axis of a tensor the batch of a level."""
    return into_batch(tensor, axis, int(tensor.array.shape[axis]), False, level)  # type: ignore[no-any-return]


def leave(tensor: Tensor, axis: int, size: int, level: int, roots: Roots | None = None) -> Tensor:
    """Make the batch of a level an axis of a tensor again; a tensor that does not depend on it is repeated.

    A view of a tensor outside is a view of it still; what others look at inside is one of the `roots` outside.
    """
    if layer(tensor, level) is None:
        return _from_front(repeated(tensor, size), axis)  # type: ignore[no-any-return]
    out = out_of_batch(tensor, axis, size, level)
    steps, at = way_in(tensor, level)
    view = tensor.window
    start = tensor if view is None else view.base
    if at is None:
        if roots is None:
            return out  # type: ignore[no-any-return]
        start = roots.of(start)
        if view is None:
            return _from_front(start, axis)  # type: ignore[no-any-return]
        steps = ((TABLE["into_batch"], (0, size, False, level)), *steps)
    assert view is not None
    before = None if at is None else view
    return seen_from(out, start, (*steps, (TABLE["out_of_batch"], (axis, size, level))), view.forbids, before)


def batched_seed(tensors: Sequence[Tensor | None]) -> tuple[list[Tensor | None], int, int]:
    """Tensors with a batch axis in front as seeds of one walk, with the batch size and the level for `unbatch`.

    >>> import pellucid as torch
    >>> seeds, size, level = batched_seed([torch.ones(4, 3)])
    >>> seeds[0].shape, size
    (torch.Size([3]), 4)
    """
    sizes = {int(t.array.shape[0]) for t in tensors if t is not None}
    if len(sizes) != 1:
        raise ValueError(f"batched gradients must have the same size in their first dimension, got {sorted(sizes)}")
    level = next_level()
    return [None if t is None else enter(t, 0, level) for t in tensors], sizes.pop(), level


def unbatch(tensor: Tensor | None, size: int, level: int) -> Tensor | None:
    """A result of the walk with the batch axis in front again."""
    return None if tensor is None else leave(tensor, 0, size, level)


# --- vmap


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Make a function of single examples a function of batches.

    `in_dims` says which dimension of every input is the batch (None: the input is shared), `out_dims` where it goes
    in the outputs; both may be nested like the inputs and outputs. `chunk_size` works through the batch in pieces.
    Random numbers may be drawn inside the function if `randomness` says how: "same" for all examples, or "different"
    ones, for which the function runs once per example.

    >>> import pellucid as torch
    >>> torch.func.vmap(lambda row: row * row.sum())(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[ 3.,  6.],
            [21., 28.]])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func, updated=())
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        call = Call(func, in_dims, out_dims, args)
        pieces = call.pieces(1 if randomness == "different" else chunk_size)
        token = NO_DRAWS.set(True) if randomness == "error" else None
        try:
            returned = [call.run(piece, kwargs) for piece in pieces]
        finally:
            if token is not None:
                NO_DRAWS.reset(token)
        return returned[0] if chunk_size is None and len(returned) == 1 else call.together(returned)

    return wrapped


class Call:
    """One call of a mapped function: its inputs, each with its batch axis."""

    def __init__(self, func: Callable[..., Any], in_dims: Any, out_dims: Any, args: tuple[Any, ...]) -> None:
        self.func, self.out_dims = func, out_dims
        self.title = f"vmap({getattr(func, '__name__', repr(func))}, in_dims={in_dims}, ...)(<inputs>)"
        _check_in_dims(self.title, in_dims, args)
        self.inputs, self.structure = flatten(args)
        axes = spread(in_dims, self.structure)
        if axes is None:
            raise ValueError(
                f"{self.title}: in_dims is not compatible with the structure of `inputs`. in_dims has structure "
                f"{flatten(in_dims)[1]} but inputs has structure {self.structure}."
            )
        self.axes = [_axis(self.title, axis, value) for axis, value in zip(axes, self.inputs, strict=True)]
        self.size = _batch_size(self.inputs, self.axes)

    def pieces(self, chunk_size: int | None) -> list[list[Any]]:
        """The inputs, cut along the batch where chunks are asked for."""
        if chunk_size is None or chunk_size >= self.size:
            return [self.inputs]
        cuts = [slice(begin, begin + chunk_size) for begin in range(0, self.size, chunk_size)]
        return [
            [
                value if axis is None else slice_row(value, (slice(None),) * axis + (cut,))
                for value, axis in zip(self.inputs, self.axes, strict=True)
            ]
            for cut in cuts
        ]

    def run(self, inputs: list[Any], kwargs: dict[str, Any]) -> Any:
        """Run the function on Batched inputs of a new level."""
        level = next_level()
        size = _batch_size(inputs, self.axes)
        entered = [v if axis is None else enter(v, axis, level) for v, axis in zip(inputs, self.axes, strict=True)]
        windows = [getattr(value, "window", None) for value in entered]
        outputs, structure = flatten(self.func(*self.structure.unflatten(entered), **kwargs))
        axes = self._out_axes(structure)
        roots = Roots(lambda base: out_of_batch(base, 0, size, level))
        results = [self._result(out, axis, size, level, roots) for out, axis in zip(outputs, axes, strict=True)]
        for i, (out, axis) in enumerate(zip(outputs, axes, strict=True)):
            for input, in_axis, inside, window in zip(inputs, self.axes, entered, windows, strict=True):
                if out is not inside or axis is None or in_axis is None:
                    continue
                if in_axis == axis % len(input.array.shape):
                    results[i] = input if inside.window is window else results[i]  # it was not given another shape
        return structure.unflatten(results)

    def _out_axes(self, structure: Structure) -> list[Any]:
        name = getattr(self.func, "__name__", repr(self.func))
        out_dims = self.out_dims
        if isinstance(out_dims, tuple) and len(out_dims) == 1 and structure.kind is None:
            out_dims = out_dims[0]
        if structure.kind is list and isinstance(out_dims, tuple):
            out_dims = list(out_dims)
        axes = spread(out_dims, structure)
        if axes is None:
            raise ValueError(
                f"vmap({name}, ..., out_dims={self.out_dims})(<inputs>): out_dims is not compatible with the "
                f"structure of `outputs`. out_dims has structure {flatten(self.out_dims)[1]} but outputs has "
                f"structure {structure}."
            )
        if not all(axis is None or isinstance(axis, int) for axis in axes):
            raise ValueError(
                f"vmap({name}, ..., out_dims={self.out_dims}): `out_dims` must be an int, None or a python collection "
                "of ints representing where in the outputs the vmapped dimension should appear."
            )
        return axes

    def _result(self, out: Any, axis: int | None, size: int, level: int, roots: Roots) -> Any:
        name = getattr(self.func, "__name__", repr(self.func))
        if axis is None:
            if isinstance(out, Tensor) and layer(out, level) is not None:
                raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
            return out
        if not isinstance(out, Tensor):
            raise ValueError(
                f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(out)}. "
                "Did you mean to set out_dims= to None for output?"
            )
        rank = len(out.array.shape) + 1
        if not -rank <= axis < rank:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {axis})"
            )
        return leave(out, axis % rank, size, level, roots)

    def together(self, returned: list[Any]) -> Any:
        """The outputs of all chunks, joined along the batch."""
        structure = flatten(returned[0])[1]
        axes = self._out_axes(structure)
        columns = zip(*(flatten(piece)[0] for piece in returned), strict=True)
        return structure.unflatten(
            [
                parts[0] if axis is None else BOUND["cat"](parts, axis % len(parts[0].array.shape))
                for parts, axis in zip(columns, axes, strict=True)
            ]
        )


def _check_in_dims(title: str, in_dims: Any, args: tuple[Any, ...]) -> None:
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"{title}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of "
            f"inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"{title}: got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a function "
            "with no inputs. The latter is unsupported."
        )


def _axis(title: str, axis: Any, value: Any) -> int | None:
    """The batch axis of one input, checked and counted from the front."""
    if axis is None:
        return None
    if not isinstance(axis, int):
        raise ValueError(
            f"{title}: Got in_dim={axis} for an input but in_dim must be either an integer dimension or None."
        )
    if not isinstance(value, Tensor):
        raise ValueError(
            f"{title}: Got in_dim={axis} for an input but the input is of type {type(value)}. We cannot vmap over "
            "non-Tensor arguments, please use None as the respective in_dim"
        )
    rank = len(value.array.shape)
    if not -rank <= axis < rank:
        raise ValueError(
            f"{title}: Got in_dim={axis} for some input, but that input is a Tensor of dimensionality {rank} so "
            f"expected in_dim to satisfy -{rank} <= in_dim < {rank}."
        )
    return axis % rank


def _batch_size(inputs: Sequence[Any], axes: Sequence[int | None]) -> int:
    sizes = [int(value.array.shape[axis]) for value, axis in zip(inputs, axes, strict=True) if axis is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if any(size != sizes[0] for size in sizes):
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return sizes[0]
