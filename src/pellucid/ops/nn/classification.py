"""Losses of classes: cross entropy of logits, of log-probabilities, and of the output of a linear layer."""

import math
from math import prod
from typing import Any

from numpy import ndarray

from pellucid import dtypes
from pellucid.core.flags import Truth
from pellucid.core.kinds import plain
from pellucid.core.modes import is_quiet
from pellucid.core.tensor import bearing, wrap
from pellucid.core.views import current_node
from pellucid.ops.affine import linear
from pellucid.ops.arguments import Shape, expect, is_floating, name_of, refusal
from pellucid.ops.convert import as_type
from pellucid.ops.masked import masked_fill
from pellucid.ops.nn.class_rows import (
    alike,
    counts_row,
    cross_entropy_2d_row,
    cross_entropy_row,
    expanded,
    ignored_in,
    nll_2d_row,
    nll_row,
)
from pellucid.ops.nn.losses import F, reduction_of
from pellucid.ops.nn.normalise import ONE
from pellucid.ops.operation import Draw, Sample, call, operation
from pellucid.ops.reduce import sum
from pellucid.ops.shape import reshape
from pellucid.ops.softmax import log_softmax

INT64 = dtypes.int64.numpy
CLASSES = frozenset((dtypes.int64.numpy, dtypes.uint8.numpy))
IGNORED = -100  # the class of samples that do not count, unless another is named


# --- what PyTorch refuses


def _check_sizes(shape: Shape, target: Shape) -> None:
    """Targets have one class for each sample and place."""
    if len(shape) == 2 and target == shape[:1]:
        return
    if len(shape) in (1, 2):
        way = "target.squeeze(1)" if target[1:] == (1,) else "target.argmax(1), if it is one-hot"
        what = "0D or 1D target tensor expected, multi-target not supported"
        expect(len(target) < 2, what, f"the input has shape {shape}, the target {target}", way)
        if len(shape) == 2 and target != shape[:1]:
            given = target[0] if target else 1
            what = f"Expected input batch_size ({shape[0]}) to match target batch_size ({given})."
            raise refusal(ValueError, what, f"the input has shape {shape}, the target {target}")
        if len(shape) == 1 and target not in ((), (1,)):
            what = f"For 1D input, 1D target must have size 1, but got target size: {target[0]}"
            raise refusal(ValueError, what, "a class for each of several samples needs scores (N, C)")
    elif target != (shape[0], *shape[2:]):
        if target and target[0] != shape[0]:
            what = f"Expected input batch_size ({shape[0]}) to match target batch_size ({target[0]})."
            raise refusal(ValueError, what)
        raise refusal(RuntimeError, f"Expected target size {[shape[0], *shape[2:]]}, got {list(target)}")


def _check(input: Any, target: Any, weight: Any, kernel: str) -> None:
    if input.ndim == 0:
        raise refusal(ValueError, "Expected 1 or more dimensions (got 0)")
    if not is_floating(input):
        what = f"\"{kernel}\" not implemented for '{name_of(input)}'"
        raise refusal(NotImplementedError, what, f"the dtype is {input.dtype}", "convert it first, e.g. x.float()")
    if target.array.dtype not in CLASSES:
        what = f"expected target dtype to be Long or Byte, but got {name_of(target)}"
        raise refusal(RuntimeError, what, "a target is the number of a class", "target.long()")
    _check_sizes(input.array.shape, target.array.shape)
    if weight is not None:
        _check_weight(input, weight, "")
        expect(
            current_node(weight) is None,
            "The function 'nll_loss_forward' is not differentiable with respect to argument 'weight'. This input "
            "cannot have requires_grad True.",
        )


def _check_weight(input: Any, weight: Any, prefix: str) -> None:
    classes = input.shape[1 if input.ndim > 1 else 0]
    expect(
        tuple(weight.shape) == (classes,),
        f"{prefix}weight tensor should be defined either for all {classes} classes or no classes but got weight "
        f"tensor of shape: {list(weight.shape)}",
    )
    expect(weight.dtype == input.dtype, f"expected scalar type {name_of(input)} but found {name_of(weight)}")


# --- negative log-likelihood


def _one_sample(input: Any, target: Any) -> tuple[Any, Any]:
    """Scores of one sample as those of a batch of one."""
    return reshape(input, (1, input.shape[0])), reshape(target, (1,))


def counts_of(input: Any, target: Any, weight: Any, ignore: int, reduction: str) -> Any:
    """What each sample counts: its class's weight, nothing if it is ignored; for a mean they add up to 1."""
    scores, classes = input.array, target.array
    plainly = weight is None and type(classes) is type(scores) is ndarray and is_quiet()
    if plainly and ignored_in(classes, scores.shape[1], ignore) is None:
        return wrap(alike(classes.shape, scores.dtype, reduction == "mean"))
    if weight is None:
        weight = wrap(ONE[plain(scores.dtype)])
    return counts_row(target, weight, scores.shape[1], ignore, reduction == "mean")


def _of_samples(rows: tuple[Any, Any], input: Any, target: Any, weight: Any, ignore: int, reduction: str) -> Any:
    """Run a row of either kind (2-d, or with places) on a batch, on one sample, in half precision."""
    if plain(input.array.dtype) not in ONE:
        scores, weight = (None if each is None else as_type(each, dtypes.float32) for each in (input, weight))
        return as_type(_of_samples(rows, scores, target, weight, ignore, reduction), input.dtype)
    if input.ndim == 1:
        loss = _of_samples(rows, *_one_sample(input, target), weight, ignore, reduction)
        return reshape(loss, ()) if reduction == "none" else loss
    if target.array.dtype != INT64:
        target = as_type(target, dtypes.int64)
    counts = counts_of(input, target, weight, ignore, reduction)
    result = rows[input.ndim > 2](input, target, counts, ignore, "" if reduction == "none" else reduction)
    loss = result[0] if isinstance(result, tuple) else result
    if reduction == "none" and input.ndim not in (2, 4):
        return bearing("ViewBackward0", loss)  # PyTorch sees planes, and shapes the losses as the places were
    return loss if reduction != "mean" or prod(target.array.shape) else loss * math.nan  # the mean of nothing


def _class_samples(draw: Draw) -> list[Sample]:
    weight = draw(4, low=0.5).detach()
    return [
        call(draw(3, 4), draw.integers(3, high=4)), call(draw(3, 4), draw.integers(3, high=4), weight),
        call(draw(3, 4), draw.integers(3, high=4), reduction="sum"), call(draw(4), draw.integers(high=4)),
        call(draw(3, 4), draw.integers(3, high=4), weight, reduction="none"),
        call(draw(2, 3), draw.integers(2, high=1)), call(draw(2, 4, 3), draw.integers(2, 3, high=4), ignore_index=1),
        call(draw(2, 4, 2, 2), draw.integers(2, 2, 2, high=4), weight, ignore_index=0, reduction="sum"),
        call(draw(0, 4), draw.integers(0), reduction="none"),
    ]  # fmt: skip


@operation(samples=_class_samples, module=F)
def nll_loss(
    input: Any, target: Any, weight: Any = None, size_average: Truth = None, ignore_index: int = IGNORED,
    reduce: Truth = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """The negative of the log-probability that each sample gives to its class.

    Log-probabilities have shape (N, C, ...), targets (N, ...). The mean is weighted by the classes' weights.

    >>> import pellucid as torch
    >>> torch.nn.functional.nll_loss(torch.tensor([[-1.0, -2.0]]), torch.tensor([1]))
    tensor(2.)
    """
    how = reduction_of(reduction, size_average, reduce)
    _check(input, target, weight, "nll_loss_out_frame")
    return _of_samples((nll_row, nll_2d_row), input, target, weight, ignore_index, how)


# --- cross entropy


@operation(
    samples=lambda draw: [
        *_class_samples(draw), call(draw(3, 4), draw(3, 4, low=0.1)), call(draw(4), draw(4, low=0.1), draw(4)),
        call(draw(2, 4, 3), draw(2, 4, 3, low=0.1), reduction="none", label_smoothing=0.2),
        call(draw(3, 4), draw.integers(3, high=4), label_smoothing=0.1, ignore_index=2),
        call(draw(3, 4), draw.integers(3, high=4), draw(4, low=0.5).detach(), label_smoothing=0.1),
        call(draw(20, 130), draw.integers(20, high=130)), call(draw(2, 4) * 40, draw.integers(2, high=4)),
    ],
    module=F,
)  # fmt: skip
def cross_entropy(
    input: Any, target: Any, weight: Any = None, size_average: Truth = None, ignore_index: int = IGNORED,
    reduce: Truth = None, reduction: str = "mean", label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    """The negative logarithm of the share that softmax of the logits gives to each sample's class.

    Logits have shape (N, C, ...); targets are classes (N, ...), or probabilities of the logits' shape.

    >>> import pellucid as torch
    >>> torch.nn.functional.cross_entropy(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
    tensor(0.6931)
    """
    how = reduction_of(reduction, size_average, reduce)
    if not 0 <= label_smoothing <= 1:
        raise refusal(RuntimeError, f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if input.array.shape == target.array.shape:
        return _of_probabilities(input, target, weight, ignore_index, how, label_smoothing)
    _check(input, target, weight, "log_softmax_lastdim_kernel_impl")
    if label_smoothing:
        return _smoothed(input, target, weight, ignore_index, how, label_smoothing)
    return _of_samples((cross_entropy_row, cross_entropy_2d_row), input, target, weight, ignore_index, how)


def _of_probabilities(
    input: Any, target: Any, weight: Any, ignore: int, reduction: str, smoothing: float
) -> Any:
    """Every class counts with its probability."""
    expect(
        is_floating(target),
        f"Expected floating point type for target with class probabilities, got {name_of(target)}",
    )
    expect(ignore < 0, "ignore_index is not supported for floating point target")
    axis = 1 if input.ndim > 1 else 0
    classes = input.shape[axis]
    if smoothing:
        target = target * (1 - smoothing) + smoothing / max(classes, 1)
    logs = log_softmax(input, axis) * target
    if weight is not None:
        _check_weight(input, weight, "cross_entropy: ")
        logs = logs * (expanded(weight, tuple(input.shape)) if axis else weight)
    if reduction == "none":
        return -sum(logs, axis)
    total = -sum(logs)
    if reduction != "mean":
        return total
    return bearing("DivBackward1", total / (prod(input.shape) / classes if classes else 0.0))


def _smoothed(input: Any, target: Any, weight: Any, ignore: int, reduction: str, smoothing: float) -> Any:
    """A part of each sample's count is spread evenly over all classes."""
    if input.ndim == 1:
        loss = _smoothed(*_one_sample(input, target), weight, ignore, reduction, smoothing)
        return reshape(loss, ()) if reduction == "none" else loss
    logs = log_softmax(input, 1)
    of_class = nll_loss(logs, target, weight, ignore_index=ignore, reduction=reduction)
    everywhere = -sum(logs if weight is None else logs * expanded(weight, tuple(input.shape)), 1)
    spread = masked_fill(everywhere, target == ignore, 0.0)  # also where the logits of what is ignored are not finite
    if reduction != "none":
        spread = sum(spread)
    if reduction == "mean":  # over what the samples count for, as the mean of the other part
        kept = as_type(target != ignore, input.dtype) if weight is None else None
        spread = spread / sum(counts_of(input, target, weight, ignore, "sum") if kept is None else kept)
    return of_class * (1 - smoothing) + spread * (smoothing / input.shape[1])


# --- cross entropy of a linear layer


@operation(
    samples=lambda draw: [
        call(draw(3, 2), draw(4, 2), draw.integers(3, high=4)), call(draw(2), draw(4, 2), draw.integers(high=4)),
        call(draw(3, 2), draw(4, 2), draw(3, 4, low=0.1), linear_bias=draw(4), reduction="sum"),
        call(draw(3, 2), draw(4, 5, 2), draw.integers(3, 5, high=4), linear_bias=draw(4, 5), ignore_index=1),
        call(draw(3, 2), draw(4, 2), draw.integers(3, high=4), weight=draw(4, low=0.5).detach(), reduction="none"),
        call(draw(3, 2), draw(4, 2), draw.integers(3, high=4), label_smoothing=0.1),
    ],
    module=F,
)  # fmt: skip
def linear_cross_entropy(
    input: Any, linear_weight: Any, target: Any, *, linear_bias: Any = None, weight: Any = None,
    reduction: str = "mean", ignore_index: int | None = None, label_smoothing: float = 0.0, options: Any = None,
) -> Any:  # fmt: skip
    """The cross entropy of `linear(input, linear_weight, linear_bias)`.

    A weight of shape (C, d1, ..., in_features) gives logits (N, C, d1, ...). `options` say how PyTorch may cut the
    work into chunks; the result is the same without.

    >>> import pellucid as torch
    >>> torch.nn.functional.linear_cross_entropy(torch.ones(1, 2), torch.zeros(2, 2), torch.tensor([0]))
    tensor(0.6931)
    """
    places = _check_linear(input, linear_weight, linear_bias)
    logits_shape = (*input.shape[:-1], linear_weight.shape[0], *places)
    expect(
        ignore_index is None or tuple(target.shape) != logits_shape,
        "ignore_index cannot be specified when target contains probabilities",
    )
    if places:
        linear_weight = reshape(linear_weight, (-1, input.shape[-1]))
        linear_bias = None if linear_bias is None else reshape(linear_bias, -1)
    logits = reshape(linear(input, linear_weight, linear_bias), logits_shape)
    ignore = IGNORED if ignore_index is None else ignore_index
    return cross_entropy(
        logits, target, weight, reduction=reduction, ignore_index=ignore, label_smoothing=label_smoothing
    )


def _check_linear(input: Any, weight: Any, bias: Any) -> Shape:
    """The extra dimensions of the weight; refuse what does not fit together."""
    expect(input.ndim in (1, 2), f"expected input with dimensionality 1 or 2, got {input.ndim}")
    expect(weight.ndim >= 2, f"expected linear_weight with dimensionality at least 2, got {weight.ndim}")
    expect(
        input.shape[-1] == weight.shape[-1],
        "expected equal input and linear_weight last dimensions (in_features), got "
        f"{input.shape[-1]} and {weight.shape[-1]}, respectively",
    )
    if bias is not None:
        expected = tuple(weight.shape[:-1])
        expect(tuple(bias.shape) == expected, f"expected linear_bias shape {expected}, got {tuple(bias.shape)}")
    places = tuple(weight.shape[1:-1])
    expect(
        not places or input.ndim == 2,
        f"K-dimensional loss defined by linear_weight shape {tuple(weight.shape)} requires batched input, "
        f"(N, {input.shape[-1]}), got unbatched input with shape {tuple(input.shape)}",
    )
    return places
