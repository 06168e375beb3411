"""torch.overrides: how libraries and classes of their own take part in operations, by `__torch_function__`.

The work is done in interop/subclasses.py; importing this module prepares it.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from pellucid.core.tensor import Operators, Tensor
from pellucid.interop import subclasses
from pellucid.ops.operation import OPERATIONS

__all__ = [
    "BaseTorchFunctionMode", "TorchFunctionMode", "get_ignored_functions", "get_overridable_functions",
    "get_testing_overrides", "handle_torch_function",
    "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like",
    "is_tensor_method_or_property", "resolve_name", "wrap_torch_function",
]  # fmt: skip

subclasses.prepare()


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether the class of an argument wants to be asked.

    >>> has_torch_function((1, 2))
    False
    """
    return bool(subclasses.MODES.get()) or bool(subclasses.overloaded(relevant_args))


def has_torch_function_unary(arg: Any) -> bool:
    """Whether the class of an argument wants to be asked."""
    return has_torch_function((arg,))


def has_torch_function_variadic(*args: Any) -> bool:
    """Whether the class of an argument wants to be asked."""
    return has_torch_function(args)


def handle_torch_function(public_api: Callable[..., Any], relevant_args: Any, *args: Any, **kwargs: Any) -> Any:
    """Let the classes of the arguments answer a call of `public_api`.

    >>> import pellucid as torch
    >>> class Five:
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return f"5 to {func.__name__}"
    >>> def double(x):
    ...     if torch.overrides.has_torch_function((x,)):
    ...         return torch.overrides.handle_torch_function(double, (x,), x)
    ...     return 2 * x
    >>> double(Five())
    '5 to double'
    """
    return subclasses.ask(public_api, subclasses.overloaded(relevant_args), args, kwargs)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[..., Any]:
    """A decorator: the function asks the classes of what `dispatcher` returns of its arguments.

    >>> wrap_torch_function(lambda x: (x,))(abs)(-3)
    3
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


def is_tensor_like(inp: Any) -> bool:
    """Whether something is a tensor, or has a `__torch_function__`."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether a function is one of Tensor's methods."""
    return getattr(Tensor, getattr(func, "__name__", ""), None) is func


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """The functions that ask, by the namespace they are in; under Tensor its methods."""
    found: dict[Any, list[Callable[..., Any]]] = {}
    for operation in OPERATIONS.values():
        found.setdefault(operation.module, []).append(operation.function)
    found[Tensor] = [each for each in vars(Operators).values() if callable(each)]
    return found


def get_ignored_functions() -> set[Callable[..., Any]]:
    """The functions that never ask: what makes tensors, and what tells of one without computing.

    >>> import pellucid as torch
    >>> torch.Tensor.as_subclass in get_ignored_functions(), torch.add in get_ignored_functions()
    (True, False)
    """
    asking = {each for functions in get_overridable_functions().values() for each in functions}
    package = sys.modules["pellucid"]
    named = [getattr(package, name) for name in dir(package) if not name.startswith("_")]
    own = [each for name, each in vars(Tensor).items() if not name.startswith("_")]
    return {each for each in (*named, *own) if isinstance(each, FunctionType)} - asking  # type: ignore[return-value]


def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """For each function that asks, one of the same signature that gives -1, to test a class with.

    >>> import pellucid as torch
    >>> get_testing_overrides()[torch.add](1, 2)
    -1
    """
    return {each: _minus_one(each) for functions in get_overridable_functions().values() for each in functions}


def _minus_one(function: Callable[..., Any]) -> Callable[..., Any]:
    def override(*args: Any, **kwargs: Any) -> int:
        return -1

    override.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return override


def resolve_name(f: Callable[..., Any]) -> str | None:
    """The public name of a function, None if it has none.

    >>> import pellucid as torch
    >>> resolve_name(torch.exp), resolve_name(torch.Tensor.exp)
    ('torch.exp', 'torch.Tensor.exp')
    """
    for operation in OPERATIONS.values():
        if operation.function is f:
            return f"{operation.module}.{operation.name}"
    return f"torch.Tensor.{f.__name__}" if is_tensor_method_or_property(f) else None


class TorchFunctionMode:
    """A mode whose `__torch_function__` is asked about every operation inside a `with` block.

    >>> import pellucid as torch
    >>> class Log(torch.overrides.TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         return func(*args, **(kwargs or {}))
    >>> x = torch.ones(2)
    >>> with Log():
    ...     y = torch.exp(x) + 1
    exp
    add
    """

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What to make of a call; every mode writes its own."""
        raise NotImplementedError

    def __enter__(self) -> "TorchFunctionMode":
        subclasses.enter_mode(self)
        return self

    def __exit__(self, *error: object) -> None:
        subclasses.leave_mode()


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that lets every call be what it is.

    >>> import pellucid as torch
    >>> with BaseTorchFunctionMode():
    ...     torch.ones(2) + 1
    tensor([2., 2.])
    """

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The call itself."""
        return func(*args, **(kwargs or {}))
