"""Neural networks, as torch.nn has them.

>>> import pellucid as torch
>>> torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Identity())(torch.ones(3, 2)).shape
torch.Size([3, 4])
"""

from typing import Any as _Any

from pellucid.nn import attention, functional, init, modules, parallel, parameter, utils
from pellucid.nn.modules import *  # noqa: F403
from pellucid.nn.parallel import DataParallel
from pellucid.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    *modules.__all__, "Buffer", "DataParallel", "Parameter", "UninitializedBuffer", "UninitializedParameter",
    "attention", "factory_kwargs", "functional", "init", "modules", "parallel", "parameter", "utils",
]  # fmt: skip


def __getattr__(name: str) -> _Any:
    if name == "grad":  # loaded when first asked for
        from importlib import import_module

        return import_module("pellucid.nn.grad")
    raise AttributeError(f"module 'torch.nn' has no attribute {name!r}")


def factory_kwargs(kwargs: dict[str, _Any] | None) -> dict[str, _Any]:
    """The options among a layer's keyword arguments that go on to `torch.empty` and its kin; others are refused.

    >>> factory_kwargs({"dtype": "float64", "factory_kwargs": {"device": "cpu"}})
    {'device': 'cpu', 'dtype': 'float64'}
    """
    given = dict(kwargs or {})
    result = dict(given.pop("factory_kwargs", {}))
    if unexpected := given.keys() - {"device", "dtype", "memory_format"}:
        raise TypeError(f"unexpected kwargs {unexpected}")
    for name, value in given.items():
        if name in result:
            raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
        result[name] = value
    return result
