"""Tensors from data: numbers, nested lists, arrays, buffers; and the constructors of old.

Data given as lists is read by NumPy and then typed as PyTorch types it: Python floats get the default dtype, NumPy's
scalars keep theirs. Tensors found inside lists leave their graph here; the result remembers where.
"""

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.attributes import attribute, concrete
from pellucid.core.departures import departed
from pellucid.core.exposure import expose, rooted
from pellucid.core.flags import received
from pellucid.core.kinds import Kind, plain
from pellucid.core.tensor import Tensor, wrap
from pellucid.core.views import current_array, current_node
from pellucid.ops.arguments import refusal
from pellucid.ops.create import check_room, converted, made, natural, shape_from
from pellucid.ops.storage import UntypedStorage


@attribute
def new_tensor(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **options: Any
) -> Tensor:
    """A tensor of the given data with this tensor's dtype.

    >>> import pellucid as torch
    >>> torch.ones(1).new_tensor([1, 2])
    tensor([1., 2.])
    """
    kind = plain(self.array.dtype) if dtype is None else dtype
    return made(from_data(data, kind, device).array, requires_grad)


@attribute
def new(self: Tensor, *data: Any, size: Any = None, device: Any = None) -> Tensor:
    """An empty tensor of this tensor's dtype: the old form of `new_empty` and `new_tensor`."""
    return _constructed(data, plain(self.array.dtype), device, size)


# --- from data


def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Tensor:
    """A new tensor of the given data: numbers, nested lists, arrays; the data is copied.

    >>> import pellucid as torch
    >>> torch.tensor([[1, 2], [3, 4]]), torch.tensor(1.5, dtype=torch.float64)
    (tensor([[1, 2],
            [3, 4]]), tensor(1.5000, dtype=torch.float64))
    """
    if isinstance(data, Tensor):
        warnings.warn(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
            "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).",
            UserWarning,
            stacklevel=2,
        )
    result = from_data(data, dtype, device)
    return result.requires_grad_(requires_grad) if requires_grad else result  # type: ignore[attr-defined, no-any-return]


def from_data(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A new tensor of whatever the user has, marked with the graph it left behind if it had one."""
    if device is not None:
        dtypes.check_device(device)
    wanted = None if dtype is None else dtypes.as_numpy_dtype(dtype)
    if isinstance(data, Tensor):
        copied = _copied(data, wanted)
        return made(copied.array, device=device) if dtypes.on_meta(device) else copied
    left: list[Tensor] = []
    result = made(_array(data, wanted, left), device=device)
    return marked(result, left)


Tensor.from_data = staticmethod(from_data)  # type: ignore[method-assign, assignment]


def _copied(source: Tensor, wanted: np.dtype | None) -> Tensor:
    """A copy without history."""
    array = current_array(source)
    if isinstance(array, Kind):
        inside: Any = made(array.detached())
        return inside if wanted is None else inside.to(dtypes.from_numpy_dtype(wanted))
    array = _real_for(array, wanted or array.dtype)
    return marked(made(np.array(converted(array, wanted or array.dtype), order="K")), [source])


def marked(result: Tensor, sources: Iterable[Any], by: str = "tensor") -> Tensor:
    """Remember that the graph of these tensors ends here, so that a later error can name the line."""
    for source in sources:
        if isinstance(source, Tensor) and result.cut is None:
            node = current_node(source)
            if node is not None:
                result.cut = departed(by, (node,))
            elif source.cut is not None:  # it ended before
                result.cut = source.cut.beyond
    return result


def _array(data: Any, wanted: np.dtype | None, left: list[Tensor]) -> np.ndarray:
    """Data as a new array of its own; tensors found inside lists are noted in `left`."""
    kind = type(data)
    if kind is float or kind is int or kind is bool or kind is complex:
        return _numbers(data, wanted, {kind})
    if isinstance(data, np.generic):
        array = _from_array(np.asarray(data), None)
        return array if wanted is None else converted(array, wanted)  # a number that does not fit is refused
    if isinstance(data, np.ndarray):
        return _from_array(data, wanted)
    if isinstance(data, (str, bytes)):
        text = f"tensor: invalid data type '{kind.__name__}'"
        raise refusal(TypeError, text, try_="encode it as integers")
    if not isinstance(data, (list, tuple)):
        if hasattr(data, "__array__"):
            return _from_array(np.asarray(data), wanted)
        if not _is_sequence(data):
            return _numbers(data, wanted, {kind})
        data = list(data)
    types: set[type] = set()
    _collect(data, types)
    if any(issubclass(t, Tensor) for t in types):
        data, types = _without_tensors(data, left), set()
        _collect(data, types)
    return _numbers(data, wanted, types)


def _is_sequence(data: Any) -> bool:
    """Whether something has a length and elements by number, registered as a sequence or not."""
    if isinstance(data, (Sequence, bytearray)):
        return True
    kind = type(data)
    return hasattr(kind, "__len__") and hasattr(kind, "__getitem__") and not isinstance(data, Mapping)


def _from_array(array: np.ndarray, wanted: np.dtype | None) -> np.ndarray:
    source = dtypes.from_numpy_dtype(array.dtype if array.dtype.isnative else array.dtype.newbyteorder("=")).numpy
    array = _real_for(array.astype(source, copy=False), wanted or source)
    with np.errstate(over="ignore", invalid="ignore"):
        if wanted in dtypes.FLOAT8:
            array = dtypes.astype(array, wanted)
        return np.array(array.astype(wanted or source, copy=False), order="C")  # numbers of arrays wrap around


def _real_for(array: np.ndarray, wanted: np.dtype) -> np.ndarray:
    """Of complex arrays that shall be real PyTorch keeps the real part; of Python's complex numbers nothing."""
    return array.real if array.dtype.kind == "c" and wanted.kind not in "cb" else array


def _collect(data: Any, types: set[type], depth: int = 0) -> None:
    """The types of all numbers in nested lists; a row of numbers is looked at in C."""
    found = set(map(type, data))
    if depth > DEEPEST:  # a list that holds itself
        if found <= {list, tuple}:
            raise refusal(ValueError, f"tensor: too many dimensions '{type(data).__name__}'")
        _check_regular(data, depth)
    if list in found or tuple in found or any(issubclass(t, SEQUENCES) for t in found):
        for item in data:
            if isinstance(item, np.ndarray):
                types.add(item.dtype.type)
            elif isinstance(item, (list, tuple, range)):
                _collect(item, types, depth + 1)
            else:
                types.add(type(item))
    else:
        types |= found


def _without_tensors(data: Any, left: list[Tensor]) -> Any:
    """Nested lists with every tensor of one element replaced by its value."""
    if isinstance(data, Tensor):
        array = concrete(data, "tensor()")
        if array.size != 1:
            text = "tensor: only one element tensors can be converted to Python scalars"
            why = f"a list holds a tensor of shape {tuple(array.shape)}"
            kind = TypeError if array.dtype.kind in "biu" else ValueError  # so PyTorch: it asks for __index__ first
            raise refusal(kind, text, why, "torch.stack(list_of_tensors)")
        left.append(data)
        return array.reshape(())[()]
    return [_without_tensors(item, left) for item in data] if isinstance(data, (list, tuple)) else data


def _numbers(data: Any, wanted: np.dtype | None, types: set[type]) -> np.ndarray:
    """Numbers, alone or in nested lists of equal length, as an array of the dtype PyTorch gives them."""
    natural = _common(types)
    try:
        array = np.array(data)
    except (ValueError, OverflowError, TypeError):
        _check_regular(data)
        raise
    if array.dtype.kind == "O" or (array.dtype.kind == "u" and natural.kind == "i"):
        _check_regular(data)
        if wanted is not None and wanted.kind not in "iu":
            return np.array(data, np.float64 if wanted.kind != "c" else np.complex128).astype(wanted)
        text = "tensor: Overflow when unpacking long long"
        raise refusal(ValueError, text, "an integer exceeds 64 bits")
    return converted(array, natural if wanted is None else wanted)


def _common(types: set[type]) -> np.dtype:
    """The dtype in which all these numbers fit, as PyTorch infers it."""
    common: np.dtype | None = None
    for kind in types:
        if issubclass(kind, np.generic):
            own = dtypes.from_numpy_dtype(np.dtype(kind)).numpy
        elif issubclass(kind, (bool, int, float, complex)):
            own = natural(kind())
        elif issubclass(kind, (str, bytes)):
            raise refusal(TypeError, f"tensor: invalid data type '{kind.__name__}'", try_="encode it as integers")
        else:
            raise refusal(RuntimeError, f"tensor: Could not infer dtype of {kind.__name__}")
        common = own if common is None else dtypes.promote_dtypes(common, own)
    return dtypes.default_float() if common is None else common


DEEPEST = 128  # dimensions that nested lists may have
SEQUENCES = (list, tuple, range, np.ndarray)


def _check_regular(data: Any, depth: int = 0) -> None:
    """Name the place where nested lists are of unequal length."""
    nested = [isinstance(item, SEQUENCES) for item in data] if isinstance(data, (list, tuple)) else []
    if not any(nested):
        return
    if not all(nested):
        why = f"dim {depth} holds lists and numbers side by side"
        raise refusal(TypeError, "tensor: not a sequence", why)
    expected = len(data[0])
    for item in data:
        if len(item) != expected:
            raise refusal(
                ValueError,
                f"tensor: expected sequence of length {expected} at dim {depth + 1} (got {len(item)})",
                "all rows of a tensor have one length",
                "pad the shorter ones",
            )
    inner = [part for item in data for part in item] if isinstance(data[0], (list, tuple)) else []
    _check_regular(inner, depth + 1)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """The data as a tensor, sharing memory with it where that is possible.

    >>> import pellucid as torch
    >>> x = torch.ones(2)
    >>> torch.as_tensor(x) is x
    True
    """
    dtypes.check_device(device)
    if dtypes.on_meta(device):
        return from_data(data, dtype, device)
    if isinstance(data, Tensor):
        unchanged = dtype is None or plain(data.array.dtype) is dtypes.as_numpy_dtype(dtype)
        return data if unchanged else data.to(dtypes.as_dtype(dtype))  # type: ignore[attr-defined, no-any-return]
    if isinstance(data, np.ndarray) and (dtype is None or data.dtype == dtypes.as_numpy_dtype(dtype)):
        return from_numpy(data)
    return from_data(data, dtype)


@received
def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool | None = None
) -> Tensor:
    """The data as a tensor; `copy` demands a copy (True) or forbids one (False).

    A tensor keeps its history unless `requires_grad` is False.

    >>> import pellucid as torch
    >>> torch.asarray([1, 2])
    tensor([1, 2])

    The memory of an `array.array`, a bytearray or the like is taken as elements of `dtype`, whatever it holds.
    """
    element = dtypes.get_default_dtype() if dtype is None else dtype
    if isinstance(obj, UntypedStorage):
        obj = wrap(obj.as_elements(dtypes.as_numpy_dtype(element)))
    elif _is_buffer(obj):
        obj = frombuffer(obj, dtype=element)
    source = obj if isinstance(obj, (Tensor, np.ndarray)) else None
    if copy is False:
        if source is None:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        kind = dtypes.as_dtype(source.dtype)
        if dtype is not None and kind is not dtypes.as_dtype(dtype):
            raise ValueError(f"can't alias tensor with dtype '{kind}' into dtype '{dtypes.as_dtype(dtype)}'.")
    if isinstance(obj, Tensor):
        result = obj.to(device or obj.device, dtype or obj.dtype)  # type: ignore[attr-defined]
        result = result.clone() if copy and result is obj else result
        if requires_grad is False and result.requires_grad:
            return result.detach()  # type: ignore[no-any-return]
    else:
        result = from_data(obj, dtype, device) if copy else as_tensor(obj, dtype, device)
    return result.requires_grad_(requires_grad) if requires_grad else result  # type: ignore[attr-defined, no-any-return]


def _is_buffer(obj: Any) -> bool:
    """Whether something lets others read its memory; of NumPy's things and tensors more than bytes is known."""
    if isinstance(obj, (Tensor, np.ndarray, np.generic)):
        return False
    try:
        memoryview(obj)
    except TypeError:
        return False
    return True


# --- from memory that others hold


def from_numpy(ndarray: np.ndarray) -> Tensor:
    """A tensor that shares the memory of a NumPy array: a write to one is seen in the other.

    >>> import numpy as np, pellucid as torch
    >>> a = np.zeros(2)
    >>> t = torch.from_numpy(a)
    >>> a[0] = 5
    >>> t
    tensor([5., 0.], dtype=torch.float64)
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    if not ndarray.dtype.isnative and ndarray.dtype.kind in "iufc":
        raise ValueError(
            "given numpy array has byte order different from the native byte order. Conversion between byte orders is "
            "currently not supported. Try array.astype(array.dtype.newbyteorder('='))."
        )
    kind = dtypes.from_numpy_dtype(ndarray.dtype).numpy
    if any(stride % ndarray.itemsize for stride in ndarray.strides):
        raise ValueError(
            "given numpy array strides not a multiple of the element byte size. Copy array to reallocate the memory."
        )
    if any(stride < 0 for stride in ndarray.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
            "currently supported. (You can probably work around this by making a copy of your array with array.copy().)"
        )
    if not ndarray.flags.writeable:
        _warn_read_only("NumPy array", "array.copy()")
    array = np.asarray(ndarray)
    root = rooted(array)
    shared = root.view(kind)
    expose(shared, new=True, by_root=root is not array)
    return made(shared)


def _warn_read_only(what: str, way: str) -> None:
    warnings.warn(
        f"The given {what} is not writable, so neither is the tensor: an in-place operation on it will fail. "
        f"Copy it ({way}) before converting it to a tensor if you want to write.",
        UserWarning,
        stacklevel=3,
    )


def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A 1-d tensor over the memory of a bytearray, a memoryview or the like.

    >>> import pellucid as torch
    >>> torch.frombuffer(bytearray([1, 2, 3]), dtype=torch.uint8)
    tensor([1, 2, 3], dtype=torch.uint8)
    """
    kind = dtypes.as_numpy_dtype(dtype)
    try:
        view = memoryview(buffer)
    except TypeError:
        raise ValueError(f"frombuffer: {type(buffer).__name__} does not let others read its memory") from None
    length, rest = view.nbytes, view.nbytes - offset
    if count == 0:
        raise ValueError("frombuffer: both buffer length and count must not be 0")
    if length == 0 or not 0 <= offset < length:
        raise ValueError(f"buffer length ({length}) must not be 0, and offset ({offset} bytes) must lie inside it")
    if count < 0 and rest % kind.itemsize:
        raise ValueError(
            f"buffer length ({rest} bytes) after offset ({offset} bytes) must be a multiple of element size "
            f"({kind.itemsize})"
        )
    if count * kind.itemsize > rest:
        raise ValueError(
            f"requested buffer length ({count} * {kind.itemsize} bytes) after offset ({offset} bytes) must not be "
            f"greater than actual buffer length ({length} bytes)"
        )
    if view.readonly:
        _warn_read_only("buffer", "bytearray(buffer)")
    raw = np.frombuffer(buffer, np.uint8, -1 if count < 0 else count * kind.itemsize, offset)
    shared = raw.view(kind)  # bytes first: NumPy reads no bfloat16 out of a buffer
    expose(shared, new=True)
    return made(shared, requires_grad)


def from_file(filename: Any, shared: bool | None = None, size: int = 0, *, dtype: Any = None, layout: Any = None,
              device: Any = None, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """A 1-d tensor of a file's first numbers; `shared` makes the file, if need be, and writes go into it.

    >>> import os, tempfile, pellucid as torch
    >>> path = os.path.join(tempfile.mkdtemp(), "numbers")
    >>> torch.from_file(path, shared=True, size=2, dtype=torch.float64).fill_(1.5)
    tensor([1.5000, 1.5000], dtype=torch.float64)
    >>> torch.from_file(path, size=2, dtype=torch.float64)
    tensor([1.5000, 1.5000], dtype=torch.float64)
    """
    kind = dtypes.as_numpy_dtype(dtypes.get_default_dtype() if dtype is None else dtype)
    wanted, there = size * kind.itemsize, os.path.getsize(filename) if os.path.exists(filename) else None
    if not shared and there is None:
        raise refusal(RuntimeError, f"unable to open file <{filename}> in read-only mode: No such file or directory")
    if not shared and (there or 0) < wanted:
        needed = f"{size} numbers of {dtypes.as_dtype(kind)} need {wanted}"
        raise refusal(RuntimeError, f"file <{filename}> has {there} bytes, but {needed}")
    if wanted == 0:
        return made(np.empty(0, kind))
    if shared and (there or 0) < wanted:
        with open(filename, "ab") as file:
            file.truncate(wanted)
    return made(np.asarray(np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(wanted,))).view(kind))


# --- the constructors of old: Tensor(2, 3), FloatTensor([1, 2])


def _constructed(arguments: Sequence[Any], kind: np.dtype, device: Any = None, size: Any = None) -> Tensor:
    """What `Tensor(...)` means: sizes, one Size, data, or nothing; `size=` is sizes under their name."""
    if size is not None:
        arguments = tuple(size)
    if device is not None:
        dtypes.check_device(device)
    if not arguments:
        return made(np.empty(0, kind))
    first = arguments[0]
    if (len(arguments) == 1 and not isinstance(first, (int, dtypes.Size))) or isinstance(first, bool):
        if isinstance(first, Tensor):
            if plain(first.array.dtype) is not kind:
                both = [dtypes.from_numpy_dtype(d) for d in (kind, plain(first.array.dtype))]
                raise TypeError(f"expected a tensor of {both[0]} (got {both[1]})")
            return made(concrete(first, "Tensor()"))
        if not isinstance(first, (list, tuple, np.ndarray)) and not hasattr(first, "__len__"):
            raise TypeError(f"new(): data must be a sequence (got {type(first).__name__})")
        return from_data(first, dtypes.from_numpy_dtype(kind))
    shape = shape_from("new", (tuple(first),) if isinstance(first, dtypes.Size) else arguments)
    check_room("new", shape, kind)
    return made(np.empty(shape, kind), device=device)


def _init(self: Tensor, *data: Any, device: Any = None, requires_grad: bool = False) -> None:
    """The old constructor: `Tensor(2, 3)` is uninitialised memory, `Tensor([1, 2])` data of the default dtype."""
    result = _constructed(data, dtypes.default_float(), device)
    self.array, self.node, self._grad, self.window, self.cut = result.array, None, None, None, result.cut
    if requires_grad:
        self.requires_grad_(requires_grad)  # type: ignore[attr-defined]


Tensor.__init__ = _init  # type: ignore[method-assign, assignment]


class TypedTensor:
    """An old type of tensor such as LongTensor: constructs tensors of one dtype, and knows them in isinstance.

    >>> import pellucid as torch
    >>> x = torch.LongTensor([1, 2])
    >>> x.dtype, isinstance(x, torch.LongTensor), isinstance(x, torch.FloatTensor)
    (torch.int64, True, False)
    """

    def __init__(self, name: str, dtype: dtypes.dtype) -> None:
        self.__name__ = name
        self.dtype = dtype

    def __call__(self, *data: Any, size: Any = None, device: Any = None) -> Tensor:
        return _constructed(data, self.dtype.numpy, device, size)

    def __instancecheck__(self, value: object) -> bool:
        return isinstance(value, Tensor) and plain(value.array.dtype) is self.dtype.numpy

    def __repr__(self) -> str:
        return f"<class 'torch.{self.__name__}'>"


FloatTensor = TypedTensor("FloatTensor", dtypes.float32)
DoubleTensor = TypedTensor("DoubleTensor", dtypes.float64)
HalfTensor = TypedTensor("HalfTensor", dtypes.float16)
BFloat16Tensor = TypedTensor("BFloat16Tensor", dtypes.bfloat16)
ByteTensor = TypedTensor("ByteTensor", dtypes.uint8)
CharTensor = TypedTensor("CharTensor", dtypes.int8)
ShortTensor = TypedTensor("ShortTensor", dtypes.int16)
IntTensor = TypedTensor("IntTensor", dtypes.int32)
LongTensor = TypedTensor("LongTensor", dtypes.int64)
BoolTensor = TypedTensor("BoolTensor", dtypes.bool_)


__all__ = [
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor",
    "IntTensor", "LongTensor", "ShortTensor", "as_tensor", "asarray", "from_file", "from_numpy", "frombuffer",
    "tensor",
]  # fmt: skip
