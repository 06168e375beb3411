"""Fold and Unfold: an image as the columns of its patches, and back."""

from typing import Any

from pellucid.nn import functional
from pellucid.nn.modules.module import Module

__all__ = ["Fold", "Unfold"]


def _texts(module: Module, *names: str) -> str:
    return ", ".join(f"{name}={getattr(module, name)}" for name in names)


class Fold(Module):
    """Add patches up to an image: (N, C * prod(kernel), L) becomes (N, C, *output_size).

    >>> import pellucid as torch
    >>> patches = torch.ones(1, 4, 4)  # four patches of 2 by 2
    >>> torch.nn.Fold(output_size=(3, 3), kernel_size=2)(patches)  # how many patches cover each pixel
    tensor([[[[1., 2., 1.],
              [2., 4., 2.],
              [1., 2., 1.]]]])
    """

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Any) -> Any:
        """Sum the patches at their places."""
        return functional.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """Its sizes and steps."""
        return _texts(self, "output_size", "kernel_size", "dilation", "padding", "stride")


class Unfold(Module):
    """The patches of an image as columns: (N, C, H, W) becomes (N, C * prod(kernel), L).

    >>> import pellucid as torch
    >>> torch.nn.Unfold(2)(torch.zeros(1, 3, 4, 4)).shape
    torch.Size([1, 12, 9])
    """

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Any) -> Any:
        """Cut the patches out."""
        return functional.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """Its sizes and steps."""
        return _texts(self, "kernel_size", "dilation", "padding", "stride")
