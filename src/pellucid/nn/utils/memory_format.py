"""Conversions of a convolution's memory format, which changes no number; here every tensor keeps its own."""

from typing import Any

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def convert_conv2d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """The module as it is: kernels here read any layout."""
    return module


def convert_conv3d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """The module as it is: kernels here read any layout."""
    return module
