"""Histograms of one variable or several: how many points (or how much weight) fall into each bin."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid import return_types
from pellucid.core.attributes import concrete
from pellucid.core.tensor import Tensor, wrap
from pellucid.ops.arguments import expect, name_of, number, refusal
from pellucid.ops.create import check_room
from pellucid.ops.operation import READS_VALUES, call, operation
from pellucid.ops.ranges import linspace
from pellucid.ops.search import underived


@operation(
    samples=lambda draw: [
        call(draw(8).detach(), 4), call(draw(2, 3).detach(), 3, range=(-1.0, 1.5)),
        call(draw(6).detach(), wrap(np.array([-2.0, -0.3, 0.1, 2.0]))),
        call(draw(6).detach(), 3, weight=draw(6, low=0.5, high=1.0).detach()), call(draw(5).detach(), 4, density=True),
        call(draw(0).detach(), 2), call(draw().detach(), 2),
    ],
    unclaimed=READS_VALUES,
)  # fmt: skip
def histogram(input: Any, bins: Any = 100, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    """How many elements fall into each bin, and the edges of the bins: so many of equal width, or at given edges.

    >>> import pellucid as torch
    >>> torch.histogram(torch.tensor([1.0, 2.0, 1.0]), 2, range=(0.0, 3.0)).hist
    tensor([2., 1.])
    """
    bins = number(bins)
    if isinstance(bins, bool) or not isinstance(bins, (int, Tensor)):
        raise refusal(TypeError, f"histogram(): argument 'bins' must be int or Tensor, not {type(bins).__name__}")
    points = _points(input, "histogram()").reshape(-1, 1)
    weights = None if weight is None else concrete(weight, "histogram()")
    if weights is not None:
        _check_weight(points, weights, input.shape)
    edges = _edges(points, [bins], range)
    counts = underived("histogram", [input, weight], _counts(points, edges, weights, density))
    return return_types.histogram(counts, wrap(edges[0]))


@operation(
    samples=lambda draw: [
        call(draw(6, 2).detach(), [2, 3]), call(draw(2, 4, 3).detach(), 2),
        call(draw(6, 2).detach(), [wrap(np.array([-2.0, 0.1, 2.0])), wrap(np.array([-1.0, 1.0]))]),
        call(draw(6, 2).detach(), [2, 2], range=[-1.0, 1.0, -2.0, 2.0], density=True),
        call(draw(5, 2).detach(), (2, 2), weight=draw(5, low=0.5, high=1.0).detach()),
        call(draw(0, 2).detach(), [2, 1]),
    ],
    methods=(), unclaimed={**READS_VALUES, "out_form_agrees": "its second result is a tuple: PyTorch's has no out="},
)  # fmt: skip
def histogramdd(input: Any, bins: Any, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    """How many points (rows) fall into each cell of a grid, and the edges of the grid along each variable.

    >>> import pellucid as torch
    >>> torch.histogramdd(torch.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]), [2, 2]).hist
    tensor([[0., 1.],
            [1., 1.]])
    """
    expect(input.ndim >= 2, "torch.histogramdd: input tensor should have at least 2 dimensions")
    count = input.shape[-1]
    bins = number(bins)
    wanted = [bins] * count if isinstance(bins, int) else list(bins)
    what = "histogramdd: The size of bins must be equal to the innermost dimension of the input."
    expect(len(wanted) == count, what)
    if any(isinstance(b, Tensor) for b in wanted) and not all(isinstance(b, Tensor) for b in wanted):
        raise refusal(TypeError, "histogramdd(): bins are either all numbers or all tensors of edges")
    points = _points(input, "histogramdd()")
    weights = None if weight is None else concrete(weight, "histogramdd()")
    if weights is not None:
        _check_weight(points, weights, input.shape[:-1])
    flat = points.reshape(-1, count)
    edges = _edges(flat, wanted, range)
    return return_types.histogramdd(wrap(_counts(flat, edges, weights, density)), tuple(wrap(e) for e in edges))


def _points(input: Any, what: str) -> ndarray:
    if input.array.dtype.kind != "f" or input.array.dtype.itemsize < 4:
        raise refusal(NotImplementedError, f"\"histogramdd\" not implemented for '{name_of(input)}'", try_="x.float()")
    return concrete(input, what)


def _check_weight(points: ndarray, weights: ndarray, shape: Sequence[int]) -> None:
    what = "torch.histogramdd: if weight tensor is provided"
    expect(weights.dtype == points.dtype, f"{what}, input tensor and weight tensor should have the same dtype")
    expect(
        weights.shape == tuple(shape),
        f"{what} it should have the same shape as the input tensor excluding its innermost dimension, but got "
        f"{list(weights.shape)}, expected {list(shape)}",
    )


# --- edges


def _edges(points: ndarray, bins: list[Any], range: Any) -> list[ndarray]:
    """The edges along each variable, given or equally spaced from the smallest to the largest value."""
    count = len(bins)
    if range is not None:
        what = f"torch.histogramdd: for a {count}-dimensional histogram range should have {2 * count} elements"
        expect(len(range) == 2 * count, f"{what}, but got {len(range)}")
        if any(isinstance(b, Tensor) for b in bins):
            raise refusal(TypeError, "histogram(): a range goes with a number of bins, not with their edges")
    found = []
    for i, wanted in enumerate(bins):
        if isinstance(wanted, Tensor):
            found.append(_given(wanted, points.dtype, i))
        else:
            bounds = _bounds(points[:, i]) if range is None else (float(range[2 * i]), float(range[2 * i + 1]))
            found.append(_spaced(wanted, *bounds, points.dtype, i))
    return found


def _given(edges: Tensor, dtype: np.dtype, i: int) -> ndarray:
    values = concrete(edges, "histogram()")
    expect(values.ndim == 1, f"torch.histogramdd: bins tensor should have one dimension, but got {values.ndim}")
    expect(values.size > 0, "torch.histogramdd: bins tensor should have at least 1 element")
    expect(values.dtype == dtype, "torch.histogramdd: input tensor and bins tensors should have the same dtype")
    expect(values.size > 1, f"torch.histogram(): bins must be > 0, but got 0 for dimension {i}")
    return values


def _bounds(values: ndarray) -> tuple[float, float]:
    if not values.size:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    return low, high


def _spaced(bins: int, low: float, high: float, dtype: np.dtype, i: int) -> ndarray:
    expect(bins > 0, f"torch.histogram(): bins must be > 0, but got {bins} for dimension {i}")
    check_room("histogram", (bins + 1,), dtype)
    finite = bool(np.isfinite(low) and np.isfinite(high))
    expect(finite, f"torch.histogramdd: dimension {i}'s range [{low}, {high}] is not finite")
    what = f"torch.histogramdd: min should not exceed max, but got min {low} max {high} for dimension {i}"
    expect(low <= high, what)
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.asarray(linspace(low, high, bins + 1, dtype=wrap(np.empty(0, dtype)).dtype).array)  # type: ignore[attr-defined]


# --- counts


def _counts(points: ndarray, edges: list[ndarray], weights: ndarray | None, density: bool) -> ndarray:
    shape = tuple(e.size - 1 for e in edges)
    check_room("histogram", shape, points.dtype)
    inside = np.ones(len(points), bool)
    place = np.zeros(len(points), np.int64)
    for i, e in enumerate(edges):
        values = points[:, i]
        inside &= (values >= e[0]) & (values <= e[-1])
        place = place * shape[i] + np.clip(_before(e, values) - 1, 0, shape[i] - 1)  # the last edge belongs to its bin
    heavy = None if weights is None else weights.reshape(-1)[inside]
    counts = np.bincount(place[inside], heavy, int(np.prod(shape))).reshape(shape).astype(points.dtype)
    if density:
        counts = counts / np.add.reduce(counts, None)
        for i, e in enumerate(edges):
            counts = counts / np.diff(e).reshape(-1, *(1,) * (len(shape) - 1 - i))
    return counts


def _before(edges: ndarray, values: ndarray) -> ndarray:
    """How many edges are not above each value, by halving: PyTorch's answer also for edges that are not sorted."""
    low, size = np.zeros(values.size, np.int64), np.full(values.size, edges.size)
    while (searching := size > 0).any():
        half = size >> 1
        middle = low + half
        above = values < edges[np.minimum(middle, edges.size - 1)]
        low = np.where(searching & ~above, middle + 1, low)
        size = np.where(above, half, size - half - 1) * searching
    return low
