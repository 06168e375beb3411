"""cuDNN, which is not here: its flags can be set and change nothing."""

from contextlib import nullcontext
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


def flags(*args: Any, **kwargs: Any) -> Any:
    """A context that changes nothing."""
    return nullcontext()
