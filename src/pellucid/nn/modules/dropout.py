"""Dropout: random elements, or whole channels, set to zero while training."""

from typing import Any

from pellucid.nn import functional
from pellucid.nn.modules.module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _DropoutNd(Module):
    """A layer that drops with probability p, in training only."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Its probability."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Each element becomes zero with probability p; the others are scaled by 1 / (1 - p).

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> layer = torch.nn.Dropout(0.5)
    >>> layer(torch.ones(5))
    tensor([0., 0., 2., 0., 0.])
    >>> layer.eval()(torch.ones(5))
    tensor([1., 1., 1., 1., 1.])
    """

    def forward(self, input: Any) -> Any:
        """Drop elements."""
        return functional.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Dropout of whole channels of (N, C, L) or (C, L).

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.nn.Dropout1d(0.5)(torch.ones(1, 3, 2))
    tensor([[[0., 0.],
             [0., 0.],
             [2., 2.]]])
    """

    def forward(self, input: Any) -> Any:
        """Drop channels."""
        return functional.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Dropout of whole channels of (N, C, H, W).

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.nn.Dropout2d(0.5)(torch.ones(1, 3, 1, 2))
    tensor([[[[0., 0.]],
    <BLANKLINE>
             [[0., 0.]],
    <BLANKLINE>
             [[2., 2.]]]])
    """

    def forward(self, input: Any) -> Any:
        """Drop channels."""
        return functional.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Dropout of whole channels of (N, C, D, H, W).

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.nn.Dropout3d(0.5)(torch.ones(1, 3, 4, 4, 4)).sum((2, 3, 4))  # channels are whole or gone
    tensor([[  0.,   0., 128.]])
    """

    def forward(self, input: Any) -> Any:
        """Drop channels."""
        return functional.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout for SELU networks: elements go to SELU's lower bound, and mean 0 and variance 1 stay.

    As in PyTorch, `inplace` is kept and not heeded.
    """

    def forward(self, input: Any) -> Any:
        """Drop elements."""
        return functional.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """Alpha dropout of whole channels."""

    def forward(self, input: Any) -> Any:
        """Drop channels."""
        return functional.feature_alpha_dropout(input, self.p, self.training)
