"""torch.library: operations of one's own. Here they are plain functions, with a derivative if one is registered.

>>> import pellucid as torch
>>> @torch.library.custom_op("mine::twice", mutates_args=())
... def twice(x: torch.Tensor) -> torch.Tensor:
...     return torch.from_numpy(x.detach().numpy() * 2)
>>> twice.register_autograd(lambda ctx, g: g * 2)
>>> x = torch.ones(2, requires_grad=True)
>>> twice(x).sum().backward()
>>> x.grad
tensor([2., 2.])
"""

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from pellucid.absent import absent
from pellucid.core.function import Function

__all__ = ["CustomOpDef", "custom_op", "register_autograd", "register_fake", "register_kernel"]

REGISTERED: dict[str, "CustomOpDef"] = {}


class CustomOpDef:
    """An operation with a name, its function, and what was registered for it."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._qualname = name
        self._function: Callable[..., Any] = function
        self._recorded: Any = None
        update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return (self._recorded or self._function)(*args, **kwargs)

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Give it a derivative: backward(ctx, *gradients), and setup_context(ctx, inputs, output) before."""
        keep = setup_context or (lambda ctx, inputs, output: None)
        members = {"forward": self._function, "setup_context": keep, "backward": backward}
        function: Any = type(self._qualname, (Function,), {name: staticmethod(each) for name, each in members.items()})
        self._recorded = function.apply

    def register_fake(self, fn: Any = None, /) -> Any:
        """Accepted: shapes are known from the results themselves."""
        return (lambda function: function) if fn is None else fn

    register_vmap = register_torch_dispatch = register_fake

    def register_kernel(self, device_types: Any, fn: Any = None, /) -> Any:
        """Take another function for the CPU; those for other devices are never called."""
        if fn is None:
            return lambda function: self.register_kernel(device_types, function)
        if device_types is None or "cpu" in device_types:
            self._function = fn
        return fn


def custom_op(
    name: str, fn: Callable[..., Any] | None = None, /, *, mutates_args: Any = (), device_types: Any = None,
    schema: str | None = None, **options: Any,
) -> Any:  # fmt: skip
    """Make a function an operation; without a function, a decorator."""
    if fn is None:
        return lambda function: custom_op(name, function, mutates_args=mutates_args)
    REGISTERED[name] = CustomOpDef(name, fn)
    return REGISTERED[name]


def _found(op: Any) -> CustomOpDef:
    if op not in REGISTERED and not isinstance(op, CustomOpDef):
        raise ValueError(f"there is no operation {op!r}: torch.library.custom_op makes one")
    return op if isinstance(op, CustomOpDef) else REGISTERED[op]


def register_fake(op: Any, func: Any = None, /, **options: Any) -> Any:
    """Accepted: shapes are known from the results themselves."""
    return _found(op).register_fake(func)


def register_kernel(op: Any, device_types: Any, func: Any = None, /, **options: Any) -> Any:
    """Take another function for the CPU."""
    return _found(op).register_kernel(device_types, func)


def register_autograd(op: Any, backward: Callable[..., Any], /, *, setup_context: Any = None, lib: Any = None) -> None:
    """Give an operation a derivative."""
    _found(op).register_autograd(backward, setup_context=setup_context)


NAMES = """
Library define fallthrough_kernel get_ctx impl impl_abstract infer_schema opcheck register_torch_dispatch
register_vmap triton_op wrap_triton
"""
__getattr__ = absent(
    "torch.library",
    NAMES,
    "operations are Python functions here",
    "torch.library.custom_op, or torch.autograd.Function",
)
