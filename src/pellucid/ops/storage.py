"""The memory behind a tensor, which views of it share: `untyped_storage()`, `storage()`, `share_memory_()`."""

import mmap
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core import aliasing
from pellucid.core.aliasing import owner_of
from pellucid.core.attributes import attribute, concrete
from pellucid.core.tensor import Tensor, wrap
from pellucid.ops.arguments import refusal

__all__ = ["is_storage"]


class UntypedStorage:
    """The bytes of a block of memory.

    >>> import pellucid as torch
    >>> a = torch.zeros(3, 4)
    >>> a[1:].untyped_storage().nbytes(), a.untyped_storage().data_ptr() == a[0].untyped_storage().data_ptr()
    (48, True)
    """

    def __init__(self, source: Any = 0, *, device: Any = None) -> None:
        self._owner = _block(source, np.dtype(np.uint8))
        self.device = dtypes.check_device("cpu" if device is None else device)

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

    def clone(self) -> Any:
        """The same elements in memory of their own."""
        return type(self)(self._elements().copy())

    def fill_(self, value: Any) -> Any:
        """Write one value to all elements."""
        self[:] = value
        return self

    def copy_(self, source: "UntypedStorage", non_blocking: bool | None = None) -> Any:
        """Write the bytes of another block of the same size."""
        if source.nbytes() != self.nbytes():
            raise refusal(
                RuntimeError, f"size does not match, self was {self.nbytes()} bytes but src was {source.nbytes()} bytes"
            )
        self.as_elements(np.uint8)[...] = source.as_elements(np.uint8)
        aliasing.note_write(self._owner, "storage")
        return self

    def cpu(self) -> Any:
        """The block itself."""
        return self

    def resize_(self, nbytes: int) -> Any:
        """Refused, unless nothing changes: tensors may look at this memory."""
        if nbytes != self.nbytes():
            raise refusal(
                NotImplementedError, f"resize_ of a storage of {self.nbytes()} bytes to {nbytes}",
                "NumPy gives a block of memory one size for life", "make a new tensor, or resize_ the tensor",
            )  # fmt: skip
        return self

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

    def _elements(self) -> np.ndarray:
        """The memory as one row; writing to it is writing to the memory."""
        return self.as_elements(np.uint8)

    def __getitem__(self, index: Any) -> Any:
        found = self._elements()[index]
        return type(self)(found) if isinstance(index, slice) else found.item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._elements()[index] = value
        aliasing.note_write(self._owner, "storage")

    def as_elements(self, dtype: Any) -> np.ndarray:
        """The same memory as elements of a dtype."""
        return self._owner.ravel("K").view(dtype)

    def tolist(self) -> list[Any]:
        """The elements."""
        return self._elements().tolist()  # type: ignore[no-any-return]


def _block(source: Any, kind: np.dtype) -> np.ndarray:
    """Memory: a tensor's own, or new memory for so many elements or for the elements of a sequence."""
    if isinstance(source, np.ndarray):
        return source
    if isinstance(source, UntypedStorage):
        return source._owner
    return np.empty(source, kind) if isinstance(source, int) else np.array([*source], kind)


class TypedStorage(UntypedStorage):
    """A block of memory as elements of one dtype.

    >>> import pellucid as torch
    >>> memory = torch.tensor([1.0, 2.0, 3.0])[1:].storage()
    >>> memory.tolist(), memory.size(), memory.nbytes()  # of the whole block, not of the slice
    ([1.0, 2.0, 3.0], 3, 12)
    """

    def __init__(
        self, source: Any = 0, *, wrap_storage: UntypedStorage | None = None, dtype: Any = None, device: Any = None
    ) -> None:
        wanted = None if dtype is None else dtypes.as_numpy_dtype(dtype)
        given = source if wrap_storage is None else wrap_storage
        super().__init__(_block(given, wanted or dtypes.default_float()), device=device)
        self.dtype = dtypes.from_numpy_dtype(wanted or self._owner.dtype)

    def _kind(self) -> str:
        return f"dtype={self.dtype}, "

    def size(self) -> int:
        return self.nbytes() // self.element_size()

    def _elements(self) -> np.ndarray:
        return self.as_elements(dtypes.as_numpy_dtype(self.dtype))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._elements().astype(dtype or self._elements().dtype)

    def element_size(self) -> int:
        """How many bytes an element has."""
        return int(dtypes.as_numpy_dtype(self.dtype).itemsize)

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of its class; with a dtype, a copy of that dtype.

        >>> import pellucid as torch
        >>> memory = torch.ones(2).storage()
        >>> memory.type(), memory.double().type(), memory.long().tolist()
        ('torch.FloatStorage', 'torch.DoubleStorage', [1, 1])
        """
        if dtype is None:
            return Tensor.type(wrap(self._elements())).replace("Tensor", "Storage")  # type: ignore[attr-defined]
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
