"""torch.cuda.amp, the old spelling: mixed precision on a device that is not there, hence switched off."""

from typing import Any

from pellucid import amp
from pellucid.amp import custom_bwd, custom_fwd

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

GradScaler = amp.GradScaler


class autocast(amp.autocast):
    """Autocast for CUDA: it changes nothing on the CPU.

    >>> import pellucid as torch
    >>> with torch.cuda.amp.autocast(enabled=False):
    ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
    torch.float32
    """

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)
