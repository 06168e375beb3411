"""torch.func: composable transforms of functions.

>>> import pellucid as torch
>>> x = torch.tensor([1.0, 2.0, 3.0])
>>> torch.func.vmap(torch.func.grad(lambda x: x * x * x))(x)
tensor([ 3., 12., 27.])
"""

from pellucid.transforms.batch import vmap
from pellucid.transforms.forward import jvp
from pellucid.transforms.functional import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    linearize,
    stack_module_state,
    vjp,
)

__all__ = [
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "stack_module_state",
    "vjp",
    "vmap",
]
