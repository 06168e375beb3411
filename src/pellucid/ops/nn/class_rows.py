"""The rows of cross entropy: exponentials, sums, logarithms and the choice of the target's class in one step.

What a sample counts (its class's weight, its share of the mean, 0 if it is ignored) is worked out before, by a row
without derivative; so the loss itself is the same for every way to weight and to reduce it.
"""

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from pellucid.core.primitive import add_up, constant, general, multilinear
from pellucid.core.record import bind
from pellucid.native import MANY, native
from pellucid.native.words import Array, Indices, log, product
from pellucid.ops.along import put_along_add_row, take_along_row
from pellucid.ops.arguments import Shape, refusal
from pellucid.ops.expand import expand_row
from pellucid.ops.nn.workers import in_parts
from pellucid.ops.reduce import behind_batch, sum_all_row, sum_row
from pellucid.ops.select import drop
from pellucid.ops.shape import reshape_row
from pellucid.ops.softmax import BLOCK, CALM, FAINT, MICROSECONDS, by_column, exponentials, exponentials_of, largest_of

add_reduce, maximum_reduce, minimum_reduce = np.add.reduce, np.maximum.reduce, np.minimum.reduce


def with_class_axis(t: Any) -> Any:
    """(N, ...) as (N, 1, ...): an axis for the classes."""
    return reshape_row(t, (t.shape[0], 1, *t.shape[1:]))


def merged(t: Any) -> Any:
    """The batch axis of vmap and the axis of the samples as one."""
    return reshape_row(t, (t.shape[0] * t.shape[1], *t.shape[2:]))


def parted(t: Any, like: Any) -> Any:
    """The two axes apart again."""
    return reshape_row(t, (*like.shape[:2], *t.shape[1:]))


# --- what each sample counts


def _counts(target: np.ndarray, weight: np.ndarray, classes: int, ignore: int, mean: bool) -> np.ndarray:
    ignored = ignored_in(target, classes, ignore)
    if weight.ndim:
        counts = weight.take(target if ignored is None else np.where(ignored, 0, target))
    else:
        counts = np.ones(target.shape, weight.dtype)
    if ignored is not None:
        counts[ignored] = 0
    if mean:
        counts = counts / add_reduce(counts, None)
        if ignored is not None:  # 0 / 0 where all are: what is ignored gets no gradient, not NaN
            counts[ignored] = 0
    return counts


@lru_cache(maxsize=32)
def alike(shape: Shape, dtype: np.dtype, mean: bool) -> np.ndarray:
    """The counts where no sample is ignored and no class has a weight."""
    counts = np.full(shape, 1 / max(prod(shape), 1) if mean else 1, dtype)
    counts.flags.writeable = False
    return counts


def ignored_in(target: np.ndarray, classes: int, ignore: int) -> np.ndarray | None:
    """Where targets are ignored, None if none is; refuse those that are no class.

    Seen as unsigned a negative number is a very large one: one comparison finds all that are no class.
    """
    unsigned = target.view(np.uint64)
    if not 0 <= ignore < classes and (not target.size or maximum_reduce(unsigned, None) < classes):
        return None
    ignored = target == ignore
    outside = (unsigned >= classes) & ~ignored
    if np.count_nonzero(outside):
        bad = int(target[outside][0])
        way = "count the classes from 0" if bad == classes else "ignore_index names a target to leave out"
        why = f"there are {classes} classes: 0 to {classes - 1}"
        raise refusal(IndexError, f"Target {bad} is out of bounds.", why, way)
    return ignored if np.count_nonzero(ignored) else None


def _batch_counts(op: Any, target: Any, weight: Any, classes: int, ignore: int, mean: bool) -> Any:
    one = np.ones((), weight.dtype)
    counts = op(target, one, classes, ignore, False)
    if weight.ndim == 2:
        chosen = reshape_row(target * (target != ignore), (target.shape[0], prod(target.shape[1:])))
        counts = counts * reshape_row(take_along_row(weight, chosen, 1), tuple(target.shape))
    if not mean:
        return counts
    totals = sum_row(counts, behind_batch(counts), True) if counts.ndim > 1 else counts
    return drop(counts / totals, target == ignore)


# counts_row(target, weight, classes, ignore, mean): the weight of each sample; for a mean they add up to 1.
counts_row = bind(constant("sample_counts", _counts, 2, batch=_batch_counts))


# --- the negative of one log-probability per sample


def chosen(target: Any, ignore: int) -> Any:
    """The class of each sample with an axis for the classes; that of an ignored sample is 0."""
    return with_class_axis(target * (target != ignore))


def places_of(target: np.ndarray, shape: Shape) -> np.ndarray:
    """Where the targets' classes lie in the flattened scores of that shape, (N, C, ...)."""
    if len(shape) == 2:
        return target + _offsets(shape[0], shape[1], 1)[:, 0]  # type: ignore[no-any-return]
    step = prod(shape[2:])
    places = target * step + _offsets(shape[0], shape[1], step).reshape(target.shape)
    return places  # type: ignore[no-any-return]


@lru_cache(maxsize=32)
def _offsets(count: int, classes: int, step: int) -> np.ndarray:
    return np.arange(0, count * classes * step, classes * step or 1)[:count, None] + np.arange(step)


def _picked(a: np.ndarray, target: np.ndarray, ignored: np.ndarray | None) -> np.ndarray:
    """What stands at the target's class, 0 for ignored samples (which may have any value there)."""
    if ignored is None:
        return a.reshape(-1).take(places_of(target, a.shape))
    picked = a.reshape(-1).take(places_of(np.where(ignored, 0, target), a.shape))
    picked[ignored] = 0
    return picked


def _reduced(losses: np.ndarray, counts: np.ndarray, ignored: np.ndarray | None, reduce: str) -> Any:
    """The losses as they count, or what they add up to; the mean of none is NaN."""
    if reduce == "mean" and ignored is not None and ignored.all():
        return np.asarray(np.nan, losses.dtype)
    if not reduce:
        return losses * counts
    if losses.size < MANY:
        return losses.reshape(-1).dot(counts.reshape(-1))
    return add_reduce(losses * counts, None)  # in blocks: a long inner product of BLAS's loses digits


def _nll(a: np.ndarray, target: np.ndarray, counts: np.ndarray, ignore: int, reduce: str) -> Any:
    ignored = ignored_in(target, a.shape[1], ignore)
    return -_reduced(_picked(a, target, ignored), counts, ignored, reduce)


def spread(g: Any, counts: Any) -> Any:
    """The gradient of each sample's log-probability, but for the sign; with an axis for the classes."""
    return with_class_axis(g * counts)


def _batch_reduced(losses: Any, counts: Any, reduce: str) -> Any:
    if not reduce:
        return losses
    loss = sum_row(losses, behind_batch(losses), False)
    if reduce == "mean":  # 0 / 1, or 0 / 0
        loss = loss + 0.0 / sum_row(counts, behind_batch(counts), False)
    return loss


def _batch_nll(op: Any, a: Any, target: Any, counts: Any, ignore: int, reduce: str) -> Any:
    losses = parted(op(merged(a), merged(target), merged(counts), ignore, ""), a)
    return _batch_reduced(losses, counts, reduce)


def nll_rows(name: str, grad_name: str) -> Any:
    """A row `row(log_probabilities, target, counts, ignore, reduce)`; the gradient of the target's class is -counts.

    `reduce` is "mean" (the counts are then shares), "sum", or empty for the loss of each sample.
    """
    return bind(
        multilinear(
            name, _nll,
            lambda g, a_shape, b, c, ignore, reduce: put_along_add_row(
                -spread(g, c), chosen(b, ignore), 1, tuple(a_shape)
            ),
            None, None, grad_name=grad_name, batch=_batch_nll,
        )
    )  # fmt: skip


nll_row = nll_rows("nll_loss", "NllLossBackward0")
nll_2d_row = nll_rows("nll_loss_2d", "NllLoss2DBackward0")


# --- the same from logits: the loss, the exponentials E of the logits (shifted or not), and 1 / their sums R


def _exponentials(a: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, Any]:
    """Write E into y; the sums along the class axis, and what was taken off before."""
    if a.ndim == 2 and a.size:
        return exponentials(y, a) if a.size <= BLOCK else _exponentials_by_blocks(a, y)
    if a.size and maximum_reduce(a, None) < CALM:
        sums = add_reduce(np.exp(a, y), 1)
        if minimum_reduce(sums, None) > FAINT:
            return sums, None
    shift = maximum_reduce(a, 1, keepdims=True, initial=None if a.shape[1] else -np.inf)
    return add_reduce(np.exp(np.subtract(a, shift, y), y), 1), shift


@native
def cross_entropy_loop(
    first: int, last: int, a: Array, y: Array, target: Indices, losses: Array, inverse: Array, n: int
) -> None:
    """Of rows of n logits: their exponentials, the largest taken off before, the target's loss, and 1 / their sum."""
    for row in range(first, last):
        begin = row * n
        shift = largest_of(a, begin, n)
        total = exponentials_of(a, y, begin, n, shift)
        losses[row] = log(total) + shift - a[begin + target[row]]
        inverse[row] = 1.0 / total


@native
def cross_entropy_back_loop(
    first: int, last: int, g: Array, powers: Array, inverse: Array, target: Indices, out: Array, n: int
) -> None:
    """The gradient of rows of n logits: the probabilities, less 1 at the target, as much as each row counts."""
    for row in range(first, last):
        begin, scale = row * n, product(g[row], inverse[row])
        for i in range(begin, begin + n):
            out[i] = product(powers[i], scale)
        out[begin + target[row]] = out[begin + target[row]] - g[row]


def _exponentials_by_blocks(a: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    sums, shifts = np.empty(len(a), a.dtype), np.zeros((len(a), 1), a.dtype)
    step = max(1, BLOCK // a.shape[1])

    def work(part: slice) -> None:
        for begin in range(part.start, part.stop, step):
            block = slice(begin, min(begin + step, part.stop))
            sums[block], shift = exponentials(y[block], a[block])
            if shift is not None:
                shifts[block] = shift

    in_parts(work, len(a), a.size * MICROSECONDS)
    return sums, shifts


def _cross_entropy(
    a: np.ndarray, target: np.ndarray, counts: np.ndarray, ignore: int, reduce: str
) -> tuple[Any, np.ndarray, np.ndarray]:
    powers = np.empty(a.shape, a.dtype)
    ignored = ignored_in(target, a.shape[1], ignore)
    if a.ndim == 2 and a.size >= MANY and cross_entropy_loop.fits(a):
        losses, inverse = np.empty(len(a), a.dtype), np.empty(len(a), a.dtype)
        classes = np.ascontiguousarray(target if ignored is None else np.where(ignored, 0, target))
        cross_entropy_loop(len(a), a.shape[1], a, powers, classes, losses, inverse, a.shape[1])
    else:
        sums, shift = _exponentials(a, powers)
        losses = np.log(sums)
        if shift is not None:
            losses += shift.reshape(losses.shape)
        losses -= _picked(a, target, ignored)
        inverse = np.divide(1, sums, sums)
    if ignored is not None:
        losses[ignored] = 0
    return _reduced(losses, counts, ignored, reduce), powers, inverse.reshape(a.shape[0], 1, *a.shape[2:])


def _back(g: np.ndarray, powers: np.ndarray, inverse: np.ndarray, index: np.ndarray) -> np.ndarray:
    """g (E R - 1 at the target's class): the gradient of the logits."""
    out = np.empty(powers.shape, powers.dtype)
    if out.ndim == 2 and out.size >= MANY and cross_entropy_back_loop.fits(g, powers, inverse):
        classes = np.ascontiguousarray(index)
        cross_entropy_back_loop(len(out), out.shape[1], g, powers, inverse, classes, out, out.shape[1])
        return out
    factor = g * inverse
    if out.ndim == 2:
        by_column(np.multiply, powers, factor, out)
    else:
        np.multiply(powers, factor, out)
    places = places_of(index[:, 0], out.shape)
    out.reshape(-1)[places] -= g.reshape(places.shape)
    return out


def _back_of_g(v: Any, powers: Any, inverse: Any, index: Any) -> Any:
    return sum_row(v * powers, (1,), True) * inverse - take_along_row(v, index, 1)


def _back_jvp(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    (tg, tp, ti, _), (g, powers, inverse, index) = tangents, inputs
    terms = [None if tg is None else cross_entropy_back_row(tg, powers, inverse, index)]
    terms.append(None if tp is None else tp * (g * inverse))
    terms.append(None if ti is None else powers * (g * ti))
    return add_up(term for term in terms if term is not None)


# cross_entropy_back_row(g, E, R, index): g, R and the index of the class with a class axis of size 1
cross_entropy_back_row = bind(
    general(
        "cross_entropy_back", _back,
        lambda g, b, c, d: _back_of_g(g, b, c, d),
        lambda g, a, c: g * (a * c),
        lambda g, a, b: sum_row(g * b, (1,), True) * a,
        None,
        jvp=_back_jvp, grad_name="LogSoftmaxBackwardDataBackward0",
        batch=lambda op, g, powers, inverse, index: parted(
            op(merged(g), merged(powers), merged(inverse), merged(index)), g
        ),
    )
)  # fmt: skip


def _pullback(g: Any, y: Any, b: Any, c: Any, ignore: int, reduce: str) -> Any:
    """The shift counts as constant: what is made of E and R in the end does not depend on it."""
    (of_loss, of_powers, of_inverse), (_, powers, inverse) = g, y
    terms = []
    if of_loss is not None:
        terms.append(cross_entropy_back_row(spread(of_loss, c), powers, inverse, chosen(b, ignore)))
    if of_powers is not None:
        terms.append(of_powers * powers)
    if of_inverse is not None:
        terms.append(-(of_inverse * inverse * inverse) * powers)
    return add_up(terms), None, None


def _jvp(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    (t, _, _), (_, powers, inverse), (_, target, counts), (ignore, reduce) = tangents, y, inputs, params
    pushed = powers * t
    moved = sum_row(pushed, (1,), True) * inverse
    losses = reshape_row(moved - take_along_row(t, chosen(target, ignore), 1), tuple(counts.shape)) * counts
    return sum_all_row(losses) if reduce else losses, pushed, -(inverse * moved)


def _batch(op: Any, a: Any, target: Any, counts: Any, ignore: int, reduce: str) -> Any:
    losses, powers, inverse = (parted(part, a) for part in op(merged(a), merged(target), merged(counts), ignore, ""))
    return _batch_reduced(losses, counts, reduce), powers, inverse


def cross_entropy_rows(name: str, grad_name: str) -> Any:
    """A row `row(logits, target, counts, ignore, reduce)` that returns the loss, E and R."""
    return bind(
        general(
            name, _cross_entropy, None, None, None, pullback=_pullback, jvp=_jvp, outputs=3, batch=_batch,
            grad_name=grad_name, unread=1,
        )
    )  # fmt: skip


cross_entropy_row = cross_entropy_rows("cross_entropy", "NllLossBackward0")
cross_entropy_2d_row = cross_entropy_rows("cross_entropy_2d", "NllLoss2DBackward0")


def expanded(weight: Any, shape: Shape) -> Any:
    """A weight per class, expanded to the shape (N, C, ...) of the logits."""
    return expand_row(reshape_row(weight, (1, weight.shape[0], *(1,) * (len(shape) - 2))), shape)
