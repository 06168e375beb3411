"""Windows in the torch namespace: hann_window and its kin, periodic unless told.

A window of n points is computed as PyTorch does it, step by step in its dtype (half precision in float32), so that
nearly every number is the same to the last bit. All take dtype, layout, device and requires_grad besides.
"""

from collections.abc import Callable
from math import pi
from operator import index as as_int
from typing import Any

import numpy as np
import scipy.special
from numpy import ndarray

from pellucid import dtypes
from pellucid.ops.arguments import refusal
from pellucid.ops.create import check_room, chosen, made
from pellucid.ops.operation import Draw, Sample, call, operation


def exactly(function: Callable[[ndarray], ndarray], a: ndarray) -> ndarray:
    """A function in float64, rounded to the precision of its argument."""
    return function(a.astype(np.float64)).astype(a.dtype)


def window(
    name: str, window_length: Any, periodic: bool, formula: Callable[[ndarray, int], ndarray], *, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """`formula(k, last)` for k = 0 ... last; a periodic window is one point longer, and that point is left out."""
    n, kind = as_int(window_length), chosen(dtype)
    if layout is dtypes.sparse_coo:
        raise refusal(RuntimeError, f"{name} is not implemented for sparse types")
    if kind.kind in "biuc":
        error = NotImplementedError if kind.kind == "c" else RuntimeError
        raise refusal(error, f"{name} expects floating point dtypes, got: {dtypes.from_numpy_dtype(kind)}")
    if n < 0:
        raise refusal(RuntimeError, f"{name} requires non-negative window_length, got window_length={n}")
    dtypes.check_device(device)
    check_room(name, (n,), kind)
    if n < 2:
        return made(np.ones(n, kind), requires_grad)
    last = n if periodic else n - 1
    places = np.arange(last + 1, dtype=kind if kind.itemsize > 2 else np.float32)
    return made(formula(places, last)[:n].astype(kind), requires_grad)


def _samples(draw: Draw) -> list[Sample]:
    return [
        call(0), call(1), call(6, dtype=dtypes.float64), call(7, False, dtype=dtypes.float64),
        call(5, periodic=True, dtype=dtypes.float64, requires_grad=True), call(2, dtype=dtypes.float64),
    ]  # fmt: skip


@operation(samples=_samples, methods=())
def hann_window(window_length: int, periodic: bool = True, **options: Any) -> Any:
    """One period of a cosine, raised so that it begins at 0.

    >>> import pellucid as torch
    >>> torch.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return window("hann_window", window_length, periodic, _raised_cosine(0.5, 0.5), **options)


@operation(samples=lambda draw: [*_samples(draw), call(6, True, 0.5, 0.4, dtype=dtypes.float64)], methods=())
def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, **options: Any
) -> Any:
    """alpha - beta cos: a raised cosine that does not quite begin at 0.

    >>> import pellucid as torch
    >>> torch.hamming_window(4)
    tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """
    return window("hamming_window", window_length, periodic, _raised_cosine(alpha, beta), **options)


def _raised_cosine(alpha: float, beta: float) -> Callable[[ndarray, int], ndarray]:
    return lambda k, last: exactly(np.cos, k * (2 * pi / last)) * -beta + alpha


@operation(samples=_samples, methods=())
def blackman_window(window_length: int, periodic: bool = True, **options: Any) -> Any:
    """A sum of two cosines, flatter at its ends than hann_window.

    >>> import pellucid as torch
    >>> torch.blackman_window(4, dtype=torch.float64)[1:]
    tensor([0.3400, 1.0000, 0.3400], dtype=torch.float64)
    """
    return window("blackman_window", window_length, periodic, _blackman, **options)


def _blackman(k: ndarray, last: int) -> ndarray:
    angle = k * (pi / last)
    return exactly(np.cos, angle * 4) * 0.08 - exactly(np.cos, angle * 2) * 0.5 + 0.42


@operation(samples=_samples, methods=())
def bartlett_window(window_length: int, periodic: bool = True, **options: Any) -> Any:
    """A triangle.

    >>> import pellucid as torch
    >>> torch.bartlett_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return window("bartlett_window", window_length, periodic, _triangle, **options)


def _triangle(k: ndarray, last: int) -> ndarray:
    rising = k * (2 / last)
    return np.where(k <= last // 2, rising, 2 - rising)


@operation(samples=lambda draw: [*_samples(draw), call(6, True, 3.5, dtype=dtypes.float64)], methods=())
def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, **options: Any) -> Any:
    """The Kaiser window: nearly the best concentration of energy around frequency 0; beta says how narrow it is.

    >>> import pellucid as torch
    >>> torch.kaiser_window(4, True, 3.0)
    tensor([0.2049, 0.7269, 1.0000, 0.7269])
    """

    def formula(k: ndarray, last: int) -> ndarray:
        distance = k * (2 / last) - 1
        height = np.sqrt(np.maximum(1 - distance * distance, 0)) * beta
        if beta > 80:  # i0 would overflow (in PyTorch the window is 0 and NaN); i0e is i0 without its exponential
            share = scipy.special.i0e(height) / scipy.special.i0e(beta) * np.exp(height - beta)
            return np.asarray(share, k.dtype)
        return exactly(scipy.special.i0, height) * (1 / scipy.special.i0(beta)).astype(k.dtype)

    return window("kaiser_window", window_length, periodic, formula, **options)
