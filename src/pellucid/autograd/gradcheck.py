"""torch.autograd.gradcheck: a module and a function of the same name, so this module can be called.

>>> import pellucid as torch
>>> import pellucid.autograd.gradcheck
>>> x = torch.ones(2, dtype=torch.float64, requires_grad=True)
>>> torch.autograd.gradcheck(torch.sin, (x,))
True
"""

import sys
from types import ModuleType
from typing import Any

from pellucid.errors import GradcheckError
from pellucid.transforms.check import gradcheck, gradgradcheck

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class _Callable(ModuleType):
    """Importing the module puts it where the function was: calling it calls the function."""

    def __call__(self, *args: Any, **kwargs: Any) -> bool:
        return bool(gradcheck(*args, **kwargs))


sys.modules[__name__].__class__ = _Callable
