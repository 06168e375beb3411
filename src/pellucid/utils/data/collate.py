"""Putting samples together: a list of equal structures becomes one structure of batches."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.tensor import Tensor
from pellucid.ops.construct import as_tensor, tensor
from pellucid.ops.join import stack

__all__ = ["collate", "default_collate", "default_convert"]

NOT_POSSIBLE = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def default_collate(batch: Sequence[Any]) -> Any:
    """Stack tensors, arrays and numbers; put tuples, lists and dictionaries together part by part.

    >>> default_collate([(1, 2.0), (3, 4.0)])
    [tensor([1, 3]), tensor([2., 4.], dtype=torch.float64)]
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(list(batch), 0)
    if isinstance(first, (np.ndarray, np.generic)):
        return _of_arrays(batch)
    if isinstance(first, bool) or (isinstance(first, int) and not isinstance(first, bool)):
        return tensor(list(batch))
    if isinstance(first, float):
        return tensor(list(batch), dtype=dtypes.float64)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return _like(first, {key: default_collate([sample[key] for sample in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(parts) for parts in zip(*batch, strict=True)))
    if isinstance(first, Sequence):
        return _of_sequences(batch)
    raise TypeError(NOT_POSSIBLE.format(type(first)))


def _of_arrays(batch: Sequence[Any]) -> Tensor:
    if batch[0].dtype.kind in "SUO":
        raise TypeError(NOT_POSSIBLE.format(batch[0].dtype))
    if isinstance(batch[0], np.generic):
        return as_tensor(np.array(batch))
    return default_collate([as_tensor(each) for each in batch])  # type: ignore[no-any-return]


def _like(first: Any, values: dict[Any, Any]) -> Any:
    """A mapping of the same class where that is possible, a dictionary elsewhere."""
    try:
        return type(first)(values)
    except TypeError:
        return values


def _of_sequences(batch: Sequence[Any]) -> Any:
    if any(len(sample) != len(batch[0]) for sample in batch):
        raise RuntimeError("each element in list of batch should be of equal size")
    parts = [default_collate(part) for part in zip(*batch, strict=True)]
    if isinstance(batch[0], (tuple, list)):
        return parts
    try:
        return type(batch[0])(parts)  # type: ignore[call-arg]
    except TypeError:
        return parts


def collate(batch: Sequence[Any], *, collate_fn_map: dict[Any, Callable[..., Any]] | None = None) -> Any:
    """Like default_collate, with functions of your own for some types.

    >>> from pellucid.utils.data.collate import collate
    >>> def longest(batch, *, collate_fn_map=None):
    ...     return max(batch, key=len)
    >>> collate(["a", "ccc", "bb"], collate_fn_map={str: longest})
    'ccc'
    """
    for kind, function in (collate_fn_map or {}).items():
        if isinstance(batch[0], kind):
            return function(batch, collate_fn_map=collate_fn_map)
    return default_collate(batch)


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
