"""missing-zero-grad: gradients of earlier steps are still inside `.grad`."""

from collections.abc import Iterable

from pellucid.diagnose.events import Backward, Cleared, Parameter, Update
from pellucid.diagnose.finding import Finding
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace


class MissingZeroGrad(Rule):
    """Gradients add up over calls of `backward()` until somebody clears them.

    A step that follows applies the sum of all gradients so far: by the hundredth step the rate is a hundred times what
    you set. Accumulating on purpose is another thing: several backwards, one step, then a clear.
    """

    code = "missing-zero-grad"
    at_once = False
    explains = frozenset(("learning-rate-too-high", "exploding-gradient", "overflow"))

    def findings(self, trace: Trace) -> Iterable[Finding]:
        late = self._late(trace)
        if len(late) >= 2:
            yield self.finding(late, trace)

    def _late(self, trace: Trace) -> list[Backward]:
        """The backward passes that added to gradients already applied, where a step applied the sum once more."""
        applied: set[Parameter] = set()  # parameters whose present gradient was applied already
        mixed: dict[Parameter, list[Backward]] = {}  # and those to which backwards have added since
        waiting: list[Backward] = []  # the backwards that no step has followed yet
        late: dict[Backward, None] = {}
        for event in trace.loop:
            if isinstance(event, Update):
                own = [each for each in waiting if each.reached & event.with_gradient]
                waiting = [each for each in waiting if each not in own]
                late.update(dict.fromkeys(_blamed(mixed[p], own) for p in event.with_gradient if p in mixed))
                applied |= event.with_gradient
                mixed = {p: each for p, each in mixed.items() if p not in event.with_gradient}
            elif isinstance(event, Backward) and not event.asked:  # autograd.grad adds to no .grad
                waiting.append(event)
                for parameter in event.held & event.reached & (applied | mixed.keys()):
                    mixed.setdefault(parameter, []).append(event)
                applied -= event.reached
            elif isinstance(event, Cleared):
                applied -= event.parameters
                mixed = {p: each for p, each in mixed.items() if p not in event.parameters}
        return list(late)

    def finding(self, late: list[Backward], trace: Trace) -> Finding:
        first, last = late[0], late[-1]
        passes = sum(not event.asked for event in trace.backwards)
        by_hand = not trace.optimizers
        who = "the step before" if by_hand else "the optimizer"
        holders = [info for info in trace.optimizers if not first.reached.isdisjoint(info.parameters)]
        clear = f"{holders[0].called}.zero_grad()" if holders else "for p in parameters: p.grad = None"
        return Finding(
            self.code, first.spot,
            f"backward() adds to gradients that {who} has applied already: nothing clears them between steps",
            f"{len(late)} of {passes} backward passes met old gradients; the gradient norm went from "
            f"{first.gradient_norm:.3g} to {last.gradient_norm:.3g}",
            f"clear them before every backward:\n+ {clear}\n  " + (first.spot.code or "loss.backward()"),
            since=0 if first.inside_step else first.number,  # a closure adds up within the first step already
        )  # fmt: skip

    broken = (
        """
import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(16, 4), torch.randn(16, 1)
for step in range(10):
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()  # BUG
    optimizer.step()
""",
        """
import torch

torch.manual_seed(1)
w = torch.randn(3, 1, requires_grad=True)
x = torch.randn(20, 3)
y = x @ torch.tensor([[1.0], [2.0], [-1.0]])
for epoch in range(20):
    error = (x @ w - y).pow(2).mean()
    error.backward()  # BUG
    with torch.no_grad():
        w -= 0.001 * w.grad
""",
    )
    healthy = (
        """
import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x, y = torch.randn(32, 4), torch.randn(32, 1)
for step in range(8):
    optimizer.zero_grad()
    for part in range(4):  # micro-batches: accumulating is meant
        rows = slice(8 * part, 8 * part + 8)
        loss = ((model(x[rows]) - y[rows]) ** 2).mean() / 4
        loss.backward()
    optimizer.step()
""",
        """
import torch

torch.manual_seed(0)
w = torch.zeros(3, requires_grad=True)
x = torch.randn(40, 3)
y = x @ torch.tensor([1.0, -2.0, 0.5])
optimizer = torch.optim.Adam([w], lr=0.1)
for step in range(10):  # first with an optimizer, whose last gradient stays behind
    optimizer.zero_grad()
    ((x @ w - y) ** 2).mean().backward()
    optimizer.step()
for step in range(10):  # then by hand: these gradients are handed over, and added to nothing
    (gradient,) = torch.autograd.grad(((x @ w - y) ** 2).mean(), [w])
    with torch.no_grad():
        w -= 0.05 * gradient
""",
    )


def _blamed(adding: list[Backward], own: list[Backward]) -> Backward:
    """Of the backwards that added to an old gradient, the first whose own step it is; a GAN's other loss adds, too."""
    return next((each for each in adding if each in own), adding[-1])
