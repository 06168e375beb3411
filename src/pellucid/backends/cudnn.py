"""cuDNN, which is not here: its flags can be set and change nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

enabled = True
benchmark = False
deterministic = False
allow_tf32 = False
benchmark_limit = None
fp32_precision = "none"
conv, rnn = SimpleNamespace(fp32_precision="none"), SimpleNamespace(fp32_precision="none")


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
