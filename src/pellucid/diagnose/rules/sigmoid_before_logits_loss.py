"""sigmoid-before-logits-loss: sigmoid output fed to a loss that expects logits."""

from collections.abc import Iterable, Iterator

from pellucid.diagnose.events import Operation, Pass
from pellucid.diagnose.finding import Finding, Related, Spot
from pellucid.diagnose.origins import is_sigmoid, origin, origin_of_parts
from pellucid.diagnose.rewriting import without_call
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace

LOGITS_LOSSES = (
    "binary_cross_entropy_with_logits", "cross_entropy", "multilabel_soft_margin_loss", "soft_margin_loss",
)  # fmt: skip


class SigmoidBeforeLogitsLoss(Rule):
    """Losses "with logits" apply the sigmoid themselves; after another sigmoid they see numbers between 0 and 1 only.

    The second sigmoid then lies between 0.5 and 0.73: a negative sample can never be given less than one half.
    """

    code = "sigmoid-before-logits-loss"
    at_once = False
    explains = frozenset(("learning-rate-too-low", "vanishing-gradient", "saturated-activation"))

    def __init__(self) -> None:
        self.seen: dict[Spot, tuple[Operation, Spot, str, int]] = {}

    def look(self, done: Pass, trace: Trace) -> None:
        for first, second, what in self._pairs(done):
            self.seen.setdefault(first.spot, (first, second, what, done.number))

    def _pairs(self, done: Pass) -> Iterator[tuple[Operation, Spot, str]]:
        for call in done.losses:
            made = origin_of_parts(call.input)
            if call.name in LOGITS_LOSSES and made is not None and is_sigmoid(made):
                yield made, call.spot, call.name
        for operation in done.of(("sigmoid", "log_sigmoid")):
            made = origin(operation.inputs[0])
            if made is not None and made.op == "sigmoid" and operation in done.toward_loss:
                yield made, operation.spot, "another sigmoid"

    def findings(self, trace: Trace) -> Iterable[Finding]:
        for first, second, what, since in self.seen.values():
            made = trace.layer_made(first)
            related = [Related(second, f"{what} expects logits here")]
            if made is not None and Spot.of(made) != first.spot:
                related.append(Related(Spot.of(made), "the sigmoid layer is made here"))
            yield Finding(
                self.code, first.spot, f"sigmoid is applied here, and {what} expects logits: it is applied twice",
                f"the input of {what} comes straight from sigmoid, so it lies between 0 and 1",
                _without(first.spot.code) + "\n(or use F.binary_cross_entropy, which takes probabilities)",
                related=tuple(related), since=since,
            )  # fmt: skip

    broken = (
        """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(6, 1)
loss_fn = nn.BCEWithLogitsLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(32, 6)
y = (x[:, :1] > 0).float()
for epoch in range(8):
    p = torch.sigmoid(model(x))  # BUG
    loss = loss_fn(p, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        """
import torch
import torch.nn as nn
import torch.nn.functional as F


class Tagger(nn.Module):
    def __init__(self, features, tags):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, 12), nn.ReLU(), nn.Linear(12, tags))
        self.squash = nn.Sigmoid()

    def forward(self, x):
        scores = self.body(x)
        return self.squash(scores).squeeze(-1)  # BUG


def main():
    torch.manual_seed(1)
    tagger = Tagger(7, 1)
    optimizer = torch.optim.Adam(tagger.parameters(), lr=1e-3)
    for step in range(6):
        batch = torch.randn(16, 7)
        wanted = (batch.sum(1) > 0).float()
        optimizer.zero_grad()
        F.binary_cross_entropy_with_logits(tagger(batch), wanted).backward()
        optimizer.step()


main()
""",
    )
    healthy = (
        """
import torch
import torch.nn.functional as F

torch.manual_seed(0)
gate, model = torch.nn.Linear(6, 6), torch.nn.Linear(6, 1)
optimizer = torch.optim.Adam([*gate.parameters(), *model.parameters()], lr=1e-2)
x = torch.randn(32, 6)
y = (x[:, :1] > 0).float()
for epoch in range(8):
    gated = x * torch.sigmoid(gate(x))
    loss = F.binary_cross_entropy_with_logits(model(gated), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        accuracy = ((torch.sigmoid(model(gated)) > 0.5) == (y > 0.5)).float().mean().item()
""",
    )


def _without(code: str) -> str:
    better = without_call(code, ("sigmoid",))
    return "give the loss the logits:" + (f"\n- {code}\n+ {better}" if better else " leave the sigmoid out")
