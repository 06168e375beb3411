"""TorchScript, accepted: functions and modules stay plain Python, which runs them as they are."""

from typing import Any


def script(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """The object itself.

    >>> script(len)([1, 2])
    2
    """
    return obj


def trace(func: Any, *args: Any, **kwargs: Any) -> Any:
    """The function itself."""
    return func


def ignore(obj: Any = None, **kwargs: Any) -> Any:
    """The object itself, or a decorator that gives it back."""
    return obj if callable(obj) else (lambda function: function)


export = unused = ignore
script_method = script
ScriptModule = object
Final = Any


def is_scripting() -> bool:
    """False."""
    return False


is_tracing = is_scripting
