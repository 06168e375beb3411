"""Losses of order: margins between scores, between distances, between classes."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pellucid.core.flags import Truth
from pellucid.core.primitive import constant
from pellucid.core.record import bind
from pellucid.core.tensor import bearing
from pellucid.ops.arguments import expect, name_of, refusal
from pellucid.ops.elementwise import sqrt
from pellucid.ops.gather import gather
from pellucid.ops.nn.distance import pairwise_distance
from pellucid.ops.nn.losses import REDUCTIONS, F, reduced, reduction_of
from pellucid.ops.operation import COMPOSED, call, operation
from pellucid.ops.ranges import arange
from pellucid.ops.reduce import sum
from pellucid.ops.select import clamp_min, minimum, relu, where
from pellucid.ops.shape import reshape, unsqueeze

# --- two scores


@operation(
    samples=lambda draw: [
        call(draw(4), draw(4), draw(4).sign().detach()), call(draw(2, 3), draw(2, 3), draw(2, 3), 0.5),
        call(draw(), draw(), draw(), margin=1.0, reduction="sum"), call(draw(2, 3), draw(1, 3), draw(2, 1), 0.1),
        call(draw(4), draw(4), draw(4), reduction="none"), call(draw(0), draw(0), draw(0), reduction="sum"),
    ],
    module=F, aliases=("torch.margin_ranking_loss",),
)  # fmt: skip
def margin_ranking_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0, size_average: Truth = None,
    reduce: Truth = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """max(0, -target * (input1 - input2) + margin): target 1 wants the first to be larger, -1 the second.

    >>> import pellucid as torch
    >>> torch.nn.functional.margin_ranking_loss(torch.tensor([1.0]), torch.tensor([3.0]), torch.tensor([1.0]))
    tensor(2.)
    """
    how = reduction_of(reduction, size_average, reduce)
    expect(
        input1.ndim == input2.ndim == target.ndim,
        "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
        f"input1: {input1.shape}, input2: {input2.shape}, target: {target.shape} ",
    )
    return reduced(clamp_min(-target * (input1 - input2) + float(margin), 0), how)


@operation(
    samples=lambda draw: [
        call(draw(4), draw.mask(4) * 2.0 - 1), call(draw(2, 3), draw.mask(2, 3) * 2.0 - 1, 0.5),
        call(draw(), draw.mask() * 2.0 - 1, reduction="sum"), call(draw(4), draw(4), reduction="none"),
        call(draw(0), draw(0), reduction="sum"),
    ],
    module=F, aliases=("torch.hinge_embedding_loss",),
    tensors=2,
)  # fmt: skip
def hinge_embedding_loss(
    input: Any, target: Any, margin: float = 1.0, size_average: Truth = None, reduce: Truth = None,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """The input itself (a distance) where the target is 1, and max(0, margin - input) where it is -1.

    >>> import pellucid as torch
    >>> torch.nn.functional.hinge_embedding_loss(torch.tensor([0.3, 0.3]), torch.tensor([1.0, -1.0]))
    tensor(0.5000)
    """
    how = reduction_of(reduction, size_average, reduce)
    apart = where(target != 1, clamp_min(margin - input, 0), 0)
    return reduced(apart + where(target != -1, input, 0), how)


# --- distances and angles


@operation(
    samples=lambda draw: [
        call(draw(2, 3), draw(2, 3), draw.mask(2) * 2.0 - 1), call(draw(3), draw(3), draw.mask() * 2.0 - 1),
        call(draw(4, 3), draw(4, 3), draw.mask(4) * 2.0 - 1, 0.1, reduction="sum"),
        call(draw(4, 3), draw(1, 3), draw.mask(4) * 2.0 - 1, margin=-0.5, reduction="none"),
    ],
    module=F, aliases=("torch.cosine_embedding_loss",),
)  # fmt: skip
def cosine_embedding_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0, size_average: Truth = None,
    reduce: Truth = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """1 - cos of the angle between vectors where the target is 1, and max(0, cos - margin) where it is -1.

    >>> import pellucid as torch
    >>> x, y = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    >>> torch.nn.functional.cosine_embedding_loss(x, y, torch.tensor([1.0]))
    tensor(1.)
    """
    how = reduction_of(reduction, size_average, reduce)
    expect(target.ndim < 2, "0D or 1D target tensor expected, multi-target not supported")
    expect(
        input1.ndim == input2.ndim == target.ndim + 1,
        f"{target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found inputs with sizes "
        f"{list(input1.shape)} and {list(input2.shape)}.",
    )
    lengths = sqrt((sum(input1 * input1, -1) + 1e-12) * (sum(input2 * input2, -1) + 1e-12))
    cosine = sum(input1 * input2, -1) / lengths
    together = where(target == 1, 1 - cosine, 0)
    return reduced(together + where(target == -1, clamp_min(cosine - float(margin), 0), 0), how)


def _triplet(
    distance: Callable[[Any, Any], Any], anchor: Any, positive: Any, negative: Any, margin: float, swap: bool,
    reduction: str,
) -> Any:  # fmt: skip
    if margin <= 0:
        raise refusal(ValueError, f"margin must be greater than 0, got {margin}")
    expect(
        anchor.ndim == positive.ndim == negative.ndim,
        "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
        f"anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs",
    )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return reduced(clamp_min(margin + near - far, 0), reduction)


@operation(
    samples=lambda draw: [
        call(draw(2, 3), draw(2, 3), draw(2, 3)), call(draw(2, 3), draw(2, 3), draw(2, 3), 3.0, swap=True),
        call(draw(3), draw(3), draw(3), reduction="sum"), call(draw(2, 3), draw(2, 3), draw(2, 3), p=3),
        call(draw(2, 2, 3), draw(2, 2, 3), draw(2, 2, 3), 2.0, 1.0, 0.1),
    ],
    module=F, aliases=("torch.triplet_margin_loss",),
)  # fmt: skip
def triplet_margin_loss(
    anchor: Any, positive: Any, negative: Any, margin: float = 1.0, p: float = 2, eps: float = 1e-6,
    swap: bool = False, size_average: Truth = None, reduce: Truth = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """How much the anchor is farther from the positive than from the negative, less a margin: at least 0.

    With `swap` the distance of the negative from the positive counts too, if that is smaller.

    >>> import pellucid as torch
    >>> a, p, n = torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 2.0]])
    >>> torch.nn.functional.triplet_margin_loss(a, p, n)
    tensor(4.0000)
    """
    how = reduction_of(reduction, size_average, reduce)
    return _triplet(lambda x, y: pairwise_distance(x, y, p, eps), anchor, positive, negative, margin, swap, how)


@operation(
    samples=lambda draw: [
        call(draw(2, 3), draw(2, 3), draw(2, 3)), call(draw(2, 3), draw(2, 3), draw(2, 3), margin=3.0, swap=True),
        call(draw(3), draw(3), draw(3), distance_function=lambda x, y: ((x - y) * (x - y)).sum(-1), reduction="sum"),
        call(draw(2, 3), draw(2, 3), draw(2, 3), reduction="none"),
    ],
    module=F,
)  # fmt: skip
def triplet_margin_with_distance_loss(
    anchor: Any, positive: Any, negative: Any, *, distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0, swap: Truth = False, reduction: str = "mean",
) -> Any:  # fmt: skip
    """`triplet_margin_loss` with a distance of your own.

    >>> import pellucid as torch
    >>> a, p, n = torch.tensor([0.0]), torch.tensor([3.0]), torch.tensor([2.0])
    >>> far = lambda x, y: (x - y).abs()
    >>> torch.nn.functional.triplet_margin_with_distance_loss(a, p, n, distance_function=far)
    tensor(2.)
    """
    if reduction not in REDUCTIONS:
        raise refusal(ValueError, f"{reduction} is not a valid value for reduction")
    return _triplet(distance_function or pairwise_distance, anchor, positive, negative, margin, swap, reduction)


# --- classes


def _check_scores(input: Any) -> None:
    fits = input.ndim == 0 or (input.ndim < 3 and input.shape[-1] > 0)
    expect(fits, f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}")


def _check_kinds(input: Any, target: Any, kernel: str) -> None:
    """Refuse other dtypes; as in PyTorch after all shapes were looked at."""
    if name_of(input) not in ("Float", "Double"):
        raise refusal(NotImplementedError, f"\"{kernel}\" not implemented for '{name_of(input)}'")
    expect(name_of(target) == "Long", f"expected scalar type Long but found {name_of(target)}")


def _within(target: np.ndarray, classes: int) -> np.ndarray:
    if np.count_nonzero((target < 0) | (target >= classes)):
        raise refusal(RuntimeError, "target out of range", f"there are {classes} classes")
    return target.copy()


_within_row = bind(constant("within", _within, 1, elementwise=True))


@operation(
    samples=lambda draw: [
        call(draw(3, 4), draw.integers(3, high=4)), call(draw(3, 4), draw.integers(3, high=4), 2, 0.5),
        call(draw(4), draw.integers(high=4)), call(draw(4), draw.integers(1, high=4), reduction="none"),
        call(draw(3, 4), draw.integers(3, high=4), weight=draw(4, low=0.5).detach(), reduction="sum"),
        call(draw(), draw.integers(high=1)),
    ],
    module=F, unclaimed=COMPOSED,
)  # fmt: skip
def multi_margin_loss(
    input: Any, target: Any, p: int = 1, margin: float = 1.0, weight: Any = None, size_average: Truth = None,
    reduce: Truth = None, reduction: str = "mean",
) -> Any:  # fmt: skip
    """The mean over the other classes of max(0, margin - score of the target's class + score)^p.

    >>> import pellucid as torch
    >>> torch.nn.functional.multi_margin_loss(torch.tensor([[1.0, 0.5]]), torch.tensor([0]))
    tensor(0.2500)
    """
    how = reduction_of(reduction, size_average, reduce)
    if p not in (1, 2):
        raise refusal(ValueError, "only p == 1 and p == 2 supported")
    if weight is not None and weight.ndim != 1:
        raise refusal(ValueError, "weight must be one-dimensional")
    _check_scores(input)
    scores = input if input.ndim == 2 else reshape(input, (1, -1))
    count, classes = scores.shape
    expect(
        target.ndim < 2 and (tuple(target.shape) or (1,)) == (count,),
        f"target tensor should be 1-D with size equal to the number of samples. Expected target size [{count}], but "
        f"got {list(target.shape)}",
    )
    if weight is not None:
        size = list(weight.shape)
        expect(size == [classes], f"inconsistent weight size, expected {classes} but got {size}")
    _check_kinds(input, target, "multi_margin_loss_cpu_kernel")
    index = reshape(_within_row(target, classes), (count, 1))
    # The target's own class is left out first: behind the square its inf - inf would still have a gradient, NaN.
    over = relu(where(arange(classes) == index, 0, margin - gather(scores, 1, index) + scores))
    if p == 2:
        over = over * over
    if weight is not None:
        over = over * reshape(weight[index], (count, 1))
    losses = sum(over, 1) / classes
    losses = reshape(losses, tuple(target.shape)) if how == "none" else losses
    return bearing("MultiMarginLossBackward0", reduced(losses, how))


def _labels(target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which labels count, those before the first -1, and which classes are among them."""
    classes = target.shape[1]
    if np.count_nonzero((target < -1) | (target >= classes)):
        raise refusal(RuntimeError, "argument #2 'target' is out of range", f"there are {classes} classes")
    counting = np.logical_and.accumulate(target >= 0, axis=1)
    among = np.zeros(target.shape, bool)
    rows, places = counting.nonzero()
    among[rows, target[rows, places]] = True
    return counting, among


_labels_row = bind(constant("labels", _labels, 1, outputs=2))


@operation(
    samples=lambda draw: [
        call(draw(2, 4), draw.integers(2, 4, low=-1, high=4)), call(draw(4), draw.integers(4, low=-1, high=4)),
        call(draw(3, 4), draw.integers(3, 4, low=-1, high=4), reduction="sum"),
        call(draw(3, 4), draw.integers(3, 4, low=0, high=4), reduction="none"), call(draw(), draw.integers(high=1)),
    ],
    module=F, unclaimed=COMPOSED,
)  # fmt: skip
def multilabel_margin_loss(
    input: Any, target: Any, size_average: Truth = None, reduce: Truth = None, reduction: str = "mean"
) -> Any:
    """max(0, 1 - score of a target's class + score), over all labels and all classes that are no labels.

    Labels stand at the front of each row of the target; -1 ends them. Divided by the number of classes.

    >>> import pellucid as torch
    >>> torch.nn.functional.multilabel_margin_loss(torch.tensor([[1.0, 0.5]]), torch.tensor([[0, -1]]))
    tensor(0.2500)
    """
    how = reduction_of(reduction, size_average, reduce)
    _check_scores(input)
    expect(
        tuple(target.shape) == tuple(input.shape) or (input.ndim == 0 and tuple(target.shape) in ((), (1,))),
        f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}",
    )
    _check_kinds(input, target, "multilabel_margin_loss_forward_out_frame")
    scores = input if input.ndim == 2 else reshape(input, (1, -1))
    labels = reshape(target, tuple(scores.shape))
    counting, among = _labels_row(labels)
    wanted = unsqueeze(gather(scores, 1, labels * counting), 2)
    over = relu(1 - wanted + unsqueeze(scores, 1))
    pairs = unsqueeze(counting, 2) & ~unsqueeze(among, 1)
    losses = sum(where(pairs, over, 0), (1, 2)) / scores.shape[1]
    loss = reduced(losses if input.ndim == 2 else reshape(losses, ()), how)
    return bearing("MultilabelMarginLossBackward0", loss)
