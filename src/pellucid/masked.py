"""Operations with masks, as torch.masked has them: what a mask leaves out does not count."""

import sys
from typing import Any

import pellucid.ops.rare  # noqa: F401 (loading a family publishes its operations)
from pellucid.absent import absent
from pellucid.ops.operation import namespace as _namespace

globals().update(_namespace("torch.masked"))
_ops = sys.modules[__name__]  # where PyTorch's examples find them


def is_masked_tensor(obj: Any, /) -> bool:
    """False: a mask stands beside a tensor, not in it.

    >>> import pellucid as torch
    >>> torch.masked.is_masked_tensor(torch.ones(2))
    False
    """
    return False


__getattr__ = absent(
    "torch.masked", "MaskedTensor as_masked_tensor masked_tensor", "a mask stands beside a tensor, not in it",
    "the functions of torch.masked, which take mask=, or torch.where",
)  # fmt: skip
