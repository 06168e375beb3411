"""Kernels of activation functions: exponentials in few passes over memory.

In float32 NumPy's own expm1 and log1p and SciPy's erf take fifteen times as long as exp (65536 numbers: 1.3 to 1.7 ms
against 84 µs). Here one exp and a quotient of polynomials (fitted for the least relative error) do their work in
place; float64 goes through NumPy and SciPy.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ndarray
from numpy._core.umath import clip  # type: ignore[attr-defined]  # the ufunc: np.clip takes three times as long

from pellucid.native import native, words
from pellucid.native.words import Array
from pellucid.ops.elementwise import special
from pellucid.ops.nn.workers import in_parts
from pellucid.ops.select import where_row

F32 = np.dtype(np.float32)
SMALLEST = {np.dtype(kind): 2 * np.finfo(kind).tiny for kind in (np.float32, np.float64)}


def _constants(*values: float) -> tuple[ndarray, ...]:
    """Numbers as 0-d float32 arrays, which NumPy's ufuncs take faster than Python's numbers."""
    return tuple(np.asarray(value, F32) for value in values)


DENSITY = 1 / math.sqrt(2 * math.pi)  # of the normal distribution, at 0
SHARED = 1 << 17  # elements from which on several threads share the work
FAR = 15.0  # standard deviations: beyond, a share of the normal distribution is 0 in float32

# The share of the normal distribution beyond z is exp(-z²/2) times this quotient, to 4e-7 and to 0.04 % of itself.
BEYOND = _constants(1.0, 5.032858506, 10.379718071)
PER = _constants(2.495321688, 12.859432682, 26.630327835, 20.759419057)

# log(1 + e) for e from 0 to 1 is e - e² times this quotient, to 1e-9 of itself: the errors of the quotient count half.
LOG_ABOVE = _constants(0.954444524, 5.953953667, 6.604634737)
LOG_BELOW = _constants(1.0, 9.114211063, 20.714023095, 13.209271852)

# exp(x) - 1 for x from -0.35 to 0 is x times this polynomial, to 1e-8 of itself.
NEAR = _constants(0.007204962, 0.041327446, 0.166624329, 0.499998131, 0.999999987)


def polynomial(z: ndarray, coefficients: tuple[ndarray, ...], out: ndarray) -> ndarray:
    """Horner's scheme in place, highest power first; a leading 1 saves a pass."""
    lead, second, *rest = coefficients
    if lead == 1:
        np.add(z, second, out)
    else:
        np.add(np.multiply(z, lead, out), second, out)
    for coefficient in rest:
        out *= z
        out += coefficient
    return out


def between(a: ndarray, low: float, high: float, out: ndarray | None = None) -> ndarray:
    """a, but not below one bound nor above the other; NumPy's maximum and minimum take three times as long."""
    kind = a.dtype.type
    return clip(a, kind(low), kind(high), out)  # type: ignore[no-any-return]


def positive(a: ndarray, out: ndarray | None = None) -> ndarray:
    """The larger of a and 0."""
    return between(a, 0, np.inf, out)


def exp_below(a: ndarray) -> ndarray:
    """exp(-|a|), which never overflows."""
    e = np.abs(a, np.empty_like(a))
    np.negative(e, e)
    return np.exp(e, e)  # type: ignore[no-any-return]


def softened(a: ndarray) -> ndarray:
    """log(1 + exp(a)), without overflow: the positive part of a, plus log(1 + exp(-|a|))."""
    e = exp_below(a)
    if a.dtype != F32:
        np.log1p(e, e)
        e += positive(a)
        return e
    rest = polynomial(e, LOG_ABOVE, np.empty_like(a))
    below = polynomial(e, LOG_BELOW, np.empty_like(a))
    rest /= below
    rest *= e
    rest *= e
    e -= rest
    e += positive(a, below)
    return e


def expm1_below(a: ndarray) -> ndarray:
    """exp(a) - 1 for numbers that are not positive (what is, counts as 0)."""
    n = between(a, -np.inf, 0, np.empty_like(a))
    if a.dtype != F32:
        return np.expm1(n, n)  # type: ignore[no-any-return]
    far = np.exp(n, np.empty_like(a))
    far -= 1
    near = polynomial(n, NEAR, np.empty_like(a))
    near *= n
    return where_row(n > -0.35, near, far)  # type: ignore[no-any-return]


def beyond(z: float, e: float) -> float:
    """The share of the normal distribution beyond z, for e = exp(-z²/2)."""
    above = words.fused(z + 5.032858506, z, 10.379718071)
    below = words.fused(words.fused(2.495321688 * z + 12.859432682, z, 26.630327835), z, 20.759419057)
    return e * above / below


@native
def gelu_loop(first: int, last: int, a: Array, y: Array) -> None:
    """`gelu` in float32, element by element."""
    for i in range(first, last):
        x = a[i]
        z = words.smaller(words.size_of(x), FAR)
        y[i] = (x if x > 0.0 else 0.0) - z * beyond(z, words.exp(-0.5 * z * z))


@native
def gelu_back_loop(first: int, last: int, g: Array, a: Array, out: Array) -> None:
    """`gelu_slope` in float32, element by element."""
    for i in range(first, last):
        x = a[i]
        z = words.smaller(words.size_of(x), FAR)
        e = words.exp(-0.5 * z * z)
        tail = beyond(z, e)
        out[i] = g[i] * ((1.0 - tail if x > 0.0 else tail) + x * e * DENSITY)


def gelu(a: ndarray) -> ndarray:
    """a times the share of the normal distribution below it."""
    y = gelu_loop.mapped(a) if a.dtype is F32 else None
    return in_shares(_gelu, a) if y is None else y


def gelu_slope(g: ndarray, a: ndarray, y: ndarray) -> Any:
    """g times the share of the normal distribution below a, plus a times the density; y is `gelu(a)`."""
    pulled = gelu_back_loop.mapped(g, a) if a.dtype is F32 else None
    return times(in_shares(_gelu_slope, a, y), g) if pulled is None else pulled


def in_shares(work: Callable[..., None], *arrays: ndarray) -> ndarray:
    """An array that `work(*arrays, out)` fills: some passes over memory, 3 ns an element; threads share large ones."""
    a = arrays[0]
    out = np.empty_like(a)
    if a.size < SHARED or not a.flags.c_contiguous:
        work(*arrays, out)
    else:
        flat = [each.reshape(-1) for each in (*arrays, out)]
        in_parts(lambda part: work(*[each[part] for each in flat]), a.size, a.size * 3e-3)
    return out


def _gelu(a: ndarray, y: ndarray) -> None:
    if a.dtype != F32:
        np.multiply(between(a, -40, np.inf), special("ndtr")(a), y)
        return
    e = np.square(a, np.empty_like(a))
    e *= -0.5
    _gelu_of(a, np.abs(a, np.empty_like(a)), np.exp(e, e), y)


def _gelu_slope(a: ndarray, y: ndarray, slope: ndarray) -> None:
    density = np.square(a, slope)
    density *= -0.5
    np.exp(density, density)
    density *= a
    density *= DENSITY
    density += per(y, a, np.abs(a, np.empty_like(a)))


def _gelu_of(a: ndarray, size: ndarray, e: ndarray, y: ndarray) -> None:
    """The positive part of a, less |a| times the share beyond |a|, for e = exp(-a²/2)."""
    z = between(size, 0, FAR, np.empty_like(a))
    tail = np.divide(e, polynomial(z, PER, y), np.empty_like(a))
    tail *= polynomial(z, BEYOND, y)
    tail *= z
    np.subtract(positive(a, y), tail, y)


def per(y: ndarray, a: ndarray, size: ndarray) -> ndarray:
    """y / a for a function y = a * s(a) with s(0) = 1/2, such as gelu and silu: s itself, without its exponential.

    `size` is |a|, and its memory serves for the result.
    """
    least = np.minimum.reduce(size, None, initial=np.inf)
    small = None if least > SMALLEST[a.dtype] else size <= SMALLEST[a.dtype]  # there y may have been rounded to 0
    np.divide(y, a, size)
    if small is not None:
        np.copyto(size, 0.5, where=small)
    return size


def times(slope: ndarray, g: ndarray) -> Any:
    """A gradient through a slope; the slope's memory serves if the two have one shape."""
    if slope.shape == g.shape:
        slope *= g
        return slope
    return slope * g
