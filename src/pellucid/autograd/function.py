"""`torch.autograd.function`: the names that custom operations are written with."""

from pellucid.core.function import Function, FunctionCtx, once_differentiable

__all__ = ["Function", "FunctionCtx", "InplaceFunction", "once_differentiable"]


class InplaceFunction(Function):
    """An older base of functions that may change their input; nothing but the name is left of it.

    >>> issubclass(InplaceFunction, Function)
    True
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace
