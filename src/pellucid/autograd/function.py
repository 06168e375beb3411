"""`torch.autograd.function`: the names that custom operations are written with."""

from pellucid.core.function import Function, FunctionCtx, once_differentiable

__all__ = ["Function", "FunctionCtx", "once_differentiable"]
