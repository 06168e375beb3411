"""skip_init: a module without drawing its initial values."""

import inspect
from typing import Any

from pellucid.nn.modules.module import Module
from pellucid.ops.random import fork_rng

__all__ = ["skip_init"]


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Module:
    """Make a module whose parameters are for the caller to set: the random generator is left as it was.

    >>> import pellucid as torch
    >>> torch.nn.utils.skip_init(torch.nn.Linear, 2, 3)
    Linear(in_features=2, out_features=3, bias=True)
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    with fork_rng():
        return module_cls(*args, **kwargs)  # type: ignore[no-any-return]
