"""Elementwise mathematics: exponentials, logarithms, circular and hyperbolic functions, the special functions.

In a rule `g` is the gradient of the result, `y` the result, `a` and `b` the inputs. The special functions come from
SciPy, which is imported when one is first computed: importing it takes longer than importing all of Pellucid.
"""

import math
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np

from pellucid.core.careful import IN_HALVES, rounded
from pellucid.core.primitive import elementwise
from pellucid.core.record import attach, bind
from pellucid.native import native, words
from pellucid.native.words import Array
from pellucid.ops.arguments import as_number, number
from pellucid.ops.compare import in_single, only, pairs
from pellucid.ops.operation import Draw, Sample, binary, call, named, operation, unary, unary_samples
from pellucid.ops.select import drop, keep, kind_of, where_row
from pellucid.ops.shape import zeros_like_row

F32 = np.dtype(np.float32)
LN2, LN10 = math.log(2), math.log(10)
ROOT_PI = math.sqrt(math.pi)

# --- exponentials and logarithms

exp = unary(
    "exp", np.exp, lambda g, y: g * y, lower="llvm.exp",
    doc="""e to the power of each element.

    >>> import pellucid as torch
    >>> torch.exp(torch.tensor([0.0, 1.0]))
    tensor([1.0000, 2.7183])
    """,
)  # fmt: skip
exp2 = unary("exp2", np.exp2, lambda g, y: g * (y * LN2), lower="llvm.exp2", aliases=("torch.special.exp2",),
             doc="2 to the power of each element.")  # fmt: skip
expm1 = unary("expm1", np.expm1, lambda g, y: g * (y + 1), aliases=("torch.special.expm1",),
              doc="e to the power of each element, minus 1, exact near 0.")  # fmt: skip
log = unary("log", np.log, lambda g, a: g / a, lower="llvm.log", domain=(0.2, 3.0), doc="Natural logarithm.")
log2 = unary("log2", np.log2, lambda g, a: g / (a * LN2), lower="llvm.log2", domain=(0.2, 3.0),
             doc="Logarithm to the base 2.")  # fmt: skip
log10 = unary("log10", np.log10, lambda g, a: g / (a * LN10), lower="llvm.log10", domain=(0.2, 3.0),
              doc="Logarithm to the base 10.")  # fmt: skip


def _log1p(a: np.ndarray) -> Any:
    """log(1 + a); of complex numbers near 0 NumPy's loses the real part."""
    if a.dtype.kind != "c":
        return np.log1p(a)
    x, y = a.real, a.imag
    beyond = x * (2 + x) + y * y  # |1 + a|² - 1
    near = np.where(beyond == 0, x, np.log1p(beyond) / 2)
    size = np.where(np.hypot(x, y) < 0.5, near, np.log(np.hypot(1 + x, y)))
    found = np.empty_like(a)
    found.real, found.imag = size, np.arctan2(y, 1 + x)
    return found


log1p = unary("log1p", _log1p, lambda g, a: g / (a + 1), domain=(-0.8, 3.0), grad_name="Log1PBackward0",
              aliases=("torch.special.log1p",),
              doc="Natural logarithm of 1 plus each element, exact near 0.")  # fmt: skip
sqrt = unary("sqrt", np.sqrt, lambda g, y: g / (2 * y), lower="llvm.sqrt", domain=(0.2, 3.0), doc="Square root.")
rsqrt = unary("rsqrt", lambda a: np.reciprocal(np.sqrt(a)), lambda g, y: -0.5 * g * (y * y * y), domain=(0.2, 3.0),
              doc="1 divided by the square root.")  # fmt: skip

# --- circular functions

sin = unary("sin", np.sin, lambda g, a: g * cos(a), lower="llvm.sin", doc="Sine.")
cos = unary("cos", np.cos, lambda g, a: -g * sin(a), lower="llvm.cos", doc="Cosine.")
tan = unary("tan", np.tan, lambda g, y: g * (1 + y * y), domain=(-1.2, 1.2), doc="Tangent.")
asin = unary("asin", np.arcsin, lambda g, a: g / sqrt(1 - a * a), domain=(-0.9, 0.9), aliases=("arcsin",),
             doc="Inverse sine.")  # fmt: skip
acos = unary("acos", np.arccos, lambda g, a: -g / sqrt(1 - a * a), domain=(-0.9, 0.9), aliases=("arccos",),
             doc="Inverse cosine.")  # fmt: skip
atan = unary("atan", np.arctan, lambda g, a: g / (a * a + 1), aliases=("arctan",), doc="Inverse tangent.")
atan2 = binary(
    "atan2", np.arctan2, lambda g, a, b: g * (b / _squares(a, b)), lambda g, a, b: g * (-a / _squares(a, b)),
    dtypes="float", aliases=("arctan2",), samples=pairs,
    tensors=2, doc="""The angle of the point (other, input), from -π to π.

    >>> import pellucid as torch
    >>> torch.atan2(torch.tensor([1.0]), torch.tensor([-1.0]))
    tensor([2.3562])
    """,
)  # fmt: skip


def _squares(a: Any, b: Any) -> Any:
    """a² + b², and 1 where both are 0: there the gradient is 0, not NaN."""
    total = a * a + b * b
    return total + (total == 0)


def _sinc(a: np.ndarray) -> np.ndarray:
    x = a * math.pi
    flat = x == 0
    return (np.sin(x) + flat) / (x + flat)  # type: ignore[no-any-return]


sinc = unary("sinc", _sinc, lambda g, a: _sinc_rule(g, a * math.pi), aliases=("torch.special.sinc",),
             doc="sin(πx) / (πx), and 1 at 0.")  # fmt: skip


def _sinc_rule(g: Any, x: Any) -> Any:
    square = x * x
    flat = square == 0  # also where it underflows
    return drop(g * (math.pi * (cos(x) * x - sin(x)) / (square + flat)), flat)


deg2rad = unary("deg2rad", lambda a: a * (math.pi / 180), lambda g: g * (math.pi / 180), domain=(-180.0, 180.0),
                grad_name="Deg2RadBackward0", doc="Degrees as radians.")  # fmt: skip
rad2deg = unary("rad2deg", lambda a: a * (180 / math.pi), lambda g: g * (180 / math.pi),
                grad_name="Rad2DegBackward0", doc="Radians as degrees.")  # fmt: skip

# --- hyperbolic functions

sinh = unary("sinh", np.sinh, lambda g, a: g * cosh(a), doc="Hyperbolic sine.")
cosh = unary("cosh", np.cosh, lambda g, a: g * sinh(a), doc="Hyperbolic cosine.")


@native
def tanh_loop(first: int, last: int, a: Array, y: Array) -> None:
    """The hyperbolic tangent, in float32."""
    for i in range(first, last):
        y[i] = words.tanh_32(a[i])


def _tanh(a: np.ndarray) -> np.ndarray:
    y = tanh_loop.mapped(a) if a.dtype is F32 else None
    return np.tanh(a) if y is None else y


tanh = unary("tanh", _tanh, lambda g, y: g * (1 - y * y), lower="llvm.tanh",
             aliases=("torch.nn.functional.tanh",), doc="Hyperbolic tangent.")  # fmt: skip
asinh = unary("asinh", np.arcsinh, lambda g, a: g / sqrt(a * a + 1), aliases=("arcsinh",),
              doc="Inverse hyperbolic sine.")  # fmt: skip
acosh = unary("acosh", np.arccosh, lambda g, a: g / _hyperbola(a), domain=(1.2, 3.0),
              aliases=("arccosh",), doc="Inverse hyperbolic cosine.")  # fmt: skip


def _hyperbola(a: Any) -> Any:
    """sqrt(a² - 1): of complex numbers the root on the right branch; left of -1 PyTorch's gradient is a number."""
    return sqrt(a - 1) * sqrt(a + 1) if kind_of(a) == "c" else sqrt(a * a - 1)


atanh = unary("atanh", np.arctanh, lambda g, a: g / (1 - a * a), domain=(-0.9, 0.9), aliases=("arctanh",),
              doc="Inverse hyperbolic tangent.")  # fmt: skip


@native
def sigmoid_loop(first: int, last: int, a: Array, y: Array) -> None:
    """1 / (1 + exp(-a))."""
    for i in range(first, last):
        y[i] = words.sigmoid(a[i])


def _sigmoid(a: np.ndarray) -> np.ndarray:
    """Far to the left exp overflows to infinity, whose reciprocal is the right 0."""
    y = sigmoid_loop.mapped(a)
    if y is not None:
        return y  # type: ignore[no-any-return]
    t = np.exp(np.negative(a))
    t += 1  # in place, unless a is 0-d and t a NumPy scalar
    return np.reciprocal(t)


sigmoid = unary(
    "sigmoid", _sigmoid, lambda g, y: g * (y * (1 - y)), lower="sigmoid",
    aliases=("torch.special.expit", "torch.nn.functional.sigmoid"),
    doc="""1 / (1 + exp(-x)): every number squeezed between 0 and 1.

    >>> import pellucid as torch
    >>> torch.sigmoid(torch.tensor([-1000.0, 0.0, 1.0]))
    tensor([0.0000, 0.5000, 0.7311])
    """,
)  # fmt: skip


def _logit(a: np.ndarray, eps: float | None) -> np.ndarray:
    if eps is not None:
        a = np.minimum(np.maximum(a, eps), 1 - eps)
    return np.log(a / (1 - a))


def _logit_rule(g: Any, a: Any, eps: float | None) -> Any:
    slope = g / (a * (1 - a) + 0.0)  # -0.0 + 0.0 is 0.0: the slope at -0.0 is that at 0.0
    if eps is not None:
        return keep(slope, (a >= eps) & (a <= 1 - eps))
    return where_row((a >= 0) & (a <= 1), slope, zeros_like_row(slope) * math.nan)


_logit_row = bind(elementwise("logit", _logit, _logit_rule))


def _logit_of_half(half: np.dtype, a: np.ndarray, eps: float | None) -> np.ndarray:
    """In half precision PyTorch rounds after every step."""
    if eps is not None:
        a = np.minimum(np.maximum(a, rounded(np.float32(eps), half)), rounded(1 - np.float32(eps), half))
    return np.log(rounded(a / rounded(1 - a, half), half))


IN_HALVES["logit"] = _logit_of_half


def _logits(draw: Draw) -> Iterable[Sample]:
    yield from unary_samples(draw)
    yield call(draw(2, 3), 0.3)
    yield call(draw(2, 3), eps=0.01)


@operation(samples=_logits, domain=(0.05, 0.95), inplace=True, aliases=("torch.special.logit",))
def logit(input: Any, eps: float | None = None) -> Any:
    """log(x / (1 - x)), the inverse of sigmoid; with `eps`, x is first brought between eps and 1 - eps.

    >>> import pellucid as torch
    >>> torch.logit(torch.tensor([0.5, 0.75]))
    tensor([0.0000, 1.0986])
    """
    return _logit_row(input, number(eps))


# --- functions of two numbers

hypot = binary("hypot", only("f", np.hypot), lambda g, y, a: g * (a / y), lambda g, y, b: g * (b / y), samples=pairs,
               tensors=2, doc="The long side of a right triangle: sqrt(input² + other²).")  # fmt: skip


def _copysign_rule(g: Any, y: Any, a: Any) -> Any:
    """1 or -1: whether the sign was changed; 0 at 0."""
    flat = a == 0
    return drop(g * (y / (a + flat)), flat)


copysign = binary("copysign", np.copysign, _copysign_rule, lambda g: zeros_like_row(g), dtypes="float",
                  tensors=1, doc="The size of each element with the sign of the other.")  # fmt: skip


def logaddexp_of(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """NumPy's, and for complex numbers the same from the one with the larger real part."""
    if a.dtype.kind != "c":
        return np.logaddexp(a, b)  # type: ignore[no-any-return]
    larger = a.real >= b.real
    high, low = np.where(larger, a, b), np.where(larger, b, a)
    return np.where(high.real == -np.inf, high, high + _log1p(np.exp(low - high)))


logaddexp = binary(
    "logaddexp", only("fc", logaddexp_of), lambda g, a, b: g * sigmoid(a - b), lambda g, a, b: g * sigmoid(b - a),
    samples=pairs, inplace=False, tensors=2, doc="log(exp(input) + exp(other)), without overflow.",
)  # fmt: skip
logaddexp2 = binary(
    "logaddexp2", only("f", np.logaddexp2),
    lambda g, a, b: g * sigmoid((a - b) * LN2), lambda g, a, b: g * sigmoid((b - a) * LN2),
    samples=pairs, inplace=False, tensors=2, doc="log2(2 ** input + 2 ** other), without overflow.",
)  # fmt: skip


def _xlogy(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where((a == 0) & ~np.isnan(b), np.zeros((), a.dtype), a * np.log(b))


def product_with_log(half: np.dtype, a: np.ndarray, b: np.ndarray, log: Any = np.log) -> np.ndarray:
    """a log(b) as PyTorch has it in half precision: the logarithm is rounded before it is multiplied."""
    return np.where((a == 0) & ~np.isnan(b), np.zeros((), a.dtype), a * rounded(log(b), half))


IN_HALVES["xlogy"] = product_with_log
xlogy = binary(
    "xlogy", _xlogy,
    lambda g, a, b: drop(g * log(b), (a == 0) & (b <= 0)), lambda g, a, b: g * (a / b),
    dtypes="float", domain=(0.2, 3.0), aliases=("torch.special.xlogy",),
    doc="""input * log(other), and 0 where input is 0.

    >>> import pellucid as torch
    >>> torch.xlogy(torch.tensor([0.0, 2.0]), torch.tensor([0.0, 1.0]))
    tensor([0., 0.])
    """,
)  # fmt: skip

ldexp = binary(
    "ldexp", lambda a, b: a * np.exp2(b), lambda g, b: g * exp2(b), lambda g, y: g * (y * LN2), dtypes="float",
    samples=lambda draw: [
        call(draw(2, 3), draw.integers(2, 3)), call(draw(3), draw.integers(2, 3)), call(draw(), draw.integers(4)),
        call(draw(2, 3), draw(3)), call(draw(0), draw.integers(0)), call(draw(2, 1), draw.integers(1, 3)),
        call(draw(), draw()), call(draw(2, 3), draw.integers()), call(draw(2, 0), draw(0)),
        call(draw(3, 2).mT, draw(2, 3)),
    ],
    tensors=2, doc="`input * 2 ** other`.",
)  # fmt: skip

# --- special functions


@cache
def special(name: str) -> Callable[..., Any]:
    """A function of scipy.special, imported when first needed."""
    import scipy.special

    function: Callable[..., Any] = getattr(scipy.special, name)
    return function


erf = unary("erf", lambda a: special("erf")(a), lambda g, a: g * (2 / ROOT_PI * exp(-a * a)),
            aliases=("torch.special.erf",),
            doc="The error function: 2/√π times the integral of exp(-t²) from 0 to x.")  # fmt: skip
erfc = unary("erfc", lambda a: special("erfc")(a), lambda g, a: -g * (2 / ROOT_PI * exp(-a * a)),
             aliases=("torch.special.erfc",), doc="1 minus the error function, exact where that is small.")  # fmt: skip
erfinv = unary("erfinv", lambda a: special("erfinv")(a), lambda g, y: g * (ROOT_PI / 2 * exp(y * y)),
               domain=(-0.9, 0.9), aliases=("torch.special.erfinv",), doc="Inverse error function.")  # fmt: skip


def _lgamma(a: np.ndarray) -> Any:
    """SciPy's is -inf at -inf, and overflows next to 0, where the function is -log |a|."""
    y = np.where(np.abs(a) < np.finfo(a.dtype).tiny, -np.log(np.abs(a)), special("gammaln")(a))
    return np.where(a == -math.inf, a.dtype.type(math.inf), y)


lgamma = unary("lgamma", in_single(_lgamma), lambda g, a: g * digamma(a), domain=(0.3, 4.0),
               aliases=("torch.special.gammaln",),
               doc="Logarithm of the absolute value of the gamma function.")  # fmt: skip


def _digamma(a: np.ndarray) -> np.ndarray:
    """PyTorch's values at the poles: NaN at negative whole numbers, an infinity of the other sign at 0."""
    y = special("psi")(a)
    y = np.where((a < 0) & (a == np.trunc(a)), np.nan, y)
    return np.where(a == 0, np.copysign(np.inf, -a), y).astype(a.dtype, copy=False)


TRIGAMMA = "PyTorch's trigamma is right to 1e-9 only; finite differences and SciPy agree with ours"
digamma = unary("digamma", _digamma, lambda g, a: g * polygamma_row(a, 1), domain=(0.3, 4.0),
                unclaimed={"gradient_equals_torch": TRIGAMMA},
                aliases=("torch.special.digamma", "torch.special.psi"), doc="Derivative of lgamma.")  # fmt: skip


def _polygamma(a: np.ndarray, n: int) -> np.ndarray:
    if n == 0:
        return _digamma(a)
    scale = (-1.0) ** (n + 1) * math.factorial(n)
    return (scale * special("zeta")(n + 1.0, a.astype(np.float64))).astype(a.dtype)


polygamma_row = bind(elementwise("polygamma", _polygamma, lambda g, a, n: g * polygamma_row(a, n + 1)))


@operation(
    samples=lambda draw: [
        call(1, draw(2, 3)), call(2, draw(5)), call(0, draw(3)), call(3, draw()), call(1, draw(0)), call(1, draw(2, 1)),
        call(2, draw(2, 0)), call(1, draw(3, 2).mT), call(4, draw(2)), call(0, draw()),
    ],
    domain=(0.5, 4.0),
    methods=(), aliases=("torch.special.polygamma",),
    unclaimed=dict.fromkeys(("forward_equals_torch", "gradient_equals_torch"), TRIGAMMA),
)  # fmt: skip
def polygamma(n: int, input: Any) -> Any:
    """The n-th derivative of digamma."""
    return polygamma_row(input, as_number(n))


def _polygamma_method(self: Any, n: int) -> Any:
    """The n-th derivative of digamma."""
    return polygamma(n, self)


attach("polygamma", named(_polygamma_method, "polygamma"))
