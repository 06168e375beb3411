"""What scripts say to PyTorch's compiler: accepted, and without effect, for functions run as they are."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any


def is_compiling() -> bool:
    """False: code runs as it is written.

    >>> is_compiling()
    False
    """
    return False


is_dynamo_compiling = is_exporting = is_compiling


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The function itself; without one, a decorator."""
    return (lambda function: function) if fn is None else fn


def allow_in_graph(fn: Any) -> Any:
    """The function itself."""
    return fn


assume_constant_result = keep_tensor_guards_unsafe = allow_in_graph


def substitute_in_graph(original_fn: Callable[..., Any], **options: Any) -> Callable[[Any], Any]:
    """A decorator that gives the function back."""
    return lambda function: function


def reset() -> None:
    """Nothing is kept."""


cudagraph_mark_step_begin = reset


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """No backends: `torch.compile` gives the model back."""
    return []


def set_stance(stance: str = "default", **options: Any) -> AbstractContextManager[None]:
    """A context that changes nothing."""
    return nullcontext()
