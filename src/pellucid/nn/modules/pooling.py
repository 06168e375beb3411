"""Pooling: the largest value, the mean or the norm of every window; and back, for the largest value."""

from typing import Any

from pellucid.nn import functional
from pellucid.nn.modules.module import Module
from pellucid.nn.modules.utils import _ntuple, _single

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "FractionalMaxPool2d", "FractionalMaxPool3d",
    "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d",
    "MaxUnpool3d",
]  # fmt: skip


def _texts(module: Module, *names: str) -> str:
    return ", ".join(f"{name}={getattr(module, name)}" for name in names)


# --- the largest value


class _MaxPoolNd(Module):
    """The largest value of every window; with `return_indices` also where it stood."""

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        """Its window and steps."""
        return _texts(self, "kernel_size", "stride", "padding", "dilation", "ceil_mode")


class MaxPool1d(_MaxPoolNd):
    """The largest value of every window of (N, C, L) or (C, L)."""

    def forward(self, input: Any) -> Any:
        """Pool."""
        return functional.max_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.dilation, ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )  # fmt: skip


class MaxPool2d(_MaxPoolNd):
    """The largest value of every window of (N, C, H, W) or (C, H, W).

    >>> import pellucid as torch
    >>> torch.nn.MaxPool2d(2)(torch.arange(16.0).view(1, 4, 4))
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """

    def forward(self, input: Any) -> Any:
        """Pool."""
        return functional.max_pool2d(
            input, self.kernel_size, self.stride, self.padding, self.dilation, ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )  # fmt: skip


class MaxPool3d(_MaxPoolNd):
    """The largest value of every window of (N, C, D, H, W) or (C, D, H, W)."""

    def forward(self, input: Any) -> Any:
        """Pool."""
        return functional.max_pool3d(
            input, self.kernel_size, self.stride, self.padding, self.dilation, ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )  # fmt: skip


class _MaxUnpoolNd(Module):
    """Every value at the place where max pooling found it, zeros elsewhere."""

    dimensions = 0

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        entire = _ntuple(self.dimensions)
        self.kernel_size = entire(kernel_size)
        self.stride = entire(stride if stride is not None else kernel_size)
        self.padding = entire(padding)

    def extra_repr(self) -> str:
        """Its window and steps."""
        return _texts(self, "kernel_size", "stride", "padding")


class MaxUnpool1d(_MaxUnpoolNd):
    """Undo MaxPool1d as far as possible, given its indices.

    >>> import pellucid as torch
    >>> pool, unpool = torch.nn.MaxPool1d(2, return_indices=True), torch.nn.MaxUnpool1d(2)
    >>> largest, places = pool(torch.tensor([[1.0, 5.0, 3.0, 2.0]]))
    >>> unpool(largest, places)
    tensor([[0., 5., 3., 0.]])
    """

    dimensions = 1

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Any:
        """Put the values back."""
        return functional.max_unpool1d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool2d(_MaxUnpoolNd):
    """Undo MaxPool2d as far as possible, given its indices.

    >>> import pellucid as torch
    >>> values, places = torch.nn.MaxPool2d(2, return_indices=True)(torch.arange(4.0).view(1, 2, 2))
    >>> torch.nn.MaxUnpool2d(2)(values, places)
    tensor([[[0., 0.],
             [0., 3.]]])
    """

    dimensions = 2

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Any:
        """Put the values back."""
        return functional.max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool3d(_MaxUnpoolNd):
    """Undo MaxPool3d as far as possible, given its indices.

    >>> import pellucid as torch
    >>> pool, unpool = torch.nn.MaxPool3d(2, return_indices=True), torch.nn.MaxUnpool3d(2)
    >>> largest, places = pool(torch.arange(8.0).reshape(1, 2, 2, 2))
    >>> unpool(largest, places).flatten()
    tensor([0., 0., 0., 0., 0., 0., 0., 7.])
    """

    dimensions = 3

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Any:
        """Put the values back."""
        return functional.max_unpool3d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class _FractionalMaxPoolNd(Module):
    """The largest value of windows at random steps, so that the output's size need not divide the input's."""

    dimensions = 0

    def __init__(
        self, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        entire, name = _ntuple(self.dimensions), type(self).__name__
        self.kernel_size = entire(kernel_size)
        if self.dimensions == 3 and min(self.kernel_size) <= 0:  # in two dimensions the pooling itself refuses
            raise ValueError(f"kernel_size must be greater than zero, but got {kernel_size}")
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = entire(output_size) if output_size is not None else None
        self.output_ratio = entire(output_ratio) if output_ratio is not None else None
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Fractional max pooling of (N, C, H, W) or (C, H, W)."""

    dimensions = 2

    def forward(self, input: Any) -> Any:
        """Pool."""
        return functional.fractional_max_pool2d(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            _random_samples=self._random_samples,
        )  # fmt: skip


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Fractional max pooling of (N, C, D, H, W) or (C, D, H, W)."""

    dimensions = 3

    def forward(self, input: Any) -> Any:
        """Pool."""
        return functional.fractional_max_pool3d(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            _random_samples=self._random_samples,
        )  # fmt: skip


# --- the mean


class _AvgPoolNd(Module):
    """The mean of every window; `count_include_pad` counts the zeros of the border."""

    def extra_repr(self) -> str:
        """Its window and steps."""
        return _texts(self, "kernel_size", "stride", "padding")


class AvgPool1d(_AvgPoolNd):
    """The mean of every window of (N, C, L) or (C, L)."""

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = _single(stride if stride is not None else kernel_size)
        self.padding = _single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Any) -> Any:
        """Pool."""
        return functional.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )


class _AvgPoolOfImages(_AvgPoolNd):
    """In two and three dimensions the divisor may be chosen."""

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override


class AvgPool2d(_AvgPoolOfImages):
    """The mean of every window of (N, C, H, W) or (C, H, W).

    >>> import pellucid as torch
    >>> torch.nn.AvgPool2d(2)(torch.arange(4.0).view(1, 2, 2))
    tensor([[[1.5000]]])
    """

    def forward(self, input: Any) -> Any:
        """Pool."""
        return functional.avg_pool2d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
            self.divisor_override,
        )  # fmt: skip


class AvgPool3d(_AvgPoolOfImages):
    """The mean of every window of (N, C, D, H, W) or (C, D, H, W)."""

    def forward(self, input: Any) -> Any:
        """Pool."""
        return functional.avg_pool3d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
            self.divisor_override,
        )  # fmt: skip


# --- the norm


class _LPPoolNd(Module):
    """The p-norm of every window."""

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        """Its norm, its window and its steps."""
        return _texts(self, "norm_type", "kernel_size", "stride", "ceil_mode")


class LPPool1d(_LPPoolNd):
    """The p-norm of every window of (N, C, L) or (C, L)."""

    def forward(self, input: Any) -> Any:
        """Pool."""
        return functional.lp_pool1d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool2d(_LPPoolNd):
    """The p-norm of every window of (N, C, H, W) or (C, H, W).

    >>> import pellucid as torch
    >>> torch.nn.LPPool2d(2, 2)(torch.tensor([[[3.0, 0.0], [0.0, 4.0]]]))
    tensor([[[5.]]])
    """

    def forward(self, input: Any) -> Any:
        """Pool."""
        return functional.lp_pool2d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool3d(_LPPoolNd):
    """The p-norm of every window of (N, C, D, H, W) or (C, D, H, W)."""

    def forward(self, input: Any) -> Any:
        """Pool."""
        return functional.lp_pool3d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


# --- to a size of the output


class _AdaptivePoolNd(Module):
    """Windows of such sizes that the output has a given one; None keeps the input's."""

    def extra_repr(self) -> str:
        """The size of its output."""
        return _texts(self, "output_size")


class _AdaptiveMaxPoolNd(_AdaptivePoolNd):
    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Max pooling of (N, C, L) or (C, L) to a given length."""

    def forward(self, input: Any) -> Any:
        """Pool."""
        return functional.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Max pooling of (N, C, H, W) or (C, H, W) to a given size."""

    def forward(self, input: Any) -> Any:
        """Pool."""
        return functional.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Max pooling of (N, C, D, H, W) or (C, D, H, W) to a given size."""

    def forward(self, input: Any) -> Any:
        """Pool."""
        return functional.adaptive_max_pool3d(input, self.output_size, self.return_indices)


class _AdaptiveAvgPoolNd(_AdaptivePoolNd):
    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Mean pooling of (N, C, L) or (C, L) to a given length."""

    def forward(self, input: Any) -> Any:
        """Pool."""
        return functional.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Mean pooling of (N, C, H, W) or (C, H, W) to a given size.

    >>> import pellucid as torch
    >>> torch.nn.AdaptiveAvgPool2d((1, None))(torch.zeros(2, 3, 7, 5)).shape
    torch.Size([2, 3, 1, 5])
    """

    def forward(self, input: Any) -> Any:
        """Pool."""
        return functional.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Mean pooling of (N, C, D, H, W) or (C, D, H, W) to a given size."""

    def forward(self, input: Any) -> Any:
        """Pool."""
        return functional.adaptive_avg_pool3d(input, self.output_size)
