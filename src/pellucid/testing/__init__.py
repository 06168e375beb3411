"""Tools for tests, ours and yours: claims about operations, random programs, and gradient checks.

`claims` holds every operation to what it promises, from its own samples; `graphs` makes random programs and
compares their gradients with finite differences and with PyTorch.
"""

from pellucid.transforms.check import gradcheck, gradgradcheck

__all__ = ["gradcheck", "gradgradcheck"]
