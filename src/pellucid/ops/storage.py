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

    def __init__(self, given: Any = 0, *, device: Any = None) -> None:
        self._owner = _memory(given, np.dtype(np.uint8))
        self.device = dtypes.device("cpu" if device is None else device)

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> "UntypedStorage":
        """The bytes of a file, read when they are looked at; what is written goes back into it if it is `shared`.

        >>> import tempfile, pellucid as torch
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     _ = file.write(b"abc"), file.flush()
        ...     torch.UntypedStorage.from_file(file.name, False, 3).tolist()
        [97, 98, 99]
        """
        return cls(np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(nbytes,)) if nbytes else 0)

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

    def element_size(self) -> int:
        """How many bytes an element has."""
        return 1

    def untyped(self) -> "UntypedStorage":
        """The same memory as bytes."""
        return UntypedStorage(self._owner)

    def cpu(self) -> "UntypedStorage":
        """The memory itself: there is one device."""
        return self

    def clone(self) -> "UntypedStorage":
        """A copy of the memory.

        >>> import pellucid as torch
        >>> x = torch.ones(2)
        >>> copy = x.storage().clone()
        >>> copy.fill_(5).tolist(), x
        ([5.0, 5.0], tensor([1., 1.]))
        """
        return type(self)(self._owner.copy())

    def fill_(self, value: Any) -> "UntypedStorage":
        """Write one value everywhere; into bytes if the memory has no dtype."""
        self._elements()[...] = value
        return self

    def copy_(self, source: "UntypedStorage", non_blocking: bool = False) -> "UntypedStorage":
        """Write another block's bytes."""
        if source.nbytes() != self.nbytes():
            raise RuntimeError(f"cannot copy {source.nbytes()} bytes into a storage of {self.nbytes()}")
        self._owner.reshape(-1).view(np.uint8)[...] = source._owner.reshape(-1).view(np.uint8)
        return self

    def _elements(self) -> np.ndarray:
        return self._owner.reshape(-1).view(np.uint8)

    def __getitem__(self, index: Any) -> Any:
        found = self._elements()[index]
        return UntypedStorage(found) if isinstance(index, slice) else found.item()

    def as_elements(self, dtype: Any) -> np.ndarray:
        """The same memory as elements of a dtype."""
        return self._owner.reshape(-1).view(np.uint8).view(dtype)

    def tolist(self) -> list[Any]:
        """The elements."""
        return np.frombuffer(np.ascontiguousarray(self._owner).tobytes(), np.uint8).tolist()  # type: ignore[no-any-return]


def _memory(given: Any, dtype: Any) -> np.ndarray:
    """The memory of a tensor, so many new elements, or new ones of given values."""
    if isinstance(given, np.ndarray):
        return given
    return np.empty(given, dtype) if isinstance(given, int) else np.array(given, dtype)


class TypedStorage(UntypedStorage):
    """A block of memory as elements of one dtype.

    >>> import pellucid as torch
    >>> memory = torch.tensor([1.0, 2.0, 3.0])[1:].storage()
    >>> memory.tolist(), memory.size(), memory.nbytes()  # of the whole block, not of the slice
    ([1.0, 2.0, 3.0], 3, 12)
    """

    def __init__(
        self, given: Any = 0, *, wrap_storage: UntypedStorage | None = None, dtype: Any = None, device: Any = None
    ) -> None:
        kind = (dtype or dtypes.get_default_dtype()).numpy
        if wrap_storage is not None:
            given = wrap_storage._elements().view(kind)
        super().__init__(_memory(given, kind), device=device)
        self.dtype = dtypes.from_numpy_dtype(self._owner.dtype)

    def _kind(self) -> str:
        return f"dtype={self.dtype}, "

    def _elements(self) -> np.ndarray:
        return self._owner.reshape(-1)

    def size(self) -> int:
        return self._owner.size

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

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of its class; with a dtype, a copy of that dtype.

        >>> import pellucid as torch
        >>> memory = torch.ones(2).storage()
        >>> memory.type(), memory.double().type(), memory.long().tolist()
        ('torch.FloatStorage', 'torch.DoubleStorage', [1, 1])
        """
        if dtype is None:
            return Tensor.type(wrap(self._owner)).replace("Tensor", "Storage")  # type: ignore[attr-defined]
        return TypedStorage(self._elements().astype(dtype.numpy))


def _converted(dtype: Any) -> Any:
    return lambda self: self.type(dtype)


for _name, _dtype in {
    "bfloat16": dtypes.bfloat16, "bool": dtypes.bool_, "byte": dtypes.uint8, "char": dtypes.int8,
    "complex_double": dtypes.complex128, "complex_float": dtypes.complex64, "double": dtypes.float64,
    "float": dtypes.float32, "half": dtypes.float16, "int": dtypes.int32, "long": dtypes.int64, "short": dtypes.int16,
}.items():  # fmt: skip
    setattr(TypedStorage, _name, _converted(_dtype))


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
