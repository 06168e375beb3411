"""How the gradient changes on its way from the loss to the input, layer by layer and line by line."""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from pellucid.diagnose.events import Flow, Operation, Parameter, Pass, norm_of
from pellucid.diagnose.finding import Spot
from pellucid.diagnose.measures import applies_weights, between, flows_of, flows_to_leaves, is_weighted, on_path, once
from pellucid.ops.nn.elman import elman_back_row
from pellucid.ops.nn.recurrence import cut

# Operations whose gain is a property of their values, not of a mere change of shape.
GAINING = frozenset((
    "sigmoid", "tanh", "softmax", "safe_softmax", "relu", "leaky_relu", "elu", "selu", "celu", "gelu", "silu",
    "softplus", "hardtanh", "hardsigmoid", "log_sigmoid", "mul", "div", "pow_number", "exp", "mish", "softsign", "sin",
    "cos",
))  # fmt: skip
RECURRENT = frozenset(("elman", "lstm", "gru"))
LEAST = 1e-300
STARVED = 1e-7  # of the gradient of other weights
Lines = tuple[dict[Spot, float], dict[Spot, Operation]]  # the gain of each line, and its strongest operation
STEPS = 8  # uses of the same weights in the same line that make a recurrence


@dataclass
class Chain:
    """The weights that a gradient passes on its way, the earliest in the forward pass first."""

    norms: list[float]  # of the gradient that arrives at each layer
    layers: list[tuple[float, Operation]] = field(default_factory=list)  # the layers themselves, each with its norm

    @property
    def ratio(self) -> float:
        """The gradient at the first layers against that at the last ones."""
        return _ends(self.norms)

    @property
    def signal_ratio(self) -> float:
        """The same of the gradient times the size of the layer's input: what its weights can learn from."""
        signals = [norm * _input_norm(operation) for norm, operation in self.layers]
        return _ends([signal for signal in signals if signal > 0 and math.isfinite(signal)])

    def gradual(self, falling: bool) -> bool:
        """Whether it changes a little with most of the layers, not all at once somewhere."""
        steps = [math.log(max(a, LEAST) / b) for a, b in zip(self.norms, self.norms[1:], strict=False) if b > 0]
        steps = [-step for step in steps] if falling else steps
        total = sum(steps)
        moving = sum(step > 0.1 for step in steps)
        return bool(steps) and total > 0 and moving >= 0.6 * len(steps) and max(steps) <= 0.6 * total


@dataclass
class Profile:
    """One pass: the chain over different weights, the chains over repeated uses of one, and the gain of each line."""

    layers: Chain
    repeated: list[Chain]
    inside: list[tuple[Operation, Chain]]  # the steps of a recurrent layer that ran as one operation
    starved: bool  # some weights get next to no gradient against the others
    largest_inside: tuple[float, Operation | None]  # the gain inside a recurrent layer
    done: Pass
    last: int  # when the last weights were applied: what follows is the loss

    def along(self, chains: Iterable[Chain]) -> Lines:
        """The lines on the way of the first of these chains in which a state goes from step to step, else all lines.

        What joins the state at every step from beside it, such as the projection of an input, would count as often.
        """
        for chain in chains:
            way = between(chain.layers[0][1], chain.layers[-1][1], self.done)
            if way:
                return _gains([op for op in self._gaining() if op in way], flows_of(self.done))
        return self._lines

    @cached_property
    def _lines(self) -> Lines:
        """The logarithm of the gain of all operations on a line, and the strongest of them, for the text.

        Measured when the gradient has changed so much that somebody asks which line does it.
        """
        return _gains(self._gaining(), flows_of(self.done))

    def _gaining(self) -> list[Operation]:
        flows = flows_of(self.done)
        names = [name for name in self.done.names if name in GAINING or applies_weights(name)]
        return [op for op in on_path(self.done, names) if op in flows and op.order <= self.last]


@once
def profile(done: Pass) -> Profile:
    """Measure a pass whose backward has ended."""
    flows = flows_of(done)
    names = [name for name in done.names if name == "mul" or applies_weights(name)]
    path = [op for op in on_path(done, names) if op in flows]
    weighted = [(op, parameter) for op in path if (parameter := _parameter(op)) is not None]
    firsts: dict[Parameter, Operation] = {}
    uses: dict[tuple[int, Parameter], list[Operation]] = defaultdict(list)
    for op, parameter in weighted:
        uses[id(Spot.of(op.place)), parameter].append(op)  # a line has one spot
        if is_weighted(op):
            firsts.setdefault(parameter, op)
    repeated = [_chain(ops, flows) for ops in uses.values() if len(ops) >= STEPS]
    inside = [(op, chain) for op in path if op.op == "elman" and (chain := _unrolled(op, done)) is not None]
    last = weighted[-1][0].order if weighted else 0
    within = _largest_inside([op for op in path if op.op in RECURRENT and op.order <= last], flows)
    return Profile(_chain(list(firsts.values()), flows), repeated, inside, _starved(done), within, done, last)


def _starved(done: Pass) -> bool:
    """Whether some weights get next to no gradient against others, by all ways together."""
    arrived: dict[Parameter, float] = defaultdict(float)
    for flow in flows_to_leaves(done):
        if len(flow.into.shape) > 1:  # type: ignore[union-attr]
            arrived[flow.into] += flow.outgoing  # type: ignore[index]
    return bool(arrived) and 0 < min(arrived.values()) < STARVED * max(arrived.values())


def _chain(operations: list[Operation], flows: dict[Operation, list[Flow]]) -> Chain:
    layers = [(flows[operation][-1].incoming, operation) for operation in operations]
    return Chain([norm for norm, _ in layers if math.isfinite(norm)], layers)


def _unrolled(operation: Operation, done: Pass) -> Chain | None:
    """The gradient at every step of a simple recurrent layer, computed once more from what arrived at its results."""
    states, first, weight = operation.outputs[0].array, operation.inputs[1].array, operation.inputs[3].array
    if not all(isinstance(array, np.ndarray) and array.dtype.kind == "f" for array in (states, first, weight)):
        return None
    at_states, at_last = np.zeros_like(states), np.zeros_like(first)
    for flow in done.flows:
        if flow.target is operation and flow.operation is not operation and isinstance(flow.gradient, np.ndarray):
            if flow.gradient.shape == states.shape:
                at_states += flow.gradient
            elif flow.gradient.size == first.size:
                at_last += flow.gradient.reshape(first.shape)
    walk, rectified = operation.params
    with np.errstate(all="ignore"):
        steps = cut(elman_back_row(at_states, at_last, states, first, weight, walk, rectified)[0], walk)
    norms = [norm_of(step) for step in steps]
    return Chain(norms) if len(norms) >= STEPS else None


def _input_norm(operation: Operation) -> float:
    """The norm of what the weights are applied to."""
    return max((norm_of(v.array) for v in operation.inputs if v.parameter is None and len(v.shape) > 1), default=0.0)


def _parameter(operation: Operation) -> Parameter | None:
    """The weights that an operation applies: a parameter, perhaps transposed."""
    if operation.op == "mul":
        return next((value.parameter for value in operation.inputs if value.parameter is not None), None)
    for value in operation.inputs if is_weighted(operation) else ():
        if value.parameter is None and value.maker is not None and value.maker.op in ("t", "transpose", "permute"):
            value = value.maker.inputs[0]
        if value.parameter is not None and len(value.shape) > 1:
            return value.parameter
    return None


def _largest_inside(
    layers: list[Operation], flows: dict[Operation, list[Flow]]
) -> tuple[float, Operation | None]:  # fmt: skip
    """The largest gain of a whole recurrent layer."""
    found: tuple[float, Operation | None] = (0.0, None)
    for op in layers:
        inside = max((f.outgoing / f.incoming for f in flows[op] if f.incoming > 0), default=0.0)
        found = max(found, (inside, op), key=lambda pair: pair[0])
    return found


def _gains(path: list[Operation], flows: dict[Operation, list[Flow]]) -> Lines:
    by_place: dict[int, list[tuple[float, Operation]]] = {}  # a loop over time comes by the same few again and again
    for op in path:
        on = [f.outgoing / f.incoming for f in flows[op] if f.outgoing > 0 and f.incoming > 0 and f.into is None]
        if on:
            by_place.setdefault(id(op.place), []).append((math.log(max(*on, LEAST)), op))
    by_spot: dict[Spot, list[tuple[float, Operation]]] = {}
    for gained in by_place.values():
        by_spot.setdefault(gained[0][1].spot, []).extend(gained)
    gains = {spot: sum(gain for gain, _ in gained) for spot, gained in by_spot.items()}
    return gains, {spot: max(gained, key=lambda pair: abs(pair[0]))[1] for spot, gained in by_spot.items()}


def _ends(values: list[float]) -> float:
    """The first few against the last few, by the largest of each; 1 where there are too few."""
    few = max(1, len(values) // 6)
    if len(values) < 4 or max(values[-few:]) <= 0:
        return 1.0
    return max(values[:few]) / max(values[-few:])
