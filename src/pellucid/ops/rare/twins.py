"""Functions that PyTorch has twice: those of torch.nn.functional that torch has too, in the form of its kernels."""

from importlib import import_module
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.inplace import computed_into
from pellucid.core.primitive import elementwise, general
from pellucid.core.record import bind
from pellucid.core.tensor import wrap
from pellucid.ops.arguments import axis_of, expect, means_all, refusal
from pellucid.ops.compare import rint_row
from pellucid.ops.convert import as_type
from pellucid.ops.norm import norm
from pellucid.ops.operation import OPERATIONS

__all__ = [
    "bilinear", "detach", "embedding_bag", "fake_quantize_per_channel_affine", "fake_quantize_per_tensor_affine",
    "frobenius_norm", "kl_div", "nuclear_norm",
]  # fmt: skip

MODES = ("sum", "mean", "max")
REDUCTIONS = ("none", "mean", "sum")


def _functional(name: str) -> Any:
    import_module("pellucid.ops.nn")  # loading the family publishes its operations
    return OPERATIONS[f"nn.functional.{name}"].function


def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """`nn.functional.bilinear`: the sum of input1[i] weight[k, i, j] input2[j], for every k.

    >>> import pellucid as torch
    >>> torch.bilinear(torch.ones(1, 2), torch.ones(1, 3), torch.ones(1, 2, 3))
    tensor([[6.]])
    """
    return _functional("bilinear")(input1, input2, weight, bias)


def kl_div(input: Any, target: Any, reduction: int = 0, *, log_target: bool = False) -> Any:
    """`nn.functional.kl_div`, with the reduction as a number: 0 is none, 1 the mean, 2 the sum.

    >>> import pellucid as torch
    >>> torch.kl_div(torch.tensor([-1.0]), torch.tensor([1.0]))
    tensor([1.])
    """
    return _functional("kl_div")(input, target, reduction=REDUCTIONS[reduction], log_target=log_target)


def embedding_bag(
    weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool = False, mode: int = 0, sparse: bool = False,
    per_sample_weights: Any = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """`nn.functional.embedding_bag`, with the mode as a number: 0 is the sum, 1 the mean, 2 the maximum.

    Returns the bags, the bag of each index, the bags' sizes, and for the maximum which index gave it; a sum needs none
    of these, and gives zeros.

    >>> import pellucid as torch
    >>> torch.embedding_bag(torch.eye(2), torch.tensor([0, 1]), torch.tensor([0]))[0]
    tensor([[1., 1.]])
    """
    bags = _functional("embedding_bag")(
        indices, weight, offsets, scale_grad_by_freq=scale_grad_by_freq, mode=MODES[mode], sparse=sparse,
        per_sample_weights=per_sample_weights, include_last_offset=include_last_offset, padding_idx=padding_idx,
    )  # fmt: skip
    begins = np.asarray(offsets.array)
    ends = begins[1:] if include_last_offset else np.append(begins[1:], indices.array.size)
    sizes = np.asarray(ends - begins[: len(ends)], begins.dtype)
    if mode == 0:
        return bags, wrap(np.zeros(0, begins.dtype)), wrap(np.zeros_like(sizes)), wrap(np.zeros_like(sizes))
    owners = np.repeat(np.arange(len(sizes), dtype=begins.dtype), sizes)
    if mode == 1:
        return bags, wrap(owners), wrap(sizes), wrap(sizes.copy())
    index, table = indices.array, weight.array
    parts = [index[begin : begin + size] for begin, size in zip(begins, sizes, strict=False)]
    winners = [part[table[part].argmax(0)] if part.size else np.zeros(table.shape[1], index.dtype) for part in parts]
    return bags, wrap(owners), wrap(sizes), wrap(np.array(winners, begins.dtype))


def detach(input: Any) -> Any:
    """`input.detach()`.

    >>> import pellucid as torch
    >>> torch.detach(torch.ones(1, requires_grad=True)).requires_grad
    False
    """
    return input.detach()


def frobenius_norm(input: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """The square root of the sum of squares.

    >>> import pellucid as torch
    >>> torch.frobenius_norm(torch.tensor([[3.0, 4.0]]), (0, 1))
    tensor(5.)
    """
    return norm(input, "fro", None if means_all(dim) else dim, keepdim)


def nuclear_norm(input: Any, dim: Any = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """The sum of a matrix's singular values.

    >>> import pellucid as torch
    >>> torch.nuclear_norm(torch.eye(3))
    tensor(3.)
    """
    if out is not None:
        return computed_into(out, norm, (input, "nuc", dim, keepdim), name="nuclear_norm")
    return norm(input, "nuc", dim, keepdim)


def _whole(a: Any, step: Any, zero: Any, between: bool = False) -> Any:
    """The integer that a number is kept as; half steps round to even. A zero between integers is added before that."""
    return rint_row(a * (1 / step) + zero) + 0.0 if between else rint_row(a * (1 / step)) + zero


def _rounded(a: np.ndarray, scale: float, zero_point: int, low: int, high: int) -> np.ndarray:
    step = np.float32(scale)  # PyTorch keeps it in single precision
    return np.asarray((np.clip(_whole(a, step, zero_point), low, high) - zero_point) * step, a.dtype)


def _inside(a: Any, scale: float, zero_point: int, low: int, high: int) -> Any:
    """1 where the rounded number is inside the range."""
    whole = _whole(a, np.float32(scale), zero_point)
    return (whole >= low) & (whole <= high)


fake_quantize_row = bind(
    general(
        "fake_quantize_per_tensor_affine", _rounded,
        lambda g, a, scale, zero_point, low, high: g * _inside(a, scale, zero_point, low, high),
        jvp=lambda tangents, y, inputs, params: tangents[0] * _inside(inputs[0], *params),
        dtypes="equal", batch=lambda op, a, *params: op(a, *params),
        grad_name="FakeQuantizePerTensorAffineCachemaskBackward0",
    )
)  # fmt: skip


def fake_quantize_per_tensor_affine(input: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> Any:
    """Round to the steps that an integer type of so many values would keep; the gradient passes inside the range.

    >>> import pellucid as torch
    >>> torch.fake_quantize_per_tensor_affine(torch.tensor([0.04, 0.26, 9.0]), 0.1, 0, 0, 10)
    tensor([0.0000, 0.3000, 1.0000])
    """
    if quant_min > quant_max:
        raise refusal(RuntimeError, "`quant_min` should be less than or equal to `quant_max`.")
    return fake_quantize_row(input, float(scale), int(zero_point), int(quant_min), int(quant_max))


def _rounded_channels(a: np.ndarray, b: np.ndarray, c: np.ndarray, low: int, high: int, between: bool) -> np.ndarray:
    return np.asarray((np.clip(_whole(a, b, c, between), low, high) - c) * b)


def _inside_channels(a: Any, b: Any, c: Any, low: int, high: int, between: bool) -> Any:
    whole = _whole(a, b, c, between)
    return (whole >= low) & (whole <= high)


fake_quantize_channels_row = bind(
    elementwise(
        "fake_quantize_per_channel_affine", _rounded_channels,
        lambda g, a, b, c, low, high, between: g * _inside_channels(a, b, c, low, high, between), None, None,
        grad_name="FakeQuantizePerChannelAffineCachemaskBackward0",
    )
)  # fmt: skip


def fake_quantize_per_channel_affine(
    input: Any, scale: Any, zero_point: Any, axis: int, quant_min: int, quant_max: int
) -> Any:
    """As fake_quantize_per_tensor_affine, with a step and a zero of its own for each index along a dimension.

    >>> import pellucid as torch
    >>> steps, zeros = torch.tensor([0.1, 1.0]), torch.zeros(2, dtype=torch.int32)
    >>> torch.fake_quantize_per_channel_affine(torch.tensor([[0.04, 0.26], [0.4, 9.0]]), steps, zeros, 0, 0, 5)
    tensor([[0.0000, 0.3000],
            [0.0000, 5.0000]])
    """
    axis = _check_channels(input, scale, zero_point, axis, quant_min, quant_max)
    shape = [-1 if each == axis else 1 for each in range(input.ndim)]
    wide = np.float32 if input.array.dtype.itemsize == 2 else input.array.dtype  # a step would lose digits in a half
    steps, zeros = (as_type(each.detach().reshape(shape), wide) for each in (scale, zero_point))
    between = zero_point.array.dtype.kind == "f"
    rounded = fake_quantize_channels_row(as_type(input, wide), steps, zeros, quant_min, quant_max, between)
    return as_type(rounded, input.dtype)


def _check_channels(input: Any, scale: Any, zero_point: Any, axis: int, low: int, high: int) -> int:
    """The dimension of the channels, counted from the front, once all that describes them fits."""
    if scale.dtype not in (dtypes.float32, dtypes.bfloat16):
        raise refusal(RuntimeError, f"Scale must be Float or BFloat16, found {dtypes.scalar_name(scale.dtype)}")
    if zero_point.dtype not in (dtypes.int32, dtypes.float32, dtypes.float16):
        found = dtypes.scalar_name(zero_point.dtype)
        raise refusal(RuntimeError, f"Zero-point must be Int32, Float or Half, found {found}")
    expect(scale.ndim == 1, "scale should be a 1-D tensor")
    expect(zero_point.ndim == 1, "zero point should be a 1-D tensor")
    expect(scale.shape == zero_point.shape, "scale and zero-point need to have the same dimensions")
    place = axis_of(axis, input.ndim)
    expect(axis >= 0, "`axis` must be between 0 and number of dimensions of input")
    fits = scale.shape[0] == input.shape[place]
    expect(fits, "dimensions of scale and zero-point are not consistent with input tensor")
    expect(low <= high, "`quant_min` should be less than or equal to `quant_max`.")
    inside = bool(((zero_point.array >= low) & (zero_point.array <= high)).all())
    expect(inside or zero_point.dtype.is_floating_point, "`zero_point` must be between `quant_min` and `quant_max`.")
    return place
