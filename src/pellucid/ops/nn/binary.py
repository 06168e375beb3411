"""Losses of yes and no: binary cross entropy, soft margins."""

from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.flags import Truth
from pellucid.core.primitive import elementwise
from pellucid.core.record import bind
from pellucid.core.tensor import bearing
from pellucid.core.views import current_node
from pellucid.ops.arguments import expect, name_of, refusal
from pellucid.ops.compare import only
from pellucid.ops.elementwise import log, log1p, sigmoid
from pellucid.ops.expand import broadcast_shapes
from pellucid.ops.nn.activation import logsigmoid
from pellucid.ops.nn.losses import F, loss_row, pair_samples, reduced, reduction_of
from pellucid.ops.operation import Draw, Sample, call, operation
from pellucid.ops.reduce import sum
from pellucid.ops.select import clamp

LEAST = -100.0  # PyTorch's bound of a logarithm: a probability of 0 costs 100, not infinity
TINY = float(np.float32(1e-12))  # and of what the gradient is divided by, in every dtype


def _no_gradient(tensor: Any, function: str, argument: str) -> None:
    """Refuse a gradient that PyTorch does not give."""
    if tensor is not None and current_node(tensor) is not None:
        what = f"The function '{function}' is not differentiable with respect to argument '{argument}'."
        raise refusal(RuntimeError, f"{what} This input cannot have requires_grad True.", try_="detach() it")


# --- of probabilities


def _binary(a: np.ndarray, b: np.ndarray, how: None) -> np.ndarray:
    for name, array in (("input", a), ("target", b)):
        if not np.all((array >= 0) & (array <= 1)):  # nor is NaN
            way = "binary_cross_entropy_with_logits, which takes any numbers" if name == "input" else None
            why = f"they go from {array.min():.4g} to {array.max():.4g}"
            raise refusal(RuntimeError, f"all elements of {name} should be between 0 and 1", why, way)
    return -(b * np.maximum(np.log(a), LEAST) + (1 - b) * np.maximum(np.log1p(-a), LEAST))


def _binary_slope(a: Any, b: Any, how: None) -> Any:
    return (a - b) / clamp((1 - a) * a, TINY)


def _binary_target_slope(a: Any, b: Any, how: None) -> Any:
    return clamp(log1p(-a), LEAST) - clamp(log(a), LEAST)


_binary_row = loss_row("binary_cross_entropy", only("f", _binary), _binary_slope, _binary_target_slope)


def _binary_samples(draw: Draw) -> list[Sample]:
    samples = pair_samples(draw)
    return [
        *samples, call(draw(2, 3), draw(2, 3), draw(2, 3, low=0.5).detach()),
        call(draw(2, 3), draw(2, 3), draw(3, low=0.5).detach(), reduction="none"),
    ]  # fmt: skip


@operation(samples=_binary_samples, module=F, domain=(0.05, 0.95))
def binary_cross_entropy(
    input: Any, target: Any, weight: Any = None, size_average: Truth = None, reduce: Truth = None,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """The cross entropy of probabilities: -(target * log(input) + (1 - target) * log(1 - input)).

    Logarithms count as at least -100, so that a certain error costs 100 and not infinity.

    >>> import pellucid as torch
    >>> torch.nn.functional.binary_cross_entropy(torch.tensor([0.5]), torch.tensor([1.0]))
    tensor(0.6931)
    """
    how = reduction_of(reduction, size_average, reduce)
    if input.array.shape != target.array.shape:
        raise refusal(
            ValueError,
            f"Using a target size ({dtypes.Size(target.shape)}) that is different to the input size "
            f"({dtypes.Size(input.shape)}) is deprecated. Please ensure they have the same size.",
            try_="target.view_as(input)" if input.array.size == target.array.size else None,
        )
    expect(input.dtype == target.dtype, f"Found dtype {name_of(target)} but expected {name_of(input)}")
    if weight is None:
        return _binary_row(input, target, how, None)
    _no_gradient(weight, "binary_cross_entropy", "weight")
    weight = weight.expand(broadcast_shapes(tuple(target.shape), tuple(weight.shape)))
    return bearing("BinaryCrossEntropyBackward0", reduced(_binary_row(input, target, "none", None) * weight, how))


# --- of logits


def _line_softness(a: np.ndarray) -> np.ndarray:
    """log(1 + exp(-a)), without overflow.

    np.log1p works number by number; log(1 + e) * e / ((1 + e) - 1) is as precise and four times as fast.
    """
    e = np.abs(a)
    np.exp(np.negative(e, e), e)
    total = e + 1
    y = np.log(total)
    total -= 1
    lost = total == 0
    total += lost  # where e is lost beside 1, the logarithm is e itself
    y += lost
    y *= e
    y /= total
    y -= np.minimum(a, 0)
    return y


def _softness(a: np.ndarray) -> np.ndarray:
    return _line_softness(np.atleast_1d(a)).reshape(np.shape(a))


def _logits(a: np.ndarray, b: np.ndarray, how: None) -> np.ndarray:
    if np.shape(a) != np.shape(b):  # under vmap one of them may have the batch alone
        a = np.broadcast_to(a, np.broadcast_shapes(np.shape(a), np.shape(b)))
    y = _line_softness(np.atleast_1d(a))
    y += np.subtract(1, b) * a
    return y.reshape(np.shape(a))


def _logits_back(g: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    slope = sigmoid(a) - b
    reuse = isinstance(slope, np.ndarray) and slope.ndim and np.shape(g) in ((), slope.shape)
    return np.multiply(slope, g, slope if reuse else None)


def _bell(a: Any) -> Any:
    s = sigmoid(a)
    return s * (1 - s)


# logits_back_row(g, input, target) = (sigmoid(input) - target) * g
_logits_back_row = bind(
    elementwise(
        "binary_cross_entropy_with_logits_back", _logits_back,
        lambda g, b, c: g * (sigmoid(b) - c), lambda g, a, b: g * a * _bell(b), lambda g, a: -(g * a),
        grad_name="BinaryCrossEntropyWithLogitsBackwardBackward0",
    )
)  # fmt: skip
_logits_row = loss_row(
    "binary_cross_entropy_with_logits", only("f", _logits),
    lambda a, b, how: sigmoid(a) - b, lambda a, b, how: -a, lambda g, a, b, how: _logits_back_row(g, a, b),
)  # fmt: skip
_softness_row = bind(
    elementwise(
        "softness", only("f", _softness), lambda g, a: -(g * sigmoid(-a)), grad_name="SoftplusBackward0",
    )
)  # fmt: skip


@operation(
    samples=lambda draw: [
        *_binary_samples(draw), call(draw(2, 3), draw(2, 3), pos_weight=draw(3, low=0.5).detach()),
        call(draw(2, 3), draw(2, 3), draw(2, 1).detach(), pos_weight=draw(3, low=0.5).detach(), reduction="none"),
    ],
    module=F, aliases=("torch.binary_cross_entropy_with_logits",),
)  # fmt: skip
def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, size_average: Truth = None, reduce: Truth = None,
    reduction: str = "mean", pos_weight: Any = None,
) -> Any:  # fmt: skip
    """The binary cross entropy of sigmoid(input), without overflow; `pos_weight` weighs the positive targets.

    >>> import pellucid as torch
    >>> torch.nn.functional.binary_cross_entropy_with_logits(torch.tensor([0.0]), torch.tensor([1.0]))
    tensor(0.6931)
    """
    how = reduction_of(reduction, size_average, reduce)
    if input.array.shape != target.array.shape:
        sizes = f"Target size ({dtypes.Size(target.shape)}) must be the same as input size ({dtypes.Size(input.shape)})"
        raise refusal(ValueError, sizes)
    if target.array.dtype.kind in "biu":
        names = [dtypes.scalar_name(each.dtype) for each in (input, target)]
        what = f"result type {names[0]} can't be cast to the desired output type {names[1]}"
        raise refusal(RuntimeError, what, "the target is a probability, a floating-point number", "target.float()")
    if weight is None and pos_weight is None:
        return _logits_row(input, target, how, None)
    _no_gradient(weight, "binary_cross_entropy_with_logits", "weight")
    _no_gradient(pos_weight, "binary_cross_entropy_with_logits", "pos_weight")
    if pos_weight is None:
        loss = _logits_row(input, target, "none", None)
    else:
        loss = (1 - target) * input + (1 + (pos_weight - 1) * target) * _softness_row(input)
    loss = reduced(loss if weight is None else loss * weight, how)
    return bearing("BinaryCrossEntropyWithLogitsBackward0", loss)


# --- soft margins


def _soft_margin(a: np.ndarray, b: np.ndarray, how: None) -> np.ndarray:
    return np.log1p(np.exp(-b * a))


_soft_margin_row = loss_row("soft_margin_loss", only("f", _soft_margin), lambda a, b, how: -b * sigmoid(-b * a), None)


@operation(
    samples=lambda draw: [
        call(*(sample.args[0], sample.args[1].detach()), **sample.kwargs) for sample in pair_samples(draw)
    ],
    module=F,
)  # fmt: skip
def soft_margin_loss(
    input: Any, target: Any, size_average: Truth = None, reduce: Truth = None, reduction: str = "mean"
) -> Any:
    """log(1 + exp(-target * input)): small where input and target (1 or -1) have the same sign.

    >>> import pellucid as torch
    >>> torch.nn.functional.soft_margin_loss(torch.tensor([0.0]), torch.tensor([1.0]))
    tensor(0.6931)
    """
    how = reduction_of(reduction, size_average, reduce)
    _no_gradient(target, "soft_margin_loss", "target")
    if input.array.shape != target.array.shape:
        shape = tuple(broadcast_shapes(tuple(input.shape), tuple(target.shape)))
        input, target = input.expand(shape), target.expand(shape)
    return _soft_margin_row(input, target, how, None)


@operation(
    samples=lambda draw: [
        call(draw(2, 3), draw(2, 3)), call(draw(4), draw(4), draw(4)), call(draw(2, 3), draw(2, 3), reduction="sum"),
        call(draw(2, 3), draw(2, 3), draw(3), reduction="none"), call(draw(0, 3), draw(0, 3), reduction="none"),
    ],
    module=F,
)  # fmt: skip
def multilabel_soft_margin_loss(
    input: Any, target: Any, weight: Any = None, size_average: Truth = None, reduce: Truth = None,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """The binary cross entropy of each class's logit, averaged over the classes of the last dimension.

    >>> import pellucid as torch
    >>> torch.nn.functional.multilabel_soft_margin_loss(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """
    how = reduction_of(reduction, size_average, reduce)
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return reduced(sum(loss, -1) / input.shape[-1], how)
