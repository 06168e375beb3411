"""DLPack: memory goes to other array libraries and comes from them without a copy.

NumPy speaks the protocol, so an exported tensor is exported as its ndarray, and an import comes by way of
`np.from_dlpack`. Two things NumPy does not know are done here, on the description that a DLPack capsule carries of
the memory: bfloat16, and that a capsule of the old kind may be written to. Memory that is shared either way is known
to the ledger of core/aliasing.py, so that a write by the other library to a value that backward needs is caught.
"""

import ctypes
from enum import IntEnum
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.attributes import attribute, concrete
from pellucid.core.exposure import expose
from pellucid.core.provenance import here
from pellucid.core.tensor import Tensor
from pellucid.core.views import current_node
from pellucid.errors import explain
from pellucid.ops.create import made

VERSION = (1, 0)  # what is asked of others
BFLOAT16 = dtypes.bfloat16.numpy


class DLDeviceType(IntEnum):
    """The numbers of the protocol for kinds of device."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17


CPU = (DLDeviceType.kDLCPU, 0)


# --- out


@attribute
def __dlpack__(
    self: Tensor,
    *,
    stream: int | None = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """Hand the tensor's memory to another library: called by its `from_dlpack`.

    >>> import numpy as np, pellucid
    >>> x = pellucid.zeros(2)
    >>> np.from_dlpack(x)[0] = 5
    >>> x
    tensor([5., 0.])
    """
    _check_request(self, stream, dl_device)
    array = concrete(self, "__dlpack__()").copy() if copy else self.numpy()
    if any(stride < 0 for stride in array.strides):
        raise BufferError(explain("Can't export tensors with negative strides", str(here()), try_="x.clone()"))
    if array.dtype != BFLOAT16:
        return array.__dlpack__(max_version=max_version)
    capsule = array.view(np.uint16).__dlpack__(max_version=max_version)
    description(capsule).code = BFLOAT
    return capsule


@attribute
def __dlpack_device__(self: Tensor) -> tuple[DLDeviceType, int]:
    """Where the memory is, in DLPack's numbers: always the CPU."""
    return CPU


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule of the tensor's memory, to be consumed once by another library's `from_dlpack`.

    >>> import pellucid as torch
    >>> torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(torch.arange(3)))
    tensor([0, 1, 2])
    """
    return tensor.__dlpack__()


def _check_request(tensor: Tensor, stream: Any, device: Any) -> None:
    if current_node(tensor) is not None:
        raise BufferError(
            explain(
                "Can't export tensors that require gradient, use tensor.detach()",
                str(here()),
                "another library's array cannot carry the graph along",
            )
        )
    if stream is not None and type(stream) is not int:
        raise TypeError("stream must be ``int`` or ``none``")
    if stream not in (None, -1):
        raise AssertionError("stream should be None on cpu.")
    if device is not None and tuple(device) != CPU:
        what = f"cannot export to DLPack device {tuple(device)}: this memory is on the CPU, (1, 0)"
        raise BufferError(explain(what, str(here())))


# --- in


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor that shares the memory of another library's array (or of a DLPack capsule).

    >>> import numpy as np, pellucid as torch
    >>> array = np.arange(3)
    >>> x = torch.from_dlpack(array)
    >>> array[0] = 7
    >>> x
    tensor([7, 1, 2])
    """
    dtypes.check_device(device)
    if isinstance(ext_tensor, Tensor):
        _check_request(ext_tensor, None, None)
        array = concrete(ext_tensor, "from_dlpack()")
    elif isinstance(ext_tensor, np.ndarray):
        array = np.asarray(ext_tensor)
    else:
        array = _imported(ext_tensor, copy)
    if any(stride < 0 for stride in array.strides):
        what = "from_dlpack: tensors with negative strides are not supported"
        raise ValueError(explain(what, str(here()), try_="copy the array first"))
    shared = array.view(dtypes.from_numpy_dtype(array.dtype).numpy)
    if copy:
        return made(shared.copy())
    if not isinstance(ext_tensor, Tensor):
        expose(shared, new=True)
    return made(shared)


def _imported(source: Any, copy: bool | None) -> np.ndarray:
    """The memory of another library's array as an ndarray."""
    capsule = _exported(source, copy) if hasattr(source, "__dlpack__") else source
    about = description(capsule)
    half = about.code == BFLOAT
    if half:
        about.code = UNSIGNED
    array = np.from_dlpack(Capsule(capsule))
    if not array.flags.writeable and is_old(capsule):  # such a capsule cannot say whether it may be written to
        array = np.asarray(Window(array))
    return array.view(BFLOAT16) if half else array


def _exported(source: Any, copy: bool | None) -> Any:
    """A capsule of a library that knows the protocol of today, or that of old without any arguments."""
    kind, _ = source.__dlpack_device__()
    if kind != DLDeviceType.kDLCPU:
        what = f"from_dlpack: the array is on a device of kind {int(kind)}, and Pellucid runs on the CPU only"
        raise BufferError(explain(what, str(here()), try_="move it to the CPU first"))
    try:
        return source.__dlpack__(max_version=VERSION, copy=copy)
    except TypeError:
        return source.__dlpack__()


class Capsule:
    """A bare capsule as the array object that NumPy wants to see."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU


class Window:
    """The memory of a read-only array, to be looked at again by one that may write; keeps the first alive."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        address, _ = array.__array_interface__["data"]
        self.__array_interface__ = {**array.__array_interface__, "data": (address, False), "strides": array.strides}


# --- what a capsule says about its memory

UNSIGNED, BFLOAT = 1, 4  # the protocol's codes for kinds of number


class Element(ctypes.Structure):
    """DLDataType."""

    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class Memory(ctypes.Structure):
    """DLTensor, up to the part that is read here."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("element", Element),
    )


class VersionedMemory(ctypes.Structure):
    """DLManagedTensorVersioned: here the memory stands behind version, owner and flags."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("memory", Memory),
    )


_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
OLD, NEW = b"dltensor", b"dltensor_versioned"


def is_old(capsule: Any) -> bool:
    """Whether a capsule, consumed or not, is of the protocol before version 1."""
    return bool(_is_valid(capsule, OLD) or _is_valid(capsule, b"used_dltensor"))


def description(capsule: Any) -> Element:
    """The kind of number that a capsule says its memory holds; it may be changed while the capsule is ours."""
    if _is_valid(capsule, NEW):
        return VersionedMemory.from_address(_pointer(capsule, NEW)).memory.element  # type: ignore[no-any-return]
    if _is_valid(capsule, OLD):
        return Memory.from_address(_pointer(capsule, OLD)).element  # type: ignore[no-any-return]
    what = f"from_dlpack received an invalid capsule: {capsule!r}"
    why = "a DLPack capsule can be consumed only once" if type(capsule).__name__ == "PyCapsule" else None
    raise RuntimeError(explain(what, str(here()), why, "give it the array itself, which has a method __dlpack__"))
