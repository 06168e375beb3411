"""nan-input: the data already holds NaN or Inf."""

from collections.abc import Iterable

from pellucid.diagnose.bad_numbers import RootRule, bad_batch
from pellucid.diagnose.events import Pass
from pellucid.diagnose.finding import Finding
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace


class NanInput(RootRule, Rule):
    """The numbers were bad before the model saw them: a missing value in a table, a division in the preprocessing.

    One such element is enough: matrix products spread it over the whole batch, and one step over all weights. Where a
    line of the program itself made the bad numbers of the data (`torch.log` of a count), that line is the cause, and
    the place where the batch enters is only information.
    """

    code = "nan-input"
    explains = frozenset(
        (
            "log-of-zero",
            "division-by-zero",
            "sqrt-at-zero",
            "overflow",
            "nan-in-unselected-branch",
            "exploding-gradient",
            "learning-rate-too-high",
            "unnormalised-input",
            "wrong-target",
        )
    )

    def __init__(self) -> None:
        super().__init__()
        self.entered: Finding | None = None

    def look(self, done: Pass, trace: Trace) -> None:
        seen = self.seen
        super().look(done, trace)
        root = self.root
        if root is not None and root.code != self.code and not seen:
            self.entered = bad_batch(done, root)

    def findings(self, trace: Trace) -> Iterable[Finding]:
        yield from super().findings(trace)
        if self.entered is not None:
            yield self.entered

    broken = (
        """
import torch

torch.manual_seed(0)
features = torch.randn(64, 5)
features[17, 3] = float("nan")  # a missing measurement
labels = torch.randint(0, 2, (64,))
model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for start in range(0, 64, 16):
    batch, wanted = features[start : start + 16], labels[start : start + 16]
    optimizer.zero_grad()
    output = model(batch)  # BUG
    loss = torch.nn.functional.cross_entropy(output, wanted)
    loss.backward()
    optimizer.step()
""",
        """
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def load():
    table = np.random.RandomState(0).randn(60, 4).astype("float32")
    table[41, 0] = np.inf
    return torch.from_numpy(table[:, :3].copy()), torch.from_numpy(table[:, 3:].copy()), torch.from_numpy(table)


def train():
    x, y, table = load()
    x = table[:, :3]
    net = nn.Linear(3, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for inputs, targets in DataLoader(TensorDataset(x, y), batch_size=20):
        opt.zero_grad()
        prediction = net(inputs)  # BUG
        loss = nn.functional.mse_loss(prediction, targets)
        loss.backward()
        opt.step()


train()
""",
    )
    healthy = (
        """
import torch

torch.manual_seed(0)
features = torch.randn(64, 5)
features[17, 3] = float("nan")
features = torch.nan_to_num(features, nan=0.0)
labels = torch.randint(0, 2, (64,))
model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for start in range(0, 64, 16):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(features[start : start + 16]), labels[start : start + 16])
    loss.backward()
    optimizer.step()
""",
    )
