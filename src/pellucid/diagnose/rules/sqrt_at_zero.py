"""sqrt-at-zero: the derivative of a square root at zero."""

from pellucid.diagnose.bad_numbers import RootRule
from pellucid.diagnose.rules.rule import Rule


class SqrtAtZero(RootRule, Rule):
    """The derivative of a square root at zero is infinite: the loss is fine, the gradient is Inf, and NaN follows once
    it meets a zero.

    Distances of equal points, norms written by hand, the deviation of a constant and powers below one do it. An epsilon
    inside the root cures it; torch.linalg.norm has a finite subgradient at zero.
    """

    code = "sqrt-at-zero"
    explains = frozenset(
        ("exploding-gradient", "learning-rate-too-high", "vanishing-gradient", "saturated-activation", "dead-relu")
    )

    broken = (
        """
import torch

torch.manual_seed(0)
encoder = torch.nn.Linear(6, 3)
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.05)
left = torch.randn(16, 6)
right = torch.randn(16, 6)
right[5] = left[5]  # a pair of equal samples
for step in range(6):
    optimizer.zero_grad()
    difference = encoder(left) - encoder(right)
    distance = torch.sqrt((difference ** 2).sum(dim=1))  # BUG
    loss = distance.mean()
    loss.backward()
    optimizer.step()
""",
        """
import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(5))

    def forward(self, x):
        positive = torch.relu(x * self.scale)
        return positive ** 0.5  # BUG


torch.manual_seed(2)
gate, out = Gate(), nn.Linear(5, 1)
optimizer = torch.optim.Adam([*gate.parameters(), *out.parameters()], lr=1e-2)
x, y = torch.randn(20, 5), torch.randn(20, 1)
for i in range(5):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(out(gate(x)), y)
    loss.backward()
    optimizer.step()
""",
    )
    healthy = (
        """
import torch

torch.manual_seed(0)
encoder = torch.nn.Linear(6, 3)
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.05)
left, right = torch.randn(16, 6), torch.randn(16, 6)
right[5] = left[5]
for step in range(6):
    optimizer.zero_grad()
    difference = encoder(left) - encoder(right)
    loss = torch.sqrt((difference ** 2).sum(dim=1) + 1e-8).mean()
    loss.backward()
    optimizer.step()
""",
    )
