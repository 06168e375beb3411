"""Normalisations over the features of one example: layer, group, root mean square, local response."""

from typing import Any

import numpy as np

from pellucid.nn import functional, init
from pellucid.nn.modules.module import Module
from pellucid.nn.modules.utils import _single
from pellucid.nn.parameter import Parameter
from pellucid.ops.construct import from_numpy
from pellucid.ops.create import empty
from pellucid.ops.einsum import einsum

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class LayerNorm(Module):
    """The last dimensions moved and scaled to mean 0 and variance 1, then weighted and shifted.

    >>> import pellucid as torch
    >>> torch.nn.LayerNorm(2)(torch.tensor([[1.0, 3.0]]))
    tensor([[-1.0000,  1.0000]], grad_fn=<NativeLayerNormBackward0>)
    """

    def __init__(
        self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape = _single(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        made = {"device": device, "dtype": dtype}
        weight = Parameter(empty(self.normalized_shape, **made)) if elementwise_affine else None
        shift = Parameter(empty(self.normalized_shape, **made)) if elementwise_affine and bias else None
        self.register_parameter("weight", weight)
        self.register_parameter("bias", shift)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weights of one, biases of zero."""
        if self.elementwise_affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: Any) -> Any:
        """Normalise."""
        return functional.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Its settings."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class GroupNorm(Module):
    """Groups of channels of each example moved and scaled to mean 0 and variance 1, then each channel weighted."""

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, device: Any = None,
        dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        made = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(empty(num_channels, **made)) if affine else None)
        self.register_parameter("bias", Parameter(empty(num_channels, **made)) if affine and bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weights of one, biases of zero."""
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: Any) -> Any:
        """Normalise."""
        return functional.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Its settings."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """The last dimensions divided by their root mean square, then weighted.

    >>> import pellucid as torch
    >>> torch.nn.RMSNorm(2)(torch.tensor([[1.0, 7.0]]))
    tensor([[0.2000, 1.4000]], grad_fn=<MulBackward0>)
    """

    def __init__(
        self, normalized_shape: Any, eps: float | None = None, elementwise_affine: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape = _single(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        shape = self.normalized_shape
        weight = Parameter(empty(shape, device=device, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", weight)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weights of one."""
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, x: Any) -> Any:
        """Normalise."""
        return functional.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Its settings."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class LocalResponseNorm(Module):
    """Each channel damped by the mean square of the channels near it."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Any) -> Any:
        """Normalise."""
        return functional.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """Its settings."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """An older form of LocalResponseNorm for (N, C, H, W), with PyTorch's window: channel 0 never leaves it.

    Its gradient is that of what it computes; PyTorch's is that of a window which differs from its own.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Any) -> Any:
        """Normalise."""
        if input.ndim != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.ndim}D instead.")
        reach, channel = (self.size + 1) // 2, np.arange(input.shape[1])
        near = (channel < channel[:, None] + reach) & ((channel == 0) | (channel > channel[:, None] - reach))
        squares = einsum("cd,ndhw->nchw", from_numpy(near).to(input.dtype), input * input)
        return input * (squares * (self.alpha / self.size) + self.k) ** -self.beta

    def extra_repr(self) -> str:
        """Its settings."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
