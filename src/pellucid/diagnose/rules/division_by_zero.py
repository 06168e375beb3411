"""division-by-zero: a division by zero or by something that vanishes."""

from collections.abc import Iterable

from pellucid.diagnose.bad_numbers import RootRule
from pellucid.diagnose.finding import Finding
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace

REFUSED = "Expected more than 1 value per channel"  # batch norm refuses to divide by the spread of one


class DivisionByZero(RootRule, Rule):
    """A division by zero: by a count that is zero, by the norm of a zero vector, by the deviation of a constant
    column or of a single element.

    The gradient may break even where the quotient is fine: the derivative divides by the square of the divisor.
    """

    code = "division-by-zero"
    explains = frozenset(
        ("exploding-gradient", "learning-rate-too-high", "vanishing-gradient", "saturated-activation", "dead-relu")
    )

    def findings(self, trace: Trace) -> Iterable[Finding]:
        yield from super().findings(trace)
        crash = trace.crash
        if crash is not None and crash.said.startswith(REFUSED):
            yield Finding(
                self.code, crash.spot, "batch norm is given one value per channel, which has no spread to divide by",
                crash.said.splitlines()[0],
                "leave out a last batch of one (DataLoader(..., drop_last=True)), call eval() where one sample is only "
                "looked at, or use a norm that needs no batch: nn.LayerNorm, nn.GroupNorm",
                since=trace.open.number,
            )  # fmt: skip

    broken = (
        """
import torch

torch.manual_seed(0)
emb = torch.nn.Embedding(20, 8)
head = torch.nn.Linear(8, 2)
optimizer = torch.optim.Adam(list(emb.parameters()) + list(head.parameters()), lr=0.01)
tokens = torch.randint(1, 20, (6, 5))
tokens[2] = 0  # an empty sentence: padding only
labels = torch.tensor([0, 1, 0, 1, 1, 0])
for step in range(5):
    optimizer.zero_grad()
    mask = (tokens != 0).float().unsqueeze(-1)
    mean = (emb(tokens) * mask).sum(1) / mask.sum(1)  # BUG
    loss = torch.nn.functional.cross_entropy(head(mean), labels)
    loss.backward()
    optimizer.step()
""",
        """
import torch


def standardise(batch):
    centred = batch - batch.mean(0)
    return centred / batch.std(0)  # BUG


torch.manual_seed(1)
features = torch.randn(40, 6)
features[:, 4] = 3.0  # a constant column
targets = torch.randn(40, 1)
layer = torch.nn.Linear(6, 1)
opt = torch.optim.SGD(layer.parameters(), lr=0.01)
for _ in range(6):
    opt.zero_grad()
    error = (layer(standardise(features)) - targets).pow(2).mean()
    error.backward()
    opt.step()
""",
        """
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
data = torch.randn(33, 4)
for epoch in range(2):
    for x in data.split(16):  # the last of them is one row
        output = net(x)  # BUG
        loss = (output - x[:, :1]).square().mean()
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
net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU())
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
a, b = torch.randn(10, 4), torch.randn(10, 4)
a[3] = 0
for step in range(6):
    optimizer.zero_grad()
    loss = (F.normalize(net(a), dim=1, eps=1e-6) - F.normalize(net(b), dim=1, eps=1e-6)).pow(2).sum(1).mean()
    loss.backward()
    optimizer.step()
""",
    )
