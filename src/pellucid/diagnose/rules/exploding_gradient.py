"""exploding-gradient: gradients grow by orders of magnitude towards the input."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite

from pellucid.diagnose.depth import Profile, profile
from pellucid.diagnose.events import Operation, Pass
from pellucid.diagnose.finding import Finding, Spot
from pellucid.diagnose.measures import describe, progress
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace

LAYERS = 4  # different weights there must be on the way
LARGE = 1e3  # times the gradient at the last layers
REPEATED = 1e4  # the same over the steps of a recurrence
GROWING = 100  # the same where the gradients are huge, too
NORM = 1e3  # a huge gradient of all parameters
INSIDE = 1e5  # the gain of a whole recurrent layer


@dataclass
class Seen:
    """A pass in which the gradient grew."""

    number: int
    ratio: float
    what: str
    spot: Spot
    operation: Operation
    norm: float


class ExplodingGradient(Rule):
    """Every layer multiplies the gradient by more than one, and the first ones get gradients of astronomical size.

    Weights that are too large do it, in a deep stack or in a recurrence that runs over many steps. What counts is the
    growth from the last layer to the first: a large gradient everywhere is a matter of the loss's scale.
    """

    code = "exploding-gradient"
    explains = frozenset(
        ("overflow", "learning-rate-too-high", "learning-rate-too-low", "dead-relu", "saturated-activation")
    )

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.looks = 0

    def look(self, done: Pass, trace: Trace) -> None:
        if done.backward is None or not isfinite(done.backward.loss):
            return
        self.looks += 1
        measured = profile(done)
        found = _exploded(measured, done.backward.gradient_norm)
        if found is not None:
            ratio, what, spot, operation = found
            self.seen.append(Seen(done.number, ratio, what, spot, operation, done.backward.gradient_norm))

    def findings(self, trace: Trace) -> Iterable[Finding]:
        early = [seen for seen in self.seen if seen.number < 2]  # later it follows from steps that went wrong
        if early and (2 * len(self.seen) > min(self.looks, 4) or progress(trace).broke):
            yield self.finding(early[0])

    def finding(self, first: Seen) -> Finding:
        return Finding(
            self.code, first.spot,
            f"the gradient grows by a factor of {first.ratio:.3g} {first.what} on its way back to the input",
            f"the gradient norm of all parameters is {first.norm:.3g}; this line makes most of the growth "
            f"({describe(first.operation)}), in {len(self.seen)} of {self.looks} passes looked at",
            "start with smaller weights (nn.init.xavier_uniform_, kaiming_uniform_, orthogonal_ for a recurrence), add "
            "normalisation, and bound the gradient:\n+ torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
            since=first.number,
        )  # fmt: skip

    broken = (
        """
import torch
import torch.nn as nn

torch.manual_seed(0)


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(32, 32) for _ in range(8)])
        self.out = nn.Linear(32, 1)
        for layer in self.layers:
            nn.init.normal_(layer.weight, std=1.5)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))  # BUG
        return self.out(x)


model = Stack()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-12)
x, y = torch.randn(16, 32), torch.randn(16, 1)
for epoch in range(6):
    optimizer.zero_grad()
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
""",
        """
import torch

torch.manual_seed(2)
size = 12
W = (torch.eye(size) * 1.6).requires_grad_()
U = torch.randn(size, 3, requires_grad=True)
readout = torch.randn(1, size, requires_grad=True)
series = torch.randn(40, 5, 3)
target = torch.randn(5, 1)
optimizer = torch.optim.Adam([W, U, readout], lr=1e-3)
for it in range(5):
    h = torch.zeros(5, size)
    for t in range(40):
        h = h @ W.t() + series[t] @ U.t()  # BUG
    loss = torch.nn.functional.l1_loss(h @ readout.t(), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    )
    healthy = (
        """
import torch
import torch.nn as nn

torch.manual_seed(0)
cell = nn.RNNCell(4, 16)
head = nn.Linear(16, 1)
params = [*cell.parameters(), *head.parameters()]
optimizer = torch.optim.Adam(params, lr=1e-2)
x = torch.randn(25, 8, 4)
y = x[-3:].sum((0, 2), keepdim=False)[:, None]
for epoch in range(15):
    h = torch.zeros(8, 16)
    for t in range(25):
        h = cell(x[t], h)
    loss = nn.functional.mse_loss(head(h), y)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(params, 1.0)
    optimizer.step()
""",
        """
import torch
import torch.nn as nn

torch.manual_seed(1)
net = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(40, 5)
y = 300 * x[:, :1]  # a large target: large gradients, but the same everywhere
for epoch in range(40):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
""",
    )


def _exploded(measured: Profile, norm: float) -> tuple[float, str, Spot, Operation] | None:
    """How much the gradient grew, over what, and the line and operation that did most of it."""
    layers, (inside, layer) = measured.layers, measured.largest_inside
    ratio, what = 0.0, ""
    if len(layers.norms) >= LAYERS and layers.ratio >= LARGE and layers.gradual(falling=False):
        ratio, what = layers.ratio, f"over {len(layers.norms)} layers"
    least = max(GROWING if norm >= NORM else REPEATED, ratio)
    recurrences = sorted((c for c in measured.repeated if c.ratio >= least), key=lambda c: c.ratio, reverse=True)
    if recurrences:
        ratio, what = recurrences[0].ratio, f"over {len(recurrences[0].norms)} steps of the recurrence"
    for operation, chain in measured.inside:
        if chain.ratio >= max(GROWING if norm >= NORM else REPEATED, ratio):
            steps = f"over {len(chain.norms)} steps of the recurrent layer"
            return chain.ratio, steps, operation.spot, operation
    gains, operations = measured.along(recurrences) if ratio else ({}, {})
    if gains:
        spot = max(gains, key=gains.__getitem__)
        return ratio, what, spot, operations[spot]
    if layer is not None and inside >= INSIDE:
        return inside, "inside the recurrent layer", layer.spot, layer
    return None
