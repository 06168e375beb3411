"""Adaptive pooling: the size of the result is given, and windows as even as can be cover the input.

They overlap where the sizes do not divide. Averages are separable maps; the largest elements are picked by an index.
"""

from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core.flags import Truth
from pellucid.ops.along import bare
from pellucid.ops.arguments import Shape, expect
from pellucid.ops.nn.pooling import F, example, refuse_kinds
from pellucid.ops.nn.separable import Map, kind_of_map, separable
from pellucid.ops.nn.windows import Windows, numbers, uneven_edges, uneven_places
from pellucid.ops.nn.winners import picking, uneven_index_row, window_index_row
from pellucid.ops.operation import Draw, Sample, call, named, publish
from pellucid.ops.reduce import mean


def _sizes(name: str, input: Any, rank: int, output_size: Any) -> Shape:
    """The sizes of the result; None keeps the input's."""
    shape = tuple(input.shape)
    if isinstance(output_size, (tuple, list)) and rank > 1:
        if len(shape) <= len(output_size):
            raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
        kept = shape[len(shape) - len(output_size) :]
        output_size = [n if m is None else m for m, n in zip(output_size, kept, strict=True)]
    expect(len(shape) in (rank + 1, rank + 2), f"{name}: Expected {rank + 1}D or {rank + 2}D tensor, got {list(shape)}")
    what = "Expected input to have non-zero size for non-batch dimensions"
    expect(0 not in shape[len(shape) - rank :], f"{name}: {what}, but input has sizes {list(shape)}")
    sizes = numbers(name, "output_size", output_size, rank)
    expect(min(sizes) >= 0, f"{name}: elements of output_size must be greater than or equal to 0 but received {sizes}")
    return sizes


def _samples(rank: int, count: int = 6) -> Any:
    shape = (5, 6, 4)[:rank]
    mixed = (3,) if rank == 1 else (None, 2, 4)[:rank]

    def samples(draw: Draw) -> list[Sample]:
        return [
            call(draw(2, 1, *shape), 2), call(draw(2, *shape), 3), call(draw(1, 2, *shape), 1),
            call(draw(1, *shape), mixed), call(draw(0, 2, *shape), 2), call(draw(1, *shape), 7 if rank == 1 else 5),
        ][:count]  # fmt: skip

    return samples


# --- averages


@kind_of_map("average")
def _average(n: int, m: int) -> tuple[ndarray, ndarray]:
    start, end = uneven_edges(n, m)
    places = uneven_places(n, m)
    within = start + np.arange(len(places))[:, None] < end
    return np.where(within, places, n), within / (end - start)


AVERAGES = {
    1: separable("adaptive_avg_pool1d", "SqueezeBackward1"),
    2: separable("adaptive_avg_pool2d", "AdaptiveAvgPool2DBackward0"),
    3: separable("adaptive_avg_pool3d", "AdaptiveAvgPool3DBackward0"),
}


def _averaged(rank: int, input: Any, output_size: Any) -> Any:
    name = f"adaptive_avg_pool{rank}d"
    sizes = _sizes(name, input, rank, output_size)
    refuse_kinds(name, input, "biuc")
    if set(sizes) == {1}:
        return mean(input, tuple(range(-rank, 0)), keepdim=True)
    plane = tuple(input.shape)[input.ndim - rank :]
    return AVERAGES[rank](input, tuple(Map("average", n, m) for n, m in zip(plane, sizes, strict=True)))


def _adaptive_avg_pool(rank: int) -> Any:
    def adaptive_avg_pool(input: Any, output_size: Any) -> Any:
        return _averaged(rank, input, output_size)

    name = f"adaptive_avg_pool{rank}d"
    return publish(
        named(adaptive_avg_pool, name), module=F, samples=_samples(rank),
        aliases=(f"torch.{name}",) if rank == 1 else (),
        doc=f"The averages of windows that cover the last {rank} dimensions, as many as the result is to have."
        + _example(name, rank, {1: "1.5000", 2: "1.5000", 3: "3.5000"}[rank]),
    )  # fmt: skip


def _example(name: str, rank: int, shown: str) -> str:
    """An example that pools everything to one number (there the adaptive functions are most used)."""
    text = example(name, rank, f"tensor({'[' * (rank + 1)}{shown}{']' * (rank + 1)})")
    return text.replace(", 2)\n", ", 1)\n")


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (_adaptive_avg_pool(rank) for rank in (1, 2, 3))


# --- the largest elements

LARGEST = {
    1: picking("adaptive_max_pool1d", "SqueezeBackward1"),
    2: picking("adaptive_max_pool2d", "AdaptiveMaxPool2DBackward0"),
    3: picking("adaptive_max_pool3d", "AdaptiveMaxPool3DBackward0"),
}


def _largest(rank: int, input: Any, output_size: Any) -> tuple[Any, Any]:
    name = f"adaptive_max_pool{rank}d"
    sizes = _sizes(name, input, rank, output_size)
    expect(input.shape[-rank - 1] > 0, f"{name}: Expected input to have non-zero size for non-batch dimensions")
    refuse_kinds(name, input, "biuc")
    plane = tuple(input.shape)[input.ndim - rank :]
    if all(m and n % m == 0 for n, m in zip(plane, sizes, strict=True)):
        kernel = tuple(n // m for n, m in zip(plane, sizes, strict=True))
        index = window_index_row(bare(input), Windows(kernel, kernel, (0,) * rank, (1,) * rank, sizes))
    else:
        index = uneven_index_row(bare(input), sizes)
    return LARGEST[rank](input, index, rank), index


def _adaptive_max_pool(rank: int) -> Any:
    def adaptive_max_pool(input: Any, output_size: Any, return_indices: Truth = False) -> Any:
        values, index = _largest(rank, input, output_size)
        return (values, index) if return_indices else values

    name = f"adaptive_max_pool{rank}d"
    return publish(
        named(adaptive_max_pool, name), module=F, samples=_samples(rank),
        doc=f"The largest elements of windows that cover the last {rank} dimensions, as many as the result is to have."
        + _example(name, rank, {1: "3.", 2: "3.", 3: "7."}[rank]),
    )  # fmt: skip


def _adaptive_max_pool_with_indices(rank: int) -> Any:
    def adaptive_max_pool_with_indices(input: Any, output_size: Any, return_indices: Truth = False) -> Any:
        return _largest(rank, input, output_size)

    name = f"adaptive_max_pool{rank}d_with_indices"
    shown = {1: ("3.", 1), 2: ("3.", 3), 3: ("7.", 7)}[rank]
    values, index = (f"{'[' * (rank + 1)}{number}{']' * (rank + 1)}" for number in shown)
    text = example(name, rank, f"(tensor({values}), tensor({index}))").replace(", 2)\n", ", 1)\n")
    return publish(
        named(adaptive_max_pool_with_indices, name), module=F, samples=_samples(rank, 3),
        aliases=("torch.adaptive_max_pool1d",) if rank == 1 else (),
        doc=f"The largest elements of windows that cover the last {rank} dimensions, and where each lies in its plane."
        + text,
    )  # fmt: skip


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (_adaptive_max_pool(rank) for rank in (1, 2, 3))
adaptive_max_pool1d_with_indices, adaptive_max_pool2d_with_indices, adaptive_max_pool3d_with_indices = (
    _adaptive_max_pool_with_indices(rank) for rank in (1, 2, 3)
)
