"""graph-kept-alive: a tensor kept across steps holds ever more graph."""

from collections import Counter
from collections.abc import Iterable

from pellucid.core.provenance import Place
from pellucid.diagnose.carried import (
    Kept,
    accumulators,
    carried_over,
    entrance,
    loss_appended_at,
    renewing,
    result_appended_at,
)
from pellucid.diagnose.events import Backward, Pass
from pellucid.diagnose.finding import Finding, Related, Spot
from pellucid.diagnose.rewriting import carried_name, kept_as, summed_as_number
from pellucid.diagnose.rules.rule import Rule
from pellucid.diagnose.trace import Trace
from pellucid.errors import FreedGraphError, InplaceError

ADDING = ("add", "sub", "cat", "stack")
OFTEN = 3  # passes in which it is seen
LOSSES_ALIVE = 5  # losses of earlier passes that are still held


class GraphKeptAlive(Rule):
    """A tensor that outlives its step keeps its graph, and the graph of all it was computed from.

    A sum of losses for the log (`total += loss`), a list of losses or of outputs, a hidden state that goes from batch
    to batch: each holds one more step's graph than the step before. Memory grows, backward gets slower with
    retain_graph=True, and without it the second step crashes. Keep numbers (`loss.item()`) or cut the state
    (`h.detach()`).
    """

    code = "graph-kept-alive"
    explains = frozenset(("backward-twice", "modified-in-place", "step-before-backward"))

    def __init__(self) -> None:
        self.adding: Counter[Spot] = Counter()
        self.renewing: set[Spot] = set()  # those among them that do not add: a layer whose state goes on
        self.carried_in: Counter[Spot] = Counter()
        self.crashing: Spot | None = None
        self.alive: list[Backward] = []
        self.results: tuple[Spot, int, int] | None = None  # the call whose results are kept, of how many passes, since
        self.others: tuple[Spot, int, int] | None = None  # any other line whose results are kept, likewise

    def look(self, done: Pass, trace: Trace) -> None:
        began = trace.step_began()
        taking = accumulators(done, began)
        self.adding.update({operation.spot for operation in taking})
        self.renewing |= {operation.spot for operation in taking if operation.op not in ADDING}
        operation = carried_over(done, began)
        carried = None if operation is None else entrance(renewing(operation, done, began), began)
        if carried is not None:
            self.carried_in[carried] += 1
        failed = done.backward is not None and isinstance(done.backward.error, (FreedGraphError, InplaceError))
        if failed and done.backward.oldest > 0:  # type: ignore[union-attr]
            self.crashing = carried
        roots = [(root(), event) for root, event in trace.roots if event.number < done.number - 1]
        held = list(dict.fromkeys(event for root, event in roots if _has_graph(root)))
        if len(held) > len(self.alive):
            self.alive = held
        results = ((place, n) for kept, place, n in trace.results if n < done.number - 1 and _has_graph(kept()))
        self.results = _many(results, self.results)
        others = ((value.made_at, value.born) for value in trace.survivors(min(began, done.number - 1)))
        self.others = _many(others, self.others)

    def findings(self, trace: Trace) -> Iterable[Finding]:
        found = list(self._all(trace))
        return found[:1] if found else ()

    def _all(self, trace: Trace) -> Iterable[Finding]:
        if self.crashing is not None:
            yield self._state(self.crashing, trace, "the backward() that reached an earlier step's graph failed")
        for spot, times in self.adding.most_common(1):
            if times >= OFTEN and spot in self.renewing:
                measured = (
                    f"its own state of an earlier step, graph and all, came back in {times} of the passes looked at"
                )
                yield self._state(spot, trace, measured, "state")
            elif times >= OFTEN:
                yield self._sum(spot, times, trace)
        growing = [event for event in trace.backwards if event.oldest >= 2]
        if len(growing) >= OFTEN and growing[-1].nodes > growing[0].nodes and self.carried_in:
            spot = self.carried_in.most_common(1)[0][0]
            numbers = f"the graph grew from {trace.backwards[0].nodes} to {growing[-1].nodes} operations"
            yield self._state(spot, trace, f"{numbers} and reaches back {growing[-1].oldest} passes")
        if len(self.alive) >= LOSSES_ALIVE:
            yield self._list(trace)
        if self.results is not None:
            yield self._outputs(*self.results)
        if self.others is not None:
            yield self._computed(*self.others)

    def _state(self, spot: Spot, trace: Trace, measured: str, name: str = "") -> Finding:
        return Finding(
            self.code, spot,
            "a value of the step before is used here with its graph: every step is chained to all earlier ones",
            measured, _cut(name or carried_name(spot.code) or "state"),
            related=tuple(Related(event.spot, "backward()") for event in trace.backwards[-1:]),
            since=1,
        )  # fmt: skip

    def _sum(self, spot: Spot, times: int, trace: Trace) -> Finding:
        return Finding(
            self.code, spot, "a tensor is added up over the steps with its graph: no step's graph can be freed",
            f"it took up its own earlier value, graph and all, in {times} of the passes that were looked at",
            _as_number(spot.code), since=1,
        )  # fmt: skip

    def _outputs(self, call: Spot, times: int, since: int) -> Finding:
        kept = result_appended_at(call)
        return Finding(
            self.code, call if kept is None else kept.spot,
            "results of the model are kept over the steps, each with its graph",
            f"the results of {times} earlier passes are still alive with their graphs",
            "keep the values without their history:\n" + _rewritten(kept, "detach", "outputs.append(out)"),
            related=() if kept is None else (Related(call, "the model computes them here"),), since=since,
        )  # fmt: skip

    def _computed(self, made: Spot, times: int, since: int) -> Finding:
        kept = result_appended_at(made)
        return Finding(
            self.code, made if kept is None else kept.spot,
            "what is computed here is kept over the steps, each with its graph",
            f"the results of {times} earlier passes are still alive with their graphs",
            "keep the values without their history: take .detach() of what is kept, or compute it under no_grad",
            related=() if kept is None else (Related(made, "it is computed here"),), since=since,
        )  # fmt: skip

    def _list(self, trace: Trace) -> Finding:
        last = self.alive[-1]
        kept = next((found for event in self.alive if (found := loss_appended_at(event)) is not None), None)
        return Finding(
            self.code, last.spot if kept is None else kept.spot,
            "losses are kept over the steps as tensors, each with its graph",
            f"{len(self.alive)} losses of earlier passes are still alive with their graphs",
            "keep the number:\n"
            + _rewritten(kept, "float" if kept is not None and kept.passed else "item", "losses.append(loss)"),
            related=() if kept is None else (Related(last.spot, "backward() on the tensor that is kept"),),
            since=self.alive[0].number, independent=True,
        )  # fmt: skip

    broken = (
        """
import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
running = 0.0
for step in range(10):
    x = torch.randn(8, 4)
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    running += loss  # BUG
print(float(running) / 10)
""",
        """
import torch
from torch import nn

torch.manual_seed(0)
cell, head = nn.GRUCell(3, 6), nn.Linear(6, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=1e-3)
state = torch.zeros(5, 6)
for chunk in range(6):
    for t in range(2):
        state = cell(torch.randn(5, 3), state)  # BUG
    loss = head(state).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        """
import torch


def fit(net, opt, steps):
    history = []
    for _ in range(steps):
        x = torch.randn(10, 3)
        objective = (net(x).squeeze(1) - x[:, 0]).abs().mean()
        opt.zero_grad()
        objective.backward()
        opt.step()
        history.append(objective)  # BUG
    return torch.stack(history).detach()


torch.manual_seed(0)
net = torch.nn.Linear(3, 1)
print(fit(net, torch.optim.SGD(net.parameters(), lr=0.05), 12).mean())
""",
        """
import torch


class Accuracy:
    def __init__(self):
        self.scores, self.labels = [], []

    def update(self, logits, labels):
        self.scores.append(logits.softmax(1))  # BUG
        self.labels.append(labels)


torch.manual_seed(0)
net, metric = torch.nn.Linear(5, 2), Accuracy()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(20):
    x = torch.randn(16, 5)
    y = (x[:, 0] > 0).long()
    out = net(x)
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(out, y).backward()
    optimizer.step()
    metric.update(out, y)
print((torch.cat(metric.scores).argmax(1) == torch.cat(metric.labels)).float().mean().item())
""",
    )
    healthy = (
        """
import torch
from torch import nn

torch.manual_seed(0)
rnn, head = nn.LSTM(3, 6, batch_first=True), nn.Linear(6, 1)
optimizer = torch.optim.Adam([*rnn.parameters(), *head.parameters()], lr=1e-3)
state, total, losses = None, 0.0, []
for chunk in range(8):
    output, state = rnn(torch.randn(5, 4, 3), state)
    state = tuple(part.detach() for part in state)  # truncated backpropagation through time
    loss = head(output).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.item()
    losses.append(loss.detach())
""",
        """
import torch

torch.manual_seed(0)
shared = torch.nn.Parameter(torch.zeros(3))
optimizer = torch.optim.Adam([shared], lr=0.05)
for step in range(4):
    adapted = []
    for task in range(8):  # kept until the step, which needs them all
        goal = torch.randn(3)
        (slope,) = torch.autograd.grad((shared - goal).square().sum(), shared, create_graph=True)
        adapted.append((shared - 0.1 * slope - goal).square().sum())
    optimizer.zero_grad()
    torch.stack(adapted).mean().backward()
    optimizer.step()
""",
    )


def _many(
    kept: Iterable[tuple[Place | None, int]], most: tuple[Spot, int, int] | None
) -> tuple[Spot, int, int] | None:  # fmt: skip
    """Of lines whose results are still there, that of the most passes, if these are many and more than before."""
    passes: dict[Spot, set[int]] = {}
    for place, number in kept:
        if place is not None:
            passes.setdefault(Spot.of(place), set()).add(number)
    for spot, numbers in passes.items():
        if len(numbers) >= (LOSSES_ALIVE if most is None else most[1] + 1):
            most = spot, len(numbers), min(numbers)
    return most


def _has_graph(root: object) -> bool:
    return getattr(root, "node", None) is not None


def _as_number(code: str) -> str:
    """How to add numbers where tensors are added up."""
    better = summed_as_number(code)
    if not better:
        return "keep a number, or cut the graph: take .item() or .detach() of what is added"
    return f"keep the number without its graph:\n- {code}\n+ {better}"


def _cut(state: str) -> str:
    return (
        f"cut it between steps, before it is used again:\n+ {state} = {state}.detach()\n"
        f"(of a tuple, as an LSTM has it: {state} = tuple(part.detach() for part in {state}))"
    )


def _rewritten(kept: Kept | None, method: str, example: str) -> str:
    """The line that keeps a tensor, before and after."""
    line = example if kept is None else kept.spot.code
    name = example.partition("(")[2].rstrip(")") if kept is None else kept.name
    return f"- {line}\n+ {kept_as(line, name, method) or f'the same with {name}.{method}()'}"
