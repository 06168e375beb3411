"""`torch.autograd.function`: the names that custom operations are written with."""

from pellucid.core.function import Function, FunctionCtx, once_differentiable

__all__ = ["Function", "FunctionCtx", "InplaceFunction", "once_differentiable"]


class InplaceFunction(Function):
    """A Function under an older name, which libraries still inherit from.

    >>> import pellucid as torch
    >>> class Rounded(InplaceFunction):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x.round()
    ...
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         return g
    >>> Rounded.apply(torch.tensor(1.7))
    tensor(2.)
    """

    def __init__(self, inplace: bool = False) -> None:
        self.inplace = inplace
