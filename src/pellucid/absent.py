"""Parts of PyTorch that are not here: they can be imported and named, and say so when they are used.

Many programs import torch.onnx or torch.fx and use them only when an option asks for it; those run.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from pellucid.core.provenance import here
from pellucid.errors import explain


def absent(module: str, names: str | None, why: str, try_: str | None = None) -> Callable[[str], Any]:
    """A `__getattr__` for a module: each of the names is a class that can be inherited from but not called.

    None stands for every name there is.

    >>> tracer = absent("torch.fx", "Tracer Graph", "programs are not traced to fx graphs")("Tracer")
    >>> try:
    ...     tracer()
    ... except NotImplementedError as error:
    ...     print(str(error).splitlines()[0])
    Pellucid has no torch.fx.Tracer
    """
    known = None if names is None else frozenset(names.split())

    def __getattr__(name: str) -> Any:
        if name.startswith("__") if known is None else name not in known:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")

        def refuse(*args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError(explain(f"Pellucid has no {module}.{name}", str(here()), why, try_))

        return type(name, (), {"__new__": refuse, "__doc__": f"Not here: {why}.", "__module__": module})

    return __getattr__


def absent_module(name: str, why: str, try_: str | None = None) -> ModuleType:
    """A module whose every name can be imported and inherited from, and refuses to be called.

    >>> absent_module("torch.distributed.fsdp", "Pellucid trains in one process").FullyShardedDataParallel
    <class 'torch.distributed.fsdp.FullyShardedDataParallel'>
    """
    module = ModuleType(name)
    module.__path__ = []
    module.__getattr__ = absent(name, None, why, try_)  # type: ignore[method-assign]
    return module
