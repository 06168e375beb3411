"""suspicious-broadcast: two operands broadcast to a shape neither has, on the way to the loss."""

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from math import prod

import numpy as np

from pellucid.diagnose.events import Operation, Pass, Value
from pellucid.diagnose.finding import Finding, Related, Spot
from pellucid.diagnose.rewriting import squeezed
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace

PAIRWISE = frozenset(
    ("sub", "add", "mul", "div", "pow", "maximum", "minimum", "rsub", "eq", "ne", "lt", "gt", "le", "ge")
)
SPOKEN = {"sub": "a difference", "add": "a sum", "mul": "a product", "div": "a quotient"}
SIGNS = {"sub": "-", "add": "+", "mul": "*", "div": "/"}
ADDED = frozenset(("unsqueeze", "newaxis", "expand", "reshape", "permute"))  # what adds a dimension, or may
DELIBERATE = ADDED | {"sum", "mean", "amax", "max_dim"}  # and what keeps one: norms of rows that meet each other
LOSSES = (
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "poisson_nll_loss", "soft_margin_loss",
    "binary_cross_entropy_with_logits",
)  # fmt: skip


class SuspiciousBroadcast(Rule):
    """A prediction of shape (N, 1) and a target of shape (N,) broadcast to (N, N): every prediction meets every target.

    The loss is a number all the same, and the model learns the mean of the targets. Two operands with as many elements
    that grow in meeting each other are hardly ever meant, unless a dimension was added on the same line.
    """

    code = "suspicious-broadcast"
    explains = frozenset(("learning-rate-too-low", "vanishing-gradient"))

    def __init__(self) -> None:
        self.seen: dict[Spot, tuple[str, Value, Value, tuple[int, ...], int]] = {}
        self.makers: dict[Spot, tuple[Spot, ...]] = {}

    def look(self, done: Pass, trace: Trace) -> None:
        for spot, op, first, second in (*self._losses(done), *self._operations(done)):
            if spot not in self.seen:
                shape = np.broadcast_shapes(first.shape, second.shape)
                self.seen[spot] = (op, first, second, shape, done.number)
                self.makers[spot] = tuple(v.maker.spot for v in (first, second) if v.maker is not None)

    def _losses(self, done: Pass) -> Iterator[tuple[Spot, str, Value, Value]]:
        for call in done.losses:
            given, target = call.input, call.target
            if given is None or target is None or call.name not in LOSSES:
                continue
            if _grows(given, target):
                yield call.spot, call.name, given, target
            else:
                yield from self._targets(given, target)

    def _operations(self, done: Pass) -> Iterator[tuple[Spot, str, Value, Value]]:
        for operation in done.of(PAIRWISE):
            if len(operation.inputs) == 2 and operation.recorded and operation in done.toward_loss:
                first, second = operation.inputs
                if first.shape == second.shape and first.requires_grad == second.requires_grad:
                    continue
                if _grows(first, second) and _alike(first, second) and not _meant(operation):
                    yield operation.spot, operation.op, first, second
                yield from self._targets(first, second)

    def _targets(self, first: Value, second: Value) -> Iterator[tuple[Spot, str, Value, Value]]:
        """The operation that blew up a target before it met its prediction: rewards (N, 1) and values (N,), say."""
        if first.requires_grad == second.requires_grad:
            return
        for prediction, target in ((first, second), (second, first)):
            if prediction.requires_grad and target.size == prediction.size**2 > 1:
                grown = _grown_from(target)
                if grown is not None and not _meant(grown, ADDED) and grown.inputs[0].size == prediction.size:
                    yield grown.spot, grown.op, grown.inputs[0], grown.inputs[1]

    def findings(self, trace: Trace) -> Iterable[Finding]:
        for spot, (op, first, second, shape, since) in self.seen.items():
            related = tuple(Related(s, "an operand is made here") for s in self.makers[spot] if s != spot)
            yield Finding(
                self.code, spot,
                f"{SPOKEN.get(op, op)} of shapes {first.shape} and {second.shape} broadcasts to {shape}, a shape that "
                "neither has",
                f"{first.size} and {second.size} elements became {int(np.prod(shape))}: every element of one meets "
                "elements of the other that it does not belong to",
                "give both one shape, e.g.\n" + _one_shape(spot.code, op, first, second),
                related=related, since=since,
            )  # fmt: skip

    broken = (
        """
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(32, 3)
y = x.sum(dim=1)
for step in range(10):
    optimizer.zero_grad()
    prediction = model(x)
    loss = ((prediction - y) ** 2).mean()  # BUG
    loss.backward()
    optimizer.step()
""",
        """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
inputs = torch.randn(60, 4)
targets = inputs @ torch.tensor([1.0, -1.0, 2.0, 0.5])
criterion = nn.SmoothL1Loss()
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
for epoch in range(3):
    for batch, wanted in DataLoader(TensorDataset(inputs, targets), batch_size=20):
        opt.zero_grad()
        out = net(batch)
        loss = criterion(out, wanted)  # BUG
        loss.backward()
        opt.step()
""",
    )
    healthy = (
        """
import torch

torch.manual_seed(0)
encoder = torch.nn.Linear(5, 3)
centres = torch.nn.Parameter(torch.randn(12))
bias = torch.nn.Parameter(torch.zeros(3))
optimizer = torch.optim.Adam([*encoder.parameters(), centres, bias], lr=1e-2)
x, t = torch.randn(12, 5), torch.randn(12, 1)
for step in range(6):
    z = encoder(x) + bias
    pairs = (z[:, None, :] - z[None, :, :]).pow(2).sum(-1)  # all pairs, as meant
    basis = torch.exp(-((t - centres) ** 2))  # every point against every centre, as meant
    weights = torch.softmax(-pairs, dim=1)
    loss = (weights @ z - z.mean(0, keepdim=True)).pow(2).mean() + basis.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    )


def _one_shape(line: str, operation: str, first: Value, second: Value) -> str:
    """The line before and after, where one operand has a last dimension of 1 too many; else an example."""
    long = 0 if len(first.shape) > len(second.shape) else 1
    fits = (first, second)[long].shape[-1:] == (1,)
    better = squeezed(line, operation, long) if fits else ""
    if better:
        return f"- {line}\n+ {better}"
    if fits and operation in SIGNS:
        mended = ("a.squeeze(-1)", "b") if long == 0 else ("a", "b.squeeze(-1)")
        return f"- a {SIGNS[operation]} b\n+ {f' {SIGNS[operation]} '.join(mended)}"
    return "- prediction - target\n+ prediction.squeeze(-1) - target"


def _grows(first: Value, second: Value) -> bool:
    """Whether two operands broadcast to more elements than either has."""
    short, long = sorted((first.shape, second.shape), key=len)
    if not short or long[-len(short) :] == short or min(first.size, second.size) < 2:
        return False
    sizes = [{a, b} - {1} for a, b in zip_longest(first.shape[::-1], second.shape[::-1], fillvalue=1)]
    if any(len(both) > 1 for both in sizes):
        return False  # they do not broadcast at all
    return prod(max(both, default=1) for both in sizes) > max(first.size, second.size)


def _alike(first: Value, second: Value) -> bool:
    """Whether they look like two things of one kind whose shapes differ by a dimension, and neither is a parameter."""
    return (
        first.size == second.size
        and len(first.shape) != len(second.shape)
        and first.parameter is None
        and second.parameter is None
    )


def _grown_from(value: Value) -> Operation | None:
    """The operation without gradients in which a value got its size, by a broadcast of two things of one kind."""
    maker = value.maker
    while maker is not None and maker.outputs and maker.output.size == value.size:
        if maker.op in PAIRWISE and len(maker.inputs) == 2 and _grows(*maker.inputs) and _alike(*maker.inputs):
            return maker
        maker = next((v.maker for v in maker.inputs if v.size == value.size and v.maker is not None), None)
    return None


def _meant(operation: Operation, by: frozenset[str] = DELIBERATE) -> bool:
    """Whether a dimension was added on the same line: then the programmer thought of it."""
    makers = [value.maker for value in operation.inputs if value.maker is not None]
    return any(maker.op in by and maker.spot == operation.spot for maker in makers)
