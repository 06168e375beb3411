"""Named results: what an operation with several results returns, printed the way PyTorch prints it."""

from collections import namedtuple
from typing import Any

__all__ = ["aminmax", "cummax", "cummin", "kthvalue", "max", "median", "min", "mode", "nanmedian", "sort", "topk"]


def named(name: str, *fields: str) -> Any:
    """A tuple type with names for its fields.

    >>> named("sort", "values", "indices")(1, 2)
    torch.return_types.sort(
    values=1,
    indices=2)
    """
    base: Any = namedtuple(name, fields)  # type: ignore[misc]
    return type(name, (base,), {"__slots__": (), "__repr__": _written, "__module__": "pellucid.return_types"})


def _written(result: Any) -> str:
    lines = ",\n".join(f"{field}={value!r}" for field, value in zip(result._fields, result, strict=True))
    return f"torch.return_types.{type(result).__name__}(\n{lines})"


aminmax = named("aminmax", "min", "max")
cummax = named("cummax", "values", "indices")
cummin = named("cummin", "values", "indices")
kthvalue = named("kthvalue", "values", "indices")
max = named("max", "values", "indices")
median = named("median", "values", "indices")
min = named("min", "values", "indices")
mode = named("mode", "values", "indices")
nanmedian = named("nanmedian", "values", "indices")
sort = named("sort", "values", "indices")
topk = named("topk", "values", "indices")
