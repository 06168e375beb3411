"""Which kernel computes attention: accepted and noted; here there is one.

>>> import pellucid as torch
>>> from pellucid.nn.attention import SDPBackend, sdpa_kernel
>>> with sdpa_kernel(SDPBackend.MATH):
...     torch.nn.functional.scaled_dot_product_attention(*[torch.ones(1, 2, 4)] * 3).shape
torch.Size([1, 2, 4])
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from pellucid.nn.attention import bias

__all__ = ["SDPBackend", "WARN_FOR_UNFUSED_KERNELS", "bias", "sdpa_kernel"]  # noqa: RUF022

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(Enum):
    """The kernels of attention that PyTorch has."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[dict[Any, Any]]:
    """Ask for kernels of attention: checked, and without effect."""
    asked = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(asked, list) or not all(isinstance(each, SDPBackend) for each in asked):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    yield {}
