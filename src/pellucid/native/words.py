"""The words of kernels: what a loop may call on single numbers. They run as plain Python too, one number at a time.

The polynomials were fitted for the least relative error; each function says how far it is from the truth.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy import ndarray


class Array(ndarray):
    """Annotates a parameter of a kernel: a flat array of its floating type."""


class Indices(ndarray):
    """Annotates a parameter of a kernel: a flat array of int64."""


class Doubles(ndarray):
    """Annotates a parameter of a kernel: a flat array of float64, whatever its floating type."""


# --- words that the processor knows


def sqrt(x: float) -> float:
    """The square root."""
    return math.sqrt(x)


def floor(x: float) -> float:
    """The largest whole number that is not above x."""
    return float(math.floor(x))


def rounded(x: float) -> float:
    """The nearest whole number, the even one of two."""
    return float(round(x))


def size_of(x: float) -> float:
    """x without its sign."""
    return abs(x)


def log(x: float) -> float:
    """The natural logarithm, as the C library computes it: one number at a time."""
    return math.log(x)


def larger(x: float, y: float) -> float:
    """The larger of two numbers; NaN if one is."""
    return x if x != x or x > y else y


def smaller(x: float, y: float) -> float:
    """The smaller of two numbers; NaN if one is."""
    return x if x != x or x < y else y


def with_sign(x: float, y: float) -> float:
    """x with the sign of y."""
    return math.copysign(x, y)


def fused(a: float, b: float, c: float) -> float:
    """a * b + c, rounded once in machine code."""
    return a * b + c


def product(a: float, b: float) -> float:
    """a * b, rounded even if something is added to it: machine code may round a product and a sum only once."""
    return a * b


def wide(x: float) -> float:
    """x in double precision, and with it all that is computed from it until it is stored in an array."""
    return x


def power_of_two(whole: float) -> float:
    """2 to a whole power."""
    return math.ldexp(1.0, int(whole))


def least(x: int, y: int) -> int:
    """The smaller of two whole numbers."""
    return min(x, y)


def most(x: int, y: int) -> int:
    """The larger of two whole numbers."""
    return max(x, y)


def gemm(
    across_a: int, across_b: int, m: int, n: int, k: int, alpha: float,
    a: ndarray, a_begin: int, a_step: int, b: ndarray, b_begin: int, b_step: int,
    beta: float, c: ndarray, c_begin: int, c_step: int,
) -> None:  # fmt: skip
    """`c ← alpha a b + beta c` for matrices of m x k and k x n inside flat arrays: where each begins and how far apart
    its rows are; `across`: it is stored transposed. On one thread: products.py has it."""
    first = matrix_in(a, a_begin, a_step, (k, m) if across_a else (m, k))
    second = matrix_in(b, b_begin, b_step, (n, k) if across_b else (k, n))
    out = matrix_in(c, c_begin, c_step, (m, n))
    product = (first.T if across_a else first) @ (second.T if across_b else second)
    out[...] = alpha * product + (beta * out if beta else 0)


def matrix_in(flat: ndarray, begin: int, step: int, shape: tuple[int, int], along: int = 1) -> ndarray:
    """A matrix inside a flat array: where it begins, and how far apart its rows and the elements of a row are."""
    size = flat.itemsize
    return np.lib.stride_tricks.as_strided(flat.reshape(-1)[begin:], shape, (step * size, along * size))


# The LLVM intrinsic behind each; the compiler makes vectors of them. `power_of_two` is written out by the translator.
INTRINSICS: dict[Callable[..., float], str] = {
    sqrt: "sqrt", floor: "floor", rounded: "rint", size_of: "fabs", larger: "maximum", smaller: "minimum",
    with_sign: "copysign", fused: "fma", log: "log",
}  # fmt: skip

WHOLE: dict[Callable[..., int], str] = {least: "smin", most: "smax"}  # the same for words of whole numbers


class ByWidth:
    """A word with one definition for float32 and another for float64."""

    def __init__(self, single: Callable[..., float], double: Callable[..., float]) -> None:
        self.single, self.double = single, double

    def __call__(self, *numbers: float) -> float:
        """As plain Python computes, with float64."""
        return self.double(*numbers)


# --- words made of others

LOG2_E = 1.4426950408889634
LN2_HIGH_32, LN2_LOW_32 = 0.693359375, -2.12194440e-4  # their sum is log 2; the first has few digits
LN2_HIGH_64, LN2_LOW_64 = 0.6931471803691238, 1.9082149292705877e-10


def exp_32(x: float) -> float:
    """e to the x, within 1 unit in the last place: 2^n times a polynomial of what n leaves."""
    bounded = -104.0 if x < -104.0 else (89.0 if x > 89.0 else x)
    n = rounded(bounded * LOG2_E)
    r = fused(n, -LN2_LOW_32, fused(n, -LN2_HIGH_32, bounded))
    p = fused(fused(1.3814611e-3, r, 8.368710035e-3), r, 4.1668387409e-2)
    p = fused(fused(p, r, 0.166665206876), r, 0.499999934515)
    half = rounded(n * 0.5)  # 2^n may be too large or too small for a float, its root is not
    return fused(p * r, r, r + 1.0) * power_of_two(half) * power_of_two(n - half)


def exp_64(x: float) -> float:
    """e to the x, within 1 unit in the last place; the polynomial is Taylor's."""
    bounded = -746.0 if x < -746.0 else (710.0 if x > 710.0 else x)
    n = rounded(bounded * LOG2_E)
    r = fused(n, -LN2_LOW_64, fused(n, -LN2_HIGH_64, bounded))
    p = fused(1.6059043836821613e-10, r, 2.08767569878681e-9)
    p = fused(fused(p, r, 2.505210838544172e-8), r, 2.755731922398589e-7)
    p = fused(fused(p, r, 2.7557319223985893e-6), r, 2.48015873015873e-5)
    p = fused(fused(p, r, 1.984126984126984e-4), r, 1.388888888888889e-3)
    p = fused(fused(p, r, 8.333333333333333e-3), r, 4.1666666666666664e-2)
    p = fused(fused(p, r, 0.16666666666666666), r, 0.5)
    half = rounded(n * 0.5)
    return fused(p * r, r, r + 1.0) * power_of_two(half) * power_of_two(n - half)


exp = ByWidth(exp_32, exp_64)


def sigmoid(x: float) -> float:
    """1 / (1 + e to the -x), within 2 units in the last place."""
    return 1.0 / (1.0 + exp(-x))


def tanh_32(x: float) -> float:
    """The hyperbolic tangent of a float32, within 2 units in the last place: a polynomial near 0, else by exp."""
    size = size_of(x)
    z = x * x
    q = fused(fused(-5.717036599e-3, z, 2.0650579041e-2), z, -5.3743495275e-2)
    q = fused(fused(q, z, 0.133314912487), z, -0.333332839236)
    near = fused(x * z, q, x)
    far = with_sign(1.0 - 2.0 / (exp_32(2.0 * size) + 1.0), x)
    return near if size < 0.625 else far
