"""Losses of numbers: squared and absolute errors, what lies between them, and likelihoods of distributions."""

import math
import warnings
from typing import Any

import numpy as np

from pellucid.core.flags import Truth
from pellucid.core.primitive import elementwise
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor
from pellucid.ops.arguments import expect, number, refusal
from pellucid.ops.compare import only
from pellucid.ops.complex_numbers import abs
from pellucid.ops.elementwise import exp, log, xlogy
from pellucid.ops.masked import masked_fill
from pellucid.ops.nn.losses import (
    REDUCTIONS,
    F,
    loss_row,
    met,
    pair_samples,
    reduced,
    reduction_of,
    weighted,
)
from pellucid.ops.operation import Draw, Sample, call, operation
from pellucid.ops.select import clamp, clip, keep
from pellucid.ops.shape import unsqueeze

# --- squared error


def _squares(a: np.ndarray, b: np.ndarray, how: None) -> np.ndarray:
    apart = np.asarray(a - b)
    return np.multiply(apart, apart, apart)


def times_in(apart: np.ndarray, g: np.ndarray) -> np.ndarray:
    """apart * g in the memory of `apart`, unless g (under vmap) has dimensions of its own."""
    return np.multiply(apart, g, apart if np.shape(g) in ((), apart.shape) else None)


def _squares_back(g: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return times_in(np.asarray(a - b), g * 2)


# mse_back_row(g, input, target) = 2 * (input - target) * g, with one array made instead of two
_mse_back_row = bind(
    elementwise(
        "mse_loss_back", _squares_back,
        lambda g, b, c: 2 * g * (b - c), lambda g, a: 2 * g * a, lambda g, a: -2 * g * a,
        grad_name="MseLossBackwardBackward0",
    )
)  # fmt: skip
_mse_row = loss_row(
    "mse_loss", only("f", _squares),
    lambda a, b, how: 2 * (a - b), lambda a, b, how: 2 * (b - a),
    lambda g, a, b, how: _mse_back_row(g, a, b), lambda g, a, b, how: _mse_back_row(g, b, a),
)  # fmt: skip


def _weighted_samples(draw: Draw) -> list[Sample]:
    return [
        *pair_samples(draw), call(draw(2, 3), draw(2, 3), weight=draw(2, 3)),
        call(draw(2, 3), draw(2, 3), reduction="none", weight=draw(2, 3)),
    ]  # fmt: skip


def _weighted(each: Any, weight: Any, input: Any, size_average: bool | None, reduce: bool | None, how: str) -> Any:
    """The losses of all elements, weighted and reduced; the two older arguments win over `how`."""
    if size_average is not None or reduce is not None:
        how = reduction_of(how, size_average, reduce)
    return weighted(each, weight, input, how, True)


@operation(samples=_weighted_samples, module=F)
def mse_loss(
    input: Any, target: Any, size_average: Truth = None, reduce: Truth = None, reduction: str = "mean",
    weight: Any = None,
) -> Any:  # fmt: skip
    """The mean (or sum, or each) of the squared differences between input and target.

    >>> import pellucid as torch
    >>> torch.nn.functional.mse_loss(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
    tensor(2.)
    """
    a, b = met(input, target)
    if weight is not None:
        return _weighted(_mse_row(a, b, "none", None), weight, input, size_average, reduce, reduction)
    return _mse_row(a, b, reduction_of(reduction, size_average, reduce), None)


# --- absolute error


@operation(samples=_weighted_samples, module=F)
def l1_loss(
    input: Any, target: Any, size_average: Truth = None, reduce: Truth = None, reduction: str = "mean",
    weight: Any = None,
) -> Any:  # fmt: skip
    """The mean (or sum, or each) of the absolute differences between input and target.

    >>> import pellucid as torch
    >>> torch.nn.functional.l1_loss(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
    tensor(1.)
    """
    a, b = met(input, target)
    if weight is not None:
        return _weighted(abs(a - b), weight, input, size_average, reduce, reduction)
    return reduced(abs(a - b), reduction_of(reduction, size_average, reduce))


def _bent(a: np.ndarray, b: np.ndarray, bound: float, factor: float) -> np.ndarray:
    """z² / 2 up to the bound and bound * (z - bound / 2) beyond, for z = |a - b|, without a branch; times a factor."""
    z = np.asarray(a - b)
    np.abs(z, z)
    number = z.dtype.type
    c = clip(z, number(0), number(bound))  # three times as fast as np.minimum
    z -= c * number(0.5)
    z *= c
    return z if factor == 1 else np.multiply(z, factor, z)


def _bent_back(g: np.ndarray, a: np.ndarray, b: np.ndarray, bound: float, factor: float) -> np.ndarray:
    apart = np.asarray(a - b)
    clip(apart, apart.dtype.type(-bound), apart.dtype.type(bound), apart)
    return times_in(apart, g * factor)


def _curve(g: Any, a: Any, b: Any, bound: float, factor: float) -> Any:
    """The second derivative, applied to g: that of the square within the bound, 0 beyond."""
    return keep(g * factor, abs(a - b) <= bound)


# bent_back_row(g, input, target, bound, factor) = clamp(input - target, -bound, bound) * factor * g
_bent_back_row = bind(
    elementwise(
        "bent_loss_back", _bent_back,
        lambda g, b, c, bound, factor: clamp(b - c, -bound, bound) * (g * factor),
        lambda g, a, b, c, bound, factor: _curve(g * a, b, c, bound, factor),
        lambda g, a, b, c, bound, factor: -_curve(g * a, b, c, bound, factor),
        grad_name="SmoothL1LossBackwardBackward0",
    )
)  # fmt: skip


def _bent_row(name: str, factor: Any) -> Any:
    """The row of a loss that is a square within a bound and a line beyond; `factor(bound)` scales it."""

    def value(a: np.ndarray, b: np.ndarray, bound: float) -> np.ndarray:
        return _bent(a, b, bound, factor(bound))

    def slope(a: Any, b: Any, bound: float) -> Any:
        return clamp(a - b, -bound, bound) * factor(bound)

    value.__name__ = name
    return loss_row(
        name, only("f", value), slope, lambda a, b, bound: slope(b, a, bound),
        lambda g, a, b, bound: _bent_back_row(g, a, b, bound, factor(bound)),
    )  # fmt: skip


_smooth_l1_row = _bent_row("smooth_l1_loss", lambda beta: 1 / beta)
_huber_row = _bent_row("huber_loss", lambda delta: 1)


@operation(
    samples=lambda draw: [
        *pair_samples(draw), call(draw(2, 3), draw(2, 3), beta=0.3), call(draw(2, 3), draw(2, 3), beta=5),
        call(draw(4), draw(4), beta=0),
    ],
    module=F,
)  # fmt: skip
def smooth_l1_loss(
    input: Any, target: Any, size_average: Truth = None, reduce: Truth = None, reduction: str = "mean",
    beta: float = 1.0,
) -> Any:  # fmt: skip
    """Squared error (over 2 beta) where it is below `beta`, absolute error (less beta / 2) beyond.

    >>> import pellucid as torch
    >>> torch.nn.functional.smooth_l1_loss(torch.tensor([0.0, 3.0]), torch.tensor([1.0, 0.0]), reduction="none")
    tensor([0.5000, 2.5000])
    """
    a, b = met(input, target)
    reduction = reduction_of(reduction, size_average, reduce)
    expect(beta >= 0, "smooth_l1_loss does not support negative values for beta.")
    return reduced(abs(a - b), reduction) if beta == 0 else _smooth_l1_row(a, b, reduction, beta)


@operation(
    samples=lambda draw: [
        *pair_samples(draw), call(draw(2, 3), draw(2, 3), delta=0.3), call(draw(2, 3), draw(2, 3), "sum", 5.0),
        call(draw(2, 3), draw(2, 3), weight=draw(2, 3)), call(draw(4), draw(4), "none", weight=draw(4)),
    ],
    module=F,
)  # fmt: skip
def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None) -> Any:
    """Half the squared error where it is at most `delta`, and `delta` times the absolute error (less delta / 2) beyond.

    >>> import pellucid as torch
    >>> torch.nn.functional.huber_loss(torch.tensor([0.0, 3.0]), torch.tensor([1.0, 0.0]), "none", 2.0)
    tensor([0.5000, 4.0000])
    """
    a, b = met(input, target)
    if weight is None:
        reduction = reduction_of(reduction)
    expect(delta > 0, "huber_loss does not support non-positive values for delta.")
    if weight is not None:
        return weighted(_huber_row(a, b, "none", delta), weight, input, reduction, False)
    return _huber_row(a, b, reduction, delta)


# --- likelihoods


@operation(
    samples=lambda draw: [
        *(call(draw(2, 3), draw(2, 3, low=0.1), reduction=how) for how in ("none", "sum", "batchmean")),
        *(call(draw(2, 3), draw(2, 3), reduction=how, log_target=True) for how in ("none", "sum", "batchmean")),
        call(draw(), draw(low=0.1), reduction="batchmean"), call(draw(0), draw(0), reduction="none"),
    ],
    module=F,
    tensors=1,
)  # fmt: skip
def kl_div(
    input: Any, target: Any, size_average: Truth = None, reduce: Truth = None, reduction: str = "mean",
    log_target: bool = False,
) -> Any:  # fmt: skip
    """The divergence of a distribution given by its logarithm from the target: target * (log(target) - input).

    With `log_target` the target is a logarithm too. "batchmean" divides by the size of the first dimension only.

    >>> import pellucid as torch
    >>> half = torch.tensor([0.5, 0.5])
    >>> torch.nn.functional.kl_div(half.log(), half, reduction="sum")
    tensor(0.)
    """
    if size_average is not None or reduce is not None:
        how = reduction_of(reduction, size_average, reduce)
    else:
        if reduction == "mean":
            warnings.warn(
                "reduction: 'mean' divides the total loss by both the batch size and the support size."
                "'batchmean' divides only by the batch size, and aligns with the KL div math definition."
                "'mean' will be changed to behave the same as 'batchmean' in the next major release.",
                stacklevel=2,
            )
        how = "sum" if reduction == "batchmean" else reduction_of(reduction)
    if input.array.dtype.kind in "biu" or target.array.dtype.kind in "biu":
        raise refusal(RuntimeError, "kl_div: Integral inputs not supported.", try_="target.float()")
    loss = exp(target) * (target - input) if log_target else xlogy(target, target) - target * input
    total = reduced(loss, how)
    return total / input.shape[0] if reduction == "batchmean" and input.ndim else total


@operation(
    samples=lambda draw: [
        call(draw(2, 3), draw(2, 3, low=0.5, high=4.0)), call(draw(2, 3), draw(2, 3, low=0.5, high=4.0), full=True),
        call(draw(2, 3, low=0.2), draw(2, 3), log_input=False), call(draw(), draw(), reduction="sum"),
        call(draw(4, low=0.2), draw(4, low=1.5, high=4.0), False, True, eps=0.1, reduction="none"),
        call(draw(0), draw(0), reduction="sum"),
    ],
    module=F, aliases=("torch.poisson_nll_loss",),
)  # fmt: skip
def poisson_nll_loss(
    input: Any, target: Any, log_input: bool = True, full: bool = False, size_average: Truth = None,
    eps: float = 1e-8, reduce: Truth = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """The negative logarithm of the likelihood of counts under a Poisson distribution with this (log) rate.

    Without `full` the term that depends on the target alone is left out; with it Stirling's approximation is added.

    >>> import pellucid as torch
    >>> torch.nn.functional.poisson_nll_loss(torch.tensor([0.0]), torch.tensor([2.0]))
    tensor(1.)
    """
    how = reduction_of(reduction, size_average, reduce)
    loss = exp(input) - target * input if log_input else input - target * log(input + eps)
    if full:
        stirling = target * log(target) - target + 0.5 * log(2 * math.pi * target)
        loss = loss + masked_fill(stirling, target <= 1, 0)
    return reduced(loss, how)


def _at_least(a: np.ndarray, eps: float) -> np.ndarray:
    if np.count_nonzero(a < 0):
        raise refusal(ValueError, "var has negative entry/entries")
    return np.maximum(a, eps)


# Variances, none of them below eps; the gradient passes as if nothing had been done.
_variance_row = bind(elementwise("variance", _at_least, lambda g, eps: g, grad_name="CloneBackward0"))


def _variances(input: Any, var: Any) -> Any:
    """The variances in a shape that broadcasts against the input, refused where PyTorch refuses them."""
    if not isinstance(var, Tensor):
        return input.new_full(tuple(input.shape), var)
    shape, given = tuple(input.shape), tuple(var.shape)
    if given == shape:
        return var
    if given == shape[:-1]:
        return unsqueeze(var, -1)
    if len(given) != len(shape) or [m for n, m in zip(shape, given, strict=True) if n != m] != [1]:
        raise refusal(ValueError, "var is of incorrect size", f"it has shape {given}, the input {shape}")
    return var


@operation(
    samples=lambda draw: [
        call(draw(2, 3), draw(2, 3), draw(2, 3, low=0.5)), call(draw(2, 3), draw(2, 3), draw(2, 1, low=0.5), full=True),
        call(draw(2, 3), draw(2, 3), draw(2, low=0.5), reduction="sum"), call(draw(2, 3), draw(3), 2.0),
        call(draw(4), draw(4), draw(4, low=0.5), eps=0.1, reduction="none"),
    ],
    module=F,
)  # fmt: skip
def gaussian_nll_loss(
    input: Any, target: Any, var: Any, full: Truth = False, eps: float = 1e-6, reduction: str = "mean"
) -> Any:
    """The negative logarithm of the likelihood of the target under normal distributions of this mean and variance.

    Variances count as at least `eps`, but keep their gradient; without `full` the constant is left out.

    >>> import pellucid as torch
    >>> torch.nn.functional.gaussian_nll_loss(torch.tensor([0.0]), torch.tensor([2.0]), torch.tensor([1.0]))
    tensor(2.)
    """
    if reduction not in REDUCTIONS:
        raise refusal(ValueError, f"{reduction} is not valid")
    var = _variance_row(_variances(input, var), number(eps))
    apart = input - target
    loss = 0.5 * (log(var) + apart * apart / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(loss, reduction)
