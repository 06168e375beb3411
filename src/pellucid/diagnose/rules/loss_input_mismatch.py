"""loss-input-mismatch: the loss is given something else than it wants."""

import re
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from pellucid.diagnose.events import LossCall, Operation, Pass, Value
from pellucid.diagnose.finding import Finding, Related, Spot
from pellucid.diagnose.measures import is_weighted
from pellucid.diagnose.origins import (
    are_log_probabilities,
    are_probabilities,
    class_axis,
    numbers,
    origin,
    origin_of_parts,
)
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace
from pellucid.nn.modules.activation import Softmax

ONE_SIDED = (
    "cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div",
    "poisson_nll_loss",
)  # fmt: skip
NEVER_NEGATIVE = frozenset(("exp", "softplus", "relu", "abs", "square"))  # what makes a rate of any number

Mismatch = tuple[str, str, str]  # what, evidence, fix


class LossInputMismatch(Rule):
    """Every loss wants one kind of input: logits, probabilities, or logarithms of probabilities; then the target.

    `nll_loss`, `ctc_loss` and `kl_div` take log-probabilities, `binary_cross_entropy` takes probabilities,
    `cross_entropy` and everything "with logits" takes logits. `poisson_nll_loss` takes the logarithm of a rate unless
    log_input=False, `gaussian_nll_loss` takes a variance and not its logarithm. Swapped arguments are the same mistake.
    """

    code = "loss-input-mismatch"
    at_once = False
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

    def _mismatches(self, call: LossCall) -> Iterator[Mismatch]:
        given, target = call.input, call.target
        if given is None or target is None:
            return
        if call.name in ONE_SIDED and target.requires_grad and not given.requires_grad:
            what = f"the arguments of {call.name} are swapped: the prediction comes first"
            evidence = "the second argument depends on the model's parameters, the first does not"
            yield what, evidence, f"- {call.name}(target, prediction)\n+ {call.name}(prediction, target)"
        elif call.name in WANTED:
            array = numbers(given)
            if array is not None and np.max(array) < np.inf:  # else they are spoiled: that tells nothing of their kind
                yield from WANTED[call.name](call, array)

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
        """
import torch
from torch import nn

torch.manual_seed(0)
body, mean, spread = nn.Linear(3, 12), nn.Linear(12, 1), nn.Linear(12, 1)
parameters = [*body.parameters(), *mean.parameters(), *spread.parameters()]
optimizer = torch.optim.Adam(parameters, lr=1e-2)
criterion = nn.GaussianNLLLoss()
x = torch.randn(40, 3)
for step in range(8):
    hidden = torch.tanh(body(x))
    loss = criterion(mean(hidden), x.sum(1, keepdim=True), torch.relu(spread(hidden)))  # BUG
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 12), nn.ReLU(), nn.Linear(12, 1), nn.Softplus())
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.rand(40, 3)
counts = torch.poisson(5 * x[:, :1])
for step in range(8):
    loss = nn.functional.poisson_nll_loss(model(x) + 1e-6, counts)  # BUG
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
        """
import torch
import torch.nn.functional as F

torch.manual_seed(0)
model = torch.nn.Linear(3, 4)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.rand(40, 3)
counts = torch.poisson(3 * x[:, :1])
for step in range(8):
    mean, log_variance, log_rate, rate = model(x).split(1, dim=1)
    loss = F.gaussian_nll_loss(mean, x[:, :1], log_variance.exp()) + F.poisson_nll_loss(log_rate, counts)
    loss = loss + F.poisson_nll_loss(F.softplus(rate), counts, log_input=False)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    )


SOFTMAX = re.compile(r"\bsoftmax\(")
LOG_FIX = "give it log-probabilities:\n- F.softmax(logits, dim)\n+ F.log_softmax(logits, dim)"
LAYER_FIX = "give it log-probabilities:\n- nn.Softmax(dim)\n+ nn.LogSoftmax(dim)"
TARGET_FIX = "give the target as probabilities, or say log_target=True"
NO_PROBABILITIES = "binary_cross_entropy takes probabilities, and is given logits"
LOG_TARGET_FIX = "give the target as log-probabilities (F.log_softmax), or leave log_target=True out"
LOGITS_FIX = "- F.binary_cross_entropy(logits, y)\n+ F.binary_cross_entropy_with_logits(logits, y)"
NLL_FIX = "- F.nll_loss(logits, y)\n+ F.cross_entropy(logits, y)"
CTC_FIX = "- F.ctc_loss(scores, ...)\n+ F.ctc_loss(scores.log_softmax(-1), ...)"
RATE_FIX = "say that it is a rate:\n- nn.PoissonNLLLoss()\n+ nn.PoissonNLLLoss(log_input=False)\n(or leave {made} out)"
LOG_RATE_FIX = "- nn.PoissonNLLLoss(log_input=False)\n+ nn.PoissonNLLLoss(log_input=True)\n(or give it softplus(x))"
VARIANCE_FIX = "let the model say the logarithm, and take exp of it:\n- var\n+ var.exp()\n(or F.softplus(var) + 1e-6)"


def _logarithms(call: LossCall, array: np.ndarray) -> Iterator[Mismatch]:
    axis, span = class_axis(call), _span("the input", array)
    if are_probabilities(array, axis):
        yield f"{call.name} takes log-probabilities, and is given probabilities", f"{span} and adds up to 1", LOG_FIX
    elif array.ndim > axis and not are_log_probabilities(array, axis):
        what = f"{call.name} takes log-probabilities, and is given logits"
        yield what, f"{span}; exp of it does not add up to 1", CTC_FIX if call.name == "ctc_loss" else NLL_FIX


def _distributions(call: LossCall, array: np.ndarray) -> Iterator[Mismatch]:
    target = numbers(call.target)
    if array.min() >= 0 and array.size > 1:
        what = "kl_div takes log-probabilities, and is given probabilities"
        yield what, _span("the input", array), LOG_FIX
    elif target is None:
        return
    elif call.options.get("log_target"):
        if target.min() >= 0 and target.size > 1:
            what = "kl_div with log_target=True takes a target of log-probabilities, and is given probabilities"
            yield what, _span("the target", target), LOG_TARGET_FIX
    elif target.min() < -1e-6:
        yield "kl_div's target holds negative numbers: logarithms", _span("the target", target), TARGET_FIX


def _probabilities(call: LossCall, array: np.ndarray) -> Iterator[Mismatch]:
    if array.min() < -1e-6 or array.max() > 1 + 1e-6:
        yield NO_PROBABILITIES, _span("the input", array), LOGITS_FIX
    elif (layer := _bare_layer(call)) is not None:
        chance = f"{_span('the input', array)}, which is chance: nothing bounds what {layer.name} gives"
        yield NO_PROBABILITIES, chance, LOGITS_FIX


def _rates(call: LossCall, array: np.ndarray) -> Iterator[Mismatch]:
    made = _rectifier(call.input)
    if not call.options.get("log_input", True):
        if array.min() < 0:
            what = "poisson_nll_loss with log_input=False takes rates, and is given negative numbers"
            yield what, _span("the input", array), LOG_RATE_FIX
    elif made is not None:
        what = "poisson_nll_loss takes the logarithm of a rate, and is given a rate"
        evidence = f"{_span('the input', array)}; it comes straight from {made.name}, which keeps a rate positive"
        yield what, evidence, RATE_FIX.format(made=made.name)


def _rectifier(value: Value | None) -> Operation | None:
    """The operation that makes a value positive, also if a small number was added to be sure."""
    made = origin(value)
    if made is not None and made.op == "add" and made.inputs[-1].size == 1:
        made = origin(made.inputs[0])
    return made if made is not None and made.op in NEVER_NEGATIVE else None


def _variances(call: LossCall, array: np.ndarray) -> Iterator[Mismatch]:
    given = call.options.get("var")
    variance = numbers(given) if isinstance(given, Value) else None
    if variance is None or variance.min() > 0:
        return
    zeros = int((variance == 0).sum())
    if variance.min() < 0:
        what = "gaussian_nll_loss takes variances, and is given negative numbers: logarithms of variances?"
        yield what, _span("var", variance), VARIANCE_FIX
    elif zeros:
        eps = float(call.options.get("eps", 1e-6))
        evidence = f"{zeros} of {variance.size} are 0 and taken for eps: there an error of 1 costs {0.5 / eps:.3g}"
        yield "gaussian_nll_loss takes variances, and is given zeros", evidence, VARIANCE_FIX


WANTED: dict[str, Callable[[LossCall, np.ndarray], Iterator[Mismatch]]] = {
    "nll_loss": _logarithms, "ctc_loss": _logarithms, "kl_div": _distributions, "binary_cross_entropy": _probabilities,
    "poisson_nll_loss": _rates, "gaussian_nll_loss": _variances,
}  # fmt: skip


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


def _span(what: str, array: np.ndarray) -> str:
    return f"{what} lies between {array.min():.4g} and {array.max():.4g}"
