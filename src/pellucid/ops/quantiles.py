"""Medians, modes and quantiles: what stands where in the order of the elements.

Where the element stands is worked out first (an index, which has no derivative); its value is then picked by it. NaN
counts as the largest element, as in PyTorch.
"""

from typing import Any

import numpy as np

from pellucid import return_types
from pellucid.core.attributes import concrete
from pellucid.core.primitive import constant, elementwise, same
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor, wrap
from pellucid.ops.along import bare, handed_out, lengthwise, line_samples, picker, take_along, take_along_row
from pellucid.ops.arguments import axis_of, refusal, refuse
from pellucid.ops.arithmetic import lerp
from pellucid.ops.axes import permute_row
from pellucid.ops.extremes import one_of_all, refuse_empty
from pellucid.ops.operation import COMPOSED, READS_VALUES, Draw, Sample, call, operation
from pellucid.ops.shape import reshape_row
from pellucid.ops.sorting import kth, ordering


def _one_dimension(input: Any, dim: int, name: str) -> int:
    """The axis, if there is something along it."""
    axis = axis_of(dim, input.ndim)
    refuse_empty(input, dim, (axis,) if input.ndim else (), name)
    return axis


# --- medians


def _valid(a: np.ndarray, axis: int) -> np.ndarray:
    """How many elements along an axis are not NaN."""
    return np.add.reduce(a == a, axis, None, None, True)


def _middle(a: np.ndarray, axis: int, keepdim: bool, skip_nan: bool) -> np.ndarray:
    """Where the lower median is; a NaN is the median unless skipped."""
    size = a.shape[axis]
    if not (a != a).any():
        return kth(a, axis, (size + 1) // 2, keepdim)
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
median_all_row = one_of_all("median_all", lambda a: _middle_value(a, False), grad_name="MedianBackward0")
nanmedian_all_row = one_of_all("nanmedian_all", lambda a: _middle_value(a, True), grad_name="NanmedianBackward0")


def _median(input: Any, dim: int | None, keepdim: bool, rows: tuple[Any, Any], result: Any) -> Any:
    refuse(input, "bc", "\"median_cpu\" not implemented for '{}'", NotImplementedError)
    of_all, pick = rows
    if dim is None:
        return of_all(input)
    axis = _one_dimension(input, dim, "median")
    index = middle_row(bare(input), axis, keepdim, result is return_types.nanmedian)
    return handed_out(result, input, pick(input, index, axis, keepdim), index)


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
    >>> torch.tensor([3.0, torch.nan, 2.0]).nanmedian()
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
    return handed_out(return_types.mode, input, mode_row(input, index, axis, keepdim), index)


# --- quantiles

INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")
WHOLE = {"lower": np.floor, "higher": np.ceil, "nearest": np.rint}  # those that pick one element


def _neighbours(a: np.ndarray, axis: int, q: tuple[float, ...], interpolation: str, skip_nan: bool) -> Any:
    """The places of the elements below and above each quantile, and the weight of the one above."""
    valid, size = _valid(a, axis), a.shape[axis]
    asked = np.asarray(q, a.dtype).reshape(-1, *(1,) * (a.ndim - 1 - axis))
    rank = asked * np.maximum(valid - 1, 0).astype(a.dtype)
    if not skip_nan:
        rank = np.where(valid < size, a.dtype.type(size - 1), rank)
    if interpolation in WHOLE:
        rank = WHOLE[interpolation](rank)
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


# Zero, with the derivative of the identity: it carries the gradient of q into a weight worked out as a constant.
departure_row = bind(elementwise("departure", np.zeros_like, same))
span_row = bind(
    constant("span", lambda a, axis: np.maximum(_valid(a, axis) - 1, 0).astype(a.dtype), 1,
             batch=lambda op, a, axis: op(a, axis + 1))
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
    if isinstance(q, Tensor) and interpolation == "linear":
        moved = reshape_row(departure_row(q), (len(asked), *(1,) * (lines.ndim - 1 - axis)))
        weight = weight + moved * span_row(bare(lines), axis)
    found = take_along_row(lines, below, axis)
    if interpolation not in WHOLE:
        found = lerp(found, take_along_row(lines, above, axis), weight)
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


@operation(samples=quantile_samples, unclaimed=READS_VALUES | COMPOSED)
def quantile(
    input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Any:
    """The q-th quantiles of all elements, or along a dimension.

    >>> import pellucid as torch
    >>> torch.tensor([1.0, 2.0, 3.0]).quantile(0.25)
    tensor(1.5000)
    """
    return _quantile(input, q, dim, keepdim, (interpolation, False))


@operation(samples=quantile_samples, unclaimed=READS_VALUES | COMPOSED)
def nanquantile(
    input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Any:
    """The q-th quantiles of the elements that are not NaN.

    >>> import pellucid as torch
    >>> torch.tensor([1.0, torch.nan, 3.0]).nanquantile(0.5)
    tensor(2.)
    """
    return _quantile(input, q, dim, keepdim, (interpolation, True))
