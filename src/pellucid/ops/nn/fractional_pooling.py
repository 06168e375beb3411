"""Fractional max pooling: windows of one size at random steps, so that the result has any size wanted.

Each plane draws one number per dimension; it decides where the windows begin, as in PyTorch bit for bit.
"""

import itertools
import math
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core.flags import Truth
from pellucid.core.primitive import constant
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor
from pellucid.ops.along import bare
from pellucid.ops.arguments import Shape, expect, refusal
from pellucid.ops.nn.pooling import F, refuse_kinds
from pellucid.ops.nn.windows import numbers
from pellucid.ops.nn.winners import has_nan, pick, picking
from pellucid.ops.operation import Draw, Sample, call, named, publish
from pellucid.ops.random import rand
from pellucid.ops.shape import reshape


def _starts(sample: ndarray, size: int, kernel: int, count: int) -> ndarray:
    """Where the windows of every plane begin along a dimension: (planes, count); the last one touches the end."""
    if count <= 1:
        return np.full((sample.size, count), size - kernel)
    one = sample.dtype.type
    alpha = one(size - kernel) / one(count - 1)
    column = sample.reshape(-1, 1)
    steps = ((np.arange(count).astype(sample.dtype) + column) * alpha).astype(np.int64)
    steps -= (column * alpha).astype(np.int64)
    steps[:, -1] = size - kernel
    return steps


def _index(a: ndarray, samples: ndarray, kernel: Shape, sizes: Shape) -> ndarray:
    """The index of the largest element in each window."""
    rank = len(kernel)
    lead, plane = a.shape[: a.ndim - rank], a.shape[a.ndim - rank :]
    draws = samples.reshape(-1, rank)
    order = (1, 0) if rank == 2 else (0, 1, 2)  # PyTorch draws the width first in two dimensions, the depth in three
    begin = np.zeros((math.prod(lead), *(1,) * rank), np.int64)
    for axis in range(rank):
        starts = _starts(draws[:, order[axis]], plane[axis], kernel[axis], sizes[axis])
        along = [len(starts), *(sizes[axis] if i == axis else 1 for i in range(rank))]
        begin = begin + starts.reshape(along) * math.prod(plane[axis + 1 :])
    return _largest(a, begin.reshape(*lead, *sizes), kernel, plane)


def _largest(a: ndarray, begin: ndarray, kernel: Shape, plane: Shape) -> ndarray:
    a = a.astype(np.float32) if a.dtype.itemsize == 2 else a
    careful = has_nan(a)
    best, index = None, begin
    for position in itertools.product(*map(range, kernel)):
        number = begin + sum(k * math.prod(plane[i + 1 :]) for i, k in enumerate(position))
        value = pick(a, number, len(plane))
        if best is None:
            best = value
            continue
        wins = value > best
        if careful:
            wins |= value != value
        best, index = np.maximum(best, value), np.maximum(index, wins * number)
    return index


fractional_index_row = bind(
    constant("fractional_index", _index, 2, batch=lambda op, a, samples, kernel, sizes: op(a, samples, kernel, sizes))
)
ROWS = {
    2: picking("fractional_max_pool2d", "FractionalMaxPool2DBackward0"),
    3: picking("fractional_max_pool3d", "FractionalMaxPool3DBackward0"),
}


def _entire(name: str, what: str, value: Any, rank: int) -> Shape:
    """A number per dimension: one int for all, or exactly `rank` of them; a sequence of one is not enough here."""
    given = numbers(name, what, value, rank)
    if isinstance(value, (tuple, list)) and len(value) != rank:
        raise refusal(RuntimeError, f"{name}: {what} must either be a single int, or a tuple of {rank} ints")
    return given


def _sizes(name: str, input: Any, rank: int, output_size: Any, output_ratio: Any) -> Shape:
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if output_size is not None:
        return _entire(name, "output_size", output_size, rank)
    ratio = tuple(output_ratio) if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * rank
    if len(ratio) != rank:
        raise ValueError(f"{name} requires output_ratio to either be a single number or {rank} numbers")
    return tuple(int(n * r) for n, r in zip(tuple(input.shape)[input.ndim - rank :], ratio, strict=True))


def _samples_of(name: str, input: Any, rank: int, samples: Any) -> Any:
    """The random numbers, one per plane and dimension: given, or drawn now."""
    planes = tuple(input.shape)[: input.ndim - rank]
    wanted = (1 if len(planes) == 1 else planes[0], planes[-1], rank)
    if samples is None:
        samples = rand(*wanted, dtype=input.dtype)
    if not isinstance(samples, Tensor) or samples.dtype != input.dtype:
        raise refusal(RuntimeError, f"{name}: Expect _random_samples to have the same dtype as input")
    shape = tuple(samples.shape)
    if len(shape) != 3 or shape[1:] != wanted[1:] or shape[0] < wanted[0]:
        raise refusal(RuntimeError, f"{name}: Expect _random_samples of size {wanted}, got {shape}")
    first: Any = bare(samples)
    return reshape(first[: wanted[0]], (*planes, rank))


def _pooled(rank: int, input: Any, kernel_size: Any, output_size: Any, output_ratio: Any, samples: Any) -> Any:
    name = f"fractional_max_pool{rank}d"
    sizes = _sizes(name, input, rank, output_size, output_ratio)
    kernel = _entire(name, "kernel_size", kernel_size, rank)
    expect(min(kernel) > 0, f"{name}: kernel_size should be greater than zero, got {list(kernel)}")
    shape = tuple(input.shape)
    fits = len(shape) in (rank + 1, rank + 2) and 0 not in shape[1:]
    expect(fits, f"{name}: Expected {rank + 1}D or {rank + 2}D tensor with non-empty planes, but got: {list(shape)}")
    expect(min(sizes) >= 0, f"{name}: output_size should not be negative, got {list(sizes)}")
    spare = 1 if rank == 3 else 0  # in three dimensions PyTorch wants one more
    for size, k, count in zip(shape[len(shape) - rank :], kernel, sizes, strict=True):
        fits = count + k - 1 + spare <= size
        expect(fits, f"{name}: pool size {k} too large relative to input size {size} for an output size of {count}")
    refuse_kinds(name, input, "biuc")
    index = fractional_index_row(bare(input), _samples_of(name, input, rank, samples), kernel, sizes)
    return ROWS[rank](input, index, rank), index


DRAWS = {
    "capture_replays": "a captured program draws anew at every call",
    "single_precision_is_kept": "float32 draws other windows than float64",
}


def _samples(rank: int) -> Any:
    shape = (5, 6, 5)[:rank]

    def samples(draw: Draw) -> list[Sample]:
        return [
            call(draw(2, 1, *shape), 2, output_size=3), call(draw(2, *shape), (2,) * rank, (2, 4, 3)[:rank]),
            call(draw(1, 2, *shape), 2, output_ratio=(0.5,) * rank), call(draw(1, *shape), 3, 1),
            call(draw(2, *shape), 2, 3, _random_samples=draw(1, 2, rank, low=0.0, high=1.0).detach()),
            call(draw(2, *shape), 2, 3, _random_samples=draw(3, 2, rank, low=0.0, high=1.0).detach()),
        ]  # fmt: skip

    return samples


def _fractional_max_pool(rank: int) -> Any:
    def fractional_max_pool(
        input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: Truth = False,
        _random_samples: Any = None,
    ) -> Any:  # fmt: skip
        pooled = _pooled(rank, input, kernel_size, output_size, output_ratio, _random_samples)
        return pooled if return_indices else pooled[0]

    name = f"fractional_max_pool{rank}d"
    return publish(
        named(fractional_max_pool, name), module=F, samples=_samples(rank), unclaimed=DRAWS,
        doc=f"""The largest elements of windows at random steps over the last {rank} dimensions, as many as wanted.

    >>> import pellucid as torch
    >>> picture = torch.ones(1{", 9" * rank})
    >>> torch.nn.functional.{name}(picture, 2, output_ratio=(0.5{", 0.5" * (rank - 1)})).shape
    torch.Size([1{', 4' * rank}])
    """,
    )  # fmt: skip


def _fractional_max_pool_with_indices(rank: int) -> Any:
    def fractional_max_pool_with_indices(
        input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: Truth = False,
        _random_samples: Any = None,
    ) -> Any:  # fmt: skip
        return _pooled(rank, input, kernel_size, output_size, output_ratio, _random_samples)

    name = f"fractional_max_pool{rank}d_with_indices"
    return publish(
        named(fractional_max_pool_with_indices, name), module=F, samples=_samples(rank),
        unclaimed=DRAWS,
        doc=f"""Like fractional_max_pool{rank}d, with the number of each element in its plane.

    >>> import pellucid as torch
    >>> picture = torch.arange({3**rank}.0).reshape(1{", 3" * rank})
    >>> values, index = torch.nn.functional.{name}(picture, 2, 1)
    >>> index.item()
    {3**rank - 1}
    """,
    )  # fmt: skip


fractional_max_pool2d, fractional_max_pool3d = _fractional_max_pool(2), _fractional_max_pool(3)
fractional_max_pool2d_with_indices, fractional_max_pool3d_with_indices = (
    _fractional_max_pool_with_indices(rank) for rank in (2, 3)
)
