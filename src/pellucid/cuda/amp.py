"""torch.cuda.amp, the old spelling: mixed precision on a device that is not there, hence switched off."""

from functools import partial
from typing import Any

from pellucid import amp
from pellucid.amp import autocast_mode, grad_scaler

__all__ = ["GradScaler", "autocast", "autocast_mode", "custom_bwd", "custom_fwd", "grad_scaler"]

GradScaler = amp.GradScaler
custom_fwd = partial(amp.custom_fwd, device_type="cuda")
custom_bwd = partial(amp.custom_bwd, device_type="cuda")


class autocast(amp.autocast):
    """Autocast for CUDA: it changes nothing on the CPU.

    >>> import pellucid as torch
    >>> with torch.cuda.amp.autocast(enabled=False):
    ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
    torch.float32
    """

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)
