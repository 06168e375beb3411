"""torch.ops.aten: PyTorch's operators under their internal names, found among the published ones.

>>> import pellucid as torch
>>> torch.ops.aten.relu.default(torch.tensor([-1.0, 2.0]))
tensor([0., 2.])
>>> torch.ops.aten.linalg_vector_norm(torch.tensor([3.0, 4.0]))
tensor(5.)
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from pellucid.core.tensor import Operators
from pellucid.ops.operation import OPERATIONS, WRITERS

FAMILIES = ("special", "linalg", "fft")  # aten's special_erfcx is special.erfcx


class Overloaded:
    """An operator with its overloads (`.default`, `.Tensor`, ...): all of them are the one function."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.__name__, self._function = name, function
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __getattr__(self, overload: str) -> "Overloaded":
        if overload.startswith("_"):
            raise AttributeError(f"the op 'aten.{self.__name__}' has no overload {overload!r}")
        return self

    def __repr__(self) -> str:
        return f"aten.{self.__name__}"

    def __reduce__(self) -> tuple[Any, ...]:
        return __getattr__, (self.__name__,)  # copied and pickled by name, as a function is


def __getattr__(name: str) -> Overloaded:
    function = None if name.startswith("__") else _find(name)
    if function is None:
        raise AttributeError(f"'_OpNamespace' 'aten' object has no attribute {name!r}", name=name)
    found = globals()[name] = Overloaded(name, function)
    return found


def _find(name: str) -> Callable[..., Any] | None:
    """A published function of this name, or a method (most in-place forms are only that)."""
    import_module("pellucid.ops").load_families()
    family, _, rest = name.partition("_")
    paths = [name, f"nn.functional.{name}", f"{family}.{rest}" if family in FAMILIES else name]
    published = [OPERATIONS[path].function for path in paths if path in OPERATIONS]
    writers = [WRITERS[f"torch.{path}"] for path in paths if f"torch.{path}" in WRITERS]
    return next(iter((*published, *writers, getattr(Operators, name, None))), None)
