"""Pixel shuffle: channels become pixels, and back."""

from typing import Any

from pellucid.nn import functional
from pellucid.nn.modules.module import Module

__all__ = ["PixelShuffle", "PixelUnshuffle"]


class PixelShuffle(Module):
    """Spread r² channels over r x r pixels: (*, C r², H, W) becomes (*, C, H r, W r).

    >>> import pellucid as torch
    >>> torch.nn.PixelShuffle(2)(torch.zeros(1, 8, 3, 3)).shape
    torch.Size([1, 2, 6, 6])
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Any) -> Any:
        """Make the image larger and its channels fewer."""
        return functional.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """Its factor."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Gather r x r pixels into r² channels: (*, C, H r, W r) becomes (*, C r², H, W)."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Any) -> Any:
        """Make the image smaller and its channels more."""
        return functional.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """Its factor."""
        return f"downscale_factor={self.downscale_factor}"
