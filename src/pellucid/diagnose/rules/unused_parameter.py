"""unused-parameter: a parameter never took part in the loss."""

from collections.abc import Iterable, Iterator
from typing import Any

from pellucid.diagnose.events import Parameter, Pass, Replaced
from pellucid.diagnose.finding import Finding, Related, Spot
from pellucid.diagnose.ledger import ledger_of, listed, related_to
from pellucid.diagnose.measures import parameters_behind
from pellucid.diagnose.naming import plural
from pellucid.diagnose.ownership import Family, unheld
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace
from pellucid.diagnose.values import name_on


class UnusedParameter(Rule):
    """A parameter that no operation on the way to the loss takes never gets a gradient.

    Often a layer is made and forgotten in `forward`, or its twin is called twice in its place. The doctor reports it
    when an optimizer holds the parameter and it had no part in any loss of the run. Layers that are chosen by the
    data (experts, of which some were not drawn yet) are no finding, and a loss of derivatives (a score, a force) is
    told only for information that the last bias drops out of it.
    """

    code = "unused-parameter"

    def __init__(self) -> None:
        self.calls: dict[Any, list[Spot]] = {}  # the lines that called each module, in the first pass
        self.differentiated: set[Parameter] = set()  # what a derivative was taken of depends on them

    def look(self, done: Pass, trace: Trace) -> None:
        ledger_of(trace).see(done, trace)
        if not self.differentiated:
            self.differentiated.update(*map(parameters_behind, done.differentiated))
        if not self.calls and done.backward is not None:
            for call in done.calls:
                self.calls.setdefault(call.module, []).append(call.spot)

    def findings(self, trace: Trace) -> Iterable[Finding]:
        unused = self.unused(trace)
        family = Family(trace)
        groups: dict[Spot, tuple[Any, list[Parameter]]] = {}
        for parameter in unused:
            spot, module = family.spot(parameter, set(unused))
            if not self.drawn(module, family, trace):
                groups.setdefault(spot, (module, []))[1].append(parameter)
        for spot, (module, parameters) in groups.items():
            if self.differentiated.issuperset(parameters):
                yield self.drops_out(spot, parameters)
            else:
                yield self.finding(spot, module, parameters, family, trace)

    def unused(self, trace: Trace) -> list[Parameter]:
        ledger = ledger_of(trace)
        if not trace.backwards or any(each.fatal for each in ledger.cuts):
            return []
        replaced = _replaced(trace)
        return [
            parameter
            for parameter in ledger.silent(trace)
            if parameter.optimizers and not parameter.reached and not ledger.cuts_of(parameter)
            and parameter not in replaced
            and parameter not in ledger.connected and not self.beside_the_point(parameter, trace)
            and not self.had_no_turn(parameter, trace)
        ]  # fmt: skip

    def beside_the_point(self, parameter: Parameter, trace: Trace) -> bool:
        """Whether its optimizer holds nothing that learns, and what learns is in none: that is not-in-optimizer."""
        held = [each for info in parameter.optimizers for each in info.parameters]
        return not any(each.reached for each in held) and bool(unheld(trace))

    def had_no_turn(self, parameter: Parameter, trace: Trace) -> bool:
        """Whether the run broke off before its optimizer, one of several, stepped for the first time."""
        several = len(trace.optimizers) > 1
        return trace.crash is not None and several and not any(info.steps for info in parameter.optimizers)

    def drawn(self, module: Any, family: Family, trace: Trace) -> bool:
        """Whether the data choose among modules like this one: others were used in some passes only."""
        passes = len(trace.backwards)
        others = [*family.siblings(module), *family.neighbours(module)]
        inside = [parameter for other in others for parameter in family.within(other)]
        return any(0 < parameter.used < passes for parameter in inside)

    def finding(
        self, spot: Spot, module: Any, parameters: list[Parameter], family: Family, trace: Trace
    ) -> Finding:  # fmt: skip
        passes = len(trace.backwards)
        called = parameters[0].is_module_parameter or parameters[0].spot == spot
        name = parameters[0].name if called else name_on(spot.source) or parameters[0].name
        who = name if len(parameters) == 1 else f"{len(parameters)} parameters ({listed(parameters)})"
        used = max(parameter.used for parameter in parameters)
        uses = f"; operations use it in {used} of them" if used > 1 else ""  # once: its initialisation
        return Finding(
            self.code, spot, f"{who} never took part in the loss, though the optimizer holds "
            f"{'it' if len(parameters) == 1 else 'them'}",
            f"no gradient in {plural(passes, 'backward pass')}{uses}",
            f"use {'it' if len(parameters) == 1 else 'them'} on the way to the loss (in forward), or remove "
            f"{'it' if len(parameters) == 1 else 'them'}",
            related=(*self.inside(spot, module, parameters, trace), *self.twins(module, family),
                     *self.optimizer(parameters)),
        )  # fmt: skip

    def drops_out(self, spot: Spot, parameters: list[Parameter]) -> Finding:
        return Finding(
            self.code, spot, f"{listed(parameters)} drops out of the derivative that the loss is computed from",
            "what is differentiated depends on it, and its derivative does not: so it is with a constant that is added",
            "nothing has to be done; a last layer with bias=False says the same", "info",
        )  # fmt: skip

    def inside(self, spot: Spot, module: Any, parameters: list[Parameter], trace: Trace) -> Iterator[Related]:
        """The line of a function that made it, and others, when the finding names the call."""
        made = None if module is None else trace.created(module)
        within = parameters[0].spot if made is None else Spot.of(made)
        if within != spot:
            yield Related(within, "it was made inside, on this line, which makes others, too")

    def twins(self, module: Any, family: Family) -> Iterator[Related]:
        """A module of the same kind that is called twice, perhaps once in place of this one."""
        for other in family.siblings(module):
            spots = list(dict.fromkeys(self.calls.get(other, ())))
            if len(self.calls.get(other, ())) > 1:
                yield Related(spots[-1], "a layer just like it is called again here: perhaps this one was meant")

    def optimizer(self, parameters: list[Parameter]) -> Iterator[Related]:
        yield from related_to(parameters[0].optimizers[0].place, "the optimizer that holds it")

    broken = (
        """
import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(8, 8)
        self.fc2 = nn.Linear(8, 8)  # BUG
        self.out = nn.Linear(8, 2)

    def forward(self, x):
        x = torch.relu(self.fc1(x))
        x = torch.relu(self.fc1(x))
        return self.out(x)


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
x, y = torch.randn(32, 8), torch.randint(0, 2, (32,))
for step in range(5):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
""",
        """
import torch

torch.manual_seed(0)
weight = torch.randn(3, 1, requires_grad=True)
bias = torch.zeros(1, requires_grad=True)  # BUG
optimizer = torch.optim.SGD([weight, bias], lr=0.1)
x, y = torch.randn(20, 3), torch.randn(20, 1)
for step in range(5):
    optimizer.zero_grad()
    loss = (x @ weight - y).pow(2).mean()
    loss.backward()
    optimizer.step()
""",
        """
import torch
import torch.nn as nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return x + torch.tanh(self.linear(self.norm(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = Block(6)
        self.extra = Block(6)  # BUG
        self.head = nn.Linear(6, 1)

    def forward(self, x):
        return self.head(self.body(x))


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
x, y = torch.randn(24, 6), torch.randn(24, 1)
for step in range(4):
    loss = nn.functional.mse_loss(model(x), y)
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


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList([nn.Linear(4, 4) for _ in range(6)])
        self.head = nn.Linear(4, 1)

    def forward(self, x, which):
        return self.head(torch.relu(self.experts[which](x)))


model = Experts()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x, y = torch.randn(16, 4), torch.randn(16, 1)
for which in (0, 2, 2, 1, 0, 4):  # some are not drawn in a short run
    loss = (model(x, which) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    )


def _replaced(trace: Trace) -> set[Parameter]:
    """What gave way to others that are used: it is stale, also where a crash came before a step could show it."""
    events = (event for event in trace.loop if isinstance(event, Replaced))
    return {old for event in events if any(new.used for new in event.new) for old in event.old}
