"""Average pooling and what is made of it: power means (lp_pool) and local response normalisation.

The sum over a window is the sum over its rows of the sums over its columns, so one dimension is done after the other,
each as a few additions of strided views. Its adjoint writes (or adds) to the same views.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core.primitive import multilinear
from pellucid.core.record import bind
from pellucid.ops.arguments import Shape, expect
from pellucid.ops.formats import in_format, in_order
from pellucid.ops.nn.padding import pad
from pellucid.ops.nn.pooling import F, example, max_pool1d, max_pool2d, max_pool3d, refuse_kinds
from pellucid.ops.nn.windows import Windows, last, numbers, windows_of
from pellucid.ops.operation import Draw, Sample, call, named, operation, publish
from pellucid.ops.select import relu
from pellucid.ops.shape import reshape


def _sums(a: ndarray, windows: Windows) -> ndarray:
    """The sum over every window; the first dimension first, as it leaves long rows for the next."""
    for axis in range(-windows.rank, 0):
        a = _sums_along(a, windows, axis)
    return a


def _sums_along(a: ndarray, windows: Windows, axis: int) -> ndarray:
    size, count = a.shape[axis], windows.sizes[axis]
    tail = (slice(None),) * (-axis - 1)
    parts = [windows.part(axis, position, size) for position in range(windows.kernel[axis])]
    total: Any = None
    if all(target == slice(0, count) for target, _ in parts[:2]):  # no padding: begin without zeros
        views = [a[last(source, *tail)] for _, source in parts[:2]]
        total, parts = views[0] + views[1] if len(views) > 1 else views[0].copy(), parts[2:]
    else:
        total = np.zeros((*a.shape[:axis], count, *a.shape[a.ndim + axis + 1 :]), a.dtype)
    for target, source in parts:
        total[last(target, *tail)] += a[last(source, *tail)]
    return total


def _unsums(g: ndarray, windows: Windows, plane: Shape) -> ndarray:
    """The adjoint: every element of the gradient added to all places of its window."""
    for axis in range(-1, -windows.rank - 1, -1):
        g = _unsums_along(g, windows, axis, plane[axis])
    return g


def _unsums_along(g: ndarray, windows: Windows, axis: int, size: int) -> ndarray:
    tail = (slice(None),) * (-axis - 1)
    shape = (*g.shape[:axis], size, *g.shape[g.ndim + axis + 1 :])
    kernel, stride = windows.kernel[axis], windows.stride[axis]
    parts = [windows.part(axis, position, size) for position in range(kernel)]
    apart = kernel <= stride  # no two windows meet: write instead of adding
    full = kernel == stride and sum(target.stop - target.start for target, _ in parts) == size
    out = np.empty(shape, g.dtype) if full else np.zeros(shape, g.dtype)
    for target, source in parts:
        if apart:
            out[last(source, *tail)] = g[last(target, *tail)]
        else:
            out[last(source, *tail)] += g[last(target, *tail)]
    return out


@lru_cache(maxsize=256)
def _divisors(windows: Windows, plane: Shape, count_include_pad: bool, override: int | None) -> Any:
    """By how much each sum is divided: one number, or one per window where windows reach over the edge."""
    if override is not None:
        return override
    total: Any = np.ones((1,) * windows.rank, np.int64)
    for axis, size in enumerate(plane):
        padding = windows.padding[axis] if count_include_pad else 0
        start = np.arange(windows.sizes[axis]) * windows.stride[axis] - windows.padding[axis]
        end = np.minimum(start + windows.kernel[axis], size + padding)
        length = end - np.maximum(start, -padding)
        total = total * length.reshape(-1, *(1,) * (windows.rank - 1 - axis))
    return int(total.flat[0]) if (total == total.flat[0]).all() else total


def _averages(a: ndarray, windows: Windows, count_include_pad: bool, override: int | None) -> ndarray:
    total = _sums(a, windows)
    divisor = _divisors(windows, a.shape[a.ndim - windows.rank :], count_include_pad, override)
    if total.dtype.kind in "iu":
        return np.asarray(np.trunc(total / divisor)).astype(total.dtype)
    return np.divide(total, _like(divisor, total), out=total)


def _unaverages(g: ndarray, windows: Windows, count_include_pad: bool, override: int | None, plane: Shape) -> ndarray:
    divisor = _divisors(windows, plane, count_include_pad, override)
    return _unsums(g / _like(divisor, g), windows, plane)


def _like(divisor: Any, a: ndarray) -> Any:
    return divisor.astype(a.dtype) if isinstance(divisor, ndarray) else divisor


def _row(name: str, grad_name: str) -> Any:
    return bind(
        multilinear(
            name, in_format(_averages) if name == "avg_pool2d" else in_order(_averages),
            lambda g, a_shape, windows, padded, override: back_row(
                g, windows, padded, override, tuple(a_shape[len(a_shape) - windows.rank :])
            ),
            grad_name=grad_name, dtypes="equal", batch=lambda op, a, *how: op(a, *how),
        )
    )  # fmt: skip


ROWS = {
    1: _row("avg_pool1d", "SqueezeBackward1"),
    2: _row("avg_pool2d", "AvgPool2DBackward0"),
    3: _row("avg_pool3d", "AvgPool3DBackward0"),
}
back_row = bind(
    multilinear(
        "avg_pool_backward", _unaverages,
        lambda g, windows, padded, override, plane: ROWS[windows.rank](g, windows, padded, override),
        dtypes="equal", batch=lambda op, g, *how: op(g, *how),
    )
)  # fmt: skip


def _averaged(
    rank: int, input: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None = None,
) -> Any:  # fmt: skip
    name = f"avg_pool{rank}d"
    windows = windows_of(name, input, rank, kernel_size, stride, padding, 1, ceil_mode)
    expect(divisor_override != 0, f"{name}: divisor must be not zero")
    if rank == 3:
        fits = all(n >= k for n, k in zip(input.shape[-3:], windows.kernel, strict=True))
        expect(fits, f"{name}: input image {list(input.shape[-3:])} smaller than kernel size {list(windows.kernel)}")
    refuse_kinds(name, input, "bc" if input.dtype.itemsize == 8 else "biuc")
    return ROWS[rank](input, windows, bool(count_include_pad), divisor_override)


# --- the public functions


def _samples(rank: int) -> Any:
    shape, long = (5, 6, 4)[:rank], (9,) if rank == 1 else (5,) * rank

    def samples(draw: Draw) -> list[Sample]:
        plain = [
            call(draw(2, 1, *shape), 2), call(draw(2, *shape), 3, 2, 1), call(draw(1, 2, *shape), 2, 1),
            call(draw(1, *long), 3, stride=2, ceil_mode=True),
            call(draw(1, *long), 3, 2, padding=1, ceil_mode=True, count_include_pad=False), call(draw(0, 2, *shape), 2),
            call(draw(1, *long), [2], [3]),
        ]  # fmt: skip
        return plain if rank == 1 else [*plain, call(draw(1, *long), 2, divisor_override=3)]

    return samples


AVERAGES = {1: "2., 1.", 2: "1.5000", 3: "3.5000"}


def _published(function: Any, rank: int, aliases: tuple[str, ...] = ()) -> Any:
    name = f"avg_pool{rank}d"
    shown = f"tensor({'[' * (rank + 1)}{AVERAGES[rank]}{']' * (rank + 1)})"
    return publish(
        named(function, name), module=F, aliases=aliases, samples=_samples(rank), out="exact" if rank > 1 else None,
        doc=f"The average of every window over the last {rank} dimensions." + example(name, rank, shown),
    )  # fmt: skip


def _avg_pool1d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:  # fmt: skip
    return _averaged(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad)


def _avg_pool(rank: int) -> Any:
    def avg_pool(
        input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> Any:  # fmt: skip
        return _averaged(rank, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)

    return _published(avg_pool, rank)


avg_pool1d = _published(_avg_pool1d, 1, ("torch.avg_pool1d",))
avg_pool2d, avg_pool3d = _avg_pool(2), _avg_pool(3)


# --- power means

AVERAGE = {1: avg_pool1d, 2: avg_pool2d, 3: avg_pool3d}
LARGEST = {1: max_pool1d, 2: max_pool2d, 3: max_pool3d}
POWERS = {1: "3.1623, 2.0000", 2: "3.7417", 3: "11.8322"}


def _lp_pool(rank: int) -> Any:
    def lp_pool(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
        if norm_type == math.inf:
            return LARGEST[rank](input.abs(), kernel_size, stride, 0, 1, ceil_mode)
        if norm_type == -math.inf:
            return -LARGEST[rank](-input.abs(), kernel_size, stride, 0, 1, ceil_mode)
        mean = AVERAGE[rank](input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
        count = math.prod(numbers(name, "kernel_size", kernel_size, rank))
        return (mean.sign() * relu(mean.abs())).mul(count).pow(1.0 / norm_type)

    def samples(draw: Draw) -> list[Sample]:
        shape = (5, 6, 4)[:rank]
        return [
            call(draw(2, 1, *shape), 2, 2), call(draw(2, *shape), 3.0, 2, 1), call(draw(1, *shape), math.inf, 2),
            call(draw(1, *shape), 2, 3, ceil_mode=True), call(draw(1, *shape), -math.inf, 2),
            call(draw(2, *shape), 1.5, 2),
        ]  # fmt: skip

    name = f"lp_pool{rank}d"
    shown = f"tensor({'[' * (rank + 1)}{POWERS[rank]}{']' * (rank + 1)})"
    doc = f"The p-norm of every window over the last {rank} dimensions: (sum of x ** p) ** (1 / p)."
    return publish(
        named(lp_pool, name), module=F, domain=(0.5, 3.0), samples=samples,
        doc=doc + example(name, rank, shown).replace("), 2)", "), 2, 2)"),
    )  # fmt: skip


lp_pool1d, lp_pool2d, lp_pool3d = (_lp_pool(rank) for rank in (1, 2, 3))


# --- local response normalisation


@operation(
    samples=lambda draw: [
        call(draw(2, 4, 3), 2), call(draw(1, 5, 2, 2), 3, 0.5, 0.6, 2.0), call(draw(2, 3, 2, 2, 1), size=1),
        call(draw(1, 3, 2), 4, alpha=0.1), call(draw(0, 3, 2), 2), call(draw(1, 4, 2, 2), 5, beta=1.5),
    ],
    module="torch.nn.functional",
)  # fmt: skip
def local_response_norm(input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Any:
    """Divide every element by a power of the mean square over `size` neighbouring channels.

    >>> import pellucid as torch
    >>> torch.nn.functional.local_response_norm(torch.ones(1, 2, 1), 2, alpha=2.0, beta=1.0)
    tensor([[[0.5000],
             [0.3333]]])
    """
    shape = tuple(input.shape)
    if len(shape) < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {len(shape)} dimensions)")
    if not math.prod(shape):
        return input
    squares = reshape(input.mul(input), (shape[0], 1, shape[1], math.prod(shape[2:])))
    padded = pad(squares, (0, 0, size // 2, (size - 1) // 2))
    means = reshape(avg_pool2d(padded, (size, 1), stride=1), shape)
    return input / means.mul(alpha).add(k).pow(beta)
