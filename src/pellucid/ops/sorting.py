"""Sorting and what order tells: sort, topk, medians, modes, quantiles, unique values, search and histograms.

Where the elements go is worked out first (an index, which has no derivative); the values are then picked by it, so
that their gradient goes back to the places they came from. NaN counts as the largest element, as in PyTorch.
"""

from typing import Any

import numpy as np

from pellucid import return_types
from pellucid.core.attributes import concrete
from pellucid.core.primitive import constant, general
from pellucid.core.provenance import here
from pellucid.core.record import bind
from pellucid.core.tensor import Cut, Tensor, wrap
from pellucid.ops.along import (
    bare,
    is_floating,
    lengthwise,
    line_samples,
    name_of,
    picker,
    refuse,
    take_along,
    take_along_row,
    taker,
)
from pellucid.ops.extremes import refuse_empty, shares_row
from pellucid.ops.operation import Draw, Sample, call, operation
from pellucid.ops.reduce import sum_all_row
from pellucid.ops.shape import axis_of, expand_row, permute_row, refusal, reshape_row


def ordering(a: np.ndarray, axis: int, descending: bool = False) -> np.ndarray:
    """The stable order of the elements along an axis."""
    values = a.astype(np.float32) if a.dtype.kind == "V" else a  # bfloat16
    if not descending:
        return values.argsort(axis, "stable")
    backwards = (*(slice(None),) * axis, slice(None, None, -1))
    return a.shape[axis] - 1 - values[backwards].argsort(axis, "stable")[backwards]


def _one_dimension(input: Any, dim: int, name: str) -> int:
    """The axis, if there is something along it."""
    axis = axis_of(dim, input.ndim)
    refuse_empty(input, dim, (axis,) if input.ndim else (), name)
    return axis


# --- sort


argsort_row = bind(
    constant("argsort", lengthwise(ordering), 1, batch=lambda op, a, axis, descending: op(a, axis + 1, descending))
)
sort_row = taker("sort")


def sort_samples(draw: Draw) -> list[Sample]:
    """Along one dimension, both directions, empty ones too."""
    return [
        *line_samples(draw), call(draw(5)), call(draw(2, 5), descending=True), call(draw(3, 2), 0, True),
        call(draw(0)), call(draw(2, 0), 0), call(draw.integers(8)),
    ]  # fmt: skip


@operation(samples=sort_samples)
def sort(input: Any, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Any:
    """The elements in order along a dimension, and where they were; equal elements keep their order.

    >>> import pellucid as torch
    >>> torch.tensor([3.0, 1.0, 2.0]).sort()
    torch.return_types.sort(
    values=tensor([1., 2., 3.]),
    indices=tensor([1, 2, 0]))
    """
    refuse(input, "c", " Sort does not support complex dtypes on CPU")
    axis = axis_of(dim, input.ndim)
    index = argsort_row(bare(input), axis, bool(descending))
    return return_types.sort(sort_row(input, index, axis), index)


@operation(samples=sort_samples)
def argsort(input: Any, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Any:
    """The indices that sort a tensor along a dimension.

    >>> import pellucid as torch
    >>> torch.tensor([3.0, 1.0, 2.0]).argsort()
    tensor([1, 2, 0])
    """
    refuse(input, "c", " Sort does not support complex dtypes on CPU")
    return argsort_row(input, axis_of(dim, input.ndim), bool(descending))


@operation(samples=lambda draw: [call(draw(5)), call(draw(3, 2)), call(draw()), call(draw(0)), call(draw(3, 2, 2))])
def msort(input: Any) -> Any:
    """The elements in order along the first dimension.

    >>> import pellucid as torch
    >>> torch.tensor([3, 1, 2]).msort()
    tensor([1, 2, 3])
    """
    return sort(input, 0).values


# --- the k largest, the k-th smallest


def _top(a: np.ndarray, axis: int, k: int, largest: bool) -> np.ndarray:
    """Part off k elements, then order only those; few elements are faster ordered altogether."""
    size = a.shape[axis]
    chosen = slice(size - k, None) if largest else slice(k)
    if k in (0, size) or size <= 128:
        return ordering(a, axis, largest)[(*(slice(None),) * axis, slice(k))]
    values = a.astype(np.float32) if a.dtype.kind == "V" else a
    parted = values.argpartition(size - k if largest else k - 1, axis)
    places = parted[(*(slice(None),) * axis, chosen)]
    places.sort(axis)
    return take_along(places, ordering(take_along(values, places, axis), axis, largest), axis)


def _kth(a: np.ndarray, axis: int, k: int, keepdim: bool) -> np.ndarray:
    values = a.astype(np.float32) if a.dtype.kind == "V" else a
    index = values.argpartition(k - 1, axis).take([k - 1], axis)
    return index if keepdim else index.squeeze(axis)


topk_index_row = bind(
    constant("topk_index", lengthwise(_top), 1, batch=lambda op, a, axis, k, largest: op(a, axis + 1, k, largest))
)
topk_row = taker("topk")
kth_index_row = bind(
    constant("kth_index", lengthwise(_kth), 1, batch=lambda op, a, axis, k, keepdim: op(a, axis + 1, k, keepdim))
)
kthvalue_row = picker("kthvalue", "KthvalueBackward0")


@operation(
    samples=lambda draw: [
        call(draw(5), 2), call(draw(5), 5), call(draw(2, 5), 3, 1), call(draw(4, 3), 2, 0),
        call(draw(2, 5), 2, -1, False), call(draw(), 1), call(draw(5), 0), call(draw(0), 0), call(draw(2, 300), 7),
        call(draw(3, 2, 4), 1, dim=1), call(draw(5), 2, largest=False),
    ]
)  # fmt: skip
def topk(input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The k largest (or smallest) elements along a dimension, in order, and where they are.

    >>> import pellucid as torch
    >>> torch.tensor([3.0, 1.0, 2.0]).topk(2).values
    tensor([3., 2.])
    """
    refuse(input, "c", " topk does not support complex dtypes on CPU")
    refuse(input, "b", "topk does not support bool dtypes on CPU")
    axis = axis_of(dim, input.ndim)
    size = input.array.shape[axis] if input.ndim else 1
    if not 0 <= k <= size:
        raise refusal(RuntimeError, "selected index k out of range", f"k is {k}, the dimension has {size} elements")
    index = topk_index_row(bare(input), axis, k, largest)
    return return_types.topk(topk_row(input, index, axis), index)


@operation(
    samples=lambda draw: [
        call(draw(5), 2), call(draw(2, 5), 3, 1), call(draw(4, 3), 2, 0, True), call(draw(), 1), call(draw(5), 5),
        call(draw(2, 3, 4), 1, dim=1), call(draw(2, 5), 1, keepdim=True), call(draw(1, 1), 1),
    ]
)  # fmt: skip
def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The k-th smallest element along a dimension, and where it is.

    >>> import pellucid as torch
    >>> torch.tensor([3.0, 1.0, 2.0]).kthvalue(2).values
    tensor(2.)
    """
    refuse(input, "bc", "\"kthvalue_cpu\" not implemented for '{}'", NotImplementedError)
    axis = axis_of(dim, input.ndim)
    size = input.array.shape[axis] if input.ndim else 1
    if not 1 <= k <= size:
        what = f"kthvalue(): selected number k out of range for dimension {axis}"
        raise refusal(RuntimeError, what, f"k is {k}, the dimension has {size} elements")
    index = kth_index_row(bare(input), axis, k, keepdim)
    return return_types.kthvalue(kthvalue_row(input, index, axis, keepdim), index)


# --- medians


def _valid(a: np.ndarray, axis: int) -> np.ndarray:
    """How many elements along an axis are not NaN."""
    return np.add.reduce(a == a, axis, None, None, True)


def _middle(a: np.ndarray, axis: int, keepdim: bool, skip_nan: bool) -> np.ndarray:
    """Where the lower median is; a NaN is the median unless skipped."""
    size = a.shape[axis]
    if not (a != a).any():
        return _kth(a, axis, (size + 1) // 2, keepdim)
    valid = _valid(a, axis)
    middle = np.maximum(valid - 1, 0) // 2
    index = take_along(ordering(a, axis), middle if skip_nan else np.where(valid < size, valid, middle), axis)
    return index if keepdim else index.squeeze(axis)


def _middle_value(a: np.ndarray, skip_nan: bool) -> Any:
    flat = a.reshape(-1)
    return flat[_middle(flat, 0, False, skip_nan)] if a.size else a.dtype.type(np.nan)


middle_row = bind(
    constant(
        "middle", lengthwise(_middle), 1,
        batch=lambda op, a, axis, keepdim, skip_nan: op(a, axis + 1, keepdim, skip_nan),
    )
)  # fmt: skip
median_row = picker("median_dim", "MedianBackward1")
nanmedian_row = picker("nanmedian_dim", "NanmedianBackward1")


def _all_axes(a: Any) -> tuple[int, ...]:
    return tuple(range(a.ndim))


def _median_of_all(name: str, grad_name: str, skip_nan: bool) -> Any:
    return bind(
        general(
            name, lambda a: _middle_value(a, skip_nan),
            lambda g, a, y: expand_row(g, tuple(a.shape)) * shares_row(a, y, _all_axes(a)),
            jvp=lambda tangents, y, inputs, params: sum_all_row(
                tangents[0] * shares_row(inputs[0], y, _all_axes(inputs[0]))
            ),
            dtypes="equal", grad_name=grad_name,
        )
    )  # fmt: skip


median_all_row = _median_of_all("median_all", "MedianBackward0", False)
nanmedian_all_row = _median_of_all("nanmedian_all", "NanmedianBackward0", True)


def _median(input: Any, dim: int | None, keepdim: bool, rows: tuple[Any, Any], result: Any) -> Any:
    refuse(input, "bc", "\"median_cpu\" not implemented for '{}'", NotImplementedError)
    of_all, pick = rows
    if dim is None:
        return of_all(input)
    axis = _one_dimension(input, dim, "median")
    index = middle_row(bare(input), axis, keepdim, result is return_types.nanmedian)
    return result(pick(input, index, axis, keepdim), index)


def median_samples(draw: Draw) -> list[Sample]:
    """Of all and along one dimension; odd and even sizes."""
    return [
        call(draw(5)), call(draw(2, 3)), call(draw()), call(draw(4, 3), 0, True), call(draw(2, 4), dim=1, keepdim=True),
        *line_samples(draw),
    ]  # fmt: skip


@operation(samples=median_samples)
def median(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The element in the middle (of an even number the lower one), of all or along a dimension with its index.

    >>> import pellucid as torch
    >>> torch.tensor([3.0, 1.0, 2.0, 9.0]).median()
    tensor(2.)
    """
    return _median(input, dim, keepdim, (median_all_row, median_row), return_types.median)


@operation(samples=median_samples)
def nanmedian(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median of the elements that are not NaN.

    >>> import pellucid as torch
    >>> torch.tensor([3.0, float("nan"), 2.0]).nanmedian()
    tensor(2.)
    """
    return _median(input, dim, keepdim, (nanmedian_all_row, nanmedian_row), return_types.nanmedian)


# --- mode


def _most_frequent(a: np.ndarray, axis: int, keepdim: bool) -> np.ndarray:
    """The last place of the most frequent element (of equally frequent ones the smallest)."""
    order = ordering(a, axis)
    values = np.moveaxis(take_along(a, order, axis), axis, -1)
    place = np.arange(a.shape[axis])
    fresh = np.ones(values.shape, bool)
    fresh[..., 1:] = values[..., 1:] != values[..., :-1]
    run = place - np.maximum.accumulate(np.where(fresh, place, 0), -1)  # grows from 0 within a run of equals
    best = np.expand_dims(run.argmax(-1), axis)
    index = take_along(order, best, axis)
    return index if keepdim else index.squeeze(axis)


mode_index_row = bind(
    constant("mode_index", lengthwise(_most_frequent), 1, batch=lambda op, a, axis, keepdim: op(a, axis + 1, keepdim))
)
mode_row = picker("mode", "ModeBackward0")


@operation(
    samples=lambda draw: [*line_samples(draw), call(draw(2, 4)), call(draw(3, 2), 0, True), call(draw.integers(3, 8))]
)
def mode(input: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The most frequent element along a dimension, and where it occurs last.

    >>> import pellucid as torch
    >>> torch.tensor([2, 1, 2, 3]).mode().values
    tensor(2)
    """
    refuse(input, "c", "\"mode_cpu\" not implemented for '{}'", NotImplementedError)
    axis = _one_dimension(input, dim, "mode")
    index = mode_index_row(bare(input), axis, keepdim)
    return return_types.mode(mode_row(input, index, axis, keepdim), index)


# --- quantiles

INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _neighbours(a: np.ndarray, axis: int, q: tuple[float, ...], interpolation: str, skip_nan: bool) -> Any:
    """The places of the elements below and above each quantile, and the weight of the one above."""
    valid, size = _valid(a, axis), a.shape[axis]
    asked = np.asarray(q, a.dtype).reshape(-1, *(1,) * (a.ndim - 1 - axis))
    rank = asked * np.maximum(valid - 1, 0).astype(a.dtype)
    if not skip_nan:
        rank = np.where(valid < size, a.dtype.type(size - 1), rank)
    if interpolation in ("lower", "higher", "nearest"):
        rank = {"lower": np.floor, "higher": np.ceil, "nearest": np.rint}[interpolation](rank)
    below = np.floor(rank)
    weight = np.full_like(rank, 0.5) if interpolation == "midpoint" else rank - below
    order = ordering(a, axis)
    places = (take_along(order, at.astype(np.int64), axis) for at in (below, np.ceil(rank)))
    return (*places, weight)


neighbours_row = bind(
    constant(
        "neighbours", _neighbours, 1, outputs=3,
        batch=lambda op, a, axis, q, interpolation, skip_nan: op(a, axis + 1, q, interpolation, skip_nan),
    )
)  # fmt: skip


def _asked(input: Any, q: Any, interpolation: str, name: str) -> tuple[tuple[float, ...], bool]:
    """The quantiles asked for, checked, and whether it is a single one."""
    if interpolation not in INTERPOLATIONS:
        choices = "linear, lower, higher, midpoint or nearest"
        raise refusal(RuntimeError, f"{name}() interpolation must be one of {choices}, but got {interpolation}")
    if input.array.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise refusal(RuntimeError, f"{name}() input tensor must be either float or double dtype")
    if not input.array.size:
        raise refusal(RuntimeError, f"{name}() input tensor must be non-empty")
    values = concrete(q, name) if isinstance(q, Tensor) else np.asarray(q, input.array.dtype)
    if values.ndim > 1:
        raise refusal(RuntimeError, f"{name}() q must be a scalar or 1D tensor")
    if isinstance(q, Tensor) and values.dtype != input.array.dtype:
        raise refusal(RuntimeError, f"{name}() q tensor must be same dtype as the input tensor")
    for value in values.reshape(-1):
        if not 0 <= value <= 1:
            raise refusal(RuntimeError, f"{name}() q must be in the range [0, 1] but got {value}")
    return tuple(values.reshape(-1).tolist()), values.ndim == 0


def _quantile(input: Any, q: Any, dim: int | None, keepdim: bool, options: tuple[str, bool]) -> Any:
    interpolation, skip_nan = options
    asked, single = _asked(input, q, interpolation, "nanquantile" if skip_nan else "quantile")
    rank, shape = input.ndim, tuple(input.shape)
    axis = 0 if dim is None else axis_of(dim, rank)
    lines = reshape_row(input, (input.array.size,)) if dim is None or not rank else input
    below, above, weight = neighbours_row(bare(lines), axis, asked, interpolation, skip_nan)
    low, high = take_along_row(lines, below, axis), take_along_row(lines, above, axis)
    found = low + weight * (high - low)
    front = permute_row(found, (axis, *(i for i in range(lines.ndim) if i != axis)))
    reduced = [1 if dim is None or i == axis else n for i, n in enumerate(shape)]
    rest = reduced if keepdim else [] if dim is None else [n for i, n in enumerate(shape) if i != axis]
    return reshape_row(front, tuple(rest) if single else (len(asked), *rest))


def quantile_samples(draw: Draw) -> list[Sample]:
    """One or several quantiles, of all or along a dimension, every interpolation."""
    several = wrap(np.array([0.1, 0.5, 1.0]))
    return [
        call(draw(5), 0.3), call(draw(2, 3), 0.5), call(draw(2, 3), 0.25, 1), call(draw(2, 3), 0.25, 0, True),
        call(draw(2, 3), several), call(draw(2, 3, 4), several, dim=1), call(draw(2, 3, 4), several, -1, True),
        call(draw(2, 3), 0.3, keepdim=True), call(draw(), 0.5), call(draw(1), 1.0), call(draw(7), 0.0),
        *(call(draw(6), 0.35, interpolation=how) for how in INTERPOLATIONS),
    ]  # fmt: skip


@operation(samples=quantile_samples)
def quantile(
    input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Any:
    """The q-th quantiles of all elements, or along a dimension.

    >>> import pellucid as torch
    >>> torch.tensor([1.0, 2.0, 3.0]).quantile(0.25)
    tensor(1.5000)
    """
    return _quantile(input, q, dim, keepdim, (interpolation, False))


@operation(samples=quantile_samples)
def nanquantile(
    input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Any:
    """The q-th quantiles of the elements that are not NaN.

    >>> import pellucid as torch
    >>> torch.tensor([1.0, float("nan"), 3.0]).nanquantile(0.5)
    tensor(2.)
    """
    return _quantile(input, q, dim, keepdim, (interpolation, True))


# --- unique values, search, counts: results without derivative, of a size that depends on the values


def _cut_by(name: str, input: Any, array: np.ndarray) -> Tensor:
    cut = input.cut if input.node is None else Cut(name, here(), input.node.name())
    return wrap(array, None, cut)


def _chosen(results: list[Any], wanted: tuple[bool, ...]) -> Any:
    kept = [result for result, want in zip(results, wanted, strict=True) if want]
    return kept[0] if len(kept) == 1 else tuple(kept)


@operation(
    samples=lambda draw: [
        call(draw.integers(8)), call(draw.integers(3, 4), return_counts=True), call(draw.integers(8), True, True, True),
        call(draw.integers(6, 2, high=2), dim=0), call(draw.integers(0)), call(draw.integers(2, 6, high=2), dim=1),
        call(draw.integers(6, 2, high=2), return_inverse=True, return_counts=True, dim=0), call(draw.mask(5)),
    ]
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
    results = [_cut_by("unique", input, part) for part in (values, inverse, counts)]
    return _chosen(results, (True, return_inverse, return_counts))


@operation(
    samples=lambda draw: [
        call(draw.integers(8, high=2)), call(draw.integers(8, high=2), True, True), call(draw.integers(2, 4, high=2)),
        call(draw.integers(6, 2, high=2), dim=0), call(draw.integers(0)), call(draw.integers(2, 6, high=2), dim=1),
    ]
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
    inverse = np.cumsum(fresh) - 1
    values = np.ascontiguousarray(np.moveaxis(lines[fresh], 0, axis))
    counts = np.diff(np.append(np.flatnonzero(fresh), len(lines)))
    inverse = inverse.reshape(array.shape if dim is None else -1)
    results = [_cut_by("unique_consecutive", input, part) for part in (values, inverse, counts)]
    return _chosen(results, (True, return_inverse, return_counts))


def _search(sequence: np.ndarray, values: np.ndarray, side: Any, dtype: np.dtype) -> np.ndarray:
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
        call(draw(0), wrap(np.arange(5.0))),
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
    ]
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
    if weights is None:
        return wrap(np.bincount(array, None, minlength))
    heavy = concrete(weights, "bincount()")
    if heavy.shape != array.shape:
        raise refusal(RuntimeError, "weights should be 1-d and have the same length as input")
    sums = np.bincount(array, heavy.astype(np.float64), minlength)
    return _cut_by("bincount", weights, sums.astype(heavy.dtype if heavy.dtype == np.float32 else np.float64))


def _histogram(a: np.ndarray, bins: int, low: float, high: float) -> np.ndarray:
    if low == high and a.size:
        low, high = a.min(), a.max()
    if low == high:
        low, high = low - 1, high + 1
    return np.histogram(a, bins, (low, high))[0].astype(a.dtype)


histc_row = bind(constant("histc", _histogram, 1, dtypes="equal"))


@operation(
    samples=lambda draw: [
        call(draw(8), 4, -2, 2), call(draw(8), 4), call(draw(2, 3), bins=3, min=-1, max=1), call(draw(8)),
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
    if max < min:
        raise refusal(RuntimeError, "max must be larger than min", f"min is {min}, max is {max}")
    return histc_row(input, bins, min, max)
