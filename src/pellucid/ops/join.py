"""Joining: cat, stack and their kin, and blocks on a diagonal. The gradient of a join is cut up again."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid import dtypes
from pellucid.core.kinds import Kind
from pellucid.core.primitive import BOUND, general
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor, wrap
from pellucid.ops.arguments import ALL, Row, Shape, axis_of, refusal
from pellucid.ops.formats import RANKS, is_channels_last, settled
from pellucid.ops.operation import Draw, Sample, call, operation
from pellucid.ops.select import as_operand
from pellucid.ops.shape import atleast_1d, atleast_2d, atleast_3d, reshape, zeros_like_row
from pellucid.ops.slicing import select_row, slice_row


def _pushed(name: str) -> Row:
    """The jvp of a join: join the tangents, zeros where there is none."""

    def jvp(tangents: Sequence[Any], y: Any, inputs: Sequence[Any], params: tuple[Any, ...]) -> Any:
        parts = zip(tangents, inputs, strict=True)
        return BOUND[name]([zeros_like_row(x) if t is None else t for t, x in parts], *params)

    return jvp


def _cat_back(g: Any, shapes: tuple[Shape, ...], needs: tuple[bool, ...], axis: int) -> list[Any]:
    grads, start, before = [], 0, (ALL,) * axis
    for shape, need in zip(shapes, needs, strict=True):
        stop = start + shape[axis]
        grads.append(slice_row(g, (*before, slice(start, stop), ...)) if need else None)
        start = stop
    return grads


def _stack_back(g: Any, needs: tuple[bool, ...], axis: int) -> list[Any]:
    before = (ALL,) * axis
    return [select_row(g, (*before, i, ...)) if need else None for i, need in enumerate(needs)]


def _concatenate(arrays: tuple[ndarray, ...], axis: int) -> ndarray:
    try:
        y = np.concatenate(arrays, axis)
    except ValueError:
        _check_joinable([a.shape for a in arrays], axis)  # says which does not fit
        raise
    if y.flags.c_contiguous or (y.ndim in RANKS.values() and all(is_channels_last(a) for a in arrays)):
        return y
    return np.ascontiguousarray(y)


def _stack(arrays: tuple[ndarray, ...], axis: int) -> ndarray:
    y = np.stack(arrays, axis)
    if y.flags.c_contiguous or axis == y.ndim - 1:
        return settled(y)  # type: ignore[no-any-return]
    return _concatenate(arrays, axis).reshape(y.shape)  # PyTorch too joins and splits, so channels may stay last


cat_row = bind(
    general(
        "cat", _concatenate, jvp=_pushed("cat"),
        pullback=lambda g, shapes, needs, axis: _cat_back(g, shapes, needs, axis),
        dtypes="promote", batch=lambda op, arrays, axis: op(arrays, axis + 1),
    )
)  # fmt: skip
stack_row = bind(
    general(
        "stack", _stack, jvp=_pushed("stack"),
        pullback=lambda g, needs, axis: _stack_back(g, needs, axis),
        dtypes="promote", batch=lambda op, arrays, axis: op(arrays, axis + 1),
    )
)  # fmt: skip


def _tensors(tensors: Any, name: str) -> list[Any]:
    if isinstance(tensors, Tensor):
        what = f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor"
        raise refusal(TypeError, what, try_=f"{name}([a, b])")
    found = list(tensors)
    for i, x in enumerate(found):
        if not isinstance(x, (Tensor, Kind)):
            raise refusal(
                TypeError, f"{name}(): expected Tensor as element {i} in argument 0, but got {type(x).__name__}"
            )
    if not found:
        kind = ValueError if name == "torch.cat" else RuntimeError
        text = "expects a non-empty TensorList" if "stack" in name else "expected a non-empty list of Tensors"
        raise refusal(kind, f"{name}(): {text}")
    return found


def _cat_samples(draw: Draw) -> list[Sample]:
    return [
        call([draw(2, 3), draw(1, 3)]), call([draw(2, 3), draw(2, 1)], 1), call([draw(2, 3), draw(2, 3)], -2),
        call([draw(3)]), call([draw(2), draw(0), draw(1)]), call((draw(1, 2, 2), draw(2, 2, 2)), dim=0),
        call([draw(0, 3), draw(2, 3)]), call([draw(2, 3), draw(0)]), call([draw(2, 2)] * 3, 1),
        call([draw(1, 1), draw(1, 2)], dim=-1),
    ]  # fmt: skip


@operation(samples=_cat_samples, methods=(), aliases=("concat", "concatenate"), out="join")
def cat(tensors: Any, dim: int = 0) -> Any:
    """Join tensors along a dimension they have.

    >>> import pellucid as torch
    >>> torch.cat([torch.tensor([1, 2]), torch.tensor([3])])
    tensor([1, 2, 3])
    """
    found = _tensors(tensors, "torch.cat")
    shapes = [x.shape for x in found]
    if () in shapes:
        raise refusal(RuntimeError, f"zero-dimensional tensor (at position {shapes.index(())}) cannot be concatenated")
    if (0,) in shapes:  # PyTorch lets an empty vector stand for "nothing yet" beside tensors of any rank
        kind = dtypes.promote([x.array for x in found if isinstance(x, Tensor)])  # their dtypes count all the same
        found = [x for x, shape in zip(found, shapes, strict=True) if shape != (0,)] or found[:1]
        found[0] = as_operand(found[0], kind) if isinstance(found[0], Tensor) else found[0]
        if found[0].shape == (0,):
            return cat_row(found, 0)  # nothing but such: along any dimension
    return cat_row(found, axis_of(dim, found[0].ndim))


def _check_joinable(shapes: list[Shape], axis: int) -> None:
    first = shapes[0]
    for i, shape in enumerate(shapes):
        if len(shape) != len(first):
            raise refusal(
                RuntimeError, f"Tensors must have same number of dimensions: got {len(first)} and {len(shape)}"
            )
        if shape[:axis] != first[:axis] or shape[axis + 1 :] != first[axis + 1 :]:
            other = next(k for k, (n, m) in enumerate(zip(first, shape, strict=True)) if n != m and k != axis)
            raise refusal(
                RuntimeError,
                f"Sizes of tensors must match except in dimension {axis}. Expected size {first[other]} but got size "
                f"{shape[other]} for tensor number {i} in the list.",
                f"the shapes are {', '.join(map(str, shapes))}",
            )


@operation(
    samples=lambda draw: [
        call([draw(2, 3), draw(2, 3)]), call([draw(2, 3), draw(2, 3)], 1), call([draw(2, 3)] * 3, -1),
        call([draw(), draw()]), call([draw(3)]), call([draw(0), draw(0)]), call((draw(2), draw(2)), dim=-2),
        call([draw(2, 2), draw(2, 2)], dim=2), call([draw()] * 4, 0), call([draw(1, 2)] * 2, 1),
    ],
    methods=(),
    out="join",
)  # fmt: skip
def stack(tensors: Any, dim: int = 0) -> Any:
    """Join tensors of equal shape along a new dimension.

    >>> import pellucid as torch
    >>> torch.stack([torch.tensor([1, 2]), torch.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    """
    found = _tensors(tensors, "stack")
    shape = tuple(found[0].shape)
    axis = axis_of(dim, len(shape) + 1)
    for i, x in enumerate(found):
        if tuple(x.shape) != shape:
            raise refusal(
                RuntimeError,
                f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and {list(x.shape)} at "
                f"entry {i}",
                try_="pad them to one size, e.g. with torch.nn.utils.rnn.pad_sequence",
            )
    return stack_row(found, axis)


def _grid_samples(draw: Draw) -> list[Sample]:
    return [
        call([draw(3), draw(3)]), call([draw(2, 3), draw(2, 3)]), call([draw(), draw()]), call([draw(2, 1, 2)] * 2),
        call([draw(3)]), call([draw()]), call((draw(1, 1), draw(1, 1), draw(1, 1))), call([draw(0), draw(0)]),
        call([draw(2, 3).mT, draw(3, 2)]), call([draw(2, 0), draw(2, 0)]),
    ]  # fmt: skip


@operation(samples=_grid_samples, methods=(), out="join")
def hstack(tensors: Any) -> Any:
    """Join side by side: along dimension 1, vectors along dimension 0.

    >>> import pellucid as torch
    >>> torch.hstack([torch.tensor([1]), torch.tensor([2])])
    tensor([1, 2])
    """
    found = [atleast_1d(x) for x in _tensors(tensors, "hstack")]
    return cat(found, 0 if found[0].ndim == 1 else 1)


@operation(samples=_grid_samples, methods=(), aliases=("row_stack",), out="join")
def vstack(tensors: Any) -> Any:
    """Join one below the other: along dimension 0, vectors as rows.

    >>> import pellucid as torch
    >>> torch.vstack([torch.tensor([1, 2]), torch.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    """
    return cat([atleast_2d(x) for x in _tensors(tensors, "vstack")], 0)


@operation(samples=_grid_samples, methods=(), out="join")
def dstack(tensors: Any) -> Any:
    """Join one behind the other: along dimension 2.

    >>> import pellucid as torch
    >>> torch.dstack([torch.tensor([1, 2]), torch.tensor([3, 4])])
    tensor([[[1, 3],
             [2, 4]]])
    """
    return cat([atleast_3d(x) for x in _tensors(tensors, "dstack")], 2)


@operation(samples=_grid_samples, methods=(), out="join")
def column_stack(tensors: Any) -> Any:
    """Join side by side, vectors as columns.

    >>> import pellucid as torch
    >>> torch.column_stack([torch.tensor([1, 2]), torch.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
    """
    found = _tensors(tensors, "column_stack")
    return cat([x if x.ndim > 1 else reshape(x, (-1, 1)) for x in found], 1)


# --- blocks on a diagonal


def _blocks(arrays: tuple[ndarray, ...]) -> ndarray:
    rows, columns = np.cumsum([(0, 0), *(a.shape for a in arrays)], axis=0).T.tolist()
    out = np.zeros((rows[-1], columns[-1]), arrays[0].dtype)
    for i, a in enumerate(arrays):
        out[rows[i] : rows[i + 1], columns[i] : columns[i + 1]] = a
    return out


def _blocks_back(g: Any, shapes: tuple[Shape, ...], needs: tuple[bool, ...]) -> list[Any]:
    grads, row, column = [], 0, 0
    for (height, width), need in zip(shapes, needs, strict=True):
        index = (slice(row, row + height), slice(column, column + width), ...)
        grads.append(slice_row(g, index) if need else None)
        row, column = row + height, column + width
    return grads


block_diag_row = bind(
    general(
        "block_diag", _blocks, jvp=_pushed("block_diag"), dtypes="promote",
        pullback=lambda g, shapes, needs: _blocks_back(g, shapes, needs),
    )
)  # fmt: skip


@operation(
    samples=lambda draw: [
        call(draw(2, 2), draw(1, 3)), call(draw(), draw(2)), call(draw(2, 1)), call(draw(1), draw(1, 1)),
        call(draw()), call(draw(3)), call(draw(0, 2), draw(2, 2)), call(draw(2, 0), draw(1)),
        call(draw(2, 2), draw(1, 1), draw(2, 3)), call(draw(2, 3).mT, draw()),
    ],
    methods=(),
)  # fmt: skip
def block_diag(*tensors: Any) -> Any:
    """A matrix with the given matrices on its diagonal.

    >>> import pellucid as torch
    >>> torch.block_diag(torch.tensor([[1, 2]]), torch.tensor([3]))
    tensor([[1, 2, 0],
            [0, 0, 3]])
    """
    if any(x.ndim > 2 for x in tensors):
        raise refusal(RuntimeError, "torch.block_diag: Input tensors must have 2 or fewer dimensions")
    if not tensors:
        return wrap(np.zeros((1, 0), dtypes.default_float()))
    return block_diag_row([atleast_2d(x) for x in tensors])
