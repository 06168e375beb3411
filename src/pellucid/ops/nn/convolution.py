"""Convolution in one, two and three dimensions, forward and transposed.

The arguments are checked and brought into normal form, a `Windows` (convolution_arguments.py); the rows compute
(convolution_rows.py).
"""

from typing import Any

import numpy as np

from pellucid.ops.arguments import expect, name_of, refusal
from pellucid.ops.axes import permute_row
from pellucid.ops.nn.convolution_arguments import batched, check_channels, check_tensors, counts, numbers, paddings
from pellucid.ops.nn.convolution_rows import (
    convolution_bias_row,
    convolution_row,
    transposed_bias_row,
    transposed_row,
)
from pellucid.ops.nn.windows import Windows
from pellucid.ops.operation import COMPOSED, Draw, Sample, call, operation
from pellucid.ops.shape import SQUEEZE_ROWS

# --- the two forms, for any number of dimensions


def _forward(
    name: str, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int, rank: int
) -> Any:
    check_tensors(name, input, weight, bias)
    x, single = batched(name, input, weight, rank)
    kernel = tuple(weight.shape[2:])
    strides, dilations = numbers("stride", stride, rank, 1), numbers("dilation", dilation, rank, 1)
    before, after = paddings(padding, kernel, strides, dilations)
    check_channels(tuple(weight.shape), tuple(x.shape), bias, groups, False)
    around = [p + q for p, q in zip(before, after, strict=True)]
    sizes = counts(tuple(x.shape[2:]), kernel, strides, around, dilations)
    windows = Windows(kernel, strides, before, dilations, sizes)
    if bias is None:
        y = convolution_row(x, weight, windows, groups)
    else:
        y = convolution_bias_row(x, weight, bias, windows, groups)
    return SQUEEZE_ROWS[1](y, tuple(y.shape[1:])) if single else y


def _transposed(
    name: str, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: int,
    dilation: Any, rank: int,
) -> Any:  # fmt: skip
    check_tensors(name, input, weight, bias)
    if input.array.dtype.kind in "iu" and input.array.dtype != np.int64:
        raise refusal(NotImplementedError, f"\"{name}\" not implemented for '{name_of(input)}'", try_="x.long()")
    x, single = batched(name, input, weight, rank)
    kernel = tuple(weight.shape[2:])
    strides, dilations = numbers("stride", stride, rank, 1), numbers("dilation", dilation, rank, 1)
    paddings, more = numbers("padding", padding, rank, 0), numbers("output_padding", output_padding, rank, 0)
    check_channels(tuple(weight.shape), tuple(x.shape), bias, groups, True)
    if any(extra >= max(s, d) for extra, s, d in zip(more, strides, dilations, strict=True)):
        what = "output padding must be smaller than either stride or dilation"
        raise refusal(RuntimeError, f"{what}, but got output_padding {more}, stride {strides}, dilation {dilations}")
    columns = zip(x.shape[2:], kernel, strides, paddings, more, dilations, strict=True)
    sizes = tuple((n - 1) * s - 2 * p + d * (k - 1) + extra + 1 for n, k, s, p, extra, d in columns)
    if min(sizes) < 1 or min(kernel) < 1:
        what = f"Given input size per channel: {list(x.shape[2:])}. Calculated output size per channel: {list(sizes)}"
        raise refusal(RuntimeError, f"{what}. Output size is too small", try_="less padding, or a larger kernel")
    windows = Windows(kernel, strides, paddings, dilations, tuple(x.shape[2:]))
    if bias is None:
        y = transposed_row(x, weight, windows, groups, sizes)
    else:
        y = transposed_bias_row(x, weight, bias, windows, groups, sizes)
    return SQUEEZE_ROWS[1](y, tuple(y.shape[1:])) if single else y


# --- what users call


def _samples(*sizes: int) -> Any:
    """Sample calls of a convolution over dimensions of these sizes."""
    rank = len(sizes)
    kernel, other = (3, 2, 2)[:rank], (2, 3, 1)[:rank]

    def samples(draw: Draw) -> list[Sample]:
        return [
            call(draw(2, 3, *sizes), draw(4, 3, *kernel), draw(4)),
            call(draw(2, 2, *sizes), draw(3, 2, *other), None, 2, 1),
            call(draw(2, *sizes), draw(2, 1, *kernel), draw(2), padding=1, groups=2),
            call(draw(1, 2, *sizes), draw(2, 2, *other), stride=(2, 1, 3)[:rank], padding=(1, 2, 0)[:rank], dilation=2),
            call(draw(1, 2, *sizes), draw(2, 2, *kernel), draw(2), padding="same", dilation=(1, 2, 1)[:rank]),
            call(draw(2, 4, *sizes), draw(6, 2, *(1,) * rank), draw(6), padding="valid", groups=2),
            call(draw(0, 2, *sizes), draw(3, 2, *kernel), draw(3)), call(draw(1, 1, *sizes), draw(1, 1, *sizes)),
            call(draw(3, 8, *sizes), draw(2, 4, *kernel), draw(2), 2, 1, groups=2),  # enough for shifted.py
            call(draw(2, 5, *sizes), draw(2, 5, *kernel), None, 1, 1, (1, 2, 1)[:rank]),
            call(draw.complex(1, 2, *sizes), draw.complex(2, 2, *other), draw.complex(2), padding=1),
            call(draw(1, 1, *(2,) * rank), draw(2, 1, *(2,) * rank), draw(2), padding=1),  # small
        ]  # fmt: skip

    return samples


def _transposed_samples(*sizes: int) -> Any:
    rank = len(sizes)
    kernel, other = (3, 2, 2)[:rank], (2, 3, 1)[:rank]

    def samples(draw: Draw) -> list[Sample]:
        return [
            call(draw(2, 3, *sizes), draw(3, 4, *kernel), draw(4)),
            call(draw(2, 2, *sizes), draw(2, 3, *other), None, 2, 1, 1),
            call(draw(2, *sizes), draw(2, 1, *kernel), draw(2), padding=1, groups=2),
            call(draw(1, 2, *sizes), draw(2, 2, *other), stride=(2, 1, 3)[:rank], padding=(1, 0, 0)[:rank], dilation=2),
            call(draw(1, 2, *sizes), draw(2, 2, *kernel), draw(2), output_padding=1, dilation=2),
            call(draw(2, 4, *sizes), draw(4, 3, *(1,) * rank), draw(6), groups=2),
            call(draw(0, 2, *sizes), draw(2, 3, *kernel), draw(3)), call(draw(1, 1, *sizes), draw(1, 3, *kernel)),
            call(draw.complex(1, 2, *sizes), draw.complex(2, 2, *other), draw.complex(2), padding=0),
        ]  # fmt: skip

    return samples


@operation(module="torch.nn.functional", aliases=("torch.conv1d",), samples=_samples(5))
def conv1d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Convolution over a sequence: (batch, channels, length) with a weight (outputs, channels / groups, kernel).

    The padding is a number, "valid" (none) or "same" (as many places as elements).

    >>> import pellucid as torch
    >>> torch.nn.functional.conv1d(torch.tensor([[[1.0, 2.0, 4.0]]]), torch.tensor([[[-1.0, 1.0]]]))
    tensor([[[1., 2.]]])
    """
    return _forward("conv1d", input, weight, bias, stride, padding, dilation, groups, 1)


@operation(module="torch.nn.functional", aliases=("torch.conv2d",), samples=_samples(5, 4))
def conv2d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Convolution over images: (batch, channels, height, width) with a weight (outputs, channels / groups, *kernel).

    The padding is a number, one per dimension, "valid" (none) or "same" (as many places as elements).

    >>> import pellucid as torch
    >>> torch.nn.functional.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2), torch.tensor([0.5]))
    tensor([[[[4.5000, 4.5000],
              [4.5000, 4.5000]]]])
    """
    return _forward("conv2d", input, weight, bias, stride, padding, dilation, groups, 2)


@operation(module="torch.nn.functional", aliases=("torch.conv3d",), samples=_samples(4, 3, 3))
def conv3d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Convolution over volumes: (batch, channels, depth, height, width).

    >>> import pellucid as torch
    >>> torch.nn.functional.conv3d(torch.ones(1, 2, 2, 2, 2), torch.ones(1, 2, 2, 2, 2)).flatten()
    tensor([16.])
    """
    return _forward("conv3d", input, weight, bias, stride, padding, dilation, groups, 3)


@operation(module="torch.nn.functional", aliases=("torch.conv_transpose1d",), samples=_transposed_samples(4))
def conv_transpose1d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1,
) -> Any:  # fmt: skip
    """The adjoint of conv1d: each element adds a kernel to the result; weight (channels, outputs / groups, kernel).

    >>> import pellucid as torch
    >>> torch.nn.functional.conv_transpose1d(torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[1.0, 10.0]]]))
    tensor([[[ 1., 12., 20.]]])
    """
    return _transposed("conv_transpose1d", input, weight, bias, stride, padding, output_padding, groups, dilation, 1)


@operation(module="torch.nn.functional", aliases=("torch.conv_transpose2d",), samples=_transposed_samples(3, 3))
def conv_transpose2d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1,
) -> Any:  # fmt: skip
    """The adjoint of conv2d: each element adds a kernel to the result; weight (channels, outputs / groups, *kernel).

    >>> import pellucid as torch
    >>> torch.nn.functional.conv_transpose2d(torch.ones(1, 1, 1, 2), torch.ones(1, 1, 1, 2), stride=2)
    tensor([[[[1., 1., 1., 1.]]]])
    """
    return _transposed("conv_transpose2d", input, weight, bias, stride, padding, output_padding, groups, dilation, 2)


@operation(module="torch.nn.functional", aliases=("torch.conv_transpose3d",), samples=_transposed_samples(2, 3, 2))
def conv_transpose3d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1,
) -> Any:  # fmt: skip
    """The adjoint of conv3d: each element adds a kernel to the result.

    >>> import pellucid as torch
    >>> torch.nn.functional.conv_transpose3d(torch.ones(1, 1, 1, 1, 1), torch.ones(1, 2, 2, 2, 2)).shape
    torch.Size([1, 2, 2, 2, 2])
    """
    return _transposed("conv_transpose3d", input, weight, bias, stride, padding, output_padding, groups, dilation, 3)


@operation(
    methods=(),
    samples=lambda draw: [
        call(draw(2, 3, 5), draw(4, 3, 2), draw(4), [1], [1], [1], False, [0], 1),
        call(draw(2, 2, 3, 4), draw(2, 3, 2, 2), None, [2, 1], [0, 1], [1, 1], True, [1, 0], 1),
        call(draw(1, 4, 4, 4), draw(4, 2, 3, 3), draw(4), [1], [1], [1], False, [0], 2),
        call(draw(1, 4, 4), draw(4, 1, 2), draw(2), [1], [0], [2], True, [1], 2),
    ],
)
def convolution(
    input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, output_padding: Any,
    groups: int,
) -> Any:
    """Convolution of as many dimensions as the weight has, forward or transposed.

    >>> import pellucid as torch
    >>> x, weight = torch.ones(1, 1, 3), torch.ones(1, 1, 2)
    >>> torch.convolution(x, weight, None, [1], [0], [1], False, [0], 1)
    tensor([[[2., 2.]]])
    """
    rank = weight.ndim - 2
    if rank < 1 or input.ndim != weight.ndim:
        raise refusal(
            RuntimeError,
            f"Expected {weight.ndim}-dimensional input for {weight.ndim}-dimensional weight {list(weight.shape)}, but "
            f"got {input.ndim}-dimensional input of size {list(input.shape)} instead",
        )
    if transposed:
        return _transposed(
            "convolution", input, weight, bias, stride, padding, output_padding, groups, dilation, rank
        )
    return _forward("convolution", input, weight, bias, stride, padding, dilation, groups, rank)


@operation(
    methods=(), aliases=("torch.nn.functional.conv_tbc",), unclaimed=COMPOSED,
    samples=lambda draw: [
        call(draw(5, 2, 3), draw(2, 3, 4), draw(4)), call(draw(5, 2, 3), draw(3, 3, 2), draw(2), 1),
        call(draw(3, 1, 2), draw(1, 2, 2), draw(2), pad=2), call(draw(4, 0, 2), draw(2, 2, 3), draw(3)),
    ],
)  # fmt: skip
def conv_tbc(input: Any, weight: Any, bias: Any, pad: int = 0) -> Any:
    """Convolution over (time, batch, channels) with a weight (kernel, channels, outputs).

    >>> import pellucid as torch
    >>> torch.conv_tbc(torch.ones(3, 1, 1), torch.ones(2, 1, 1), torch.zeros(1)).flatten()
    tensor([2., 2.])
    """
    expect(input.ndim == 3, "Input must have 3 dims: time, batch, in_channel")
    expect(weight.ndim == 3, "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.")
    expect(bias.ndim == 1, "Bias must be 1-D")
    expect(
        input.shape[2] == weight.shape[1],
        f"Input dim 2 (input channels) is not == dim 1 in the weight tensor: {input.shape[2]} and {weight.shape[1]}",
    )
    y = conv1d(permute_row(input, (1, 2, 0)), permute_row(weight, (2, 1, 0)), bias, padding=pad)
    return permute_row(y, (2, 0, 1))
