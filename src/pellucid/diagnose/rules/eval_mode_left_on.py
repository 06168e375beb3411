"""eval-mode-left-on: training runs with `eval()`."""

import re
from collections.abc import Iterable
from typing import Any

from pellucid.diagnose.events import ModeSwitch, ModuleCall, Pass
from pellucid.diagnose.finding import Finding, Related
from pellucid.diagnose.ownership import changed_by_hand
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace
from pellucid.nn.modules.batchnorm import _BatchNorm
from pellucid.nn.modules.dropout import _DropoutNd

OFTEN = 2  # training passes in eval mode


class EvalModeLeftOn(Rule):
    """After an evaluation nobody called `train()` again: dropout is off and batch norm no longer learns its statistics.

    A part that is in eval mode on purpose (a frozen backbone, a teacher) is another thing; here the whole model that
    is being trained is in eval mode.
    """

    code = "eval-mode-left-on"
    at_once = False
    explains = frozenset(("exploding-gradient", "learning-rate-too-high"))

    def __init__(self) -> None:
        self.calls: list[tuple[ModuleCall, int]] = []

    def look(self, done: Pass, trace: Trace) -> None:
        if done.backward is None or done.backward.error is not None:
            return
        reached = done.backward.reached
        for call in done.outermost():
            if not call.grad_mode or call.training or not _counts(call, done):
                continue
            if matters(call.module) and self._trained(call, reached, trace):
                self.calls.append((call, done.number))
                return

    def _trained(self, call: ModuleCall, reached: Iterable[Any], trace: Trace) -> bool:
        """Whether parameters of the model got gradients and an optimizer holds them, or there is none at all.

        A dropout layer that is called by itself, as `model.forward(x)` does, stands for the model that was switched.
        """
        own = {id(parameter) for parameter in call.module.parameters()}
        switch = None if own else _switch(call, trace)
        if switch is not None:
            own = {id(parameter) for parameter in switch.module.parameters()}
        return any((p.optimizers or not trace.optimizers) and id(p.tensor()) in own for p in reached)

    def findings(self, trace: Trace) -> Iterable[Finding]:
        if len(self.calls) < OFTEN or not (trace.optimizers or changed_by_hand(trace)):
            return
        call, number = self.calls[0]
        switch = _switch(call, trace)
        layers = sorted({type(module).__name__ for module in call.module.modules() if _behaves_differently(module)})
        passes = len(trace.backwards)
        yield Finding(
            self.code, call.spot if switch is None else switch.spot,
            "eval() is still on while the model is trained: dropout does nothing and batch norm keeps its statistics",
            f"{len(self.calls)} of the training passes looked at ({passes} ran) had training=False; the model has "
            f"{', '.join(layers)}",
            f"switch back before training goes on:\n+ {_named(switch)}.train()",
            related=(Related(call.spot, "the first training call in eval mode"),), since=number,
        )  # fmt: skip

    broken = (
        """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x, y = torch.randn(48, 6), torch.randint(0, 3, (48,))
for epoch in range(6):
    for i in range(3):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[16 * i : 16 * i + 16]), y[16 * i : 16 * i + 16])
        loss.backward()
        optimizer.step()
    model.eval()  # BUG
    with torch.no_grad():
        accuracy = (model(x).argmax(1) == y).float().mean().item()
""",
        """
import torch
import torch.nn as nn
import torch.nn.functional as F


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.out = nn.Linear(4 * 36, 2)

    def forward(self, x):
        return self.out(F.relu(self.norm(self.conv(x))).flatten(1))


def main():
    torch.manual_seed(0)
    net = Small().eval()  # BUG
    optimiser = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(5):
        images, labels = torch.randn(8, 1, 8, 8), torch.randint(0, 2, (8,))
        optimiser.zero_grad()
        F.cross_entropy(net(images), labels).backward()
        optimiser.step()


main()
""",
    )
    healthy = (
        """
import torch
from torch import nn

torch.manual_seed(0)
backbone = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU())
for p in backbone.parameters():
    p.requires_grad = False
backbone.eval()
head = nn.Sequential(nn.Dropout(0.1), nn.Linear(8, 2))
optimizer = torch.optim.SGD(head.parameters(), lr=0.05)
x, y = torch.randn(20, 6), torch.randint(0, 2, (20,))
for epoch in range(4):
    head.train()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(head(backbone(x)), y)
    loss.backward()
    optimizer.step()
    head.eval()
    with torch.no_grad():
        head(backbone(x))
""",
    )


def _counts(call: ModuleCall, done: Pass) -> bool:
    """Whether what a module returned went into the loss: a validation without no_grad is no training.

    A module that returns no tensors in the open is taken to count.
    """
    return not call.outputs or any(value.maker in done.toward_loss for value in call.outputs)


def matters(module: Any) -> bool:
    """Whether eval mode changes what a module computes."""
    return any(_behaves_differently(part) for part in module.modules())


def _behaves_differently(module: Any) -> bool:
    if isinstance(module, _DropoutNd):
        return module.p > 0
    rate = getattr(module, "dropout", 0)  # of recurrent layers and attention; a child module of that name counts itself
    return isinstance(module, _BatchNorm) or (isinstance(rate, float) and rate > 0)


def _switch(call: ModuleCall, trace: Trace) -> ModeSwitch | None:
    """The `eval()` under which a module was called."""
    switches = [e for e in trace.loop if isinstance(e, ModeSwitch) and not e.training and e.order < call.order]
    return next((e for e in reversed(switches) if _contains(e.module, call.module)), None)


def _named(switch: ModeSwitch | None) -> str:
    """What the line that switched calls the model."""
    called = None if switch is None else re.match(r"([\w.]+)\.(?:eval|train)\(", switch.spot.code)
    return "model" if called is None else called[1]


def _contains(outer: Any, inner: Any) -> bool:
    return any(module is inner for module in outer.modules())
