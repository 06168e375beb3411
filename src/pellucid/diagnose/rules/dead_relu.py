"""dead-relu: a ReLU whose units are off for every sample."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pellucid.diagnose.events import Operation, Pass
from pellucid.diagnose.finding import Finding, Related, Spot
from pellucid.diagnose.measures import (
    Site,
    array_of,
    describe,
    is_hidden,
    is_penalty,
    on_path,
    per_unit,
    sites,
    unit_axis,
)
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace

DEAD = 0.95  # share of units that are off for every sample
FEW = 4  # hidden units below which all may well be off by chance
SAMPLES = 8  # samples below which nothing can be said
RARELY = 0.005  # share of a layer's outputs that may be on where it is as good as dead
MOST = 0.8  # share of units off for every sample of a batch, for the same


@dataclass
class Watched:
    """What was seen of one ReLU: when it died, and which of its units have been on since, and how often."""

    operation: Operation
    since: int = -1  # the pass from which on it has been dead; -1: it is not
    looks: int = 0
    samples: int = 0
    lit: int = 0  # outputs that were on since then
    on: Any = field(default=None)  # units that were on since then
    lowest: float = 0.0
    highest: float = 0.0


class DeadRelu(Rule):
    """A ReLU passes no gradient where its input is negative; a unit that is off for every sample never learns again.

    A very negative bias, a step that was too large, or inputs of one sign do it. In a healthy layer about half of the
    units are off for a given sample, and a few for all samples; here nearly all are off for the whole batch, in every
    pass from some point on (or on for one sample in hundreds, which is not enough to learn from). A hinge loss that
    has become zero is no dead ReLU.
    """

    code = "dead-relu"
    explains = frozenset(("vanishing-gradient", "learning-rate-too-low", "saturated-activation"))

    def __init__(self) -> None:
        self.watched: dict[Site, Watched] = {}

    def look(self, done: Pass, trace: Trace) -> None:
        relus = [op for op in on_path(done, ("relu", "maximum", "threshold")) if _is_relu(op)]
        for site, operation in sites(relus):
            self._note(site, operation, done)

    def _note(self, site: Site, operation: Operation, done: Pass) -> None:
        given, result = array_of(operation.inputs[0]), array_of(operation.output)
        if given is None or result is None or not operation.finite:
            return
        lit = int(np.count_nonzero(result > 0))
        if lit > max(1 - DEAD, RARELY) * result.size:  # then more units than that are on for a sample
            self._awake(site)
            return
        axis = unit_axis(operation)
        off = per_unit(result <= 0, axis)
        dead = off.mean() >= DEAD or (off.mean() >= MOST and lit <= RARELY * result.size)
        if not dead or not (given.any() or operation.written_to):  # all zero: its weights are zero
            self._awake(site)
            return
        if is_penalty(operation, done) or (
            result.shape and result.shape[axis] < FEW and is_hidden(operation, done)
        ):  # fmt: skip
            return
        known = self.watched.setdefault(site, Watched(operation))
        if known.since < 0 or known.on is None or known.on.shape != off.shape:
            known.since, known.on, known.samples, known.looks, known.lit = done.number, ~off, 0, 0, 0
        known.on |= ~off
        known.looks += 1
        known.lit += lit
        known.samples += result.size // off.size
        known.operation, known.lowest, known.highest = operation, float(given.min()), float(given.max())

    def _awake(self, site: Site) -> None:
        known = self.watched.get(site)
        if known is not None:
            known.since, known.on = -1, None

    def findings(self, trace: Trace) -> Iterable[Finding]:
        passes = max(len(trace.backwards), 1)
        dead = [w for w in self.watched.values() if w.since >= 0 and _surely(w, passes)]
        if dead:
            first = min(dead, key=lambda w: (w.since, w.operation.order))
            yield self.finding(first, trace)

    def finding(self, dead: Watched, trace: Trace) -> Finding:
        operation = dead.operation
        return Finding(
            self.code, operation.spot, _words(dead),
            f"{describe(operation)}: its inputs lie between {dead.lowest:.3g} and {dead.highest:.3g} over "
            f"{dead.samples} samples in {dead.looks} passes, from pass {dead.since} on",
            "find what pushes its inputs below zero (a negative bias, a learning rate that is too high, inputs that "
            "are not normalised), or let something through:\n- relu(x)\n+ leaky_relu(x, 0.01)",
            related=_made_here(operation, trace), since=dead.since,
        )  # fmt: skip

    broken = (
        """
import torch
import torch.nn as nn
import torch.nn.functional as F


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(12, 32)
        self.out = nn.Linear(32, 3)
        nn.init.constant_(self.hidden.bias, -30.0)

    def forward(self, x):
        h = self.hidden(x)
        h = F.relu(h)  # BUG
        return self.out(h)


torch.manual_seed(0)
model = Classifier()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()
for step in range(15):
    x, y = torch.randn(24, 12), torch.randint(0, 3, (24,))
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
""",
        """
import torch
from torch import nn


def train(net, batches):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for images, labels in batches:
        scores = net(images)  # BUG
        loss = nn.functional.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(2)
net = nn.Sequential(
    nn.Conv2d(1, 6, 3), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(6 * 9, 4),
)
with torch.no_grad():
    net[0].weight.copy_(-net[0].weight.abs() - 0.1)
train(net, [(torch.rand(10, 1, 8, 8) + 0.5, torch.randint(0, 4, (10,))) for _ in range(8)])
""",
    )
    healthy = (
        """
import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.rand(64, 6)
y = x.sum(1, keepdim=True)
for step in range(60):
    optimizer.zero_grad()
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
""",
        """
import torch

torch.manual_seed(1)
centre = torch.tensor([[2.0, 2.0]])
x = torch.cat([torch.randn(40, 2) * 0.3 + centre, torch.randn(40, 2) * 0.3 - centre])
y = torch.cat([torch.ones(40), -torch.ones(40)])
w = torch.randn(2, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
optimizer = torch.optim.SGD([w, b], lr=0.3)
for step in range(80):  # a hinge: zero once every sample is on its side of the margin
    optimizer.zero_grad()
    hinge = torch.relu(1 - y * (x @ w + b)).mean()
    hinge.backward()
    optimizer.step()
""",
    )


def _is_relu(operation: Operation) -> bool:
    """Whether an operation is a ReLU: itself, the maximum with zero, or a threshold that writes zeros."""
    if not operation.inputs[0].requires_grad:
        return False
    if operation.op == "maximum":
        other = array_of(operation.inputs[1])
        return other is not None and not operation.inputs[1].requires_grad and not other.any()
    return operation.op == "relu" or operation.params == (0, 0)


def _surely(dead: Watched, passes: int) -> bool:
    """Whether enough was seen, and nothing else explains it: few units need more samples."""
    units = dead.on.size
    still = units - int(dead.on.sum()) >= DEAD * units or dead.lit <= RARELY * dead.samples * units
    return still and dead.samples >= (SAMPLES if units >= 8 else 2 * SAMPLES) and dead.looks >= min(2, passes)


def _words(dead: Watched) -> str:
    units, on = int(dead.on.size), int(dead.on.sum())
    if units - on >= DEAD * units:
        off = f"{units - on} of {units} units of this ReLU are off for every sample"
        return f"{off}: they pass no gradient and never learn again"
    off = f"this ReLU is off for {1 - dead.lit / (dead.samples * units):.2%} of what it gets"
    return f"{off}: next to no gradient passes, and the layers before it hardly learn"


def _made_here(operation: Operation, trace: Trace) -> tuple[Related, ...]:
    call = operation.module
    place = None if call is None or not call.path else trace.created(call.module)
    return () if place is None else (Related(Spot.of(place), f"{call.path} is made here"),)  # type: ignore[union-attr]
