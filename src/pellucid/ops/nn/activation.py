"""Activation functions of torch.nn.functional, each one row: one pass forward, one rule back."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from pellucid.core.primitive import elementwise
from pellucid.core.record import bind
from pellucid.ops.arguments import refusal
from pellucid.ops.compare import only
from pellucid.ops.elementwise import erf, exp, sigmoid, special, tanh
from pellucid.ops.operation import Draw, Sample, call, operation, unary_samples
from pellucid.ops.select import keep, where_row
from pellucid.ops.shape import zeros_like_row

ROOT_HALF, DENSITY = math.sqrt(0.5), 1 / math.sqrt(2 * math.pi)  # of the normal distribution
WIDTH, CUBE = math.sqrt(2 / math.pi), 0.044715  # of the approximation of gelu by tanh


def samples_with(*options: dict[str, Any]) -> Callable[[Draw], Iterable[Sample]]:
    """The usual inputs of one tensor, and one for each set of keywords."""
    return lambda draw: [*unary_samples(draw), *(call(draw(2, 3), **keywords) for keywords in options)]


def _leaky_relu(a: np.ndarray, slope: float) -> np.ndarray:
    return where_row(a > 0, a, a * slope)  # type: ignore[no-any-return]


# A row of its own, so that the second derivative is a zero that is there, as in PyTorch.
_leaky_relu_back_row = bind(
    elementwise(
        "leaky_relu_back", lambda a, b, slope: where_row(b > 0, a, a * slope),
        lambda g, b, slope: _leaky_relu_back_row(g, b, slope), lambda g, slope: zeros_like_row(g),
        grad_name="LeakyReluBackwardBackward0",
    )
)  # fmt: skip
_leaky_relu_row = bind(
    elementwise("leaky_relu", only("f", _leaky_relu), lambda g, a, slope: _leaky_relu_back_row(g, a, slope))
)


@operation(samples=samples_with({"negative_slope": 0.2}), module="torch.nn.functional", methods=())
def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """Each element if it is positive, else that times a small slope.

    >>> import pellucid as torch
    >>> leaky_relu(torch.tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1000,  2.0000])
    """
    return _perhaps_written(input, _leaky_relu_row(input, negative_slope), inplace)


def _perhaps_written(input: Any, result: Any, inplace: bool) -> Any:
    """With `inplace` the result goes into the input's memory."""
    return input.copy_(result) if inplace else result


def _elu(a: np.ndarray, alpha: float) -> np.ndarray:
    return where_row(a > 0, a, alpha * np.expm1(np.minimum(a, 0)))  # type: ignore[no-any-return]


def _elu_rule(g: Any, a: Any, alpha: float) -> Any:
    below = a <= 0
    return where_row(below, g * (alpha * exp(keep(a, below))), g)


_elu_row = bind(elementwise("elu", only("f", _elu), _elu_rule))


@operation(samples=samples_with({"alpha": 0.5}), module="torch.nn.functional", methods=())
def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """Each element if it is positive, else `alpha * (exp(x) - 1)`."""
    return _perhaps_written(input, _elu_row(input, alpha), inplace)


_silu_row = bind(elementwise("silu", lambda a: a * sigmoid(a), lambda g, a: _silu_rule(g, a, sigmoid(a))))


def _silu_rule(g: Any, a: Any, s: Any) -> Any:
    return g * (s * (1 + a * (1 - s)))


@operation(samples=unary_samples, module="torch.nn.functional", methods=())
def silu(input: Any, inplace: bool = False) -> Any:
    """`x * sigmoid(x)`, also called swish."""
    return _perhaps_written(input, _silu_row(input), inplace)


def _gelu(a: np.ndarray) -> np.ndarray:
    return a * ((special("erf")(a * ROOT_HALF) + 1) * 0.5)


def _gelu_rule(g: Any, a: Any) -> Any:
    """The normal distribution's cumulative share, plus a times its density."""
    return g * (0.5 * (1 + erf(a * ROOT_HALF)) + a * exp(-0.5 * a * a) * DENSITY)


def _gelu_tanh(a: np.ndarray) -> np.ndarray:
    return a * ((np.tanh(WIDTH * (a + CUBE * (a * a * a))) + 1) * 0.5)


def _gelu_tanh_rule(g: Any, a: Any) -> Any:
    t = tanh(WIDTH * (a + CUBE * (a * a * a)))
    return g * (0.5 * (1 + t) + (0.5 * WIDTH) * (a * (1 - t * t) * (1 + 3 * CUBE * (a * a))))


GELUS = {
    "none": bind(elementwise("gelu", only("f", _gelu), _gelu_rule)),
    "tanh": bind(elementwise("gelu_tanh", only("f", _gelu_tanh), _gelu_tanh_rule, grad_name="GeluBackward0")),
}


@operation(samples=samples_with({"approximate": "tanh"}), module="torch.nn.functional", methods=())
def gelu(input: Any, *, approximate: str = "none") -> Any:
    """Each element times the share of a normal distribution below it; `approximate="tanh"` is faster.

    >>> import pellucid as torch
    >>> gelu(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.1587,  0.0000,  0.8413])
    """
    if approximate not in GELUS:
        raise refusal(RuntimeError, f"approximate argument must be either none or tanh, not {approximate}")
    return GELUS[approximate](input)
