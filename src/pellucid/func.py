"""torch.func: composable transforms of functions.

>>> import pellucid as torch
>>> x = torch.tensor([1.0, 2.0, 3.0])
>>> torch.func.vmap(torch.func.grad(lambda x: x * x * x))(x)
tensor([ 3., 12., 27.])
"""

from typing import Any

from pellucid.transforms.batch import vmap
from pellucid.transforms.forward import jvp
from pellucid.transforms.jacobians import hessian, jacfwd, jacrev
from pellucid.transforms.rearrange import rearrange
from pellucid.transforms.reverse import grad, grad_and_value, linearize, vjp
from pellucid.transforms.stateless import functional_call, functionalize, stack_module_state

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
    "rearrange",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Make every batch normalisation inside a module forget the running statistics, which vmap cannot update.

    >>> import pellucid as torch
    >>> replace_all_batch_norm_modules_(torch.nn.BatchNorm1d(2)).running_mean is None
    True
    """
    for module in root.modules():
        if hasattr(module, "track_running_stats") and hasattr(module, "num_batches_tracked"):
            module.track_running_stats = False
            module.running_mean = module.running_var = module.num_batches_tracked = None
    return root
