"""double-softmax: softmax output fed to a loss that applies softmax itself."""

from collections.abc import Iterable, Iterator

from pellucid.diagnose.events import Operation, Pass
from pellucid.diagnose.finding import Finding, Related, Spot
from pellucid.diagnose.origins import MOVING, are_probabilities, class_axis, numbers, origin, origin_of_parts, unscaled
from pellucid.diagnose.rewriting import without_call
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace

PICKING = MOVING | {"take_along", "neg", "mean", "mean_all", "sum_all"}  # from scores to the one of the label


class DoubleSoftmax(Rule):
    """`cross_entropy` takes logits: it applies the softmax itself. On probabilities it computes a softmax of a softmax.

    The model still learns, slowly, and cannot become sure: for ten classes the loss never falls below 1.46.
    """

    code = "double-softmax"
    at_once = False
    explains = frozenset(("learning-rate-too-low", "vanishing-gradient", "saturated-activation"))

    def __init__(self) -> None:
        self.seen: dict[Spot, tuple[Operation, Spot, int, int]] = {}  # the softmax, the second one, times, first pass

    def look(self, done: Pass, trace: Trace) -> None:
        for first, second in {(op, spot) for op, spot in self._pairs(done)}:
            known = self.seen.get(first.spot)
            times, since = (known[2] + 1, known[3]) if known else (1, done.number)
            self.seen[first.spot] = (first, second, times, since)

    def _pairs(self, done: Pass) -> Iterator[tuple[Operation, Spot]]:
        for call in done.losses:
            made = origin_of_parts(unscaled(call.input))
            if call.name != "cross_entropy" or made is None or made.op == "log_softmax":
                continue
            if call.target is not None and call.target.requires_grad and not made.recorded:
                continue  # the arguments are swapped: these are the labels
            if made.op == "softmax" or are_probabilities(numbers(call.input), class_axis(call)):
                yield made, call.spot
        for operation in done.of(("softmax", "log_softmax")):
            made = origin(unscaled(operation.inputs[0]))
            if made is not None and made.op == "softmax" and operation in done.toward_loss:
                yield made, operation.spot
        yield from _by_hand(done)

    def findings(self, trace: Trace) -> Iterable[Finding]:
        for first, second, times, since in self.seen.values():
            made = trace.layer_made(first)
            related = [Related(second, "the loss applies softmax to it again")]
            if made is not None and Spot.of(made) != first.spot:
                related.append(Related(Spot.of(made), "the softmax layer is made here"))
            yield Finding(
                self.code, first.spot, "softmax is applied here, and the loss applies it a second time",
                f"the inputs of the loss are probabilities that add up to 1 per sample, in {times} of the passes that "
                "were looked at", _without(first.spot.code),
                related=tuple(related), since=since,
            )  # fmt: skip

    broken = (
        """
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(8, 16)
        self.out = nn.Linear(16, 4)

    def forward(self, x):
        h = torch.relu(self.hidden(x))
        return torch.softmax(self.out(h), dim=1)  # BUG


torch.manual_seed(0)
model = Classifier()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x, y = torch.randn(40, 8), torch.randint(0, 4, (40,))
for epoch in range(6):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
""",
        """
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 10), nn.Tanh(), nn.Linear(10, 3), nn.Softmax(dim=-1))
opt = torch.optim.SGD(net.parameters(), lr=0.5)
for i in range(8):
    batch, label = torch.randn(12, 5), torch.randint(0, 3, (12,))
    opt.zero_grad()
    probabilities = net(batch)  # BUG
    loss = F.nll_loss(F.log_softmax(probabilities, dim=-1), label)
    loss.backward()
    opt.step()
""",
    )
    healthy = (
        """
import torch
import torch.nn.functional as F

torch.manual_seed(0)
query, value, head = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6), torch.nn.Linear(6, 3)
optimizer = torch.optim.Adam([*query.parameters(), *value.parameters(), *head.parameters()], lr=1e-3)
for step in range(6):
    x, y = torch.randn(4, 5, 6), torch.randint(0, 3, (4,))
    weights = torch.softmax(query(x) @ x.transpose(1, 2) / 6**0.5, dim=-1)  # attention
    logits = head((weights @ value(x)).mean(1))
    loss = F.cross_entropy(logits, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        confidence = torch.softmax(logits, dim=1).max().item()
""",
    )


def _by_hand(done: Pass) -> Iterator[tuple[Operation, Spot]]:
    """Cross-entropies written out, `logsumexp(x) - x[label]`, where x is a softmax already."""
    for operation in done.of(("sub", "add")) if "logsumexp" in done.names else ():
        makers = [origin(value, PICKING) for value in operation.inputs]
        sums = [made for made in makers if made is not None and made.op == "logsumexp"]
        first = origin(sums[0].inputs[0]) if sums else None
        if first is not None and first.op == "softmax" and first in makers and operation in done.toward_loss:
            yield first, sums[0].spot


def _without(code: str) -> str:
    better = without_call(code, ("softmax", "Softmax"))
    return "give the loss the logits:" + (f"\n- {code}\n+ {better}" if better else " leave the softmax out")
