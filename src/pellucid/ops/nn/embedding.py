"""Embeddings: rows of a table picked by their number, and numbers as rows of zeros with a single one.

The gradient of a table is dense, of the table's size, also with `sparse=True`: there are no sparse tensors here. The
rows of a gradient that belong to one row of the table are added up by `add_rows` (flat_index.py), a sparse product:
8192 rows of 128 into a table of 10 000 take 0.6 ms, PyTorch on one core 2.4.
"""

from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core import modes
from pellucid.core.kinds import Kind
from pellucid.core.primitive import constant, multilinear
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor, wrap
from pellucid.ops.arguments import Shape, as_int, expect, name_of, refusal
from pellucid.ops.flat_index import index_batch, index_row, put_add_row
from pellucid.ops.operation import READS_VALUES, Draw, Sample, call, operation
from pellucid.ops.picked import note_picked

# --- the rows: (table, index, padding, by_frequency); a padding of -1 is none


def _weigh(table: ndarray, b: ndarray, padding: int, by_frequency: bool) -> ndarray:
    """Divide each row of a gradient by how often it was picked, and zero the row of padding; in place."""
    if by_frequency:
        table /= np.maximum(np.bincount(b.reshape(-1), minlength=len(table)), 1)[:, None].astype(table.dtype)
    if padding >= 0:
        table[padding] = 0
    return table


def _back(g: ndarray, b: ndarray, shape: Shape, padding: int, by_frequency: bool) -> ndarray:
    return _weigh(put_add_row(g, b, (0,), shape), b, padding, by_frequency)


embedding_row = bind(
    multilinear(
        "embedding", lambda a, b, padding, by_frequency: a.take(b, 0),
        lambda g, b, a_shape, padding, by_frequency: embedding_back_row(g, b, a_shape, padding, by_frequency), None,
        batch=lambda op, a, b, padding, by_frequency: index_batch(index_row, a, b, (0,)),
    )
)  # fmt: skip
embedding_back_row = bind(
    multilinear(
        "embedding_back", _back,
        lambda g, b, shape, padding, by_frequency: embedding_weighed_row(g, b, padding, by_frequency), None,
        grad_name="EmbeddingDenseBackwardBackward0",
    )
)  # fmt: skip
embedding_weighed_row = bind(  # the adjoint of embedding_back: weigh first, then pick
    multilinear(
        "embedding_weighed", lambda a, b, padding, by_frequency: _weigh(a.copy(), b, padding, by_frequency).take(b, 0),
        lambda g, b, a_shape, padding, by_frequency: embedding_back_row(g, b, a_shape, padding, by_frequency), None,
        grad_name="EmbeddingBackward0",
    )
)  # fmt: skip


# --- arguments


def check_index(name: str, index: Any, count: int, error: type[Exception], what: str) -> Any:
    """An index of integers from 0 to count - 1; under a capture the values are not for Python to look at."""
    if not isinstance(index, Tensor) or index.array.dtype.char not in "ilq":
        given = f"torch.{name_of(index)}Tensor" if isinstance(index, Tensor) else type(index).__name__
        raise refusal(
            RuntimeError,
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"{given} instead (while checking arguments for {name})",
            try_="index.long()",
        )
    array = index.array
    if type(array) is ndarray and array.size:
        unsigned = array.view(f"u{array.itemsize}")  # a negative number is a very large one: one pass finds both ends
        if np.maximum.reduce(unsigned, None) >= count:
            given = f"the index goes from {array.min()} to {array.max()}"
            raise refusal(error, what, f"{given}, the table has {count} rows")
    return index


def padding_of(padding_idx: Any, count: int, error: type[Exception]) -> int:
    """The row of padding counted from the front; -1 for none."""
    if padding_idx is None:
        return -1
    padding = as_int(padding_idx)
    if not -count <= padding < count:
        what = "Padding_idx must be within num_embeddings"
        raise refusal(error, f"{what}: padding_idx must be within the number of embeddings, got {padding} of {count}")
    return padding % count


def renormalise(weight: Any, index: Any, max_norm: float, norm_type: float) -> None:
    """Scale down, in place, the picked rows of a table whose norm is too large, as PyTorch does before it looks up."""
    rows = np.unique(index.array)
    if isinstance(weight.array, Kind):  # the values themselves are scaled; a tangent stays as it is
        weight = wrap(weight.array.concrete("embedding with max_norm"))
    with modes.no_grad():
        picked = weight.array.take(rows, 0)
        norms = np.linalg.norm(picked.astype(np.float64), norm_type, axis=1)
        large = norms > max_norm
        if large.any():
            scaled = picked[large] * (max_norm / (norms[large] + 1e-7))[:, None]
            weight.index_copy_(0, wrap(rows[large]), wrap(scaled.astype(picked.dtype)))


# --- what users call

WHY = "padding_idx and scale_grad_by_freq change the gradient on purpose, as in PyTorch"
ON_PURPOSE = {"gradient_equals_differences": WHY, "forward_mode_is_the_adjoint": WHY}


def _samples(draw: Draw) -> list[Sample]:
    return [
        call(draw.integers(4), draw(3, 2)), call(draw.integers(2, 3), draw(4, 2)), call(draw.integers(), draw(3, 2)),
        call(draw.integers(5), draw(3, 2), padding_idx=1), call(draw.integers(2, 4), draw(3, 2), padding_idx=-1),
        call(draw.integers(6), draw(3, 2), scale_grad_by_freq=True), call(draw.integers(0), draw(3, 2)),
        call(draw.integers(5), draw(3, 2), 0, scale_grad_by_freq=True),
    ]  # fmt: skip


@operation(module="torch.nn.functional", samples=_samples, unclaimed=ON_PURPOSE, tensors=2)
def embedding(
    input: Any, weight: Any, padding_idx: int | None = None, max_norm: float | None = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Any:  # fmt: skip
    """Rows of a table: for each number of the input the row of that number.

    The row of `padding_idx` gets no gradient. Picked rows longer than `max_norm` are scaled down, in the table itself.
    The gradient is dense, also with `sparse=True`; which rows it is for is noted beside it, for `SparseAdam`.

    >>> import pellucid as torch
    >>> table = torch.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    >>> torch.nn.functional.embedding(torch.tensor([2, 0]), table)
    tensor([[4., 5.],
            [0., 1.]])
    """
    table = weight.array.shape
    expect(len(table) == 2, "'weight' must be 2-D")
    count = table[0]
    padding = padding_of(padding_idx, count, AssertionError)
    index = check_index("embedding", input, count, IndexError, "index out of range in self")
    if max_norm is not None:
        renormalise(weight, index, max_norm, norm_type)
    rows = embedding_row(weight, index, padding, bool(scale_grad_by_freq))
    if sparse:
        note_picked(weight, index, padding, rows)
    return rows


@operation(
    methods=(), name="embedding", unclaimed=ON_PURPOSE,
    samples=lambda draw: [
        call(draw(3, 2), draw.integers(4)), call(draw(3, 2), draw.integers(2, 3), 1),
        call(draw(3, 2), draw.integers(5), -1, True), call(draw(4, 1), draw.integers(2, 2), padding_idx=0),
    ],
)  # fmt: skip
def embedding_of(
    weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Any:
    """Rows of a table; the low-level form of torch.nn.functional.embedding, in which a padding of -1 means none.

    >>> import pellucid as torch
    >>> torch.embedding(torch.tensor([[0.0], [1.0]]), torch.tensor([1]))
    tensor([[1.]])
    """
    return embedding(
        indices, weight, None if padding_idx < 0 else padding_idx, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse
    )


# --- numbers as rows with a single one


def _one_hot(a: ndarray, classes: int) -> ndarray:
    return (a[..., None] == np.arange(classes)).astype(np.int64)


one_hot_row = bind(constant("one_hot", _one_hot, 1, batch=lambda op, a, classes: op(a, classes)))


@operation(
    module="torch.nn.functional", unclaimed=READS_VALUES,
    samples=lambda draw: [
        call(draw.integers(4)), call(draw.integers(2, 3), 5), call(draw.integers(), 3), call(draw.integers(0), 2),
        call(draw.integers(2, 1, 2), num_classes=3), call(draw.integers(6), -1),
    ],
)  # fmt: skip
def one_hot(input: Any, num_classes: int = -1) -> Any:
    """A row per number, zero but for a one at the place of that number; int64.

    >>> import pellucid as torch
    >>> torch.nn.functional.one_hot(torch.tensor([0, 2]))
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    if input.array.dtype != np.int64:
        what = "one_hot is only applicable to index tensor of type LongTensor."
        raise refusal(RuntimeError, what, f"the dtype is {input.dtype}", "x.long()")
    array = input.array
    if num_classes == -1:
        expect(array.size > 0, "Can not infer total number of classes from empty tensor.")
        values = wrap(array).detach().numpy() if type(array) is not ndarray else array
        num_classes = int(values.max()) + 1
    if type(array) is ndarray and array.size:
        expect(int(array.min()) >= 0, "Class values must be non-negative.")
        largest = int(array.max())
        expect(
            largest < num_classes, "Class values must be smaller than num_classes.",
            f"the largest is {largest}, num_classes is {num_classes}",
        )  # fmt: skip
    expect(num_classes > 0, "num_classes should be positive")
    return one_hot_row(input, int(num_classes))
