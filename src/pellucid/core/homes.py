"""Which module a class says it is from: inside `as_torch()` tensors and parameters are torch's.

Libraries that serve several frameworks choose their functions by `type(x).__module__`, without importing any of them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type)
OWN: dict[type, str] = {}  # class -> the module it is in
THEIRS: dict[type, str] = {}  # class -> PyTorch's module for it
RUNS = [0]  # how many runs are under the name torch now


def known(cls: Class, module: str) -> Class:
    """Let a class say PyTorch's module for it inside a run; it may be defined when the run has begun."""
    OWN[cls], THEIRS[cls] = cls.__module__, module
    if RUNS[0]:
        cls.__module__ = module
    return cls


@contextmanager
def shown_as_torch() -> Iterator[None]:
    """Inside the block the known classes say PyTorch's modules."""
    RUNS[0] += 1
    _show(THEIRS)
    try:
        yield
    finally:
        RUNS[0] -= 1
        _show(THEIRS if RUNS[0] else OWN)


def _show(homes: dict[type, str]) -> None:
    for cls, module in homes.items():
        cls.__module__ = module


def lasting(cls: type) -> Any:
    """A class as a pickle can name it: by its own module, for PyTorch's exists only inside the run."""
    return f"{OWN[cls]}:{cls.__qualname__}" if cls in OWN else cls


def found(cls: Any) -> Any:
    """The class that `lasting` named.

    >>> found(lasting(Exception)), found("pellucid.core.tensor:Tensor")
    (<class 'Exception'>, <class 'pellucid.core.tensor.Tensor'>)
    """
    if not isinstance(cls, str):
        return cls
    module, _, name = cls.partition(":")
    return getattr(import_module(module), name)
