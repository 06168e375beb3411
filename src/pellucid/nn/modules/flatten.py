"""Flatten and Unflatten: several dimensions as one, and back."""

from typing import Any

from pellucid.nn.modules.module import Module

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """The dimensions from start_dim to end_dim as one.

    >>> import pellucid as torch
    >>> torch.nn.Flatten()(torch.zeros(5, 2, 3)).shape
    torch.Size([5, 6])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Any) -> Any:
        """Join the dimensions."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """The first and the last dimension that are joined."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """One dimension as several.

    >>> import pellucid as torch
    >>> torch.nn.Unflatten(1, (2, 3))(torch.zeros(5, 6)).shape
    torch.Size([5, 2, 3])
    """

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        if not isinstance(unflattened_size, (tuple, list)):
            kind = type(unflattened_size).__name__
            raise TypeError(f"unflattened_size must be a tuple of ints, but found type {kind}")
        for place, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                found = f"found element of type {type(size).__name__} at pos {place}"
                raise TypeError(f"unflattened_size must be tuple of ints, but {found}")
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Any) -> Any:
        """Split the dimension."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """The dimension and its new sizes."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
