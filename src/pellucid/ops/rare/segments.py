"""Reductions over parts of a dimension: index_reduce (parts named by an index), segment_reduce (neighbours)."""

from typing import Any

import numpy as np
from numpy import ndarray

from pellucid import dtypes
from pellucid.core.primitive import constant
from pellucid.core.record import bind
from pellucid.core.tensor import wrap
from pellucid.ops.arguments import ALL, axis_of, expect, name_of, refusal
from pellucid.ops.convert import as_type
from pellucid.ops.expand import expand_row
from pellucid.ops.gather import index_of
from pellucid.ops.operation import COMPOSED, Draw, Sample, call, operation
from pellucid.ops.scatter import scatter_reduce
from pellucid.ops.select import where_row
from pellucid.ops.shape import reshape, zeros_like_row
from pellucid.ops.slicing import slice_row

# --- index_reduce


def _index_samples(draw: Draw) -> list[Sample]:
    places = wrap(np.array([0, 2, 0]))
    return [
        *(
            call(draw(3, 2), 0, places, draw(3, 2), reduce, include_self=include)
            for reduce in ("prod", "mean", "amax", "amin")
            for include in (True, False)
        ),
        call(draw(2, 3), -1, wrap(np.array([1])), draw(2, 1), "prod"),
        call(draw(), 0, wrap(np.array([0])), draw(), "amax"),
    ]


@operation(samples=_index_samples, inplace=True, unclaimed=COMPOSED)
def index_reduce(input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    """Reduce slices of a source to those that the index names: by prod, mean, amax or amin.

    >>> import pellucid as torch
    >>> torch.ones(3).index_reduce(0, torch.tensor([0, 0, 2]), torch.tensor([2.0, 3.0, 4.0]), "prod")
    tensor([6., 1., 4.])
    """
    known = reduce in ("prod", "mean", "amax", "amin")
    expect(known, f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    axis = axis_of(dim, input.ndim)
    _check_index(input, axis, index_of(index, "index_reduce"), source)
    if not input.ndim:  # a copy, so that the in-place form does not overwrite what the reshaped tensor keeps
        line = index_reduce(reshape(input.clone(), 1), 0, index, reshape(source, 1), reduce, include_self=include_self)
        return reshape(line, ())
    across = [1] * input.ndim
    across[axis] = index.numel()
    places = expand_row(reshape(index, across).to(dtypes.int64), tuple(source.shape))
    return scatter_reduce(input, axis, places, source, reduce, include_self=include_self)


def _check_index(input: Any, axis: int, index: Any, source: Any) -> None:
    if index.ndim > 1:
        raise refusal(IndexError, f"index_reduce_(): Index is supposed to be a vector, but got dim: {index.ndim}")
    if source.array.dtype != input.array.dtype:
        what = f"self ({name_of(input)}) and source ({name_of(source)}) must have the same scalar type"
        raise refusal(RuntimeError, f"index_reduce_(): {what}")
    size, wanted = (source.shape[axis] if source.ndim else 1), index.numel()
    what = f"Number of indices ({wanted}) should be equal to source.size(dim): ({size}), for dim: {axis}"
    expect(size == wanted, f"index_reduce_(): {what}")
    fits = source.ndim == input.ndim
    fits = fits and all(n == m for i, (n, m) in enumerate(zip(input.shape, source.shape)) if i != axis)
    what = "index_reduce_(): source tensor shape must match self tensor shape, excluding the specified dimension."
    expect(fits, f"{what} Got self.shape = {list(input.shape)} source.shape = {list(source.shape)}")
    values, bound = index.array, input.shape[axis] if input.ndim else 1
    if type(values) is ndarray and values.size and not (values.min() >= 0 and values.max() < bound):
        raise refusal(IndexError, "index out of range in self", f"the dimension has size {bound}")


# --- segment_reduce


def _numbers(bounds: ndarray, size: int, count: int, by_length: bool) -> ndarray:
    """The number of each element's segment; `count` for elements outside of all segments."""
    first = np.zeros((*bounds.shape[:-1], 1), np.int64)
    offsets = np.concatenate((first, np.cumsum(bounds, -1)), -1) if by_length else bounds
    numbers = np.empty((*bounds.shape[:-1], size), np.int64)
    for line in np.ndindex(bounds.shape[:-1]):
        numbers[line] = offsets[line].searchsorted(np.arange(size), "right") - 1
    return np.where(numbers < 0, count, numbers)


segment_numbers_row = bind(constant("segment_numbers", _numbers, 1))

REDUCTIONS = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin", "amax": "amax", "amin": "amin"}
EMPTY = {"sum": 0.0, "mean": np.nan, "prod": 1.0, "max": -np.inf, "min": np.inf, "amax": -np.inf, "amin": np.inf}


def _segment_samples(draw: Draw) -> list[Sample]:
    options = {"lengths": wrap(np.array([2, 0, 3])), "initial": 0.3, "unsafe": True}
    return [
        *(call(draw(5), reduce, **options) for reduce in ("sum", "mean", "prod", "max", "min")),
        call(draw(4, 2), "max", lengths=wrap(np.array([2, 2]))),
        call(draw(5), "prod", offsets=wrap(np.array([0, 2, 5]))),
        call(draw(2, 4), "mean", lengths=wrap(np.array([[1, 3], [2, 2]])), axis=1, unsafe=True),
        call(draw(5), "sum", lengths=wrap(np.array([1, 2])), unsafe=True),
    ]


@operation(samples=_segment_samples, methods=(), aliases=("_segment_reduce",), unclaimed=COMPOSED)
def segment_reduce(
    data: Any, reduce: str, *, lengths: Any = None, indices: Any = None, offsets: Any = None, axis: int = 0,
    unsafe: bool = False, initial: Any = None,
) -> Any:  # fmt: skip
    """Reduce neighbouring elements along a dimension: segments of these lengths, or between these offsets.

    >>> import pellucid as torch
    >>> torch.segment_reduce(torch.tensor([1.0, 2.0, 3.0]), "sum", lengths=torch.tensor([2, 1]))
    tensor([3., 3.])
    """
    expect(indices is None, "segment_reduce(): indices based reduction is not supported yet.")
    expect(lengths is not None or offsets is not None, "segment_reduce(): Either lengths or offsets must be defined.")
    what = f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
    expect(reduce in REDUCTIONS, what)
    if data.array.dtype.kind in "biuc":
        raise refusal(NotImplementedError, f"\"_segment_reduce_cpu\" not implemented for '{name_of(data)}'")
    axis = axis_of(axis, data.ndim)
    bounds = lengths if offsets is None else offsets
    count = bounds.shape[-1] - (offsets is not None) if bounds.ndim else 0
    _check_bounds(data, bounds, axis, lengths is bounds, unsafe)
    numbers = segment_numbers_row(bounds, data.shape[axis], count, lengths is bounds)
    wide = as_type(data, dtypes.float32) if data.array.dtype.itemsize == 2 else data
    return as_type(_reduced(wide, numbers, reduce, axis, count, initial), data.dtype)


def _check_bounds(data: Any, bounds: Any, axis: int, by_length: bool, unsafe: bool) -> None:
    fits = bounds.ndim == axis + 1 and tuple(bounds.shape[:-1]) == tuple(data.shape[:axis])
    expect(fits, f"segment_reduce(): Expected axis to be the last dimension of lengths but got {axis}.")
    if bounds.array.dtype.kind != "i":
        raise refusal(NotImplementedError, f"segment_reduce(): lengths or offsets cannot be {name_of(bounds)}")
    values = bounds.array
    if type(values) is not ndarray or unsafe:  # under a capture, or vmap, they are not for Python to look at
        return
    steps = values if by_length else np.diff(values, axis=-1)
    expect(values.size > 0, "segment_reduce(): Expected reduction dim to be specified: there is no segment")
    expect(steps.size == 0 or steps.min() >= 0, "lengths contains negative value!")
    if by_length:
        what = "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1)"
        expect(bool((values.sum(-1) == data.shape[axis]).all()), f"{what} when !unsafe.")


def _reduced(data: Any, numbers: Any, reduce: str, axis: int, count: int, initial: Any) -> Any:
    shape = tuple(data.shape)
    rest = (1,) * (len(shape) - 1 - axis)
    places = expand_row(reshape(numbers, (*shape[: axis + 1], *rest)), shape)
    slots = (*shape[:axis], count + 1, *shape[axis + 1 :])  # the last one for what is outside of all segments
    part = (*(ALL,) * axis, slice(0, count), ...)

    def scattered(source: Any, how: str, begin: float) -> Any:
        empty = wrap(np.full(slots, begin, np.dtype(data.array.dtype).newbyteorder("=")))
        return slice_row(scatter_reduce(empty, axis, places, source, how, include_self=how == "sum"), part)

    begin = EMPTY[reduce] if initial is None else float(initial)
    if REDUCTIONS[reduce] in ("amax", "amin"):
        result = scattered(data, REDUCTIONS[reduce], EMPTY[reduce])
        beyond = result < begin if REDUCTIONS[reduce] == "amax" else result > begin
        return where_row(beyond, zeros_like_row(result) + begin, result) if initial is not None else result
    if reduce != "mean":
        result = scattered(data, REDUCTIONS[reduce], 1.0 if reduce == "prod" else begin)
        return result if reduce == "sum" or initial is None else result * begin
    total = scattered(data, "sum", 0.0 if initial is None else begin)
    many = scattered(zeros_like_row(data.detach()) + 1, "sum", 0.0)
    return total / (many if initial is None else many + (many == 0))
