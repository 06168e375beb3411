"""learning-rate-too-low: steps so small that nothing is learned."""

from collections.abc import Iterable, Sequence

import numpy as np

from pellucid.diagnose.events import Pass
from pellucid.diagnose.finding import Finding, Related, Spot
from pellucid.diagnose.measures import Progress, progress
from pellucid.diagnose.movement import ByHand, Step, rate_set_at, steps_of
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace

STEP = 2e-5  # a change of the parameters, against their norm, that a run of some length cannot live on
FEW = 5e-6  # the same for a run of few steps
RUN = 2e-3  # what all steps together change
GAIN = 0.02  # the share of the loss that all steps together can have gained
LEFT = 0.2  # of the first loss: below that there was not much left to learn
NOTHING = 1e-7  # a rate that is wrong by itself, whatever else is
COLLAPSED = 1e-3  # of the largest rate: the schedule has switched training off


class LearningRateTooLow(Rule):
    """Steps that are negligible against the parameters cannot move the loss, however long the run.

    Measured is what all steps together can have gained: the distance moved times the slope. A warm-up starts with tiny
    rates too, but they grow; at a minimum the slope itself is small; and a schedule may end near zero, but not spend
    most of the run there. Of several optimizers one with a rate of next to nothing is told whatever the loss does: the
    others move it.
    """

    code = "learning-rate-too-low"

    def __init__(self) -> None:
        self.by_hand = ByHand()

    def look(self, done: Pass, trace: Trace) -> None:
        self.by_hand.look(done, trace)

    def findings(self, trace: Trace) -> Iterable[Finding]:
        went = progress(trace)
        tells = not (went.broke or len(went.finite) < 3 or went.improved < LEFT)
        for info in trace.optimizers:
            steps = steps_of(trace, info)
            if tells and _too_low(steps, trace, went):
                spot, related = rate_set_at(trace, info, steps[-1])
                yield self.finding(steps, went, spot, related, f"{info.kind} with lr={steps[-1].rate:.3g}: ")
            elif tells and _collapsed(steps, went):
                spot, related = rate_set_at(trace, info, steps[-1])
                yield self.finding(steps[len(steps) // 2 :], went, spot, related, _fall(steps))
            elif _stands_still(steps):  # other optimizers may have moved the loss
                yield self.standstill(steps, *rate_set_at(trace, info, steps[-1]), info.kind)
        steps, place = self.by_hand.steps, self.by_hand.place(trace)
        if tells and not trace.optimizers and place is not None and _too_low(steps, trace, went):
            yield self.finding(steps, went, place, (), "")

    def finding(
        self, steps: Sequence[Step], went: Progress, spot: Spot, related: tuple[Related, ...], who: str
    ) -> Finding:
        return Finding(
            self.code, spot, "the steps are so small that the loss hardly moves",
            f"{who}a step changes the parameters by {_typical(steps):.3g} of their size; the loss went from "
            f"{went.first:.4g} to {went.last:.4g} in {len(went.finite)} steps",
            "raise the rate (1e-3 for Adam, 1e-2 for SGD are usual), or let the schedule lower it more slowly",
            related=related, since=steps[2].number, independent=0 < steps[-1].rate < NOTHING,
        )  # fmt: skip

    def standstill(self, steps: Sequence[Step], spot: Spot, related: tuple[Related, ...], kind: str) -> Finding:
        """The finding about one rate that is wrong by itself, where the loss says nothing about it."""
        return Finding(
            self.code, spot, "the steps are so small that the parameters of this optimizer stay as they are",
            f"{kind} with lr={steps[-1].rate:.3g}: {len(steps)} steps, each of which changes the parameters by less "
            f"than {FEW:.0e} of their size",
            "raise the rate: 1e-3 for Adam, 1e-2 for SGD are usual",
            related=related, since=steps[2].number, independent=True,
        )  # fmt: skip

    broken = (
        """
import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-8)  # BUG
x = torch.randn(64, 10)
y = x.sum(1, keepdim=True)
for epoch in range(40):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
""",
        """
import torch
from torch import nn
from torch.optim.lr_scheduler import ExponentialLR


def fit(net, batches, epochs):
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    schedule = ExponentialLR(opt, gamma=0.1)  # BUG
    for _ in range(epochs):
        for x, y in batches:
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            schedule.step()


torch.manual_seed(1)
net = nn.Sequential(nn.Linear(20, 16), nn.Tanh(), nn.Linear(16, 4))
inputs = torch.randn(96, 20)
labels = inputs[:, :4].argmax(1)
fit(net, list(zip(inputs.split(16), labels.split(16))), epochs=5)
""",
        """
import torch

torch.manual_seed(3)
x = torch.randn(100, 2)
y = x @ torch.tensor([3.0, -1.0]) + 0.5
w = torch.randn(2, requires_grad=True)
lr = 1e-9
for step in range(40):
    loss = ((x @ w - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        w -= lr * w.grad  # BUG
    w.grad = None
""",
    )
    healthy = (
        """
import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 1000))
x = torch.randn(64, 10)
y = x.sum(1, keepdim=True)
for step in range(30):  # the first steps of a long warm-up
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    warmup.step()
""",
        """
import torch
import torch.nn as nn

torch.manual_seed(1)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x, y = torch.randn(32, 4), torch.randn(32, 2)
for step in range(4):  # a short run with a modest rate
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
""",
    )


def _too_low(steps: Sequence[Step], trace: Trace, went: Progress) -> bool:
    """Whether neither one step nor all of them together can have changed anything, though the slope is there."""
    if len(steps) < 3 or went.improved < 0.8 or not all(step.with_gradient for step in steps):
        return False
    if steps[-1].rate > 1.5 * steps[0].rate:  # a warm-up
        return False
    typical = _typical(steps)
    if typical > (STEP if len(steps) >= 20 else FEW) or typical * len(steps) > RUN:
        return False
    slopes = {event.number: event.gradient_norm / (abs(event.loss) + 1e-12) for event in trace.backwards}
    gained = sum(step.ratio * step.norm * slopes.get(step.number, 0.0) for step in steps)
    possible = float(np.median([0.01 * step.norm * slopes.get(step.number, 0.0) for step in steps]))
    return gained < GAIN and possible > 1e-3


def _stands_still(steps: Sequence[Step]) -> bool:
    """Whether no rate was more than nothing, and no step either; a step after the numbers broke says nothing."""
    if len(steps) < 3 or steps[-1].rate > 1.5 * steps[0].rate:  # a warm-up
        return False
    return all(0 < step.rate < NOTHING and step.with_gradient and not step.ratio > FEW for step in steps)


def _collapsed(steps: Sequence[Step], went: Progress) -> bool:
    """Whether the rate was next to nothing for most of the run, while there was a lot left to learn."""
    rates = [step.rate for step in steps]
    largest = max(rates, default=0.0)
    small = sum(rate < COLLAPSED * largest for rate in rates)
    return len(steps) >= 8 and 2 * small > len(rates) and rates.index(largest) < 3 and rates[-1] < COLLAPSED * largest


def _typical(steps: Sequence[Step]) -> float:
    return float(np.median([step.ratio for step in steps]))


def _fall(steps: Sequence[Step]) -> str:
    return f"the rate fell from {steps[0].rate:.3g} to {steps[-1].rate:.3g}; by then "
