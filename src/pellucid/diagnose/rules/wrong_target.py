"""wrong-target: class index out of range, wrong dtype, values outside the loss's range, or one constant class."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from pellucid.diagnose.events import LossCall, Parameter, Pass, Value
from pellucid.diagnose.finding import Finding, Spot
from pellucid.diagnose.origins import class_axis, numbers, origin
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace

BY_CLASS = ("cross_entropy", "nll_loss", "multi_margin_loss")
BINARY = ("binary_cross_entropy", "binary_cross_entropy_with_logits", "multilabel_soft_margin_loss")
SIGNED = ("cosine_embedding_loss", "margin_ranking_loss", "hinge_embedding_loss", "soft_margin_loss")
LABELS = ({0.0}, {0.0, 1.0}, {2.0}, {1.0, 2.0})  # of two classes, where signs are wanted
MANY = 30  # targets of one class and no other before that is worth a word


class WrongTarget(Rule):
    """A loss says what its targets are: class indices from 0 to C-1 as int64, or probabilities as floats.

    Labels that start at 1, that are -1 and 1, or that are pixels from 0 to 255 are a loss of something else, or a
    crash. Losses of pairs and margins want -1 and 1: for them a label of 0 is no negative, it is nothing at all. A
    text that is longer than the frames it is read from costs infinitely much (ctc_loss). Targets that are all one
    class teach the model to say that class, unless another loss wants the other classes of the same layer: a
    discriminator with a class of its own for what is made up.
    """

    code = "wrong-target"
    at_once = False
    explains = frozenset((
        "division-by-zero", "log-of-zero", "overflow", "learning-rate-too-high", "exploding-gradient",
        "saturated-activation",
    ))  # fmt: skip

    def __init__(self) -> None:
        self.found: dict[Spot, tuple[str, str, str, int]] = {}  # what, evidence, fix, first pass
        self.failed: tuple[LossCall, str] | None = None
        self.classes: dict[Spot, set[float]] = {}
        self.counted: dict[Spot, int] = {}
        self.signs: dict[Spot, tuple[LossCall, set[float], int]] = {}  # what was there instead of -1 and 1, since when
        self.told_apart: set[Spot] = set()  # another loss of the same pass wants other classes of the same layer

    def look(self, done: Pass, trace: Trace) -> None:
        wanted: dict[frozenset[Parameter], dict[Spot, set[float]]] = {}
        for call in done.losses:
            target = numbers(call.target)
            if target is None or call.input is None:
                continue
            for what, evidence, fix in RANGES.get(call.name, _anything)(call, target):
                self.found.setdefault(call.spot, (what, evidence, fix, done.number))
            self._count(call, target)
            if call.name in SIGNED:
                self.signs.setdefault(call.spot, (call, set(), done.number))[1].update(np.unique(target).tolist())
            if call.spot in self.classes:
                of_layer = wanted.setdefault(_last_weights(call.input), {})
                of_layer.setdefault(call.spot, set()).update(self.classes[call.spot])
        for of_layer in wanted.values():
            if len(set().union(*of_layer.values())) > 1:
                self.told_apart.update(of_layer)
        if done.losses and done.losses[-1].result is None:
            self.failed = (done.losses[-1], _described(done.losses[-1]))

    def _count(self, call: LossCall, target: np.ndarray) -> None:
        """Remember which classes were wanted, unless they are made up: a contrastive loss wants the first always."""
        if call.name not in BY_CLASS or call.target.floating or _joined(call.input):  # type: ignore[union-attr]
            return
        classes = self.classes.setdefault(call.spot, set())
        if len(classes) < 2:
            classes.update((float(target.min()), float(target.max())))  # two are enough to tell that it is not one
            self.counted[call.spot] = self.counted.get(call.spot, 0) + target.size

    def findings(self, trace: Trace) -> Iterable[Finding]:
        crash = trace.crash
        said = "" if crash is None or isinstance(crash.error, Warning) else crash.said  # python -W error
        if self.failed is not None and _of_target(said):
            call, described = self.failed
            said = said.splitlines()[0]
            yield Finding(
                self.code, call.spot, f"{call.name} refuses its target: {said}", described, _fix_for(said),
                since=trace.open.number,
            )  # fmt: skip
            return
        for spot, (what, evidence, fix, since) in self.found.items():
            yield Finding(self.code, spot, what, evidence, fix, since=since)
        for spot, (call, seen, since) in self.signs.items():
            if seen in LABELS:
                yield Finding(
                    self.code, spot, f"{call.name} wants targets of -1 and 1, and gets labels of two classes",
                    f"the targets are {' and '.join(f'{label:g}' for label in sorted(seen))}: none of them says that a "
                    "pair or a sample is negative", SIGNS_FIX.format(1 if 0 in seen else 3), since=since,
                )  # fmt: skip
        for spot, classes in self.classes.items():
            known = spot in self.found or spot in self.told_apart
            if len(classes) == 1 and self.counted[spot] >= MANY and not known:
                yield Finding(
                    self.code, spot, f"every target is class {next(iter(classes)):g}: there is nothing to tell apart",
                    f"{self.counted[spot]} targets were looked at, all of one class",
                    "check how the labels are made and shuffled",
                )  # fmt: skip

    broken = (
        """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x = torch.randn(30, 4)
y = torch.randint(1, 4, (30,))  # labels 1, 2, 3
for epoch in range(5):
    optimizer.zero_grad()
    logits = model(x)
    loss = nn.functional.cross_entropy(logits, y)  # BUG
    loss.backward()
    optimizer.step()
""",
        """
import torch
import torch.nn as nn


def step(model, batch, labels, optimizer, criterion):
    optimizer.zero_grad()
    loss = criterion(model(batch).squeeze(1), labels)  # BUG
    loss.backward()
    optimizer.step()
    return loss.item()


torch.manual_seed(2)
model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
criterion = nn.BCEWithLogitsLoss()
data = torch.randn(40, 5)
labels = torch.where(data[:, 0] > 0, torch.tensor(1.0), torch.tensor(-1.0))
for _ in range(10):
    step(model, data, labels, optimizer, criterion)
""",
        """
import torch

torch.manual_seed(0)
net = torch.nn.Linear(6, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(50, 6)
labels = (x.mean(1) > 100).long()  # a wrong threshold: all are 0
for epoch in range(6):
    opt.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(x), labels)  # BUG
    loss.backward()
    opt.step()
""",
        """
import torch
from torch import nn

torch.manual_seed(0)
tower = nn.Linear(6, 4)
criterion = nn.CosineEmbeddingLoss(margin=0.1)
optimizer = torch.optim.Adam(tower.parameters(), lr=1e-2)
for step in range(8):
    left = torch.randn(20, 6)
    same = (torch.rand(20) < 0.5).float()  # 1 and 0
    right = torch.where(same[:, None] > 0, left, torch.randn(20, 6))
    loss = criterion(tower(left), tower(right), same)  # BUG
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        """
import torch

torch.manual_seed(0)
net = torch.nn.Linear(4, 5)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
frames, texts = torch.randn(6, 3, 4), torch.tensor([[1, 2, 3, 4], [2, 2, 2, 2], [3, 1, 0, 0]])
for step in range(5):
    log_probabilities = net(frames).log_softmax(2)
    loss = torch.nn.functional.ctc_loss(log_probabilities, texts, (6, 6, 6), (4, 4, 2))  # BUG
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    )
    healthy = (
        """
import torch
import torch.nn.functional as F

torch.manual_seed(0)
encoder = torch.nn.Linear(8, 4)
optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3)
for step in range(5):
    x = torch.randn(10, 8)
    a = F.normalize(encoder(x), dim=1)
    b = F.normalize(encoder(x + 0.1 * torch.randn(10, 8)), dim=1)
    negatives = F.normalize(torch.randn(20, 4), dim=1)
    logits = torch.cat([(a * b).sum(1, keepdim=True), a @ negatives.T], dim=1) / 0.2
    loss = F.cross_entropy(logits, torch.zeros(10, dtype=torch.long))  # the positive is always the first
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        """
import torch
import torch.nn.functional as F

torch.manual_seed(0)
embed = torch.nn.Linear(6, 4)
optimizer = torch.optim.Adam(embed.parameters(), lr=1e-2)
for step in range(8):
    anchor = torch.randn(12, 6)
    a, p, n = embed(anchor), embed(anchor + 0.1 * torch.randn(12, 6)), embed(torch.randn(12, 6))
    scores = torch.stack([-(a - p).pow(2).sum(1), -(a - n).pow(2).sum(1)], dim=1)
    log_p = F.log_softmax((scores - scores.detach().amax(1, keepdim=True)) / 0.5, dim=1)
    loss = F.nll_loss(log_p, torch.zeros(12, dtype=torch.long))  # the near one shall win
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        """
import torch
import torch.nn.functional as F

torch.manual_seed(0)
net = torch.nn.Linear(6, 5)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
texts, lengths = torch.tensor([1, 2, 2, 3, 4]), (3, 2)
for step in range(8):
    first, second = torch.randn(16, 6), torch.randn(16, 6)
    ahead = torch.sign((first - second).sum(1).round())  # ties are 0: neither shall be ahead
    ranked = F.margin_ranking_loss(net(first)[:, 0], net(second)[:, 0], ahead)
    alike = F.cosine_embedding_loss(net(first), net(first + 0.1), torch.ones(16))  # only pairs that belong together
    frames = net(torch.randn(4, 2, 6)).log_softmax(2)
    loss = ranked + alike + F.ctc_loss(frames, texts, torch.tensor([4, 4]), torch.tensor(lengths))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    )


def _last_weights(value: Value | None) -> frozenset[Parameter]:
    """The parameters of the layer that a loss's input comes from: of a discriminator they are those of every batch."""
    while value is not None and value.maker is not None:
        taken = value.maker.inputs
        weights = frozenset(each.parameter for each in taken if each.parameter is not None)
        if weights:
            return weights
        value = next((each for each in taken if each.requires_grad), None)
    return frozenset()


def _joined(scores: Value | None, hops: int = 8) -> bool:
    """Whether scores are put together from parts, one for the positive and others, also if they were scaled since."""
    made = origin(scores)
    if made is None or made.op in ("cat", "stack"):
        return made is not None
    alike = [value for value in made.inputs if value.shape == made.output.shape]
    return hops > 0 and any(_joined(value, hops - 1) for value in alike)


def _anything(call: LossCall, target: np.ndarray) -> Iterator[tuple[str, str, str]]:
    yield from ()


def _classes(call: LossCall, target: np.ndarray) -> Iterator[tuple[str, str, str]]:
    if call.target is None or call.target.floating:
        if call.name == "cross_entropy":
            yield from _shares(call, target)
        return
    low, high, ignored = target.min(), target.max(), call.options.get("ignore_index", -100)
    classes = call.input.shape[class_axis(call)] if call.input is not None and call.input.shape else 1
    if low >= 0 and high < classes and not low == high == ignored:
        return
    used = target[target != ignored]
    if not used.size:
        what = "every target is ignore_index: no sample counts"
        yield what, f"all {target.size} targets are {ignored}", IGNORED_FIX
    elif used.min() < 0 or used.max() >= classes:
        what = f"the targets lie between {used.min():g} and {used.max():g}, the model has {classes} classes"
        yield "a class index is out of range", what, CLASS_FIX


def _shares(call: LossCall, target: np.ndarray) -> Iterator[tuple[str, str, str]]:
    if target.ndim < 2 or call.input is None or target.shape != call.input.shape:
        return
    sums = target.sum(class_axis(call))
    if target.min() < -1e-6 or not np.allclose(sums, 1, atol=1e-2):
        evidence = f"they add up to {float(sums.min()):.3g} to {float(sums.max()):.3g} per sample"
        yield "targets of cross_entropy that are floats must be probabilities of the classes", evidence, SHARES_FIX


def _unit(call: LossCall, target: np.ndarray) -> Iterator[tuple[str, str, str]]:
    low, high = target.min(), target.max()
    if low < -1e-6 or high > 1 + 1e-6:
        yield "targets lie outside of 0 to 1", f"they lie between {low:.4g} and {high:.4g}", BINARY_FIX


def _counts(call: LossCall, target: np.ndarray) -> Iterator[tuple[str, str, str]]:
    if target.min() < 0:
        yield "counts are negative", f"the smallest is {target.min():.4g}", "use counts from 0 on"


def _spelled(call: LossCall, target: np.ndarray) -> Iterator[tuple[str, str, str]]:
    """Texts that hold the blank, or that are longer than their frames."""
    frames, lengths = (_lengths(call.options.get(name)) for name in ("input_lengths", "target_lengths"))
    if frames is None or lengths is None or frames.shape != lengths.shape:
        return
    texts, blank = _texts(target, lengths), call.options.get("blank", 0)
    needed = lengths + [_repeats(text) for text in texts]  # a blank has to part two labels that are alike
    short = needed > frames
    if any((text == blank).any() for text in texts):
        yield "a target of ctc_loss holds the blank, which stands for no label", f"the blank is {blank}", BLANK_FIX
    elif short.all() or (short.any() and not call.options.get("zero_infinity")):
        worst = int((needed - frames).argmax())
        evidence = f"{short.sum()} of {short.size} targets; one needs {needed[worst]} frames, and has {frames[worst]}"
        yield "ctc_loss gets fewer frames than its targets need", evidence, FRAMES_FIX


def _lengths(given: Any) -> Any:
    array = numbers(given) if isinstance(given, Value) else given
    return None if array is None else np.asarray(array, np.int64).reshape(-1)


def _texts(target: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    """The labels of each sample: rows that are padded, or all in one row."""
    if target.ndim == 2:
        return [row[:length] for row, length in zip(target, lengths, strict=False)]
    return np.split(target, np.cumsum(lengths)[:-1])


def _repeats(text: np.ndarray) -> int:
    return int((text[1:] == text[:-1]).sum())


RANGES: dict[str, Callable[[LossCall, np.ndarray], Iterator[tuple[str, str, str]]]] = {
    **dict.fromkeys(BY_CLASS, _classes), **dict.fromkeys(BINARY, _unit),
    "poisson_nll_loss": _counts, "ctc_loss": _spelled,
}  # fmt: skip

CLASS_FIX = (
    "count the classes from 0, and give the last layer as many outputs as there are classes; if they start at 1:"
    "\n- y\n+ y - 1"
)
BINARY_FIX = "make them 0 and 1, e.g.\n- labels\n+ (labels > 0).float()\n(pixels: images / 255)"
SHARES_FIX = "give class indices (int64), or probabilities that add up to 1 per sample"
SIGNS_FIX = "make signs of them:\n- y\n+ 2 * y - {}"
BLANK_FIX = "count the labels from 1 and give the model one class more, or say which class is the blank: blank=C-1"
FRAMES_FIX = (
    "give it more frames (less pooling or stride before it, longer windows), or leave such samples out: "
    "zero_infinity=True lets them cost nothing"
)
IGNORED_FIX = "check how the targets are made: nothing is left to learn from"
FLOAT_FIX = "- y\n+ y.float()"
DTYPE_FIX = "class indices are int64, probabilities are floats:\n- y\n+ y.long()"


def _of_target(text: str) -> bool:
    words = ("target", "out of bounds", "dtype", "expected scalar type", "class", "batch_size", "multi-target", "index")
    return any(word in text.lower() for word in words)


def _fix_for(said: str) -> str:
    if "can't be cast" in said or "Integral" in said:
        return FLOAT_FIX
    if "dtype" in said or "scalar type" in said:
        return DTYPE_FIX
    if "bounds" in said or "range" in said:
        return CLASS_FIX
    return (
        "class indices have shape (N,), without the dimension of the classes:\n- y\n+ y.squeeze(1)"
        if "multi" in said
        else ("give the target the shape and the range the loss expects")
    )


def _described(call: LossCall) -> str:
    target = numbers(call.target)
    shape = () if call.input is None else call.input.shape
    if target is None or call.target is None:
        return f"the input has shape {shape}"
    return (
        f"the input has shape {shape}, the target shape {call.target.shape} and dtype {call.target.dtype}, with values "
        f"between {target.min():g} and {target.max():g}"
    )
