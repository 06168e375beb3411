"""What the losses share: how a loss is reduced to one number, and rows that compute and reduce it in one step."""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core.primitive import add_up, general
from pellucid.core.provenance import warn
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor
from pellucid.ops.arguments import refusal
from pellucid.ops.expand import broadcast_tensors
from pellucid.ops.operation import Draw, Sample, broadcast_hint, call
from pellucid.ops.reduce import behind_batch, mean, mean_all_row, mean_row, sum, sum_all_row, sum_row

add_reduce = np.add.reduce
REDUCTIONS = ("none", "mean", "sum")
F = "torch.nn.functional"


# --- arguments


def reduction_of(reduction: str, size_average: bool | None = None, reduce: bool | None = None) -> str:
    """How to reduce: none, mean or sum. The two older arguments win over `reduction`, and are warned of.

    >>> reduction_of("sum")
    'sum'
    """
    if size_average is not None or reduce is not None:
        _check_no_tensors(size_average, reduce)
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
        text = f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead."
        warn(text)
    if reduction == "elementwise_mean":
        text = "reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead."
        warn(text)
        return "mean"
    if reduction not in REDUCTIONS:
        raise refusal(ValueError, f"{reduction} is not a valid value for reduction", try_="'none', 'mean' or 'sum'")
    return reduction


def _check_no_tensors(*options: Any) -> None:
    """Refuse `CrossEntropyLoss(input, target)`, which would take the target for an option."""
    if any(isinstance(option, Tensor) and option.array.size > 1 for option in options):
        what = "Boolean value of Tensor with more than one value is ambiguous"
        why = "a tensor was given where size_average and reduce stand, which are True or False"
        raise refusal(RuntimeError, what, why, "make the loss first, then call it: CrossEntropyLoss()(input, target)")


def reduced(loss: Any, reduction: str) -> Any:
    """A loss for each element, reduced."""
    if reduction == "none":
        return loss
    return mean(loss) if reduction == "mean" else sum(loss)


def met(input: Any, target: Any) -> tuple[Any, Any]:
    """Input and target of one shape; sizes that differ are broadcast, with PyTorch's warning."""
    if input.array.shape != target.array.shape:
        warn(
            f"Using a target size ({dtypes.Size(target.shape)}) that is different to the input size "
            f"({dtypes.Size(input.shape)}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size."
        )
        return broadcast_tensors(input, target)  # type: ignore[no-any-return]
    return input, target


def weighted(loss: Any, weight: Any, input: Any, reduction: str, by_weight: bool) -> Any:
    """A loss for each element times its weight; the mean is that of the elements or, `by_weight`, of the weights."""
    if tuple(weight.shape) != tuple(input.shape):
        raise refusal(ValueError, "Weights and input must have the same size.")
    if reduction not in REDUCTIONS:
        what = f"Invalid reduction mode: {reduction}. Expected one of 'none', 'mean', 'sum'."
        raise refusal(ValueError, what)
    loss = loss * weight
    return sum(loss) / sum(weight) if reduction == "mean" and by_weight else reduced(loss, reduction)


# --- rows: `row(input, target, reduction, how)`


def per_element(g: Any, shape: tuple[int, ...], reduction: str) -> Any:
    """The gradient of each element's loss, from that of the reduced loss."""
    return g * (1 / (prod(shape) or 1)) if reduction == "mean" else g


def reduced_row(t: Any, reduction: str) -> Any:
    """The same reduction in rows: of a tangent."""
    if reduction == "none":
        return t
    return mean_all_row(t) if reduction == "mean" else sum_all_row(t)


def _batch(op: Any, a: Any, b: Any, reduction: str, how: Any) -> Any:
    losses = op(a, b, "none", how)
    if reduction == "none":
        return losses
    return (mean_row if reduction == "mean" else sum_row)(losses, behind_batch(losses), False)


def loss_row(
    name: str,
    value: Callable[..., np.ndarray],
    slope: Callable[..., Any],
    target_slope: Callable[..., Any] | None,
    back: Callable[..., Any] | None = None,
    target_back: Callable[..., Any] | None = None,
) -> Any:
    """The row of a loss of input and target of one shape, `row(input, target, reduction, how)`.

    `value(a, b, how)` is the kernel for each element; the slopes are the derivatives in rows; `back(g, a, b, how)`
    is g times the first of them, where that is worth a row of its own, and `target_back` g times the second.
    """

    def forward(a: np.ndarray, b: np.ndarray, reduction: str, how: Any) -> Any:
        y = value(a, b, how)
        if reduction == "none":
            return y
        total = add_reduce(y, None)
        return total / y.size if reduction == "mean" else total

    def of_input(g: Any, a: Any, b: Any, reduction: str, how: Any) -> Any:
        g = per_element(g, a.shape, reduction)
        return slope(a, b, how) * g if back is None else back(g, a, b, how)

    def of_target(g: Any, a: Any, b: Any, reduction: str, how: Any) -> Any:
        g = per_element(g, a.shape, reduction)
        return target_slope(a, b, how) * g if target_back is None else target_back(g, a, b, how)  # type: ignore[misc]

    def jvp(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
        reduction, how = params
        slopes = (slope, target_slope)
        terms = (f(*inputs, how) * t for f, t in zip(slopes, tangents, strict=True) if t is not None and f is not None)
        return reduced_row(add_up(terms), reduction)

    return bind(
        general(
            name, forward, of_input, of_target if target_slope else None, jvp=jvp, dtypes="promote", batch=_batch,
            hint=broadcast_hint,
        )
    )  # fmt: skip


def pair_samples(draw: Draw) -> list[Sample]:
    """Input and target of one shape, each way to reduce."""
    return [
        call(draw(2, 3), draw(2, 3)), call(draw(2, 3), draw(2, 3), reduction="sum"), call(draw(), draw()),
        call(draw(4), draw(4), reduction="none"), call(draw(0), draw(0), reduction="sum"),
        call(draw(2, 1, 3), draw(2, 1, 3), reduction="mean"),
    ]  # fmt: skip
