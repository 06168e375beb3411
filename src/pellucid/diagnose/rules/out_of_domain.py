"""out-of-domain: a function is called outside the range in which it is defined."""

from pellucid.diagnose.bad_numbers import RootRule
from pellucid.diagnose.rules.rule import Rule


class OutOfDomain(RootRule, Rule):
    """asin and acos are defined from -1 to 1, acosh from 1 on, atanh between -1 and 1; outside they are NaN, and at the
    ends their derivatives are infinite.

    A cosine that was computed as a quotient may be 1.0000001: the angle of equal vectors is where it shows.
    """

    code = "out-of-domain"
    explains = frozenset(
        ("exploding-gradient", "learning-rate-too-high", "vanishing-gradient", "saturated-activation", "dead-relu")
    )

    broken = (
        """
import torch

torch.manual_seed(0)
turn = torch.nn.Linear(3, 3)
optimizer = torch.optim.SGD(turn.parameters(), lr=0.01)
a, b = torch.randn(10, 3), torch.randn(10, 3)
for step in range(5):
    optimizer.zero_grad()
    cosine = (turn(a) * b).sum(1)
    angle = torch.acos(cosine)  # BUG
    loss = angle.pow(2).mean()
    loss.backward()
    optimizer.step()
""",
        """
import torch
import torch.nn as nn


class Squash(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        return torch.atanh(self.scale * x)  # BUG


torch.manual_seed(0)
squash = Squash()
opt = torch.optim.Adam(squash.parameters(), lr=1e-2)
x = torch.tensor([[0.1], [0.5], [1.2]])
for i in range(4):
    opt.zero_grad()
    loss = squash(x).square().mean()
    loss.backward()
    opt.step()
""",
    )
    healthy = (
        """
import torch

torch.manual_seed(0)
turn = torch.nn.Linear(3, 3)
optimizer = torch.optim.SGD(turn.parameters(), lr=0.01)
a, b = torch.randn(10, 3), torch.randn(10, 3)
for step in range(5):
    optimizer.zero_grad()
    cosine = torch.nn.functional.cosine_similarity(turn(a), b, dim=1)
    loss = torch.acos(cosine.clamp(-1 + 1e-6, 1 - 1e-6)).pow(2).mean()
    loss.backward()
    optimizer.step()
""",
    )
