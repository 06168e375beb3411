"""Unpooling: elements put back to the places that max pooling took them from, zeros elsewhere."""

import math
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core.primitive import multilinear
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor, wrap
from pellucid.ops.arguments import Shape, as_int, expect, refusal
from pellucid.ops.nn.pooling import F
from pellucid.ops.nn.windows import numbers
from pellucid.ops.nn.winners import flat_places, pick_row
from pellucid.ops.operation import Draw, Sample, call, named, publish


def _unpool(a: ndarray, index: ndarray, plane: Shape) -> ndarray:
    """Zeros, with every element written to the place of its plane that the index names."""
    rank = len(plane)
    out = np.zeros((*a.shape[: a.ndim - rank], *plane), a.dtype)
    out.reshape(-1)[flat_places(index, math.prod(plane), rank)] = a.reshape(-1)
    return out


def _row(name: str, grad_name: str) -> Any:
    """A row (a, index, plane); its gradient is read at the places that were written."""
    return bind(
        multilinear(
            name, _unpool, lambda g, b, plane: pick_row(g, b, len(plane)), None, grad_name=grad_name,
            batch=lambda op, a, index, plane: op(a, index, plane),
        )
    )  # fmt: skip


ROWS = {
    1: _row("max_unpool1d", "SqueezeBackward1"),
    2: _row("max_unpool2d", "MaxUnpool2DBackward0"),
    3: _row("max_unpool3d", "MaxUnpool3DBackward0"),
}


def _plane(input: Any, kernel: Shape, stride: Shape, padding: Shape, output_size: Any) -> Shape:
    """The sizes of the result: those given if they are possible, else the smallest that were."""
    rank = len(kernel)
    columns = zip(tuple(input.shape)[input.ndim - rank :], kernel, stride, padding, strict=True)
    usual = tuple((n - 1) * s + k - 2 * p for n, k, s, p in columns)
    sizes = usual
    if output_size is not None:
        sizes = tuple(map(as_int, output_size))
        sizes = sizes[2:] if len(sizes) == rank + 2 else sizes
        if len(sizes) != rank:
            what = f"output_size should be a sequence containing {rank} or {rank + 2} elements"
            raise ValueError(f"{what}, but it has a length of '{len(sizes)}'")
        for d, (size, smallest, step) in enumerate(zip(sizes, usual, stride, strict=True)):
            if not smallest - step < size < smallest + step:
                bounds = f"dim {d} must be between {smallest - step} and {smallest + step}"
                raise ValueError(f'invalid output_size "{list(sizes)}" ({bounds})')
    if min(sizes) < 0:
        raise ValueError(f"max_unpooling: output_size must contain non-negative spatial dimensions, got {sizes}")
    return sizes


def _check(name: str, input: Any, indices: Any, rank: int, plane: Shape) -> None:
    shape = tuple(input.shape)
    if not isinstance(indices, Tensor) or indices.array.dtype != np.int64:
        got = getattr(indices, "dtype", type(indices).__name__)
        raise refusal(RuntimeError, f"{name}: elements in indices should be type int64 but got: {got}")
    expect(
        len(shape) in (rank + 1, rank + 2),
        f"Input to {name} should be a {rank + 1}d or {rank + 2}d Tensor, but got a tensor with {len(shape)} dimensions",
    )
    if tuple(indices.shape) != shape:
        what = f"Expected shape of indices to be same as that of the input tensor ({list(shape)})"
        raise refusal(RuntimeError, f"{name}: {what} but got indices tensor with shape: {list(indices.shape)}")
    what = "Expected input to have non-zero size for non-batch dimensions"
    expect(0 not in shape[1:], f"{name}: {what}, but got {list(shape)}")
    array, size = indices.array, math.prod(plane)
    if type(array) is ndarray and array.size and not (array.min() >= 0 and array.max() < size):
        bad = next(int(i) for i in array.reshape(-1) if not 0 <= i < size)
        raise refusal(RuntimeError, f"{name}: Found an invalid max index: {bad} (output volumes are of size {plane})")


def _max_unpool(rank: int) -> Any:
    def max_unpool(
        input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
    ) -> Any:
        kernel = numbers(name, "kernel_size", kernel_size, rank)
        strides = kernel if stride is None else numbers(name, "stride", stride, rank)
        plane = _plane(input, kernel, strides, numbers(name, "padding", padding, rank), output_size)
        _check(name, input, indices, rank, plane)
        expect(min(strides) > 0, f"{name}: strides should be greater than zero, but got stride: {list(strides)}")
        return ROWS[rank](input, indices, plane)

    def samples(draw: Draw) -> list[Sample]:
        shape, ones = (3, 2, 2)[:rank], (1,) * rank
        size = math.prod(shape)
        places = np.stack([draw.random.permutation(size * 2**rank)[:size] for _ in range(2)])
        index = wrap(places.reshape(2, *shape))
        return [
            call(draw(2, *shape), index, 2), call(draw(1, 2, *shape), wrap(index.array[None]), (2,) * rank, 2),
            call(draw(1, *ones), wrap(np.zeros((1, *ones), np.int64)), 3, stride=2, output_size=(4,) * rank),
            call(draw(1, 1, *ones), wrap(np.zeros((1, 1, *ones), np.int64)), 4, padding=1),
            call(draw(2, *shape), index, kernel_size=2, output_size=tuple(2 * n + 1 for n in shape)),
        ]  # fmt: skip

    name = f"max_unpool{rank}d"
    return publish(named(max_unpool, name), module=F, samples=samples, tensors=2, doc=_doc(name, rank))


def _doc(name: str, rank: int) -> str:
    shape = ", ".join(["1"] * rank)
    values, index = {1: ("[[5.0, 7.0]]", "[[1, 3]]")}.get(rank, (f"5.0).reshape(1, {shape}", f"1).reshape(1, {shape}"))
    shown = {
        1: "[[0., 5., 0., 7.]]",
        2: "[[[0., 5.],\n             [0., 0.]]]",
        3: "[[[[0., 5.],\n              [0., 0.]],\n    <BLANKLINE>\n             [[0., 0.],\n"
        "              [0., 0.]]]]",
    }[rank]
    return f"""Put elements to where max pooling over the last {rank} dimensions took them from; zeros elsewhere.

    >>> import pellucid as torch
    >>> torch.nn.functional.{name}(torch.tensor({values}), torch.tensor({index}), 2)
    tensor({shown})
    """


max_unpool1d, max_unpool2d, max_unpool3d = (_max_unpool(rank) for rank in (1, 2, 3))
