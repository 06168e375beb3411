"""oneDNN: not used here."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

enabled = deterministic = False
allow_tf32 = None
fp32_precision = "none"
conv, matmul, rnn = (SimpleNamespace(fp32_precision="none") for _ in range(3))


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
