"""torch.fft: the Fourier transforms by their public names, along one dimension, two or any number.

fft and ifft take and give complex numbers. rfft takes real numbers and gives half of their spectrum (the rest is its
conjugate), irfft goes back. hfft and ihfft are the same pair with the roles of signal and spectrum exchanged.
"""

from collections.abc import Sequence
from operator import index as as_int
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.ops.arguments import Axes, Row, Shape, axis_of, name_of, refusal
from pellucid.ops.complex_numbers import conj_row
from pellucid.ops.convert import as_type
from pellucid.ops.fft.transforms import (
    OPPOSITE,
    fft_c2c_row,
    fft_c2r_row,
    fft_r2c_row,
    fft_real_row,
    fftn_real_row,
    fit_row,
)
from pellucid.ops.operation import Draw, Function, Sample, call, publish

# --- what the transforms take


def _norm(norm: str | None) -> str:
    found = "backward" if norm is None else norm
    if found not in OPPOSITE:
        raise refusal(
            RuntimeError, f'Invalid normalization mode: "{norm}"', try_='"backward" (the default), "ortho" or "forward"'
        )
    return found


def _floating(input: Any) -> Any:
    """Integers become numbers of the default dtype; half precision has no transform."""
    if input.array.dtype.kind in "biu":
        return as_type(input, dtypes.default_float())
    if input.array.dtype.itemsize == 2:
        raise refusal(RuntimeError, f"Unsupported dtype {name_of(input)}", try_="x.float()")
    return input


def _complex(input: Any) -> Any:
    signal = _floating(input)
    return signal if _is_complex(signal) else as_type(signal, np.result_type(signal.array.dtype, np.complex64))


def _real(input: Any, name: str) -> Any:
    if _is_complex(input):
        raise refusal(RuntimeError, f"{name} expects a real input tensor, but got {name_of(input)}", try_="take .real")
    return _floating(input)


def _is_complex(input: Any) -> bool:
    return bool(input.array.dtype.kind == "c")


def _check_sizes(sizes: Sequence[int]) -> None:
    for n in sizes:
        if n < 1:
            raise refusal(RuntimeError, f"Invalid number of data points ({n}) specified")


def _line(input: Any, n: Any, dim: Any) -> tuple[Axes, Shape]:
    """The dimension and the size of a transform along one dimension."""
    if not input.ndim:
        raise refusal(IndexError, f"Dimension specified as {dim} but tensor has no dimensions")
    axis = axis_of(dim, input.ndim)
    return (axis,), (input.shape[axis] if n is None else as_int(n),)


def _block(input: Any, s: Any, dim: Any) -> tuple[Axes, Shape]:
    """The dimensions and sizes of a transform along several: those named, or the last, or all."""
    dims = None if dim is None else _several(dim)
    if dims and not input.ndim:
        raise refusal(IndexError, f"Dimension specified as {dims[0]} but tensor has no dimensions")
    axes = None if dims is None else tuple(axis_of(d, input.ndim) for d in dims)
    if axes is not None and len(set(axes)) < len(axes):
        raise refusal(RuntimeError, "FFT dims must be unique")
    if s is None:
        axes = tuple(range(input.ndim)) if axes is None else axes
        return axes, tuple(input.shape[axis] for axis in axes)
    sizes = _several(s)
    if axes is None:
        if len(sizes) > input.ndim:
            what = f"Got shape with {len(sizes)} values but input tensor only has {input.ndim} dimensions."
            raise refusal(RuntimeError, what)
        axes = tuple(range(input.ndim - len(sizes), input.ndim))
    if len(sizes) != len(axes):
        raise refusal(RuntimeError, "When given, dim and shape arguments must have the same length")
    return axes, tuple(input.shape[axis] if n == -1 else n for n, axis in zip(sizes, axes, strict=True))


def _several(values: Any) -> tuple[int, ...]:
    return tuple(map(as_int, values)) if isinstance(values, (tuple, list)) else (as_int(values),)


def _fitted(input: Any, axes: Axes, sizes: Shape) -> Any:
    shape = list(input.shape)
    for axis, n in zip(axes, sizes, strict=True):
        shape[axis] = n
    return input if tuple(input.shape) == tuple(shape) else fit_row(input, tuple(shape))


# --- the four kinds of transform, over dimensions and sizes already known


def _whole(input: Any, axes: Axes, sizes: Shape, norm: str | None, inverse: bool, of_real: Row = fft_real_row) -> Any:
    """All frequencies; `of_real` is the row for real numbers."""
    _check_sizes(sizes)
    mode, signal = _norm(norm), _fitted(_floating(input), axes, sizes)
    return (fft_c2c_row if _is_complex(signal) else of_real)(signal, axes, mode, inverse)


def _half(name: str, input: Any, axes: Axes, sizes: Shape, norm: str | None) -> Any:
    signal = _real(input, name)
    _at_least_one(name, axes)
    _check_sizes(sizes)
    return fft_r2c_row(_fitted(signal, axes, sizes), axes, _norm(norm))


def _half_conjugate(name: str, input: Any, axes: Axes, sizes: Shape, norm: str | None) -> Any:
    """The inverse transform of a real signal: the conjugate of the forward one, scaled the other way."""
    opposite = OPPOSITE[_norm(norm)]
    last = conj_row(_half(name, input, axes[-1:], sizes[-1:], opposite))
    if len(axes) < 2:
        return last
    _check_sizes(sizes[:-1])
    return fft_c2c_row(_fitted(last, axes[:-1], sizes[:-1]), axes[:-1], _norm(norm), True)


def _back(name: str, input: Any, axes: Axes, sizes: Shape, given: bool, norm: str) -> Any:
    """From half a spectrum to the real signal, whose last size is even unless it was `given`."""
    _at_least_one(name, axes)
    n = sizes[-1] if given else 2 * (sizes[-1] - 1)
    _check_sizes((*sizes[:-1], n))
    return fft_c2r_row(_fitted(_complex(input), axes, (*sizes[:-1], n // 2 + 1)), axes, norm, n)


def _at_least_one(name: str, axes: Axes) -> None:
    if not axes:
        raise refusal(RuntimeError, f"{name} must transform at least one axis")


# --- along one dimension


def fft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The discrete Fourier transform along one dimension.

    >>> import pellucid as torch
    >>> torch.fft.fft(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j])
    """
    return _whole(input, *_line(input, n, dim), norm, False)


def ifft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The inverse Fourier transform along one dimension.

    >>> import pellucid as torch
    >>> torch.fft.ifft(torch.tensor([10 + 0j, -2 + 2j, -2 + 0j, -2 - 2j]))
    tensor([1.+0.j, 2.+0.j, 3.+0.j, 4.+0.j])
    """
    return _whole(input, *_line(input, n, dim), norm, True)


def rfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The Fourier transform of a real signal: the frequencies 0 to n // 2, the rest being their conjugates.

    >>> import pellucid as torch
    >>> torch.fft.rfft(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([10.+0.j, -2.+2.j, -2.+0.j])
    """
    return _half("rfft", input, *_line(input, n, dim), norm)


def irfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The real signal of length n (an even one unless told) with this half of a spectrum: the inverse of rfft.

    >>> import pellucid as torch
    >>> torch.fft.irfft(torch.tensor([10 + 0j, -2 + 2j, -2 + 0j]))
    tensor([1., 2., 3., 4.])
    """
    return _back("irfft", input, *_line(input, n, dim), n is not None, _norm(norm))


def hfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The real spectrum, of length n, of a signal of which one half is given, the other being its conjugate.

    >>> import pellucid as torch
    >>> torch.fft.hfft(torch.tensor([2.5 + 0j, -0.5 - 0.5j, -0.5 + 0j]))
    tensor([1., 2., 3., 4.])
    """
    return _back("hfft", conj_row(_complex(input)), *_line(input, n, dim), n is not None, OPPOSITE[_norm(norm)])


def ihfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """One half of the signal that has this real spectrum: the inverse of hfft.

    >>> import pellucid as torch
    >>> torch.fft.ihfft(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([ 2.5000-0.0000j, -0.5000-0.5000j, -0.5000-0.0000j])
    """
    return _half_conjugate("ihfft", input, *_line(input, n, dim), norm)


# --- along any number of dimensions


def fftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """The Fourier transform along several dimensions: those named, or as many as sizes are given, or all.

    >>> import pellucid as torch
    >>> torch.fft.fftn(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[10.+0.j, -2.+0.j],
            [-4.+0.j,  0.+0.j]])
    """
    return _whole(input, *_block(input, s, dim), norm, False, fftn_real_row)


def ifftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """The inverse Fourier transform along several dimensions.

    >>> import pellucid as torch
    >>> torch.fft.ifftn(torch.tensor([[10 + 0j, -2], [-4, 0]]))
    tensor([[1.+0.j, 2.+0.j],
            [3.+0.j, 4.+0.j]])
    """
    return _whole(input, *_block(input, s, dim), norm, True, fftn_real_row)


def rfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """The Fourier transform of a real signal along several dimensions; the last of them keeps one half.

    >>> import pellucid as torch
    >>> torch.fft.rfftn(torch.ones(2, 4))
    tensor([[8.+0.j, 0.+0.j, 0.+0.j],
            [0.+0.j, 0.+0.j, 0.+0.j]])
    """
    return _half("rfftn", input, *_block(input, s, dim), norm)


def irfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """The inverse of rfftn: a real signal.

    >>> import pellucid as torch
    >>> torch.fft.irfftn(torch.fft.rfftn(torch.ones(2, 4)))
    tensor([[1., 1., 1., 1.],
            [1., 1., 1., 1.]])
    """
    return _back("irfftn", input, *_block(input, s, dim), _given(s), _norm(norm))


def hfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """The real spectrum along several dimensions of a signal of which one half is given.

    >>> import pellucid as torch
    >>> torch.fft.hfftn(torch.tensor([[1 + 0j, 0, 0], [0, 0, 0]]))
    tensor([[1., 1., 1., 1.],
            [1., 1., 1., 1.]])
    """
    return _back("hfftn", conj_row(_complex(input)), *_block(input, s, dim), _given(s), OPPOSITE[_norm(norm)])


def ihfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """One half of the signal that has this real spectrum along several dimensions: the inverse of hfftn.

    >>> import pellucid as torch
    >>> torch.fft.ihfftn(torch.ones(2, 4)).real
    tensor([[1., 0., 0.],
            [0., 0., 0.]])
    """
    axes, sizes = _block(input, s, dim)
    _at_least_one("ihfftn", axes)
    return _half_conjugate("ihfftn", input, axes, sizes, norm)


def _given(s: Any) -> bool:
    """Whether the caller said how long the last dimension of the result is."""
    return s is not None and _several(s)[-1:] != (-1,)


# --- their samples and two-dimensional forms


def _drawing(name: str, draw: Draw) -> list[Any]:
    """Two ways to draw an input: complex numbers for the transforms that take them, and real ones."""
    return [draw if name in ("rfft", "ihfft") else draw.complex, draw]


def _line_samples(name: str) -> Any:
    def samples(draw: Draw) -> list[Sample]:
        first, second = _drawing(name, draw)
        return [
            call(first(5)), call(second(6)), call(first(3, 4)), call(second(3, 4), dim=0), call(first(2, 5), 3),
            call(second(5), n=8), call(first(4, 2), None, 0, "ortho"), call(second(5), norm="forward"),
            call(first(2, 3, 2), 4, 1, "backward"), call(second(2, 2), 1),
        ]  # fmt: skip

    return samples


def _block_samples(name: str) -> Any:
    def samples(draw: Draw) -> list[Sample]:
        first, second = _drawing(name, draw)
        return [
            call(first(3, 4)), call(second(2, 5)), call(first(2, 3, 4)), call(second(3, 2, 4), dim=(0, 2)),
            call(first(3, 4), (2, 6)), call(second(2, 3, 4), s=(-1, 5), dim=(1, -1)), call(first(3, 3), norm="ortho"),
            call(second(3, 4), None, (1, 0), "forward"),
        ]  # fmt: skip

    return samples


def _two_dimensional(name: str, function: Function) -> Function:
    def transform(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Any:
        return function(input, s, dim, norm)

    last = {"rfft": 3, "ihfft": 3, "irfft": 6, "hfft": 6}.get(name, 4)
    transform.__name__ = transform.__qualname__ = f"{name}2"
    transform.__doc__ = f"""`{name}n` along two dimensions, the last two unless told.

    >>> import pellucid as torch
    >>> torch.fft.{name}2(torch.ones(3, 2, 4)).shape
    torch.Size([3, 2, {last}])
    """
    return transform


for _name, _function, _several_dims in (
    ("fft", fft, fftn), ("ifft", ifft, ifftn), ("rfft", rfft, rfftn), ("irfft", irfft, irfftn), ("hfft", hfft, hfftn),
    ("ihfft", ihfft, ihfftn),
):  # fmt: skip
    _rule = "real" if _name in ("irfft", "hfft") else "cast"
    publish(_function, samples=_line_samples(_name), module="torch.fft", out=_rule)
    for _form in (_several_dims, _two_dimensional(_name, _several_dims)):
        publish(_form, samples=_block_samples(_name), module="torch.fft", out=_rule)
