"""Channel shuffle: the channels of several groups mixed."""

from typing import Any

from pellucid.nn import functional
from pellucid.nn.modules.module import Module

__all__ = ["ChannelShuffle"]


class ChannelShuffle(Module):
    """Take the channels (dimension 1) of all groups in turn: after it, each group has some of every other.

    >>> import pellucid as torch
    >>> torch.nn.ChannelShuffle(2)(torch.arange(4.0).view(1, 4, 1, 1)).flatten()
    tensor([0., 2., 1., 3.])
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Any) -> Any:
        """Mix the groups."""
        return functional.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """How many groups."""
        return f"groups={self.groups}"
