"""The memory behind a tensor, which views of it share: `untyped_storage()`, `storage()`, `share_memory_()`."""

import mmap
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.aliasing import owner_of
from pellucid.core.attributes import attribute, concrete
from pellucid.core.tensor import Tensor, wrap

__all__ = ["is_storage"]


class UntypedStorage:
    """The bytes of a block of memory.

    >>> import pellucid as torch
    >>> a = torch.zeros(3, 4)
    >>> a[1:].untyped_storage().nbytes(), a.untyped_storage().data_ptr() == a[0].untyped_storage().data_ptr()
    (48, True)
    """

    def __init__(self, owner: np.ndarray) -> None:
        self._owner = owner
        self.device = dtypes.device("cpu")

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return int(self._owner.ctypes.data)

    def nbytes(self) -> int:
        """How many bytes there are."""
        return self._owner.nbytes

    def size(self) -> int:
        """How many elements there are."""
        return self.nbytes()

    def __len__(self) -> int:
        return self.size()

    def is_shared(self) -> bool:
        """Whether forked processes write to the same memory."""
        return _is_shared(self._owner)

    def __repr__(self) -> str:
        numbers = "\n ".join(str(each) for each in self.tolist())
        return f" {numbers}\n[torch.storage.{type(self).__name__}({self._kind()}device=cpu) of size {self.size()}]"

    def _kind(self) -> str:
        return ""

    def __getitem__(self, index: Any) -> Any:
        return self.tolist()[index]

    def tolist(self) -> list[Any]:
        """The elements."""
        return np.frombuffer(np.ascontiguousarray(self._owner).tobytes(), np.uint8).tolist()  # type: ignore[no-any-return]


class TypedStorage(UntypedStorage):
    """A block of memory as elements of one dtype.

    >>> import pellucid as torch
    >>> memory = torch.tensor([1.0, 2.0, 3.0])[1:].storage()
    >>> memory.tolist(), memory.size(), memory.nbytes()  # of the whole block, not of the slice
    ([1.0, 2.0, 3.0], 3, 12)
    """

    def __init__(self, owner: np.ndarray) -> None:
        super().__init__(owner)
        self.dtype = dtypes.from_numpy_dtype(owner.dtype)

    def _kind(self) -> str:
        return f"dtype={self.dtype}, "

    def size(self) -> int:
        return self._owner.size

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return UntypedStorage(self._owner)

    def tolist(self) -> list[Any]:
        return self._owner.reshape(-1).tolist()  # type: ignore[no-any-return]

    def __getitem__(self, index: Any) -> Any:
        found = self._owner.reshape(-1)[index]
        return TypedStorage(found) if isinstance(index, slice) else found.item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._owner.reshape(-1)[index] = value

    def element_size(self) -> int:
        """How many bytes an element has."""
        return int(self._owner.itemsize)


@attribute
def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory behind a tensor, in bytes.

    >>> import pellucid as torch
    >>> a = torch.zeros(3, 4)
    >>> a[0].untyped_storage().nbytes()  # a row is a view: the memory is that of all twelve numbers
    48
    """
    return UntypedStorage(owner_of(concrete(self, "untyped_storage()")))


@attribute
def storage(self: Tensor) -> TypedStorage:
    """The memory behind a tensor.

    >>> import pellucid as torch
    >>> a = torch.arange(3.0)
    >>> a.storage()[1] = 7.0
    >>> a
    tensor([0., 7., 2.])
    """
    return TypedStorage(owner_of(concrete(self, "storage()")))


def is_storage(obj: Any) -> bool:
    """Whether something is the memory of a tensor.

    >>> import pellucid as torch
    >>> x = torch.ones(2)
    >>> torch.is_storage(x), torch.is_storage(x.untyped_storage())
    (False, True)
    """
    return isinstance(obj, UntypedStorage)


def _is_shared(array: np.ndarray) -> bool:
    base: Any = owner_of(array).base
    while isinstance(base, memoryview):
        base = base.obj
    return isinstance(base, mmap.mmap)


@attribute
def is_shared(self: Tensor) -> bool:
    """Whether forked processes write to the same memory."""
    return _is_shared(concrete(self, "is_shared()"))


@attribute
def share_memory_(self: Tensor) -> Tensor:
    """Move a tensor into memory that forked processes share: what one of them writes, all see.

    >>> import pellucid as torch
    >>> torch.ones(2).share_memory_().is_shared()
    True
    """
    array = concrete(self, "share_memory_()")
    if array.nbytes and not _is_shared(array):
        shared = np.frombuffer(mmap.mmap(-1, array.nbytes), array.dtype).reshape(array.shape)
        shared[...] = array
        self.data = wrap(shared)  # type: ignore[attr-defined]
    return self
