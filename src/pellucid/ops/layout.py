"""How a tensor lies in memory: sizes, strides, offsets, bytes.

An array is a window onto the memory of its owner: a shape, strides and an offset (`Geometry`). The questions here are
answered from it, and as_strided (strided.py) opens other windows onto the same memory.
"""

import math
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core import aliasing
from pellucid.core.attributes import concrete
from pellucid.core.kinds import Kind
from pellucid.core.meta import Meta
from pellucid.core.record import attach
from pellucid.core.tensor import Tensor
from pellucid.core.views import current_array
from pellucid.ops.arguments import Shape, axis_of, refusal
from pellucid.ops.formats import RANKS, is_channels_last


def strided(a: ndarray, shape: Shape, strides: tuple[int, ...]) -> ndarray:
    """A view that begins where a does, with strides (in bytes) at will.

    np.lib.stride_tricks.as_strided forgets whose memory it is, and costs more.
    """
    if a.flags.c_contiguous:
        return ndarray(shape, a.dtype, a, 0, strides)
    owner = aliasing.owner_of(a)
    memory = owner.ravel("K")
    if not np.may_share_memory(memory, owner):  # foreign memory with gaps
        return np.lib.stride_tricks.as_strided(a, shape, strides)
    return ndarray(shape, a.dtype, memory, address(a) - address(owner), strides)


def address(a: ndarray) -> int:
    """Where the first element lies."""
    return int(a.__array_interface__["data"][0])


# (shape, stride, offset) in elements of the storage
Geometry = tuple[Shape, tuple[int, ...], int]


def geometry(a: ndarray) -> Geometry:
    """How an array lies in the memory of its owner."""
    owner = aliasing.owner_of(a)
    return a.shape, tuple(s // a.itemsize for s in a.strides), (address(a) - address(owner)) // a.itemsize


# --- questions about shape and memory


def numel(input: Any) -> int:
    """The number of elements.

    >>> import pellucid as torch
    >>> torch.zeros(2, 3).numel()
    6
    """
    if not hasattr(input, "shape"):
        raise TypeError(f"numel(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return math.prod(input.shape)


def size(input: Any, dim: Any = None) -> Any:
    """The shape, or the size of one dimension.

    >>> import pellucid as torch
    >>> torch.zeros(2, 3).size(-1)
    3
    """
    if dim is None:
        return input.shape
    if not input.ndim:
        raise refusal(IndexError, "Dimension specified as 0 but tensor has no dimensions")
    return input.shape[axis_of(dim, input.ndim)]


def dim(input: Any) -> int:
    """The number of dimensions.

    >>> import pellucid as torch
    >>> torch.zeros(2, 3).dim()
    2
    """
    return len(input.shape)


def lying(array: Any) -> ndarray | None:
    """An array that lies in memory as this one of any kind does; None for one without memory."""
    if isinstance(array, ndarray):
        return array
    return array.pattern() if isinstance(array, Kind) and not isinstance(array, Meta) else None


def _lying(input: Tensor, what: str) -> ndarray:
    """An array that lies in memory as a tensor does: inside vmap, as one of the many that it stands for."""
    array = current_array(input)
    return array.pattern() if isinstance(array, Kind) else concrete(input, what)


def stride(input: Any, dim: Any = None) -> Any:
    """How many elements to step over in memory to get to the next one of a dimension.

    >>> import pellucid as torch
    >>> torch.zeros(2, 3).stride()
    (3, 1)
    """
    array = input.array if isinstance(input.array, Meta) else _lying(input, "stride()")
    # NumPy steps nowhere in what is empty; PyTorch as if each empty dimension had one element
    if not array.size or isinstance(array, Meta):
        steps = [math.prod(max(n, 1) for n in array.shape[i + 1 :]) for i in range(array.ndim)]
        return tuple(steps) if dim is None else steps[axis_of(dim, array.ndim)]
    steps = [step // array.itemsize for step in array.strides]
    if 0 in steps:  # NumPy gives a new dimension of size 1 no step; PyTorch the one over all that follow
        for i in reversed(range(array.ndim)):
            if array.shape[i] == 1 and steps[i] == 0:
                steps[i] = array.shape[i + 1] * steps[i + 1] if i + 1 < array.ndim else 1
    return tuple(steps) if dim is None else steps[axis_of(dim, array.ndim)]


def storage_offset(input: Any) -> int:
    """Where in its memory a view begins, in elements.

    >>> import pellucid as torch
    >>> torch.zeros(2, 3)[1].storage_offset()
    3
    """
    return 0 if isinstance(input.array, Meta) else geometry(concrete(input, "storage_offset()"))[2]


def element_size(input: Any) -> int:
    """Bytes per element.

    >>> import pellucid as torch
    >>> torch.zeros(1).element_size()
    4
    """
    return int(np.dtype(input.array.dtype).itemsize)


def is_contiguous(input: Any, memory_format: Any = None) -> bool:
    """Whether the elements lie in memory in the order of their indices.

    >>> import pellucid as torch
    >>> torch.zeros(2, 3).t().is_contiguous()
    False
    """
    needed = RANKS.get(memory_format)
    if isinstance(input.array, Meta):  # has no memory: taken to lie in order
        return needed is None
    array = _lying(input, "is_contiguous()")
    if needed is not None:
        return array.ndim == needed and is_channels_last(array)
    return bool(array.flags.c_contiguous)


def data_ptr(input: Any) -> int:
    """The address of the first element, 0 where there is none."""
    return 0 if isinstance(input.array, Meta) or 0 in input.array.shape else address(concrete(input, "data_ptr()"))


def nbytes(input: Any) -> int:
    """Bytes of all elements."""
    return numel(input) * element_size(input)


for _name, _answer in {
    "numel": numel, "nelement": numel, "size": size, "dim": dim, "ndimension": dim, "stride": stride,
    "storage_offset": storage_offset, "element_size": element_size, "is_contiguous": is_contiguous,
    "data_ptr": data_ptr,
}.items():  # fmt: skip
    attach(_name, _answer)
Tensor.nbytes = property(nbytes)  # type: ignore[attr-defined]
Tensor.itemsize = property(element_size)  # type: ignore[attr-defined]
