"""cuDNN, which is not here: its flags can be set and change nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

enabled = True
benchmark = False
deterministic = False
allow_tf32 = False


def is_available() -> bool:
    """False."""
    return False


def version() -> None:
    """No version."""
    return None


@contextmanager
def flags(*args: Any, **kwargs: Any) -> Iterator[None]:
    """A context, or a decorator, that changes nothing."""
    yield
