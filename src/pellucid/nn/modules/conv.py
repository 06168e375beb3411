"""Convolutions and transposed convolutions in one, two and three dimensions, and their lazy forms."""

import math
from typing import Any

from pellucid.nn import functional, init
from pellucid.nn.modules.lazy import LazyModuleMixin
from pellucid.nn.modules.module import Module
from pellucid.nn.modules.utils import _ntuple, _reverse_repeat_tuple
from pellucid.nn.parameter import Parameter, UninitializedParameter
from pellucid.ops.create import empty

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "LazyConv1d", "LazyConv2d",
    "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
]  # fmt: skip

PADDING_WORDS = {"same", "valid"}
PADDING_MODES = {"zeros", "reflect", "replicate", "circular"}


class _ConvNd(Module):
    """What all convolutions have in common: settings, a weight, and perhaps a bias."""

    dimensions = 0
    function = ""  # its name in nn.functional

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: tuple[int, ...], stride: tuple[int, ...], padding: Any,
        dilation: tuple[int, ...], transposed: bool, output_padding: tuple[int, ...], groups: int, bias: bool,
        padding_mode: str, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        _check(in_channels, out_channels, stride, padding, groups, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = _for_pad(padding, kernel_size, dilation)
        outer = (in_channels, out_channels // groups) if transposed else (out_channels, in_channels // groups)
        self.weight = Parameter(empty((*outer, *kernel_size), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias evenly from ±1/√(inputs that each output sees)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def _conv_forward(self, input: Any, weight: Any, bias: Any) -> Any:
        convolve, padding = getattr(functional, self.function), self.padding
        if self.padding_mode != "zeros":
            input = functional.pad(input, self._reversed_padding_repeated_twice, self.padding_mode)
            padding = 0
        return convolve(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Any) -> Any:
        """Convolve."""
        return self._conv_forward(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Its channels and sizes; settings that are as usual are left out."""
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        nothing = (0,) * len(self.kernel_size)
        ordinary: dict[str, Any] = {
            "padding": nothing, "dilation": (1,) * len(self.kernel_size), "output_padding": nothing, "groups": 1,
        }  # fmt: skip
        for name, usual in ordinary.items():
            if getattr(self, name) != usual:
                text += f", {name}={getattr(self, name)}"
        text += ", bias=False" if self.bias is None else ""
        return text + (f", padding_mode={self.padding_mode}" if self.padding_mode != "zeros" else "")


def _check(
    in_channels: int, out_channels: int, stride: tuple[int, ...], padding: Any, groups: int, padding_mode: str
) -> None:
    """Refuse settings that make no convolution."""
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    if in_channels % groups != 0:
        raise ValueError(f"in_channels must be divisible by groups, got {in_channels} and {groups}")
    if out_channels % groups != 0:
        raise ValueError(f"out_channels must be divisible by groups, got {out_channels} and {groups}")
    if isinstance(padding, str):
        if padding not in PADDING_WORDS:
            raise ValueError(f"Invalid padding string {padding!r}, should be one of {PADDING_WORDS}")
        if padding == "same" and any(step != 1 for step in stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
    if padding_mode not in PADDING_MODES:
        raise ValueError(f"padding_mode must be one of {PADDING_MODES}, but got padding_mode='{padding_mode}'")


def _for_pad(padding: Any, kernel_size: tuple[int, ...], dilation: tuple[int, ...]) -> Any:
    """The padding as `nn.functional.pad` takes it: both sides of the last dimension, of the one before, ..."""
    if not isinstance(padding, str):
        return _reverse_repeat_tuple(padding, 2)
    sides = []
    for size, step in zip(reversed(kernel_size), reversed(dilation)):
        total = step * (size - 1) if padding == "same" else 0
        sides += [total // 2, total - total // 2]
    return sides


# --- convolutions


class _Convolution(_ConvNd):
    """A convolution whose settings may be one number for all dimensions."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        entire = _ntuple(self.dimensions)
        super().__init__(
            in_channels, out_channels, entire(kernel_size), entire(stride),
            padding if isinstance(padding, str) else entire(padding), entire(dilation), False, entire(0), groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip


class Conv1d(_Convolution):
    """A convolution over (N, C, L) or (C, L)."""

    dimensions, function = 1, "conv1d"


class Conv2d(_Convolution):
    """A convolution over (N, C, H, W) or (C, H, W).

    >>> import pellucid as torch
    >>> torch.nn.Conv2d(3, 8, kernel_size=3, padding=1, stride=2)(torch.zeros(1, 3, 32, 32)).shape
    torch.Size([1, 8, 16, 16])
    """

    dimensions, function = 2, "conv2d"


class Conv3d(_Convolution):
    """A convolution over (N, C, D, H, W) or (C, D, H, W)."""

    dimensions, function = 3, "conv3d"


# --- transposed convolutions


class _ConvTransposeNd(_ConvNd):
    """The transpose of a convolution: what pulls a gradient back through it, with a weight of its own."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
        transposed: bool, output_padding: Any, groups: int, bias: bool, padding_mode: str, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, transposed, output_padding, groups,
            bias, padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Any, output_size: Any = None) -> Any:
        """Convolve; `output_size` chooses among the sizes that the convolution would have brought to the input's."""
        extra: Any = self.output_padding
        if output_size is not None:
            extra = self._output_padding(
                input, output_size, self.stride, self.padding, self.kernel_size, self.dimensions, self.dilation
            )
        transposed = getattr(functional, self.function)
        return transposed(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)

    def _output_padding(
        self, input: Any, output_size: Any, stride: Any, padding: Any, kernel_size: Any, num_spatial_dims: int,
        dilation: Any = None,
    ) -> Any:  # fmt: skip
        """How much to add at the end of each dimension to get an output size."""
        if output_size is None:
            return _ntuple(num_spatial_dims)(self.output_padding)
        name, rank = type(self).__name__, num_spatial_dims
        if len(output_size) == input.ndim and input.ndim > rank:
            output_size = output_size[input.ndim - rank :]
        if len(output_size) != rank:
            raise ValueError(
                f"{name}: for {input.ndim}D input, output_size must have {rank} or {input.ndim} elements "
                f"(got {len(output_size)})"
            )
        steps = (1,) * rank if dilation is None else dilation
        smallest = [
            (input.shape[i - rank] - 1) * stride[i] - 2 * padding[i] + steps[i] * (kernel_size[i] - 1) + 1
            for i in range(rank)
        ]
        largest = [size + stride[i] - 1 for i, size in enumerate(smallest)]
        if any(not low <= size <= high for low, size, high in zip(smallest, output_size, largest)):
            raise ValueError(
                f"requested an output size of {output_size}, but valid sizes range from {smallest} to {largest} "
                f"(for an input of {input.shape[input.ndim - rank :]})"
            )
        return [size - low for size, low in zip(output_size, smallest)]


class _TransposedConvolution(_ConvTransposeNd):
    """A transposed convolution whose settings may be one number for all dimensions."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros",
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        entire = _ntuple(self.dimensions)
        super().__init__(
            in_channels, out_channels, entire(kernel_size), entire(stride), entire(padding), entire(dilation), True,
            entire(output_padding), groups, bias, padding_mode, device, dtype,
        )  # fmt: skip


class ConvTranspose1d(_TransposedConvolution):
    """A transposed convolution over (N, C, L) or (C, L)."""

    dimensions, function = 1, "conv_transpose1d"


class ConvTranspose2d(_TransposedConvolution):
    """A transposed convolution over (N, C, H, W) or (C, H, W).

    >>> import pellucid as torch
    >>> torch.nn.ConvTranspose2d(8, 3, kernel_size=2, stride=2)(torch.zeros(1, 8, 16, 16)).shape
    torch.Size([1, 3, 32, 32])
    """

    dimensions, function = 2, "conv_transpose2d"


class ConvTranspose3d(_TransposedConvolution):
    """A transposed convolution over (N, C, D, H, W) or (C, D, H, W)."""

    dimensions, function = 3, "conv_transpose3d"


# --- lazy forms: the first input tells in_channels


class _LazyConvXdMixin(LazyModuleMixin):
    """A convolution that learns `in_channels` from its first input."""

    def __init__(
        self, out_channels: int, kernel_size: Any, *settings: Any, bias: bool, device: Any, dtype: Any,
        **named: Any,
    ) -> None:  # fmt: skip
        super().__init__(0, 0, kernel_size, *settings, bias=False, device=device, dtype=dtype, **named)
        self.weight: Any = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias: Any = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Nothing to draw before the shape is known."""
        if not self.has_uninitialized_params() and self.in_channels != 0:  # type: ignore[has-type]
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Any, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their shapes."""
        if not self.has_uninitialized_params():
            return
        me: Any = self
        self.in_channels = me._get_in_channels(input)
        if self.in_channels % me.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        inner = (self.in_channels, self.out_channels // me.groups)
        outer = inner if me.transposed else (self.out_channels, self.in_channels // me.groups)
        self.weight.materialize((*outer, *me.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _get_in_channels(self, input: Any) -> int:
        rank = self.dimensions  # type: ignore[attr-defined]
        if input.ndim not in (rank + 1, rank + 2):
            raise RuntimeError(
                f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {type(self).__name__}, but got "
                f"input of size: {input.shape}"
            )
        return input.shape[1] if input.ndim == rank + 2 else input.shape[0]  # type: ignore[no-any-return]


class _LazyConvolution(_LazyConvXdMixin):
    def __init__(
        self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            out_channels, kernel_size, stride, padding, dilation, groups, bias=bias, padding_mode=padding_mode,
            device=device, dtype=dtype,
        )  # fmt: skip


class _LazyTransposedConvolution(_LazyConvXdMixin):
    def __init__(
        self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
        groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros", device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            out_channels, kernel_size, stride, padding, output_padding, groups, bias=bias, dilation=dilation,
            padding_mode=padding_mode, device=device, dtype=dtype,
        )  # fmt: skip


class LazyConv1d(_LazyConvolution, Conv1d):
    """A Conv1d that learns `in_channels` from its first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConvolution, Conv2d):
    """A Conv2d that learns `in_channels` from its first input.

    >>> import pellucid as torch
    >>> layer = torch.nn.LazyConv2d(8, kernel_size=3)
    >>> _ = layer(torch.zeros(1, 3, 32, 32))
    >>> layer
    Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1))
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyConvolution, Conv3d):
    """A Conv3d that learns `in_channels` from its first input."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyTransposedConvolution, ConvTranspose1d):
    """A ConvTranspose1d that learns `in_channels` from its first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyTransposedConvolution, ConvTranspose2d):
    """A ConvTranspose2d that learns `in_channels` from its first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyTransposedConvolution, ConvTranspose3d):
    """A ConvTranspose3d that learns `in_channels` from its first input."""

    cls_to_become = ConvTranspose3d
