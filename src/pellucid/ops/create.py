"""Creation: tensors from a shape, or like another tensor.

Sizes are checked before any memory is asked for: a negative size, a product that overflows or more bytes than the
machine has is an error at once.
"""

import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import inf, prod
from operator import index
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core import modes
from pellucid.core.attributes import attribute
from pellucid.core.inplace import write_out
from pellucid.core.kinds import Kind, layers, plain
from pellucid.core.meta import placed
from pellucid.core.tensor import Tensor, wrap
from pellucid.dtypes import CPU
from pellucid.ops.arguments import Shape, refusal
from pellucid.ops.formats import check_format, order_of

# --- what every creation function does at the end


def made(
    array: np.ndarray, requires_grad: bool = False, out: Tensor | None = None, name: str = "out", rule: str = "exact",
    device: Any = CPU,
) -> Tensor:  # fmt: skip
    """Put a new array into a tensor: under inference_mode an inference tensor, with `out` that very tensor.

    A device of None is the one that the program chose.
    """
    if out is not None:
        write_out((out,), (wrap(array),), name, rule)
        return out.requires_grad_(requires_grad) if requires_grad else out  # type: ignore[attr-defined, no-any-return]
    if device is not CPU:
        array = placed(array, device)
    mode = modes.MODE.get()
    tensor = wrap(array, None, mode if mode is not None and mode.inference else None)
    return tensor.requires_grad_(requires_grad) if requires_grad else tensor  # type: ignore[attr-defined, no-any-return]


def chosen(dtype: Any, out: Tensor | None = None, default: np.dtype | None = None) -> np.dtype:
    """The NumPy dtype that was asked for: by `dtype`, by `out`, or the default."""
    if dtype is not None:
        return dtypes.as_numpy_dtype(dtype)
    if out is not None:
        return plain(out.array.dtype)
    return dtypes.default_float() if default is None else default


# --- sizes


def shape_from(name: str, size: Sequence[Any]) -> Shape:
    """A shape out of what the caller wrote: `zeros(2, 3)`, `zeros((2, 3))` or `zeros(size=[2, 3])`.

    >>> shape_from("zeros", ((2, 3),)), shape_from("zeros", (2, 3))
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
    return shape_from(name, (size,))


def check_room(name: str, shape: Shape, dtype: np.dtype, device: Any = CPU) -> bool:
    """Refuse sizes that no memory holds, before asking for it. On meta none is asked for: says if that saves much."""
    needed = prod(shape) * dtype.itemsize
    if 0 < needed < 2**20 and (not shape or min(shape) >= 0) and len(shape) <= 64:
        return False
    if len(shape) > 64:
        raise refusal(RuntimeError, f"{name}: a tensor has at most 64 dimensions, not {len(shape)}")
    if min(shape) < 0:
        raise refusal(RuntimeError, f"{name}: Dimension size must be non-negative, got {list(shape)}")
    if countable(shape) * dtype.itemsize >= 2**63:
        raise refusal(RuntimeError, f"{name}: Storage size calculation overflowed with sizes={list(shape)}")
    if device is not CPU and dtypes.on_meta(device):
        return True
    if needed > _memory():
        what = f"{name}: can't allocate memory: you tried to allocate {needed} bytes"
        why = f"a tensor of shape {shape} and {dtypes.from_numpy_dtype(dtype)} needs more than this machine's memory"
        raise refusal(RuntimeError, what, why)
    return False


def weightless(shape: Shape, dtype: np.dtype) -> np.ndarray:
    """An array of any size over a single element, for tensors on meta: they keep its shape alone."""
    return np.broadcast_to(np.zeros((), dtype), shape)


def countable(shape: Shape) -> int:
    """The product of the sizes without the zeros: NumPy computes with it even for a shape that holds nothing."""
    return prod(n for n in shape if n)


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
            shape = shape_from(name, size)
        if named:
            raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(named))}'")
        if device is not None:
            dtypes.check_device(device)
        kind = chosen(dtype, out)
        if check_room(name, shape, kind, device) and out is None:
            array = weightless(shape, kind)
        elif memory_format is not None and check_format(memory_format, len(shape)):
            array = _in_order(make, shape, kind, order_of(len(shape)))
        else:
            array = make(shape, kind)
        return made(array, requires_grad, out, name, device=device)

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
    kind = chosen(dtype, out, natural(value))
    light = check_room("full", shape, kind, device) and out is None
    check_range(value, kind)
    array = weightless(shape, kind) if light else np.full(shape, converted(np.asarray(value), kind))
    return made(array, requires_grad, out, "full", device=device)


def number_of(name: str, argument: str, value: Any) -> Any:
    """A Python number out of a number or a tensor with one element."""
    if isinstance(value, (Tensor, np.ndarray, np.generic)) and value.ndim == 0:
        return value.item()
    if isinstance(value, (bool, int, float, complex)):
        return value
    raise TypeError(f"{name}(): argument '{argument}' must be Number, not {type(value).__name__}")


def natural(value: Any) -> np.dtype:
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
        raise refusal(RuntimeError, f"empty_strided: strides {steps} do not fit sizes {shape}")
    dtypes.check_device(device)
    kind = chosen(dtype)
    length = 0 if 0 in shape else 1 + sum((n - 1) * step for n, step in zip(shape, steps, strict=True))
    check_room("empty_strided", (length,), kind)
    if countable(shape) * kind.itemsize >= 2**63:
        raise refusal(RuntimeError, f"empty_strided: numel: integer multiplication overflow, sizes={list(shape)}")
    memory = np.empty(length, kind)
    strides = tuple(step * kind.itemsize for step in steps)
    return made(np.lib.stride_tricks.as_strided(memory, shape, strides), requires_grad, device=device)


def empty_permuted(
    size: Any, physical_layout: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor whose dimensions lie in memory in the order given, from the outermost in; its elements are not set.

    >>> import pellucid as torch
    >>> torch.empty_permuted((2, 3, 4), (0, 2, 1)).stride()
    (12, 1, 3)
    """
    shape, order = one_size("empty_permuted", size), one_size("empty_permuted", physical_layout)
    if len(shape) != len(order):
        what = "Number of dimensions in size does not match the length of the physical_layout"
        raise refusal(RuntimeError, f"{what}: {len(shape)} and {len(order)}")
    if any(not 0 <= axis < len(shape) for axis in order):
        raise refusal(RuntimeError, f"Dimension out of range (expected 0 to {len(shape) - 1}), but got {list(order)}")
    if len(set(order)) < len(order):
        raise refusal(RuntimeError, f"Duplicate dim not allowed, but got {list(order)}")
    dtypes.check_device(device)
    kind = chosen(dtype)
    check_room("empty_permuted", shape, kind)
    return made(_in_order(np.empty, shape, kind, order), requires_grad, device=device)


def _in_order(make: Callable[..., np.ndarray], shape: Shape, kind: np.dtype, order: Sequence[int]) -> np.ndarray:
    """A new array of a shape whose axes lie in memory in the order given."""
    packed = make(tuple(shape[axis] for axis in order), kind)
    return packed.transpose([order.index(axis) for axis in range(len(shape))])


# --- like another tensor


def _like(name: str, make: Callable[..., np.ndarray], doc: str) -> Callable[..., Tensor]:
    def create(
        input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
        memory_format: Any = None, pin_memory: bool = False,
    ) -> Tensor:  # fmt: skip
        array = with_room(like(name, make, input, dtype, device, memory_format), input)
        return made(array, requires_grad, device=beside(input, device))

    create.__name__ = create.__qualname__ = name
    create.__doc__ = doc
    return create


def beside(input: Any, device: Any) -> Any:
    """The device of a tensor that is made like another: the one asked for, or the other's."""
    return input.device if device is None else device


def with_room(array: np.ndarray, input: Tensor) -> Any:
    """A new array with room for what may be written into it: beside a tensor inside vmap, one value per example."""
    if not isinstance(input.array, Kind):
        return array
    for _, kind in sorted(layers(input.array).items()):
        if kind.batched:
            array = kind.repeated(array)
    return array


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
    place = CPU if device is None and type(source) is np.ndarray else beside(input, device)
    if check_room(name, tuple(source.shape), kind, place):
        return weightless(tuple(source.shape), kind)
    if memory_format is not None and check_format(memory_format, source.ndim):
        return _in_order(make, tuple(source.shape), kind, order_of(source.ndim))
    if isinstance(source, Kind) or source.flags.c_contiguous or memory_format is dtypes.contiguous_format:
        return make(tuple(source.shape), kind)
    order = sorted(range(source.ndim), key=lambda axis: -abs(source.strides[axis]))  # a stable sort
    return _in_order(make, source.shape, kind, order)


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
    number = number_of("full_like", "fill_value", fill_value)
    value = np.asarray(number)

    def filled(shape: Shape, kind: np.dtype) -> np.ndarray:
        check_range(number, kind)
        return np.full(shape, converted(value, kind))

    array = like("full_like", filled, input, dtype, device, memory_format)
    return made(with_room(array, input), requires_grad, device=beside(input, device))


# --- new_*: like this tensor, in another shape


def _new(name: str, create: Callable[..., Tensor]) -> None:
    def method(self: Tensor, *size: Any, dtype: Any = None, **options: Any) -> Tensor:
        place = beside(self, options.pop("device", None))
        kind = self.dtype if dtype is None else dtype  # type: ignore[attr-defined]
        created = create(*size, dtype=kind, device=place, **options)
        created.array = with_room(created.array, self)
        return created

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"Like `{create.__name__}`, with this tensor's dtype where none is given."
    attribute(method)


_new("new_zeros", zeros)
_new("new_ones", ones)
_new("new_empty", empty)
_new("new_full", full)
_new("new_empty_strided", empty_strided)


def converted(array: np.ndarray, wanted: np.dtype) -> np.ndarray:
    """An array in another dtype, refused where a value has no place in it."""
    source = array.dtype
    if source == wanted:
        return array if source is wanted else array.view(wanted)
    if source.kind == "c" and wanted.kind not in "cb":
        raise refusal(TypeError, "must be real number, not complex", try_="take .real first")
    if wanted.kind in "iu" and source.kind in "iuf" and array.size:
        check_fits(array, wanted)
    with np.errstate(over="ignore"):
        return array.astype(wanted) if wanted.itemsize > 1 else dtypes.astype(array, wanted)


def check_fits(array: np.ndarray, wanted: np.dtype) -> None:
    """PyTorch refuses what overflows, except that a negative integer wraps around in an unsigned dtype."""
    limits = np.iinfo(wanted)
    low = -limits.max - 1 if wanted.kind == "u" and array.dtype.kind != "f" else limits.min
    smallest, largest = array.min(), array.max()
    if not (smallest >= low and largest <= limits.max):
        name = dtypes.from_numpy_dtype(wanted).name
        text = f"value cannot be converted to type {name} without overflow"
        raise refusal(RuntimeError, text, f"the values reach from {smallest} to {largest}")


def check_range(value: Any, kind: np.dtype) -> None:
    """PyTorch fills no tensor with a number that its dtype cannot hold: -1e9 in float16, NaN or 1e30 among integers.

    Of the floating dtypes all hold infinity and NaN. Whole numbers among integers are `held`'s affair.
    """
    if kind.kind in "iu" and isinstance(value, (float, np.floating)):
        limits, dtype = np.iinfo(kind), dtypes.from_numpy_dtype(kind)
        if not limits.min <= value <= limits.max:
            raise no_room(dtype, f"{value} is no number from {limits.min} to {limits.max}", "convert the tensor first")
    largest = LARGEST.get(kind)
    if largest is None or not isinstance(value, (int, float)) or -largest <= value <= largest or value != value:
        return
    if abs(value) != inf or kind in dtypes.FLOAT8:
        dtype, end = dtypes.from_numpy_dtype(kind), "max" if value > 0 else "min"
        raise no_room(dtype, f"{dtype} reaches to {largest:g}", f"use torch.finfo({dtype}).{end}")


def no_room(dtype: dtypes.dtype, why: str | None = None, try_: str | None = None) -> Exception:
    """A number that a dtype cannot hold, in PyTorch's words."""
    what = f"value cannot be converted to type {dtypes.machine_name(dtype)} without overflow"
    return refusal(RuntimeError, what, why, try_)


LARGEST = {
    each.numpy: dtypes.finfo(each).max for each in dtypes.ALL_DTYPES if each.is_floating_point or each.is_complex
}


def held(value: Any, kind: np.dtype) -> Any:
    """A whole number as an integer dtype holds it: a negative one wraps around in an unsigned dtype."""
    if type(value) is not int:
        return value
    if kind.kind not in "iu":
        return value if abs(value) < 2**63 else float(value)  # NumPy would make an object of it
    array = np.asarray(value)
    check_fits(array, kind)
    return int(array.astype(kind))


__all__ = [
    "empty", "empty_like", "empty_permuted", "empty_strided", "full", "full_like", "ones", "ones_like", "zeros",
    "zeros_like",
]  # fmt: skip
