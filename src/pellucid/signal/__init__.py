"""Signal processing, as torch.signal has it."""

from pellucid.signal import windows

__all__ = ["windows"]
