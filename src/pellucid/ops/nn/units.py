"""Units that are straight above 0 and bend below it: relu and its kin (leaky, parametric, random), elu and its kin."""

import math
from typing import Any

import numpy as np
from numpy import ndarray

from pellucid.core.attributes import concrete
from pellucid.core.flags import Truth
from pellucid.core.primitive import elementwise
from pellucid.core.record import bind
from pellucid.core.tensor import wrap
from pellucid.ops import select
from pellucid.ops.arguments import Row, expect, name_of, refusal
from pellucid.ops.compare import in_single, only
from pellucid.ops.elementwise import exp
from pellucid.ops.nn import kernels
from pellucid.ops.nn.activation import F, perhaps_in_place, samples_with
from pellucid.ops.operation import Draw, Sample, call, operation, unary_samples
from pellucid.ops.random import source_of
from pellucid.ops.select import drop, keep, where_row, zero_slope
from pellucid.ops.shape import reshape
from pellucid.ops.streams import F64

# --- relu, leaky_relu


@operation(samples=unary_samples, module=F, writers=(f"{F}.relu_",))
def relu(input: Any, inplace: Truth = False) -> Any:
    """Each element if it is positive, else 0.

    >>> import pellucid as torch
    >>> torch.nn.functional.relu(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return perhaps_in_place(inplace, select.relu, input)


def _leaky(a: ndarray, slope: float) -> Any:
    below = np.multiply(a, slope, np.empty_like(a))
    return np.maximum(a, below, out=below) if 0 <= slope <= 1 else where_row(a > 0, a, below)


def _leaky_back(g: ndarray, a: ndarray, slope: float) -> Any:
    return kernels.times(where_row(a > 0, np.ones((), a.dtype), np.asarray(slope, a.dtype)), g)


# A row of its own, so that the second derivative is a zero that is there, as in PyTorch.
_leaky_back_row = bind(
    elementwise(
        "leaky_relu_back", _leaky_back,
        lambda g, b, slope: _leaky_back_row(g, b, slope), lambda g, a, slope: zero_slope(g, a),
    )
)  # fmt: skip


def _leaking(name: str, grad_name: str) -> Row:
    """A row (a, slope): a above 0, slope * a below."""
    return bind(
        elementwise(
            name, only("f", _leaky), lambda g, a, slope: _leaky_back_row(g, a, slope), dtypes="promote",
            grad_name=grad_name,
        )
    )  # fmt: skip


_leaky_relu_row = _leaking("leaky_relu", "LeakyReluBackward0")
_rrelu_mean_row = _leaking("rrelu_mean", "RreluWithNoiseBackward0")


@operation(samples=samples_with({"negative_slope": 0.2}), module=F, writers=(f"{F}.leaky_relu_",))
def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: Truth = False) -> Any:
    """Each element if it is positive, else that times a small slope.

    >>> import pellucid as torch
    >>> torch.nn.functional.leaky_relu(torch.tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1000,  2.0000])
    """
    return perhaps_in_place(inplace, _leaky_relu_row, input, float(negative_slope))


# --- the slope below 0 is learned, or random


def _prelu(a: ndarray, weight: ndarray) -> ndarray:
    return where_row(a > 0, a, a * weight)  # type: ignore[no-any-return]


_prelu_row = bind(
    elementwise(
        "prelu", only("f", _prelu),
        lambda g, a, b: where_row(a > 0, g, g * b), lambda g, a: drop(g * a, a > 0),
        dtypes="equal", grad_name="PreluKernelBackward0",
    )
)  # fmt: skip


@operation(
    samples=lambda draw: [
        call(draw(2, 3), draw(3)), call(draw(4), draw(1)), call(draw(2, 3, 2), draw(3)), call(draw(), draw()),
        call(draw(2, 3), draw()), call(draw(0, 3), draw(3)), call(draw(3, 2).mT, draw(3)), call(draw(5), draw()),
    ],
    aliases=(f"{F}.prelu",),
)  # fmt: skip
def prelu(input: Any, weight: Any) -> Any:
    """Each element if it is positive, else that times a weight: one for all, or one per channel (dimension 1).

    >>> import pellucid as torch
    >>> torch.prelu(torch.tensor([-1.0, 2.0]), torch.tensor(0.25))
    tensor([-0.2500,  2.0000])
    """
    if input.array.dtype != weight.array.dtype:
        raise refusal(
            RuntimeError, f"prelu: Type promoting not supported. Got {name_of(input)} and {name_of(weight)}",
            try_="weight.to(input.dtype)",
        )
    size = weight.numel()
    if size != 1:
        expect(input.ndim > 0, "Not allow zero-dim input tensor.")
        channels = input.shape[1] if input.ndim > 1 else 1
        expect(channels == size, f"Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                                 f"{size} and channel size = {channels}.")  # fmt: skip
    expect(weight.ndim <= 1, f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}")
    return _prelu_row(input, _per_channel(weight, input.ndim))


def _per_channel(weight: Any, ndim: int) -> Any:
    """A weight in a shape that broadcasts along dimension 1."""
    if ndim == weight.ndim or not weight.ndim:
        return weight
    return reshape(weight, (1, weight.shape[0], *(1,) * (ndim - 2)) if ndim > 1 else ())


_rrelu_row = bind(
    elementwise(
        "rrelu_with_noise", only("f", np.multiply), lambda g, b: g * b, None, dtypes="equal",
        grad_name="RreluWithNoiseBackward0",
    )
)  # fmt: skip


def _noise(a: ndarray, lower: float, upper: float, generator: Any) -> ndarray:
    """1 where a is positive, else a random slope: PyTorch draws one for each such element, in order."""
    below = a <= 0
    noise = np.ones(a.shape, a.dtype)
    drawn = source_of(generator).uniform(int(np.count_nonzero(below)), F64)
    low, high = (float(a.dtype.type(bound)) for bound in (lower, upper))  # PyTorch rounds the bounds first
    noise[below] = drawn * (high - low) + low
    return noise


def _rrelu_samples(draw: Draw) -> list[Sample]:
    random = [call(draw(2, 3), 0.1, 0.4, True), call(draw(4), training=True)]
    return [*unary_samples(draw), call(draw(2, 3), 0.1, 0.4), *random]


@operation(
    samples=_rrelu_samples, module=F, aliases=("torch.rrelu",), writers=(f"{F}.rrelu_", "torch.rrelu_"),
    unclaimed=dict.fromkeys(("reads_values", "batching_is_a_loop"), "it draws as many random numbers as are negative"),
)  # fmt: skip
def rrelu(
    input: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: Truth = False,
    *, generator: Any = None,
) -> Any:  # fmt: skip
    """Each element if it is positive, else that times a slope: random when training, else the middle.

    >>> import pellucid as torch
    >>> torch.rrelu(torch.tensor([-1.0, 2.0]), 0.1, 0.3)
    tensor([-0.2000,  2.0000])
    """
    for bound, value in (("lower", lower), ("upper", upper)):
        expect(math.isfinite(value), f"rrelu: {bound} bound must be finite, got {value}")
    expect(lower <= upper, f"Lower bound should be less than or equal to the upper bound, got {lower} > {upper}")
    if not training:
        return perhaps_in_place(inplace, _rrelu_mean_row, input, (lower + upper) / 2)
    noise = wrap(_noise(concrete(input, "rrelu"), lower, upper, generator))
    return perhaps_in_place(inplace, _rrelu_row, input, noise)


# --- threshold



def _threshold(a: np.ndarray, threshold: Any, value: Any) -> Any:
    """In PyTorch both numbers become elements of the tensor first: as whole ones they are cut and wrap around."""
    if a.dtype.kind in "iu":
        highest = np.iinfo(a.dtype).max
        for each in (threshold, value):
            expect(-highest <= int(each) <= highest, f"value {each} cannot be converted to {a.dtype} without overflow")
        threshold, value = (np.asarray(int(each)).astype(a.dtype) for each in (threshold, value))
    return where_row(a <= threshold, np.asarray(value, a.dtype), a)


_threshold_row = bind(
    elementwise(
        "threshold", only("iuf", _threshold),
        lambda g, a, threshold, value: _threshold_back_row(g, a, threshold), dtypes="promote",
    )
)  # fmt: skip
_threshold_back_row = bind(
    elementwise(
        "threshold_back", lambda g, a, threshold: keep(g, ~(a <= threshold)),
        lambda g, b, threshold: _threshold_back_row(g, b, threshold), lambda g, a, threshold: zero_slope(g, a),
    )
)  # fmt: skip


@operation(
    samples=lambda draw: [call(*sample.args, 0.1, 7.5) for sample in unary_samples(draw)],
    module=F, aliases=("torch.threshold",), writers=(f"{F}.threshold_", "torch.threshold_"),
)  # fmt: skip
def threshold(input: Any, threshold: float, value: float, inplace: Truth = False) -> Any:
    """Each element if it is above the threshold, else the value.

    >>> import pellucid as torch
    >>> torch.threshold(torch.tensor([0.0, 2.0]), 1.0, -5.0)
    tensor([-5.,  2.])
    """
    return perhaps_in_place(inplace, _threshold_row, input, threshold, value)


# --- elu and its kin: straight above 0, an exponential below


def _elu(a: ndarray, alpha: float, scale: float, slope: float) -> ndarray:
    if slope < 0:  # CELU with a negative alpha: below 0 the exponential grows
        return np.where(a > 0, a * scale, np.expm1(a * slope) * (alpha * scale)).astype(a.dtype)
    below = kernels.expm1_below(a if slope == 1 else np.asarray(a * a.dtype.type(slope)))
    below *= alpha * scale
    above = kernels.positive(a, np.empty_like(a))
    if scale != 1:
        above *= scale
    return np.add(above, below, above)


def _elu_slope(g: ndarray, a: ndarray, alpha: float, scale: float, slope: float) -> Any:
    """scale above 0; below, alpha * scale * slope times the exponential. Both meet if alpha * slope is 1."""
    if slope < 0:
        return g * np.where(a > 0, scale, np.exp(a * slope) * (alpha * scale * slope)).astype(a.dtype)
    result = np.multiply(a, slope, np.empty_like(a))
    np.exp(kernels.between(result, -np.inf, 0, result), result)
    result *= alpha * scale * slope
    if alpha * slope != 1:
        result = where_row(a <= 0, result, np.asarray(scale, a.dtype))
    return kernels.times(result, g)


def _elu_bend(a: Any, alpha: float, scale: float, slope: float) -> Any:
    below = a <= 0
    return keep(alpha * scale * slope * slope * exp(keep(a, below) * slope), below)


_elu_back_row = bind(
    elementwise(
        "elu_back", in_single(_elu_slope),
        lambda g, b, alpha, scale, slope: _elu_back_row(g, b, alpha, scale, slope),
        lambda g, a, b, alpha, scale, slope: g * a * _elu_bend(b, alpha, scale, slope),
    )
)  # fmt: skip


def _exponential(name: str) -> Row:
    """A row (a, alpha, scale, slope): scale * a above 0, alpha * scale * (exp(slope * a) - 1) below."""

    def rule(g: Any, a: Any, alpha: float, scale: float, slope: float) -> Any:
        return _elu_back_row(g, a, alpha, scale, slope)

    return bind(elementwise(name, only("f", _elu), rule, dtypes="promote"))


_elu_row, _celu_row = _exponential("elu"), _exponential("celu")


@operation(samples=samples_with({"alpha": 0.5}), module=F, writers=(f"{F}.elu_",))
def elu(input: Any, alpha: float = 1.0, inplace: Truth = False) -> Any:
    """Each element if it is positive, else `alpha * (exp(x) - 1)`.

    >>> import pellucid as torch
    >>> torch.nn.functional.elu(torch.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return perhaps_in_place(inplace, _elu_row, input, float(alpha), 1.0, 1.0)


@operation(
    samples=samples_with({"alpha": 0.5}), module=F, aliases=("torch.celu",), writers=(f"{F}.celu_", "torch.celu_")
)
def celu(input: Any, alpha: float = 1.0, inplace: Truth = False) -> Any:
    """Each element if it is positive, else `alpha * (exp(x / alpha) - 1)`, whose slope at 0 is 1 for every alpha.

    >>> import pellucid as torch
    >>> torch.celu(torch.tensor([-1.0, 2.0]), alpha=2.0)
    tensor([-0.7869,  2.0000])
    """
    if alpha == 0:
        raise refusal(RuntimeError, "ZeroDivisionError: alpha cannot be 0 for CELU")
    return perhaps_in_place(inplace, _celu_row, input, float(alpha), 1.0, 1 / alpha)


SELU = (1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1.0)  # keeps mean 0 and variance 1


@operation(samples=unary_samples, module=F, aliases=("torch.selu",), writers=(f"{F}.selu_", "torch.selu_"))
def selu(input: Any, inplace: Truth = False) -> Any:
    """elu with the scale and alpha that keep normalised activations normalised.

    >>> import pellucid as torch
    >>> torch.selu(torch.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    return perhaps_in_place(inplace, _elu_row, input, *SELU)
