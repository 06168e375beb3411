"""What PyTorch marks its functions with: whether they will stay as they are."""

from collections.abc import Callable
from typing import Any


def compatibility(is_backward_compatible: bool) -> Callable[[Any], Any]:
    """A decorator that changes nothing.

    >>> compatibility(is_backward_compatible=True)(len) is len
    True
    """
    return lambda marked: marked
