"""clamped: nearly all values sit outside a clamp's range."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pellucid.diagnose.events import Operation, Pass, Value
from pellucid.diagnose.finding import Finding
from pellucid.diagnose.measures import (
    Site,
    array_of,
    describe,
    flows_of,
    is_hidden,
    is_penalty,
    on_path,
    parameters_behind,
    progress,
    sites,
)
from pellucid.diagnose.naming import plural
from pellucid.diagnose.origins import numbers, origin
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace

CLAMPS = frozenset((
    "clamp", "clamp_above", "clamp_below", "clamp_between", "clamp_min", "clamp_max", "clamp_min_tensor",
    "clamp_max_tensor", "hardtanh", "hardsigmoid", "maximum", "minimum",
))  # fmt: skip
BOUNDED = ("clamp", "hardtanh")  # by two numbers; None for no bound
DISTANCES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
NEARLY_ALL = 0.8  # the share of values outside, and of the gradient that is held back
FEW = 8  # values: below that all of them have to sit outside all the time
SPARSE = 0.95  # the same where one bound is zero, as in ReLU6: most values may well be off


@dataclass
class Watched:
    """What was seen of one clamp, per pass that was looked at."""

    operation: Operation
    passes: list[tuple[int, float, float]] = field(default_factory=list)  # pass, share outside, gradient held back
    lowest: float = 0.0
    highest: float = 0.0
    enough: float = NEARLY_ALL
    behind: int = 0  # parameters whose gradient has to come through it
    unreachable: list[float] = field(default_factory=list)  # per pass, the share of its targets outside of its range
    targets: tuple[float, float] = (0.0, 0.0)  # the smallest and the largest of them


class Clamped(Rule):
    """Outside its range clamp (or hardtanh, ReLU6) is flat: values that sit there get no gradient to come back.

    A clamp that touches a few values is harmless, and so is one whose values want to be at its bounds: what counts is
    that nearly all values sit outside and that the gradient which arrives is held back there; or that they will, as
    the targets which they are to come to lie outside.
    """

    code = "clamped"
    explains = frozenset(("vanishing-gradient", "learning-rate-too-low", "dead-relu"))

    def __init__(self) -> None:
        self.watched: dict[Site, Watched] = {}

    def look(self, done: Pass, trace: Trace) -> None:
        flows = flows_of(done)
        clamps = [op for op in on_path(done, CLAMPS) if op.inputs[0].requires_grad and _is_clamp(op)]
        wanted = _wanted(done) if clamps else {}
        for site, operation in sites(clamps):
            outside = _outside(operation)
            passed = [flow for flow in flows.get(operation, ()) if flow.incoming_size == flow.outgoing_size]
            if outside is None or not passed or is_penalty(operation, done):
                continue
            incoming, outgoing = passed[-1].incoming, passed[-1].outgoing
            held = 1 - (outgoing / incoming) ** 2 if incoming > 0 else 0.0
            known = self.watched.setdefault(site, Watched(operation))
            known.passes.append((done.number, float(outside.mean()), held))
            _compare(known, operation, wanted.get(operation))
            if known.passes[-1][1] >= NEARLY_ALL:
                known.enough = SPARSE if is_hidden(operation, done) and 0 in operation.params else NEARLY_ALL
                _measure(known, operation)

    def findings(self, trace: Trace) -> Iterable[Finding]:
        improved = progress(trace).improved
        found = [w for w in self.watched.values() if _lasting(w, len(trace.backwards), improved)]
        if found:
            yield self.finding(min(found, key=lambda w: (_since(w), w.operation.order)))
            return
        for watched in self.watched.values():
            if len(watched.unreachable) > 1 and min(watched.unreachable) >= NEARLY_ALL:
                yield self.too_narrow(watched)
                return

    def finding(self, watched: Watched) -> Finding:
        operation = watched.operation
        share = 100 * watched.passes[-1][1]
        return Finding(
            self.code, operation.spot,
            f"{share:.3g} % of the values sit outside the range of this {operation.name}: no gradient passes there",
            f"{describe(operation)}{_range_of(operation)}: values between {watched.lowest:.3g} and "
            f"{watched.highest:.3g}; {100 * watched.passes[-1][2]:.3g} % of the gradient is held back, "
            f"on its way to {plural(watched.behind, 'parameter')}; since pass {_since(watched)}",
            "give the values a range they fit in, or a function that passes gradient everywhere (sigmoid, softplus); "
            "clamp only for evaluation, outside the loss",
            since=_since(watched),
        )  # fmt: skip

    def too_narrow(self, watched: Watched) -> Finding:
        operation, (low, high) = watched.operation, watched.targets
        share = 100 * watched.unreachable[-1]
        return Finding(
            self.code, operation.spot,
            f"the targets lie outside the range of this {operation.name}: no output can come to them",
            f"{describe(operation)}{_range_of(operation)}: {share:.3g} % of the targets lie outside, between {low:.3g} "
            f"and {high:.3g}; values on the way to them get no gradient any more",
            "leave the clamp out of the loss, or scale the targets to its range",
            since=watched.passes[0][0],
        )  # fmt: skip

    broken = (
        """
import torch
import torch.nn as nn

torch.manual_seed(0)


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, x):
        out = self.body(x)
        return torch.clamp(out, 0.0, 1.0)  # BUG


model = Regressor()
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
x = torch.randn(40, 5)
price = 20 + 5 * x[:, :1]
for epoch in range(60):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), price)
    loss.backward()
    optimizer.step()
""",
        """
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(3)
first = nn.Linear(8, 20)
second = nn.Linear(20, 3)
nn.init.uniform_(first.weight, 3.0, 6.0)
params = list(first.parameters()) + list(second.parameters())
optimizer = torch.optim.SGD(params, lr=0.05)
data, labels = torch.rand(30, 8) + 1, torch.randint(0, 3, (30,))
for i in range(20):
    hidden = first(data)
    hidden = F.relu6(hidden)  # BUG
    loss = F.cross_entropy(second(hidden), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        """
import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(40, 5)
degrees = 90 + 40 * x[:, :1]
for epoch in range(10):
    angle = nn.functional.hardtanh(model(x))  # BUG
    loss = (angle - degrees).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    )
    healthy = (
        """
import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 24), nn.ReLU6(), nn.Linear(24, 6))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
x = (torch.rand(50, 6) > 0.5).float()
for step in range(150):  # the targets are the bounds: outputs that pass them are right
    optimizer.zero_grad()
    out = model(x).clamp(1e-4, 1 - 1e-4)
    loss = nn.functional.binary_cross_entropy(out, x)
    loss.backward()
    optimizer.step()
""",
    )


def _is_clamp(operation: Operation) -> bool:
    """Whether a maximum or minimum is one with a bound that is not zero (that is a ReLU)."""
    if operation.op not in ("maximum", "minimum"):
        return True
    other = array_of(operation.inputs[1])
    return other is not None and not operation.inputs[1].requires_grad and other.size == 1 and bool(other.any())


def _outside(operation: Operation) -> Any:
    """Which values are at a bound; the result tells, also when the operation wrote over its input."""
    result = array_of(operation.output)
    if result is None or not np.isfinite(result).all():
        return None
    flags = np.zeros(result.shape, bool)
    if operation.op == "hardsigmoid":
        return (result <= 0) | (result >= 1)
    given = operation.params if not operation.inputs[1:] else [array_of(value) for value in operation.inputs[1:]]
    for bound in given:
        if bound is not None:
            flags |= result == np.asarray(bound, result.dtype)
    return flags


def _wanted(done: Pass) -> dict[Operation, Value]:
    """What the results of operations are compared with, by a loss or by hand."""
    pairs = [(call.input, call.target) for call in done.losses if call.name in DISTANCES]
    for difference in on_path(done, ("sub",)):
        first, second = difference.inputs
        pairs += [(first, second)] if first.requires_grad else [(second, first)]
    return {
        made: target
        for given, target in pairs
        if target is not None and not target.requires_grad and (made := origin(given)) is not None
    }


def _compare(watched: Watched, operation: Operation, target: Value | None) -> None:
    """Note which share of the targets a clamp's result can never come to."""
    array = numbers(target)
    if array is None or operation.op not in BOUNDED or operation.inputs[1:]:
        return
    low, high = (np.nan if bound is None else bound for bound in operation.params)  # beyond NaN lies nothing
    watched.unreachable.append(float(((array < low) | (array > high)).mean()))
    watched.targets = float(array.min()), float(array.max())


def _measure(watched: Watched, operation: Operation) -> None:
    array = array_of(operation.inputs[0])
    watched.operation = operation
    if array is not None:
        watched.lowest, watched.highest = float(array.min()), float(array.max())
    watched.behind = len(parameters_behind(operation.inputs[0]))


def _lasting(watched: Watched, passes: int, improved: float) -> bool:
    """Whether nearly all is held back in the last passes that were looked at, and the loss shows it."""
    recent = watched.passes[-3:] if watched.operation.output.size >= FEW else watched.passes
    stuck = all(share >= watched.enough and held >= watched.enough for _, share, held in recent)
    return stuck and watched.behind > 0 and len(recent) >= min(2, passes) and improved > 0.02


def _since(watched: Watched) -> int:
    since = watched.passes[-1][0]
    for number, share, _ in reversed(watched.passes):
        if share < NEARLY_ALL:
            break
        since = number
    return since


def _range_of(operation: Operation) -> str:
    bounds = [p for p in operation.params if isinstance(p, (int, float))]
    return f" to {', '.join(f'{b:.3g}' for b in bounds)}" if bounds else ""
