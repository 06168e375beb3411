"""Creation: tensors from data, from a shape, from a rule.

Sizes are checked before any memory is asked for: a negative size, a product that overflows or more bytes than the
machine has is an error at once. Data given as lists is read by NumPy and then typed as PyTorch types it: Python
floats get the default dtype, NumPy's scalars keep theirs.
"""

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from math import ceil, isfinite, prod
from operator import index
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core import aliasing, modes
from pellucid.core.attributes import DEPARTURES, attribute, concrete
from pellucid.core.careful import Kind, current_array, current_node, plain
from pellucid.core.inplace import check_writable, overwrite
from pellucid.core.provenance import here
from pellucid.core.tensor import Cut, Tensor, wrap
from pellucid.errors import explain

Shape = tuple[int, ...]


# --- what every creation function does at the end


def made(array: np.ndarray, requires_grad: bool = False, out: Tensor | None = None, name: str = "out") -> Tensor:
    """Put a new array into a tensor: under inference_mode an inference tensor, with `out` that very tensor."""
    if out is not None:
        return _into(out, array, name)
    mode = modes.MODE.get()
    tensor = wrap(array, None, mode if mode is not None and mode.inference else None)
    return tensor.requires_grad_() if requires_grad else tensor  # type: ignore[attr-defined, no-any-return]


def _into(out: Tensor, array: np.ndarray, name: str) -> Tensor:
    """Write a new array into a tensor the user brought; one of another shape gets the shape too, as in PyTorch."""
    check_writable(out, name)
    if tuple(out.array.shape) == array.shape:
        return overwrite(out, wrap(array), name)
    out.array = array.astype(out.array.dtype)
    return out


def chosen(dtype: Any, out: Tensor | None = None, default: np.dtype | None = None) -> np.dtype:
    """The NumPy dtype that was asked for: by `dtype`, by `out`, or the default."""
    if dtype is not None:
        return dtypes.as_numpy_dtype(dtype)
    if out is not None:
        return plain(out.array.dtype)
    return dtypes.default_float() if default is None else default


# --- sizes


def sizes_of(name: str, size: Sequence[Any]) -> Shape:
    """A shape out of what the caller wrote: `zeros(2, 3)`, `zeros((2, 3))` or `zeros(size=[2, 3])`.

    >>> sizes_of("zeros", ((2, 3),)), sizes_of("zeros", (2, 3))
    ((2, 3), (2, 3))
    """
    if len(size) == 1 and isinstance(size[0], (tuple, list)):
        size = size[0]
    elif len(size) > 1 and isinstance(size[0], (tuple, list)):
        raise TypeError(f"{name}() takes 1 positional argument but {len(size)} were given")
    shape = []
    for position, n in enumerate(size):
        try:
            if isinstance(n, (bool, np.bool_)):
                raise TypeError
            shape.append(index(n))
        except TypeError:
            text = f"{name}(): argument 'size' (position {position + 1}) must be tuple of ints, not {type(n).__name__}"
            raise TypeError(text) from None
    return tuple(shape)


def one_size(name: str, size: Any) -> Shape:
    """A shape that must be one sequence, as `full` and `new_full` want it."""
    if not isinstance(size, (tuple, list)):
        text = f"{name}(): argument 'size' (position 1) must be tuple of ints, not {type(size).__name__}"
        raise TypeError(text)
    return sizes_of(name, (size,))


def check_room(name: str, shape: Shape, dtype: np.dtype) -> None:
    """Refuse sizes that no memory holds, before asking for it."""
    needed = prod(shape) * dtype.itemsize
    if needed < 2**20 and (not shape or min(shape) >= 0) and len(shape) <= 64:
        return
    if len(shape) > 64:
        raise RuntimeError(explain(f"{name}: a tensor has at most 64 dimensions, not {len(shape)}", str(here())))
    if min(shape) < 0:
        raise RuntimeError(
            explain(f"{name}: Dimension size must be non-negative, got {list(shape)}", str(here()), None, None)
        )
    if needed >= 2**63:
        raise RuntimeError(
            explain(f"{name}: Storage size calculation overflowed with sizes={list(shape)}", str(here()))
        )
    if needed > _memory():
        what = f"{name}: can't allocate memory: you tried to allocate {needed} bytes"
        why = f"a tensor of shape {shape} and {dtypes.from_numpy_dtype(dtype)} needs more than this machine's memory"
        raise RuntimeError(explain(what, str(here()), why))


@lru_cache(maxsize=1)
def _memory() -> int:
    """The machine's memory in bytes, or a bound no machine reaches where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 2**46


# --- from a shape


def _filled(name: str, make: Callable[..., np.ndarray], doc: str) -> Callable[..., Tensor]:
    """`zeros`, `ones` or `empty`: the same arguments, another NumPy function."""

    def create(
        *size: Any, out: Tensor | None = None, dtype: Any = None, layout: Any = None, device: Any = None,
        pin_memory: bool = False, requires_grad: bool = False, memory_format: Any = None, **named: Any,
    ) -> Tensor:  # fmt: skip
        if "size" in named and not size:
            shape = one_size(name, named.pop("size"))
        elif not size:
            raise TypeError(f'{name}() missing 1 required positional arguments: "size"')
        else:
            shape = sizes_of(name, size)
        if named:
            raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(named))}'")
        if device is not None:
            dtypes.check_device(device)
        kind = chosen(dtype, out)
        check_room(name, shape, kind)
        return made(make(shape, kind), requires_grad, out, name)

    create.__name__ = create.__qualname__ = name
    create.__doc__ = doc
    return create


zeros = _filled(
    "zeros",
    np.zeros,
    """A tensor of zeros.

    >>> import pellucid as torch
    >>> torch.zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """,
)
ones = _filled(
    "ones",
    np.ones,
    """A tensor of ones.

    >>> import pellucid as torch
    >>> torch.ones(2, dtype=torch.int64)
    tensor([1, 1])
    """,
)
empty = _filled(
    "empty",
    np.empty,
    """A tensor whose elements are not set: whatever was in the memory.

    >>> import pellucid as torch
    >>> torch.empty(2, 3).shape
    torch.Size([2, 3])
    """,
)


def full(
    size: Any, fill_value: Any, *, out: Tensor | None = None, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of one value; its dtype follows from the value.

    >>> import pellucid as torch
    >>> torch.full((2,), 7)
    tensor([7, 7])
    """
    shape = one_size("full", size)
    dtypes.check_device(device)
    value = number_of("full", "fill_value", fill_value)
    kind = chosen(dtype, out, _natural(value))
    check_room("full", shape, kind)
    return made(np.full(shape, converted(np.asarray(value), kind)), requires_grad, out, "full")


def number_of(name: str, argument: str, value: Any) -> Any:
    """A Python number out of a number or a tensor with one element."""
    if isinstance(value, (Tensor, np.ndarray, np.generic)) and value.ndim == 0:
        return value.item()
    if isinstance(value, (bool, int, float, complex)):
        return value
    raise TypeError(f"{name}(): argument '{argument}' must be Number, not {type(value).__name__}")


def _natural(value: Any) -> np.dtype:
    """The dtype PyTorch gives to a Python number."""
    if isinstance(value, bool):
        return dtypes.bool_.numpy
    if isinstance(value, int):
        return dtypes.int64.numpy
    return dtypes.default_complex() if isinstance(value, complex) else dtypes.default_float()


def empty_strided(
    size: Any, stride: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor with given strides whose elements are not set.

    >>> import pellucid as torch
    >>> torch.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    shape, steps = one_size("empty_strided", size), one_size("empty_strided", stride)
    if len(shape) != len(steps) or min(steps, default=0) < 0:
        raise RuntimeError(explain(f"empty_strided: strides {steps} do not fit sizes {shape}", str(here())))
    dtypes.check_device(device)
    kind = chosen(dtype)
    length = 0 if 0 in shape else 1 + sum((n - 1) * step for n, step in zip(shape, steps, strict=True))
    check_room("empty_strided", (*shape[:0], length), kind)
    memory = np.empty(length, kind)
    strides = tuple(step * kind.itemsize for step in steps)
    return made(np.lib.stride_tricks.as_strided(memory, shape, strides), requires_grad)


# --- like another tensor


def _like(name: str, make: Callable[..., np.ndarray], doc: str) -> Callable[..., Tensor]:
    def create(
        input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
        memory_format: Any = None, pin_memory: bool = False,
    ) -> Tensor:  # fmt: skip
        return made(like(name, make, input, dtype, device, memory_format), requires_grad)

    create.__name__ = create.__qualname__ = name
    create.__doc__ = doc
    return create


def like(
    name: str, make: Callable[..., np.ndarray], input: Any, dtype: Any = None, device: Any = None,
    memory_format: Any = None,
) -> np.ndarray:  # fmt: skip
    """A new array with the shape, dtype and order of axes of a tensor."""
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    if device is not None:
        dtypes.check_device(device)
    source = input.array
    kind = chosen(dtype, default=plain(source.dtype))
    check_room(name, tuple(source.shape), kind)
    if isinstance(source, Kind) or source.flags.c_contiguous or memory_format is dtypes.contiguous_format:
        return make(tuple(source.shape), kind)
    order = sorted(range(source.ndim), key=lambda axis: -abs(source.strides[axis]))  # a stable sort
    packed = make(tuple(source.shape[axis] for axis in order), kind)
    return packed.transpose([order.index(axis) for axis in range(source.ndim)])


zeros_like = _like(
    "zeros_like",
    np.zeros,
    """Zeros in the shape and dtype of another tensor.

    >>> import pellucid as torch
    >>> torch.zeros_like(torch.tensor([1, 2]))
    tensor([0, 0])
    """,
)
ones_like = _like(
    "ones_like",
    np.ones,
    """Ones in the shape and dtype of another tensor.

    >>> import pellucid as torch
    >>> torch.ones_like(torch.tensor([1.0, 2.0]))
    tensor([1., 1.])
    """,
)
empty_like = _like(
    "empty_like",
    np.empty,
    """A tensor in the shape and dtype of another, its elements not set.

    >>> import pellucid as torch
    >>> torch.empty_like(torch.ones(2, 3)).shape
    torch.Size([2, 3])
    """,
)


def full_like(
    input: Any, fill_value: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, memory_format: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """One value in the shape and dtype of another tensor.

    >>> import pellucid as torch
    >>> torch.full_like(torch.ones(2), 7)
    tensor([7., 7.])
    """
    array = like("full_like", np.empty, input, dtype, device, memory_format)
    array[...] = converted(np.asarray(number_of("full_like", "fill_value", fill_value)), array.dtype)
    return made(array, requires_grad)


# --- new_*: like this tensor, in another shape


def _new(name: str, create: Callable[..., Tensor]) -> None:
    def method(self: Tensor, *size: Any, dtype: Any = None, **options: Any) -> Tensor:
        return create(*size, dtype=self.dtype if dtype is None else dtype, **options)  # type: ignore[attr-defined]

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"Like `{create.__name__}`, with this tensor's dtype where none is given."
    attribute(method)


_new("new_zeros", zeros)
_new("new_ones", ones)
_new("new_empty", empty)
_new("new_full", full)


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
def new(self: Tensor, *size: Any, device: Any = None) -> Tensor:
    """An empty tensor of this tensor's dtype: the old form of `new_empty` and `new_tensor`."""
    return _constructed(size, plain(self.array.dtype), device)


# --- from a rule


def arange(
    *bounds: Any, start: Any = None, end: Any = None, step: Any = None, out: Tensor | None = None, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The numbers from start (0) up to but without end, by step (1).

    >>> import pellucid as torch
    >>> torch.arange(3), torch.arange(1, 2, 0.5)
    (tensor([0, 1, 2]), tensor([1.0000, 1.5000]))
    """
    first, last, by = _bounds(bounds, start, end, step)
    natural = dtypes.int64.numpy if all(isinstance(n, int) for n in (first, last, by)) else None
    kind = chosen(dtype, out, natural)
    if device is not None:
        dtypes.check_device(device)
    if kind == np.int64 and isfinite(first) and isfinite(last):
        first, last, by = int(first), int(last), int(by)  # as PyTorch: a step of 1.5 counts as 1
    count = _count(first, last, by)
    check_room("arange", (count,), kind)
    return made(_steps(first, by, count, kind), requires_grad, out, "arange")


def _bounds(bounds: Sequence[Any], start: Any, end: Any, step: Any) -> tuple[Any, Any, Any]:
    """Start, end and step out of the forms arange(end), arange(start, end) and arange(start, end, step)."""
    if len(bounds) == 1 and end is None:
        first, last, by = start, bounds[0], step
    else:
        first, last, by = (*bounds, *(start, end, step)[len(bounds) :]) if len(bounds) < 4 else (None, None, None)
    if last is None:
        raise TypeError(f"arange() takes 1 to 3 numbers, got {len(bounds)}")
    by = 1 if by is None else by
    first = 0 if first is None else first
    if type(last) is int and type(first) is int and type(by) is int:
        return first, last, by
    return number_of("arange", "start", first), number_of("arange", "end", last), number_of("arange", "step", by)


def _count(first: Any, last: Any, by: Any) -> int:
    """How many numbers a range has, or why there is no such range."""
    if by == 0:
        raise RuntimeError(explain("arange: step must be nonzero", str(here())))
    if not (isfinite(first) and isfinite(last)):
        raise RuntimeError(explain(f"arange: unsupported range: {first} -> {last}", str(here())))
    if (last - first) * by < 0:
        raise RuntimeError(
            explain(
                f"arange: upper bound and lower bound inconsistent with step sign ({first} to {last} by {by})",
                str(here()),
                None,
                "give a step of the other sign",
            )
        )
    if all(isinstance(n, int) for n in (first, last, by)):
        return -((first - last) // by)
    return ceil((last - first) / by)


def _steps(first: Any, by: Any, count: int, kind: np.dtype) -> np.ndarray:
    """first, first + by, ...: integers exactly, the rest in float64 and then rounded."""
    if kind.kind in "iu":
        first, by = int(first), int(by)
        return np.arange(first, first + by * count, by or 1, dtype=np.int64).astype(kind, copy=False)
    return (first + np.arange(count) * float(by)).astype(kind)


def linspace(
    start: Any, end: Any, steps: int, *, out: Tensor | None = None, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`steps` numbers from start to end, both included, at equal distances.

    >>> import pellucid as torch
    >>> torch.linspace(0, 1, 5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    array = _spaced("linspace", start, end, steps, chosen(dtype, out, _spaced_dtype(start, end)), device)
    return made(array, requires_grad, out, "linspace")


def _spaced_dtype(start: Any, end: Any) -> np.dtype:
    either = isinstance(start, complex) or isinstance(end, complex)
    return dtypes.default_complex() if either else dtypes.default_float()


def _spaced(name: str, start: Any, end: Any, steps: Any, kind: np.dtype, device: Any) -> np.ndarray:
    """Numbers at equal distances, counted from both ends so that both are exact, as PyTorch does."""
    first, last = number_of(name, "start", start), number_of(name, "end", end)
    steps = index(steps)
    dtypes.check_device(device)
    if steps < 0:
        raise RuntimeError(explain(f"{name}: number of steps must be non-negative, got {steps}", str(here())))
    check_room(name, (steps,), kind)
    if steps < 2:
        return np.full(steps, first, kind)
    work = _working(kind)
    begin, finish = (np.asarray(value, work) for value in (first, last))
    by = (finish - begin) / work.type(steps - 1)
    places = np.arange(steps).astype(work)
    half = steps // 2
    result = np.empty(steps, work)
    result[:half] = begin + by * places[:half]
    result[half:] = finish - by * places[: steps - half][::-1]
    return result.astype(kind)


def _working(kind: np.dtype) -> np.dtype:
    """The dtype to compute in: integers need float64's digits, half precision float32's."""
    if kind.kind in "fc" and kind.itemsize >= 4:
        return kind
    return np.dtype(np.float64 if kind.kind in "iub" else np.float32)


def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, *, out: Tensor | None = None, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`steps` numbers from base**start to base**end at equal ratios.

    >>> import pellucid as torch
    >>> torch.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    kind = chosen(dtype, out, _spaced_dtype(start, end))
    work = _working(kind)
    powers = np.power(work.type(base), _spaced("logspace", start, end, steps, work, device))
    return made(powers.astype(kind), requires_grad, out, "logspace")


def eye(
    n: int, m: int | None = None, *, out: Tensor | None = None, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A matrix with ones on the diagonal and zeros elsewhere.

    >>> import pellucid as torch
    >>> torch.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    rows, columns = index(n), index(n if m is None else m)
    for name, value in (("n", rows), ("m", columns)):
        if value < 0:
            raise RuntimeError(explain(f"eye: {name} must be greater or equal to 0, got {value}", str(here())))
    dtypes.check_device(device)
    kind = chosen(dtype, out)
    check_room("eye", (rows, columns), kind)
    return made(np.eye(rows, columns, dtype=kind), requires_grad, out, "eye")


def scalar_tensor(
    s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A 0-d tensor of a number; of the default dtype unless another is given.

    >>> import pellucid as torch
    >>> torch.scalar_tensor(3)
    tensor(3.)
    """
    dtypes.check_device(device)
    value = number_of("scalar_tensor", "s", s)
    natural = dtypes.default_complex() if isinstance(value, complex) else None
    return made(converted(np.asarray(value), chosen(dtype, None, natural)), requires_grad)


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
    return result.requires_grad_() if requires_grad else result  # type: ignore[attr-defined, no-any-return]


def from_data(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A new tensor of whatever the user has, marked with the graph it left behind if it had one."""
    if device is not None:
        dtypes.check_device(device)
    wanted = None if dtype is None else dtypes.as_numpy_dtype(dtype)
    if isinstance(data, Tensor):
        return _copied(data, wanted)
    left: list[Tensor] = []
    result = made(_array(data, wanted, left))
    return marked(result, left)


Tensor.from_data = staticmethod(from_data)  # type: ignore[method-assign, assignment]


def _copied(source: Tensor, wanted: np.dtype | None) -> Tensor:
    """A copy without history."""
    array = current_array(source)
    if isinstance(array, Kind):
        inside: Any = made(array.detached())
        return inside if wanted is None else inside.to(dtypes.from_numpy_dtype(wanted))
    return marked(made(np.array(converted(array, wanted or array.dtype), order="K")), [source])


def marked(result: Tensor, sources: Iterable[Any], by: str = "tensor") -> Tensor:
    """Remember that the graph of these tensors ends here, so that a later error can name the line."""
    for source in sources:
        node = current_node(source) if isinstance(source, Tensor) else None
        if node is not None and result.cut is None:
            place = here()
            DEPARTURES.append((by, place, node.name()))
            result.cut = Cut(by, place, node.name())
    return result


def _array(data: Any, wanted: np.dtype | None, left: list[Tensor]) -> np.ndarray:
    """Data as a new array of its own; tensors found inside lists are noted in `left`."""
    kind = type(data)
    if kind is float or kind is int or kind is bool or kind is complex:
        return _numbers(data, wanted, {kind})
    if isinstance(data, (np.ndarray, np.generic)):
        return _from_array(np.asarray(data), wanted)
    if isinstance(data, (str, bytes)):
        text = f"tensor: invalid data type '{kind.__name__}'"
        raise TypeError(explain(text, str(here()), try_="encode it as integers"))
    if not isinstance(data, (list, tuple)):
        if hasattr(data, "__array__"):
            return _from_array(np.asarray(data), wanted)
        if not isinstance(data, (Sequence, bytearray)):
            return _numbers(data, wanted, {kind})
        data = list(data)
    types: set[type] = set()
    _collect(data, types)
    if any(issubclass(t, Tensor) for t in types):
        data, types = _without_tensors(data, left), set()
        _collect(data, types)
    return _numbers(data, wanted, types)


def _from_array(array: np.ndarray, wanted: np.dtype | None) -> np.ndarray:
    source = dtypes.from_numpy_dtype(array.dtype if array.dtype.isnative else array.dtype.newbyteorder("=")).numpy
    return np.array(converted(array.astype(source, copy=False), wanted or source), order="C")


def _collect(data: Any, types: set[type]) -> None:
    """The types of all numbers in nested lists; a row of numbers is looked at in C."""
    found = set(map(type, data))
    if list in found or tuple in found or any(issubclass(t, SEQUENCES) for t in found):
        for item in data:
            if isinstance(item, np.ndarray):
                types.add(item.dtype.type)
            elif isinstance(item, (list, tuple, range)):
                _collect(item, types)
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
            raise ValueError(explain(text, str(here()), why, "torch.stack(list_of_tensors)"))
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
        text = "tensor: Overflow when unpacking long long"
        raise ValueError(explain(text, str(here()), "an integer exceeds 64 bits"))
    return converted(array, natural if wanted is None else wanted)


def _common(types: set[type]) -> np.dtype:
    """The dtype in which all these numbers fit, as PyTorch infers it."""
    common: np.dtype | None = None
    for kind in types:
        if issubclass(kind, np.generic):
            own = dtypes.from_numpy_dtype(np.dtype(kind)).numpy
        elif issubclass(kind, (bool, int, float, complex)):
            own = _natural(kind())
        elif issubclass(kind, (str, bytes)):
            raise TypeError(explain(f"tensor: invalid data type '{kind.__name__}'", str(here())))
        else:
            raise RuntimeError(explain(f"tensor: Could not infer dtype of {kind.__name__}", str(here())))
        common = own if common is None else dtypes.promote_dtypes(common, own)
    return dtypes.default_float() if common is None else common


SEQUENCES = (list, tuple, range, np.ndarray)


def _check_regular(data: Any, depth: int = 0) -> None:
    """Name the place where nested lists are of unequal length."""
    nested = [isinstance(item, SEQUENCES) for item in data] if isinstance(data, (list, tuple)) else []
    if not any(nested):
        return
    if not all(nested):
        why = f"dim {depth} holds lists and numbers side by side"
        raise TypeError(explain("tensor: not a sequence", str(here()), why))
    expected = len(data[0])
    for item in data:
        if len(item) != expected:
            raise ValueError(
                explain(
                    f"tensor: expected sequence of length {expected} at dim {depth + 1} (got {len(item)})",
                    str(here()),
                    "all rows of a tensor have one length",
                    "pad the shorter ones",
                )
            )
    inner = [part for item in data for part in item] if isinstance(data[0], (list, tuple)) else []
    _check_regular(inner, depth + 1)


def converted(array: np.ndarray, wanted: np.dtype) -> np.ndarray:
    """An array in another dtype, refused where a value has no place in it."""
    source = array.dtype
    if source == wanted:
        return array if source is wanted else array.view(wanted)
    if source.kind == "c" and wanted.kind != "c":
        raise TypeError(explain("must be real number, not complex", str(here()), try_="take .real first"))
    if wanted.kind in "iu" and source.kind in "iuf" and array.size:
        _check_range(array, wanted)
    with np.errstate(over="ignore"):
        return array.astype(wanted)


def _check_range(array: np.ndarray, wanted: np.dtype) -> None:
    """PyTorch refuses what overflows, except that a negative number wraps around in an unsigned dtype."""
    limits = np.iinfo(wanted)
    low = -limits.max - 1 if wanted.kind == "u" else limits.min
    smallest, largest = array.min(), array.max()
    if not (smallest >= low and largest <= limits.max):
        name = dtypes.from_numpy_dtype(wanted).name
        text = f"value cannot be converted to type {name} without overflow"
        raise RuntimeError(explain(text, str(here()), f"the values reach from {smallest} to {largest}"))


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """The data as a tensor, sharing memory with it where that is possible.

    >>> import pellucid as torch
    >>> x = torch.ones(2)
    >>> torch.as_tensor(x) is x
    True
    """
    dtypes.check_device(device)
    if isinstance(data, Tensor):
        unchanged = dtype is None or plain(data.array.dtype) is dtypes.as_numpy_dtype(dtype)
        return data if unchanged else data.to(dtypes.as_dtype(dtype))  # type: ignore[attr-defined, no-any-return]
    if isinstance(data, np.ndarray) and (dtype is None or data.dtype == dtypes.as_numpy_dtype(dtype)):
        return from_numpy(data)
    return from_data(data, dtype)


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """The data as a tensor; `copy` demands a copy (True) or forbids one (False).

    >>> import pellucid as torch
    >>> torch.asarray([1, 2])
    tensor([1, 2])
    """
    source = obj if isinstance(obj, (Tensor, np.ndarray)) else None
    if copy is False:
        if source is None:
            raise ValueError("can't alias: only tensors and NumPy arrays share their memory")
        kind = dtypes.as_dtype(source.dtype)
        if dtype is not None and kind is not dtypes.as_dtype(dtype):
            raise ValueError(f"can't alias tensor with dtype '{kind}' into dtype '{dtypes.as_dtype(dtype)}'.")
    result = from_data(obj, dtype, device) if copy else as_tensor(obj, dtype, device)
    if isinstance(obj, Tensor) and not requires_grad and result.requires_grad:  # type: ignore[attr-defined]
        return result.detach()  # type: ignore[attr-defined, no-any-return]
    return result.requires_grad_() if requires_grad else result  # type: ignore[attr-defined, no-any-return]


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
    if any(stride < 0 for stride in ndarray.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
            "currently supported. (You can probably work around this by making a copy of your array with array.copy().)"
        )
    if not ndarray.flags.writeable:
        warnings.warn(
            "The given NumPy array is not writable, so neither is the tensor: an in-place operation on it will fail. "
            "Copy the array (array.copy()) before converting it to a tensor if you want to write.",
            UserWarning,
            stacklevel=2,
        )
    shared = np.asarray(ndarray).view(kind)
    aliasing.expose(shared, new=True)
    return made(shared)


def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A 1-d tensor over the memory of a bytearray, a memoryview or the like.

    >>> import pellucid as torch
    >>> torch.frombuffer(bytearray([1, 2, 3]), dtype=torch.uint8)
    tensor([1, 2, 3], dtype=torch.uint8)
    """
    kind = dtypes.as_numpy_dtype(dtype)
    length = memoryview(buffer).nbytes
    rest = length - offset
    if length == 0 or rest < 0:
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
    raw = np.frombuffer(buffer, np.uint8, -1 if count < 0 else count * kind.itemsize, offset)
    shared = raw.view(kind)  # bytes first: NumPy reads no bfloat16 out of a buffer
    aliasing.expose(shared, new=True)
    return made(shared, requires_grad)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor that shares the memory of another library's array, by the DLPack protocol.

    >>> import numpy as np, pellucid as torch
    >>> torch.from_dlpack(np.arange(3))
    tensor([0, 1, 2])
    """
    dtypes.check_device(device)
    if isinstance(ext_tensor, Tensor):
        ext_tensor = ext_tensor.numpy()  # type: ignore[attr-defined]
    array = np.from_dlpack(ext_tensor)
    shared = array.view(dtypes.from_numpy_dtype(array.dtype).numpy)
    if copy:
        return made(shared.copy())
    aliasing.expose(shared, new=True)
    return made(shared)


# --- the constructors of old: Tensor(2, 3), FloatTensor([1, 2])


def _constructed(arguments: Sequence[Any], kind: np.dtype, device: Any = None) -> Tensor:
    """What `Tensor(...)` means: sizes, one Size, data, or nothing."""
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
    shape = sizes_of("new", (tuple(first),) if isinstance(first, dtypes.Size) else arguments)
    check_room("new", shape, kind)
    return made(np.empty(shape, kind))


def _init(self: Tensor, *data: Any, device: Any = None, requires_grad: bool = False) -> None:
    """The old constructor: `Tensor(2, 3)` is uninitialised memory, `Tensor([1, 2])` data of the default dtype."""
    result = _constructed(data, dtypes.default_float(), device)
    self.array, self.node, self._grad, self.window, self.cut = result.array, None, None, None, result.cut
    if requires_grad:
        self.requires_grad_()  # type: ignore[attr-defined]


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

    def __call__(self, *data: Any, device: Any = None) -> Tensor:
        return _constructed(data, self.dtype.numpy, device)

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
    "IntTensor", "LongTensor", "ShortTensor", "arange", "as_tensor", "asarray", "empty", "empty_like",
    "empty_strided", "eye", "from_dlpack", "from_numpy", "frombuffer", "full", "full_like", "linspace",
    "logspace", "ones", "ones_like", "scalar_tensor", "tensor", "zeros", "zeros_like",
]  # fmt: skip
