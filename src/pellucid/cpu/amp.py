"""torch.cpu.amp, the old spelling of mixed precision on the CPU."""

from typing import Any

from pellucid import amp

__all__ = ["GradScaler", "autocast"]


class autocast(amp.autocast):
    """Autocast on the CPU.

    >>> import pellucid as torch
    >>> with torch.cpu.amp.autocast():
    ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
    torch.bfloat16
    """

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """A scaler on the CPU."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("cpu", *args, **kwargs)
