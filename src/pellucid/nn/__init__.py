"""Neural networks, as torch.nn has them."""

from pellucid.nn import functional

__all__ = ["functional"]
