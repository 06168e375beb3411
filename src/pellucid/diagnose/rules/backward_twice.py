"""backward-twice: the same graph is walked again after it was freed."""

from collections.abc import Iterable

from pellucid.diagnose.carried import carried_over, old_values
from pellucid.diagnose.events import Operation, Value
from pellucid.diagnose.finding import Finding, Related, Spot
from pellucid.diagnose.rewriting import detached, kept_as
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace
from pellucid.errors import FreedGraphError

WALK_ONCE = (
    "add the losses and call backward() once:\n"
    "- loss_a.backward()\n- loss_b.backward()\n+ (loss_a + loss_b).backward()\n"
    "(or backward(retain_graph=True) the first time, if a second backward() is meant)"
)
CUT_OFF = (
    "give the loss of the first step a detached value, so that its backward() ends there and leaves the graph to the "
    "second:\n- discriminator({name})\n+ discriminator({name}.detach())\n"
    "(losses of one step are added: (loss_a + loss_b).backward())"
)
EVERY_STEP = "what was computed once, before the loop, has a graph for one backward() only: "
ANEW = EVERY_STEP + "its parameters learn, so compute it anew in every step, inside the loop:\n+ "
AS_IT_IS = EVERY_STEP + "compute it anew in every step; if it shall stay as it is, cut it off from what made it:\n"
SECOND_USE = (
    "the first backward() and its step have used this value up; the second loss can take its numbers, or compute it "
    "anew:\n"
)


class BackwardTwice(Rule):
    """A graph gives its saved values back while backward() walks it; a second walk finds them gone.

    Two losses on one forward are one sum: `(loss_a + loss_b).backward()`. What is computed once before the loop has a
    graph for one backward only. A state that is carried from step to step with its graph is another cause: see
    graph-kept-alive.
    """

    code = "backward-twice"
    explains = frozenset(("modified-in-place",))

    def findings(self, trace: Trace) -> Iterable[Finding]:
        error = None if trace.crash is None else trace.crash.error
        began = trace.step_began()
        if not isinstance(error, FreedGraphError) or carried_over(trace.open, began) is not None:
            return
        once = old_values(trace.open, began)
        spot = trace.backwards[-1].spot if trace.backwards else trace.crash.spot  # type: ignore[union-attr]
        first = Spot.of(error.first)
        yield Finding(
            self.code, spot,
            "backward() goes through a graph for the second time: the first backward() has freed what it needs",
            f"the first was at line {first.line}; the values saved at line {error.recorded_at.line} are gone",
            _fix(once, first, spot, trace),
            related=(
                *(Related(taking.spot, "a value that an earlier step has used, again") for taking, _ in once[:1]),
                Related(first, "the first backward()"),
                Related(Spot.of(error.recorded_at), "the operation whose saved values are gone"),
            ), since=trace.open.number,
        )  # fmt: skip

    broken = (
        """
import torch

torch.manual_seed(0)
trunk, a, b = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1), torch.nn.Linear(8, 1)
parameters = [*trunk.parameters(), *a.parameters(), *b.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.01)
x = torch.randn(10, 4)
for step in range(3):
    optimizer.zero_grad()
    shared = torch.tanh(trunk(x))
    loss_a = a(shared).pow(2).mean()
    loss_b = (b(shared) - 1).pow(2).mean()
    loss_a.backward()
    loss_b.backward()  # BUG
    optimizer.step()
""",
        """
import torch
import torch.nn as nn


def closure(model, x, y):
    loss = nn.functional.mse_loss(torch.sigmoid(model(x)), y)
    loss.backward()
    return loss


torch.manual_seed(0)
model = nn.Linear(3, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(4):
    opt.zero_grad()
    loss = closure(model, torch.randn(8, 3), torch.rand(8, 1))
    loss.backward()  # BUG
    opt.step()
""",
        """
import torch


def embedded(net, x):
    return torch.tanh(net(x)).square()


torch.manual_seed(0)
net = torch.nn.Linear(3, 5)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
anchor = embedded(net, torch.ones(1, 3))
for i in range(4):
    opt.zero_grad()
    loss = (embedded(net, torch.randn(8, 3)) - anchor).square().mean()
    loss.backward()  # BUG
    opt.step()
""",
    )
    healthy = (
        """
import torch

torch.manual_seed(0)
trunk, a, b = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1), torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD([*trunk.parameters(), *a.parameters(), *b.parameters()], lr=0.01)
x = torch.randn(10, 4)
for step in range(4):
    optimizer.zero_grad()
    shared = torch.tanh(trunk(x))
    loss_a = a(shared).pow(2).mean()
    loss_b = (b(shared) - 1).pow(2).mean()
    loss_a.backward(retain_graph=True)
    loss_b.backward()
    optimizer.step()
""",
    )


def _fix(once: list[tuple[Operation, Value]], first: Spot, spot: Spot, trace: Trace) -> str:
    """What to do, by whether another backward() was the first, and which of the two losses the value is to learn of."""
    if first == spot:
        return _cut_once(once[0][1], trace) if once else WALK_ONCE
    if once and _was_trained(once[0][1], first, trace):
        return _cut_second(*once[0])
    name = _name_of(once[0][1]) if once else ""
    return CUT_OFF.format(name=name or "fake") if len(trace.optimizers) > 1 else WALK_ONCE


def _was_trained(value: Value, first: Spot, trace: Trace) -> bool:
    """Whether the step after the first backward() was one of what the value was computed from: of the generator."""
    began = max((event.order for event in trace.backwards if event.spot == first), default=0)
    steps = [update.optimizer for update in trace.updates if update.order > began and update.optimizer is not None]
    return bool(steps) and not trace.parameters_of(value).isdisjoint(steps[0].parameters)


def _name_of(value: Value) -> str:
    """What the line that made a value calls it."""
    name = "" if value.made_at is None else Spot.of(value.made_at).code.partition(" = ")[0]
    return name if name.isidentifier() else ""


def _cut_second(taking: Operation, value: Value) -> str:
    """What to do about a value that another loss has used up, with the line that takes it, where that names it."""
    line = taking.spot.code
    better = kept_as(line, _name_of(value), "detach")
    return SECOND_USE + (f"- {line}\n+ {better}" if better else "- discriminator(fake)\n+ discriminator(fake.detach())")


def _cut_once(value: Value, trace: Trace) -> str:
    """What to do about a value that was computed once, with the line that made it, where that names it."""
    line = "" if value.made_at is None else Spot.of(value.made_at).code
    learning = [parameter for parameter in trace.parameters_of(value) if parameter.optimizers]
    if detached(line) and any(parameter.last_used != trace.open.number for parameter in learning):  # by nothing else
        return ANEW + line
    better = detached(line)
    example = "reference = model(x)"
    return AS_IT_IS + (f"- {line}\n+ {better}" if better else f"- {example}\n+ {detached(example)}")
