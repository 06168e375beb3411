"""Apple's GPUs, which are not used here."""


def is_available() -> bool:
    """False: Pellucid runs on the CPU."""
    return False


def device_count() -> int:
    """No devices."""
    return 0


def manual_seed(seed: int) -> None:
    """Nothing to seed."""


def empty_cache() -> None:
    """Nothing is cached."""


def synchronize() -> None:
    """Nothing runs elsewhere."""
