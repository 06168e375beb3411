"""nan-in-unselected-branch: `where` hides a NaN in the forward pass but not in the backward pass."""

from pellucid.diagnose.bad_numbers import RootRule
from pellucid.diagnose.rules.rule import Rule


class NanInUnselectedBranch(RootRule, Rule):
    """`torch.where(ok, f(x), other)` computes f everywhere. Where f is not selected its value does not matter, but its
    derivative does: zero times infinity is NaN, and that NaN is added to the gradient of x.

    Make the argument safe first: where on the input of f, not only on its output.
    """

    code = "nan-in-unselected-branch"
    explains = frozenset(
        ("sqrt-at-zero", "log-of-zero", "division-by-zero", "overflow", "exploding-gradient", "learning-rate-too-high")
    )

    broken = (
        """
import torch

torch.manual_seed(0)
w = torch.randn(8, requires_grad=True)
x = torch.tensor([0.0, 1.0, 2.0, 0.0, 3.0, 0.5, 0.0, 4.0])
optimizer = torch.optim.SGD([w], lr=0.01)
for step in range(5):
    optimizer.zero_grad()
    z = w * x
    root = torch.sqrt(z.abs())  # BUG
    safe = torch.where(x > 0, root, torch.zeros_like(root))
    loss = (safe - 1).pow(2).sum()
    loss.backward()
    optimizer.step()
""",
        """
import torch
import torch.nn as nn


class LogFeature(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.lin = nn.Linear(width, width)

    def forward(self, x):
        h = torch.relu(self.lin(x))
        logs = torch.log(h)  # BUG
        return torch.where(h > 0, logs, torch.zeros(()))


torch.manual_seed(4)
net = nn.Sequential(LogFeature(6), nn.Linear(6, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
data, target = torch.randn(12, 6), torch.randn(12, 1)
for epoch in range(4):
    optimizer.zero_grad()
    loss = ((net(data) - target) ** 2).mean()
    loss.backward()
    optimizer.step()
""",
    )
    healthy = (
        """
import torch

torch.manual_seed(0)
w = torch.randn(8, requires_grad=True)
x = torch.tensor([0.0, 1.0, 2.0, 0.0, 3.0, 0.5, 0.0, 4.0])
optimizer = torch.optim.SGD([w], lr=0.01)
for step in range(5):
    optimizer.zero_grad()
    z = w * x
    ok = z.abs() > 1e-6
    inside = torch.where(ok, z.abs(), torch.ones_like(z))
    safe = torch.where(ok, torch.sqrt(inside), torch.zeros_like(z))
    loss = (safe - 1).pow(2).sum()
    loss.backward()
    optimizer.step()
""",
    )
