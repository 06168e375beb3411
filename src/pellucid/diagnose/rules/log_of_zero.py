"""log-of-zero: a logarithm of zero or less."""

from pellucid.diagnose.bad_numbers import RootRule
from pellucid.diagnose.rules.rule import Rule


class LogOfZero(RootRule, Rule):
    """A logarithm (or a log-probability) of zero is minus infinity, of a negative number NaN.

    It often comes late: a softmax or sigmoid rounds to exactly 0 or 1 once the model is sure, and the logarithm after
    it breaks. The functions that take logits (log_softmax, binary_cross_entropy_with_logits) never leave the
    logarithm and cannot.
    """

    code = "log-of-zero"
    explains = frozenset(
        ("exploding-gradient", "learning-rate-too-high", "vanishing-gradient", "saturated-activation", "dead-relu")
    )

    broken = (
        """
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(32, 5) * 200
y = torch.randint(0, 3, (32,))
for step in range(10):
    optimizer.zero_grad()
    p = torch.softmax(model(x), dim=1)
    picked = p[torch.arange(32), y]
    loss = -torch.log(picked).mean()  # BUG
    loss.backward()
    optimizer.step()
""",
        """
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 16)
        self.second = nn.Linear(16, 1)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


def likelihood(rate, count):
    return (rate - count * rate.log()).mean()  # BUG


torch.manual_seed(3)
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
data, counts = torch.randn(64, 4), torch.randint(0, 5, (64, 1)).float()
for epoch in range(5):
    optimizer.zero_grad()
    loss = likelihood(net(data), counts)
    loss.backward()
    optimizer.step()
""",
    )
    healthy = (
        """
import torch
import torch.nn.functional as F

torch.manual_seed(0)
model = torch.nn.Linear(6, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x, y = torch.randn(24, 6), torch.randint(0, 4, (24,))
mask = torch.rand(24, 4) < 0.2
mask[torch.arange(24), y] = False
for step in range(8):
    optimizer.zero_grad()
    logits = model(x).masked_fill(mask, float("-inf"))  # classes that are ruled out
    loss = F.cross_entropy(logits, y)
    loss.backward()
    optimizer.step()
""",
    )
