"""vanishing-gradient: gradients shrink by orders of magnitude towards the input."""

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from pellucid.diagnose.depth import Chain, Profile, profile
from pellucid.diagnose.events import Operation, Pass
from pellucid.diagnose.finding import Finding, Spot
from pellucid.diagnose.measures import describe, guessing, is_weighted, labels_of, progress
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace

LAYERS = 5  # different weights there must be on the way
SMALL = 1e-4  # of the gradient at the last layers, and of what the weights can learn from it
TINY = 1e-7  # the same when the inputs of the layers shrink, too
REPEATED = 1e-12  # over the steps of a recurrence, when the loss gets no better
FAST = 1e-6  # the same where every step
STEEP = 0.25  # keeps less than this
LOST = 1e-3  # what one line lets through that loses it all
GUESSED = 0.98  # of the loss that guessing by the frequency of the classes has: nothing is known of the input


@dataclass
class Seen:
    """A pass in which the gradient shrank."""

    number: int
    ratio: float
    count: int  # layers, or steps of a recurrence
    recurrent: bool
    spot: Spot
    operation: Operation
    at_once: bool = False  # in one line, not a little with every layer


OF_LAYERS = (
    "use an activation that keeps the slope (ReLU, GELU) with matching weights (kaiming_uniform_), residual "
    "connections, or normalisation"
)
OF_A_LINE = "scale it back there: a factor near one, weights of the usual size, or a normalisation after it"
SLOPING = re.compile(r"\b(torch|F|nn\.functional)\.(?:sigmoid|tanh)\(")
RELU = r"\1.relu("
OF_A_RECURRENCE = (
    "let the state pass from step to step unshrunk: an LSTM or GRU, recurrent weights that start orthogonal, or fewer "
    "steps:\n+ nn.init.orthogonal_(recurrent.weight)"
)


class VanishingGradient(Rule):
    """Every layer multiplies the gradient by less than one, and after enough layers nothing is left for the first ones.

    Deep stacks of sigmoid (its slope is at most 1/4) or of weights that are too small do it, and so do the many steps
    of a simple recurrent network. Early layers whose gradients are ten or a hundred times smaller are healthy, and so
    are residual networks; here they are ten thousand times smaller or worse, a little with every layer, in most of the
    passes. A recurrence forgets early steps by nature: it counts only when the loss gets no better (or no better than
    guessing), and sooner when there are weights that learn by its first step alone. So it is with a single line that
    loses it all at once.
    """

    code = "vanishing-gradient"
    explains = frozenset(("learning-rate-too-low",))

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.looks = 0
        self.labels: Counter[int] = Counter()

    def look(self, done: Pass, trace: Trace) -> None:
        if done.backward is None or done.bad or done.bad_gradients:
            return
        self.looks += 1
        measured = profile(done)
        chain, recurrent, layer = _vanished(measured)
        if chain is None:
            self._look_at_line(measured, done)
            return
        known = [seen.operation for seen in self.seen if seen.recurrent == recurrent]  # the first of a kind is told
        blamed = known[0] if known else layer or _steepest(measured, recurrent)
        if blamed is not None:
            self.labels.update(labels_of(done))
            self.seen.append(Seen(done.number, chain.ratio, len(chain.norms), recurrent, blamed.spot, blamed))

    def _look_at_line(self, measured: Profile, done: Pass) -> None:
        """One line that loses it all at once: a factor of a millionth. By itself no slip, gates begin like that."""
        layers, recurrent = measured.layers, measured.repeated or measured.inside
        if not recurrent and 0 < layers.ratio < SMALL and layers.signal_ratio < SMALL:
            gains, operations = measured.along(())
            line = min(gains, key=gains.__getitem__, default=None)
            if line is not None and gains[line] < math.log(LOST):
                known = self.seen[0].operation if self.seen else operations[line]
                self.labels.update(labels_of(done))
                self.seen.append(Seen(done.number, layers.ratio, len(layers.norms), False, known.spot, known, True))

    def findings(self, trace: Trace) -> Iterable[Finding]:
        if len(trace.backwards) > 2 and not trace.updates:  # nobody trains: gradients are looked at or timed
            return
        seen = [s for s in self.seen if not (s.recurrent or s.at_once) or self._is_stuck(trace)]
        if seen and 2 * len(seen) > self.looks and (self.looks > 1 or seen[0].ratio < TINY):
            yield self.finding(seen[0], len(seen))

    def _is_stuck(self, trace: Trace) -> bool:
        """Whether the loss gets no better, or no better than by guessing classes as often as they come."""
        went = progress(trace)
        return went.improved > 0.9 or went.last > GUESSED * guessing(self.labels) > 0

    def finding(self, first: Seen, passes: int) -> Finding:
        what = "steps of the recurrence" if first.recurrent else "layers"
        lost = f"shrinks by a factor of {1 / first.ratio:.3g}" if first.ratio else "shrinks to exactly 0"
        left = f"{first.ratio:.3g} of" if first.ratio else "0, against"
        return Finding(
            self.code, first.spot, f"the gradient {lost} over {first.count} {what}: the first ones hardly learn",
            f"the gradient at the first of {first.count} {what} is {left} the gradient at the last, in "
            f"{passes} of {self.looks} passes looked at; this line loses most of it ({describe(first.operation)})",
            OF_A_RECURRENCE if first.recurrent else OF_A_LINE if first.at_once else OF_LAYERS + _with_slope(first),
            since=first.number,
        )  # fmt: skip

    broken = (
        """
import torch
import torch.nn as nn


class Deep(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(depth))
        self.head = nn.Linear(16, 1)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            x = torch.sigmoid(x)  # BUG
        return self.head(x)


torch.manual_seed(0)
net = Deep(10)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
x = torch.randn(32, 16)
y = x.sum(1, keepdim=True)
for step in range(12):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
""",
        """
import torch
import torch.nn as nn

torch.manual_seed(1)
parts = [nn.Linear(8, 20), nn.Sigmoid()]
for _ in range(7):
    parts += [nn.Linear(20, 20), nn.Sigmoid()]
model = nn.Sequential(*parts, nn.Linear(20, 3))


def run(x, y, optimizer):
    optimizer.zero_grad()
    out = model(x)  # BUG
    loss = nn.CrossEntropyLoss()(out, y)
    loss.backward()
    optimizer.step()
    return loss.item()


optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(60, 8), torch.randint(0, 3, (60,))
history = [run(x, y, optimizer) for _ in range(15)]
""",
        """
import torch
import torch.nn as nn


class FirstSign(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(2, 24, batch_first=True)
        self.fc = nn.Linear(24, 2)

    def forward(self, series):
        states, _ = self.rnn(series)  # BUG
        return self.fc(states[:, -1])


torch.manual_seed(0)
net = FirstSign()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for i in range(12):
    series = torch.randn(16, 100, 2)
    label = (series[:, 0, 0] > 0).long()
    loss = nn.functional.cross_entropy(net(series), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    )
    healthy = (
        """
import torch
import torch.nn as nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.outer = nn.Linear(width, width)

    def forward(self, x):
        return x + self.outer(torch.tanh(self.inner(x)))


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), *[Block(16) for _ in range(8)], nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
x = torch.randn(50, 6)
y = x.prod(1, keepdim=True)
for step in range(20):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
""",
        """
import torch
import torch.nn as nn

torch.manual_seed(1)
layers = []
for i in range(6):
    layers += [nn.Linear(10, 10), nn.ReLU()]
model = nn.Sequential(*layers, nn.Linear(10, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
x, y = torch.randn(64, 10), torch.randint(0, 2, (64,))
for step in range(25):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
""",
    )


def _with_slope(seen: Seen) -> str:
    """What the line of the greatest loss could be instead."""
    line = seen.spot.code
    if is_weighted(seen.operation):
        return "\n(here the weights are too small: see how they are initialised, e.g. nn.init.kaiming_uniform_(weight))"
    return f":\n- {line}\n+ {SLOPING.sub(RELU, line)}" if SLOPING.search(line) else ""


def _vanished(measured: Profile) -> tuple[Chain | None, bool, Operation | None]:
    """Where the gradient is lost, whether that is a recurrence, and the layer if it is one of ours."""
    layers = measured.layers
    for operation, chain in measured.inside:
        if _faded(chain):
            return chain, True, operation
    deep = len(layers.norms) >= LAYERS and _fell(measured)
    chains = [layers] if deep else _fallen(measured)
    return (chains[0] if chains else None), not deep, None


def _fallen(measured: Profile) -> list[Chain]:
    """The recurrences that lose their gradient."""
    return [chain for chain in measured.repeated if _faded(chain) or (measured.starved and chain.ratio < TINY)]


def _steepest(measured: Profile, recurrent: bool) -> Operation | None:
    """The operation that loses most, on the line that loses most."""
    gains, operations = measured.along(_fallen(measured) if recurrent else ())
    return operations[min(gains, key=gains.__getitem__)] if gains else None


def _faded(chain: Chain) -> bool:
    """Whether a recurrence loses everything, or loses much faster than one with usual weights and tanh does."""
    each = chain.ratio ** (1 / max(len(chain.norms) - 1, 1))
    return chain.ratio < REPEATED or (chain.ratio < FAST and each < STEEP)


def _fell(measured: Profile) -> bool:
    layers = measured.layers
    deep = layers.ratio < TINY or (layers.ratio < SMALL and layers.signal_ratio < SMALL)
    return deep and layers.gradual(falling=True)
