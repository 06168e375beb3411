"""Conversions of the memory format of convolutions' weights; no number changes."""

from typing import Any

from pellucid.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def convert_conv2d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Give the weights of all 2-d convolutions inside a module another memory format.

    >>> import pellucid as torch
    >>> conv = torch.nn.Conv2d(3, 8, 2)
    >>> torch.nn.utils.convert_conv2d_weight_memory_format(conv, torch.channels_last).weight.stride()
    (12, 1, 6, 3)
    """
    return _converted(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Give the weights of all 3-d convolutions inside a module another memory format.

    >>> import pellucid as torch
    >>> conv = torch.nn.Conv3d(3, 8, 2)
    >>> torch.nn.utils.convert_conv3d_weight_memory_format(conv, torch.channels_last_3d).weight.stride()
    (24, 1, 12, 6, 3)
    """
    return _converted(module, (Conv3d, ConvTranspose3d), memory_format)


def _converted(module: Any, kinds: tuple[type, ...], memory_format: Any) -> Any:
    found: list[Any] = [part for part in module.modules() if isinstance(part, kinds)]
    for part in found:
        part.weight.data = part.weight.detach().clone(memory_format=memory_format)
    return module
