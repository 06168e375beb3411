"""The frequencies of a spectrum, and their order: fftfreq, rfftfreq, fftshift, ifftshift."""

from operator import index as as_int
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.ops.arguments import axis_of, refusal
from pellucid.ops.axes import roll_row
from pellucid.ops.create import check_room, chosen, made
from pellucid.ops.operation import Draw, Sample, call, operation


def _shift_samples(draw: Draw) -> list[Sample]:
    return [
        call(draw(5)), call(draw(4)), call(draw(3, 4)), call(draw(3, 4), 1), call(draw(3, 4), dim=(0, -1)),
        call(draw.complex(2, 3)), call(draw(2, 3, 4), (0, 2)), call(draw(0)),
    ]  # fmt: skip


def _shifted(input: Any, dim: Any, up: int) -> Any:
    """Roll by half the size of each dimension; of an odd size one half is larger, and `up` says which."""
    dims = range(input.ndim) if dim is None else dim if isinstance(dim, (tuple, list)) else (dim,)
    axes = tuple(axis_of(d, input.ndim) for d in dims)
    if not axes:
        raise refusal(RuntimeError, "`shifts` required", "a 0-d tensor has nothing to shift")
    return roll_row(input, tuple((input.shape[axis] + up) // 2 for axis in axes), axes)


@operation(samples=_shift_samples, module="torch.fft")
def fftshift(input: Any, dim: Any = None) -> Any:
    """Reorder a spectrum so that frequency 0 stands in the middle.

    >>> import pellucid as torch
    >>> torch.fft.fftshift(torch.tensor([0, 1, 2, -2, -1]))
    tensor([-2, -1,  0,  1,  2])
    """
    return _shifted(input, dim, 0)


@operation(samples=_shift_samples, module="torch.fft")
def ifftshift(input: Any, dim: Any = None) -> Any:
    """Undo fftshift.

    >>> import pellucid as torch
    >>> torch.fft.ifftshift(torch.tensor([-2, -1, 0, 1, 2]))
    tensor([ 0,  1,  2, -2, -1])
    """
    return _shifted(input, dim, 1)


def _frequency_samples(draw: Draw) -> list[Sample]:
    return [
        call(5), call(4, 0.5), call(1), call(0), call(6, d=2.0, dtype=dtypes.float64),
        call(7, 0.1, dtype=dtypes.float64, requires_grad=True),
    ]  # fmt: skip


def _scaled(name: str, counts: np.ndarray, n: int, d: float, dtype: Any, device: Any, requires_grad: bool) -> Any:
    """Whole numbers of periods, divided by the length of the signal n * d."""
    kind = chosen(dtype)
    if kind.kind in "biu":
        raise refusal(RuntimeError, f"{name} requires a floating point or complex dtype")
    if kind.kind == "c":
        raise refusal(NotImplementedError, f"{name} is not implemented for {dtypes.from_numpy_dtype(kind)}")
    dtypes.check_device(device)
    work = kind if kind.itemsize > 2 else np.dtype(np.float32)
    step = work.type(1 / (n * d) if n * d else np.inf)
    return made((counts.astype(work) * step).astype(kind), requires_grad)


def _length(name: str, n: Any) -> int:
    size = as_int(n)
    if size < 0:
        raise refusal(RuntimeError, f"{name}: Trying to create tensor with negative dimension {size}")
    check_room(name, (size,), np.dtype(np.float64))
    return size


@operation(samples=_frequency_samples, module="torch.fft", out="any")
def fftfreq(
    n: int, d: float = 1.0, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool | None = False,
) -> Any:
    """The frequency of each element that fft gives for a signal of length n, sampled every d: positive, then negative.

    >>> import pellucid as torch
    >>> torch.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    size = _length("fftfreq", n)
    counts = np.arange(size)
    counts[(size + 1) // 2 :] -= size
    return _scaled("fftfreq", counts, size, d, dtype, device, bool(requires_grad))


@operation(samples=_frequency_samples, module="torch.fft", out="any")
def rfftfreq(
    n: int, d: float = 1.0, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool | None = False,
) -> Any:
    """The frequency of each element that rfft gives for a signal of length n, sampled every d.

    >>> import pellucid as torch
    >>> torch.fft.rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])
    """
    size = _length("rfftfreq", n)
    return _scaled("rfftfreq", np.arange(size // 2 + 1), size, d, dtype, device, bool(requires_grad))
