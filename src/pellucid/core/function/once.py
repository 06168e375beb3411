"""once_differentiable: a backward whose own derivative is refused."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from pellucid.core import careful, modes
from pellucid.core.function.context import FunctionCtx, no_forward
from pellucid.core.primitive import Primitive
from pellucid.core.provenance import here
from pellucid.core.tensor import Node, Tensor, wrap
from pellucid.core.views import current_node
from pellucid.errors import explain


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Declare that a backward is not itself differentiable: differentiating it is an error, not a wrong number.

    >>> import pellucid as torch
    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     @once_differentiable
    ...     def backward(ctx, grad):
    ...         return grad * 2
    """

    @wraps(fn)
    def once(ctx: FunctionCtx, *grads: Any) -> Any:
        with modes.recording(False):
            returned = fn(ctx, *grads)
        if not modes.is_grad_enabled():
            return returned
        parents = tuple(current_node(t) for t in (*grads, *ctx.saved_tensors) if isinstance(t, Tensor))
        if not any(parent is not None for parent in parents):
            return returned
        name = ctx._call.function.__name__
        if not isinstance(returned, tuple):
            return _refusing(returned, parents, name)
        return tuple(_refusing(value, parents, name) for value in returned)

    return once


def _refusing(value: Any, parents: tuple[Node | None, ...], name: str) -> Any:
    """The same value, joined to the graph by a node that refuses to be differentiated."""
    if not isinstance(value, Tensor):
        return value
    return wrap(value.array, careful.new_node(ONCE, parents, ((name,),), tuple(value.array.shape), here()))


def _refuse_twice(g: Any, name: str) -> Any:
    raise RuntimeError(
        explain(
            f"trying to differentiate twice a function that was marked with @once_differentiable: {name}",
            str(here()),
            "its backward was run without recording",
            "write the backward with tensor operations and leave @once_differentiable out",
        )
    )


ONCE = Primitive("once_differentiable", no_forward, (), None, pullback=_refuse_twice, grad_name="OnceDifferentiable")
