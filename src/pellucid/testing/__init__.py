"""Tools for tests, ours and yours: claims about operations, random programs, gradient checks, comparison.

`claims` holds every operation to what it promises, from its own samples; `graphs` makes random programs and
compares their gradients with finite differences and with PyTorch. `numeric_gradient`, `gradient_check` and
`epsilon_sweep` are the finite differences by themselves.
"""

from pellucid.testing.compare import assert_allclose, assert_close
from pellucid.testing.making import make_tensor
from pellucid.transforms.check import gradcheck, gradgradcheck
from pellucid.transforms.differences import epsilon_sweep, gradient_check, numeric_gradient

__all__ = [
    "assert_allclose", "assert_close", "epsilon_sweep", "gradcheck", "gradgradcheck", "gradient_check", "make_tensor",
    "numeric_gradient",
]  # fmt: skip
