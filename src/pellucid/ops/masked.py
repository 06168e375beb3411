"""Masks: masked_fill, masked_select, masked_scatter, and nonzero, which turns a mask into indices.

A mask chooses elements by value, so the shape of a selection depends on it. Gradients go where the mask let values
through, and zeros elsewhere.
"""

import math
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core.attributes import concrete
from pellucid.core.primitive import constant, multilinear
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor
from pellucid.ops.arguments import Row, Shape, refusal
from pellucid.ops.expand import broadcast, expand_row
from pellucid.ops.fill import fill_value
from pellucid.ops.operation import READS_VALUES, broadcast_hint, call, operation
from pellucid.ops.select import drop, keep
from pellucid.ops.shape import aligned, reshape_row, unsqueeze_row
from pellucid.ops.slicing import jointly_linear, unslice_row
from pellucid.ops.split import unbind


def _masked_fill(a: ndarray, mask: ndarray, value: ndarray) -> ndarray:
    shape = a.shape if a.shape == mask.shape else np.broadcast_shapes(a.shape, mask.shape)
    out = np.array(broadcast(a, shape), order="C")
    np.copyto(out, value, "unsafe", where=mask)
    return out


def _fill_batch(op: Row, a: Any, mask: Any, value: Any) -> Any:
    rank = max(a.ndim, mask.ndim) - 1
    return op(aligned(a, rank), aligned(mask, rank), aligned(value, rank))


def filling(name: str, grad_name: str) -> Row:
    """A row (a, mask, value): a with the value where the mask is true."""
    return bind(
        jointly_linear(
            name, _masked_fill, lambda g, b: drop(g, b), None, lambda g, b: keep(g, b),
            grad_name=grad_name, batch=_fill_batch,
        )
    )  # fmt: skip


masked_fill_row = filling("masked_fill", "MaskedFillBackward0")
masked_fill_by_tensor_row = filling("masked_fill_by_tensor", "MaskedFillBackward1")


def _masked_put(g: ndarray, mask: ndarray, shape: Shape) -> ndarray:
    out = np.zeros(shape, g.dtype)
    out[mask] = g
    return out


def selecting(name: str, grad_name: str) -> Row:
    """A row (a, mask): the elements (or slices) of a where the mask is true, one after the other."""
    return bind(
        multilinear(
            name, lambda a, mask: a[mask], lambda g, b, a_shape: masked_put_row(g, b, a_shape), None,
            grad_name=grad_name,
        )
    )  # fmt: skip


masked_select_row = selecting("masked_select", "MaskedSelectBackward0")
index_mask_row = selecting("index_mask", "IndexBackward0")
masked_put_row = bind(multilinear("masked_put", _masked_put, lambda g, b, shape: index_mask_row(g, b), None))


def _masked_scatter(a: ndarray, mask: ndarray, source: ndarray) -> ndarray:
    out = a.copy()
    out[mask] = source.reshape(-1)[: np.count_nonzero(mask)]
    return out


def _used(g: Any, mask: Any, shape: Shape) -> Any:
    """The gradient of a masked_scatter's source: what was used of it, then zeros."""
    used = masked_select_row(g, mask)
    return reshape_row(unslice_row(used, (math.prod(shape),), (slice(0, used.shape[0]),)), shape)


masked_scatter_row = bind(
    jointly_linear(
        "masked_scatter", _masked_scatter,
        lambda g, b: drop(g, b), None, lambda g, b, c_shape: _used(g, b, c_shape),
    )
)  # fmt: skip

nonzero_row = bind(constant("nonzero", lambda a: np.stack(a.nonzero()).T if a.ndim else _nonzero_of_number(a), 1))


def _nonzero_of_number(a: ndarray) -> ndarray:
    return np.zeros((int(bool(a)), 0), np.int64)


def is_mask(item: Any) -> bool:
    """Whether something is a tensor of truth values."""
    return isinstance(item, Tensor) and np.dtype(item.array.dtype).kind == "b"


# --- the operations


def _mask_of(mask: Any, name: str) -> Any:
    if not is_mask(mask):
        shown = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise refusal(
            RuntimeError, f"{name} only supports boolean masks, but got mask with dtype {shown}", try_="compare first"
        )
    return mask


@operation(
    samples=lambda draw: [
        call(draw(2, 3), draw.mask(2, 3), 1.5), call(draw(2, 3), draw.mask(3), 0.0),
        call(draw(3), draw.mask(2, 3), 2.0), call(draw(2, 3), draw.mask(2, 1), draw()),
        call(draw(), draw.mask(), 1.0), call(draw(0), draw.mask(0), 1.0), call(draw(2, 3), draw.mask(), -1.0),
        call(draw(2, 1), draw.mask(1, 3), draw()), call(draw(3, 2).mT, draw.mask(2, 3), 2),
        call(draw(), draw.mask(2), draw()),
    ],
    inplace=True,
    tensors=2,
)  # fmt: skip
def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """The tensor with one value wherever the mask is true.

    >>> import pellucid as torch
    >>> torch.ones(2).masked_fill(torch.tensor([True, False]), 0.0)
    tensor([0., 1.])
    """
    row = masked_fill_by_tensor_row if isinstance(value, Tensor) else masked_fill_row
    return row(input, _mask_of(mask, "masked_fill"), fill_value(input, value, "masked_fill_"))


masked_fill_ = Tensor.masked_fill_  # type: ignore[attr-defined]


def _together(input: Any, mask: Any) -> tuple[Any, Any]:
    """A tensor and a mask in their common shape."""
    why, try_ = broadcast_hint([tuple(input.shape), tuple(mask.shape)], ())
    if why is not None:
        raise refusal(RuntimeError, why[0].upper() + why[1:], try_=try_)
    shape = np.broadcast_shapes(tuple(input.shape), tuple(mask.shape))
    return expand_row(input, shape), expand_row(mask, shape)


@operation(
    samples=lambda draw: [
        call(draw(2, 3), draw.mask(2, 3)), call(draw(2, 3), draw.mask(3)), call(draw(3), draw.mask(2, 3)),
        call(draw(), draw.mask(3)), call(draw(0), draw.mask(0)), call(draw(), draw.mask()),
        call(draw(2, 1), draw.mask(1, 3)), call(draw(3, 2).mT, draw.mask(2, 3)), call(draw(4), draw.mask()),
        call(draw(2, 0), draw.mask(2, 1)),
    ], unclaimed=READS_VALUES,
    tensors=2,
)  # fmt: skip
def masked_select(input: Any, mask: Any) -> Any:
    """The elements where the mask is true, one after the other.

    >>> import pellucid as torch
    >>> torch.masked_select(torch.tensor([1, 2, 3]), torch.tensor([True, False, True]))
    tensor([1, 3])
    """
    if not is_mask(mask):
        raise refusal(RuntimeError, "masked_select: expected BoolTensor for mask", try_="compare first")
    return masked_select_row(*_together(input, mask))


@operation(
    samples=lambda draw: [
        call(draw(2, 3), draw.mask(2, 3), draw(6)), call(draw(2, 3), draw.mask(3), draw(2, 3)),
        call(draw(3), draw.mask(3), draw(5)), call(draw(), draw.mask(), draw(2)),
        call(draw(0), draw.mask(0), draw(0)), call(draw(2, 3), draw.mask(2, 1), draw(3, 2)),
        call(draw(2, 3), draw.mask(), draw(6)), call(draw(3, 2).mT, draw.mask(2, 3), draw(7)),
        call(draw(1), draw.mask(1), draw(1)), call(draw(2, 1, 3), draw.mask(1, 3), draw(2, 3)),
    ],
    inplace=True, unclaimed=READS_VALUES,
    tensors=2,
)  # fmt: skip
def masked_scatter(input: Any, mask: Any, source: Any) -> Any:
    """The tensor with the elements where the mask is true replaced by those of a source, in order.

    >>> import pellucid as torch
    >>> torch.zeros(3).masked_scatter(torch.tensor([True, False, True]), torch.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """
    if source.array.dtype != input.array.dtype:
        raise refusal(
            RuntimeError,
            f"masked_scatter: expected self and source to have same dtypes but got {input.dtype} and {source.dtype}",
        )
    tensor, mask = _together(input, _mask_of(mask, "masked_scatter"))
    needed = np.count_nonzero(concrete(mask, "masked_scatter"))
    if needed > math.prod(source.shape):
        raise refusal(
            RuntimeError,
            f"Number of elements of source < number of ones in mask ({math.prod(source.shape)} < {needed})",
        )
    return masked_scatter_row(tensor, mask, source)


@operation(
    samples=lambda draw: [
        call(draw.integers(2, 3)), call(draw.mask(4)), call(draw.integers(3), as_tuple=True), call(draw.mask(0)),
        call(draw.mask()), call(draw.integers(2, 0)), call(draw.mask(2, 3), as_tuple=True),
        call(draw.integers(3, 2).mT), call(draw(2, 2)), call(draw.integers(1), as_tuple=True),
    ], unclaimed=READS_VALUES,
)  # fmt: skip
def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """The indices of the elements that are not zero: one row each, or one tensor per dimension.

    >>> import pellucid as torch
    >>> torch.nonzero(torch.tensor([0, 3, 0, 4]))
    tensor([[1],
            [3]])
    """
    if as_tuple:
        return tuple(unbind(nonzero_row(input if input.ndim else unsqueeze_row(input, (1,))), 1))
    return nonzero_row(input)


@operation(
    samples=lambda draw: [
        call(draw.integers(2, 3)), call(draw.mask(4)), call(draw.mask()), call(draw.mask(0)),
        call(draw.integers(2, 0)), call(draw.integers(3, 2).mT), call(draw(2, 2)), call(draw.integers(1)),
        call(draw.mask(2, 1, 3)), call(draw.integers()),
    ], unclaimed=READS_VALUES,
)  # fmt: skip
def argwhere(input: Any) -> Any:
    """The indices of the elements that are not zero, one row each.

    >>> import pellucid as torch
    >>> torch.argwhere(torch.tensor([0, 3]))
    tensor([[1]])
    """
    return nonzero_row(input)
