"""How tensors stand in PyTorch's pickles: blocks of memory by key, and the calls that rebuild tensors over them."""

import pickle
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, ClassVar

import numpy as np

from pellucid import dtypes, return_types
from pellucid.core.aliasing import owner_of
from pellucid.core.attributes import concrete
from pellucid.core.kinds import plain as plain_dtype
from pellucid.core.meta import Meta
from pellucid.core.tensor import Hooks, Tensor, wrap
from pellucid.nn.parameter import Parameter
from pellucid.serialization.archive import fill
from pellucid.serialization.names import home
from pellucid.serialization.unpickling import (
    Container,
    UnpicklingError,
    counter_of,
    frozenset_of,
    ordered_of,
    plain_attributes,
    set_of,
    shown,
)

# PyTorch's classes of storage and the dtypes they hold.
STORAGES = {
    "FloatStorage": "float32", "DoubleStorage": "float64", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8",
    "ByteStorage": "uint8", "BoolStorage": "bool", "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
}  # fmt: skip
STORAGE_OF = {dtype: name for name, dtype in STORAGES.items()}
UNTYPED = (
    "uint16",
    "uint32",
    "uint64",
    *sorted(str(each) for each in dtypes.FLOAT8),
)  # have no class of storage: their tensors look at bytes
DTYPES = {f"torch.{name}": dtypes.DTYPE_NAMES[name] for name in (*STORAGES.values(), *UNTYPED)}


@dataclass(frozen=True)
class Global:
    """A name of PyTorch's that a pickle refers to. It stands for a function, so Python's pickler wants it callable."""

    module: str
    name: str

    def __call__(self) -> None:  # pragma: no cover (it is never called)
        raise TypeError(f"{self.module}.{self.name} is only a name")


@dataclass(frozen=True)
class StorageKind:
    """A class of storage, as it stands in a pickle."""

    dtype: str


@dataclass
class Storage:
    """A block of memory: its elements, or its bytes where the pickle does not say what they are."""

    array: np.ndarray
    key: str
    typed: "dict[np.dtype[Any], Storage]" = field(default_factory=dict)  # the same bytes as elements


LONGEST_KEY = 1_000  # letters in the name of a block of memory


# --- writing


PythonPickler: Any = pickle._Pickler  # the one in Python, whose steps can be replaced


class Pickler(PythonPickler):  # type: ignore[misc]
    """Pickles as PyTorch does: tensors by the memory they look at, Pellucid's classes under PyTorch's names."""

    def __init__(self, out: Any, protocol: int = 2) -> None:
        super().__init__(out, protocol)
        self.blocks: dict[int, tuple[str, np.ndarray]] = {}  # id of the owner -> key and memory
        self.kept: list[Any] = []  # what the ids belong to must live

    def persistent_id(self, value: Any) -> Any:
        """A storage is written as its key; its bytes go into a record of their own."""
        if isinstance(value, Storage):
            name = str(dtypes.from_numpy_dtype(value.array.dtype)).removeprefix("torch.")
            if name in UNTYPED:
                return ("storage", Global("torch.storage", "UntypedStorage"), value.key, "cpu", value.array.nbytes)
            return ("storage", Global("torch", STORAGE_OF[name]), value.key, "cpu", int(value.array.size))
        return None

    def reducer_override(self, value: Any) -> Any:
        """How the objects of Pellucid are written."""
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, Hooks):
            return OrderedDict, (), None, None, iter(value.items())
        if isinstance(value, dtypes.Size):
            return Global("torch", "Size"), (tuple(value),)
        if isinstance(value, dtypes.device):
            return Global("torch", "device"), value.__reduce__()[1]
        if return_types.is_named(value):
            return Global("torch.return_types", type(value).__name__), (tuple(value), {})
        return NotImplemented

    def _tensor(self, tensor: Tensor) -> Any:
        attributes = {name: value for name, value in tensor.__dict__.items() if name[:1] != "_"}
        if isinstance(tensor, Parameter):
            parts: Any = (tensor.data, tensor.requires_grad, OrderedDict())
            if attributes:
                return Global("torch._utils", "_rebuild_parameter_with_state"), (*parts, attributes)
            return Global("torch._utils", "_rebuild_parameter"), parts
        rebuild, arguments = self._over_memory(tensor)
        if attributes:
            whole = rebuild, Global("torch", "Tensor"), arguments, attributes
            return Global("torch._tensor", "_rebuild_from_type_v2"), whole
        return rebuild, arguments

    def _over_memory(self, tensor: Tensor) -> tuple[Global, tuple[Any, ...]]:
        """The call that makes a tensor of a block of memory."""
        if isinstance(tensor.array, Meta):
            kind, steps = dtypes.from_numpy_dtype(plain_dtype(tensor.array.dtype)), tuple(tensor.stride())  # type: ignore[attr-defined]
            bare = kind, tuple(tensor.array.shape), steps, tensor.requires_grad
            return Global("torch._utils", "_rebuild_meta_tensor_no_storage"), bare
        array = concrete(tensor, "save()")
        owner, width = owner_of(array), array.dtype.itemsize
        plain = owner.dtype == array.dtype and owner.size and owner.flags.forc and min((0, *array.strides)) == 0
        if not plain:  # memory of another type or order: save what the tensor shows
            array = owner = np.array(array, order="C")
        key, memory = self._block(owner)
        offset = (array.ctypes.data - memory.ctypes.data) // width if array.size else 0
        strides = tuple(stride // width for stride in array.strides)
        rebuilt: Any = (Storage(memory, key), offset, tuple(array.shape), strides, tensor.requires_grad, OrderedDict())
        kind = dtypes.from_numpy_dtype(memory.dtype)
        if str(kind).removeprefix("torch.") in UNTYPED:
            return Global("torch._utils", "_rebuild_tensor_v3"), (*rebuilt, kind)
        return Global("torch._utils", "_rebuild_tensor_v2"), rebuilt

    def _block(self, owner: np.ndarray) -> tuple[str, np.ndarray]:
        """The key of a block of memory; tensors that share it are saved with one copy of it."""
        if id(owner) not in self.blocks:
            flat = owner.reshape(-1) if owner.flags.c_contiguous else owner.T.reshape(-1)
            self.blocks[id(owner)] = (str(len(self.blocks)), flat)
            self.kept.append(owner)
        return self.blocks[id(owner)]

    def save_global(self, obj: Any, name: Any = None) -> None:
        """Classes and functions of Pellucid under PyTorch's names; everything else as it is."""
        module = getattr(obj, "__module__", "") or ""
        named = isinstance(obj, type) or (isinstance(obj, FunctionType) and "<" not in obj.__qualname__)
        if module.partition(".")[0] == "pellucid" and named:
            self.save_name(Global(home(obj), obj.__qualname__))
            self.memoize(obj)
        else:
            super().save_global(obj, name)

    def save_name(self, value: Global) -> None:
        """Write a global by its name alone: nothing needs to be importable."""
        self.write(pickle.GLOBAL + value.module.encode() + b"\n" + value.name.encode() + b"\n")

    dispatch: ClassVar = {
        **PythonPickler.dispatch,
        Global: lambda self, value: self.save_name(value),
        type: lambda self, value: self.save_global(value),
        FunctionType: lambda self, value: self.save_global(value),
        dtypes.dtype: lambda self, value: self.save_name(_global_of(value)),
    }


def _global_of(value: Any) -> Global:
    return Global("torch", str(value).removeprefix("torch."))


# --- reading


def rebuild_tensor(storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any = False, hooks: Any = None,
                   metadata: Any = None) -> Tensor:  # fmt: skip
    """A tensor over a block of memory; whatever it asks for must lie inside of the block."""
    if not isinstance(storage, Storage):
        raise UnpicklingError("a tensor is rebuilt over something that is not memory")
    shape, steps = _sizes(size), _sizes(stride)
    if len(shape) != len(steps) or len(shape) > 64 or not isinstance(offset, int) or offset < 0:
        raise UnpicklingError(f"a tensor has size {shown(shape)}, stride {shown(steps)} and offset {shown(offset)}")
    elements = int(storage.array.size)
    if all(shape):
        last = offset + sum((n - 1) * step for n, step in zip(shape, steps, strict=True))
        if last >= elements or any(step < 0 for step in steps):
            raise UnpicklingError(f"a tensor of size {shape} reaches beyond its memory of {elements} elements")
    else:
        offset = 0
    width, memory = storage.array.dtype.itemsize, storage.array.view(np.uint8)
    # Over the block itself, so that tensors that share memory know it of each other (as_strided would hide it).
    tensor = wrap(np.ndarray(shape, storage.array.dtype, memory, offset * width, tuple(step * width for step in steps)))
    return tensor.requires_grad_() if requires_grad is True else tensor  # type: ignore[attr-defined, no-any-return]


def rebuild_tensor_of(
    storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, dtype: Any, metadata: Any = None
) -> Tensor:
    """A tensor of a dtype over a block of bytes."""
    if not isinstance(storage, Storage) or storage.array.dtype != np.uint8 or not isinstance(dtype, dtypes.dtype):
        raise UnpicklingError("a tensor is rebuilt over something that is not bytes")
    kind = dtypes.as_numpy_dtype(dtype)
    if kind not in storage.typed:  # tensors that share bytes share one array, which is looked through once
        whole = storage.array[: storage.array.size // kind.itemsize * kind.itemsize]
        storage.typed[kind] = Storage(truthful(whole.view(kind)), storage.key)
    return rebuild_tensor(storage.typed[kind], offset, size, stride, requires_grad)


def rebuild_with_attributes(rebuild: Any, kind: Any, arguments: Any, state: Any) -> Tensor:
    """A tensor with the attributes that were saved with it."""
    subclass = isinstance(kind, type) and issubclass(kind, Tensor)  # not in a file of weights, unless it was allowed
    known = (rebuild is rebuild_tensor or rebuild is rebuild_tensor_of) and isinstance(arguments, tuple)
    if not known or not (subclass or kind is TENSOR):
        raise UnpicklingError(f"a tensor is rebuilt as {shown(kind)}")
    tensor: Any = rebuild(*arguments)
    return with_attributes(tensor.as_subclass(kind) if subclass else tensor, state)  # type: ignore[no-any-return]


def with_attributes(tensor: Any, state: Any) -> Any:
    """Give a tensor its attributes, but none that hides something that tensors have: the names come from a file."""
    attributes = state[0] if type(state) is tuple and len(state) == 2 else state  # the other are those of slots
    if attributes is not None:
        tensor.__dict__.update(plain_attributes(attributes, type(tensor)))
    return tensor


def rebuild_on_meta(dtype: Any, size: Any, stride: Any, requires_grad: Any) -> Tensor:
    """A tensor without memory."""
    if not isinstance(dtype, dtypes.dtype):
        raise UnpicklingError(f"a tensor on meta has the dtype {shown(dtype)}")
    tensor = wrap(Meta(_sizes(size), dtypes.as_numpy_dtype(dtype)))
    return tensor.requires_grad_() if requires_grad is True else tensor  # type: ignore[attr-defined, no-any-return]


def _sizes(values: Any) -> tuple[int, ...]:
    if not isinstance(values, tuple) or not all(isinstance(n, int) and 0 <= n < 2**62 for n in values):
        raise UnpicklingError(f"{shown(values)} are not sizes")
    return tuple(int(n) for n in values)


def rebuild_parameter(data: Any, requires_grad: Any = True, hooks: Any = None) -> Parameter:
    """A parameter over a tensor. No class stands in the list below: the state of its objects would come from a file."""
    if not isinstance(data, Tensor):
        raise UnpicklingError(f"a parameter is made of {shown(data)}")
    return Parameter(data, requires_grad is True)


def rebuild_parameter_with_state(data: Any, requires_grad: Any, hooks: Any, state: Any) -> Parameter:
    """A parameter with the attributes that were saved with it."""
    return with_attributes(rebuild_parameter(data, requires_grad), state)  # type: ignore[no-any-return]


def size_of(values: Any) -> Any:
    """torch.Size of a tuple."""
    return dtypes.Size(_sizes(values))


def device_of(*args: Any) -> Any:
    """torch.device: there is one."""
    return dtypes.device("cpu")


def bytes_of(text: Any, encoding: Any) -> bytes:
    """How protocol 2 writes bytes."""
    if type(text) is not str or type(encoding) is not str or encoding != "latin1":
        raise UnpicklingError("bytes are written in another way")
    return text.encode("latin1")


def no_bytes() -> bytes:
    """How protocol 2 writes b""."""
    return b""


def complex_of(real: Any, imaginary: Any = 0.0) -> complex:
    """A complex number of its two parts."""
    if type(real) not in (int, float) or type(imaginary) not in (int, float):
        raise UnpicklingError(f"a complex number has the parts {shown((real, imaginary))}")
    return complex(real, imaginary)


def bytearray_of(data: Any = b"", encoding: Any = "latin-1") -> bytearray:
    """Bytes that can be changed; a number would ask for so many of them."""
    if type(data) is str and type(encoding) is str and encoding == "latin-1":
        return bytearray(data, encoding)
    if type(data) is not bytes:
        raise UnpicklingError(f"bytes are made of {shown(data)}")
    return bytearray(data)


TENSOR = StorageKind("Tensor")  # the class itself, of which a file may only say that a tensor is one
PLAIN = {
    "set": Container(set_of), "frozenset": Container(frozenset_of), "complex": complex_of, "bytearray": bytearray_of,
    "bytes": no_bytes,
}  # fmt: skip
SAFE: dict[str, Any] = {
    "collections.OrderedDict": Container(ordered_of),
    "collections.Counter": Container(counter_of),
    **{f"{home}.{name}": kind for home in ("builtins", "__builtin__") for name, kind in PLAIN.items()},
    "_codecs.encode": bytes_of,
    "torch._utils._rebuild_tensor_v2": rebuild_tensor,
    "torch._utils._rebuild_tensor_v3": rebuild_tensor_of,
    "torch._tensor._rebuild_from_type_v2": rebuild_with_attributes,
    "torch._utils._rebuild_meta_tensor_no_storage": rebuild_on_meta,
    "torch.Tensor": TENSOR,
    "torch._tensor.Tensor": TENSOR,
    "torch.storage.UntypedStorage": StorageKind("uint8"),
    "torch._utils._rebuild_parameter": rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": rebuild_parameter_with_state,
    "torch.Size": size_of,
    "torch.device": device_of,
    "torch.nn.parameter.Parameter": rebuild_parameter,
    **{f"torch.{name}": StorageKind(dtype) for name, dtype in STORAGES.items()},
    **{f"torch.storage.{name}": StorageKind(dtype) for name, dtype in STORAGES.items()},
    **DTYPES,
}


def truthful(array: np.ndarray) -> np.ndarray:
    """The array, if its truth values are 0 and 1: NumPy counts on it, and would write beyond its memory otherwise."""
    if array.dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
        raise UnpicklingError("there are truth values other than 0 and 1")
    return array


class Blocks:
    """What a pickle's references to memory are resolved by; every block is read once."""

    def __init__(self, read: Callable[[str, int], bytes | memoryview], big_endian: bool = False) -> None:
        self.read = read  # key, number of bytes -> the bytes
        self.big_endian = big_endian
        self.seen: dict[str, Storage] = {}

    def __call__(self, reference: Any) -> Storage:
        kind, key, count = self._checked(reference)
        if key not in self.seen:
            dtype = dtypes.as_numpy_dtype(dtypes.DTYPE_NAMES[kind.dtype])
            data = self.read(key, count * dtype.itemsize)
            if len(data) != count * dtype.itemsize:
                raise UnpicklingError(f"memory {key!r} has {len(data)} bytes, {count} x {dtype} were announced")
            array = np.empty(count, dtype)
            fill(array, memoryview(data), dtype.itemsize // (1 + (dtype.kind == "c")) if self.big_endian else 1)
            self.seen[key] = Storage(truthful(array), key)
        return self.seen[key]

    @staticmethod
    def _checked(reference: Any) -> tuple[StorageKind, str, int]:
        if type(reference) is tuple and 5 <= len(reference) <= 6:
            what, kind, key, _, count, *_ = reference
            named = type(what) is str and what == "storage" and type(key) is str and len(key) <= LONGEST_KEY
            if named and isinstance(kind, StorageKind) and type(count) is int and count >= 0:
                return kind, key, count
        raise UnpicklingError(f"a reference to memory reads {shown(reference)}")
