"""overflow: a number left the range of its dtype."""

from pellucid.diagnose.bad_numbers import RootRule, swallowed
from pellucid.diagnose.events import Pass
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace


class Overflow(RootRule, Rule):
    """exp, a power, a sum or a product became too large for its dtype: 3.4e38 in float32, 65504 in float16.

    Softmax written by hand overflows where torch.softmax subtracts the maximum first.
    """

    code = "overflow"
    explains = frozenset((
        "exploding-gradient", "learning-rate-too-high", "vanishing-gradient", "saturated-activation", "dead-relu",
        "underflow",
    ))  # fmt: skip

    def look(self, done: Pass, trace: Trace) -> None:
        super().look(done, trace)
        if self.root is None and not self.seen:
            self.root = swallowed(done)

    broken = (
        """
import torch

torch.manual_seed(0)
model = torch.nn.Linear(10, 30)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(16, 10) * 100
y = torch.randint(0, 30, (16,))
for step in range(5):
    optimizer.zero_grad()
    scores = torch.exp(model(x))  # BUG
    probs = scores / scores.sum(dim=1, keepdim=True)
    loss = -(probs[torch.arange(16), y] + 1e-9).log().mean()
    loss.backward()
    optimizer.step()
""",
        """
import torch
import torch.nn as nn


def features(x):
    return torch.cat([x, x ** 3, x ** 9], dim=1)  # BUG


def main():
    torch.manual_seed(0)
    x = torch.linspace(-50000, 50000, 30).unsqueeze(1)
    y = torch.sin(x / 1000)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(4):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(features(x)), y)
        loss.backward()
        optimizer.step()


main()
""",
    )
    healthy = (
        """
import torch

torch.manual_seed(0)
model = torch.nn.Linear(10, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(16, 10) * 3
y = torch.randint(0, 4, (16,))
for step in range(5):
    optimizer.zero_grad()
    logits = model(x)
    shifted = logits - logits.max(dim=1, keepdim=True).values
    log_probs = shifted - shifted.exp().sum(dim=1, keepdim=True).log()
    loss = -log_probs[torch.arange(16), y].mean()
    loss.backward()
    optimizer.step()
""",
    )
