"""Intel's GPUs, which are not used here."""

from pellucid.mps import device_count, empty_cache, is_available, manual_seed, synchronize

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "synchronize"]
