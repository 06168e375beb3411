"""zero-initialised: weights whose zero value or symmetry stops learning."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid.diagnose.events import Operation, Parameter, Pass
from pellucid.diagnose.finding import Finding, Related, Spot
from pellucid.diagnose.measures import flows_to_leaves, on_path
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace

ENOUGH = 3  # passes that must show it: a last layer that starts at zero leaves it after one step
EQUAL = 1e-4  # how much units may differ, against the largest weight
LARGE = 4_000_000  # elements of a parameter that is too large to compare


@dataclass
class Watched:
    """What was seen of one parameter."""

    looks: int = 0
    zero: int = 0  # passes in which it was zero and so was its gradient
    same: int = 0  # passes in which its units were equal and so were their gradients
    value: float = 0.0


class ZeroInitialised(Rule):
    """Weights that all start at zero, or all at the same number, stop learning.

    Two layers of zeros pass no gradient to each other; units with equal weights get equal gradients and stay copies of
    one another for ever. One layer of zeros is another thing: a zero bias, the zero last layer of a block, LoRA's
    second factor or a logistic regression leaves zero with its first step, because its own gradient is not zero.
    """

    code = "zero-initialised"
    explains = frozenset((
        "dead-relu", "vanishing-gradient", "learning-rate-too-low", "saturated-activation", "exploding-gradient",
        "learning-rate-too-high",
    ))  # fmt: skip

    def __init__(self) -> None:
        self.watched: dict[Parameter, Watched] = {}
        self.learning: set[Parameter] = set()  # they were seen to learn: no need to look again
        self.relu_of_zero = False  # a ReLU got nothing but zeros: it passes no gradient there

    def look(self, done: Pass, trace: Trace) -> None:
        self.relu_of_zero = self.relu_of_zero or any(map(_all_zero, on_path(done, ("relu",))))
        gradients: dict[Parameter, list[Any]] = {}
        for flow in flows_to_leaves(done):
            if flow.into not in self.learning and isinstance(flow.gradient, np.ndarray):
                gradients.setdefault(flow.into, []).append(flow.gradient)  # type: ignore[arg-type]
        for parameter, parts in gradients.items():
            tensor = parameter.tensor()
            if tensor is not None and tensor.array.size <= LARGE and _multiplies(parameter, done):
                self._note(parameter, tensor.array, parts)

    def _note(self, parameter: Parameter, array: Any, parts: list[Any]) -> None:
        known = self.watched.setdefault(parameter, Watched())
        known.looks += 1
        if array.dtype.kind != "f" or array.size < 1:
            return
        gradient = sum(_summed_to(part, array.shape) for part in parts)
        if not gradient.any() and not array.any():
            known.zero += 1
        elif _equal_units(array, gradient):
            known.same += 1
        if known.zero + known.same < known.looks:
            self.learning.add(parameter)
        known.value = float(array.reshape(-1)[0])

    def findings(self, trace: Trace) -> Iterable[Finding]:
        stuck = [p for p, w in self.watched.items() if w.looks >= ENOUGH and w.zero + w.same == w.looks]
        reason = len(stuck) > 1 or self.relu_of_zero or any(self.watched[p].same for p in stuck)
        if stuck and reason and len(trace.updates) >= ENOUGH - 1:
            yield self.finding(sorted(stuck, key=lambda p: p.order))

    def finding(self, stuck: list[Parameter]) -> Finding:
        first, *others = stuck
        watched = self.watched[first]
        names = ", ".join(p.name for p in stuck[:4]) + (" ..." if len(stuck) > 4 else "")
        if watched.same:
            message = (
                f"all units of {first.name} start with the same weights: they get the same gradient and stay copies"
            )
            evidence = f"{names}: the units and their gradients are equal in all {watched.looks} passes looked at"
        else:
            message = f"{first.name} starts at zero and its gradient is zero: it can never leave zero"
            evidence = f"{names}: weights and gradients are exactly 0 in all {watched.looks} passes looked at"
        return Finding(
            self.code, _initialised(first), message, evidence,
            _at_random(_initialised(first).code, first.name),
            related=tuple(_elsewhere(first, others)),
        )  # fmt: skip

    broken = (
        """
import torch
import torch.nn as nn


def init_weights(layer):
    if isinstance(layer, nn.Linear):
        nn.init.zeros_(layer.weight)  # BUG
        nn.init.zeros_(layer.bias)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
model.apply(init_weights)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x, y = torch.randn(48, 6), torch.randint(0, 3, (48,))
for epoch in range(20):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
""",
        """
import torch

torch.manual_seed(0)
w1 = torch.full((5, 12), 0.3, requires_grad=True)  # BUG
b1 = torch.zeros(12, requires_grad=True)
w2 = torch.full((12, 1), 0.3, requires_grad=True)
x = torch.randn(64, 5)
target = torch.sin(3 * x[:, :1]) + x[:, 1:2] * x[:, 2:3]
for step in range(40):
    hidden = torch.tanh(x @ w1 + b1)
    loss = ((hidden @ w2 - target) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        for p in (w1, b1, w2):
            p -= 0.05 * p.grad
            p.grad = None
""",
        """
import torch
import torch.nn as nn


class Factors(nn.Module):
    def __init__(self, users, items, size):
        super().__init__()
        self.user = nn.Embedding(users, size)
        self.item = nn.Embedding(items, size)
        for table in (self.user, self.item):
            table.weight.data.zero_()  # BUG

    def forward(self, u, i):
        return (self.user(u) * self.item(i)).sum(-1)


def main():
    torch.manual_seed(5)
    model = Factors(20, 30, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    u, i, rating = torch.randint(0, 20, (100,)), torch.randint(0, 30, (100,)), torch.rand(100) * 5
    for epoch in range(10):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(u, i), rating)
        loss.backward()
        optimizer.step()


main()
""",
    )
    healthy = (
        """
import torch
import torch.nn as nn

torch.manual_seed(0)


class LowRank(nn.Module):
    def __init__(self, base, rank):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, base.in_features) * 0.1)
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + x @ self.a.t() @ self.b.t()


model = LowRank(nn.Linear(8, 8), 2)
optimizer = torch.optim.Adam([model.a, model.b], lr=0.05)
x = torch.randn(40, 8)
y = torch.randn(40, 8)
for step in range(30):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
""",
        """
import torch

torch.manual_seed(3)
x = torch.randn(60, 4)
y = (x[:, 0] - x[:, 1] > 0).long()
weight = torch.zeros(2, 4, requires_grad=True)  # convex: zero is a fine start
bias = torch.zeros(2, requires_grad=True)
optimizer = torch.optim.SGD([weight, bias], lr=0.5)
for step in range(30):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(x @ weight.t() + bias, y)
    loss.backward()
    optimizer.step()
""",
    )


def _all_zero(operation: Operation) -> bool:
    array = operation.inputs[0].array
    return isinstance(array, np.ndarray) and not (array.size and array.item(0)) and not array.any()


def _at_random(line: str, name: str) -> str:
    """The line that makes the weights, and the one that has to follow it or to take its place."""
    start, call, rest = line.partition("(")
    replaces = bool(call) and ".init." in start
    made, assigned, _ = line.partition(" = ")
    weight = rest.partition(",")[0].rstrip(")") if replaces else made if assigned else name
    return f"start with small random numbers:\n{'-' if replaces else ' '} {line}\n+ nn.init.kaiming_uniform_({weight})"


def _elsewhere(first: Parameter, others: list[Parameter], most: int = 4) -> Iterator[Related]:
    """The other lines that initialise in the same way, each once with what it makes."""
    lines: dict[Spot, list[str]] = {}
    for parameter in others[:most]:
        lines.setdefault(_initialised(parameter), []).append(parameter.name)
    for spot, names in lines.items():
        if spot != _initialised(first):
            yield Related(spot, f"{', '.join(names)}, the same")


def _initialised(parameter: Parameter) -> Spot:
    return Spot.of(parameter.written_at or parameter.created)


def _multiplies(parameter: Parameter, done: Pass) -> bool:
    """Whether a parameter is a factor; a bias, which is only added, may well be zero."""
    if len(parameter.shape) > 1:
        return True
    users = (op for value, users in done.leaves.items() if value.parameter is parameter for op in users)
    return any(op.op in ("mul", "mv", "dot") and op in done.toward_loss for op in users)


def _summed_to(gradient: Any, shape: tuple[int, ...]) -> Any:
    """A gradient summed over the dimensions along which its parameter was stretched."""
    if gradient.shape == shape:
        return gradient
    gradient = gradient.sum(axis=tuple(range(gradient.ndim - len(shape))))
    stretched = tuple(i for i, n in enumerate(shape) if n == 1 and gradient.shape[i] > 1)
    return gradient.sum(axis=stretched, keepdims=True)


def _equal_units(array: Any, gradient: Any) -> bool:
    """Whether the units along an axis have the same weights and, more than nothing, the same gradients."""
    if array.ndim < 2 or array.shape != gradient.shape or not gradient.any():
        return False
    weights, slopes = array.reshape(len(array), -1), gradient.reshape(len(array), -1)
    return any(
        weights.shape[axis] > 1 and _equal_along(weights, axis, EQUAL) and _equal_along(slopes, axis, 10 * EQUAL)
        for axis in (0, 1)
    )


def _equal_along(array: Any, axis: int, tolerance: float) -> bool:
    bound = tolerance * np.abs(array).max()
    first, second = array.take(0, axis), array.take(1, axis)
    return bool((np.abs(first - second) <= bound).all() and (np.ptp(array, axis=axis) <= bound).all())
