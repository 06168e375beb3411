"""NNPACK, which is not here."""

from collections.abc import Iterator
from contextlib import contextmanager


def is_available() -> bool:
    """False."""
    return False


def set_flags(_enabled: bool) -> tuple[bool]:
    """Accepted; says what was set before."""
    return (False,)


@contextmanager
def flags(enabled: bool = False) -> Iterator[None]:
    """A context, or a decorator, that changes nothing."""
    yield
