"""step-before-backward: the optimizer steps with gradients of an older loss."""

from collections.abc import Iterable, Iterator
from itertools import takewhile

from pellucid.diagnose.events import Backward, Parameter, Pass, Update
from pellucid.diagnose.finding import Finding, Related, Spot
from pellucid.diagnose.naming import plural
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace
from pellucid.errors import InplaceError


class StepBeforeBackward(Rule):
    """The order is: loss, backward, step. A step before the backward of its loss has no gradients, or old ones.

    So it is too when backward() was forgotten, or a closure for LBFGS does not call it.
    With layers behind one another it may also crash: the step overwrites weights that the backward still needs. A step
    that applies the gradients of its own loss, and comes too early for another one, is reported as modified-in-place.
    """

    code = "step-before-backward"
    explains = frozenset(("modified-in-place", "missing-step", "missing-zero-grad", "learning-rate-too-low"))

    def __init__(self) -> None:
        self.early: list[Update] = []

    def look(self, done: Pass, trace: Trace) -> None:
        recent = takewhile(lambda event: event.number == done.number, reversed(trace.loop))
        steps = [event for event in recent if isinstance(event, Update)][::-1]
        self.early += [event for event in steps if self._early(event, done, trace)]

    def _early(self, event: Update, done: Pass, trace: Trace) -> bool:
        """Whether a step came between the forward that used its parameters and the backward of that forward."""
        if event.optimizer is None or done.backward is None:
            return False
        held = set(event.optimizer.parameters)
        if event.order >= done.backward.order:
            return False
        return self._used_before(event, done, held) or self._used_long_before(event, done, trace, held)

    def _used_before(self, event: Update, done: Pass, held: set[Parameter]) -> bool:
        earlier = takewhile(lambda operation: operation.order < event.order, done.operations)
        used = (op for op in earlier if op.recorded and any(value.parameter in held for value in op.inputs))
        return any(operation in done.toward_loss for operation in used)

    def _used_long_before(self, event: Update, done: Pass, trace: Trace, held: set[Parameter]) -> bool:
        """Whether the forward ran before the backward of another loss, which gave the step nothing to apply."""
        earlier = [other for other in trace.backwards if other.order < event.order]
        if done.backward is None or not earlier or held & earlier[-1].reached:
            return False
        inputs = [value for operation in done.toward_loss if operation.recorded for value in operation.inputs]
        carried = any(value.parameter is None and value.requires_grad and value.born < done.number for value in inputs)
        return carried and bool(held & done.backward.reached - {value.parameter for value in inputs})

    def findings(self, trace: Trace) -> Iterable[Finding]:
        crashed = trace.crash is not None and isinstance(trace.crash.error, InplaceError)
        if self.early and (len(self.early) > 1 or crashed):
            yield self.finding(self.early, trace)
        elif not self.early:
            yield from map(self.overwriting, self._overwriting(trace), trace.backwards[-1:])
            yield from self.forgotten(trace)

    def forgotten(self, trace: Trace) -> Iterator[Finding]:
        """Steps of a program that calls no backward() at all, and gives no gradients in another way."""
        steps = [event for event in trace.updates if event.optimizer is not None]
        if trace.backwards or trace.asked_for or trace.crash is not None or len(steps) < 3:
            return
        if not any(event.with_gradient or event.changed for event in steps) and _computes(trace):
            yield Finding(
                self.code, steps[0].spot, "the optimizer steps, and no backward() computes gradients for it",
                f"{len(steps)} steps, and no parameter had a gradient in any of them",
                "compute the gradients of the loss first (for LBFGS inside the closure):\n"
                f"+ loss.backward()\n  {steps[0].spot.code}",
            )  # fmt: skip

    def _overwriting(self, trace: Trace) -> Iterator[Update]:
        """The step of an optimizer that overwrote weights which a backward after it needed as they were."""
        error = None if trace.crash is None else trace.crash.error
        if isinstance(error, InplaceError) and error.written_at is not None:
            written = Spot.of(error.written_at)
            steps = [event for event in trace.updates if event.optimizer is not None and event.spot == written]
            yield from steps[-1:]

    def overwriting(self, step: Update, then: Backward) -> Finding:
        return Finding(
            self.code, step.spot,
            "the optimizer steps between the forward pass and the backward() of a loss, which needs the weights as "
            "they were",
            f"backward() failed at line {then.spot.line}: the step at line {step.spot.line} had changed "
            f"{plural(len(step.changed), 'parameter')} since its loss was computed",
            f"step after the last backward() that uses the old weights, or compute its loss anew after the step:\n"
            f"- {step.spot.code}\n  {then.spot.code}\n+ {step.spot.code}",
            "info", (Related(then.spot, "the backward() that comes too late"),), step.number,
        )  # fmt: skip

    def finding(self, early: list[Update], trace: Trace) -> Finding:
        first = early[0]
        without = sum(not event.with_gradient for event in early)
        then = next(event for event in trace.backwards if event.order > first.order)
        return Finding(
            self.code, first.spot,
            "the optimizer steps after the loss is computed and before its backward(): it applies the gradients of an "
            "older loss, or none",
            f"{plural(len(early), 'step')} came before the backward of the loss; in {without} of them no parameter had "
            "a gradient",
            f"call backward() first:\n- {first.spot.code}\n  {then.spot.code}\n+ {first.spot.code}",
            related=(Related(then.spot, "the backward() that comes too late"),), since=first.number,
        )  # fmt: skip

    broken = (
        """
import torch

torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(20, 3), torch.randn(20, 1)
for step in range(8):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.step()  # BUG
    loss.backward()
""",
        """
import torch
from torch import nn


def train_one(net, batch, target, opt):
    out = net(batch)
    loss = nn.functional.cross_entropy(out, target)
    opt.step()  # BUG
    opt.zero_grad()
    loss.backward()
    return loss.item()


torch.manual_seed(1)
net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(6):
    train_one(net, torch.randn(10, 6), torch.randint(0, 3, (10,)), opt)
""",
        """
import torch
import torch.nn.functional as F

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    x = torch.randn(16, 4)
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), x.sum(1, keepdim=True))
    optimizer.step()  # BUG
    print(epoch, loss.item())
""",
        """
import torch

torch.manual_seed(0)
x = torch.linspace(-1, 1, 50)[:, None]
model = torch.nn.Sequential(torch.nn.Linear(1, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5)


def closure():
    optimizer.zero_grad()
    return (model(x) - x.sin()).square().mean()


for step in range(5):
    optimizer.step(closure)  # BUG
""",
    )
    healthy = (
        """
import torch
from torch import nn

torch.manual_seed(0)
generator, critic = nn.Linear(2, 4), nn.Linear(4, 1)
g_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3)
c_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
for step in range(8):
    fake = generator(torch.randn(16, 2))
    c_loss = critic(fake.detach()).mean() - critic(torch.randn(16, 4)).mean()
    c_optimizer.zero_grad()
    c_loss.backward()
    c_optimizer.step()
    g_loss = -critic(fake).mean()
    g_optimizer.zero_grad()
    g_loss.backward()
    g_optimizer.step()
""",
    )


def _computes(trace: Trace) -> bool:
    """Whether something is computed from the parameters of an optimizer: a schedule may be tried out without that."""
    held = {parameter for info in trace.optimizers for parameter in info.parameters}
    return any(op.recorded and any(value.parameter in held for value in op.inputs) for op in trace.open.operations)
