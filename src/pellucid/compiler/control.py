"""What scripts say to PyTorch's compiler: accepted, and without effect, for functions run as they are."""

from collections.abc import Callable
from contextlib import ContextDecorator
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


class set_stance(ContextDecorator):
    """A context, or a decorator, that changes nothing.

    >>> with set_stance("force_eager"):
    ...     is_compiling()
    False
    """

    def __init__(self, stance: str = "default", **options: Any) -> None:
        self.stance = stance

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, *error: object) -> None:
        """Nothing to undo."""


def set_default_backend(backend: Any) -> None:
    """Accepted: there is one way to run a function."""
