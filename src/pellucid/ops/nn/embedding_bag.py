"""embedding_bag: sums, means or maxima of the rows of a table, one result for each bag of numbers.

It picks the rows (embedding.py) and adds them up by bag (the adjoint of picking, flat_index.py), so its derivatives of
any order are theirs.
"""

from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core.kinds import plain
from pellucid.core.primitive import constant
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor, bearing
from pellucid.ops.along import bare, take_along_row
from pellucid.ops.arguments import expect, refusal
from pellucid.ops.convert import cast_row
from pellucid.ops.flat_index import index_row, put_add_row
from pellucid.ops.nn.embedding import check_index, embedding_row, padding_of, renormalise
from pellucid.ops.operation import COMPOSED, Draw, Sample, call, operation
from pellucid.ops.picked import note_picked
from pellucid.ops.select import where_row
from pellucid.ops.shape import reshape_row, zeros_like_row

# --- which bag a number belongs to, and which of its numbers is the largest


def _bag_numbers(offsets: ndarray, index: ndarray, closed: bool, padding: int) -> ndarray:
    """The bag of every number. What belongs to none (padding, and what follows a last offset) goes to an extra bag."""
    bags = len(offsets) - closed
    numbers = np.searchsorted(offsets[:bags], np.arange(index.size), "right") - 1
    if closed:
        numbers[offsets[-1] :] = bags
    numbers[index == padding] = bags
    return numbers


bag_numbers_row = bind(constant("bag_numbers", _bag_numbers, 2))


def _largest(values: ndarray, numbers: ndarray, bags: int) -> ndarray:
    """Where, in each column, the first largest value of every bag stands; -1 for an empty bag.

    As in PyTorch nothing is larger than a NaN that comes first, and no other NaN is larger than anything.
    """
    places = np.full((bags, values.shape[1]), -1)
    kept = np.flatnonzero(numbers < bags)
    if not kept.size:
        return places
    numbers, values = numbers[kept], values[kept]
    starts = np.flatnonzero(np.concatenate(([True], numbers[1:] != numbers[:-1])))
    most = np.fmax.reduceat(values, starts, 0)
    segment = np.cumsum(np.isin(np.arange(len(kept)), starts)) - 1
    first = np.minimum.reduceat(np.where(values == most[segment], kept[:, None], kept[-1]), starts, 0)
    begin = values[starts]
    places[numbers[starts]] = np.where(begin != begin, kept[starts, None], first)
    return places


largest_row = bind(constant("largest_of_bag", _largest, 2))


# --- arguments


def _flat(input: Any, offsets: Any) -> tuple[Any, Any]:
    """The numbers in one row and where the bags begin; of a matrix every row is a bag."""
    if input.ndim == 2:
        if offsets is not None:
            what = "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length"
            raise refusal(ValueError, f"{what} sequences. However, found offsets of type {type(offsets)}")
        expect(input.shape[1] > 0, "embedding_bag: step must be nonzero: the bags are empty")
        begins = np.arange(0, input.shape[0] * input.shape[1], input.shape[1])
        return reshape_row(input, (input.shape[0] * input.shape[1],)), Tensor.from_data(begins)
    if input.ndim != 1:
        raise refusal(ValueError, f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    if not isinstance(offsets, Tensor) or offsets.ndim != 1:
        raise refusal(ValueError, f"offsets has to be a 1D Tensor but got {offsets}")
    return input, offsets


def _check_offsets(offsets: Any, count: int) -> None:
    array = offsets.array
    if array.dtype.char not in "ilq":
        raise refusal(RuntimeError, f"embedding_bag: offsets must be of type Long or Int, not {offsets.dtype}")
    if type(array) is ndarray and array.size:
        what = "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0."
        expect(int(array[0]) == 0, f"{what} However, got {array[0]}")
        what = f"offsets[-1] can not be greater than input's length {count} but got offsets[-1] of {array[-1]}"
        expect(int(array[-1]) <= count, what)


def _check_mode(mode: str, input: Any, weights: Any, by_frequency: bool, sparse: bool) -> None:
    if mode not in ("sum", "mean", "max"):
        raise refusal(ValueError, "mode has to be one of sum, mean or max", f"it is {mode!r}")
    if mode == "max" and (by_frequency or sparse):
        what = "scaling the gradient by the frequency" if by_frequency else "sparse weights"
        raise refusal(ValueError, f"max mode does not support {what}")
    if weights is None:
        return
    if tuple(weights.shape) != tuple(input.shape):
        raise refusal(
            ValueError,
            f"embedding_bag: If per_sample_weights ({weights.shape}) is not None, then it must have the same shape as "
            f"the input ({input.shape})",
        )
    if mode != "sum":
        what = "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum'"
        raise refusal(NotImplementedError, f"{what} (got mode='{mode}').")


# --- what users call


def _samples(draw: Draw) -> list[Sample]:
    bags, closed = Tensor.from_data(np.array([0, 2, 2, 5])), Tensor.from_data(np.array([0, 2, 2, 6]))
    table, numbers = lambda: draw(4, 3), lambda: draw.integers(6, high=4)
    return [
        *(call(numbers(), table(), bags, mode=mode) for mode in ("sum", "mean", "max")),
        call(draw.integers(2, 3, high=4), table()), call(draw.integers(2, 3, high=4), table(), mode="max"),
        call(numbers(), table(), bags, mode="sum", per_sample_weights=draw(6)),
        call(numbers(), table(), bags, mode="mean", padding_idx=1),
        call(numbers(), table(), bags, mode="max", padding_idx=0),
        call(numbers(), table(), closed, mode="sum", include_last_offset=True),
        call(draw.integers(0), table(), Tensor.from_data(np.array([0, 0])), mode="max"),
    ]  # fmt: skip


NODE = "EmbeddingBagBackward0"


@operation(module="torch.nn.functional", samples=_samples, unclaimed=COMPOSED)
def embedding_bag(
    input: Any, weight: Any, offsets: Any = None, max_norm: float | None = None, norm_type: float = 2,
    scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights: Any = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> Any:  # fmt: skip
    """The sum, mean or maximum of rows of a table for each bag of numbers; `offsets` says where the bags begin.

    The gradient is dense, also with `sparse=True`.

    >>> import pellucid as torch
    >>> table = torch.tensor([[1.0], [10.0], [100.0]])
    >>> torch.nn.functional.embedding_bag(torch.tensor([0, 1, 2]), table, torch.tensor([0, 2]), mode="sum")
    tensor([[ 11.],
            [100.]])
    """
    _check_mode(mode, input, per_sample_weights, scale_grad_by_freq, sparse)
    expect(weight.ndim == 2 and weight.array.dtype.kind in "fV", f"embedding_bag: no weight of {weight.dtype}")
    count = weight.shape[0]
    index, begins = _flat(input, offsets)
    what = f"the input has values not in the valid range [0, {count})"
    check_index("embedding_bag", index, count, RuntimeError, what)
    _check_offsets(begins, index.shape[0])
    padding = padding_of(padding_idx, count, RuntimeError)
    if max_norm is not None:
        renormalise(weight, index, max_norm, norm_type)
    closed = bool(include_last_offset) and input.ndim == 1  # the rows of a matrix have no offsets
    bags = begins.shape[0] - closed
    numbers = bag_numbers_row(begins, index, closed, padding)
    picked = embedding_row(weight, index, padding, bool(scale_grad_by_freq))
    if sparse:
        note_picked(weight, index, padding, picked)
    if mode == "max":
        return bearing(NODE, _maxima(picked, numbers, bags))
    if per_sample_weights is not None:
        if per_sample_weights.array.dtype != weight.array.dtype:
            what = "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1"
            raise refusal(RuntimeError, f"{what} 'per_sample_weights': {weight.dtype}, {per_sample_weights.dtype}")
        picked = picked * reshape_row(per_sample_weights, (index.shape[0], 1))
    totals = _by_bag(picked, numbers, bags)
    return bearing(NODE, totals if mode == "sum" else totals / _sizes(totals, numbers, bags))


def _by_bag(values: Any, numbers: Any, bags: int) -> Any:
    """The sum of the values of each bag; the extra bag is left out."""
    everything = put_add_row(values, numbers, (0,), (bags + 1, *values.shape[1:]))
    return index_row(everything, Tensor.from_data(np.arange(bags)), (0,))


def _sizes(totals: Any, numbers: Any, bags: int) -> Any:
    """How many numbers each bag has, at least 1, as a column of the dtype of the totals."""
    sizes = _by_bag(zeros_like_row(numbers) + 1, numbers, bags)
    column = reshape_row(sizes + (sizes == 0), (bags, 1))
    return cast_row(column, plain(totals.array.dtype), np.dtype(np.int64))


def _maxima(picked: Any, numbers: Any, bags: int) -> Any:
    """The largest value of each bag in every column; 0 for an empty bag."""
    places = largest_row(bare(picked), numbers, bags)
    if not picked.shape[0]:
        return _by_bag(picked, numbers, bags)
    found = take_along_row(picked, places * (places >= 0), 0)
    return where_row(places >= 0, found, zeros_like_row(found))
