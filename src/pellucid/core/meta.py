"""Meta tensors: a shape and a dtype without memory, for models that are built before there is anything to put in.

PyTorch's way to build a large model is `with torch.device("meta")`, then `to_empty` and the values: nothing is
allocated twice, and no random numbers are drawn for values that are thrown away. An operation on meta tensors
computes the shape and dtype of its result, here by computing with zeros that share one element of memory.

>>> import pellucid as torch
>>> with torch.device("meta"):
...     layer = torch.nn.Linear(3, 2)
>>> layer(torch.ones(5, 3, device="meta")).shape, layer.weight.device
(torch.Size([5, 2]), device(type='meta'))
>>> layer.to_empty(device="cpu").weight.device
device(type='cpu')
"""

from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.kinds import Kind, foreign, plain
from pellucid.core.primitive import Primitive
from pellucid.core.provenance import here
from pellucid.core.tensor import Tensor
from pellucid.errors import explain


class Meta(Kind):
    """An array of which only the shape and the dtype are there."""

    __slots__ = ("dtype", "shape")
    level = -1  # below every transformation: what is batched or differentiated may have nothing in it
    spreads = False

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.shape = tuple(shape)
        self.dtype = foreign(plain(dtype))

    def layers(self) -> dict[int, Kind]:
        """None: gradients neither enter nor leave anything here."""
        return {}

    def admit(self, tensor: Tensor) -> Tensor:
        return tensor

    def custom(self, function: Any, args: tuple[Any, ...]) -> Any:
        return None

    def memory(self) -> list[np.ndarray]:
        return []

    def overwrite(self, value: Any, name: str, note: Any) -> None:
        """Nothing is written where nothing is."""

    def detached(self) -> Any:
        return self

    def copy(self, order: str = "C") -> "Meta":
        """Itself: it never changes."""
        return self

    def __array_function__(self, function: Any, *arguments: Any) -> Any:
        return self if function is np.copy else super().__array_function__(function, *arguments)

    def __setitem__(self, where: Any, value: Any) -> None:
        """Nothing: there is no memory to write to."""

    def apply(self, p: Primitive, arrays: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """The shapes and dtypes of the results, found out with zeros."""
        from pellucid.core.careful import computed  # that module deals with kinds, and comes after them

        with np.errstate(all="ignore"):
            y = computed(p, tuple(_zeros(array) for array in arrays), params)
        if p.outputs == 1:
            return Meta(y.shape, y.dtype)
        return tuple(Meta(part.shape, part.dtype) for part in y)

    def concrete(self, what: str) -> np.ndarray:
        raise NotImplementedError(
            explain(
                "Cannot copy out of meta tensor; no data!",
                str(here()),
                f"{what} needs values, and a tensor on device 'meta' has only a shape and a dtype",
                "model.to_empty(device='cpu') gives it memory, to be filled afterwards",
            )
        )

    def described(self) -> list[str]:
        """What there is to print instead of numbers."""
        kind = dtypes.from_numpy_dtype(self.dtype)
        said = ["...", "device='meta'", f"size={self.shape}"]
        return said if kind is dtypes.get_default_dtype() else [*said, f"dtype={kind}"]


def _zeros(array: Any) -> Any:
    if not isinstance(array, Meta):
        return array
    return np.broadcast_to(np.zeros((), plain(array.dtype)), array.shape)


def placed(array: Any, device: Any) -> Any:
    """The array that a new tensor on a device holds; None is the device that the program chose."""
    return Meta(array.shape, array.dtype) if dtypes.on_meta(device) else array
