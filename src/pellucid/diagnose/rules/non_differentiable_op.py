"""non-differentiable-op: the path runs through `argmax`, a comparison, `round`, an integer cast."""

from pellucid.diagnose.ledger import CutRule, Loss, owner
from pellucid.diagnose.lineage import STEPS
from pellucid.diagnose.rules.rule import Rule

INSTEAD = {
    "argmax": "use the logits or softmax(...) themselves in the loss; argmax is for predictions and metrics",
    "argmin": "weigh all of them with softmax(-distance), or let the gradient go past the choice (straight-through): "
    "x + (chosen - x).detach()",
    "cast": "keep the value a float on its way to the loss",
    "sample": "draw with rsample(), which lets the gradient through (Normal, Uniform, Gamma ...); where there is none, "
    "use log_prob(sample) times the reward as the loss, or F.gumbel_softmax",
    "round": "use the unrounded value, or a straight-through estimator: x + (x.round() - x).detach()",
}
COMPARISONS = frozenset(("gt", "ge", "lt", "le", "eq", "ne"))


class NonDifferentiableOp(CutRule, Rule):
    """Some operations have no derivative, or one that is zero everywhere.

    `argmax`, comparisons and integer casts give values without history; `round`, `floor` and `sign` are steps whose
    slope is zero, so the gradient arrives and is nothing. Predictions and metrics may use them, the path from the
    parameters to the loss may not, unless a straight-through estimator brings the gradient around them.
    """

    code = "non-differentiable-op"
    explains = frozenset(("learning-rate-too-low", "vanishing-gradient", "missing-step"))

    def message(self, loss: Loss) -> str:
        if loss.cut.operation is None or loss.cut.operation.op not in STEPS:
            return f"{self.word(loss)} has no derivative: no gradient gets back to {owner(loss)}"
        get = "gets" if len(loss.parameters) == 1 else "get"
        return f"{self.word(loss)} is a step function with slope zero: {owner(loss)} {get} only zeros as gradient"

    def word(self, loss: Loss) -> str:
        operation = loss.cut.operation
        name = "this" if operation is None else operation.op
        if operation is not None and name == "cast":
            return f"the cast to {operation.output.dtype}"
        if name in COMPARISONS:
            return "a comparison"
        return "a random draw" if name == "sample" or name.startswith("drawn") else name

    def fix(self, loss: Loss) -> str:
        name = "" if loss.cut.operation is None else loss.cut.operation.op
        soft = "use a smooth value instead, such as the probability itself or sigmoid((x - threshold) / temperature)"
        return INSTEAD.get("round" if name in STEPS else name, soft)

    broken = (
        """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 10), nn.ReLU(), nn.Linear(10, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x, y = torch.randn(30, 4), torch.randint(0, 3, (30,))
for step in range(4):
    optimizer.zero_grad()
    prediction = model(x).argmax(dim=1).float()  # BUG
    loss = nn.functional.mse_loss(prediction, y.float())
    loss.requires_grad_()
    loss.backward()
    optimizer.step()
""",
        """
import torch

torch.manual_seed(0)
w = torch.randn(3, 1, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
optimizer = torch.optim.SGD([w, b], lr=0.1)
x = torch.randn(25, 3)
y = (x[:, :1] > 0).float()


def classify(x):
    p = torch.sigmoid(x @ w + b)
    return (p > 0.5).float()  # BUG


for epoch in range(3):
    optimizer.zero_grad()
    loss = (classify(x) - y).abs().mean()
    loss.backward()
    optimizer.step()
""",
        """
import torch
import torch.nn as nn


class Quantised(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.second = nn.Linear(6, 1)

    def forward(self, x):
        levels = torch.round(self.first(x) * 4) / 4  # BUG
        return self.second(levels)


def main():
    torch.manual_seed(0)
    net = Quantised()
    opt = torch.optim.RMSprop(net.parameters(), lr=0.01)
    x, y = torch.randn(32, 6), torch.randn(32, 1)
    for _ in range(5):
        loss = nn.functional.l1_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


main()
""",
    )
    healthy = (
        """
import torch
from torch import nn

torch.manual_seed(0)


class Quantised(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 1)

    def forward(self, x):
        h = self.first(x)
        h = h + (h.round() - h).detach()  # straight through
        return self.second(h) * (h.mean(1, keepdim=True) > -10).float()


net = Quantised()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
x, y = torch.randn(32, 6), torch.randn(32, 1)
for step in range(8):
    loss = (net(x) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    accuracy = ((net(x) > 0) == (y > 0)).float().mean().item()
""",
    )
