"""The functions that put samples together, where PyTorch keeps them."""

from pellucid.utils.data.collate import *  # noqa: F403
