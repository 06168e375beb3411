"""Functions that PyTorch has twice: those of torch.nn.functional that torch has too, in the form of its kernels."""

from importlib import import_module
from typing import Any

import numpy as np

from pellucid.core.inplace import computed_into
from pellucid.core.primitive import general
from pellucid.core.record import bind
from pellucid.core.tensor import wrap
from pellucid.ops.arguments import means_all, refusal
from pellucid.ops.norm import norm
from pellucid.ops.operation import OPERATIONS

__all__ = [
    "bilinear", "detach", "embedding_bag", "fake_quantize_per_tensor_affine", "frobenius_norm", "kl_div",
    "nuclear_norm",
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


def _rounded(a: np.ndarray, scale: float, zero_point: int, low: int, high: int) -> np.ndarray:
    step = np.float32(scale)  # PyTorch keeps it in single precision
    whole = np.rint(a * (np.float32(1) / step)) + zero_point
    return np.asarray((np.clip(whole, low, high) - zero_point) * step, a.dtype)


def _inside(a: Any, scale: float, zero_point: int, low: int, high: int) -> Any:
    """1 where the rounded number was inside the range, as a mask of the input's values: half steps round to even."""
    return (a >= (low - zero_point - 0.5) * scale) & (a <= (high - zero_point + 0.5) * scale)


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
