"""saturated-activation: a sigmoid, tanh or softmax whose units are nearly all at their ends."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np

from pellucid.diagnose.events import FLOAT, SMALL, Operation, Parameter, Pass, end_to_end
from pellucid.diagnose.finding import Finding, Spot
from pellucid.diagnose.measures import Progress, Site, array_of, describe, is_hidden, on_path, progress, sites
from pellucid.diagnose.origins import MOVING
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace

END = 0.01  # how near to an end of its range an activation counts as saturated
NEARLY_ALL = 0.75  # the share of saturated values that is a finding when training begins
ROWS = 0.6  # the same for the rows of a softmax, of which hardly any is saturated in a healthy beginning
LATER = 0.95  # the same for a layer that saturates later
BEGINNING = 3  # passes in which a model has learned nothing yet
ENDS = {"sigmoid": (0.0, 1.0), "tanh": (-1.0, 1.0), "elman": (-1.0, 1.0)}
SOFT = ("softmax", "safe_softmax")
GATED = ("lstm", "gru")
WEIGHING = frozenset(("mul", "bmm", "mm", "matmul", "einsum"))  # what attention does with a softmax
WATCHED = frozenset((*ENDS, *SOFT, *GATED))
NAMES = {"elman": "RNN's tanh", "lstm": "LSTM's gates", "gru": "GRU's gates", "safe_softmax": "softmax"}
OF_SCORES = ", scale the scores by 1 / sqrt(d), or divide them by a larger temperature"
EDGE = 4.6  # an input of a sigmoid for which it is within END of its end


@dataclass
class Watched:
    """What was seen of one activation, per pass that was looked at."""

    operation: Operation
    hidden: bool
    shares: list[tuple[int, float]] = field(default_factory=list)  # the pass, and the share of saturated values
    largest: float = 0.0  # the largest input


class SaturatedActivation(Rule):
    """At the ends of its range a sigmoid, tanh or softmax is flat: hardly any gradient passes, whatever the loss says.

    Inputs or weights that are too large push the values there. A sigmoid or softmax at the *end* of a model is meant to
    get there as it learns: what counts is a model whose units are at their ends when training begins, or hidden units
    that all go there later while the loss gets no better. A softmax of a single output is at its end always: it is 1,
    whatever the model says.
    """

    code = "saturated-activation"
    explains = frozenset(("vanishing-gradient", "learning-rate-too-low"))

    def __init__(self) -> None:
        self.watched: dict[Site, Watched] = {}
        self.alone: dict[Spot, tuple[Operation, int]] = {}  # a softmax of one output each, and the first pass
        self.several: set[Spot] = set()  # of more than one, in some pass

    def look(self, done: Pass, trace: Trace) -> None:
        operations = on_path(done, WATCHED)
        for operation in operations:
            if operation.op in SOFT and operation.inputs[0].requires_grad:
                self._count(operation, done)
        together: dict[tuple[Spot, Any], tuple[Site, list[tuple[float, Operation]]]] = {}
        for (site, operation), share in zip(sites(operations), _shares(operations), strict=True):
            if share is not None:
                unit = Spot.of(operation.place), _weights(operation) or operation
                together.setdefault(unit, (site, []))[1].append((share, operation))
        for site, seen in together.values():
            self._note(site, seen, done)

    def _note(self, site: Site, seen: list[tuple[float, Operation]], done: Pass) -> None:
        """What one activation did in a pass: behind the same weights it may have run for many times or steps."""
        share, operation = sum(share for share, _ in seen) / len(seen), max(seen, key=itemgetter(0))[1]
        known = self.watched.get(site)
        if known is None:
            known = self.watched[site] = Watched(operation, is_hidden(operation, done))
        known.shares.append((done.number, share))
        if share >= ROWS:
            known.operation, known.largest = operation, _largest(operation)

    def _count(self, operation: Operation, done: Pass) -> None:
        """Note a softmax at the end of a model that has nothing to choose from."""
        shape, axis = operation.output.shape, operation.params[0] if operation.params else -1
        if shape and shape[axis] > 1:
            self.several.add(operation.spot)
        elif not is_hidden(operation, done) and not _weighs(operation, done):
            self.alone.setdefault(operation.spot, (operation, done.number))

    def findings(self, trace: Trace) -> Iterable[Finding]:
        yield from (self.constant(*seen) for spot, seen in self.alone.items() if spot not in self.several)
        went = progress(trace)
        found = [w for w in self.watched.values() if _saturated(w, went)]
        if found:
            yield self.finding(min(found, key=lambda w: (_since(w), w.operation.order)))
        elif late := [w for w in self.watched.values() if w.hidden and _ended_saturated(w, looks=2)]:
            yield self.finding(min(late, key=lambda w: w.operation.order)).at("info")

    def constant(self, operation: Operation, since: int) -> Finding:
        return Finding(
            self.code, operation.spot, "softmax of a single output is always 1: it passes no gradient at all",
            f"{describe(operation)} of shape {operation.output.shape} is taken over a dimension of size 1",
            "one output says yes or no by a sigmoid (or give it as it is to F.binary_cross_entropy_with_logits); for "
            "softmax the last layer needs one output for each class",
            since=since,
        )  # fmt: skip

    def finding(self, watched: Watched) -> Finding:
        operation = watched.operation
        share = max(share for _, share in watched.shares)
        return Finding(
            self.code, operation.spot,
            f"{100 * share:.3g} % of the values of this {NAMES.get(operation.op, operation.op)} are at the ends of its "
            "range, where it passes hardly any gradient",
            f"{describe(operation)} of shape {operation.output.shape}: inputs up to {watched.largest:.3g} in size; "
            f"saturated in {sum(s >= ROWS for _, s in watched.shares)} of {len(watched.shares)} passes looked at, "
            f"first in pass {_since(watched)}",
            "make its inputs smaller: normalise the data, initialise with smaller weights (nn.init.xavier_uniform_)"
            + (OF_SCORES if operation.op in SOFT else ", or add a LayerNorm before it"),
            since=_since(watched),
        )  # fmt: skip

    broken = (
        """
import torch
import torch.nn as nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(10, 32)
        self.fc2 = nn.Linear(32, 1)
        nn.init.normal_(self.fc1.weight, std=40.0)

    def forward(self, x):
        h = torch.sigmoid(self.fc1(x))  # BUG
        return self.fc2(h)


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
x = torch.randn(64, 10)
y = x[:, :1] * 0.5
for step in range(30):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
""",
        """
import torch


def attend(q, k, v):
    scores = q @ k.transpose(-2, -1)
    weights = torch.softmax(scores, dim=-1)  # BUG
    return weights @ v


def main():
    torch.manual_seed(4)
    wq, wk, wv = (torch.randn(64, 64).requires_grad_() for _ in range(3))
    head = torch.nn.Linear(64, 2)
    optimizer = torch.optim.Adam([wq, wk, wv, *head.parameters()], lr=1e-3)
    x, y = torch.randn(8, 6, 64), torch.randint(0, 2, (8,))
    for epoch in range(12):
        mixed = attend(x @ wq, x @ wk, x @ wv)
        loss = torch.nn.functional.cross_entropy(head(mixed.mean(1)) / 10, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
""",
        """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(40, 5)
y = (x[:, :1] > 0).float()
for step in range(10):
    probability = torch.softmax(model(x), dim=1)  # BUG
    loss = nn.functional.binary_cross_entropy(probability, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    )
    healthy = (
        """
import torch
from torch import nn

torch.manual_seed(0)
score, value = nn.Linear(4, 1), nn.Linear(4, 2)
optimizer = torch.optim.Adam([*score.parameters(), *value.parameters()], lr=1e-2)
for step in range(10):
    places = torch.randn(8, 1, 4)  # sentences of one word: there is nothing to choose from
    weights = torch.softmax(score(places), dim=1)
    loss = ((weights * value(places)).sum(1) - places[:, 0, :2]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        """
import torch
import torch.nn as nn

torch.manual_seed(0)
x = torch.cat([torch.randn(50, 4) + 3, torch.randn(50, 4) - 3])
y = torch.cat([torch.ones(50, 1), torch.zeros(50, 1)])
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1), nn.Sigmoid())
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
for step in range(120):  # ends nearly sure of every sample: its sigmoid is meant to saturate
    optimizer.zero_grad()
    loss = nn.functional.binary_cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
""",
    )


def _shares(operations: list[Operation]) -> list[float | None]:
    """The share of values at the ends of the range, for each; small ones are counted together."""
    known: dict[Operation, float | None] = {}
    for name in ("sigmoid", "tanh"):
        arrays = {op: op.output.array for op in operations if op.op == name and _is_small(op)}
        if len(arrays) > 1:
            numbers, starts = end_to_end(list(arrays.values()))
            inside = np.add.reduceat(_inside(numbers, name), starts, dtype=np.intp).tolist()
            pairs = zip(arrays.items(), inside, strict=True)
            known.update({op: 1 - count / array.size for (op, array), count in pairs})
    return [known[op] if op in known else _share(op) for op in operations]


def _weights(operation: Operation) -> frozenset[Parameter]:
    """The parameters of the layer whose result an activation takes."""
    maker = operation.inputs[0].maker if operation.op in ENDS and operation.inputs else None
    return frozenset(v.parameter for v in maker.inputs if v.parameter is not None) if maker is not None else frozenset()


def _is_small(operation: Operation) -> bool:
    array = operation.output.array
    return operation.finite and type(array) is np.ndarray and array.dtype is FLOAT and 0 < array.size <= SMALL


def _inside(result: Any, name: str) -> Any:
    """Which values of an activation are not at the ends of its range."""
    low, high = ENDS[name]
    inner = (1 - 2 * END) * (high - low) / 2
    return np.abs(result - (low + high) / 2 if low + high else result) <= inner


def _share(operation: Operation) -> float | None:
    """The share of values at the ends of the range; None where nothing can be said."""
    result = array_of(operation.outputs[0])
    if result is None or not operation.finite:
        return None
    if operation.op in SOFT and not operation.inputs[0].requires_grad:
        return None
    if operation.op in SOFT:
        return _share_of_rows(operation, result)
    if operation.op in GATED:
        return _share_of_gates(operation, result)
    if operation.op == "elman" and operation.params[-1]:  # its activation is a ReLU
        return None
    inside = _inside(result, operation.op)
    return 1 - np.count_nonzero(inside) / inside.size


def _share_of_rows(operation: Operation, result: Any) -> float | None:
    """The share of rows in which one entry takes all; rows that a mask leaves no choice do not count."""
    axis = operation.params[0] if operation.params else -1
    given = array_of(operation.inputs[0])
    if result.shape[axis] < 2 or given is None:
        return None
    choice = (given > -1e4).sum(axis=axis) > 1
    return float((result.max(axis=axis) > 1 - END)[choice].mean()) if choice.any() else None


def _share_of_gates(operation: Operation, states: Any) -> float | None:
    """The share of saturated gates of a recurrent layer, computed from its inputs and weights once more."""
    arrays = [array_of(value) for value in operation.inputs]
    weights = [array for array in arrays if array is not None and array.ndim == 2]
    if len(weights) < 4:
        return None
    inputs, first, (by_input, by_state) = weights[0], weights[1], weights[-2:]
    if inputs.shape[1] != by_input.shape[1] or states.shape[-1] != by_state.shape[1]:
        return None
    flat = states.reshape(-1, states.shape[-1])
    before = np.concatenate([first, flat[: len(inputs) - len(first)]])
    gates = inputs @ by_input.T + before @ by_state.T
    for bias in (array for array in arrays if array is not None and array.ndim == 1 and array.size == gates.shape[1]):
        gates = gates + bias
    return float((np.abs(gates) > EDGE).mean())


def _weighs(operation: Operation, done: Pass) -> bool:
    """Whether the shares of a softmax weigh something, as in attention, which may have one place to look at."""
    takers = list(done.uses.get(operation.output, ()))
    while takers:
        taker = takers.pop()
        if taker.op in WEIGHING:
            return True
        if taker.op in MOVING:
            takers += done.uses.get(taker.output, ())
    return False


def _largest(operation: Operation) -> float:
    array = array_of(operation.inputs[0])
    return 0.0 if array is None else float(np.abs(np.where(np.isfinite(array), array, 0)).max())


def _saturated(watched: Watched, went: Progress) -> bool:
    """From the beginning on; or by the end, with little gained."""
    early = [share for number, share in watched.shares if number < BEGINNING]
    late = _late(watched)
    enough = ROWS if watched.operation.op in SOFT else NEARLY_ALL
    lasting = not late or min(late) >= enough / 2
    if early and np.mean(early) >= enough and lasting:
        return watched.hidden or went.improved > 0.5
    positive = min(went.finite, default=-1.0) >= 0
    return _ended_saturated(watched) and positive and went.improved > (0.9 if watched.hidden else 0.5)


def _late(watched: Watched, looks: int = 3) -> list[float]:
    return [share for number, share in watched.shares if number >= BEGINNING][-looks:]


def _ended_saturated(watched: Watched, looks: int = 3) -> bool:
    """Whether nearly all values are saturated in the last passes; a softmax may well decide itself."""
    late = _late(watched, looks)
    return len(late) > 1 and min(late) >= LATER and watched.operation.op not in SOFT


def _since(watched: Watched) -> int:
    return next((number for number, share in watched.shares if share >= ROWS), 0)
