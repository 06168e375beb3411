"""not-in-optimizer: it has gradients but no optimizer holds it."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from pellucid.diagnose.events import OptimizerInfo, Parameter, Pass
from pellucid.diagnose.finding import Finding, Related, Spot
from pellucid.diagnose.ledger import is_frozen, listed
from pellucid.diagnose.measures import behind_all
from pellucid.diagnose.naming import plural
from pellucid.diagnose.ownership import Attendance, Family, idle_steps, stale, stepped_beside, unheld
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace

EMPTY = "empty parameter list"
USED_UP = "`model.parameters()` can be used once: ask for it again, or keep list(model.parameters())"
ENOUGH = 3  # passes that make the same layer again


class NotInOptimizer(Rule):
    """A parameter that gets gradients and is in no optimizer is never changed.

    Layers in a plain Python list are not registered, so `parameters()` leaves them out; an iterator such as
    `model.parameters()` is empty the second time; or only a part of the model was given to the optimizer. A part that
    shall stay as it is would be frozen (`requires_grad_(False)`) or run under `no_grad`: that is no finding, nor are
    inputs whose gradient is asked for, networks in evaluation mode that only measure, parameters changed by hand, and a
    target network: a copy of the one that learns, which has no part in the loss's input.
    """

    code = "not-in-optimizer"
    explains = frozenset(("missing-step",))

    def __init__(self) -> None:
        self.attendance = Attendance()
        self.copies: set[Parameter] | None = None  # of what learns, as the first pass finds them

    def look(self, done: Pass, trace: Trace) -> None:
        self.attendance.look(done)
        if self.copies is None and done.backward is not None:
            self.copies = _copies(done, trace)

    def findings(self, trace: Trace) -> Iterable[Finding]:
        if trace.crash is not None and EMPTY in trace.crash.said:
            yield from self.empty(trace)
            return
        family = Family(trace)
        groups: dict[Spot, tuple[OptimizerInfo, list[Parameter]]] = {}
        for parameter in self.forgotten(trace, family):
            info = self.nearest(parameter, family, trace)
            groups.setdefault(info.spot, (info, []))[1].append(parameter)
        for info, parameters in groups.values():
            yield self.finding(info, parameters, family, trace)

    def empty(self, trace: Trace) -> Iterator[Finding]:
        """The optimizer refuses an empty list: an iterator that was used up, or layers that nobody registered."""
        known = list(trace.parameters.values())
        if trace.crash is None or (known and all(is_frozen(parameter) for parameter in known)):
            return
        yield Finding(
            self.code, trace.crash.spot, "the optimizer is given no parameters at all",
            "the list of parameters was empty",
            f"{USED_UP}; layers in a plain Python list belong into an nn.ModuleList",
        )  # fmt: skip

    # --- which parameters count

    def forgotten(self, trace: Trace, family: Family) -> list[Parameter]:
        old = {parameter for each in stale(trace) for parameter in each.new}
        held = [parameter for info in trace.optimizers for parameter in info.parameters if parameter.reached]
        only_plain = bool(held) and not any(parameter.is_module_parameter for parameter in held)
        beside = stepped_beside(trace)
        attentive = any(self.trains(parameter, family) for parameter in held)
        return [
            parameter
            for parameter in unheld(trace)
            if parameter not in old
            and parameter in beside
            and parameter not in (self.copies or ())
            and (
                not only_plain and (self.trains(parameter, family) or not attentive)
                if parameter.is_module_parameter
                else self.plain(parameter)
            )
        ]

    def trains(self, parameter: Parameter, family: Family) -> bool:
        """Whether the modules around a parameter run in training mode (a network in eval() only measures)."""
        around = list(family.ancestors(parameter))
        evaluating = any(module in self.attendance.evaluating for module in around)
        return not evaluating or any(module in self.attendance.training for module in around)

    def plain(self, parameter: Parameter) -> bool:
        """Whether a tensor outside of modules looks like a parameter: the same one at every pass, and no input."""
        inputs = {each.spot for each in self.attendance.inputs}  # one made at the same line as an input is an input
        return parameter.reached > 1 and parameter.spot not in inputs and not is_frozen(parameter)

    def nearest(self, parameter: Parameter, family: Family, trace: Trace) -> OptimizerInfo:
        """The optimizer that should have held it: one that holds its relatives, else the last one made."""
        around = set(family.ancestors(parameter))
        around |= {caller for module in around if (caller := self.attendance.callers.get(module)) is not None}
        for info in reversed(trace.optimizers):
            if any(around & set(family.ancestors(held)) for held in info.parameters):
                return info
        idle = idle_steps(parameter, trace)
        return max(reversed(trace.optimizers), key=lambda info: idle[info])

    # --- words

    def finding(self, info: OptimizerInfo, parameters: list[Parameter], family: Family, trace: Trace) -> Finding:
        hidden = self.hidden(parameters, family)
        fix = "give it to the optimizer, or freeze it with requires_grad_(False) if it shall stay as it is"
        if _has_empty_group(info):
            fix = f"one of its groups is empty: {USED_UP}"
        elif hidden is not None:
            fix = f"register its layer in {type(hidden).__name__}: nn.ModuleList([...]) instead of a plain Python list"
        passes = max(parameter.reached for parameter in parameters)
        if self.anew(parameters, trace):
            where = "" if hidden is None else f" of {type(hidden).__name__}"
            fix = f"make its layer once, in __init__{where}, and call that one: here every pass makes another"
        return Finding(
            self.code, info.spot,
            f"this optimizer does not hold {listed(parameters)}: gradients are computed there and never applied",
            f"{plural(len(parameters), 'parameter')} got gradients in {plural(passes, 'backward pass')} and no "
            f"optimizer holds {'it' if len(parameters) == 1 else 'them'}; this one holds {len(info.parameters)}",
            fix, related=tuple(self.created(parameters, family)),
        )  # fmt: skip

    def anew(self, parameters: list[Parameter], trace: Trace) -> bool:
        """Whether every pass makes them anew: from the same lines, each for one pass."""
        lines = {parameter.spot for parameter in parameters}
        passes = min(len(trace.backwards), ENOUGH)
        return passes > 1 and len(parameters) >= passes * len(lines) and all(p.reached == 1 for p in parameters)

    def hidden(self, parameters: list[Parameter], family: Family) -> Any:
        """The module that calls a layer it has not registered, if there is one."""
        for parameter in parameters:
            top = next(reversed(list(family.ancestors(parameter))), None)
            if top is not None and top in self.attendance.callers:
                return self.attendance.callers[top]
        return None

    def created(self, parameters: list[Parameter], family: Family) -> Iterator[Related]:
        spots = dict.fromkeys(family.spot(parameter, set(parameters))[0] for parameter in parameters)
        yield from (Related(spot, "made here") for spot in list(spots)[:3])

    broken = (
        """
import torch
from torch import nn

torch.manual_seed(0)


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(6, 6) for _ in range(3)]
        self.head = nn.Linear(6, 1)

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.head(x)


model = Deep()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)  # BUG
x, y = torch.randn(20, 6), torch.randn(20, 1)
for step in range(5):
    optimizer.zero_grad()
    loss = (model(x) - y).pow(2).mean()
    loss.backward()
    optimizer.step()
""",
        """
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.ReLU(), torch.nn.Linear(5, 1))
params = model.parameters()
print(sum(p.numel() for p in params), "parameters")
optimizer = torch.optim.SGD(params, lr=0.1)  # BUG
x, y = torch.randn(10, 3), torch.randn(10, 1)
for step in range(5):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
""",
        """
import torch
import torch.nn as nn


def train(encoder, decoder, data, epochs=4):
    optimizer = torch.optim.RMSprop(encoder.parameters(), lr=0.01)  # BUG
    for _ in range(epochs):
        loss = nn.functional.mse_loss(decoder(encoder(data)), data)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
train(nn.Linear(6, 3), nn.Linear(3, 6), torch.randn(16, 6))
""",
        """
import copy
import torch
from torch import nn

torch.manual_seed(0)
online = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
target = copy.deepcopy(online)
optimizer = torch.optim.Adam(target.parameters(), lr=1e-3)  # BUG
for step in range(10):
    state, action, reward = torch.randn(16, 4), torch.randint(0, 2, (16, 1)), torch.rand(16, 1)
    with torch.no_grad():
        goal = reward + 0.9 * target(torch.randn(16, 4)).amax(1, keepdim=True)
    loss = nn.functional.smooth_l1_loss(online(state).gather(1, action), goal)
    online.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), online.parameters()):
            slow.lerp_(fast, 0.01)
""",
    )
    healthy = (
        """
import torch

torch.manual_seed(0)
net = torch.nn.Linear(4, 1)
scale = torch.ones(1, requires_grad=True)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(20):
    x = torch.randn(16, 4)
    loss = (net(x) * scale - x[:, :1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scale.data = scale.data - 0.1 * scale.grad
    scale.grad = None
""",
        """
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(40):
    x = torch.randn(16, 6)
    y = (x[:, 0] > 0).long()
    attack = torch.zeros_like(x).requires_grad_()  # a new one for every batch
    for _ in range(5):
        F.cross_entropy(net(x + attack), y).backward()
        attack.data = (attack.data + 0.03 * attack.grad.sign()).clamp(-0.1, 0.1)
        attack.grad.zero_()
    optimizer.zero_grad()
    F.cross_entropy(net(x + attack.detach()), y).backward()
    optimizer.step()
""",
        """
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
x = torch.linspace(0, 1, 20).reshape(-1, 1).requires_grad_()  # a leaf that wants gradients and is no parameter
for step in range(10):
    u = net(x)
    slope = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
    loss = (slope - torch.cos(x)).pow(2).mean() + u[0].pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        """
import torch
from torch import nn

torch.manual_seed(0)
judge = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4)).eval()  # measures, and is not trained
picture = torch.zeros(1, 8, requires_grad=True)
goal = judge(torch.randn(1, 8)).detach()
optimizer = torch.optim.Adam([picture], lr=0.05)
for step in range(10):
    optimizer.zero_grad()
    loss = (judge(picture) - goal).pow(2).sum()
    loss.backward()
    optimizer.step()
""",
    )


def _has_empty_group(info: OptimizerInfo) -> bool:
    optimizer = info.optimizer()
    return optimizer is not None and any(not group["params"] for group in optimizer.param_groups)


def _copies(done: Pass, trace: Trace) -> set[Parameter]:
    """The parameters in no optimizer that begin as copies of those in one, and stand behind no loss's input.

    A target network that nobody detached: its gradients are lost, and nothing else is.
    """
    assert done.backward is not None
    learning: dict[tuple[int, ...], list[Any]] = {}
    for parameter in done.backward.reached:
        if parameter.optimizers and (tensor := parameter.tensor()) is not None:
            learning.setdefault(parameter.shape, []).append(tensor.array)
    alone = [p for p in done.backward.reached if not p.optimizers and p.shape in learning]
    if not alone:
        return set()
    given = [call.input.maker for call in done.losses if call.input is not None and call.input.maker is not None]
    judged = {value.parameter for op in (*given, *behind_all(given)) for value in op.inputs}
    return {p for p in alone if p not in judged and any(_same(p, array) for array in learning[p.shape])}


def _same(parameter: Parameter, array: Any) -> bool:
    tensor = parameter.tensor()
    return tensor is not None and np.array_equal(tensor.array, array)
