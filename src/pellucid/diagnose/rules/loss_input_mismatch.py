"""loss-input-mismatch: the loss is given something else than it wants."""

import re
from collections.abc import Iterable, Iterator

from pellucid.diagnose.events import LossCall, Operation, Pass
from pellucid.diagnose.finding import Finding, Related, Spot
from pellucid.diagnose.measures import is_weighted
from pellucid.diagnose.origins import are_log_probabilities, are_probabilities, class_axis, numbers, origin_of_parts
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace
from pellucid.nn.modules.activation import Softmax

ONE_SIDED = ("cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div")
PARTICULAR = ("nll_loss", "kl_div", "binary_cross_entropy")  # about what their input is


class LossInputMismatch(Rule):
    """Every loss wants one kind of input: logits, probabilities, or logarithms of probabilities; then the target.

    `nll_loss` and `kl_div` take log-probabilities, `binary_cross_entropy` takes probabilities, `cross_entropy` and
    everything "with logits" takes logits. Swapped arguments are the same mistake.
    """

    code = "loss-input-mismatch"
    explains = frozenset((
        "log-of-zero", "overflow", "learning-rate-too-low", "learning-rate-too-high", "exploding-gradient",
        "non-differentiable-op", "saturated-activation", "wrong-target",
    ))  # fmt: skip

    def __init__(self) -> None:
        self.found: dict[Spot, tuple[str, str, str, int]] = {}
        self.trained: set[Spot] = set()  # the losses among them that were trained on
        self.softmax: dict[Spot, tuple[Spot, str]] = {}  # where the input of a loss became probabilities, and the fix

    def look(self, done: Pass, trace: Trace) -> None:
        for call in done.losses:
            for what, evidence, fix in self._mismatches(call):
                self.found.setdefault(call.spot, (what, evidence, fix, done.number))
                if call.result is None or call.result.maker in done.toward_loss:
                    self.trained.add(call.spot)
                made = origin_of_parts(call.input)
                if fix == LOG_FIX and made is not None and made.op == "softmax":
                    self.softmax.setdefault(call.spot, (made.spot, _in_logarithms(made)))

    def _mismatches(self, call: LossCall) -> Iterator[tuple[str, str, str]]:
        given, target = call.input, call.target
        if given is None or target is None:
            return
        if call.name in ONE_SIDED and target.requires_grad and not given.requires_grad:
            what = f"the arguments of {call.name} are swapped: the prediction comes first"
            evidence = "the second argument depends on the model's parameters, the first does not"
            yield what, evidence, f"- {call.name}(target, prediction)\n+ {call.name}(prediction, target)"
            return
        array = numbers(given) if call.name in PARTICULAR else None
        if array is None:
            return
        low, high = float(array.min()), float(array.max())
        span = f"the input lies between {low:.4g} and {high:.4g}"
        if call.name == "nll_loss":
            yield from self._not_logarithms(call, array, span)
        elif call.name == "kl_div" and low >= 0 and array.size > 1:
            yield "kl_div takes log-probabilities, and is given probabilities", span, LOG_FIX
        elif call.name == "kl_div" and not call.options.get("log_target") and _negative(call):
            yield "kl_div's target holds negative numbers: logarithms", _target_span(call), TARGET_FIX
        elif call.name == "binary_cross_entropy" and (low < -1e-6 or high > 1 + 1e-6):
            yield "binary_cross_entropy takes probabilities, and is given logits", span, LOGITS_FIX
        elif call.name == "binary_cross_entropy" and (layer := _bare_layer(call)) is not None:
            chance = f"{span}, which is chance: nothing bounds what {layer.name} gives"
            yield "binary_cross_entropy takes probabilities, and is given logits", chance, LOGITS_FIX

    def _not_logarithms(self, call: LossCall, array: object, span: str) -> Iterator[tuple[str, str, str]]:
        axis = class_axis(call)
        if are_probabilities(array, axis):
            yield "nll_loss takes log-probabilities, and is given probabilities", f"{span} and adds up to 1", LOG_FIX
        elif getattr(array, "ndim", 0) > axis and not are_log_probabilities(array, axis):
            yield (
                "nll_loss takes log-probabilities, and is given logits",
                f"{span}; exp of it does not add up to 1",
                ("- F.nll_loss(logits, y)\n+ F.cross_entropy(logits, y)"),
            )

    def findings(self, trace: Trace) -> Iterable[Finding]:
        trained = {found[0] for spot, found in self.found.items() if spot in self.trained}
        for spot, (what, evidence, fix, since) in self.found.items():
            if what in trained and spot not in self.trained:  # the same slip where the model is only tried out
                continue
            made, better = self.softmax.get(spot, (None, fix))
            related = () if made is None else (Related(made, "the probabilities are made here"),)
            yield Finding(self.code, spot, what, evidence, better, related=(*related, *self._tried(what)), since=since)

    def _tried(self, what: str) -> Iterator[Related]:
        """Where the same loss is taken of a model that is not trained by it: a validation."""
        for spot, found in self.found.items():
            if found[0] == what and spot not in self.trained and self.trained:
                yield Related(spot, "the same here, where the model is tried out")

    broken = (
        """
import torch
import torch.nn.functional as F

torch.manual_seed(0)
model = torch.nn.Linear(6, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(32, 6), torch.randint(0, 4, (32,))
for step in range(8):
    optimizer.zero_grad()
    probabilities = F.softmax(model(x), dim=1)
    loss = F.nll_loss(probabilities, y)  # BUG
    loss.backward()
    optimizer.step()
""",
        """
import torch
from torch import nn


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 10), nn.ReLU(), nn.Linear(10, 1))

    def forward(self, x):
        return self.layers(x)


torch.manual_seed(0)
net, bce = Detector(), nn.BCELoss()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
x = torch.randn(20, 4)
labels = (x[:, :1] > 0).float()
for epoch in range(3):
    output = net(x)
    loss = bce(output, labels)  # BUG
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        """
import torch
import torch.nn.functional as F

torch.manual_seed(1)
student, teacher = torch.nn.Linear(5, 3), torch.nn.Linear(5, 3)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for step in range(6):
    x = torch.randn(16, 5)
    with torch.no_grad():
        wanted = F.softmax(teacher(x), dim=-1)
    given = F.log_softmax(student(x), dim=-1)
    loss = F.kl_div(wanted, given, reduction="batchmean")  # BUG
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    )
    healthy = (
        """
import torch
import torch.nn.functional as F

torch.manual_seed(1)
student, teacher = torch.nn.Linear(5, 3), torch.nn.Linear(5, 3)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for step in range(6):
    x, y = torch.randn(16, 5), torch.randint(0, 3, (16,))
    with torch.no_grad():
        wanted = F.softmax(teacher(x) / 2, dim=-1)
    logits = student(x)
    soft = F.kl_div(F.log_softmax(logits / 2, dim=-1), wanted, reduction="batchmean")
    hard = F.nll_loss(F.log_softmax(logits, dim=-1), y)
    sure = F.binary_cross_entropy(torch.sigmoid(logits[:, 0]), (y == 0).float())
    loss = soft + hard + 0.1 * sure
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    )


SOFTMAX = re.compile(r"\bsoftmax\(")
LOG_FIX = "give it log-probabilities:\n- F.softmax(logits, dim)\n+ F.log_softmax(logits, dim)"
LAYER_FIX = "give it log-probabilities:\n- nn.Softmax(dim)\n+ nn.LogSoftmax(dim)"
TARGET_FIX = "give the target as probabilities, or say log_target=True"
LOGITS_FIX = "- F.binary_cross_entropy(logits, y)\n+ F.binary_cross_entropy_with_logits(logits, y)"


def _bare_layer(call: LossCall) -> Operation | None:
    """The layer whose result is the input of a loss as it is, or in another shape."""
    made = origin_of_parts(call.input)
    direct = made is not None and is_weighted(made) and any(value.parameter is not None for value in made.inputs)
    return made if direct else None


def _in_logarithms(softmax: Operation) -> str:
    """The fix for the layer that applies softmax, or for the line that does: if it writes only one of them."""
    if softmax.module is not None and isinstance(softmax.module.module, Softmax):
        return LAYER_FIX
    line = softmax.spot.code
    better, count = SOFTMAX.subn("log_softmax(", line)
    return f"give it log-probabilities:\n- {line}\n+ {better}" if count == 1 else LOG_FIX


def _negative(call: LossCall) -> bool:
    array = numbers(call.target)
    return array is not None and float(array.min()) < -1e-6


def _target_span(call: LossCall) -> str:
    array = numbers(call.target)
    return "" if array is None else f"the target lies between {array.min():.4g} and {array.max():.4g}"
