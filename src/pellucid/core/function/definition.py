"""Function: the base of custom operations, and how its forward runs."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pellucid.core import careful, modes
from pellucid.core.function.context import (
    BackwardNode,
    Call,
    FunctionCtx,
    described,
    no_forward,
)
from pellucid.core.function.joining import joined
from pellucid.core.function.pullback import pull_back
from pellucid.core.kinds import Kind
from pellucid.core.primitive import Primitive
from pellucid.core.provenance import here, warn
from pellucid.core.tensor import Tensor
from pellucid.core.views import current_array, current_node
from pellucid.errors import explain


class Function:
    """Base of custom operations: static `forward` and `backward`, called through `apply`.

    >>> import pellucid as torch
    >>> class Square(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (x,) = ctx.saved_tensors
    ...         return 2 * x * grad
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> Square.apply(x).backward()
    >>> x.grad
    tensor(6.)
    """

    generate_vmap_rule = False
    boxed_grads_call = False  # backward(ctx, grads): one list, from which backward may remove what it has used
    clear_saved_tensors_on_access = False  # ctx.saved_tensors may be read once, and is then the reader's alone
    _row: Primitive
    _row_without_memory: Primitive
    _backward_cls: type[BackwardNode]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        name = f"{cls.__name__}Backward"
        cls._row = Primitive(cls.__name__, no_forward, (), None, pullback=pull_back, grad_name=name, keeps=True)
        cls._row_without_memory = replace(cls._row, keeps=False)
        cls._backward_cls = type(name, (BackwardNode,), {"__slots__": (), "__module__": cls.__module__})

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warn(
            f"{type(self).__name__} should not be instantiated: the methods of a custom operation are static. "
            f"Call {type(self).__name__}.apply(...) instead.",
            DeprecationWarning,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            explain(
                "Legacy autograd function with non-static forward method is deprecated",
                str(here()),
                "a custom operation is called through its class",
                f"{type(self).__name__}.apply(...)",
            )
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result: `forward(ctx, *args)`, or `forward(*args)` together with `setup_context`."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Fill the context after a forward that does not take it."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Return the gradient of every argument of forward, None for those that are not tensors."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Return the tangent of every output, given those of the inputs."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """Return the batched result and where its batch dimensions are."""
        raise NotImplementedError("You tried to vmap over a custom autograd.Function without vmap support.")

    @classmethod
    def _overrides(cls, method: str) -> bool:
        """Whether the class has a method of its own."""
        return getattr(cls, method) is not getattr(Function, method)

    @classmethod
    def _own_backward(cls) -> Callable[..., Any]:
        """The class's backward, under either of its two names."""
        return cls.vjp if cls._overrides("vjp") and not cls._overrides("backward") else cls.backward

    @classmethod
    def _run_backward(cls, ctx: FunctionCtx, grads: list[Any]) -> Any:
        """Call the class's backward the way it wants to be called."""
        if cls._overrides("vjp") and cls._overrides("backward"):
            raise RuntimeError(
                explain(
                    f"Implementing both 'backward' and 'vjp' for a custom Function is not allowed: {cls.__qualname__}",
                    str(here()),
                    "they are two names of one method",
                    "keep one of them",
                )
            )
        return cls._own_backward()(ctx, *((grads,) if cls.boxed_grads_call else grads))

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward and record one node whose backward is the class's own."""
        args = admitted(_positional(cls, args, kwargs))
        ctx, returned = run_forward(cls, args)
        if ctx is None:
            return returned
        if isinstance(returned, Tensor):
            return joined(ctx, args, (returned,))[0]
        if not isinstance(returned, tuple):
            return returned
        ctx._call.outputs = tuple(described(value) for value in returned)
        return joined(ctx, args, returned)


def _positional(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of forward in order, defaults and keywords included."""
    separate = cls._overrides("setup_context")
    if not kwargs and not separate:
        return args
    bound = inspect.signature(cls.forward).bind(*(() if separate else (None,)), *args, **kwargs)
    bound.apply_defaults()
    return bound.args if separate else bound.args[1:]


def run_forward(cls: type[Function], args: tuple[Any, ...]) -> tuple[FunctionCtx | None, Any]:
    """Run forward, on other kinds of array by the class's static rules; no context: outputs are recorded already."""
    kinds = [v.array for v in args if isinstance(v, Tensor) and isinstance(v.array, Kind)]
    if kinds:
        answer: tuple[FunctionCtx | None, Any] | None = max(kinds, key=lambda kind: kind.level).custom(cls, args)
        if answer is not None:
            return answer
    return run_plainly(cls, args)


def admitted(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments, those with history taken into the level of the others."""
    tensors = [value for value in args if isinstance(value, Tensor)]
    if not modes.is_grad_enabled() or not any(isinstance(tensor.array, Kind) for tensor in tensors):
        return args
    taken = iter(careful.admitted(tensors, [current_array(tensor) for tensor in tensors]))
    return tuple(next(taken) if isinstance(value, Tensor) else value for value in args)


def run_plainly(cls: type[Function], args: tuple[Any, ...]) -> tuple[FunctionCtx, Any]:
    """Run forward unrecorded on whatever the arguments are, with a context of its own."""
    ctx = _new_context(cls, args)  # first: an argument that may not be used is refused before forward writes to it
    with modes.recording(False):
        if not cls._overrides("setup_context"):
            return ctx, cls.forward(ctx, *args)
        returned = cls.forward(*args)
        cls.setup_context(ctx, args, returned)
    return ctx, returned


def context_of(cls: type[Function], args: tuple[Any, ...], returned: Any) -> FunctionCtx:
    """The context that setup_context makes of a call's arguments and outputs."""
    ctx = _new_context(cls, args)
    with modes.recording(False):
        cls.setup_context(ctx, args, returned)
    return ctx


def _new_context(cls: type[Function], args: tuple[Any, ...]) -> FunctionCtx:
    ctx = FunctionCtx()
    ctx._call = Call(cls, args)
    ctx.needs_input_grad = tuple(isinstance(value, Tensor) and current_node(value) is not None for value in args)
    return ctx
