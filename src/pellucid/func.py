"""torch.func: composable transforms of functions.

>>> import pellucid as torch
>>> x = torch.tensor([1.0, 2.0, 3.0])
>>> torch.func.vmap(torch.func.grad(lambda x: x * x * x))(x)
tensor([ 3., 12., 27.])
"""

from typing import Any

from pellucid.core.tensor import Tensor, wrap
from pellucid.transforms.batch import Batched, vmap
from pellucid.transforms.forward import Dual, jvp
from pellucid.transforms.jacobians import hessian, jacfwd, jacrev
from pellucid.transforms.rearrange import rearrange
from pellucid.transforms.reverse import grad, grad_and_value, linearize, vjp
from pellucid.transforms.stateless import functional_call, functionalize, stack_module_state

__all__ = [
    "debug_unwrap",
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


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """What a tensor inside a transformed function is made of, to look at in a debugger: not to compute with.

    >>> import pellucid as torch
    >>> def f(x):
    ...     print(torch.func.debug_unwrap(x))
    ...     return x
    >>> _ = torch.func.vmap(f)(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    array = tensor.array
    while isinstance(array, (Batched, Dual)):
        array = array.value if isinstance(array, Batched) else array.primal
        if not recurse:
            break
    return tensor if array is tensor.array else wrap(array)


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
