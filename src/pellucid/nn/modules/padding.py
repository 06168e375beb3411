"""Padding: borders of zeros, of a constant, of mirrored, repeated or wrapped-around values."""

from typing import Any

from pellucid.nn import functional
from pellucid.nn.modules.module import Module
from pellucid.nn.modules.utils import _ntuple

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d",
    "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


class _Pad(Module):
    """A layer that adds a border: (left, right, top, bottom, front, back), or one number for all sides."""

    dimensions = 0  # that are padded
    mode = ""

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = _ntuple(2 * self.dimensions)(padding)

    def forward(self, input: Any) -> Any:
        """Add the border."""
        return functional.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        """How wide the border is."""
        return f"{self.padding}"


# --- a constant


class _ConstantPadNd(_Pad):
    mode = "constant"

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Any) -> Any:
        """Add the border."""
        return functional.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """How wide the border is, and of what."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """A border of one value along the last dimension.

    >>> import pellucid as torch
    >>> torch.nn.ConstantPad1d((1, 2), 7.0)(torch.zeros(1, 2))
    tensor([[7., 0., 0., 7., 7.]])
    """

    dimensions = 1


class ConstantPad2d(_ConstantPadNd):
    """A border of one value around images."""

    dimensions = 2


class ConstantPad3d(_ConstantPadNd):
    """A border of one value around volumes."""

    dimensions = 3


class _Zeros(_ConstantPadNd):
    """A border of zeros: what the three ZeroPad layers have in common."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """How wide the border is."""
        return f"{self.padding}"


class ZeroPad1d(_Zeros, ConstantPad1d):
    """A border of zeros along the last dimension."""


class ZeroPad2d(_Zeros, ConstantPad2d):
    """A border of zeros around images."""


class ZeroPad3d(_Zeros, ConstantPad3d):
    """A border of zeros around volumes."""


# --- the input itself


class _ReflectionPadNd(_Pad):
    mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """A border that mirrors the input, without repeating its edge.

    >>> import pellucid as torch
    >>> torch.nn.ReflectionPad1d(2)(torch.tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 2., 1., 2., 3., 2., 1.]])
    """

    dimensions = 1


class ReflectionPad2d(_ReflectionPadNd):
    """A border that mirrors images, without repeating their edges."""

    dimensions = 2


class ReflectionPad3d(_ReflectionPadNd):
    """A border that mirrors volumes, without repeating their faces."""

    dimensions = 3


class _ReplicationPadNd(_Pad):
    mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """A border that repeats the edge."""

    dimensions = 1


class ReplicationPad2d(_ReplicationPadNd):
    """A border that repeats the edges of images."""

    dimensions = 2


class ReplicationPad3d(_ReplicationPadNd):
    """A border that repeats the faces of volumes."""

    dimensions = 3


class _CircularPadNd(_Pad):
    mode = "circular"

    def forward(self, input: Any) -> Any:
        """Add the border."""
        ranks = (self.dimensions + 1, self.dimensions + 2)
        if input.ndim not in ranks:
            raise ValueError(f"expected {ranks[0]}D or {ranks[1]}D input (got {input.ndim}D input)")
        return functional.pad(input, self.padding, "circular")


class CircularPad1d(_CircularPadNd):
    """A border from the other end, as if the input were a ring."""

    dimensions = 1


class CircularPad2d(_CircularPadNd):
    """A border from the other side, as if images were tiles."""

    dimensions = 2


class CircularPad3d(_CircularPadNd):
    """A border from the other side, as if volumes were tiles."""

    dimensions = 3
