"""left-the-graph: the value went through Python or NumPy, or was rebuilt with `tensor(...)`."""

import functools
import re

from pellucid.diagnose.ledger import CutRule, Loss, owner
from pellucid.diagnose.rules.rule import Rule

WORDS = {"item": ".item()", "numpy": ".numpy()", "tolist": ".tolist()", "float": "float()", "int": "int()",
         "array": "np.array()"}  # fmt: skip
# What to write instead: the history is in the tensors themselves.
BETTER = (
    (re.compile(r"\b(?:math|np|numpy)\.(exp|expm1|log|log1p|log2|log10|sqrt|sin|cos|tan|sinh|cosh|tanh|erf)"
                r"\((?=[^()]*(?:\.item\(\)|\bfloat\())"), r"torch.\1("),
    (re.compile(r"\.(?:item|tolist)\(\)"), ""),
    (re.compile(r"\bfloat\(([\w.]+)\)"), r"\1"),
    (re.compile(r"torch\.(?:as_)?tensor\((\[[\w\s.,]+\])(?:,[^()]*)?\)"), r"torch.stack(\1)"),
    (re.compile(r"torch\.(?:as_)?tensor\((torch\.\w+\([\w.]+\)|[\w.]+(?:\[\w+\])?)(?:,[^()]*)?\)"), r"\1"),
    (re.compile(r"\.requires_grad_\((?:True)?\)$"), ""),
)  # fmt: skip
# A list of tensors under one name.
LIST = re.compile(r"torch\.(?:as_)?tensor\(([a-zA-Z_][\w.]*)(?:,[^()]*)?\)"), r"torch.stack(\1)"
# Python's and NumPy's functions give numbers, of whatever they are called with.
OUTSIDE = re.compile(r"\b(?:math|np|numpy)\.\w+\([^()]*(?:\.item\(\)|\bfloat\()")


class LeftTheGraph(CutRule, Rule):
    """A number in Python, an array of NumPy or a tensor built anew has no history.

    `.item()`, `.tolist()`, `float()` and `.numpy()` are for logs; a value that goes on to the loss must stay a tensor.
    `torch.tensor(value, requires_grad=True)` does not bring the history back: it makes a new leaf, and `backward()`
    then runs without a word and trains nothing. Numbers that only go to a log are no finding.
    """

    code = "left-the-graph"
    explains = frozenset(("learning-rate-too-low", "vanishing-gradient", "missing-step"))

    def message(self, loss: Loss) -> str:
        how = loss.cut.operation.op if loss.cut.operation is not None else "numpy"
        word = WORDS.get(how)
        if word is None:
            return f"{how}(...) builds a new tensor without history: no gradient gets back to {owner(loss)}"
        if loss.cut.operation is None:
            return "a NumPy array cannot carry the graph along, and this tensor requires grad"
        return f"{word} takes the value out of the graph on its way to the loss: no gradient gets back to {owner(loss)}"

    def fix(self, loss: Loss) -> str:
        source = loss.cut.spot.code
        operation = loss.cut.operation
        made = operation.outputs[0].shape if operation is not None and operation.outputs else None
        joins = made is not None and any(value.shape != made for value in operation.inputs)  # type: ignore[union-attr]
        rules = (LIST, *BETTER) if joins else BETTER
        better = functools.reduce(lambda text, pair: pair[0].sub(pair[1], text), rules, source)
        name, _, value = better.partition(" = ")
        if name == value:
            return f"keep the tensor that was there: leave this line out\n- {source}"
        if better != source and not (OUTSIDE.search(source) and "torch." not in better):
            return f"keep it a tensor:\n- {source}\n+ {better}"
        return "compute with torch's own functions and keep the value a tensor (torch.stack joins a list of tensors)"

    broken = (
        """
import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 1))
opt = torch.optim.Adam(model.parameters(), lr=0.01)
x, y = torch.randn(12, 3), torch.randn(12, 1)
for step in range(5):
    opt.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss = torch.tensor(loss.item(), requires_grad=True)  # BUG
    loss.backward()
    opt.step()
""",
        """
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(4, 8)
        self.out = nn.Linear(8, 1)

    def forward(self, x):
        h = self.inp(x)
        h = np.tanh(h.detach().numpy())  # BUG
        return self.out(torch.from_numpy(h))


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
x, y = torch.randn(20, 4), torch.randn(20, 1)
for i in range(4):
    optimizer.zero_grad()
    loss = (net(x) - y).square().mean()
    loss.backward()
    optimizer.step()
""",
        """
import torch

torch.manual_seed(0)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = [(torch.randn(2), torch.randn(1)) for _ in range(6)]
for epoch in range(2):
    losses = []
    for x, y in data:
        error = (model(x) - y).abs().sum()
        losses.append(error.item())  # BUG
    total = torch.tensor(losses).mean()
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
""",
        """
import torch


def penalised(model, x, y):
    fit = torch.nn.functional.mse_loss(model(x), y)
    size = model.weight.abs().sum().item()  # BUG
    return fit + 0.1 * size


torch.manual_seed(0)
model = torch.nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x, y = torch.randn(30, 5), torch.randn(30, 1)
for step in range(6):
    optimizer.zero_grad()
    loss = penalised(model, x, y)
    loss.backward()
    optimizer.step()
""",
    )
    healthy = (
        """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x, y = torch.randn(40, 3), torch.randint(0, 2, (40,))
history, right = [], 0
for epoch in range(8):
    logits = model(x)
    loss = nn.functional.cross_entropy(logits, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    right += (logits.detach().numpy().argmax(1) == y.numpy()).sum()
print(sum(history) / len(history), float(loss), right)
""",
    )
