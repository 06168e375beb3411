"""Parts of PyTorch that are not here: they can be imported and named, and say so when they are used.

Many programs import torch.onnx or torch.fx and use them only when an option asks for it; those run.
"""

from collections.abc import Callable
from typing import Any

from pellucid.core.provenance import here
from pellucid.errors import explain


def absent(module: str, names: str, why: str, try_: str | None = None) -> Callable[[str], Any]:
    """A `__getattr__` for a module: each of the names is a class that can be inherited from but not called.

    >>> tracer = absent("torch.fx", "Tracer Graph", "programs are not traced to fx graphs")("Tracer")
    >>> try:
    ...     tracer()
    ... except NotImplementedError as error:
    ...     print(str(error).splitlines()[0])
    Pellucid has no torch.fx.Tracer
    """
    known = frozenset(names.split())

    def __getattr__(name: str) -> Any:
        if name not in known:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")

        def refuse(*args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError(explain(f"Pellucid has no {module}.{name}", str(here()), why, try_))

        return type(name, (), {"__new__": refuse, "__doc__": f"Not here: {why}.", "__module__": module})

    return __getattr__
