"""Unique values, search and counts: results without derivative, often of a size that depends on the values."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid.core import modes
from pellucid.core.attributes import concrete
from pellucid.core.careful import new_node
from pellucid.core.departures import departed
from pellucid.core.function import no_forward
from pellucid.core.primitive import Primitive, constant
from pellucid.core.provenance import here
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor, wrap
from pellucid.core.views import current_node
from pellucid.ops.along import take_along_row
from pellucid.ops.arguments import as_number, axis_of, is_floating, name_of, refusal, refuse, underivable
from pellucid.ops.create import check_room
from pellucid.ops.operation import READS_VALUES, call, operation


def _cut_by(name: str, input: Any, array: np.ndarray) -> Tensor:
    cut = input.cut if input.node is None else departed(name, (input.node,))
    return wrap(array, None, cut)


def underived(name: str, inputs: Sequence[Any], array: np.ndarray, grad_name: str = "NotImplemented") -> Tensor:
    """A result of numbers that depend on inputs in a way without derivative: backward refuses to come through it."""
    parents = tuple(current_node(value) for value in inputs if isinstance(value, Tensor))
    if not modes.is_grad_enabled() or all(parent is None for parent in parents) or array.dtype.kind in "biu":
        return wrap(array)
    row = Primitive(name, no_forward, (), None, pullback=underivable(name), grad_name=grad_name)
    return wrap(array, new_node(row, parents, ((),), tuple(array.shape), here()))


def _chosen(results: list[Any], wanted: tuple[bool, ...]) -> Any:
    kept = [result for result, want in zip(results, wanted, strict=True) if want]
    return kept[0] if len(kept) == 1 else tuple(kept)


@operation(
    samples=lambda draw: [
        call(draw.integers(8)), call(draw.integers(3, 4), return_counts=True), call(draw.integers(8), True, True, True),
        call(draw.integers(6, 2, high=2), dim=0), call(draw.integers(0)), call(draw.integers(2, 6, high=2), dim=1),
        call(draw.integers(6, 2, high=2), return_inverse=True, return_counts=True, dim=0), call(draw.mask(5)),
        call(draw.integers()), call(draw.integers(2, 6).mT, return_inverse=True),
    ], unclaimed=READS_VALUES
)  # fmt: skip
def unique(
    input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The different elements (or slices along a dimension) in order; also where each came from, and how often.

    >>> import pellucid as torch
    >>> torch.tensor([3, 1, 3]).unique()
    tensor([1, 3])
    """
    array = concrete(input, "unique()")
    axis = None if dim is None else axis_of(dim, input.ndim)
    values, inverse, counts = np.unique(array, False, True, True, axis, equal_nan=False)
    inverse = inverse.reshape(array.shape if axis is None else -1)
    named = ("_unique2", "Unique2Backward0") if dim is None else ("unique_dim", "UniqueDimBackward0")
    found = underived(named[0], [input], values, named[1])
    results = [found, *(_cut_by("unique", input, part) for part in (inverse, counts))]
    return _chosen(results, (True, return_inverse, return_counts))


@operation(
    samples=lambda draw: [
        call(draw.integers(8, high=2)), call(draw.integers(8, high=2), True, True), call(draw.integers(2, 4, high=2)),
        call(draw.integers(6, 2, high=2), dim=0), call(draw.integers(0)), call(draw.integers(2, 6, high=2), dim=1),
        call(draw.mask(5)), call(draw.integers()), call(draw.integers(4), return_counts=True),
        call(draw.integers(6, 2, high=2), True, True, 0),
    ], unclaimed=READS_VALUES
)  # fmt: skip
def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The first of every run of equal elements (or slices along a dimension).

    >>> import pellucid as torch
    >>> torch.tensor([1, 1, 2, 2, 1]).unique_consecutive()
    tensor([1, 2, 1])
    """
    array = concrete(input, "unique_consecutive()")
    axis = 0 if dim is None else axis_of(dim, input.ndim)
    lines = array.reshape(-1) if dim is None else np.moveaxis(array, axis, 0)
    fresh = np.ones(len(lines), bool)
    fresh[1:] = (lines[1:] != lines[:-1]).any(tuple(range(1, lines.ndim)))
    inverse: np.ndarray = np.cumsum(fresh) - 1
    values = np.ascontiguousarray(np.moveaxis(lines[fresh], 0, axis))
    counts = np.diff(np.append(np.flatnonzero(fresh), len(lines)))
    inverse = inverse.reshape(array.shape if dim is None else -1)
    name = "unique_consecutive"
    found = underived(name, [input], values, "UniqueConsecutiveBackward0")
    results = [found, *(_cut_by(name, input, part) for part in (inverse, counts))]
    return _chosen(results, (True, return_inverse, return_counts))


def _search(sequence: np.ndarray, values: np.ndarray, side: Any, dtype: np.dtype) -> np.ndarray:
    if sequence.dtype.kind == "V":  # bfloat16, whose comparison does not put NaN last
        sequence, values = sequence.astype(np.float32), values.astype(np.float32)
    if sequence.ndim == 1:
        return sequence.searchsorted(values, side).astype(dtype)
    out = np.empty(values.shape, dtype)
    for line in np.ndindex(sequence.shape[:-1]):
        out[line] = sequence[line].searchsorted(values[line], side)
    return out


searchsorted_row = bind(constant("searchsorted", _search, 2))


@operation(
    samples=lambda draw: [
        call(wrap(np.arange(5.0)), draw(3, low=-1, high=6)), call(wrap(np.arange(5.0)), draw(2, 3), right=True),
        call(wrap(np.arange(5)), draw.integers(4, high=5)), call(wrap(np.arange(5)), 3),
        call(wrap(np.arange(6.0).reshape(2, 3)), draw(2, 4)), call(wrap(np.arange(5.0)), draw(0)),
        call(wrap(np.arange(5.0)), 1.5),
        call(wrap(np.arange(5)), draw.integers(4, high=5), side="right", out_int32=True),
        call(wrap(np.array([3.0, 1.0, 2.0])), draw(3), sorter=wrap(np.array([1, 2, 0]))),
        call(wrap(np.arange(5.0)), draw()), call(wrap(np.zeros(0)), draw(2)),
    ],
    methods=(),
)  # fmt: skip
def searchsorted(
    sorted_sequence: Any,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """Where elements would go in a sorted sequence: before its equals, or (right) behind them.

    >>> import pellucid as torch
    >>> torch.searchsorted(torch.tensor([1, 3, 5]), torch.tensor([3, 6]))
    tensor([1, 3])
    """
    if sorter is not None:
        sorted_sequence = take_along_row(sorted_sequence, sorter, sorted_sequence.ndim - 1)
    values = input if isinstance(input, Tensor) else wrap(np.asarray(input, sorted_sequence.array.dtype))
    sequence, asked = tuple(sorted_sequence.shape), tuple(values.shape)
    if len(sequence) != 1 and sequence[:-1] != asked[:-1]:
        raise refusal(
            RuntimeError,
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
            f"tensor and input value tensor must match, but we got boundaries tensor {list(sequence)} and input value "
            f"tensor {list(asked)}",
        )
    where = side or ("right" if right else "left")
    return searchsorted_row(sorted_sequence, values, where, np.dtype(np.int32 if out_int32 else np.int64))


@operation(
    samples=lambda draw: [
        call(draw(3, low=-1, high=6), wrap(np.arange(5.0))), call(draw(2, 3), wrap(np.arange(5.0)), right=True),
        call(draw.integers(4, high=5), wrap(np.arange(5))), call(3, wrap(np.arange(5))),
        call(draw(0), wrap(np.arange(5.0))), call(draw(), wrap(np.arange(5.0))), call(1.5, wrap(np.arange(5.0))),
        call(draw(2, 3), wrap(np.zeros(0))), call(draw(3, 2).mT, wrap(np.arange(3.0)), out_int32=True),
        call(draw.integers(2, 1, 3, high=5), wrap(np.arange(5)), right=True),
    ],
    methods=(),
)  # fmt: skip
def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """The number of the bucket each element falls into, given the sorted boundaries between buckets.

    >>> import pellucid as torch
    >>> torch.bucketize(torch.tensor([3, 6]), torch.tensor([1, 3, 5]))
    tensor([1, 3])
    """
    if boundaries.ndim != 1:
        what = f"bucketize(): boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})"
        raise refusal(RuntimeError, what)
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


@operation(
    samples=lambda draw: [
        call(draw.integers(8, high=5)), call(draw.integers(8), minlength=6), call(draw.integers(0)),
        call(draw.integers(4), wrap(np.arange(4.0))), call(draw.integers(4), wrap(np.arange(4)), 5),
        call(draw.integers(1)), call(draw.integers(0), minlength=3), call(draw.integers(0), wrap(np.zeros(0))),
        call(draw.integers(6, high=9), minlength=4), call(draw.integers(2, 4)[1]),
    ], unclaimed=READS_VALUES
)  # fmt: skip
def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each number 0, 1, 2 ... occurs; with weights, their sums.

    >>> import pellucid as torch
    >>> torch.tensor([1, 3, 1]).bincount()
    tensor([0, 2, 0, 1])
    """
    if is_floating(input):
        raise refusal(NotImplementedError, f"\"bincount_cpu\" not implemented for '{name_of(input)}'")
    array = concrete(input, "bincount()")
    if array.ndim != 1 or (array.size and array.min() < 0):
        raise refusal(RuntimeError, "bincount only supports 1-d non-negative integral inputs.")
    if minlength < 0:
        raise refusal(RuntimeError, f"minlength should be >= 0, but is {minlength}")
    check_room("bincount", (max(minlength, int(array.max(initial=0)) + 1),), np.dtype(np.int64))
    if weights is None or not array.size:  # PyTorch counts nothing in int64, weights or not
        return wrap(np.bincount(array, None, minlength))
    heavy = concrete(weights, "bincount()")
    if heavy.shape != array.shape:
        raise refusal(RuntimeError, "weights should be 1-d and have the same length as input")
    sums = np.bincount(array, heavy.astype(np.float64), minlength)
    return underived("bincount", [weights], sums.astype(heavy.dtype if heavy.dtype == np.float32 else np.float64))


def _histogram(a: np.ndarray, bins: int, low: float, high: float) -> np.ndarray:
    if low == high and a.size:
        low, high = a.min(), a.max()
    if low == high:
        low, high = low - 1, high + 1
    width = float(high) - float(low)
    if a.size and width < bins * np.finfo(a.dtype).tiny:  # NumPy wants edges that differ
        places = ((a.reshape(-1).astype(np.float64) - low) * bins / (width or 1.0)).astype(np.int64)
        return np.bincount(np.minimum(places, bins - 1), minlength=bins).astype(a.dtype)
    return np.histogram(a, bins, (low, high))[0].astype(a.dtype)


histc_row = bind(constant("histc", _histogram, 1, dtypes="equal"))


@operation(
    samples=lambda draw: [
        call(draw(8), 4, -2, 2), call(draw(8), 4), call(draw(2, 3), bins=3, min=-1, max=1), call(draw(8)),
        call(draw(), 3, -2, 2), call(draw(0), 3, 0, 1), call(draw(5), 1), call(draw(3, 2).mT, 5, -2.0, 2.0),
        call(draw(4), 2, 5, 6), call(draw(2, 1, 3), 4),
    ]
)  # fmt: skip
def histc(input: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """How many elements fall into each of equally wide bins between min and max (if equal: of the data).

    >>> import pellucid as torch
    >>> torch.histc(torch.tensor([1.0, 2.0, 1.0]), 4, 0, 3)
    tensor([0., 2., 1., 0.])
    """
    refuse(input, "biuc", "\"histogram_cpu\" not implemented for '{}'", NotImplementedError)
    if bins <= 0:
        raise refusal(RuntimeError, "bins must be > 0", f"bins is {bins}")
    check_room("histc", (bins,), np.dtype(np.float64))
    min, max = as_number(min), as_number(max)
    if max < min:
        raise refusal(RuntimeError, "max must be larger than min", f"min is {min}, max is {max}")
    return histc_row(input, bins, min, max)
