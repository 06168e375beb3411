"""Methods of Tensor that few scripts call, and those whose time is over."""

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from pellucid.core.inplace import overwrite
from pellucid.core.tensor import Tensor, wrap
from pellucid.dtypes import memory_format
from pellucid.ops.arguments import refusal
from pellucid.ops.operation import OPERATIONS, attach
from pellucid.ops.status import mapped
from pellucid.ops.storage import UntypedStorage


def dense_dim(self: Tensor) -> int:
    """All dimensions: the tensor is dense."""
    return self.array.ndim


def sparse_dim(self: Tensor) -> int:
    """None: the tensor is dense."""
    return 0


def dim_order(self: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The dimensions from the one with the longest step in memory to the one with the shortest.

    >>> import pellucid as torch
    >>> torch.zeros(2, 3).t().dim_order()
    (1, 0)
    """
    steps, sizes = self.stride(), self.shape  # type: ignore[attr-defined]
    if ambiguity_check is not False:
        _check_one_order(self, [] if ambiguity_check is True else ambiguity_check)
    if self.is_contiguous():  # type: ignore[attr-defined]
        return tuple(range(len(steps)))  # whatever the step of a dimension of size 1 is
    return tuple(sorted(range(len(steps)), key=lambda i: (-steps[i], -sizes[i])))


def _check_one_order(tensor: Any, formats: Any) -> None:
    """Refuse a tensor whose memory may be read as several orders, unless just one of the memory formats fits."""
    if not isinstance(formats, list) or not all(isinstance(each, memory_format) for each in formats):
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    several = 1 in tensor.shape or 0 in tensor.stride() or len(set(tensor.stride())) < tensor.ndim
    if several and sum(tensor.is_contiguous(memory_format=each) for each in formats) != 1:
        raise refusal(
            RuntimeError,
            f"The tensor does not have unique dim order, or cannot map to exact one of the given memory formats: "
            f"its sizes are {tuple(tensor.shape)}, its strides {tuple(tensor.stride())}",
        )


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """Replace every element by a Python function of it and two other tensors'; slow, for small tensors.

    >>> import pellucid as torch
    >>> low, high = torch.tensor([0.0, 0.0]), torch.tensor([1.0, 1.0])
    >>> torch.tensor([-3.0, 0.5]).map2_(low, high, lambda x, a, b: min(max(x, a), b))
    tensor([0.0000, 0.5000])
    """
    return mapped(self, (x, y), callable, "map2_")


def polygamma_(self: Tensor, n: int) -> Tensor:
    """`torch.polygamma(n, x)` in place."""
    import_module("pellucid.ops.special")  # loading the family publishes its operations
    return overwrite(self, OPERATIONS["polygamma"].function(n, self), "polygamma_")


def set_(self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Tensor:
    """Look at other memory from now on: a tensor's, or a storage's from an offset on; without one, at none.

    >>> import pellucid as torch
    >>> torch.ones(3).set_(torch.zeros(2))
    tensor([0., 0.])
    >>> torch.empty(0).set_(torch.arange(6.0).untyped_storage(), 1, (2, 2), (2, 1))
    tensor([[1., 2.],
            [3., 4.]])
    """
    if source is not None and not isinstance(source, (Tensor, UntypedStorage)):
        raise TypeError(f"set_(): argument 'source' must be Tensor or Storage, not {type(source).__name__}")
    kind = getattr(source, "dtype", self.dtype)
    if kind != self.dtype:
        raise refusal(RuntimeError, f"Could not set tensor of type {kind} to a tensor of type {self.dtype}")
    if source is None:
        source = wrap(np.empty(0, self.array.dtype))
    elif size is not None or isinstance(source, UntypedStorage):
        memory = source.untyped_storage() if isinstance(source, Tensor) else source  # type: ignore[attr-defined]
        source = _window(wrap(memory.as_elements(self.array.dtype)), storage_offset, size, stride)
    self.data = source  # type: ignore[attr-defined]
    return self


def _window(memory: Any, offset: int, size: Any, stride: Any) -> Any:
    """A part of some memory, by default all of it from an offset on, in order."""
    if size is None:
        return memory[offset:]
    sizes = (size,) if isinstance(size, int) else tuple(size)
    steps = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))] if stride is None else stride
    return memory.as_strided(sizes, (steps,) if isinstance(steps, int) else steps, offset)


def to_sparse_coo(self: Tensor) -> Tensor:
    """The tensor itself, which stays dense."""
    return self


def is_distributed(self: Tensor) -> bool:
    """False."""
    return False


def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Any:
    """What load_state_dict puts in the place of this tensor.

    >>> import pellucid as torch
    >>> torch.zeros(2).module_load(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    if assign:
        return other
    return self.detach().copy_(other)  # type: ignore[attr-defined]


def _over(name: str, instead: str) -> None:
    """A method that PyTorch has taken away; it says what to write instead, as PyTorch's does."""

    def refuse(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        raise refusal(
            RuntimeError, f"This function was deprecated since version 1.9 and is now removed. `torch.{name}`", None,
            f"torch.linalg.{instead}",
        )  # fmt: skip

    refuse.__name__, refuse.__doc__ = name, f"Removed from PyTorch: write `torch.linalg.{instead}`."
    attach(name, refuse)


for _name, _instead in {"eig": "eig", "symeig": "eigh", "lstsq": "lstsq", "solve": "solve"}.items():
    _over(_name, _instead)

METHODS = (
    dense_dim, sparse_dim, dim_order, map2_, polygamma_, set_, to_sparse_coo, is_distributed, module_load,
)  # fmt: skip
for _method in METHODS:
    attach(_method.__name__, _method)
