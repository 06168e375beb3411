"""modified-in-place: a value that backward needs was changed."""

from collections.abc import Iterable

from pellucid.diagnose.events import Backward, Update
from pellucid.diagnose.finding import Finding, Related, Spot
from pellucid.diagnose.rewriting import out_of_place
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace
from pellucid.errors import InplaceError


class ModifiedInPlace(Rule):
    """An in-place operation overwrote a value that an earlier operation had saved for its derivative.

    Not every in-place operation is wrong: `y = x * 2; y += 1` is fine, as the product does not need its result;
    `y = x.exp(); y += 1` is not. PyTorch reports the loss's line; the culprit is the line that wrote.
    """

    code = "modified-in-place"

    def findings(self, trace: Trace) -> Iterable[Finding]:
        crash = trace.crash
        if crash is None:
            return
        if isinstance(crash.error, InplaceError):
            yield self._overwritten(crash.error, trace)
        elif "leaf Variable that requires grad is being used in an in-place" in crash.said:
            yield Finding(
                self.code, crash.spot, "a parameter is changed in place while gradients are recorded",
                "the operation was refused: the parameter's gradient would belong to a value that no longer exists",
                f"change it where nothing is recorded:\n+ with torch.no_grad():\n      {crash.spot.code}",
                since=trace.open.number,
            )  # fmt: skip

    def _overwritten(self, error: InplaceError, trace: Trace) -> Finding:
        saved = Spot.of(error.saved_at)
        written = saved if error.written_at is None else Spot.of(error.written_at)
        last = next((event for event in reversed(trace.loop) if isinstance(event, Backward)), None)
        step = any(isinstance(event, Update) and event.spot == written for event in trace.loop)
        return Finding(
            self.code, written, "this line changes in place a value that backward still needs",
            f"{str(error).splitlines()[0]} (saved at line {saved.line}, changed at line {written.line})",
            "step after the backward, or compute the loss anew after the step" if step else
            _anew(written.code, saved),
            related=(
                Related(saved, "the operation that needs the old value"),
                *(() if last is None else (Related(last.spot, "the backward() that found it changed"),)),
            ), since=trace.open.number,
        )  # fmt: skip

    broken = (
        """
import torch

torch.manual_seed(0)
w = torch.randn(4, 4, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
x = torch.randn(6, 4)
for step in range(3):
    optimizer.zero_grad()
    scale = torch.exp(x @ w)
    scale += 1.0  # BUG
    loss = scale.log().mean()
    loss.backward()
    optimizer.step()
""",
        """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(5, 5)

    def forward(self, x):
        gate = torch.sigmoid(self.inner(x))
        out = gate * x
        gate[:, 0] = 0.0  # BUG
        return out + gate


torch.manual_seed(0)
model = nn.Sequential(Block(), nn.Linear(5, 1))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(2):
    loss = model(torch.randn(7, 5)).mean()
    loss.backward()
    optimizer.step()
""",
    )
    healthy = (
        """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(inplace=True), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
target = torch.randn(7, 1)
x = torch.randn(7, 5)
for _ in range(6):
    y = model(x) * 2
    y += 1  # the product does not need its result
    out = torch.zeros(7, 1)
    out[:4] = y[:4]
    out[4:] = y[4:]
    loss = (out - target).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    )


def _anew(code: str, saved: Spot) -> str:
    better = out_of_place(code)
    if not better and saved.code:
        return (
            "write after the backward, or let the operation that needs the old value work on a copy, x.clone() for x "
            f"(a queue, a memory bank, a running state):\n  {saved.code}"
        )
    diff = f"\n- {code}\n+ {better}" if better else ""
    return (
        f"use the form that makes a new tensor:{diff}\n(x = x + 1 instead of x += 1, nn.ReLU() instead of "
        "nn.ReLU(inplace=True), or write to x.clone())"
    )
