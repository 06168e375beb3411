"""Neural networks, as torch.nn has them.

>>> import pellucid as torch
>>> torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Identity())(torch.ones(3, 2)).shape
torch.Size([3, 4])
"""

from pellucid.nn import attention, functional, init, modules, parameter, utils
from pellucid.nn.modules import *  # noqa: F403
from pellucid.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    *modules.__all__, "Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "attention",
    "functional", "init", "modules", "parameter", "utils",
]  # fmt: skip
