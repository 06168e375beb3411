"""Which elements interpolation takes, and with what weights: the maps of nearest, linear, cubic and smoothing filters.

Coordinates are computed in the precision of the tensor and rounded where PyTorch rounds them, so that the same
elements are taken. `scale` is the user's scale factor or None, `align` whether the corners are to coincide.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.ops.nn.separable import kind_of_map

F32 = np.dtype(np.float32)


def _ratio(n: int, m: int, align: bool, scale: float | None, dtype: np.dtype) -> Any:
    """How many input elements one output element stands for."""
    real = dtype.type
    if align:
        return real(n - 1) / real(m - 1) if m > 1 else real(0)
    return real(1.0 / scale) if scale is not None and scale > 0 else real(n) / real(m)


def _centres(n: int, m: int, align: bool, scale: float | None, dtype: np.dtype) -> ndarray:
    """Where each output element lies among the input elements."""
    ratio, half = _ratio(n, m, align, scale, dtype), dtype.type(0.5)
    number = np.arange(m).astype(dtype)
    return ratio * number if align else ratio * (number + half) - half  # type: ignore[no-any-return]


def _floor(x: ndarray) -> ndarray:
    return np.floor(x.astype(np.float32)).astype(np.int64)  # PyTorch's floorf rounds to single precision first


def _split(centres: ndarray, n: int) -> tuple[ndarray, ndarray]:
    """The element before each centre, and how far behind it the centre lies, between 0 and 1."""
    place = np.minimum(_floor(centres), n - 1)
    return place, np.clip(centres - place.astype(centres.dtype), 0, 1)


# PyTorch finds the nearest element in one way for pictures (two dimensions) and in another for the rest.


@kind_of_map("nearest")
def nearest(n: int, m: int, picture: bool, scale: float | None, char: str) -> tuple[ndarray, None]:
    """The element before each output element, as OpenCV has it."""
    if picture and m in (n, 2 * n):
        return np.arange(m)[None] // (m // n), None
    dtype = F32 if picture else np.dtype(char)
    place = _floor(_ratio(n, m, False, scale, dtype) * np.arange(m).astype(dtype))
    return np.minimum(place, n - 1)[None], None


@kind_of_map("nearest-exact")
def nearest_exact(n: int, m: int, picture: bool, scale: float | None, char: str) -> tuple[ndarray, None]:
    """The element nearest to the centre of each output element."""
    if picture:
        place = _floor((np.arange(m) + 0.5) * np.float64(_ratio(n, m, False, scale, F32)))
    else:
        centres = np.maximum(_centres(n, m, False, scale, np.dtype(char)), 0)
        place = _floor(centres.astype(np.float64) + 0.5)
    return np.minimum(place, n - 1)[None], None


@kind_of_map("linear")
def linear(n: int, m: int, align: bool, scale: float | None, char: str) -> tuple[ndarray, ndarray | None]:
    """The two neighbours of each output element."""
    if n == m:
        return np.arange(n)[None], None
    place, after = _split(np.maximum(_centres(n, m, align, scale, np.dtype(char)), 0), n)
    return np.stack([place, np.minimum(place + 1, n - 1)]), np.stack([1 - after, after])


def keys(x: ndarray, a: float) -> ndarray:
    """Keys' cubic kernel; `a` is its slope at 1.

    >>> keys(np.array([0.0, 1.0, 1.5]), -0.5)
    array([ 1.    ,  0.    , -0.0625])
    """
    x = np.abs(x)
    near, far = ((a + 2) * x - (a + 3)) * x * x + 1, ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


@kind_of_map("cubic")
def cubic(n: int, m: int, align: bool, scale: float | None, char: str) -> tuple[ndarray, ndarray]:
    """The four neighbours of each output element; beyond the edge the last element is repeated."""
    place, after = _split(_centres(n, m, align, scale, np.dtype(char)), n)
    offsets = np.arange(-1, 3)[:, None]
    return np.clip(place + offsets, 0, n - 1), keys(offsets - after, -0.75)


# --- filters that grow with the window, so that shrinking does not alias


def _triangle(x: ndarray) -> ndarray:
    return np.maximum(1 - np.abs(x), 0)


def _lanczos(x: ndarray) -> ndarray:
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0.0)


def _smoothing(name: str, width: int, kernel: Callable[[ndarray], ndarray]) -> None:
    """Name a map whose weights are a kernel, stretched over as many input elements as one output element covers."""

    def smooth(n: int, m: int, align: bool, scale: float | None, char: str) -> tuple[ndarray, ndarray]:
        dtype = np.dtype(char)
        ratio = _ratio(n, m, align, scale, dtype)
        support = dtype.type(width / 2) * max(ratio, dtype.type(1))
        centre = (ratio * (np.arange(m) + 0.5)).astype(dtype)[None]
        begin = np.maximum((centre - support + 0.5).astype(np.int64), 0)
        length = np.minimum((centre + support + 0.5).astype(np.int64), n) - begin
        length = np.clip(length, 0, math.ceil(support) * 2 + 1)
        number = np.arange(int(length.max(initial=1)))[:, None]
        weights = kernel((number + begin - centre + 0.5) * (1 / max(ratio, dtype.type(1))))
        weights = np.where(number < length, weights, 0.0)
        total = np.add.reduce(weights, 0)
        return np.where(number < length, begin + number, n), weights / np.where(total == 0, 1, total)

    kind_of_map(name)(smooth)


_smoothing("linear_aa", 2, _triangle)
_smoothing("cubic_aa", 4, lambda x: keys(x, -0.5))
_smoothing("lanczos_aa", 6, _lanczos)
