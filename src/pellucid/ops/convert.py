"""Copies and conversions: clone, contiguous, to, float() and its kin, and questions about the dtype.

Two rows do it all: `cast` (another dtype; the gradient is cast back) and `clone` (the same dtype, memory of its own).
"""

from typing import Any

import numpy as np
from numpy import ndarray

from pellucid import dtypes
from pellucid.core import large
from pellucid.core.attributes import concrete
from pellucid.core.flags import no_flag
from pellucid.core.kinds import plain
from pellucid.core.meta import placed
from pellucid.core.primitive import multilinear
from pellucid.core.record import attach, bind
from pellucid.core.tensor import Tensor, bearing, wrap
from pellucid.ops.arguments import refusal
from pellucid.ops.formats import RANKS, channels_last_copy, check_format, is_channels_last, steps_channels_last
from pellucid.ops.layout import lying, stride
from pellucid.ops.operation import call, named, operation


def _astype(a: ndarray, dtype: np.dtype, source: np.dtype) -> ndarray:
    if a.dtype.kind == "c" and dtype.kind not in "cb":
        a = a.real
    return a.astype(dtype) if dtype.itemsize > 2 else dtypes.astype(a, dtype)


cast_row = bind(
    multilinear(
        "cast", _astype, lambda g, dtype, source: cast_row(g, source, dtype),
        grad_name="ToCopyBackward0", batch=lambda op, a, dtype, source: op(a, dtype, source),
    )
)  # fmt: skip


def _copied(a: ndarray, order: Any) -> ndarray:
    if order == CHANNELS_LAST:
        return channels_last_copy(a)
    if order == "K" and 0 in a.strides:
        order = "C"  # of an expanded tensor: NumPy would put the dimension that is repeated last
    return large.copied(a) if a.size >= large.LARGE and a.flags.c_contiguous else a.copy(order)


# order: "K" keeps the strides of a dense tensor, "C" makes it contiguous
CHANNELS_LAST = "channels last"
clone_row = bind(multilinear("clone", _copied, lambda g, order: g, batch=lambda op, a, order: op(a, "K")))


# --- copies


@operation(
    samples=lambda draw: [
        call(draw(2, 3)), call(draw()), call(draw(0)), call(draw(2, 3).mT), call(draw(1, 2, 3)), call(draw(2, 0)),
        call(draw(1)), call(draw(3, 2, 4).mT), call(draw.complex(2, 2)), call(draw(4, 1)),
    ],
)  # fmt: skip
def clone(input: Any, *, memory_format: Any = None) -> Any:
    """A copy with its own memory; gradients flow through it.

    >>> import pellucid as torch
    >>> torch.ones(2, requires_grad=True).clone()
    tensor([1., 1.], grad_fn=<CloneBackward0>)
    """
    if memory_format is not None and check_format(memory_format, input.ndim):
        return clone_row(input, CHANNELS_LAST)
    return clone_row(input, "C" if memory_format is dtypes.contiguous_format else "K")


@operation(
    samples=lambda draw: [
        call(draw(2, 3)), call(draw(2, 3).mT), call(draw()), call(draw(0)), call(draw(3, 2, 4).mT),
        call(draw(2, 0).mT), call(draw(1)), call(draw(1, 4).mT), call(draw.complex(2, 3).mT),
        call(draw(2, 3, 4).movedim(0, -1)),
    ],
    reference="",
)  # fmt: skip
def contiguous(input: Any, memory_format: Any = None) -> Any:
    """The tensor itself if its elements lie in order, else a copy in which they do.

    >>> import pellucid as torch
    >>> torch.zeros(2, 3).t().contiguous().stride()
    (2, 1)
    """
    array = lying(input.array)
    if memory_format is not None and check_format(memory_format, input.ndim):
        return input if array is None or is_channels_last(array) else clone_row(input, CHANNELS_LAST)
    return input if array is None or array.flags.c_contiguous else clone_row(input, "C")


# --- conversions


def as_type(input: Any, dtype: Any) -> Any:
    """The tensor in the dtype that the caller asked for; None leaves it."""
    if dtype is None:
        return input
    source, target = plain(input.array.dtype), dtypes.as_numpy_dtype(dtype)
    return input if source == target else cast_row(input, target, source)


def to(input: Any, *args: Any, **kwargs: Any) -> Any:
    """The tensor in another dtype; itself if nothing changes.

    Takes a dtype, a device ('cpu' is the only one), another tensor, or several of them, as PyTorch does.

    >>> import pellucid as torch
    >>> torch.tensor([1, 2]).to(torch.float64)
    tensor([1., 2.], dtype=torch.float64)
    """
    memory_format = kwargs.pop("memory_format", None)
    dtype, device, copy = _wanted(list(args), kwargs)
    converted = as_type(input if device is None else _moved(input, device), dtype)
    if memory_format is not None and check_format(memory_format, input.ndim):
        return _with_channels_last(converted, copy and converted is input)
    if memory_format is dtypes.contiguous_format and _out_of_order(converted, copy or converted is not input):
        return bearing(cast_row.primitive.grad_name, clone_row(converted, "C"))  # type: ignore[attr-defined]
    if converted is not input or not copy:
        return converted
    source = plain(input.array.dtype)
    return cast_row(input, source, source)


def _moved(input: Any, device: Any) -> Any:
    """The tensor on a device; there is no way back from `meta`, which has no values."""
    place = dtypes.check_device(device)
    if place is input.device:
        return input
    if place is dtypes.CPU:
        concrete(input, "to()")
    return wrap(placed(input.array, place))


def _with_channels_last(input: Any, copy: bool) -> Any:
    """The tensor with the strides of `channels_last`, itself if it has them and need not be copied."""
    there = not isinstance(input.array, ndarray) or stride(input) == steps_channels_last(tuple(input.shape))
    if there and not copy:
        return input
    return bearing(cast_row.primitive.grad_name, clone_row(input, CHANNELS_LAST))  # type: ignore[attr-defined]


def _out_of_order(input: Any, copied: bool) -> bool:
    """Whether elements have to be put in order: those of a copy, or of a tensor that has its channels last."""
    array = input.array
    if not isinstance(array, ndarray) or array.flags.c_contiguous:
        return False
    return copied or (input.ndim in RANKS.values() and is_channels_last(array))


def _wanted(args: list[Any], kwargs: dict[str, Any]) -> tuple[Any, Any, bool]:
    """The dtype, device and copy flag among the arguments of `to`."""
    dtype, device, other = kwargs.pop("dtype", None), kwargs.pop("device", None), kwargs.pop("other", None)
    chosen = {flag: kwargs.pop(flag) for flag in ("non_blocking", "copy") if flag in kwargs}
    if kwargs:
        raise TypeError(f"to() got an unexpected keyword argument '{next(iter(kwargs))}'")
    if args and isinstance(args[0], Tensor):
        other = args.pop(0)
    if args and not isinstance(args[0], bool) and isinstance(args[0], (str, dtypes.device, int, type(None))):
        device = args.pop(0)
        if args and isinstance(args[0], bool):
            raise TypeError("to(): after a device comes a dtype, not a bool; write non_blocking=... or copy=...")
    if args and not isinstance(args[0], bool) and args[0] is not None:
        dtype = args.pop(0)
    elif args and args[0] is None:
        args.pop(0)
    chosen.update(zip(("non_blocking", "copy"), args, strict=False))
    for flag, value in chosen.items():
        if not isinstance(value, bool):
            raise no_flag("to", flag, value)
    if device is None and other is not None:
        device = other.device
    return (other.dtype if other is not None else dtype), device, chosen.get("copy", False)


attach("to", to)


def _conversion(name: str, dtype: dtypes.dtype) -> None:
    def convert(input: Any, memory_format: Any = None) -> Any:
        return as_type(input, dtype) if memory_format is None else to(input, dtype, memory_format=memory_format)

    convert.__name__ = convert.__qualname__ = name
    convert.__doc__ = f"The tensor as {dtype}: short for `to({dtype})`."
    attach(name, convert)


for _name, _dtype in {
    "float": dtypes.float32, "double": dtypes.float64, "half": dtypes.float16, "bfloat16": dtypes.bfloat16,
    "int": dtypes.int32, "long": dtypes.int64, "short": dtypes.int16, "char": dtypes.int8, "byte": dtypes.uint8,
    "bool": dtypes.bool_, "cfloat": dtypes.complex64, "cdouble": dtypes.complex128,
}.items():  # fmt: skip
    _conversion(_name, _dtype)


def type_(input: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of the tensor's type, or the tensor in another type (a dtype, or a name such as torch.FloatTensor).

    >>> import pellucid as torch
    >>> torch.zeros(1).type(), torch.zeros(1).type(torch.int64).dtype
    ('torch.FloatTensor', torch.int64)
    """
    if dtype is None:
        return f"torch.{dtypes.scalar_name(input.dtype)}Tensor"
    if isinstance(dtype, str):
        named = {f"torch.{dtypes.scalar_name(each)}Tensor": each for each in dtypes.ALL_DTYPES}.get(dtype)
        if named is None:
            raise refusal(ValueError, f"invalid type: '{dtype}'")
        dtype = named
    if dtype is Tensor:
        dtype = dtypes.get_default_dtype()
    return to(input, getattr(dtype, "dtype", dtype))  # an old type such as torch.FloatTensor has a dtype


attach("type", named(type_, "type"))


def type_as(input: Any, other: Any) -> Any:
    """The tensor in the dtype of another.

    >>> import pellucid as torch
    >>> torch.zeros(1).type_as(torch.ones(1, dtype=torch.float64)).dtype
    torch.float64
    """
    return to(input, other.dtype)


def cpu(input: Any, memory_format: Any = None) -> Any:
    """The tensor itself: it lives on the CPU already, unless it is a meta tensor, which has nothing to bring."""
    return _moved(input, dtypes.CPU)


def cuda(input: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Any:
    """Always an error: Pellucid runs on the CPU. A script that asks first runs as it is.

    >>> import pellucid as torch
    >>> device = "cuda" if torch.cuda.is_available() else "cpu"  # what scripts write
    >>> torch.ones(2).to(device).device
    device(type='cpu')
    """
    raise refusal(
        AssertionError, "Torch not compiled with CUDA enabled", "Pellucid runs on the CPU only", "leave .cuda() out"
    )


for _method in (type_as, cpu, cuda):
    attach(_method.__name__, _method)


def is_floating_point(input: Any) -> bool:
    """Whether the elements are floating point numbers.

    >>> import pellucid as torch
    >>> torch.is_floating_point(torch.zeros(1))
    True
    """
    return bool(input.dtype.is_floating_point)


def is_complex(input: Any) -> bool:
    """Whether the elements are complex numbers.

    >>> import pellucid as torch
    >>> torch.is_complex(torch.zeros(1))
    False
    """
    return bool(input.dtype.is_complex)


def is_signed(input: Any) -> bool:
    """Whether the elements can be negative.

    >>> import pellucid as torch
    >>> torch.tensor([1], dtype=torch.uint8).is_signed()
    False
    """
    return bool(input.dtype.is_signed)


for _question in (is_floating_point, is_complex, is_signed):
    attach(_question.__name__, _question)
