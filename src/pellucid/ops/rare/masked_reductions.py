"""torch.masked: reductions and normalisations that leave out the elements where a mask is false.

What is left out is replaced by a value that does not count: 0 in a sum, 1 in a product, minus infinity for the
largest. The mask is broadcast to the tensor; without one nothing is left out.
"""

import math
from collections.abc import Callable
from typing import Any

from pellucid import dtypes
from pellucid.core.flags import Truth
from pellucid.ops import extremes, quantiles, reduce, scan
from pellucid.ops import norm as norms
from pellucid.ops import softmax as shares
from pellucid.ops.arguments import axis_of, refusal
from pellucid.ops.convert import as_type
from pellucid.ops.elementwise import logaddexp as log_of_sum
from pellucid.ops.elementwise import sqrt
from pellucid.ops.expand import broadcast_to
from pellucid.ops.masked import masked_fill
from pellucid.ops.operation import COMPOSED, Draw, Sample, call, operation
from pellucid.ops.reduce import count_along, normal
from pellucid.ops.select import clamp_min

MODULE = "torch.masked"


# --- what does not count


def _mask_of(input: Any, mask: Any) -> Any:
    """The mask in the tensor's shape, as truth values."""
    if mask.ndim > input.ndim:
        what = "_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)"
        raise refusal(IndexError, what, f"the mask has {mask.ndim} dimensions, the tensor {input.ndim}")
    return as_type(broadcast_to(mask, tuple(input.shape)), dtypes.bool_)


def _without(input: Any, mask: Any, value: Any) -> Any:
    """The tensor with a value (or what a function of the tensor gives) where the mask is false."""
    if mask is None:
        return input
    return masked_fill(input, ~_mask_of(input, mask), value(input) if callable(value) else value)


def _smallest(input: Any) -> float:
    """No element is smaller."""
    return -math.inf if _is_floating(input.dtype) else _limits(input).min


def _largest(input: Any) -> float:
    """No element is larger."""
    return math.inf if input.dtype.is_floating_point else _limits(input).max


def _limits(input: Any) -> Any:
    if input.dtype == dtypes.bool_:
        raise refusal(NotImplementedError, f"identity of the largest and smallest on {input.dtype} input")
    return dtypes.iinfo(input.dtype)


def _is_floating(dtype: Any) -> bool:
    return bool(dtype.is_floating_point or dtype.is_complex)


# --- samples


def _mask(draw: Draw, *shape: int) -> Any:
    """A mask that leaves two elements of every row and one of every column."""
    mask = draw.mask(*shape)
    mask.array[..., :2] = mask.array[..., :1, :] = True
    return mask


def _masked(draw: Draw, *args: Any) -> list[Sample]:
    """A tensor with a mask of its shape, one that is broadcast, and none."""
    return [
        call(draw(2, 3), *args, mask=_mask(draw, 2, 3)), call(draw(2, 3), *args, mask=_mask(draw, 1, 3)[0]),
        call(draw(3, 2).mT, *args),
    ]  # fmt: skip


def _reductions(draw: Draw) -> list[Sample]:
    return [
        *_masked(draw), *_masked(draw, 1), call(draw(2, 3, 4), (0, -1), mask=_mask(draw, 2, 3, 4), keepdim=True),
        call(draw(2, 3, 4), 2, mask=_mask(draw, 2, 3, 4)),
    ]  # fmt: skip


def _lines(draw: Draw) -> list[Sample]:
    return [*_masked(draw, 1), *_masked(draw, -2)]


INFINITE = {**COMPOSED, "second_order_equals_torch": "where a result is infinite PyTorch's is NaN, or not compared"}


def _published(samples: Callable[[Draw], list[Sample]], unclaimed: dict[str, str] = COMPOSED) -> Callable[..., Any]:
    return operation(samples=samples, module=MODULE, unclaimed=unclaimed)


# --- sums, products, means


@_published(_reductions)
def sum(input: Any, dim: Any = None, *, keepdim: Truth = False, dtype: Any = None, mask: Any = None) -> Any:
    """Sum of the elements where the mask is true.

    >>> import pellucid as torch
    >>> torch.masked.sum(torch.tensor([1.0, 2.0, 3.0]), mask=torch.tensor([True, False, True]))
    tensor(4.)
    """
    return reduce.sum(_without(input, mask, 0), dim, bool(keepdim), dtype=dtype)


@_published(_reductions)
def prod(input: Any, dim: Any = None, *, keepdim: Truth = False, dtype: Any = None, mask: Any = None) -> Any:
    """Product of the elements where the mask is true.

    >>> import pellucid as torch
    >>> torch.masked.prod(torch.tensor([2.0, 5.0, 3.0]), mask=torch.tensor([True, False, True]))
    tensor(6.)
    """
    result = as_type(_without(input, mask, 1), dtype)
    for axis in sorted(normal(dim, input.ndim), reverse=True):
        result = reduce.prod(result, axis, bool(keepdim))
    return result if _is_floating(result.dtype) or dtype is not None else as_type(result, dtypes.int64)


@_published(_reductions)
def mean(input: Any, dim: Any = None, *, keepdim: Truth = False, dtype: Any = None, mask: Any = None) -> Any:
    """Mean of the elements where the mask is true; NaN where there are none.

    >>> import pellucid as torch
    >>> torch.masked.mean(torch.tensor([1.0, 2.0, 3.0]), mask=torch.tensor([True, False, True]))
    tensor(2.)
    """
    wanted = input.dtype if dtype is None else dtype
    if not _is_floating(wanted):
        source = "Input" if dtype is None else "Optional"
        what = f"mean(): Could not infer output dtype. {source} dtype must be either a floating point or complex dtype."
        raise refusal(ValueError, f"{what} Got: {wanted}", try_="dtype=torch.float32")
    total = sum(input, dim, keepdim=keepdim, dtype=wanted, mask=mask)
    return total / _count(input, dim, keepdim, mask)


def _count(input: Any, dim: Any, keepdim: bool, mask: Any) -> Any:
    """How many elements are counted: a number, or with a mask a tensor."""
    if mask is None:
        return count_along(tuple(input.shape), normal(dim, input.ndim))
    return reduce.sum(_mask_of(input, mask), dim, bool(keepdim))


# --- the largest, the smallest, the middle one


@_published(_reductions)
def amax(input: Any, dim: Any = None, *, keepdim: Truth = False, dtype: Any = None, mask: Any = None) -> Any:
    """The largest of the elements where the mask is true.

    >>> import pellucid as torch
    >>> torch.masked.amax(torch.tensor([1.0, 9.0, 3.0]), mask=torch.tensor([True, False, True]))
    tensor(3.)
    """
    return as_type(extremes.amax(_without(input, mask, _smallest), normal(dim, input.ndim), bool(keepdim)), dtype)


@_published(_reductions)
def amin(input: Any, dim: Any = None, *, keepdim: Truth = False, dtype: Any = None, mask: Any = None) -> Any:
    """The smallest of the elements where the mask is true.

    >>> import pellucid as torch
    >>> torch.masked.amin(torch.tensor([1.0, -9.0, 3.0]), mask=torch.tensor([True, False, True]))
    tensor(1.)
    """
    return as_type(extremes.amin(_without(input, mask, _largest), normal(dim, input.ndim), bool(keepdim)), dtype)


@_published(lambda draw: [*_masked(draw), *_lines(draw)])
def argmax(input: Any, dim: int | None = None, *, keepdim: Truth = False, dtype: Any = None, mask: Any = None) -> Any:
    """Where the largest of the elements is that the mask leaves, in the dtype of the tensor unless another is given.

    >>> import pellucid as torch
    >>> torch.masked.argmax(torch.tensor([1.0, 9.0, 3.0]), mask=torch.tensor([True, False, True]))
    tensor(2.)
    """
    found = extremes.argmax(_without(input, mask, _smallest), dim, bool(keepdim))
    return as_type(found, input.dtype if dtype is None else dtype)


@_published(lambda draw: [*_masked(draw), *_lines(draw)])
def argmin(input: Any, dim: int | None = None, *, keepdim: Truth = False, dtype: Any = None, mask: Any = None) -> Any:
    """Where the smallest of the elements is that the mask leaves, in the dtype of the tensor unless another is given.

    >>> import pellucid as torch
    >>> torch.masked.argmin(torch.tensor([4.0, -9.0, 3.0]), mask=torch.tensor([True, False, True]))
    tensor(2.)
    """
    found = extremes.argmin(_without(input, mask, _largest), dim, bool(keepdim))
    return as_type(found, input.dtype if dtype is None else dtype)


@_published(_lines)
def median(input: Any, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The middle one of the elements where the mask is true; NaN where there are none.

    >>> import pellucid as torch
    >>> torch.masked.median(torch.tensor([1.0, 9.0, 3.0]), mask=torch.tensor([True, False, True]))
    tensor(1.)
    """
    floating = input.dtype.is_floating_point
    numbers = _without(input if floating else as_type(input, dtypes.float32), mask, math.nan)
    found = quantiles.nanmedian(numbers, axis_of(dim, input.ndim), bool(keepdim))[0]
    if floating:
        return found
    if bool((found != found).any()):
        raise refusal(ValueError, "masked median expects no fully masked out rows if dtype is not floating point")
    return as_type(found, input.dtype if dtype is None else dtype)


# --- spread


@_published(lambda draw: [*_reductions(draw), *_masked(draw, 1, False), call(draw(4), correction=2)])
def var(
    input: Any, dim: Any = None, unbiased: Truth = None, *, correction: Any = None, keepdim: Truth = False,
    dtype: Any = None, mask: Any = None,
) -> Any:  # fmt: skip
    """Variance of the elements where the mask is true.

    >>> import pellucid as torch
    >>> torch.masked.var(torch.tensor([1.0, 9.0, 3.0]), mask=torch.tensor([True, False, True]))
    tensor(2.)
    """
    if unbiased is not None and correction is not None:
        raise refusal(AssertionError, "Only one of unbiased and correction may be given")
    freedom = correction if correction is not None else 1 if unbiased is None else int(unbiased)
    kind = input.dtype if dtype is None else dtype
    wide = kind if _is_floating(kind) else dtypes.float32
    count = _count(input, dim, True, mask)
    deviation = input - sum(input, dim, keepdim=True, dtype=wide, mask=mask) / count
    total = sum(deviation * deviation.conj(), dim, keepdim=keepdim, dtype=wide, mask=mask)
    return as_type(total / _freedom(count, freedom, total), wide if dtype is None else dtype)


def _freedom(count: Any, correction: float, total: Any) -> Any:
    """Degrees of freedom, not below 0."""
    if isinstance(count, int):
        return max(count - correction, 0)
    left = as_type(count.reshape(tuple(total.shape)), total.real.dtype)
    return clamp_min(left - correction, 0)


@_published(lambda draw: [*_reductions(draw), *_masked(draw, 1, False), call(draw(4), correction=2)])
def std(
    input: Any, dim: Any = None, unbiased: Truth = None, *, correction: Any = None, keepdim: Truth = False,
    dtype: Any = None, mask: Any = None,
) -> Any:  # fmt: skip
    """Standard deviation of the elements where the mask is true.

    >>> import pellucid as torch
    >>> torch.masked.std(torch.tensor([1.0, 9.0, 5.0]), unbiased=False, mask=torch.tensor([True, False, True]))
    tensor(2.)
    """
    return sqrt(var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask))


# --- norms and logarithms of sums


@_published(lambda draw: [*_masked(draw, 2.0), *_masked(draw, 1, -1), *_masked(draw, math.inf, 0)])
def norm(
    input: Any, ord: float | None = 2.0, dim: Any = None, *, keepdim: Truth = False, dtype: Any = None, mask: Any = None
) -> Any:
    """The norm of the elements where the mask is true.

    >>> import pellucid as torch
    >>> torch.masked.norm(torch.tensor([3.0, 9.0, 4.0]), mask=torch.tensor([True, False, True]))
    tensor(5.)
    """
    power = 2.0 if ord is None else ord
    numbers = _without(input, mask, math.inf if power == -math.inf else 0)
    return norms.vector_norm(numbers, power, normal(dim, input.ndim), bool(keepdim), dtype=dtype)


@_published(_reductions)
def logsumexp(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """Logarithm of the sum of exponentials of the elements where the mask is true.

    >>> import pellucid as torch
    >>> torch.masked.logsumexp(torch.zeros(3), mask=torch.tensor([True, False, False]))
    tensor(0.)
    """
    found = reduce.logsumexp(_without(input, mask, _smallest), normal(dim, input.ndim), bool(keepdim))
    return as_type(found, input.dtype if dtype is None else dtype)


def _pairs(draw: Draw) -> list[Sample]:
    return [
        call(draw(2, 3), draw(2, 3)), call(draw(2, 3), draw(3), input_mask=draw.mask(2, 3)),
        call(draw(2, 3), draw(2, 3), other_mask=draw.mask(3)), call(draw(), draw(), input_mask=draw.mask()),
    ]  # fmt: skip


@_published(_pairs, INFINITE)
def logaddexp(input: Any, other: Any, *, dtype: Any = None, input_mask: Any = None, other_mask: Any = None) -> Any:
    """log(exp(input) + exp(other)), where an element that its mask leaves out adds nothing.

    >>> import pellucid as torch
    >>> torch.masked.logaddexp(torch.zeros(2), torch.zeros(2), other_mask=torch.tensor([True, False]))
    tensor([0.6931, 0.0000])
    """
    found = log_of_sum(_without(input, input_mask, _smallest), _without(other, other_mask, _smallest))
    return as_type(found, input.dtype if dtype is None else dtype)


# --- along one dimension, element by element


@_published(_lines)
def cumsum(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Running sum of the elements where the mask is true.

    >>> import pellucid as torch
    >>> torch.masked.cumsum(torch.tensor([1.0, 2.0, 3.0]), 0, mask=torch.tensor([True, False, True]))
    tensor([1., 1., 4.])
    """
    return scan.cumsum(_without(input, mask, 0), dim, dtype=input.dtype if dtype is None else dtype)


@_published(_lines)
def cumprod(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Running product of the elements where the mask is true.

    >>> import pellucid as torch
    >>> torch.masked.cumprod(torch.tensor([2.0, 5.0, 3.0]), 0, mask=torch.tensor([True, False, True]))
    tensor([2., 2., 6.])
    """
    return scan.cumprod(_without(input, mask, 1), dim, dtype=input.dtype if dtype is None else dtype)


@_published(_lines)
def softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Softmax among the elements where the mask is true; the others have no share.

    >>> import pellucid as torch
    >>> torch.masked.softmax(torch.zeros(3), 0, mask=torch.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    return shares.softmax(_without(input, mask, _smallest), dim, dtype)


@_published(_lines, INFINITE)
def log_softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Logarithm of the softmax among the elements where the mask is true.

    >>> import pellucid as torch
    >>> torch.masked.log_softmax(torch.zeros(3), 0, mask=torch.tensor([True, False, True]))
    tensor([-0.6931,    -inf, -0.6931])
    """
    return shares.log_softmax(_without(input, mask, _smallest), dim, dtype)


@_published(_lines)
def softmin(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Softmax of the negative among the elements where the mask is true.

    >>> import pellucid as torch
    >>> torch.masked.softmin(torch.zeros(3), 0, mask=torch.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    return shares.softmax(-_without(input, mask, _largest), dim, dtype)


@_published(lambda draw: [*_masked(draw, 2.0, 1), *_masked(draw, 1, -1), *_masked(draw, math.inf, 0)])
def normalize(
    input: Any, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Any = None
) -> Any:
    """The tensor divided by the norm along a dimension; what the mask leaves out is 0 and does not count.

    >>> import pellucid as torch
    >>> torch.masked.normalize(torch.tensor([3.0, 9.0, 4.0]), 2.0, 0, mask=torch.tensor([True, False, True]))
    tensor([0.6000, 0.0000, 0.8000])
    """
    size = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _without(input, mask, 0) / clamp_min(size, eps)
