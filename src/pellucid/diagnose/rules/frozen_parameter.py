"""frozen-parameter: `requires_grad` is False though the optimizer holds it."""

from collections.abc import Iterable

from pellucid.diagnose.events import Operation, Parameter, Pass
from pellucid.diagnose.finding import Finding, Related, Severity, Spot
from pellucid.diagnose.ledger import is_frozen, listed
from pellucid.diagnose.ownership import Attendance, Family
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace

EMPTY = "empty parameter list"
LONG = 10  # passes without a gradient: no part of a game of turns any more


class FrozenParameter(Rule):
    """A parameter with `requires_grad=False` gets no gradient, and the optimizer passes it over without a word.

    Freezing a pretrained part on purpose is right: then only the rest is given to the optimizer. Where the optimizer
    holds a frozen parameter it was expected to learn. It is an error when nothing is left to learn, when it was frozen
    after the optimizer was made, or when it lies amid what learns (a frozen head: gradients go past it). The first part
    of a model is a warning, and mere information when it looks meant: its weights were loaded, or it runs in evaluation
    mode. Parameters that are frozen for some passes only (the discriminator in the generator's step) are no finding.
    """

    code = "frozen-parameter"
    explains = frozenset(("learning-rate-too-low", "missing-step"))

    def __init__(self) -> None:
        self.attendance = Attendance()
        self.passed: set[Parameter] = set()  # gradients go past them, to others nearer to the input

    def look(self, done: Pass, trace: Trace) -> None:
        self.attendance.look(done)
        for value, users in done.leaves.items():
            if value.parameter not in self.passed and any(map(_goes_past, users)):
                self.passed.add(value.parameter)  # type: ignore[arg-type]

    def findings(self, trace: Trace) -> Iterable[Finding]:
        groups: dict[Spot, list[Parameter]] = {}
        for parameter in self.frozen(trace):
            groups.setdefault(Spot.of(parameter.frozen_at or parameter.created), []).append(parameter)
        for spot, parameters in groups.items():
            yield self.finding(spot, parameters, trace)

    def frozen(self, trace: Trace) -> list[Parameter]:
        known = trace.parameters.values()
        if trace.crash is not None and EMPTY in trace.crash.said:  # filter(requires_grad) left nothing over
            asleep = [parameter for parameter in known if parameter.frozen_at is not None and is_frozen(parameter)]
            return asleep if len(asleep) == len(known) else []
        refused = trace.crash is not None and "does not require grad" in trace.crash.said
        long_ago = len(trace.backwards) - LONG
        return [
            p for p in known
            if p.optimizers and is_frozen(p)
            and (refused or ((not p.reached or p.last_reached < long_ago) and self.stepped_since(p, trace)))
        ]  # fmt: skip

    def stepped_since(self, parameter: Parameter, trace: Trace) -> bool:
        """Whether an optimizer that holds it has stepped since it was frozen: a teacher's has done its work before."""
        since = [update for update in trace.updates if update.order > parameter.frozen_order]
        return any(update.optimizer in parameter.optimizers for update in since)

    def finding(self, spot: Spot, parameters: list[Parameter], trace: Trace) -> Finding:
        holders = [info for parameter in parameters for info in parameter.optimizers[:1]]
        held = [parameter for info in dict.fromkeys(holders) for parameter in info.parameters]
        return Finding(
            self.code, spot,
            f"the optimizer holds {listed(parameters)}, but requires_grad is False there: no gradient, no step",
            f"{len(parameters)} of {len(held) or len(parameters)} parameters given to the optimizer are frozen",
            "let it learn (requires_grad_(True)), or give the optimizer only what shall learn",
            self.severity(parameters, held, trace),
            tuple(Related(info.spot, "the optimizer that holds it") for info in holders[:1]),
        )  # fmt: skip

    def severity(self, parameters: list[Parameter], held: list[Parameter], trace: Trace) -> Severity:
        late = [p for p in parameters if p.optimizers and p.frozen_order > p.optimizers[0].order and not p.reached]
        amid = not self.passed.isdisjoint(parameters) and not any(p.reached for p in parameters)
        if late or amid or trace.crash is not None or all(is_frozen(parameter) for parameter in held):
            return "error"
        return "info" if all(self.meant(parameter, trace) for parameter in parameters) else "warning"

    def meant(self, parameter: Parameter, trace: Trace) -> bool:
        """Whether this looks like a pretrained part that shall stay as it is."""
        if "freeze=True" in parameter.spot.source:  # Embedding.from_pretrained, and said so
            return True
        loaded = any(parameter in update.changed for update in trace.updates if update.optimizer is None)
        put_aside = parameter not in self.passed and (loaded or self.measures(parameter, Family(trace)))
        return parameter.frozen_at is not None and put_aside

    def measures(self, parameter: Parameter, family: Family) -> bool:
        """Whether it is in a part that runs in eval mode and is frozen as a whole: not a model that was left there."""
        evaluated = [module for module in family.ancestors(parameter) if module in self.attendance.evaluating]
        return bool(evaluated) and all(map(is_frozen, family.within(evaluated[-1])))

    broken = (
        """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 10), nn.ReLU(), nn.Linear(10, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for name, p in model.named_parameters():
    if name.startswith("2"):
        p.requires_grad = False  # BUG
x, y = torch.randn(40, 5), torch.randint(0, 2, (40,))
for step in range(5):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
""",
        """
import torch
import torch.nn as nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 1)
        self.scale = nn.Parameter(torch.ones(1), requires_grad=False)  # BUG

    def forward(self, x):
        return self.scale * self.linear(x)


def run():
    torch.manual_seed(0)
    model = Scaled()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(30, 3), torch.randn(30, 1)
    for _ in range(6):
        opt.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        opt.step()


run()
""",
        """
import torch

torch.manual_seed(0)
w = torch.randn(4, 1)  # BUG
optimizer = torch.optim.SGD([w], lr=0.1)
x, y = torch.randn(12, 4), torch.randn(12, 1)
for step in range(3):
    optimizer.zero_grad()
    loss = ((x @ w - y) ** 2).mean()
    loss.backward()
    optimizer.step()
""",
    )
    healthy = (
        """
import torch
from torch import nn

torch.manual_seed(0)
backbone = nn.Sequential(nn.Linear(6, 12), nn.ReLU())
model = nn.Sequential(backbone, nn.Linear(12, 3))
for p in backbone.parameters():
    p.requires_grad = False
optimizer = torch.optim.SGD(filter(lambda p: p.requires_grad, model.parameters()), lr=0.1)
x, y = torch.randn(30, 6), torch.randint(0, 3, (30,))
for step in range(8):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
""",
        """
import torch
from torch import nn

torch.manual_seed(0)
generator, critic = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
of_generator = torch.optim.RMSprop(generator.parameters(), lr=1e-3)
of_critic = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
for step in range(6):
    critic.requires_grad_(True)
    fake = generator(torch.randn(16, 2)).detach()
    of_critic.zero_grad()
    (critic(fake).mean() - critic(torch.randn(16, 2)).mean()).backward()
    of_critic.step()
    critic.requires_grad_(False)  # the generator's step needs no gradient of the critic's weights
    of_generator.zero_grad()
    (-critic(generator(torch.randn(16, 2))).mean()).backward()
    of_generator.step()
""",
        """
import torch
from torch import nn

torch.manual_seed(0)
pretrained = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 8))
weights = {name: value.clone() for name, value in pretrained.state_dict().items()}


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 8))
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.head(torch.relu(self.backbone(x)))


model = Classifier()
model.backbone.load_state_dict(weights)
for p in model.backbone.parameters():
    p.requires_grad = False
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)  # holds the backbone too, which does no harm
x, y = torch.randn(40, 6), torch.arange(40) % 2
for step in range(8):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    )


def _goes_past(operation: Operation) -> bool:
    """Whether a gradient goes on through an operation to something nearer to the input than its parameters."""
    return operation.recorded and any(v.requires_grad and v.parameter is None for v in operation.inputs)
