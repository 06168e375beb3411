"""Flags of CUDA's matrix products and attention kernels: they can be set and change nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

matmul = SimpleNamespace(
    fp32_precision="none",
    allow_tf32=False,
    allow_fp16_reduced_precision_reduction=False,
    allow_bf16_reduced_precision_reduction=False,
)


def is_built() -> bool:
    """False."""
    return False


@contextmanager
def sdp_kernel(*args: Any, **kwargs: Any) -> Iterator[None]:
    """A context, or a decorator, that changes nothing."""
    yield


def flash_sdp_enabled() -> bool:
    """False."""
    return False


mem_efficient_sdp_enabled = flash_sdp_enabled


def math_sdp_enabled() -> bool:
    """True: attention is computed as its formula says."""
    return True


def enable_flash_sdp(enabled: bool) -> None:
    """Accepted and ignored."""


enable_mem_efficient_sdp = enable_math_sdp = enable_cudnn_sdp = enable_flash_sdp


def cudnn_sdp_enabled() -> bool:
    """False."""
    return False


is_flash_attention_available = cudnn_sdp_enabled


def can_use_flash_attention(params: object, debug: bool = False) -> bool:
    """False."""
    return False


can_use_efficient_attention = can_use_cudnn_attention = can_use_flash_attention


def preferred_linalg_library(backend: str | None = None) -> str:
    """Accepted and ignored."""
    return "default"


preferred_blas_library = preferred_linalg_library
