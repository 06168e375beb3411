"""Connectionist temporal classification: the loss of a sequence of labels whose alignment is not known.

All alignments of the labels with the frames are summed by dynamic programming over the extended labels (a blank
before, between and after them), for the whole batch at once, in logarithms. Backward runs the same recursion from the
end; what both say together is the probability of each label at each frame.

As in PyTorch the gradient presumes that log_probs come from log_softmax: it is exp(log_probs) minus that probability.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid.core.attributes import concrete
from pellucid.core.primitive import general
from pellucid.core.record import bind
from pellucid.core.tensor import Tensor
from pellucid.ops.arguments import expect, is_floating, refusal
from pellucid.ops.construct import tensor
from pellucid.ops.nn.losses import F, reduced, reduction_of
from pellucid.ops.operation import Draw, Sample, call, operation
from pellucid.ops.reduce import sum_row
from pellucid.ops.shape import reshape

Lengths = tuple[int, ...]
NEVER = -np.inf


class Paths:
    """The extended labels of a batch: blank, label, blank, ..., blank; and which steps between them are allowed."""

    def __init__(self, targets: np.ndarray, lengths: Lengths, frames: Lengths, blank: int) -> None:
        self.frames = np.array(frames)
        self.ends = 2 * np.array(lengths, dtype=np.int64)  # the place of the last blank
        self.labels = np.full((len(lengths), 2 * max(lengths, default=0) + 1), blank, np.int64)
        begin = 0
        for row, length in enumerate(lengths):
            given = targets[row, :length] if targets.ndim == 2 else targets[begin : begin + length]
            self.labels[row, 1 : 2 * length : 2] = given
            begin += length
        self.exist = np.arange(self.labels.shape[1]) <= self.ends[:, None]
        self.skips = np.zeros(self.labels.shape, bool)  # a label may follow another one without a blank between
        self.skips[:, 2:] = (self.labels[:, 2:] != blank) & (self.labels[:, 2:] != self.labels[:, :-2])

    def emissions(self, log_probs: np.ndarray) -> np.ndarray:
        """The log-probability of each extended label at each frame: (frames, batch, places)."""
        rows = np.arange(len(self.labels))[:, None]
        return np.where(self.exist, log_probs[:, rows, self.labels], log_probs.dtype.type(NEVER))


def _sum_of_three(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """log(exp(a) + exp(b) + exp(c)), also of -inf."""
    most = np.maximum(np.maximum(a, b), c)
    shift = np.where(np.isfinite(most), most, most.dtype.type(0))
    return np.log(np.exp(a - shift) + np.exp(b - shift) + np.exp(c - shift)) + shift


def _moved(a: np.ndarray, steps: int) -> np.ndarray:
    """The values of the place that many steps before (or behind, if negative); none there is -inf."""
    out = np.full(a.shape, NEVER, a.dtype)
    if steps > 0:
        out[:, steps:] = a[:, :-steps]
    else:
        out[:, :steps] = a[:, -steps:]
    return out


def _from_start(paths: Paths, heard: np.ndarray) -> np.ndarray:
    """For each frame and place the log-probability of all ways to be there; a sequence that has ended stays."""
    out = np.full(heard.shape, NEVER, heard.dtype)
    if not len(out):
        return out
    out[0, :, :2] = heard[0, :, :2]
    for t in range(1, len(heard)):
        before = out[t - 1]
        skipped = np.where(paths.skips, _moved(before, 2), before.dtype.type(NEVER))
        after = _sum_of_three(before, _moved(before, 1), skipped) + heard[t]
        out[t] = np.where((t < paths.frames)[:, None], after, before)
    return out


def _from_end(paths: Paths, heard: np.ndarray) -> np.ndarray:
    """For each frame and place the log-probability of all ways from there to the end."""
    out = np.full(heard.shape, NEVER, heard.dtype)
    rows, ends = np.arange(len(paths.ends)), paths.ends
    after = np.full(heard.shape[1:], NEVER, heard.dtype)
    for t in reversed(range(len(heard))):
        skipped = _moved(np.where(paths.skips, after, after.dtype.type(NEVER)), -2)
        after = _sum_of_three(after, _moved(after, -1), skipped) + heard[t]
        last = rows[t == paths.frames - 1]
        for place in (ends[last], np.maximum(ends[last] - 1, 0)):
            after[last, place] = heard[t, last, place]
        out[t] = after
    return out


def _losses(paths: Paths, reached: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The negative logarithm of ending at the last blank or the last label."""
    if not len(reached):
        return np.where(paths.ends == 0, dtype.type(0), dtype.type(np.inf))
    rows, last = np.arange(len(paths.ends)), reached[-1]
    label = np.where(paths.ends > 0, last[rows, np.maximum(paths.ends - 1, 0)], last.dtype.type(NEVER))
    losses = -np.logaddexp(last[rows, paths.ends], label)
    return np.where(paths.frames == 0, np.where(paths.ends == 0, 0, np.inf).astype(dtype), losses)


def _ctc(
    log_probs: np.ndarray, targets: np.ndarray, frames: Lengths, lengths: Lengths, blank: int, zero_infinity: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The losses, and the recursion from the start, which backward needs again."""
    paths = Paths(targets, lengths, frames, blank)
    reached = _from_start(paths, paths.emissions(log_probs))
    losses = _losses(paths, reached, log_probs.dtype)
    return np.where(np.isinf(losses), losses.dtype.type(0), losses) if zero_infinity else losses, reached


def _ctc_back(
    g: np.ndarray, log_probs: np.ndarray, targets: np.ndarray, reached: np.ndarray,
    frames: Lengths, lengths: Lengths, blank: int, zero_infinity: bool,
) -> np.ndarray:  # fmt: skip
    paths = Paths(targets, lengths, frames, blank)
    losses = _losses(paths, reached, log_probs.dtype)
    both = reached + _from_end(paths, paths.emissions(log_probs))
    most = np.maximum.reduce(both, 2, keepdims=True) if both.size else both[:, :, :1]
    shift = np.where(np.isfinite(most), most, most.dtype.type(0))
    shares = np.exp(both - shift).transpose(1, 0, 2) @ _one_hot(paths.labels, log_probs.shape[2], log_probs.dtype)
    logs = np.log(shares).transpose(1, 0, 2) + shift
    out = np.exp(log_probs) - np.exp(logs + losses[:, None] - log_probs)
    out *= g[:, None]
    out[np.arange(len(out))[:, None] >= paths.frames] = 0
    if zero_infinity:
        out[:, np.isinf(losses)] = 0
    return out


def _one_hot(labels: np.ndarray, classes: int, dtype: np.dtype) -> np.ndarray:
    out = np.zeros((*labels.shape, classes), dtype)
    np.put_along_axis(out, labels[:, :, None], 1, 2)
    return out


def _no_second_order(*_: Any) -> Any:
    what = "derivative for aten::_ctc_loss_backward is not implemented"
    raise refusal(RuntimeError, what, "the gradient presumes normalised log_probs; it has no derivative of its own")


# ctc_back_row(g, log_probs, targets, reached, frames, lengths, blank, zero_infinity): linear in g
ctc_back_row = bind(
    general(
        "ctc_loss_back", _ctc_back,
        lambda g, a_shape, b, c, d, frames, lengths, blank, zero_infinity: sum_row(
            g * ctc_back_row(np.ones(a_shape, b.dtype), b, c, d, frames, lengths, blank, zero_infinity), (0, 2), False
        ),
        lambda g, frames, lengths, blank, zero_infinity: _no_second_order(), None, None,
        jvp=_no_second_order, grad_name="CtcLossBackwardBackward0",
    )
)  # fmt: skip


def _pullback(
    g: Any, y: Any, a: Any, b: Any, frames: Lengths, lengths: Lengths, blank: int, zero_infinity: bool
) -> Any:
    return ctc_back_row(g[0], a, b, y[1], frames, lengths, blank, zero_infinity), None


def _jvp(tangents: Any, y: Any, inputs: Any, params: Any) -> Any:
    ones = np.ones(y[0].shape, inputs[0].dtype)
    return sum_row(tangents[0] * ctc_back_row(ones, *inputs, y[1], *params), (0, 2), False), None


ctc_row = bind(
    general("ctc_loss", _ctc, None, None, pullback=_pullback, jvp=_jvp, outputs=2, grad_name="CtcLossBackward0")
)


# --- the public operation


def _lengths(given: Any, name: str) -> Lengths:
    """Lengths as ints, from a tensor or a sequence."""
    if isinstance(given, Tensor):
        expect(not is_floating(given), f"{name} must be integral")
        return tuple(np.asarray(concrete(given, "ctc_loss()")).reshape(-1).tolist())
    return tuple(int(n) for n in (given if isinstance(given, Sequence) else [given]))


def _check(log_probs: Any, targets: Any, frames: Lengths, lengths: Lengths, blank: int) -> None:
    steps, batch, classes = log_probs.shape
    expect(0 <= blank < classes, "blank must be in label range")
    for name, given in (("input_lengths", frames), ("target_lengths", lengths)):
        expect(len(given) == batch, f"{name} must be of size batch_size")
    for name, given, most in (("input_lengths", frames, steps), ("target_lengths", lengths, None)):
        bad = [n for n in given if n < 0 or (most is not None and n > most)]
        expect(not bad, f"Expected {name} to have value at least 0 and at most {most}, but got value {bad[:1]}")
    if targets.ndim == 1:
        total = sum(lengths)
        expect(targets.shape[0] == total, f"Expected tensor to have size {total} at dimension 0, but got size "
                                          f"{targets.shape[0]} for argument #2 'targets'")  # fmt: skip
    else:
        expect(targets.ndim == 2 and targets.shape[0] == batch, "targets must be of size batch_size")
        expect(
            targets.shape[1] >= max(lengths, default=0),
            f"Expected tensor to have size at least {max(lengths, default=0)} at dimension 1, but got size "
            f"{targets.shape[1]} for argument #2 'targets'",
        )


def _ctc_samples(draw: Draw) -> list[Sample]:
    def case(frames: int, batch: int, classes: int) -> Tensor:
        return draw(frames, batch, classes).log_softmax(-1).detach().requires_grad_()  # type: ignore[no-any-return]

    return [
        call(case(5, 2, 4), draw.integers(2, 2, low=1, high=4), [5, 4], [2, 1]),
        call(case(5, 2, 4), draw.integers(3, low=1, high=4), (5, 5), (1, 2), reduction="sum"),
        call(case(6, 1, 3), draw.integers(1, 3, low=0, high=2), [6], [3], blank=2, reduction="none"),
        call(case(2, 2, 3), draw.integers(2, 4, low=1), [2, 2], [4, 0], zero_infinity=True),
        call(draw(4, 3).log_softmax(-1).detach().requires_grad_(), draw.integers(2, low=1), [4], [2]),
    ]  # fmt: skip


@operation(
    samples=_ctc_samples,
    module=F,
    unclaimed={
        "gradient_equals_differences": "the gradient presumes normalised log_probs, as PyTorch's does",
        "second_order_equals_differences": "PyTorch has no second order here either",
        "second_order_equals_torch": "PyTorch has no second order here either",
        "node_name": "the first sample is reduced by a mean",
    },
)
def ctc_loss(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:  # fmt: skip
    """The negative log-probability that the frames spell the labels, whatever the alignment.

    log_probs have shape (T, N, C) or (T, C); targets (N, S), or all labels in one row. The mean is that of the losses
    divided by their target's length. `zero_infinity` lets targets that are too long for their input cost nothing.

    >>> import pellucid as torch
    >>> log_probs = torch.full((2, 1, 2), 0.5).log()
    >>> torch.nn.functional.ctc_loss(log_probs, torch.tensor([[1]]), [2], [1])  # -log(3/4)
    tensor(0.2877)
    """
    how = reduction_of(reduction)
    if not is_floating(log_probs) or log_probs.dtype.itemsize < 4:
        raise refusal(NotImplementedError, f"\"ctc_loss_cpu\" not implemented for {log_probs.dtype}")
    expect(math.prod(log_probs.shape) > 0, "log_probs tensor must not be empty")
    if log_probs.ndim == 2:
        one = reshape(log_probs, (log_probs.shape[0], 1, log_probs.shape[1]))
        loss = ctc_loss(one, reshape(targets, -1), input_lengths, target_lengths, blank, how, zero_infinity)
        return reshape(loss, ()) if how == "none" else loss
    frames, lengths = _lengths(input_lengths, "input_lengths"), _lengths(target_lengths, "target_lengths")
    _check(log_probs, targets, frames, lengths, blank)
    losses, _ = ctc_row(log_probs, targets, frames, lengths, blank, zero_infinity)
    if how == "mean":
        losses = losses / tensor([max(n, 1) for n in lengths], dtype=losses.dtype)
    return reduced(losses, how)


REDUCTION = ("none", "mean", "sum")  # PyTorch's numbers of them


@operation(
    name="ctc_loss",
    samples=lambda draw: [
        call(*sample.args, **{**sample.kwargs, "reduction": REDUCTION.index(sample.kwargs.get("reduction", "mean"))})
        for sample in _ctc_samples(draw)[:3]
    ],
    methods=(),
    unclaimed={
        "gradient_equals_differences": "the gradient presumes normalised log_probs, as PyTorch's does",
        "second_order_equals_differences": "PyTorch has no second order here either",
        "second_order_equals_torch": "PyTorch has no second order here either",
    },
)
def _torch_ctc_loss(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: int = 1,
    zero_infinity: bool = False,
) -> Any:  # fmt: skip
    """`nn.functional.ctc_loss` under its name in the main namespace: 0, 1 and 2 mean none, mean and sum."""
    how = REDUCTION[reduction]
    return ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, how, zero_infinity)
