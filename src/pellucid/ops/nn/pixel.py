"""Channels and pixels regrouped: pixel_shuffle, pixel_unshuffle, channel_shuffle.

All three split dimensions, put them in another order and merge them; so does the derivative.
"""

from typing import Any

from numpy import ndarray

from pellucid.core.primitive import multilinear
from pellucid.core.record import bind
from pellucid.ops.arguments import Axes, Shape, expect, shifted
from pellucid.ops.operation import call, operation


def _regroup(a: ndarray, split: Shape, order: Axes, merged: Shape) -> ndarray:
    return a.reshape(split).transpose(order).copy().reshape(merged)


def _back(g: Any, shape: Shape, split: Shape, order: Axes) -> Any:
    home = tuple(order.index(axis) for axis in range(len(order)))
    return regroup_row(g, tuple(split[axis] for axis in order), home, tuple(shape))


def _row(name: str, grad_name: str) -> Any:
    """A row (a, split, order, merged): reshaped, permuted, reshaped."""
    return bind(
        multilinear(
            name, _regroup, lambda g, a_shape, split, order, merged: _back(g, a_shape, split, order),
            grad_name=grad_name,
            batch=lambda op, a, split, order, merged: op(
                a, (a.shape[0], *split), (0, *shifted(order)), (a.shape[0], *merged)
            ),
        )
    )  # fmt: skip


pixel_shuffle_row = _row("pixel_shuffle", "PixelShuffleBackward0")
pixel_unshuffle_row = _row("pixel_unshuffle", "PixelUnshuffleBackward0")
channel_shuffle_row = _row("channel_shuffle", "ChannelShuffleBackward0")
regroup_row = _row("regroup", "RegroupBackward0")


@operation(
    samples=lambda draw: [
        call(draw(1, 4, 2, 3), 2), call(draw(9, 1, 2), 3), call(draw(2, 1, 4, 1, 2), 2), call(draw(2, 3, 2), 1),
        call(draw(4, 2, 2).mT, upscale_factor=2),
    ],
    module="torch.nn.functional", aliases=("torch.pixel_shuffle",),
)  # fmt: skip
def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    """Make every r * r channels the r * r pixels of a larger picture: (..., C * r², H, W) to (..., C, H * r, W * r).

    >>> import pellucid as torch
    >>> torch.nn.functional.pixel_shuffle(torch.arange(4.0).reshape(4, 1, 1), 2)
    tensor([[[0., 1.],
             [2., 3.]]])
    """
    shape, r = tuple(input.shape), int(upscale_factor)
    expect(len(shape) >= 3, f"pixel_shuffle expects input to have at least 3 dimensions, but got {len(shape)}")
    expect(r > 0, f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    (*lead, channels, height, width), n = shape, len(shape) - 3
    what = "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor"
    expect(channels % (r * r) == 0, f"{what}, but {channels} is not divisible by {r * r}")
    fewer = channels // (r * r)
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return pixel_shuffle_row(input, (*lead, fewer, r, r, height, width), order, (*lead, fewer, height * r, width * r))


@operation(
    samples=lambda draw: [
        call(draw(1, 1, 4, 2), 2), call(draw(2, 3, 6), 3), call(draw(2, 1, 1, 2, 2), 2), call(draw(2, 3, 2), 1),
        call(draw(1, 4, 2).mT, downscale_factor=2),
    ],
    module="torch.nn.functional", aliases=("torch.pixel_unshuffle",),
)  # fmt: skip
def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    """The inverse of pixel_shuffle: every r * r pixels become channels: (..., C, H * r, W * r) to (..., C * r², H, W).

    >>> import pellucid as torch
    >>> torch.nn.functional.pixel_unshuffle(torch.arange(4.0).reshape(1, 2, 2), 2).flatten()
    tensor([0., 1., 2., 3.])
    """
    shape, r = tuple(input.shape), int(downscale_factor)
    expect(len(shape) >= 3, f"pixel_unshuffle expects input to have at least 3 dimensions, but got {len(shape)}")
    expect(r > 0, f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    (*lead, channels, height, width), n = shape, len(shape) - 3
    what = "pixel_unshuffle expects height and width to be divisible by downscale_factor"
    expect(height % r == 0 and width % r == 0, f"{what}, but got {height} and {width} for {r}")
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    split = (*lead, channels, height // r, r, width // r, r)
    return pixel_unshuffle_row(input, split, order, (*lead, channels * r * r, height // r, width // r))


@operation(
    samples=lambda draw: [
        call(draw(1, 4, 2, 3), 2), call(draw(2, 6, 2), 3), call(draw(1, 2, 2, 1, 2), 2), call(draw(2, 3, 2), 1),
        call(draw(2, 4, 3).mT, groups=3),
    ],
    module="torch.nn.functional",
    aliases=("native_channel_shuffle", "torch.channel_shuffle", "torch.native_channel_shuffle"),
)  # fmt: skip
def channel_shuffle(input: Any, groups: int) -> Any:
    """Take one channel of each group in turn, as cards are shuffled.

    >>> import pellucid as torch
    >>> torch.nn.functional.channel_shuffle(torch.arange(4.0).reshape(1, 4, 1), 2).flatten()
    tensor([0., 2., 1., 3.])
    """
    shape = tuple(input.shape)
    expect(len(shape) > 2, f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(shape)}")
    batch, channels, *rest = shape
    expect(groups > 0, f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    expect(channels % groups == 0, f"Number of channels must be divisible by groups. Got {channels} and {groups}")
    split = (batch, groups, channels // groups, *rest)
    return channel_shuffle_row(input, split, (0, 2, 1, *range(3, len(split))), shape)
