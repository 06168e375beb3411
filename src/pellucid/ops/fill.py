"""Whole tensors overwritten: copy_, fill_, zero_, and what every write into a tensor begins with.

Where nobody records, the memory is written as it is; else the new values pass through a row, so that their gradient
reaches what was written and the old values get zero.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid import dtypes
from pellucid.core import modes
from pellucid.core.backward import expands_to
from pellucid.core.flags import received
from pellucid.core.inplace import check_apart, check_writable, note_written, overwrite
from pellucid.core.kinds import plain
from pellucid.core.primitive import multilinear, same
from pellucid.core.record import attach, bind
from pellucid.core.tensor import Tensor, wrap
from pellucid.core.views import current_node
from pellucid.ops.arguments import Row, refusal
from pellucid.ops.convert import cast_row
from pellucid.ops.create import check_range, held, no_room
from pellucid.ops.expand import broadcast, cannot_expand
from pellucid.ops.operation import Draw, Sample, call, operation
from pellucid.ops.shape import aligned, reshape_row, zeros_like_row
from pellucid.ops.slicing import jointly_linear


def overwriting(name: str, grad_name: str) -> Row:
    """A row (a, b): b in the shape and dtype of a. Of the old a nothing is left, its gradient is zero."""
    return bind(
        jointly_linear(
            name, lambda a, b: dtypes.astype(broadcast(b, a.shape), a.dtype), lambda g: zeros_like_row(g), same,
            grad_name=grad_name, batch=lambda op, a, b: op(a, aligned(b, a.ndim - 1)),
        )
    )  # fmt: skip


replace_row = overwriting("replace", "CopyBackwards")
fill_row = overwriting("fill", "FillBackward0")
zero_row = bind(multilinear("zero", np.zeros_like, lambda g: zeros_like_row(g), batch=lambda op, a: op(a)))


# --- what every write begins with


def recording(*tensors: Any) -> bool:
    """Whether an in-place operation on these must go through the graph, a kind of array or an observer."""
    mode = modes.MODE.get()
    if mode is not None and (mode.listeners or mode.anomaly):
        return True
    if any(type(t.array) is not ndarray for t in tensors):
        return True
    return (mode is None or mode.grad) and any(
        current_node(t) is not None or (t.window is not None and t.window.base.node is not None) for t in tensors
    )


def value_for(self: Tensor, value: Any, what: str = "assign") -> Tensor:
    """What is written as a tensor of the target's dtype."""
    if not isinstance(value, Tensor):
        if not isinstance(value, (int, float, complex, np.generic, ndarray)):
            raise refusal(TypeError, f"can't {what} a {type(value).__name__} to a {self.type()}")  # type: ignore[attr-defined]
        value = wrap(_number_for(self, value))
    source, target = value.array.dtype, self.array.dtype
    return value if source == target else cast_row(value, plain(target), plain(source))


def _number_for(self: Tensor, value: Any) -> ndarray:
    target = np.dtype(self.array.dtype)
    if isinstance(value, complex) and target.kind != "c":
        raise no_room(self.dtype)
    if target.kind in "iu" or target.itemsize > 2:  # in half precision PyTorch writes infinity
        check_range(value, target)
    if type(value) is int:
        value = held(value, target)
    if isinstance(value, (np.generic, ndarray)):
        dtypes.from_numpy_dtype(value.dtype.newbyteorder("="))  # refuses objects, dates, structures
    return dtypes.astype(np.asarray(value), plain(target))  # type: ignore[no-any-return]


def copy_into(target: Tensor, value: Tensor, name: str) -> Tensor:
    """Overwrite a tensor, with a value that broadcasts to it."""
    shape = tuple(target.array.shape)
    if value.array.ndim > len(shape):  # sizes of 1 in front do not matter
        spare = value.array.ndim - len(shape)
        if all(n == 1 for n in value.array.shape[:spare]):
            value = reshape_row(value, tuple(value.array.shape[spare:]))
    check_writable(target, name)
    if recording(target, value):
        return overwrite(target, replace_row(target, value), name)
    try:
        target.array[...] = value.array
    except ValueError:
        raise cannot_expand(value.array.shape, shape) from None
    note_written(target, target.array, name)
    return target


def _mismatch(shape: Sequence[int], target: Sequence[int]) -> Exception:
    """Why a tensor cannot be copied into another, in PyTorch's words."""
    try:
        wide = np.broadcast_shapes(tuple(shape), tuple(target))
    except ValueError:
        pairs = list(zip(reversed(target), reversed(shape), strict=False))
        back = next(i for i, (n, m) in enumerate(pairs) if n != m and 1 not in (n, m))
        what = "The size of tensor a ({}) must match the size of tensor b ({})".format(*pairs[back])
        axis = max(len(shape), len(target)) - 1 - back
        return refusal(RuntimeError, f"{what} at non-singleton dimension {axis}")
    what = f"output with shape {list(target)} doesn't match the broadcast shape {list(wide)}"
    return refusal(RuntimeError, what, "an in-place operation cannot change the shape of its tensor")


# --- copy_, fill_, zero_


@received
def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Overwrite this tensor with another that broadcasts to it; gradients flow to that one.

    >>> import pellucid as torch
    >>> torch.zeros(2).copy_(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    if src is self:
        return self
    value = value_for(self, src, "copy")
    if value.window is not None or self.window is not None:
        check_apart(self, value, "copy_")
    shape, target = tuple(value.array.shape), tuple(self.array.shape)
    if shape != target and not expands_to(shape, target):
        raise _mismatch(shape, target)
    return copy_into(self, value, "copy_")


def zero_(self: Tensor) -> Tensor:
    """Overwrite this tensor with zeros.

    >>> import pellucid as torch
    >>> torch.ones(2).zero_()
    tensor([0., 0.])
    """
    check_writable(self, "zero_", alike=True)
    if recording(self):
        return overwrite(self, zero_row(self), "zero_")
    # float8_e8m0fnu has no zero: PyTorch writes bytes of 0 there
    self.array.fill(0 if self.array.dtype.kind != "V" else np.zeros((), self.array.dtype))
    note_written(self, self.array, "zero_")
    return self


def fill_(self: Tensor, value: Any) -> Tensor:
    """Overwrite every element of this tensor with one value.

    >>> import pellucid as torch
    >>> torch.zeros(2).fill_(3)
    tensor([3., 3.])
    """
    check_writable(self, "fill_", alike=True)
    number = fill_value(self, value, "fill_")
    if recording(self, number):
        return overwrite(self, fill_row(self, number), "fill_")
    self.array[...] = number.array
    note_written(self, self.array, "fill_")
    return self


def fill_value(self: Any, value: Any, name: str) -> Tensor:
    """The one value that a tensor is filled with, as a 0-d tensor of its dtype."""
    if isinstance(value, Tensor) and value.array.dtype.kind == "c" and self.array.dtype.kind != "c":
        raise no_room(self.dtype)
    check_range(value, plain(self.array.dtype))
    number = value_for(self, value, "fill")
    if number.array.ndim:
        raise refusal(
            RuntimeError,
            f"{name} only supports a 0-dimensional value tensor, but got tensor with {number.array.ndim} dimension(s).",
        )
    return number


def _fill_samples(draw: Draw) -> list[Sample]:
    return [
        call(draw(2, 3), 1.5), call(draw(), 2), call(draw(3), draw()), call(draw(0), 1.0), call(draw(2, 0), draw()),
        call(draw(3, 2).mT, -1.0), call(draw(), draw()), call(draw(1, 1), True), call(draw.complex(2), 1 + 2j),
        call(draw.integers(3), 7), call(draw(2, 1, 2), 0),
    ]  # fmt: skip


@operation(samples=_fill_samples, methods=())
def fill(input: Any, value: Any) -> Any:
    """A tensor of the same shape with one value everywhere.

    >>> import pellucid as torch
    >>> torch.fill(torch.zeros(2), 3)
    tensor([3., 3.])
    """
    return fill_row(input, fill_value(input, value, "fill"))


for _method in (copy_, zero_, fill_):
    attach(_method.__name__, _method)
