"""The functions that put samples together, where PyTorch keeps them."""

from pellucid.utils.data.collate import collate, default_collate, default_convert

__all__ = ["collate", "default_collate", "default_convert"]
