"""stale-optimizer: the optimizer holds tensors that the model no longer uses."""

from collections.abc import Iterable

from pellucid.diagnose.events import Parameter
from pellucid.diagnose.finding import Finding, Related
from pellucid.diagnose.ledger import listed
from pellucid.diagnose.naming import plural
from pellucid.diagnose.ownership import Stale, stale
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace


class StaleOptimizer(Rule):
    """An optimizer holds tensors, not names: a layer that is replaced afterwards is a stranger to it.

    The old tensors are still stepped, the new ones get gradients and never move. `model.fc = nn.Linear(...)`, a new
    `nn.Parameter` in every forward, a copy of the model, a tensor that is assigned anew: all of them after the
    optimizer was made. It is no finding when the optimizer is made afterwards, or gets the new layer as a group.
    """

    code = "stale-optimizer"
    explains = frozenset(("learning-rate-too-low", "missing-step", "graph-kept-alive"))

    def findings(self, trace: Trace) -> Iterable[Finding]:
        return [self.finding(each) for each in stale(trace)]

    def finding(self, found: Stale) -> Finding:
        new = sorted(found.new, key=lambda parameter: parameter.order)
        return Finding(
            self.code, found.spot,
            f"{_who(found, new)} made anew after the optimizer was made: the optimizer still holds the old tensors",
            f"no gradient comes to {plural(len(found.old), 'tensor')} in the optimizer any more; it comes to "
            f"{_successors(found, new)}, which no optimizer holds",
            "make the optimizer after this line, or keep the tensor and write new values into it (copy_ under no_grad)",
            related=(Related(found.optimizer.spot, "the optimizer was made here"),),
        )  # fmt: skip

    broken = (
        """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
model[2] = nn.Linear(8, 3)  # BUG
x, y = torch.randn(30, 4), torch.randint(0, 3, (30,))
for step in range(5):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
""",
        """
import torch

torch.manual_seed(0)
w = torch.randn(3, 1, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
w = (w * 0.1).detach().requires_grad_()  # BUG
x, y = torch.randn(15, 3), torch.randn(15, 1)
for step in range(5):
    optimizer.zero_grad()
    loss = ((x @ w - y) ** 2).mean()
    loss.backward()
    optimizer.step()
""",
        """
import torch
import torch.nn as nn


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(4))
        self.linear = nn.Linear(4, 1)

    def forward(self, x):
        self.gain = nn.Parameter(self.gain.clamp(0.1, 10))  # BUG
        return self.linear(x * self.gain)


def main():
    torch.manual_seed(0)
    model = Gate()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(20, 4), torch.randn(20, 1)
    for _ in range(5):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()


main()
""",
        """
import copy
import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
model = copy.deepcopy(model)  # BUG
x, y = torch.randn(8, 4), torch.randn(8, 1)
for step in range(4):
    opt.zero_grad()
    loss = (model(x) - y).square().mean()
    loss.backward()
    opt.step()
""",
        """
import torch


def inside(image):
    pixels = image.detach().clamp(0, 1)
    pixels.requires_grad = True
    return pixels


torch.manual_seed(0)
judge = torch.nn.Conv2d(1, 4, 3).requires_grad_(False)
goal = judge(torch.rand(1, 1, 8, 8))
image = torch.rand(1, 1, 8, 8).requires_grad_(True)
optimizer = torch.optim.Adam([image], lr=0.05)
for step in range(8):
    optimizer.zero_grad()
    loss = (judge(image) - goal).square().mean()
    loss.backward()
    optimizer.step()
    image = inside(image)  # BUG
""",
    )
    healthy = (
        """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 10))
optimizer = torch.optim.SGD(model[0].parameters(), lr=0.05)
model[2] = nn.Linear(8, 3)
optimizer.add_param_group({"params": model[2].parameters(), "lr": 0.1})
x, y = torch.randn(30, 4), torch.randint(0, 3, (30,))
for step in range(6):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
""",
    )


def _successors(found: Stale, new: list[Parameter]) -> str:
    """What gets the gradients now; a tensor that is made in every step has been many."""
    names = {parameter.name for parameter in new}
    again = len(names) == 1 and len(new) > len(found.old)
    return f"{new[0].name} (made {plural(len(new), 'time')})" if again else listed(new)


def _who(found: Stale, new: list[Parameter]) -> str:
    """What was replaced, for a sentence: layers in an nn.Sequential have numbers for names."""
    if found.name:
        return f"layer {found.name} is" if found.name.isdecimal() else f"{found.name} is"
    if len({parameter.name for parameter in new}) == 1:  # also one that is made in every step
        return f"{new[0].name} is"
    return f"{listed(new, 2)} are"
