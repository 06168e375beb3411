"""A fast path of attention, which is not here: attention has one way."""


def get_fastpath_enabled() -> bool:
    """False."""
    return False


def set_fastpath_enabled(value: bool) -> None:
    """Accepted and ignored."""
