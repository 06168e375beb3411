"""OpenMP: not used here."""

enabled = False


def is_available() -> bool:
    """False."""
    return False


def is_built() -> bool:
    """False."""
    return False
