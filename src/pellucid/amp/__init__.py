"""Automatic mixed precision: matrix products in bfloat16, the rest where it is safe; and the scaling of gradients."""

from pellucid.amp.autocast import (
    autocast,
    custom_bwd,
    custom_fwd,
    get_autocast_dtype,
    is_autocast_available,
    is_autocast_enabled,
)
from pellucid.amp.grad_scaler import GradScaler

__all__ = [
    "GradScaler", "autocast", "custom_bwd", "custom_fwd", "get_autocast_dtype", "is_autocast_available",
    "is_autocast_enabled",
]  # fmt: skip
