"""Reductions: many elements to one. Sums, products, means, counts and logarithms of sums."""

import math
from functools import lru_cache
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.large import added_up, is_half
from pellucid.core.primitive import constant, general, multilinear
from pellucid.core.record import bind
from pellucid.ops.along import kept, line_samples
from pellucid.ops.arguments import (
    axes_of,
    axis_of,
    is_floating,
    means_all,
    name_of,
    one_or_several,
    refusal,
    refuse,
    shifted,
)
from pellucid.ops.convert import as_type
from pellucid.ops.elementwise import exp
from pellucid.ops.expand import expand_row
from pellucid.ops.formats import in_order, settled
from pellucid.ops.operation import Draw, Sample, call, operation
from pellucid.ops.scan import grounded_row, others_along
from pellucid.ops.select import keep
from pellucid.ops.shape import reshape_row

add_reduce = np.add.reduce
multiply_reduce = np.multiply.reduce
INT64 = np.dtype(np.int64)


# --- dimensions and dtypes


def normal(dim: Any, ndim: int) -> tuple[int, ...]:
    """Axes as the rows take them: a tuple of non-negative integers; None or () means all.

    >>> normal(-1, 3), normal((0, -1), 3), normal(None, 2)
    ((2,), (0, 2), (0, 1))
    """
    return _normal(tuple(dim) if isinstance(dim, list) else dim, ndim)


@lru_cache(maxsize=1024, typed=True)
def _normal(dim: Any, ndim: int) -> tuple[int, ...]:
    if means_all(dim):
        return tuple(range(ndim))
    axes = axes_of(dim, ndim)
    return axes if ndim else ()


def behind_batch(a: Any) -> tuple[int, ...]:
    """All axes but the batch axis in front."""
    return tuple(range(1, a.ndim))


def count_along(shape: tuple[int, ...], axes: tuple[int, ...]) -> int:
    """How many elements are reduced to one.

    >>> count_along((2, 3, 4), (0, 2))
    8
    """
    return math.prod([shape[i] for i in axes])


def _spread(g: np.ndarray, shape: tuple[int, ...], axes: tuple[int, ...], keepdim: bool, count: int) -> np.ndarray:
    if count != 1:
        single = g.astype(np.float32) if is_half(g.dtype) else g  # the number of elements may be beyond a half's range
        g = np.asarray(single / count).astype(g.dtype, copy=False)
    if not keepdim and len(axes) < len(shape):  # a 0-d gradient spreads as it is
        g = g.reshape(kept(shape, axes))
    return expand_row(g, shape)


# spread_row(g, shape, axes, keepdim, count): g / count for each of the elements that were reduced to one.
spread_row = bind(
    multilinear(
        "spread", _spread,
        lambda g, shape, axes, keepdim, count: sum_row(g, axes, keepdim) / count,
        view=True, dtypes="any", grad_name="ExpandBackward0",
        lower=lambda g, shape, axes, keepdim, count: expand_row(reshape_row(g, kept(shape, axes)), shape) / count,
        batch=lambda op, g, shape, axes, keepdim, count: op(g, (g.shape[0], *shape), shifted(axes), keepdim, count),
    )
)  # fmt: skip


def back(g: Any, shape: tuple[int, ...], axes: tuple[int, ...], keepdim: bool) -> Any:
    """Spread the gradient of a reduction over the elements that were reduced."""
    return spread_row(g, shape, axes, keepdim, 1)


def reduction_samples(draw: Draw) -> list[Sample]:
    """All elements, one dimension, several, kept, negative; 0-d, size 1, empty, another layout."""
    return [
        *nonempty_samples(draw),
        call(draw(0)), call(draw(2, 0), 1), call(draw(2, 0), 0, True), call(draw(3, 0, 2), (0, 1)),
    ]  # fmt: skip


def nonempty_samples(draw: Draw) -> list[Sample]:
    """The same without empty tensors, for operations that have no answer there."""
    return [
        call(draw(2, 3)), call(draw(2, 3), 1), call(draw(2, 3), -1, True), call(draw(2, 3, 4), (0, -1)),
        call(draw(2, 3), dim=(0, 1), keepdim=True), call(draw(2, 3), dim=0), call(draw(2, 3, 4), [1]),
        call(draw(2, 3), ()), call(draw()), call(draw(), 0), call(draw(1, 3), 0), call(draw(4, 3).detach().T, 0),
    ]  # fmt: skip


# --- sum


def _added_all(a: np.ndarray) -> Any:
    """The sum of all elements; NumPy adds up in blocks along one axis only, or all if they lie side by side."""
    if is_half(a.dtype) or (a.ndim > 1 and not a.flags.forc):
        return added_up(a, tuple(range(a.ndim)))
    return add_reduce(a, None)


def _sum_all(a: np.ndarray) -> Any:
    y = _added_all(a)
    return y if a.dtype.kind != "u" else y.astype(INT64)  # NumPy sums unsigned integers to uint64


def _sum(a: np.ndarray, axes: tuple[int, ...], keepdim: bool) -> Any:
    y = added_up(a, axes, keepdim)
    if not axes and a.dtype.kind in "bi":
        return np.asarray(y, INT64)  # NumPy leaves the dtype when nothing is added up
    return settled(y if y.dtype.kind != "u" else y.astype(INT64))


sum_row = bind(
    multilinear(
        "sum", _sum,
        lambda g, a_shape, axes, keepdim: back(g, a_shape, axes, keepdim),
        dtypes="equal", lower="reduce.fadd", grad_name="SumBackward1",
        batch=lambda op, a, axes, keepdim: op(a, shifted(axes), keepdim),
    )
)  # fmt: skip

sum_all_row = bind(
    multilinear(
        "sum_all", _sum_all,
        lambda g, a_shape: expand_row(g, a_shape),
        dtypes="equal", lower=lambda a: sum_row(a, tuple(range(a.ndim)), False), grad_name="SumBackward0",
        batch=lambda op, a: sum_row(a, behind_batch(a), False),
    )
)  # fmt: skip


@operation(samples=reduction_samples, out="own")
def sum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Sum of all elements, or along dimensions; integers are summed up in int64.

    >>> import pellucid as torch
    >>> torch.tensor([[1.0, 2.0], [3.0, 4.0]]).sum(0)
    tensor([4., 6.])
    """
    if dtype is not None:
        return as_type(sum(as_type(input, dtype), dim, keepdim), dtype)  # integers came out as int64
    if dim is None and not keepdim:
        return sum_all_row(input)
    return sum_row(input, normal(dim, input.ndim), keepdim)


@in_order
def _nansum(a: np.ndarray, axes: tuple[int, ...], keepdim: bool) -> Any:
    return added_up(np.where(a == a, a, a.dtype.type(0)), axes, keepdim)


nansum_row = bind(
    general(
        "nansum", _nansum,
        lambda g, a, axes, keepdim: back(g, tuple(a.shape), axes, keepdim) * (a == a),  # only NaN differs from itself
        jvp=lambda tangents, y, inputs, params: sum_row(keep(tangents[0], inputs[0] == inputs[0]), *params),
        dtypes="equal",
        batch=lambda op, a, axes, keepdim: op(a, shifted(axes), keepdim),
    )
)  # fmt: skip


@operation(samples=reduction_samples, out="own")
def nansum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Sum with every NaN counted as zero.

    >>> import pellucid as torch
    >>> torch.tensor([1.0, torch.nan, 2.0]).nansum()
    tensor(3.)
    """
    if not is_floating(input):
        return sum(input, dim, keepdim, dtype=dtype)
    if dtype is not None and not (dtypes.as_dtype(dtype).is_floating_point or dtypes.as_dtype(dtype).is_complex):
        return sum(as_type(input.masked_fill(input != input, 0), dtype), dim, keepdim, dtype=dtype)
    input = as_type(input, dtype)
    refuse(input, "biuc", "\"nansum_cpu\" not implemented for '{}'", NotImplementedError)
    return nansum_row(input, normal(dim, input.ndim), keepdim)


# --- mean


def average(a: np.ndarray, axes: tuple[int, ...], keepdim: bool) -> Any:
    """The mean of an array along axes."""
    if is_half(a.dtype):  # whose sum may be too large for one
        return np.asarray(average(a.astype(np.float32), axes, keepdim)).astype(a.dtype)
    return settled(added_up(a, axes, keepdim)) / count_along(a.shape, axes)


mean_row = bind(
    multilinear(
        "mean", average,
        lambda g, a_shape, axes, keepdim: spread_row(g, a_shape, axes, keepdim, count_along(a_shape, axes) or 1),
        dtypes="equal", grad_name="MeanBackward1",
        lower=lambda a, axes, keepdim: sum_row(a, axes, keepdim) / count_along(a.shape, axes),
        batch=lambda op, a, axes, keepdim: op(a, shifted(axes), keepdim),
    )
)  # fmt: skip

mean_all_row = bind(
    multilinear(
        "mean_all", lambda a: average(a, tuple(range(a.ndim)), False) if is_half(a.dtype) else _added_all(a) / a.size,
        lambda g, a_shape: spread_row(g, a_shape, tuple(range(len(a_shape))), False, math.prod(a_shape) or 1),
        dtypes="equal", lower=lambda a: mean_row(a, tuple(range(a.ndim)), False), grad_name="MeanBackward0",
        batch=lambda op, a: mean_row(a, behind_batch(a), False),
    )
)  # fmt: skip


@operation(samples=reduction_samples, out="own")
def mean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Mean of all elements, or along dimensions.

    >>> import pellucid as torch
    >>> torch.tensor([[1.0, 2.0], [3.0, 4.0]]).mean(1)
    tensor([1.5000, 3.5000])
    """
    if dtype is not None:
        input = as_type(input, dtype)
    if input.array.dtype.kind in "biu":
        raise refusal(
            RuntimeError,
            f"mean(): could not infer output dtype. {'Input' if dtype is None else 'Optional'} dtype must be either a "
            f"floating point or complex dtype. Got: {name_of(input)}",
            try_="convert it first, e.g. x.float().mean(), or x.mean(dtype=torch.float32)",
        )
    if dim is None and not keepdim:
        return mean_all_row(input)
    return mean_row(input, normal(dim, input.ndim), keepdim)


@operation(samples=reduction_samples, out="own")
def nanmean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Mean of the elements that are not NaN.

    >>> import pellucid as torch
    >>> torch.tensor([1.0, torch.nan, 2.0]).nanmean()
    tensor(1.5000)
    """
    if not is_floating(input):
        kind = f"nanmean(): expected input to have floating point or complex dtype but got {name_of(input)}"
        raise refusal(RuntimeError, kind, try_="convert it first, e.g. x.float()")
    total = nansum(input, dim, keepdim, dtype=dtype)
    return total / sum(input == input, dim, keepdim)


# --- product


@in_order
def _prod(a: np.ndarray, axes: tuple[int, ...], keepdim: bool) -> Any:
    y = multiply_reduce(a, axes, None, None, keepdim)
    if a.dtype.kind in "biu" and y.dtype is not INT64:
        return np.asarray(y).astype(INT64)
    return y


prod_row = bind(
    general(
        "prod", _prod,
        lambda g, a, axes, keepdim: back(g, tuple(a.shape), axes, keepdim) * others(a, axes),
        jvp=lambda tangents, y, inputs, params: sum_row(tangents[0] * others(inputs[0], params[0]), *params),
        dtypes="equal", lower="reduce.fmul", grad_name="ProdBackward1",
        batch=lambda op, a, axes, keepdim: op(a, shifted(axes), keepdim),
    )
)  # fmt: skip

prod_all_row = bind(
    general(
        "prod_all", lambda a: _prod(a, tuple(range(a.ndim)), False),
        lambda g, a: expand_row(g, tuple(a.shape)) * others(a, tuple(range(a.ndim))),
        jvp=lambda tangents, y, inputs, params: sum_all_row(tangents[0] * others(inputs[0], tuple(range(y.ndim)))),
        dtypes="equal", lower=lambda a: prod_row(a, tuple(range(a.ndim)), False), grad_name="ProdBackward0",
        batch=lambda op, a: prod_row(a, behind_batch(a), False),
    )
)  # fmt: skip


def others(a: Any, axes: tuple[int, ...]) -> Any:
    """For every element the product of all others: right where elements are zero, unlike y / a."""
    if len(axes) == 1:
        return others_along(a, axes[0])
    shape = tuple(a.shape)  # otherwise all axes are reduced: one line of elements
    return reshape_row(others_along(reshape_row(a, (math.prod(shape),)), 0), shape)


@operation(
    samples=lambda draw: [
        call(draw(2, 3)), call(draw(5)), call(draw()), call(draw(0)), call(draw(2, 0), 1), call(draw(2, 3), 0, True),
        *line_samples(draw),
    ],
    out="own",
)  # fmt: skip
def prod(input: Any, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Product of all elements, or along one dimension.

    >>> import pellucid as torch
    >>> x = torch.tensor([2.0, 0.0, 3.0], requires_grad=True)
    >>> x.prod().backward()
    >>> x.grad
    tensor([0., 6., 0.])
    """
    input = as_type(input, dtype)
    if dim is None:
        return as_type(prod_all_row(input), dtype)
    axis = axis_of(dim, input.ndim)
    return as_type(prod_row(input, (axis,) if input.ndim else (), keepdim), dtype)


# --- truth and counts


def _truth_of(reduce: Any) -> Any:
    @in_order
    def forward(a: np.ndarray, axes: tuple[int, ...], keepdim: bool) -> Any:
        y = reduce(a, axes, None, None, keepdim)
        return np.asarray(y, np.uint8 if a.dtype == np.uint8 else np.bool_)  # PyTorch keeps uint8 for masks of old

    return forward


all_row = bind(
    constant(
        "all", _truth_of(np.logical_and.reduce), 1,
        batch=lambda op, a, axes, keepdim: op(a, shifted(axes), keepdim),
    )
)  # fmt: skip
any_row = bind(
    constant(
        "any", _truth_of(np.logical_or.reduce), 1,
        batch=lambda op, a, axes, keepdim: op(a, shifted(axes), keepdim),
    )
)  # fmt: skip
count_nonzero_row = bind(
    constant(
        "count_nonzero", lambda a, axes: settled(np.asarray(np.count_nonzero(a, axes))), 1,
        batch=lambda op, a, axes: op(a, shifted(axes)),
    )
)  # fmt: skip


def _truth_axes(dim: Any, ndim: int) -> tuple[int, ...]:
    return () if isinstance(dim, (tuple, list)) and not dim else normal(dim, ndim)  # here () reduces nothing


def truth_samples(draw: Draw) -> list[Sample]:
    """Masks, numbers, empty tensors."""
    return [
        call(draw.mask(2, 3)), call(draw.mask(2, 3), 1), call(draw.mask(2, 3), dim=(0, 1), keepdim=True),
        call(draw.integers(2, 3), -1), call(draw.mask(2, 3), ()), call(draw.mask(0)), call(draw.mask(2, 0), 1),
        call(draw(2, 3), 0), call(draw.mask()), call(draw.mask(), 0), call(draw.mask(2, 3, 4), (0, -1)),
    ]  # fmt: skip


@operation(samples=truth_samples)
def all(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Whether all elements are true (not zero), everywhere or along dimensions.

    >>> import pellucid as torch
    >>> torch.tensor([[True, False], [True, True]]).all(1)
    tensor([False,  True])
    """
    return all_row(input, _truth_axes(dim, input.ndim), keepdim)


@operation(samples=truth_samples)
def any(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Whether any element is true (not zero), anywhere or along dimensions.

    >>> import pellucid as torch
    >>> torch.tensor([0, 0, 3]).any()
    tensor(True)
    """
    return any_row(input, _truth_axes(dim, input.ndim), keepdim)


@operation(
    samples=lambda draw: [
        call(draw.integers(2, 3)), call(draw.integers(2, 3), 1), call(draw.integers(2, 3, 4), dim=(0, -1)),
        call(draw.mask(4)), call(draw(3)), call(draw.integers()), call(draw.integers(0)), call(draw.integers(2, 0), 1),
        call(draw.mask(2, 3), -2), call(draw.integers(3, 2).mT, (0, 1)),
    ]
)  # fmt: skip
def count_nonzero(input: Any, *axes: Any, dim: Any = None) -> Any:
    """How many elements are not zero.

    >>> import pellucid as torch
    >>> torch.tensor([0, 2, 0, 3]).count_nonzero()
    tensor(2)
    """
    return count_nonzero_row(input, normal(one_or_several(axes, dim), input.ndim))


# --- logarithm of a sum of exponentials


@in_order
def _logsumexp(a: np.ndarray, axes: tuple[int, ...], keepdim: bool) -> Any:
    """With the largest element taken out, so that nothing overflows; an infinite one is not taken out."""
    if not a.size:
        return np.log(add_reduce(a, axes, None, None, keepdim))
    largest = np.maximum.reduce(a.real, axes, None, None, True)
    largest = np.where(np.isfinite(largest), largest, 0)
    powers = np.subtract(a, largest)
    y = np.log(added_up(np.exp(powers, powers if powers.ndim else None), axes, keepdim))
    return y + largest.reshape(y.shape)


def _weights(a: Any, y: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
    whole = y if keepdim else reshape_row(y, kept(tuple(a.shape), axes))
    return exp(a - grounded_row(whole))


logsumexp_row = bind(
    general(
        "logsumexp", _logsumexp,
        lambda g, a, y, axes, keepdim: back(g, tuple(a.shape), axes, keepdim) * _weights(a, y, axes, keepdim),
        jvp=lambda tangents, y, inputs, params: sum_row(tangents[0] * _weights(inputs[0], y, *params), *params),
        dtypes="float", batch=lambda op, a, axes, keepdim: op(a, shifted(axes), keepdim),
    )
)  # fmt: skip


@operation(
    samples=lambda draw: [
        call(draw(2, 3), (0, 1)), call(draw(2, 3, 4), dim=(0, 2), keepdim=True), call(draw(2, 3), 0, True),
        call(draw(2, 0), 0), call(draw(2, 3) * 500, 1), *line_samples(draw),
    ],
    aliases=("torch.special.logsumexp",),
    out="floating",
)  # fmt: skip
def logsumexp(input: Any, dim: Any, keepdim: bool = False) -> Any:
    """Logarithm of the sum of exponentials along dimensions, without overflow.

    >>> import pellucid as torch
    >>> torch.tensor([1000.0, 1000.0]).logsumexp(0)
    tensor(1000.6932)
    """
    return logsumexp_row(input, normal(dim, input.ndim), keepdim)
