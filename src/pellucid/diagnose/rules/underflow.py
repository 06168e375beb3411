"""underflow: a product or an exponential became exactly zero in its dtype."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid.diagnose.events import Flow, Operation, Pass, Value
from pellucid.diagnose.finding import Finding
from pellucid.diagnose.measures import array_of, describe, flows_of, is_hidden, on_path, with_zeros
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace

EXPONENTIALS = frozenset(("exp", "exp2", "pow", "pow_number", "pow_of_number"))
PRODUCTS = frozenset(("mul", "div", "mul_number", "div_number"))
MIXED = frozenset(("mm", "mv", "matmul", "bmm", "dot", "linear"))
REDUCED = frozenset(("prod", "prod_all", "cumprod"))
VANISHING = EXPONENTIALS | PRODUCTS | MIXED | REDUCED
SCALING = PRODUCTS | frozenset(("mean", "mean_all", "mse_loss", "pow_number", "mm", "linear", "linear_with_bias"))
NEARLY_ALL = 0.95  # the share of zeros that is a finding by itself
MASKED = -1e8  # an exponent below this is a mask
BEGINNING = 8  # later than this a squared error may well be too small
LOGS = ("log", "log2", "log10", "div", "reciprocal")


@dataclass
class Seen:
    """The first operation that lost its numbers, and what was measured there."""

    operation: Operation
    number: int
    evidence: str
    fatal: bool = False  # a logarithm or a division met the zeros
    passes: int = 1


OF_PRODUCTS = (
    "stay in logarithms (add log-probabilities instead of multiplying probabilities: log_softmax, logsumexp), or "
    "compute in a wider dtype and scale:\n- p.prod()\n+ p.log().sum()"
)
OF_EXP = (
    "bring the exponent near zero (normalise the data, a wider kernel, a larger temperature), or stay in logarithms "
    "where the result is summed or multiplied:\n- x.exp().sum(-1).log()\n+ torch.logsumexp(x, -1)"
)


class Underflow(Rule):
    """A product of many small numbers, or exp of a very negative one, is rounded to exactly zero.

    The smallest number is about 1e-45 in float32 and 6e-8 in float16; what is smaller is gone, and with it the gradient
    (or the logarithm after it). Kernels and masks that are zero in places are healthy: here nearly everything is zero,
    or a logarithm or division meets the zeros.
    """

    code = "underflow"
    explains = frozenset((
        "log-of-zero", "division-by-zero", "zero-initialised", "vanishing-gradient", "learning-rate-too-low",
        "saturated-activation", "exploding-gradient",
    ))  # fmt: skip

    def __init__(self) -> None:
        self.seen: Seen | None = None
        self.looks = 0

    def look(self, done: Pass, trace: Trace) -> None:
        if done.backward is None:
            return
        self.looks += 1
        if self.seen is None and done.number >= BEGINNING:
            return
        found = self._lost(done) or self._lost_gradient(done)
        if self.seen is None:
            self.seen = found
        elif found is not None:
            self.seen.passes += 1

    def _lost(self, done: Pass) -> Seen | None:
        """The first operation whose result is zero though nothing that went in was, with harm done."""
        fatal, flows = _met_by_logarithm(done), flows_of(done)
        for operation in with_zeros(on_path(done, VANISHING)):
            lost = _lost_numbers(operation)
            if lost is None or not lost.any():
                continue
            gone = lost.mean() >= NEARLY_ALL or (operation.op in PRODUCTS and not operation.output.array.any())
            harm = gone and _is_dead(operation, flows.get(operation, [])) and not _small_loss(operation, done)
            if operation in fatal or harm:
                text = f"{lost.sum()} of {lost.size} results are 0 in {operation.output.dtype}, {_inputs(operation)}"
                return Seen(operation, done.number, text, operation in fatal)
        return None

    def _lost_gradient(self, done: Pass) -> Seen | None:
        """The first operation that turned a gradient in half precision into zeros."""
        for flow in [flow for flow in done.flows if not flow.outgoing]:
            operation = flow.operation
            if _vanished(flow) and operation is not None and operation.op in SCALING and operation in done.toward_loss:
                last = flows_of(done)[operation][-1]
                text = f"a gradient of norm {last.incoming:.3g} became exactly 0 in {operation.output.dtype}"
                return Seen(operation, done.number, text)
        return None

    def findings(self, trace: Trace) -> Iterable[Finding]:
        seen = self.seen
        if seen is not None and (seen.fatal or 2 * seen.passes >= min(self.looks, BEGINNING)):
            yield Finding(
                self.code, seen.operation.spot,
                f"the result of {seen.operation.name} is too small for {seen.operation.output.dtype} and became "
                "exactly 0, which passes no gradient",
                f"{describe(seen.operation)}: {seen.evidence}; in {seen.passes} of {self.looks} passes looked at",
                OF_EXP if seen.operation.name == "exp" else OF_PRODUCTS,
                since=seen.number,
            )  # fmt: skip

    broken = (
        """
import torch

torch.manual_seed(0)
x = torch.randn(300, 3)
y = (x.sum(1) > 0).float()
w = torch.zeros(3, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
for step in range(10):
    p = torch.sigmoid(x @ w)
    each = torch.where(y > 0, p, 1 - p)
    likelihood = each.prod()  # BUG
    loss = -likelihood
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        """
import torch
import torch.nn as nn


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.centres = nn.Parameter(torch.randn(4, 2))

    def forward(self, points):
        distance = ((points[:, None] - self.centres) ** 2).sum(-1)
        density = torch.exp(-distance / 0.02)  # BUG
        return density.sum(1)


torch.manual_seed(1)
model = Mixture()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
points = torch.randn(50, 2) + 20
for epoch in range(10):
    optimizer.zero_grad()
    loss = -model(points).mean()
    loss.backward()
    optimizer.step()
""",
        """
import torch
import torch.nn as nn

torch.manual_seed(2)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 5))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
frames = torch.randn(200, 4)
labels = torch.randint(0, 5, (200,))


def sequence_loss():
    total = torch.ones(())
    probs = net(frames).softmax(dim=1)
    for t in range(200):
        total = total * probs[t, labels[t]]  # BUG
    return -torch.log(total)


for epoch in range(3):
    optimizer.zero_grad()
    loss = sequence_loss()
    loss.backward()
    optimizer.step()
""",
    )
    healthy = (
        """
import torch

torch.manual_seed(0)
centres = torch.linspace(-3, 3, 30)
x = torch.rand(80, 1) * 6 - 3
y = torch.sin(2 * x)
width = torch.tensor(0.05, requires_grad=True)
weight = torch.randn(30, 1, requires_grad=True)
optimizer = torch.optim.Adam([width, weight], lr=0.01)
for step in range(40):  # a kernel: zero far from its centre, as it should be
    kernel = torch.exp(-((x - centres) ** 2) / (2 * width**2))
    loss = ((kernel @ weight - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    )


def _lost_numbers(operation: Operation) -> Any:
    """Which results are zero though no input was zero or infinite: None when that cannot be told."""
    result = array_of(operation.output)
    given = array_of(operation.inputs[0])
    if result is None or given is None or operation.written_to is not None or not operation.recorded:
        return None
    zero = result == 0
    if operation.op in REDUCED:
        last = zero.take(-1, axis=operation.params[0]) if operation.op == "cumprod" else zero
        return last if (given != 0).all() else None
    if operation.op in ("exp", "exp2"):
        return zero & (given > MASKED)
    operands = [_factor(value) for value in operation.inputs]
    if operation.op in ("mul_number", "div_number"):
        operands.append(np.float64(operation.params[0]))  # as it was written: in float16 it may be 0 itself
    if any(operand is None for operand in operands):
        return None
    if operation.op in MIXED:  # a sum may well be zero; this one is because every product is too small
        largest = [float(np.abs(operand).max()) for operand in operands[:2]]
        return zero & (0 < largest[0] * largest[1] < float(np.finfo(operation.output.dtype).tiny))
    for number, operand in enumerate(operands):
        divides = number > 0 and operation.op in ("div", "div_number")
        fine = np.isfinite(operand) if divides else np.isfinite(operand) & (operand != 0)
        zero = zero & np.broadcast_to(fine, zero.shape)
    return zero


def _is_dead(operation: Operation, flows: list[Flow]) -> bool:
    """Whether next to nothing of the gradient goes on; a product of two passes it on by the other factor."""
    return operation.op in PRODUCTS | MIXED or all(flow.outgoing <= 1e-6 * flow.incoming for flow in flows)


def _factor(value: Value) -> Any:
    array = value.array
    return array if isinstance(array, np.ndarray) and array.dtype.kind in "f" else None


def _met_by_logarithm(done: Pass) -> set[Operation]:
    """The operations whose results, not much changed, a logarithm or a division turned into Inf or NaN."""
    found: set[Operation] = set()
    stack = [value for op in done.bad if op.op in LOGS for value in op.inputs[-1:]]
    while stack:
        value = stack.pop()
        maker, array = value.maker, array_of(value)
        if maker is None or maker in found or array is None or not (array == 0).any():
            continue
        if maker.op in EXPONENTIALS and array.max() == 1:  # exp(x - x.max()): small ones may vanish
            continue
        found.add(maker)
        stack.extend(maker.inputs)
    return found


def _small_loss(operation: Operation, done: Pass) -> bool:
    """Whether the zeros are nothing but a squared error that has become tiny."""
    return operation.op not in REDUCED and operation.op[:3] != "exp" and _is_error(operation, done)


def _is_error(operation: Operation, done: Pass) -> bool:
    array = array_of(operation.inputs[0])
    return not is_hidden(operation, done) and array is not None and float(np.abs(array).max()) < 1e-15


def _vanished(flow: Flow) -> bool:
    half = isinstance(flow.gradient, (np.ndarray, np.generic)) and flow.gradient.dtype.itemsize == 2
    return half and flow.incoming > 0 and flow.outgoing == 0 and flow.outgoing_size > 0


def _inputs(operation: Operation) -> str:
    array = array_of(operation.inputs[0])
    return f"from inputs between {array.min():.3g} and {array.max():.3g}"
