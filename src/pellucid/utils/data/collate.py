"""Putting samples together: a list of equal structures becomes one structure of batches."""

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from copy import copy
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.tensor import Tensor
from pellucid.ops.construct import as_tensor, tensor
from pellucid.ops.join import stack

__all__ = [
    "collate", "collate_float_fn", "collate_int_fn", "collate_numpy_array_fn", "collate_numpy_scalar_fn",
    "collate_str_fn", "collate_tensor_fn", "default_collate", "default_collate_fn_map", "default_convert",
]  # fmt: skip

NOT_POSSIBLE = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def collate(batch: Sequence[Any], *, collate_fn_map: Mapping[Any, Callable[..., Any]] | None = None) -> Any:
    """Put the parts of dictionaries, tuples and lists together, each by the function that the map has for its type.

    >>> from pellucid.utils.data.collate import collate
    >>> def longest(batch, *, collate_fn_map=None):
    ...     return max(batch, key=len)
    >>> collate([{"name": "a"}, {"name": "ccc"}], collate_fn_map={str: longest})
    {'name': 'ccc'}
    """
    first, functions = batch[0], collate_fn_map or {}
    kind = type(first) if type(first) in functions else next((k for k in functions if isinstance(first, k)), None)
    if kind is not None:
        return functions[kind](batch, collate_fn_map=functions)

    def together(parts: Sequence[Any]) -> Any:
        return collate(parts, collate_fn_map=functions)

    if isinstance(first, Mapping):
        return _like(first, {key: together([sample[key] for sample in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(together(parts) for parts in zip(*batch, strict=True)))
    if isinstance(first, Sequence):
        return _of_sequences(batch, together)
    raise TypeError(NOT_POSSIBLE.format(type(first)))


def _like(first: Any, values: dict[Any, Any]) -> Any:
    """A mapping of the same class where that is possible, a dictionary elsewhere; a copy keeps what else it has."""
    try:
        if not isinstance(first, MutableMapping):
            return type(first)(values)  # type: ignore[call-arg]
        made = copy(first)
        made.update(values)
        return made
    except TypeError:
        return values


def _of_sequences(batch: Sequence[Any], together: Callable[[Sequence[Any]], Any]) -> Any:
    if any(len(sample) != len(batch[0]) for sample in batch):
        raise RuntimeError("each element in list of batch should be of equal size")
    parts = [together(part) for part in zip(*batch, strict=True)]
    if isinstance(batch[0], (tuple, list)):
        return parts
    try:
        return type(batch[0])(parts)  # type: ignore[call-arg]
    except TypeError:
        return parts


def collate_tensor_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """The tensors stacked."""
    return stack(list(batch), 0)


def collate_numpy_array_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """The arrays as tensors, and stacked."""
    if batch[0].dtype.kind in "SUO":
        raise TypeError(NOT_POSSIBLE.format(batch[0].dtype))
    return collate([as_tensor(each) for each in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """The numbers as one tensor."""
    return as_tensor(np.array(batch))


def collate_float_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """The numbers as one tensor of float64."""
    return tensor(list(batch), dtype=dtypes.float64)


def collate_int_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """The numbers as one tensor."""
    return tensor(list(batch))


def collate_str_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """The texts as they are."""
    return batch


# What `default_collate` does with types; a program may add its own. The order is that in which they are asked.
default_collate_fn_map: dict[Any, Callable[..., Any]] = {
    Tensor: collate_tensor_fn, np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn, float: collate_float_fn, int: collate_int_fn,
    str: collate_str_fn, bytes: collate_str_fn,
}  # fmt: skip


def default_collate(batch: Sequence[Any]) -> Any:
    """Stack tensors, arrays and numbers; put tuples, lists and dictionaries together part by part.

    >>> default_collate([(1, 2.0), (3, 4.0)])
    [tensor([1, 3]), tensor([2., 4.], dtype=torch.float64)]
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def default_convert(data: Any) -> Any:
    """Arrays become tensors, structures are kept, anything else stays: what is done without batches.

    >>> import pellucid as torch
    >>> import numpy as np
    >>> torch.utils.data.default_convert({"x": np.array([1, 2]), "name": "first"})
    {'x': tensor([1, 2]), 'name': 'first'}
    """
    if isinstance(data, np.ndarray) and data.dtype.kind not in "SUO":
        return as_tensor(data)
    if isinstance(data, np.generic):
        return as_tensor(data)
    if isinstance(data, Mapping):
        return _like(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(value) for value in data))
    if isinstance(data, (tuple, list)):
        return [default_convert(value) for value in data]
    return data
