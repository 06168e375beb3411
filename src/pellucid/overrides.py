"""torch.overrides: what libraries ask before they hand an operation to somebody else's tensors, of which none is here.

Classes that carry `__torch_function__` are not consulted: every answer is no.
"""

from collections.abc import Callable, Iterable
from typing import Any

from pellucid.core.tensor import Tensor

__all__ = [
    "handle_torch_function", "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic",
    "is_tensor_like", "is_tensor_method_or_property",
]  # fmt: skip


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """False.

    >>> has_torch_function((1, 2))
    False
    """
    return False


def has_torch_function_unary(arg: Any) -> bool:
    """False."""
    return False


def has_torch_function_variadic(*args: Any) -> bool:
    """False."""
    return False


def handle_torch_function(public_api: Callable[..., Any], relevant_args: Any, *args: Any, **kwargs: Any) -> Any:
    """Never asked for after `has_torch_function` has said no; refused."""
    raise NotImplementedError("Pellucid does not consult __torch_function__")


def is_tensor_like(inp: Any) -> bool:
    """Whether something is a tensor."""
    return isinstance(inp, Tensor)


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether a function is one of Tensor's methods."""
    return getattr(Tensor, getattr(func, "__name__", ""), None) is func
