"""Arrays and an operation's params as plain data (JSON and bytes), and back: nothing here runs what it reads.

Numbers, text, None and tuples stand for themselves (a tuple as a list); everything else is an object with one key that
says what it is. The few classes that rows take as params are rebuilt from the list FORMS, by name.
"""

import math
from importlib import import_module
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.primitive import TABLE, Primitive
from pellucid.core.tensor import Tensor
from pellucid.serialization.unpickling import Keys

__all__ = ["Blocks", "NotPlainError", "decoded", "encoded"]

# The classes of params that rows take: name -> the module they are in.
FORMS = {
    "Layout": "pellucid.ops.nn.norm_kernels", "Windows": "pellucid.ops.nn.windows", "Map": "pellucid.ops.nn.separable",
    "Walk": "pellucid.ops.nn.recurrence", "Step": "pellucid.ops.nn.recurrence",
}  # fmt: skip
MOST_DIMENSIONS = 64
MOST_SHOWN = 1 << 31  # bytes that an array may seem to have, if it has fewer (it was expanded)


class NotPlainError(ValueError):
    """A value that has no form as plain data, or plain data that is no value."""


def encoded(value: Any, blocks: "Blocks") -> Any:
    """A param as JSON.

    >>> encoded((1, slice(None, 2), Ellipsis), Blocks())
    [1, {'slice': [None, 2, None]}, {'ellipsis': True}]
    """
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if np.isfinite(value) else {"float": str(value)}
    if kind is tuple:
        return [encoded(part, blocks) for part in value]
    if kind is list:
        return {"list": [encoded(part, blocks) for part in value]}
    if kind is dict:
        return {"dict": [[encoded(key, blocks), encoded(part, blocks)] for key, part in value.items()]}
    if kind is slice:
        return {"slice": [encoded(part, blocks) for part in (value.start, value.stop, value.step)]}
    return _encoded_object(value, blocks)


def _encoded_object(value: Any, blocks: "Blocks") -> Any:
    kind = type(value)
    if value is Ellipsis:
        return {"ellipsis": True}
    if kind is complex:
        return {"complex": [value.real.hex(), value.imag.hex()]}
    if isinstance(value, np.dtype):
        return {"dtype": dtype_name(value)}
    if isinstance(value, Primitive):
        return {"row": value.name}
    if isinstance(value, (np.ndarray, np.generic)):
        return {"array": blocks.add(np.asarray(value)), "scalar": isinstance(value, np.generic)}
    if isinstance(value, Tensor) and isinstance(value.array, np.ndarray):
        return {"tensor": blocks.add(value.array)}
    if FORMS.get(kind.__name__) == kind.__module__:
        fields = value if isinstance(value, tuple) else [getattr(value, name) for name in kind.__dataclass_fields__]
        return {"form": kind.__name__, "fields": [encoded(part, blocks) for part in fields]}
    raise NotPlainError(f"{kind.__module__}.{kind.__qualname__}")


def decoded(data: Any, arrays: list[np.ndarray]) -> Any:
    """A param from JSON.

    >>> decoded([1, {"slice": [None, 2, None]}, {"ellipsis": True}], [])
    (1, slice(None, 2, None), Ellipsis)
    """
    if data is None or isinstance(data, (bool, int, float, str)):
        return data
    if isinstance(data, list):
        return tuple([decoded(part, arrays) for part in data])
    if isinstance(data, dict) and data:
        kind = next(iter(data))
        if kind in READERS:
            return READERS[kind](data, arrays)
    raise NotPlainError(f"no value: {str(data)[:60]}")


def _dictionary(data: dict[str, Any], arrays: list[np.ndarray]) -> dict[Any, Any]:
    pairs = decoded(data["dict"], arrays)
    made: dict[Any, Any] = {}
    Keys(lambda steps: None, len(pairs)).put(made, [name for name, _ in pairs], [value for _, value in pairs])
    return made


def _array(number: Any, arrays: list[np.ndarray]) -> np.ndarray:
    if type(number) is not int or not 0 <= number < len(arrays):
        raise NotPlainError(f"no array: {str(number)[:60]}")
    return arrays[number]


def _form(data: dict[str, Any], arrays: list[np.ndarray]) -> Any:
    name = data["form"]
    if name not in FORMS:
        raise NotPlainError(f"no class of params is called {str(name)[:60]!r}")
    return getattr(import_module(FORMS[name]), name)(*decoded(data["fields"], arrays))


READERS: dict[str, Any] = {
    "float": lambda data, arrays: {"inf": np.inf, "-inf": -np.inf, "nan": np.nan}[data["float"]],
    "complex": lambda data, arrays: complex(*(float.fromhex(part) for part in data["complex"])),
    "list": lambda data, arrays: list(decoded(data["list"], arrays)),
    "dict": _dictionary,
    "slice": lambda data, arrays: slice(*decoded(data["slice"], arrays)),
    "ellipsis": lambda data, arrays: Ellipsis,
    "dtype": lambda data, arrays: dtype_named(data["dtype"]),
    "row": lambda data, arrays: TABLE[data["row"]],
    "array": lambda data, arrays: _array(data["array"], arrays)[() if data.get("scalar") else ...],
    "tensor": lambda data, arrays: _array(data["tensor"], arrays),
    "form": _form,
}


def dtype_name(dtype: Any) -> str:
    """PyTorch's name of a dtype, without `torch.`."""
    return str(dtypes.from_numpy_dtype(dtype)).removeprefix("torch.")


def dtype_named(name: Any) -> np.dtype:
    """The dtype of a name; of nothing else than the dtypes that tensors have."""
    if not isinstance(name, str) or name not in dtypes.DTYPE_NAMES:
        raise NotPlainError(f"no dtype: {str(name)[:60]!r}")
    return dtypes.as_numpy_dtype(dtypes.DTYPE_NAMES[name])


# --- arrays


class Blocks:
    """The arrays of a file, each once: what it is as JSON, and its bytes."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.arrays: list[np.ndarray] = []  # kept, so that an id stays one array's

    def add(self, array: np.ndarray) -> int:
        """The number of an array."""
        number = self.numbers.get(id(array))
        if number is None:
            number = self.numbers[id(array)] = len(self.arrays)
            self.arrays.append(array)
        return number

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)

    def described(self) -> list[dict[str, Any]]:
        """What each array is, in order."""
        return [described(array) for array in self.arrays]


def described(array: np.ndarray) -> dict[str, Any]:
    """What is to be known of an array beside its bytes."""
    about: dict[str, Any] = {"dtype": dtype_name(array.dtype), "shape": list(array.shape)}
    if not array.flags.c_contiguous:
        about |= {"strides": list(array.strides), "offset": -reach(array)[0]}
    return about


def reach(array: np.ndarray) -> tuple[int, int]:
    """How far an array's elements lie before and after its first one, in bytes."""
    steps = [stride * (size - 1) for stride, size in zip(array.strides, array.shape, strict=True) if size]
    return sum(step for step in steps if step < 0), sum(step for step in steps if step > 0) + array.itemsize


def bytes_of(array: np.ndarray) -> bytes:
    """An array's memory as it lies, holes filled with zeros (never with what happens to be there)."""
    if array.flags.c_contiguous:
        return array.tobytes()
    low, high = reach(array)
    memory = np.zeros(high - low, np.uint8)
    np.copyto(np.ndarray(array.shape, array.dtype, memory.data, -low, array.strides), array)
    return memory.tobytes()


def fresh(array: np.ndarray) -> np.ndarray:
    """The same values in memory of their own that lies as theirs does; for arrays that were read.

    >>> fresh(array_from({"dtype": "uint8", "shape": [2, 2], "strides": [0, 1], "offset": 1}, bytes(range(3)))).tolist()
    [[1, 2], [1, 2]]
    """
    memory: np.ndarray = np.ndarray(len(array.base), np.uint8, array.base)  # type: ignore[arg-type]
    offset = array.__array_interface__["data"][0] - memory.__array_interface__["data"][0] if array.size else 0
    return np.ndarray(array.shape, array.dtype, memory.copy().data, offset, array.strides)


def array_from(about: dict[str, Any], data: bytes) -> np.ndarray:
    """An array from its description and its bytes; a description that leads out of the bytes is refused."""
    dtype, shape = dtype_named(about["dtype"]), about["shape"]
    strides, offset = about.get("strides"), about.get("offset", 0)
    numbers = [*shape, *(strides or ()), offset]
    if len(shape) > MOST_DIMENSIONS or not all(type(number) is int for number in numbers) or min(shape, default=0) < 0:
        raise NotPlainError(f"no shape: {str(shape)[:60]}")
    size = math.prod(shape) * dtype.itemsize
    if (strides is None and len(data) != size) or size > max(MOST_SHOWN, len(data)):
        raise NotPlainError(f"{len(data):,} bytes for {dtype} of shape {str(shape)[:60]}")
    if dtype == np.bool_ and data.strip(b"\0\1"):
        raise NotPlainError("there are truth values other than 0 and 1")  # NumPy would write beyond its memory
    return np.ndarray(shape, dtype, bytearray(data), offset, strides)
