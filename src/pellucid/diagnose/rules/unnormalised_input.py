"""unnormalised-input: features of wildly different or huge scale."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid.diagnose.events import ORDER, SMALL, ModuleCall, Operation, Pass, Value
from pellucid.diagnose.finding import Finding, Related, Spot
from pellucid.diagnose.measures import array_of, is_weighted, progress
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace

LARGE = 50.0  # the size of a feature that is a finding when training suffers
HUGE = 100.0  # and in any case
DIFFERENT = 1e4  # the largest feature against the smallest, in any case
PASSES = 8  # that are looked at
NORMALISING = ("moments", "batch_norm", "layer_norm", "group_norm")  # an instance norm is a batch norm here
NOTABLE = 10.0  # features below this size are never too large


@dataclass
class Seen:
    """The data that entered, as the first weights met it."""

    spot: Spot
    number: int
    largest: float  # the size of the largest feature: its root mean square
    smallest: float
    extreme: float
    shape: tuple[int, ...]
    used: Spot
    features: bool  # whether weights are applied to features, not just a number to one


class UnnormalisedInput(Rule):
    """Weights are initialised for inputs of a size near one; thousands, or features of very different size, are not.

    They saturate activations, make the loss huge, and one rate cannot fit all features. Measured is what the first
    weights meet: data that a BatchNorm or a division inside the model brings to size is fine, and so are token numbers
    for an embedding, and pixels from 0 to 255 where a BatchNorm follows the first weights directly.
    """

    code = "unnormalised-input"
    explains = frozenset((
        "saturated-activation", "dead-relu", "exploding-gradient", "vanishing-gradient", "learning-rate-too-high",
        "learning-rate-too-low",
    ))  # fmt: skip

    def __init__(self) -> None:
        self.seen: Seen | None = None
        self.looks = 0
        self.suspicious = 0

    def look(self, done: Pass, trace: Trace) -> None:
        if done.number >= PASSES or 2 * (self.looks - self.suspicious) >= PASSES:  # a finding needs most of them
            return
        data = [value for value in done.uses if not value.requires_grad and value.parameter is None]
        users = dict.fromkeys(op for value in data for op in done.uses[value] if op.op == "mul" or is_weighted(op))
        path = sorted([op for op in users if op in done.toward_loss and op.recorded], key=ORDER)
        entered = [(op, value) for op in path for value in _data(op)]
        self.looks += bool(entered)
        for operation, value in entered if _any_notable([value for _, value in entered]) else ():
            found = _measured(operation, value, done)
            if found is not None:
                self.seen = self.seen or found
                self.suspicious += 1
                return

    def findings(self, trace: Trace) -> Iterable[Finding]:
        seen = self.seen
        if seen is None or 2 * self.suspicious <= self.looks:
            return
        went = progress(trace)
        suffers = bool(went.finite) and (went.broke or went.improved > 0.5 or went.first > 1e3)
        if suffers or (seen.features and (seen.largest >= HUGE or seen.largest >= DIFFERENT * seen.smallest)):
            yield Finding(
                self.code, seen.spot,
                "the input is not normalised: its features are far from the size that the weights are made for",
                f"input of shape {seen.shape}: features between {seen.smallest:.3g} and {seen.largest:.3g} in size "
                f"(root mean square), values up to {seen.extreme:.3g}; {went.told}",
                "bring every feature to mean 0 and deviation 1 (with numbers from the training data), pixels to 0..1:\n"
                "+ x = (x - x.mean(0)) / (x.std(0) + 1e-8)",
                related=(Related(seen.used, "the first weights meet it here"),), since=seen.number,
            )  # fmt: skip

    broken = (
        """
import torch
import torch.nn as nn

torch.manual_seed(0)
income = torch.rand(80, 1) * 90000 + 10000
rate = torch.rand(80, 1) * 0.01
features = torch.cat([income, rate], dim=1)
default = (rate > 0.005).float()


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 16), nn.Sigmoid(), nn.Linear(16, 1))

    def forward(self, x):
        return self.net(x)


scorer = Scorer()
optimizer = torch.optim.Adam(scorer.parameters(), lr=1e-3)
for epoch in range(25):
    optimizer.zero_grad()
    logits = scorer(features)  # BUG
    loss = nn.functional.binary_cross_entropy_with_logits(logits, default)
    loss.backward()
    optimizer.step()
""",
        """
import torch
import torch.nn as nn
import torch.nn.functional as F


def train_step(model, images, labels, optimizer):
    optimizer.zero_grad()
    scores = model(images)  # BUG
    loss = F.cross_entropy(scores, labels)
    loss.backward()
    optimizer.step()
    return loss


torch.manual_seed(1)
images = torch.randint(0, 256, (40, 1, 12, 12)).float()
labels = torch.randint(0, 3, (40,))
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(400, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for i in range(10):
    train_step(model, images[i * 4 : i * 4 + 4], labels[i * 4 : i * 4 + 4], optimizer)
""",
        """
import torch

torch.manual_seed(2)
area = torch.rand(60, 1) * 3000 + 500
rooms = torch.randint(1, 6, (60, 1)).float()
x = torch.cat([area, rooms], 1)
price = 0.2 * area + 10 * rooms
w = torch.zeros(2, 1, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
optimizer = torch.optim.SGD([w, b], lr=0.01)
for epoch in range(30):
    optimizer.zero_grad()
    prediction = x @ w + b  # BUG
    loss = ((prediction - price) ** 2).mean()
    loss.backward()
    optimizer.step()
""",
    )
    healthy = (
        """
import torch
import torch.nn as nn

torch.manual_seed(0)
x = torch.cat([torch.rand(64, 1) * 80 + 10, torch.rand(64, 3)], 1)
y = x[:, :1] / 50
model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(40):  # the model normalises by itself
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
""",
        """
import torch
import torch.nn as nn

torch.manual_seed(1)
tokens = torch.randint(0, 5000, (16, 10))
model = nn.Sequential(nn.Embedding(5000, 8), nn.Flatten(), nn.Linear(80, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
labels = torch.randint(0, 2, (16,))
for step in range(10):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(tokens), labels)
    loss.backward()
    optimizer.step()
""",
    )


def _data(operation: Operation) -> list[Value]:
    """The inputs that weights are applied to and that are data: not weights, not computed from weights."""
    data = [v for v in operation.inputs if not v.requires_grad and v.parameter is None]
    if operation.op == "mul":  # a single feature times its weight
        return [v for v in data if v.size > 1 and any(w.parameter is not None for w in operation.inputs)]
    return [v for v in data if len(v.shape) > 1] if is_weighted(operation) else []


def _any_notable(values: list[Value]) -> bool:
    """Whether one of the values is large, or none can be told: a loop over time enters a hundred small pieces."""
    arrays = [array for value in values if (array := array_of(value)) is not None and array.size <= SMALL]
    if len(arrays) < len(values) or len(arrays) < 2:
        return True
    together = np.concatenate(arrays, axis=None)
    return not max(together.max(), -together.min()) < NOTABLE


def _measured(operation: Operation, value: Value, done: Pass) -> Seen | None:
    array = array_of(value)
    if array is None or array.size < 4 or max(array.max(), -array.min()) < NOTABLE or not np.isfinite(array).all():
        return None
    sizes = _sizes(array.astype(np.float64), operation)
    sizes = sizes[sizes > 0]
    if not sizes.size or sizes.max() < NOTABLE:
        return None
    if sizes.max() < LARGE and sizes.max() < DIFFERENT * sizes.min():
        return None
    if sizes.max() < NOTABLE * sizes.min() and _normalised_next(operation, done):
        return None
    return Seen(
        _entrance(operation, value, done), done.number, float(sizes.max()), float(sizes.min()),
        float(np.abs(array).max()), value.shape, operation.spot, operation.op != "mul",
    )  # fmt: skip


def _normalised_next(operation: Operation, done: Pass) -> bool:
    """Whether all that takes the result of the first weights is a normalisation: a common factor is lost there."""
    users = done.uses.get(operation.output, ())
    return bool(users) and all(user.op in NORMALISING for user in users)


def _sizes(array: Any, operation: Operation) -> Any:
    """The root mean square of every feature: a column, or a channel of images."""
    if operation.op == "mul":
        return np.sqrt((array**2).mean()).reshape(1)
    axis = 1 if operation.op.startswith("conv") and array.ndim > 2 else array.ndim - 1
    return np.sqrt((array**2).mean(axis=tuple(i for i in range(array.ndim) if i != axis)))


def _entrance(operation: Operation, value: Value, done: Pass) -> Spot:
    """Where the batch enters: the call of the whole model, else the operation that takes it."""
    call: ModuleCall | None = operation.module
    while call is not None and call.parent is not None:
        call = call.parent
    return operation.spot if call is None else call.spot
