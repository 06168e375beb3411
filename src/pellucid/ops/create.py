"""Creation: tensors from data, from a shape, from a generator."""

from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.careful import Kind
from pellucid.core.modes import current
from pellucid.core.tensor import Tensor, wrap


def from_data(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    if isinstance(data, Tensor):
        array = np.array(data.array)
    elif isinstance(data, np.ndarray):
        array = np.array(data)
    else:
        array = np.array(data)
        if array.dtype.kind == "f":
            array = array.astype(dtypes.default_float())
    if dtype is not None:
        array = array.astype(dtypes.as_numpy_dtype(dtype))
    return wrap(array)


Tensor.from_data = staticmethod(from_data)


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    out = from_data(data, dtype, device)
    return out.requires_grad_() if requires_grad else out


def _shape(size):
    return tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else tuple(size)


def ones(*size, requires_grad=False, dtype=None):
    return tensor(np.ones(_shape(size), dtypes.as_numpy_dtype(dtype) if dtype else dtypes.default_float()), requires_grad=requires_grad)


def zeros(*size, requires_grad=False, dtype=None):
    return tensor(np.zeros(_shape(size), dtypes.as_numpy_dtype(dtype) if dtype else dtypes.default_float()), requires_grad=requires_grad)


def randn(*size, requires_grad=False, dtype=None):
    return tensor(np.random.standard_normal(_shape(size)).astype("f"), requires_grad=requires_grad)
