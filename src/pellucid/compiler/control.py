"""What scripts say to PyTorch's compiler: accepted, and without effect, for functions run as they are."""

import functools
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any

import numpy as np

from pellucid.compiler.trees import mapped
from pellucid.core.tensor import Tensor


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


BACKEND: list[Any] = ["inductor"]


def set_default_backend(backend: Any) -> None:
    """Accepted: there is one way to run a function.

    >>> set_default_backend("eager")
    >>> get_default_backend()
    'eager'
    >>> set_default_backend("inductor")
    """
    BACKEND[0] = backend


def get_default_backend() -> Any:
    """What `set_default_backend` was told."""
    return BACKEND[0]


def nested_compile_region(fn: Any = None, **options: Any) -> Any:
    """The function itself; without one, a decorator."""
    return (lambda function: function) if fn is None else fn


def save_cache_artifacts() -> None:
    """None: nothing is compiled, and nothing cached."""


def load_cache_artifacts(serialized_artifacts: bytes) -> None:
    """None: there is nothing to load."""


def set_enable_guard_collectives(enabled: bool) -> bool:
    """Accepted; it was not enabled."""
    return False


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function of arrays as a function of tensors.

    >>> import pellucid as torch
    >>> wrap_numpy(lambda a: a * 2)(torch.ones(2))
    tensor([2., 2.])
    """

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        arrays, named = mapped(_array, (args, kwargs))
        return mapped(_tensor, fn(*arrays, **named))

    return wrapped


def _array(value: Any) -> Any:
    return value.numpy() if isinstance(value, Tensor) else value


def _tensor(value: Any) -> Any:
    return Tensor.from_data(np.asarray(value)) if isinstance(value, (np.ndarray, np.generic)) else value
