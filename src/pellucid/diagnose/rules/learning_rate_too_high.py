"""learning-rate-too-high: steps so large that the loss rises instead of falling."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from pellucid.diagnose.events import Pass
from pellucid.diagnose.finding import Finding, Related, Spot
from pellucid.diagnose.measures import Progress, progress
from pellucid.diagnose.movement import ByHand, Step, rate_set_at, steps_of
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace

LARGE = 0.1  # a change of the parameters, against their norm, that no healthy run keeps up
RECKLESS = {"SGD": 1.0, "LBFGS": 10.0, "Adadelta": 10.0}  # rates that are asking for it; 0.1 for the others
HUGE = 1.0  # one that turns the parameters over in a single step
GREW = 10.0  # times the first loss: it diverges
LARGE_STEPS = "the steps are large against the parameters; the loss does not say whether they are too large"
LOWER = (
    "divide the rate by 10 until the loss falls from the first steps on, e.g. lr=1e-3 for Adam, 1e-2 for SGD; "
    "warm up, or clip the gradients if only single steps are too large"
)
LOWER_SCHEDULE = (
    "let the rate rise no further than where the loss still falls, and then hold or lower it: a decay has a factor "
    "below 1 (gamma=0.95), a warm-up ends at the optimizer's rate"
)
PEAK = 3.0  # times the first loss: it was thrown back, and ends no better
RUN = 20  # steps that are looked at together
WILD = 30.0  # times the first loss: it was thrown far back, and took long to return


class LearningRateTooHigh(Rule):
    """Steps that are large against the parameters jump over the minimum: the loss rises, oscillates or becomes NaN.

    A healthy step changes the parameters by a thousandth to a hundredth of their size. Large steps alone are no finding
    (a model that starts at zero makes them): the loss must have got worse, too.
    """

    code = "learning-rate-too-high"
    at_once = False
    explains = frozenset((
        "overflow", "exploding-gradient", "dead-relu", "saturated-activation", "vanishing-gradient", "clamped",
        "underflow",
    ))  # fmt: skip

    def __init__(self) -> None:
        self.by_hand = ByHand()

    def look(self, done: Pass, trace: Trace) -> None:
        self.by_hand.look(done, trace)

    def findings(self, trace: Trace) -> Iterable[Finding]:
        went = progress(trace)
        if _grew(went):  # what breaks later breaks because of that; what breaks at once has its own cause
            self.explains = self.explains | {"log-of-zero", "division-by-zero", "sqrt-at-zero"}
        series = [(steps_of(trace, info), info) for info in trace.optimizers]
        guilty = [(steps, info) for steps, info in series if _too_high(steps, went)]
        reckless = [(steps, info) for steps, info in series if _reckless(steps, info.kind, went)]
        if guilty or reckless:
            steps, info = min(guilty or reckless, key=lambda pair: _onset(pair[0]))
            wrong = max(steps, key=lambda step: step.ratio if np.isfinite(step.ratio) else 0.0)
            spot, related = rate_set_at(trace, info, wrong)
            raised = f", raised from {info.rate:.3g}" if related and wrong.rate > info.rate else ""
            who = f"{info.kind} with lr={wrong.rate:.3g}{raised}: "
            found = self.finding(steps, went, spot, related, who, LOWER_SCHEDULE if raised else LOWER)
            yield found if guilty else replace(found, severity="info", message=LARGE_STEPS)
        elif not series and _too_high(self.by_hand.steps, went):
            place = self.by_hand.place(trace)
            if place is not None:
                yield self.finding(self.by_hand.steps, went, place, (), "", LOWER)

    def finding(
        self, steps: Sequence[Step], went: Progress, spot: Spot, related: tuple[Related, ...], who: str, fix: str
    ) -> Finding:
        largest = max((step.ratio for step in steps if not np.isnan(step.ratio)), default=0.0)
        return Finding(
            self.code, spot, "the steps are too large: the loss gets worse with them instead of better",
            f"{who}a step changes the parameters by {_share(_typical(steps))} their size (at most "
            f"{_share(largest)} it); {went.told}",
            fix, related=related, since=_since(steps),
        )  # fmt: skip

    broken = (
        """
import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=25.0)  # BUG
x = torch.randn(64, 10)
y = x[:, :1] - x[:, 1:2]
for epoch in range(30):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
""",
        """
import torch
import torch.nn as nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.rnn = nn.GRU(16, 24, batch_first=True)
        self.out = nn.Linear(24, 5)

    def forward(self, tokens):
        states, _ = self.rnn(self.embed(tokens))
        return self.out(states)


def main():
    torch.manual_seed(1)
    model = Tagger()
    opt = torch.optim.Adam(  # BUG
        model.parameters(),
        lr=5.0,
    )
    for step in range(25):
        tokens = torch.randint(0, 50, (8, 12))
        tags = tokens % 5
        loss = nn.functional.cross_entropy(model(tokens).transpose(1, 2), tags)
        opt.zero_grad()
        loss.backward()
        opt.step()


main()
""",
        """
import torch

torch.manual_seed(3)
x = torch.randn(100, 2)
y = x @ torch.tensor([3.0, -1.0]) + 0.5
w = torch.randn(2, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
for step in range(40):
    loss = ((x @ w + b - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        w -= 1.5 * w.grad  # BUG
        b -= 1.5 * b.grad
    w.grad.zero_()
    b.grad.zero_()
""",
        """
import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Linear(6, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.5**step)  # BUG
inputs = torch.randn(50, 6)
targets = inputs.sum(1, keepdim=True) + 0.3 * torch.randn(50, 1)
for step in range(40):
    optimizer.zero_grad()
    loss = ((net(inputs) - targets) ** 2).mean()
    loss.backward()
    optimizer.step()
    scheduler.step()
""",
    )
    healthy = (
        """
import torch

torch.manual_seed(0)
x = torch.randn(50, 3)
y = x @ torch.tensor([[1.0], [2.0], [3.0]])
w = torch.zeros(3, 1, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.3)  # large for a network, right for this problem
for step in range(20):
    optimizer.zero_grad()
    loss = ((x @ w - y) ** 2).mean()
    loss.backward()
    optimizer.step()
""",
        """
import torch
import torch.nn as nn

torch.manual_seed(2)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, total_steps=60)
for step in range(60):
    x = torch.randn(16, 8)
    y = x[:, :4].argmax(1)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    scheduler.step()
""",
    )


def _too_high(steps: Sequence[Step], went: Progress) -> bool:
    """Whether steps were large and the loss got worse by them."""
    steps = [step for step in steps if step.norm > 1e-6]  # from zero every step is large
    if (
        not _began_well(went)
        or len(went.losses) < 3
        or not any(step.ratio >= LARGE for step in steps)
        or went.first <= 0
    ):
        return False
    ratios = [min(step.ratio, 10 * HUGE) for step in steps if not np.isnan(step.ratio)]
    peak = max(went.finite[1:], default=went.first)
    if went.broke or went.last > GREW * went.first:
        return (_grew(went) or len(went.finite) < 3) and (_typical(steps) >= LARGE or max(ratios) >= HUGE)
    turned = max(ratios[:10]) >= HUGE / 2
    if turned and peak > WILD * went.first and np.mean(np.array(went.finite) > went.first) > 0.25:
        return len(steps) >= 4
    if len(steps) < 8 or went.improved < 0.9:
        return False
    return (turned and peak > PEAK * went.first) or (_typical(steps) >= 2 * LARGE and _restless(went))


def _began_well(went: Progress) -> bool:
    """The first loss comes before the first step, which cannot have broken it."""
    return bool(went.losses) and bool(np.isfinite(went.losses[0]))


def _grew(went: Progress) -> bool:
    return max(went.finite[1:], default=went.first) > GREW * went.first > 0


def _reckless(steps: Sequence[Step], kind: str, went: Progress) -> bool:
    """Whether steps look too large though the loss does not prove it: it fell all the same, or broke at once."""
    if went.broke:
        return any(step.rate >= RECKLESS.get(kind, 0.1) for step in steps)
    return len(steps) >= 8 and _typical(steps) >= LARGE and min(step.norm for step in steps[1:]) > 1


def _restless(went: Progress) -> bool:
    """Whether the loss goes up as often as down, by much."""
    moves = np.diff(went.finite)
    return bool((moves > 0).mean() >= 0.35) and float(np.abs(moves).mean()) > 0.1 * went.first


def _typical(steps: Sequence[Step]) -> float:
    """The middle one of twenty steps in a row, where they are largest: a schedule may raise the rate late.

    The very first is left out: it may start from zero.
    """
    ratios = [step.ratio for step in steps[1:] or steps if np.isfinite(step.ratio)]
    runs = [ratios[start : start + RUN] for start in range(0, max(len(ratios) - RUN // 2, 1), RUN // 2)]
    return float(np.median(max(runs, key=np.median))) if ratios else 0.0


def _since(steps: Sequence[Step]) -> int:
    return _onset(steps)[0]


def _onset(steps: Sequence[Step]) -> tuple[int, float]:
    """When the steps became large, and how large: of several optimizers the first is to blame, the others follow."""
    first = next((step for step in steps if not step.ratio < LARGE), steps[0])
    return first.number, -first.ratio


def _share(ratio: float) -> str:
    """How much of something, for a sentence: "12 % of", "500 times"."""
    return f"{100 * ratio:.3g} % of" if ratio < 10 else f"{ratio:.3g} times"
