"""missing-step: gradients are computed and never applied, or cleared before they are."""

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from pellucid.diagnose.events import (
    Backward,
    Cleared,
    LeftOut,
    Operation,
    OptimizerInfo,
    Parameter,
    Pass,
    Update,
    Value,
)
from pellucid.diagnose.finding import Finding, Related, Spot
from pellucid.diagnose.naming import plural
from pellucid.diagnose.rewriting import renewed
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace

MOSTLY = 0.8  # the share of backward passes whose gradients come to nothing


class MissingStep(Rule):
    """The gradients come to nothing: no step follows, or they are cleared before the step.

    A step that is indented one level too little applies one gradient per epoch; `optimizer.step` without parentheses
    applies none, and neither does `p = p - rate * p.grad`, which gives the name p to another tensor. Of a loss that is
    divided by the number of micro-batches all gradients are meant to add up: cleared for every one of them, only the
    last counts.
    """

    code = "missing-step"
    explains = frozenset(("learning-rate-too-low", "missing-zero-grad", "vanishing-gradient"))

    def __init__(self) -> None:
        self.parts: dict[Spot, set[int]] = {}  # by the line of a backward: what its losses were divided by
        self.rebound: set[Spot] = set()  # lines that compute new values of parameters, and nothing takes them

    def look(self, done: Pass, trace: Trace) -> None:
        if not trace.optimizers:
            self.rebound.update(op.spot for op in done.of(("add", "sub")) if _is_left(op, done))
        if done.backward is not None:
            self.parts.setdefault(done.backward.spot, set()).update(_divisors(done.backward.root))

    def findings(self, trace: Trace) -> Iterable[Finding]:
        backwards = [event for event in trace.backwards if not event.asked]  # autograd.grad hands its gradients over
        if len(backwards) < 3:
            return
        if not trace.optimizers:
            if self.rebound and not trace.updates:
                yield self._rebound(backwards)
            return
        wasted, clearing = self._wasted(trace)
        probes = _probes(wasted, backwards, trace)
        if len(wasted) - len(probes) >= max(3, MOSTLY * (len(backwards) - len(probes))):
            yield self._never_applied(wasted, clearing, trace)
            return
        yield from self._only_the_last(wasted, clearing, backwards)
        moved = {parameter for info in trace.optimizers if info.steps for parameter in info.parameters}
        for info in trace.optimizers:
            left = set(info.parameters) - moved  # one that wraps another leaves the step to it
            reached = [event for event in backwards if event.reached & left]
            if not info.steps and len(reached) >= 3 and _came_round(backwards):
                self.explains = self.explains - {"missing-zero-grad"}  # those gradients another one applies
                yield self._never_stepped(info, reached)

    def _wasted(self, trace: Trace) -> tuple[list[Backward], list[Cleared]]:
        """The backward passes of whose gradients none was applied, and the clears that threw them away."""
        waiting: dict[Backward, set[Parameter]] = {}
        wasted, clearing = _in_closures(trace)
        for event in trace.loop:
            if isinstance(event, Backward) and event.reached and not (event.inside_step or event.asked):
                waiting[event] = set(event.reached)
            elif isinstance(event, (Update, LeftOut)):
                applied = event.with_gradient if isinstance(event, Update) else set(event.optimizer.parameters)
                waiting = {each: left for each, left in waiting.items() if not left & applied}
            elif isinstance(event, Cleared):
                for each in list(waiting):
                    waiting[each] -= event.parameters
                    if not waiting[each]:
                        del waiting[each]
                        if each.reached.isdisjoint(trace.handmade):  # else they were read, to make others of them
                            wasted.append(each)
                            clearing.append(event)
        return [*wasted, *waiting], clearing

    def _never_applied(self, wasted: list[Backward], clearing: list[Cleared], trace: Trace) -> Finding:
        steps = sum(info.steps for info in trace.optimizers)
        all_of_them = sum(not event.asked for event in trace.backwards)
        evidence = f"the gradients of {len(wasted)} of {all_of_them} backward passes were never applied"
        if not steps or not clearing:
            never = "backward() computes gradients, and no optimizer step applies them: the parameters stay as they are"
            others = "backward() gives gradients to tensors that no optimizer holds: its steps find none to apply"
            fix = "make the optimizer of the parameters that the loss is computed from"
            return Finding(
                self.code, wasted[0].spot, others if steps else never,
                f"{evidence}; the optimizer stepped {plural(steps, 'time')}",
                fix if steps else _step_after(wasted[0].spot, trace.optimizers[0]),
                related=(Related(trace.optimizers[0].spot, "the optimizer is made here"),), since=wasted[0].number,
                independent=not steps,
            )  # fmt: skip
        spot, name, backward = _most_common(clearing), trace.optimizers[0].called, wasted[0].spot.code
        return Finding(
            self.code, spot, "the gradients are cleared before a step applies them",
            f"{evidence}: they were cleared first; the optimizer stepped {plural(steps, 'time')}",
            f"clear before the backward, step after it:\n+ {name}.zero_grad()\n  {backward}\n+ {name}.step()",
            related=(Related(wasted[0].spot, "the gradients are computed here"),), since=wasted[0].number,
        )  # fmt: skip

    def _rebound(self, backwards: list[Backward]) -> Finding:
        """A loop over the parameters that gives the name another value, where it should write to the parameter."""
        line = min(self.rebound, key=lambda spot: spot.line)
        example = "p = p - rate * p.grad"
        old, better = next((each, renewed(each)) for each in (line.code, example) if renewed(each))
        return Finding(
            self.code, backwards[0].spot,
            "backward() computes gradients, and the parameters stay: their new values are put into another tensor",
            f"{plural(len(backwards), 'backward pass')}, and no parameter was changed",
            f"write to the parameter itself (under no_grad), or use an optimizer:\n- {old}\n+ {better}",
            related=(Related(line, "the new value is computed here"),), since=backwards[0].number,
        )  # fmt: skip

    def _only_the_last(
        self, wasted: list[Backward], clearing: list[Cleared], backwards: list[Backward]
    ) -> Iterator[Finding]:  # fmt: skip
        """Micro-batches of which all gradients but the last are cleared: as many as the loss is divided by."""
        cleared = list(zip(wasted, clearing, strict=False))  # those after them wait for a step at the end
        for spot, parts in self.parts.items():
            total = sum(event.spot == spot for event in backwards)
            lost = [(event, clear) for event, clear in cleared if event.spot == spot]
            for count in parts:
                if total >= 3 * count and abs(len(lost) - total * (count - 1) / count) < count:
                    yield Finding(
                        self.code, _most_common([clear for _, clear in lost]),
                        f"the loss is divided by {count} to add up {count} gradients, and each is cleared before the "
                        "next: only the last one is applied",
                        f"the gradients of {len(lost)} of {total} backward passes were cleared before a step",
                        "clear after the step, not before every backward:\n+ optimizer.step()\n+ optimizer.zero_grad()",
                        related=(Related(spot, "the gradients are computed here"),), since=lost[0][0].number,
                    )  # fmt: skip
                    break

    def _never_stepped(self, info: OptimizerInfo, reached: list[Backward]) -> Finding:
        """One of several optimizers is forgotten: name the backward that is most its own."""
        held = set(info.parameters)
        own = max(reached, key=lambda event: len(event.reached & held) / len(event.reached))
        return Finding(
            self.code, own.spot, f"the {info.kind} made at line {info.spot.line} never steps: its parameters stay",
            f"{len(reached)} backward passes gave gradients to its {plural(len(held), 'parameter')}, it never stepped",
            _step_after(own.spot, info),
            related=(Related(info.spot, "the optimizer is made here"),), since=own.number, independent=True,
        )  # fmt: skip

    broken = (
        """
import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
x, y = torch.randn(30, 4), torch.randint(0, 2, (30,))
for step in range(10):
    loss = torch.nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()  # BUG
    optimizer.step
""",
        """
import torch
from torch import nn


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optim = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def fit(self, x, y, epochs):
        for _ in range(epochs):
            prediction = self.model(x).squeeze(-1)
            loss = (prediction - y).square().mean()
            loss.backward()
            self.optim.zero_grad()  # BUG
            self.optim.step()


torch.manual_seed(0)
Trainer(nn.Linear(5, 1)).fit(torch.randn(40, 5), torch.randn(40), 12)
""",
        """
import torch

torch.manual_seed(0)
parts = 4
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def micro_batch(x, y):
    optimizer.zero_grad()  # BUG
    loss = torch.nn.functional.mse_loss(model(x), y) / parts
    loss.backward()


for i in range(24):
    x = torch.randn(8, 3)
    micro_batch(x, x.sum(1, keepdim=True))
    if (i + 1) % parts == 0:
        optimizer.step()
""",
        """
import torch

torch.manual_seed(0)
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(10):
    x = torch.randn(16, 4)
    loss = (net(x) - x[:, :1]).square().mean()
    loss.backward()
    for p in net.parameters():
        p.grad *= 0.5
        p.grad.zero_()  # BUG
    optimizer.step()
""",
        """
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 10), nn.Tanh(), nn.Linear(10, 1))
optimizer = torch.optim.LBFGS(net.parameters(), lr=0.5)
t = torch.linspace(0, 1, 30).unsqueeze(1)


def closure():
    loss = (net(t) - torch.sin(5 * t)).square().mean()
    loss.backward()
    optimizer.zero_grad()  # BUG
    return loss


for step in range(6):
    optimizer.step(closure)
""",
        """
import torch

torch.manual_seed(0)
net = torch.nn.Linear(4, 1)
for step in range(12):
    x = torch.randn(16, 4)
    loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
    net.zero_grad()
    loss.backward()  # BUG
    with torch.no_grad():
        for p in net.parameters():
            p = p - 0.1 * p.grad
""",
    )
    healthy = (
        """
import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(24, 4), torch.randint(0, 2, (24,))
for epoch in range(3):
    optimizer.zero_grad()
    for i in range(6):  # six parts, one step
        loss = torch.nn.functional.cross_entropy(model(x[4 * i : 4 * i + 4]), y[4 * i : 4 * i + 4]) / 6
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
""",
        """
import torch
import torch.nn.functional as F

torch.manual_seed(0)
net = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(60, 4)
y = x[:, :3].argmax(1)
for step in range(10):
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
importance = torch.zeros(3, 4)
for i in range(60):  # the information of Fisher, sample by sample: nothing is to be learned
    net.zero_grad()
    F.cross_entropy(net(x[i : i + 1]), y[i : i + 1]).backward()
    importance += net.weight.grad.square() / 60
""",
        """
import torch
import torch.nn.functional as F

torch.manual_seed(0)
net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.3)
x = torch.randn(80, 4)
y = (x[:, 0] > x[:, 1]).long()
for step in range(10):
    total = [torch.zeros_like(p) for p in net.parameters()]
    for i in torch.randint(0, 80, (8,)).tolist():  # privacy: every sample's gradient is clipped by itself
        optimizer.zero_grad()
        F.cross_entropy(net(x[i : i + 1]), y[i : i + 1]).backward()
        norm = sum(p.grad.square().sum() for p in net.parameters()).sqrt()
        for t, p in zip(total, net.parameters()):
            t += p.grad / norm.clamp(min=1.0)
    for t, p in zip(total, net.parameters()):
        p.grad = t / 8
    optimizer.step()
""",
        """
import torch

torch.manual_seed(0)
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(10):
    slopes = []
    for worker in range(8):  # of workers that disagree, the median is applied
        x = torch.randn(20, 4)
        optimizer.zero_grad()
        (net(x)[:, 0] - x.sum(1)).square().mean().backward()
        slopes.append([p.grad.clone() for p in net.parameters()])
    for p, *each in zip(net.parameters(), *slopes):
        middle = torch.stack(each).median(0).values
        if p.ndim > 1:
            p.grad.copy_(middle)
        else:
            p.grad.data.zero_()
            p.grad.add_(middle)
    optimizer.step()
""",
        """
import torch
from torch import nn


class Sharpness(torch.optim.Optimizer):  # never steps itself: the optimizer inside does
    def __init__(self, params, rho, **options):
        super().__init__(params, dict(rho=rho, **options))
        self.inner = torch.optim.SGD(self.param_groups, **options)

    @torch.no_grad()
    def climb(self):
        for p in self.param_groups[0]["params"]:
            self.state[p]["old"] = p.clone()
            p.add_(p.grad, alpha=self.param_groups[0]["rho"])
        self.zero_grad()

    @torch.no_grad()
    def descend(self):
        for p in self.param_groups[0]["params"]:
            p.copy_(self.state[p]["old"])
        self.inner.step()
        self.zero_grad()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = Sharpness(model.parameters(), rho=0.05, lr=0.1)
x = torch.randn(40, 4)
y = (x[:, 0] > 0).long()
for step in range(12):
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.climb()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.descend()
""",
    )


def _probes(wasted: list[Backward], backwards: list[Backward], trace: Trace) -> list[Backward]:
    """The passes that only measure, such as an attack's: another line gives the same parameters what steps apply.

    A step that finds no gradient speaks against it: there one was meant to be applied.
    """
    if any(update.optimizer is not None and not update.with_gradient for update in trace.updates):
        return []
    all_of, lost_of = (Counter(event.spot for event in events) for events in (backwards, wasted))
    trained = set().union(*(event.reached for event in backwards if 2 * lost_of[event.spot] < all_of[event.spot]))
    held = {parameter for info in trace.optimizers for parameter in info.parameters}
    return [event for event in wasted if event.reached & held <= trained]


def _divisors(root: Value, most: int = 64) -> Iterator[int]:
    """The whole numbers that a loss was divided by at the end, also beside the factor of a scaler."""
    maker = root.maker
    while maker is not None and maker.op in ("mul", "div"):
        factor = maker.inputs[-1].array
        number = float(np.real(factor.item())) if isinstance(factor, np.ndarray) and factor.size == 1 else 0.0
        if number > 0:
            ratio = number if maker.op == "div" else 1 / number
            if 2 <= round(ratio) <= most and abs(ratio - round(ratio)) < 1e-3:
                yield round(ratio)
        maker = maker.inputs[0].maker


def _is_left(operation: Operation, done: Pass) -> bool:
    """Whether an operation computes a new value for a parameter that nothing takes: `p = p - rate * p.grad`."""
    old, new = operation.inputs[0], operation.output
    return old.parameter is not None and not operation.grad_mode and old.shape == new.shape and new not in done.uses


def _in_closures(trace: Trace) -> tuple[list[Backward], list[Cleared]]:
    """The last backward passes of the closures of steps that were cleared before the step could read them."""
    wasted, clearing = [], []
    last, left, by = None, set[Parameter](), None
    for event in trace.loop:
        if isinstance(event, Backward) and event.inside_step:
            last, left, by = event, set(event.reached), None
        elif isinstance(event, Cleared) and last is not None:
            left -= event.parameters
            by = by or (None if left else event)
        elif isinstance(event, Update):
            if last is not None and by is not None:
                wasted.append(last)
                clearing.append(by)
            last = None
    return wasted, clearing


def _came_round(backwards: list[Backward]) -> bool:
    """Whether the loop has got past all its lines: a backward that fails the first time keeps steps from coming."""
    failed = backwards[-1]
    return failed.error is None or any(event.spot == failed.spot for event in backwards[:-1])


def _step_after(spot: Spot, info: OptimizerInfo) -> str:
    """The step that is missing; where a scaler made the loss larger, its own, which makes the gradients smaller."""
    scaler = spot.code.partition(".scale(")[0] if ".scale(" in spot.code else ""
    step = f"{scaler}.step({info.called})" if scaler.replace(".", "").isidentifier() else f"{info.called}.step()"
    return f"step after this backward:\n  {spot.code}\n+ {step}"


def _most_common(events: list[Cleared]) -> Spot:
    return Counter(event.spot for event in events).most_common(1)[0][0]
