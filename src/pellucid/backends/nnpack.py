"""NNPACK, which is not here."""

from contextlib import AbstractContextManager, nullcontext


def is_available() -> bool:
    """False."""
    return False


def set_flags(_enabled: bool) -> tuple[bool]:
    """Accepted; says what was set before."""
    return (False,)


def flags(enabled: bool = False) -> AbstractContextManager[None]:
    """A context that changes nothing."""
    return nullcontext()
