"""oneDNN: not used here."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

enabled = False


def is_available() -> bool:
    """False."""
    return False


def is_built() -> bool:
    """False."""
    return False


@contextmanager
def flags(*args: Any, **kwargs: Any) -> Iterator[None]:
    """A context, or a decorator, that changes nothing."""
    yield
