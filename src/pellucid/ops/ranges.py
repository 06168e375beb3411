"""Tensors from a rule: arange, range, linspace, logspace, eye.

Integers are counted exactly; the rest is computed in enough digits first and then rounded to the dtype asked for.
"""

from collections.abc import Sequence
from math import ceil, isfinite
from operator import index
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.provenance import warn
from pellucid.core.tensor import Tensor
from pellucid.ops.arguments import refusal
from pellucid.ops.create import check_room, chosen, converted, made, number_of


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
    natural = dtypes.int64.numpy if _whole(first, last, by) else None
    kind = chosen(dtype, out, natural)
    if kind.kind in "bc":
        name = dtypes.scalar_name(dtypes.from_numpy_dtype(kind))
        raise refusal(NotImplementedError, f"\"arange_cpu\" not implemented for '{name}'")
    if device is not None:
        dtypes.check_device(device)
    if kind == np.int64 and isfinite(first) and isfinite(last):
        first, last, by = int(first), int(last), int(by)  # as PyTorch: a step of 1.5 counts as 1
    count = _count(first, last, by)
    check_room("arange", (count,), kind)
    return _made(_steps(first, by, count, kind), requires_grad, out, "arange", device)


def _made(numbers: np.ndarray, requires_grad: bool, out: Tensor | None, name: str, device: Any) -> Tensor:
    """The numbers in a row; an output with room for as many keeps its shape."""
    if out is not None and out.array.size == numbers.size:
        numbers = numbers.reshape(out.array.shape)
    return made(numbers, requires_grad, out, name, device=device)


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


def _whole(first: Any, last: Any, by: Any) -> bool:
    return isinstance(first, int) and isinstance(last, int) and isinstance(by, int)


def _count(first: Any, last: Any, by: Any) -> int:
    """How many numbers a range has, or why there is no such range."""
    if by == 0:
        raise refusal(RuntimeError, "arange: step must be nonzero")
    if not (isfinite(first) and isfinite(last)):
        raise refusal(RuntimeError, f"arange: unsupported range: {first} -> {last}")
    if (last - first) * by < 0:
        raise refusal(
            RuntimeError,
            f"arange: upper bound and lower bound inconsistent with step sign ({first} to {last} by {by})",
            try_="give a step of the other sign",
        )
    if _whole(first, last, by):
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
    return _made(array, requires_grad, out, "linspace", device)


def range(
    start: Any = 0, end: Any = None, step: Any = 1, *, out: Tensor | None = None, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The numbers from start to end, both included, by step; PyTorch means to remove it: use arange.

    >>> import warnings, pellucid as torch
    >>> with warnings.catch_warnings(action="ignore"):
    ...     torch.range(1, 2, 0.5)
    tensor([1.0000, 1.5000, 2.0000])
    """
    warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with "
        "Python's range builtin. Instead, use torch.arange, which produces values in [start, end)."
    )
    first, last, by = _bounds((), start, end, step)
    _count(first, last, by)  # refuses what is no range
    count = int((last - first) / by) + 1
    kind = chosen(dtype, out)
    dtypes.check_device(device)
    check_room("range", (count,), kind)
    return _made(_steps(first, by, count, kind), requires_grad, out, "range", device)


def _spaced_dtype(start: Any, end: Any) -> np.dtype:
    either = isinstance(start, complex) or isinstance(end, complex)
    return dtypes.default_complex() if either else dtypes.default_float()


WIDER = {np.dtype(np.float32): np.float64, np.dtype(np.float64): np.longdouble}  # products of two are exact there


def _fused(start: np.ndarray, by: np.ndarray, places: np.ndarray) -> np.ndarray:
    """`start + by * places` rounded once, as the processor's fused instruction does it for PyTorch.

    >>> float(_fused(np.float32(-1), np.float32(1 / 3), np.array([3], np.float32))[0])  # 1 / 3 is a little above it
    2.9802322387695312e-08
    """
    wide = WIDER.get(by.dtype, by.dtype)
    return (start.astype(wide) + by.astype(wide) * places.astype(wide)).astype(by.dtype)


def _spaced(name: str, start: Any, end: Any, steps: Any, kind: np.dtype, device: Any) -> np.ndarray:
    """Numbers at equal distances, counted from both ends so that both are exact, as PyTorch does."""
    if any(isinstance(value, Tensor) and value.array.ndim for value in (start, end)):
        raise refusal(RuntimeError, f"{name} only supports 0-dimensional start and end tensors")
    first, last = number_of(name, "start", start), number_of(name, "end", end)
    if kind.kind != "c" and (isinstance(first, complex) or isinstance(last, complex)):
        shown = dtypes.from_numpy_dtype(kind)
        raise refusal(
            RuntimeError, f"torch.{name}(): inferred dtype complex can't be safely cast to passed dtype {shown}"
        )
    steps = index(steps)
    dtypes.check_device(device)
    if steps < 0:
        raise refusal(RuntimeError, f"{name}: number of steps must be non-negative, got {steps}")
    if kind.kind == "b":
        raise refusal(NotImplementedError, f"\"{name}_cpu\" not implemented for 'Bool'", try_="a dtype of numbers")
    check_room(name, (steps,), kind)
    if steps < 2:
        return np.full(steps, first, kind)
    work = _working(kind)
    begin, finish = (np.asarray(value, work) for value in (first, last))
    if kind.kind in "iu":  # both ends as integers first, as PyTorch
        begin, finish = np.trunc(begin), np.trunc(finish)
    by = (finish - begin) / work.type(steps - 1)
    places = np.arange(steps).astype(work)
    half = steps // 2
    result = np.empty(steps, work)
    result[:half] = _fused(begin, by, places[:half])
    result[half:] = _fused(finish, -by, places[: steps - half][::-1])
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
    if kind.kind in "iu":
        start, end = (int(number_of("logspace", *pair)) for pair in (("start", start), ("end", end)))
    powers = np.power(work.type(base), _spaced("logspace", start, end, steps, work, device))
    return _made(powers.astype(kind), requires_grad, out, "logspace", device)


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
            raise refusal(RuntimeError, f"eye: {name} must be greater or equal to 0, got {value}")
    dtypes.check_device(device)
    kind = chosen(dtype, out)
    check_room("eye", (rows, columns), kind)
    return made(np.eye(rows, columns, dtype=kind), requires_grad, out, "eye", device=device)


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
    return made(converted(np.asarray(value), chosen(dtype, None, natural)), requires_grad, device=device)


__all__ = ["arange", "eye", "linspace", "logspace", "range", "scalar_tensor"]
