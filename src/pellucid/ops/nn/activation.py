"""Smooth activation functions of torch.nn.functional, each one row: one pass forward, one rule back.

A row's slope is a row too (`gelu_back`), so that a gradient takes few passes over memory; it is handed the value y as
a help, which saves an exponential where the slope follows from y / a.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core.attention import HALVES
from pellucid.core.flags import Truth
from pellucid.core.inplace import in_place
from pellucid.core.primitive import elementwise
from pellucid.core.record import bind
from pellucid.native import native, words
from pellucid.native.words import Array
from pellucid.ops.arguments import Row, refusal
from pellucid.ops.compare import in_single, only
from pellucid.ops.elementwise import exp, sigmoid, tanh
from pellucid.ops.nn import kernels
from pellucid.ops.operation import Draw, Sample, call, operation, unary_samples
from pellucid.ops.select import drop

F = "torch.nn.functional"
WIDTH, CUBE = math.sqrt(2 / math.pi), 0.044715  # of the approximation of gelu by tanh


def samples_with(*options: dict[str, Any]) -> Callable[[Draw], Iterable[Sample]]:
    """The usual inputs of one tensor, and one for each set of keywords."""
    return lambda draw: [*unary_samples(draw), *(call(draw(2, 3), **keywords) for keywords in options)]


def perhaps_in_place(inplace: bool, row: Row, input: Any, *params: Any) -> Any:
    """Run a row; with `inplace` the result goes into the input's memory."""
    return in_place(row, f"{row.__name__}_")(input, *params) if inplace else row(input, *params)


def smooth(name: str, value: Row, slope: Row, bend: Row, kinds: str = "f", grad_name: str | None = None) -> Row:
    """The row of a function without parameters.

    `slope(g, a, y)` is the kernel of the gradient, `bend(a)` the second derivative in the words of rules.
    """

    def pulled(g: ndarray, a: ndarray, y: ndarray) -> Any:
        if a.dtype not in HALVES:
            return slope(g, a, y)
        kind, wide = a.dtype, a.astype(np.float32)  # a half's y says too little
        return slope(g.astype(np.float32), wide, value(wide)).astype(kind)

    back = bind(
        elementwise(
            f"{name}_back", pulled,
            lambda g, b, c: back(g, b, c), lambda g, a, b: g * a * bend(b), None,  # the value is only a help
        )
    )  # fmt: skip
    columns = {"renews": True} if grad_name is None else {"renews": True, "grad_name": grad_name}
    return bind(elementwise(name, only(kinds, value), lambda g, a, y: back(g, a, y), dtypes="promote", **columns))


# --- silu, mish, gelu


@native
def silu_loop(first: int, last: int, a: Array, y: Array) -> None:
    """`a * sigmoid(a)`."""
    for i in range(first, last):
        y[i] = a[i] / (1.0 + words.exp(-a[i]))


@native
def silu_back_loop(first: int, last: int, g: Array, a: Array, out: Array) -> None:
    """`g * (s + a s (1 - s))` for s = sigmoid(a)."""
    for i in range(first, last):
        s = words.sigmoid(a[i])
        out[i] = g[i] * (s + a[i] * s * (1.0 - s))


def _silu(a: ndarray) -> ndarray:
    y = silu_loop.mapped(a)
    if y is not None:
        return y  # type: ignore[no-any-return]
    e = np.negative(a, np.empty_like(a))
    np.exp(e, e)
    e += 1
    return np.divide(a, e, e)


def _silu_slope(g: ndarray, a: ndarray, y: ndarray) -> Any:
    if a.dtype.kind == "c":
        raise refusal(RuntimeError, "silu does not support automatic differentiation for outputs with complex dtype.")
    pulled = silu_back_loop.mapped(g, a)
    if pulled is not None:
        return pulled
    share = kernels.per(y, a, np.abs(a, np.empty_like(a)))
    slope = np.subtract(1, share, np.empty_like(share))
    slope *= y
    slope += share
    return kernels.times(slope, g)


def _silu_bend(a: Any) -> Any:
    s = sigmoid(a)
    return s * (1 - s) * (2 + a * (1 - 2 * s))


_silu_row = smooth("silu", _silu, _silu_slope, _silu_bend, kinds="fc")


@operation(samples=unary_samples, module=F)
def silu(input: Any, inplace: Truth = False) -> Any:
    """`x * sigmoid(x)`, also called swish.

    >>> import pellucid as torch
    >>> torch.nn.functional.silu(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.2689,  0.0000,  0.7311])
    """
    return perhaps_in_place(inplace, _silu_row, input)


def _mish_parts(a: ndarray) -> tuple[ndarray, ndarray, ndarray]:
    """a up to 20, where mish is straight; e = exp(a); n = e² + 2 e: tanh(log(1 + e)) is n / (n + 2)."""
    low = kernels.between(a, -np.inf, 20, np.empty_like(a))
    e = np.exp(low, np.empty_like(a))
    n = np.add(e, 2, np.empty_like(e))
    n *= e
    return low, e, n


def _mish(a: ndarray) -> ndarray:
    _, e, n = _mish_parts(a)
    np.add(n, 2, e)
    n /= e
    n *= a
    return n


def _mish_slope(g: ndarray, a: ndarray, y: ndarray) -> Any:
    """tanh(softplus) plus a times its derivative: (n + 4 a e (1 + e) / (n + 2)) / (n + 2)."""
    slope, e, n = _mish_parts(a)
    slope *= e
    e += 1
    slope *= e
    slope *= 4
    np.add(n, 2, e)
    slope /= e
    slope += n
    slope /= e
    return kernels.times(slope, g)


def _mish_bend(a: Any) -> Any:
    s, t = sigmoid(a), tanh(_softplus_row(a, 1.0, 20.0))
    return (1 - t * t) * s * (2 + a * (1 - s - 2 * s * t))


_mish_row = smooth("mish", _mish, _mish_slope, _mish_bend)


@operation(samples=unary_samples, module=F)
def mish(input: Any, inplace: Truth = False) -> Any:
    """`x * tanh(softplus(x))`.

    >>> import pellucid as torch
    >>> torch.nn.functional.mish(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.3034,  0.0000,  0.8651])
    """
    return perhaps_in_place(inplace, _mish_row, input)


def _gelu_bend(a: Any) -> Any:
    return (2 - a * a) * exp(-0.5 * a * a) * kernels.DENSITY


_gelu_row = smooth("gelu", kernels.gelu, kernels.gelu_slope, _gelu_bend)


def _gate(a: ndarray) -> ndarray:
    """-v for v = 2 WIDTH (a + CUBE a³): (1 + tanh(v / 2)) / 2 is 1 / (1 + exp(-v)), and less work."""
    e = np.square(a, np.empty_like(a))
    e *= -2 * WIDTH * CUBE
    e -= 2 * WIDTH
    e *= a
    return e


@native
def gelu_tanh_loop(first: int, last: int, a: Array, y: Array) -> None:
    """`a * sigmoid(v)` for v = 2 WIDTH (a + CUBE a³)."""
    for i in range(first, last):
        x = a[i]
        y[i] = x * words.sigmoid(2.0 * WIDTH * (x + CUBE * x * x * x))


@native
def gelu_tanh_back_loop(first: int, last: int, g: Array, a: Array, out: Array) -> None:
    """`g * (s + a s (1 - s) v')` for s = sigmoid(v)."""
    for i in range(first, last):
        x = a[i]
        s = words.sigmoid(2.0 * WIDTH * (x + CUBE * x * x * x))
        rise = x * s * (1.0 - s)
        bounded = words.smaller(x * x, 1e4)  # beyond, s is 0 or 1 and an infinity times 0 would be NaN
        out[i] = g[i] * (s + rise * 2.0 * WIDTH * (1.0 + 3.0 * CUBE * bounded))


def _gelu_tanh(a: ndarray) -> ndarray:
    y = gelu_tanh_loop.mapped(a)
    if y is not None:
        return y  # type: ignore[no-any-return]
    e = _gate(a)
    np.exp(e, e)
    e += 1
    return np.divide(a, e, e)


def _gelu_tanh_slope(g: ndarray, a: ndarray, y: ndarray) -> Any:
    """s + a s (1 - s) v' for s = 1 / (1 + e): (y v' e / (1 + e)) + 1 / (1 + e)."""
    pulled = gelu_tanh_back_loop.mapped(g, a)
    if pulled is not None:
        return pulled
    e = _gate(a)
    np.exp(kernels.between(e, -np.inf, 80, e), e)  # finite: from there on the slope is 0
    slope = np.square(a, np.empty_like(a))
    slope *= 6 * WIDTH * CUBE
    slope += 2 * WIDTH
    slope *= y
    slope *= e
    slope += 1
    e += 1
    slope /= e
    return kernels.times(slope, g)


def _gelu_tanh_bend(a: Any) -> Any:
    s = sigmoid(2 * WIDTH * (a + CUBE * (a * a * a)))
    v = 2 * WIDTH * (1 + 3 * CUBE * (a * a))
    return s * (1 - s) * (2 * v + a * (12 * WIDTH * CUBE * a) + a * (v * v) * (1 - 2 * s))


_gelu_tanh_row = smooth("gelu_tanh", _gelu_tanh, _gelu_tanh_slope, _gelu_tanh_bend, grad_name="GeluBackward0")


@operation(samples=samples_with({"approximate": "tanh"}), module=F, out="exact")
def gelu(input: Any, approximate: str = "none") -> Any:
    """Each element times the share of a normal distribution below it; `approximate="tanh"` is faster.

    >>> import pellucid as torch
    >>> torch.nn.functional.gelu(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.1587,  0.0000,  0.8413])
    """
    if approximate not in ("none", "tanh"):
        raise refusal(RuntimeError, f"approximate argument must be either none or tanh, not {approximate}")
    return _gelu_row(input) if approximate == "none" else _gelu_tanh_row(input)


# --- softplus, logsigmoid


def _softplus(a: ndarray, beta: float, threshold: float) -> ndarray:
    z = a if beta == 1 else a * a.dtype.type(beta)
    y = kernels.softened(np.asarray(z))
    if beta != 1:
        y /= beta
    straight = z > threshold
    if np.logical_or.reduce(straight, None):
        np.copyto(y, a, where=straight)
    return y


def _softplus_slope(g: ndarray, a: ndarray, beta: float, threshold: float) -> Any:
    slope = np.multiply(a, -beta, np.empty_like(a))
    straight = slope < -threshold
    np.exp(slope, slope)
    slope += 1
    if np.logical_or.reduce(straight, None):
        np.copyto(slope, 1, where=straight)
    return np.divide(g, slope, slope) if g.shape == slope.shape else g / slope


def _softplus_bend(a: Any, beta: float, threshold: float) -> Any:
    s = sigmoid(beta * a)
    return drop(s * (1 - s) * beta, beta * a > threshold)


_softplus_back_row = bind(
    elementwise(
        "softplus_back", in_single(_softplus_slope),
        lambda g, b, beta, threshold: _softplus_back_row(g, b, beta, threshold),
        lambda g, a, b, beta, threshold: g * a * _softplus_bend(b, beta, threshold),
    )
)  # fmt: skip
_softplus_row = bind(
    elementwise(
        "softplus", only("f", _softplus),
        lambda g, a, beta, threshold: _softplus_back_row(g, a, beta, threshold), dtypes="promote",
    )
)  # fmt: skip


@operation(
    samples=samples_with({"beta": 2.0}, {"threshold": 0.5}, {"beta": -1.5, "threshold": 1}), module=F, out="exact"
)
def softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """log(1 + exp(beta * x)) / beta, a smooth relu; x itself where beta * x is above the threshold.

    >>> import pellucid as torch
    >>> torch.nn.functional.softplus(torch.tensor([-1.0, 0.0, 100.0]))
    tensor([  0.3133,   0.6931, 100.0000])
    """
    return _softplus_row(input, float(beta), float(threshold))


def _logsigmoid(a: ndarray) -> ndarray:
    y = np.negative(a, np.empty_like(a))
    y = kernels.softened(y)
    return np.negative(y, y)


def _logsigmoid_slope(g: ndarray, a: ndarray, y: ndarray) -> Any:
    slope = np.exp(a, np.empty_like(a))
    slope += 1
    return np.divide(g, slope, slope) if g.shape == slope.shape else g / slope


def _logsigmoid_bend(a: Any) -> Any:
    s = sigmoid(a)
    return s * (s - 1)


_logsigmoid_row = smooth("log_sigmoid", _logsigmoid, _logsigmoid_slope, _logsigmoid_bend)


@operation(samples=unary_samples, module=F, out="exact")
def logsigmoid(input: Any) -> Any:
    """log(sigmoid(x)), without overflow or loss of precision.

    >>> import pellucid as torch
    >>> torch.nn.functional.logsigmoid(torch.tensor([-100.0, 0.0]))
    tensor([-100.0000,   -0.6931])
    """
    return _logsigmoid_row(input)


# --- made of others


@operation(samples=unary_samples, module=F, tensors=1)
def softsign(input: Any) -> Any:
    """`x / (1 + |x|)`.

    >>> import pellucid as torch
    >>> torch.nn.functional.softsign(torch.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """
    return input / (abs(input) + 1)


@operation(samples=unary_samples, module=F)
def tanhshrink(input: Any) -> Any:
    """`x - tanh(x)`.

    >>> import pellucid as torch
    >>> torch.nn.functional.tanhshrink(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.2384])
    """
    return input - tanh(input)
