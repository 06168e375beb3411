"""Elements and slices picked by an index tensor: index_select, take, gather; index_add, index_copy, index_fill, put.

The public functions check the index, then hand it to the rows of flat_index.py (slices) or along.py (elements).
"""

import math
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core.primitive import constant
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor, wrap
from pellucid.ops.along import take_along_row
from pellucid.ops.arguments import axis_of, name_of, refusal
from pellucid.ops.expand import expand_row
from pellucid.ops.fill import fill_value
from pellucid.ops.flat_index import (
    index_add_row,
    index_copy_row,
    index_put_row,
    index_select_row,
    same_dtype,
    take_row,
)
from pellucid.ops.masked import filling
from pellucid.ops.operation import COMPOSED, Draw, Sample, call, operation
from pellucid.ops.shape import reshape, reshape_row, unsqueeze_row
from pellucid.ops.slicing import slice_row

index_fill_row = filling("index_fill", "IndexFillBackward0")


def _named(index: ndarray, size: int) -> ndarray:
    mask = np.zeros(size, np.bool_)
    mask[index] = True
    return mask


# Which places an index names: one that is named twice is filled once, and so is its gradient.
named_row = bind(constant("named_places", _named, 1))

UNSIGNED = {4: np.uint32, 8: np.uint64}


# --- slices along a dimension, and elements by their number


def index_of(index: Any, name: str) -> Any:
    """An index tensor, refused when it holds no integers."""
    if not isinstance(index, Tensor):
        raise refusal(TypeError, f"{name}(): argument 'index' must be Tensor, not {type(index).__name__}")
    if index.array.dtype.char not in "ilq" and not (index.array.size == 0 and index.array.dtype.kind in "iu"):
        raise refusal(RuntimeError, f"{name}(): Expected dtype int32/int64 for index", try_="index.long()")
    return index


def _vector(index: Any, name: str) -> Any:
    index = index_of(index, name)
    if index.ndim > 1:
        raise refusal(IndexError, f"{name}(): Index is supposed to be a vector, but got dim: {index.ndim}")
    return index if index.ndim else unsqueeze_row(index, (1,))


def _check_range(index: Any, dim: int, size: int, kind: type[Exception] = IndexError, lowest: int = 0) -> None:
    array = index.array
    if type(array) is not ndarray or not array.size:  # under a capture the values are not for Python to look at
        return
    if lowest == 0:  # read without their sign negative numbers are large: one pass instead of two
        fits = np.maximum.reduce(array.view(UNSIGNED[array.dtype.itemsize]), None) < size
    else:
        fits = array.min() >= lowest and array.max() < size
    if not fits:
        bad = next(int(i) for i in array.reshape(-1) if not lowest <= i < size)
        raise refusal(kind, f"index {bad} is out of bounds for dimension {dim} with size {size}")


def _line(
    input: Any, dim: int, index: Any, name: str, kind: type[Exception] = IndexError, from_the_end: bool = False
) -> tuple[Any, int, Any]:
    """Normal arguments of an operation on slices along one dimension; a 0-d tensor counts as a vector."""
    index = _vector(index, name)
    axis = axis_of(dim, input.ndim)
    tensor = input if input.ndim else unsqueeze_row(input, (1,))
    size = tensor.shape[axis]
    _check_range(index, axis, size, kind, -size if from_the_end else 0)
    return tensor, axis, index


@operation(
    samples=lambda draw: [
        call(draw(3, 2), 0, draw.integers(4)), call(draw(2, 3), 1, draw.integers(2)),
        call(draw(3), 0, draw.integers(0)), call(draw(3), -1, draw.integers(5)),
        call(draw(2, 3, 2), 1, draw.integers(3)), call(draw(4), 0, draw.integers()),
        call(draw(2, 3).mT, 0, draw.integers(2)), call(draw(3, 0), 0, draw.integers(2)),
        call(draw(), 0, wrap(np.array([0]))), call(draw(2, 3, 4), -2, draw.integers(2)),
        call(draw(1), 0, wrap(np.zeros(4, np.int64))),
    ],
)  # fmt: skip
def index_select(input: Any, dim: int, index: Any) -> Any:
    """The slices along a dimension that the index names.

    >>> import pellucid as torch
    >>> torch.index_select(torch.tensor([10, 20, 30]), 0, torch.tensor([2, 0]))
    tensor([30, 10])
    """
    if not input.ndim and index_of(index, "index_select").array.size != 1:
        raise refusal(RuntimeError, f"index_select(): Index to scalar can have only 1 value, got {index.array.size}")
    kind = RuntimeError if input.ndim > 1 and 0 in input.shape else IndexError
    tensor, axis, places = _line(input, dim, index, "index_select", kind)
    picked = index_select_row(tensor, places, (axis,))
    return picked if input.ndim else reshape(picked, ())


def _source_samples(draw: Draw) -> list[Sample]:
    return [
        call(draw(4, 2), 0, wrap(np.array([2, 0, 3])), draw(3, 2)),
        call(draw(2, 4), 1, wrap(np.array([1, 3])), draw(2, 2)),
        call(draw(3), -1, wrap(np.array([1])), draw(1)), call(draw(3), 0, wrap(np.zeros(0, np.int64)), draw(0)),
        call(draw(2, 3, 2), 1, wrap(np.array([2, 0])), draw(2, 2, 2)),
        call(draw(), 0, wrap(np.array([0])), draw()), call(draw(1), 0, wrap(np.array(0)), draw(1)),
        call(draw(2, 3).mT, 0, wrap(np.array([1])), draw(1, 2)),
        call(draw(2, 3), -2, wrap(np.array([1, 0])), draw(2, 3)), call(draw(3, 0), 0, wrap(np.array([2])), draw(1, 0)),
    ]  # fmt: skip


def _check_source(name: str, input: Any, axis: int, index: Any, source: Any) -> None:
    wanted = (*input.shape[:axis], index.shape[0], *input.shape[axis + 1 :])
    if source.array.dtype != input.array.dtype:
        raise refusal(
            RuntimeError, f"{name}(): self and source expected to have the same dtype, but got (self) {input.dtype} "
            f"and (source) {source.dtype}"
        )  # fmt: skip
    single = not input.ndim or not source.ndim  # a 0-d tensor counts as a vector of one element
    if (not single and tuple(source.shape) != wanted) or (name == "index_add" and source.ndim != input.ndim):
        raise refusal(
            RuntimeError if name == "index_add" else IndexError,
            f"{name}(): source tensor shape must match self tensor shape, excluding the specified dimension. Got "
            f"self.shape = {list(input.shape)} source.shape = {list(source.shape)}",
        )


@operation(
    samples=lambda draw: [
        *_source_samples(draw), call(draw(2), 0, wrap(np.array([0, 0, 1])), draw(3)),
        call(draw(3, 2), 0, wrap(np.array([1, 1])), draw(2, 2), alpha=2.5),
    ],
    inplace=True,
)  # fmt: skip
def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    """Add slices of a source to those that the index names.

    >>> import pellucid as torch
    >>> torch.zeros(3).index_add(0, torch.tensor([0, 0, 2]), torch.tensor([1.0, 2.0, 3.0]))
    tensor([3., 0., 3.])
    """
    tensor, axis, places = _line(input, dim, index, "index_add", RuntimeError)
    _check_source("index_add", input, axis, places, source)
    source = source if source.ndim else unsqueeze_row(source, (1,))
    added = index_add_row(tensor, places, source if alpha == 1 else source * alpha, (axis,), True)
    return added if input.ndim else reshape(added, ())


@operation(samples=_source_samples, inplace=True)
def index_copy(input: Any, dim: int, index: Any, source: Any) -> Any:
    """Replace the slices that the index names by those of a source.

    >>> import pellucid as torch
    >>> torch.zeros(3).index_copy(0, torch.tensor([2, 0]), torch.tensor([1.0, 2.0]))
    tensor([2., 0., 1.])
    """
    tensor, axis, places = _line(input, dim, index, "index_copy")
    source = source if source.ndim else unsqueeze_row(source, (1,))
    _check_source("index_copy", tensor, axis, places, source)
    copied = index_copy_row(tensor, places, source, (axis,), False)
    return copied if input.ndim else reshape(copied, ())


@operation(
    samples=lambda draw: [
        call(draw(3, 2), 0, draw.integers(2), 1.5), call(draw(2, 3), 1, draw.integers(2), draw()),
        call(draw(3), -1, draw.integers(0), 0.0), call(draw(2, 3, 2), 1, draw.integers(4), 2),
        call(draw(), 0, wrap(np.array([0])), 1.0), call(draw(3), 0, draw.integers(), draw()),
        call(draw(2, 3).mT, 0, draw.integers(2), -1.0), call(draw(3, 0), 0, draw.integers(2), 1.0),
        call(draw(2, 3), -1, draw.integers(3), draw()), call(draw(1), 0, wrap(np.array([0, 0])), 3),
    ],
    inplace=True,
)  # fmt: skip
def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    """Fill the slices that the index names with one value.

    >>> import pellucid as torch
    >>> torch.zeros(3).index_fill(0, torch.tensor([1]), 5.0)
    tensor([0., 5., 0.])
    """
    tensor, axis, places = _line(input, dim, index, "index_fill", from_the_end=True)
    if isinstance(value, complex) and tensor.array.dtype.kind != "c":
        raise refusal(RuntimeError, "index_fill_(): Converting complex Scalar to non-complex type is not supported")
    number = fill_value(tensor, value, "index_fill_")
    size = tensor.shape[axis]
    along = tuple(size if i == axis else 1 for i in range(tensor.ndim))
    filled = index_fill_row(tensor, reshape_row(named_row(places, size), along), number)
    return filled if input.ndim else reshape(filled, ())


@operation(
    samples=lambda draw: [
        call(draw(3, 2), draw.integers(4)), call(draw(3, 2), draw.integers(2, 2)), call(draw(3), draw.integers()),
        call(draw(3), draw.integers(0)), call(draw(2, 2), wrap(np.array([-1, 3]))), call(draw(), wrap(np.array(0))),
        call(draw(), wrap(np.array([0, 0]))), call(draw(2, 3).mT, draw.integers(3, high=6)),
        call(draw(2, 1, 3), draw.integers(2, 1, high=6)), call(draw(1), wrap(np.array([[0, 0]]))),
    ],
)  # fmt: skip
def take(input: Any, index: Any) -> Any:
    """Elements by their number in the flattened tensor.

    >>> import pellucid as torch
    >>> torch.tensor([[1, 2], [3, 4]]).take(torch.tensor([0, 3]))
    tensor([1, 4])
    """
    count = math.prod(input.shape)
    _check_range(index_of(index, "take"), 0, count, IndexError, -count)
    return take_row(reshape(input, (count,)), index, (0,))


@operation(
    samples=lambda draw: [
        call(draw(2, 3), wrap(np.array([1, 4])), draw(2)), call(draw(3), wrap(np.array([0, 0])), draw(2), True),
        call(draw(4), wrap(np.array([[3], [1]])), draw(2, 1)), call(draw(), wrap(np.array(0)), draw()),
        call(draw(2, 3), wrap(np.array([-1, 0])), draw(2)),
        call(draw(2, 3), wrap(np.array([-1, 5])), draw(2), accumulate=True),
        call(draw(3), wrap(np.zeros(0, np.int64)), draw(0)), call(draw(2, 3).mT, wrap(np.array([1, 4])), draw(2)),
        call(draw(2, 2), wrap(np.array([0, 3])), draw(2), False),
        call(draw(2, 1, 2), wrap(np.array([2, 2, 1])), draw(3), True),
    ],
    inplace=True, unclaimed=COMPOSED,
)  # fmt: skip
def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """The tensor with elements, by their number in the flattened tensor, replaced by (or increased by) a source.

    >>> import pellucid as torch
    >>> torch.zeros(2, 2).put(torch.tensor([3]), torch.tensor([1.0]))
    tensor([[0., 0.],
            [0., 1.]])
    """
    count, shape = math.prod(input.shape), tuple(input.shape)
    _check_range(index_of(index, "put_"), 0, count, IndexError, -count)
    values = reshape(same_dtype(input, source), tuple(index.shape))
    return reshape(index_put_row(reshape(input, (count,)), index, values, (0,), bool(accumulate)), shape)


# --- elements along a dimension


def lengthwise_index(input: Any, dim: int, index: Any, name: str, src: Any = None) -> tuple[int, Any]:
    """Check the arguments of gather and scatter: the axis and the index with as many dimensions as the tensor."""
    index = index_of(index, name)
    axis = axis_of(dim, input.ndim)
    if index.array.size == 0 and (index.ndim or 1) != (input.ndim or 1):
        # PyTorch asks nothing of an index that names nothing; gather's result has its shape
        return axis, index if name == "gather" else reshape_row(index, (0,) * (input.ndim or 1))
    if (index.ndim or 1) != (input.ndim or 1):
        raise refusal(
            RuntimeError,
            f"{name}(): Index tensor must have the same number of dimensions as "
            f"{'input' if name == 'gather' else 'self'} tensor",
            f"the index has shape {tuple(index.shape)}, the tensor {tuple(input.shape)}",
        )
    if src is not None and (src.ndim or 1) != (index.ndim or 1):
        text = f"{name}(): Index tensor must have the same number of dimensions as src tensor"
        raise refusal(RuntimeError, text, f"the index has shape {tuple(index.shape)}, the source {tuple(src.shape)}")
    for other, n in enumerate(index.shape if index.ndim and input.ndim else ()):
        room = math.inf if src is None else src.shape[other] if src.ndim else 1
        if (other != axis and n > input.shape[other]) or n > room:
            raise refusal(
                RuntimeError,
                f"Size does not match at dimension {other} expected index {list(index.shape)} to be no larger than "
                f"self {list(input.shape)} apart from dimension {axis}",
            )
    _check_range(index, axis, input.shape[axis] if input.ndim else 1, RuntimeError)
    return axis, index


def lines(*tensors: Any) -> list[Any]:
    """0-d tensors as vectors: the rows below want at least one dimension."""
    return [x if x.ndim else unsqueeze_row(x, (1,)) for x in tensors]


@operation(
    samples=lambda draw: [
        call(draw(3, 2), 0, draw.integers(2, 2)), call(draw(2, 3), 1, draw.integers(2, 4)),
        call(draw(3), 0, draw.integers(5)), call(draw(2, 3), -1, draw.integers(1, 2)),
        call(draw(3, 2, 2), 0, draw.integers(1, 2, 1)), call(draw(3), 0, draw.integers(0)),
        call(draw(), 0, wrap(np.array(0))), call(draw(2, 3).mT, 0, draw.integers(3, 2)),
        call(draw(3), -1, wrap(np.array(2))), call(draw(2, 3, 4), 1, draw.integers(2, 2, 4)),
        call(draw(3, 0), 0, draw.integers(2, 0)),
    ],
)  # fmt: skip
def gather(input: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    """Elements that an index tensor names along a dimension, one per element of the index.

    >>> import pellucid as torch
    >>> torch.gather(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([[0], [1]]))
    tensor([[1],
            [4]])
    """
    axis, index = lengthwise_index(input, dim, index, "gather")
    if index.array.size == 0:
        return reshape(slice_row(reshape(input, (-1,)), (slice(0, 0),)), tuple(index.shape))
    tensor, places = lines(input, index)
    found = take_along_row(tensor, places, axis)
    return found if index.ndim else reshape(found, ())


@operation(
    samples=lambda draw: [
        call(draw(3, 2), draw.integers(2, 2), 0), call(draw(2, 3), draw.integers(2, 1), 1),
        call(draw(3, 2), draw.integers(1, 2), 0), call(draw(2, 3), draw.integers(4)),
        call(draw(2, 1), draw.integers(1, 3, high=2), 0), call(draw(3), draw.integers(5), 0),
        call(draw(3), draw.integers(2), -1), call(draw(1, 3), draw.integers(2, 2), 1),
        call(draw(2, 3).mT, draw.integers(1, 2), 0), call(draw(2, 3, 2), draw.integers(2, 1, 2), dim=1),
    ],
)  # fmt: skip
def take_along_dim(input: Any, indices: Any, dim: Any = None) -> Any:
    """Like gather, but the other dimensions broadcast.

    >>> import pellucid as torch
    >>> x = torch.tensor([[3, 1, 2]])
    >>> x.take_along_dim(x.argsort(dim=1), 1)
    tensor([[1, 2, 3]])
    """
    if indices.array.dtype != np.int64:
        what = f"torch.take_along_dim(): dtype of indices should be Long but got {name_of(indices)}"
        raise refusal(RuntimeError, what, try_="indices.long()")
    if dim is None:
        return take_along_dim(reshape(input, (-1,)), reshape(indices, (-1,)), 0)
    axis = axis_of(dim, input.ndim)
    if input.ndim != indices.ndim:
        raise refusal(
            RuntimeError,
            f"torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{input.ndim} dimensions for input, and {indices.ndim} dimensions for indices",
        )
    shape = [max(n, m) if 0 not in (n, m) else 0 for n, m in zip(input.shape, indices.shape, strict=True)]
    wide = expand_row(input, tuple(input.shape[axis] if i == axis else n for i, n in enumerate(shape)))
    places = expand_row(indices, tuple(indices.shape[axis] if i == axis else n for i, n in enumerate(shape)))
    return gather(wide, axis, places + (places < 0) * input.shape[axis])  # -1 is the last, unlike in gather
