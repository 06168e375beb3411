"""What the rules of the groups "zero gradient" and "scale" measure: sites, units, gradients, the way of the loss."""

import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from pellucid.diagnose.events import ORDER, SMALL, Backward, Flow, Operation, Parameter, Pass, Value, end_to_end
from pellucid.diagnose.finding import Spot
from pellucid.diagnose.trace import Trace

# Rows that multiply a value by a weight, and the position of the weight (None: either).
WEIGHTED = {
    "linear": 1, "linear_with_bias": 1, "mm": None, "bmm": None, "matmul": None, "mv": None, "dot": None,
    "addmm": None, "addmv": None, "baddbmm": None, "einsum": None, "elman": None, "lstm": None, "gru": None,
}  # fmt: skip
REDUCING = frozenset((
    "sum", "sum_all", "mean", "mean_all", "mul", "div", "add", "sub", "neg", "pow_number", "reshape", "view", "select",
    "mul_number", "div_number",
    "unsqueeze", "squeeze", "newaxis", "cast", "stack", "cat", "expand", "where", "nansum", "clone",
))  # fmt: skip

ENOUGH = 20  # labels for each class, to tell how frequent it is

T = TypeVar("T")
Site = tuple[str, int, int]  # a file, a line, and the how manieth such operation of a pass it is


def is_weighted(operation: Operation) -> bool:
    """Whether an operation applies weights: a linear map, a convolution, a recurrent layer.

    >>> "mm" in WEIGHTED
    True
    """
    return applies_weights(operation.op)


@functools.cache
def applies_weights(name: str) -> bool:
    """The same of a row."""
    return name in WEIGHTED or name.startswith("conv")


def once(measure: Callable[[Pass], T]) -> Callable[[Pass], T]:
    """Let the rules share what is measured of a pass: it is computed when the first of them asks."""

    @functools.wraps(measure)
    def measured(done: Pass) -> T:
        shared = done.shared
        if measure not in shared:
            shared[measure] = measure(done)
        return shared[measure]  # type: ignore[no-any-return]

    return measured


@once
def _path(done: Pass) -> list[Operation]:
    toward_loss = done.toward_loss
    return [op for op in done.operations if op in toward_loss and op.recorded]


def on_path(done: Pass, names: Container[str] | None = None) -> list[Operation]:
    """The operations through which gradients of the loss pass, in their order."""
    if names is None:
        return _path(done)
    toward_loss = done.toward_loss
    return [op for op in done.of(names) if op in toward_loss and op.recorded]


def sites(operations: Iterable[Operation]) -> list[tuple[Site, Operation]]:
    """The operations with a name for each that is the same in every pass."""
    count: dict[Spot, int] = {}
    found = []
    for operation in operations:
        spot = Spot.of(operation.place)
        count[spot] = number = count.get(spot, -1) + 1
        found.append(((spot.file, spot.line, number), operation))
    return found


@once
def flows_of(done: Pass) -> dict[Operation, list[Flow]]:
    """The gradients that each operation passed on in this pass."""
    found: dict[Operation, list[Flow]] = defaultdict(list)
    for flow in done.flows:
        if flow.operation is not None:
            found[flow.operation].append(flow)
    return dict(found)


@once
def flows_to_leaves(done: Pass) -> list[Flow]:
    """The gradients that went to parameters in this pass."""
    return [flow for flow in done.flows if flow.into is not None]


def with_zeros(operations: Iterable[Operation]) -> list[Operation]:
    """The operations that have a zero in their results; small results are searched together, see `all_measured`."""
    results = [(op, array) for op in operations if (array := array_of(op.output)) is not None]
    small = [(op, array) for op, array in results if array.size <= SMALL]
    found = [op for op, array in results if array.size > SMALL and not array.all()]
    if small:
        numbers, starts = end_to_end([array for _, array in small])
        full = np.logical_and.reduceat(numbers, starts).tolist()
        found += [op for (op, _), without in zip(small, full, strict=True) if not without]
    return sorted(found, key=ORDER)


def array_of(value: Value) -> Any:
    """A value's numbers in at least single precision; None when they are gone or no floating-point numbers."""
    array = value.array
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fV" or not array.size:
        return None
    return array if array.dtype.kind == "f" and array.dtype.itemsize >= 4 else array.astype(np.float32)


def unit_axis(operation: Operation) -> int:
    """The axis along which the units of an activation lie: the channels after a convolution, else the last one."""
    ndim = len(operation.output.shape)
    maker = operation.inputs[0].maker
    for _ in range(3):  # through a normalisation or a dropout
        if maker is not None and not is_weighted(maker) and maker.inputs:
            maker = maker.inputs[0].maker
    return 1 if ndim > 2 and maker is not None and maker.op.startswith("conv") else max(ndim - 1, 0)


def per_unit(flags: Any, axis: int) -> Any:
    """Whether the flags are set for a unit in all samples."""
    if flags.ndim == 0:
        return flags.reshape(1)
    return flags.all(axis=tuple(i for i in range(flags.ndim) if i != axis))


def parameters_behind(value: Value, limit: int = 10_000) -> set[Parameter]:
    """The parameters that a value was computed from."""
    found: set[Parameter] = set()
    seen: set[Value] = set()
    stack = [value]
    while stack and len(seen) < limit:
        current = stack.pop()
        if current in seen or not current.requires_grad:
            continue
        seen.add(current)
        if current.parameter is not None:
            found.add(current.parameter)
        elif current.maker is not None:
            stack.extend(current.maker.inputs)
    return found


def is_hidden(operation: Operation, done: Pass) -> bool:
    """Whether the result goes through further weights before it gets to the loss."""
    return operation in _before_weights(done)


def is_penalty(operation: Operation, done: Pass) -> bool:
    """Whether the result is only summed into the loss: a hinge, which is zero where all is well."""
    return operation not in _before_more_than_sums(done)


def _compares(operation: Operation) -> bool:
    """Whether a result meets data of its own size, such as targets, other than to be weighted by it."""
    wide = [value for value in operation.inputs if value.size > 1]
    return operation.op in ("add", "sub") and len(wide) > 1 and not all(value.requires_grad for value in wide)


@once
def _before_weights(done: Pass) -> set[Operation]:
    return behind_all([op for op in done.toward_loss if is_weighted(op)])


@once
def _before_more_than_sums(done: Pass) -> set[Operation]:
    return behind_all([op for op in done.toward_loss if op.op not in REDUCING or _compares(op)])


def between(first: Operation, last: Operation, done: Pass) -> set[Operation]:
    """The operations on the ways from one to another, with both of them; none if the second does not need the first."""
    behind, found = {*behind_all([last]), last}, {first}
    for operation in _path(done):
        if operation in behind and any(value.maker in found for value in operation.inputs):
            found.add(operation)
    return found if last in found else set()


def behind_all(operations: list[Operation]) -> set[Operation]:
    """All that these operations were computed from: one walk, where a search from each of them takes many."""
    found: set[Operation] = set()
    stack = list(operations)
    while stack:
        for value in stack.pop().inputs:
            maker = value.maker
            if maker is not None and maker not in found:
                found.add(maker)
                stack.append(maker)
    return found


@dataclass(frozen=True)
class Progress:
    """How the loss went: of the `backward()` call that ran most often."""

    losses: tuple[float, ...]
    finite: tuple[float, ...]

    @property
    def first(self) -> float:
        return self.finite[0] if self.finite else float("nan")

    @property
    def last(self) -> float:
        """The middle one of the last fifth."""
        return float(np.median(self.finite[-max(1, len(self.finite) // 5) :])) if self.finite else float("nan")

    @property
    def broke(self) -> bool:
        """Whether a loss was not finite."""
        return len(self.finite) < len(self.losses)

    @property
    def told(self) -> str:
        """How it went, in words."""
        if not self.finite:
            return "the loss was never finite"
        return f"the loss was {self.first:.3g} at first, {max(self.finite):.3g} at its worst, " + (
            "then stopped being finite" if self.broke else f"and {self.last:.3g} at the end"
        )

    @property
    def improved(self) -> float:
        """The last loss as a share of the first: 1 for no progress, near 0 for a lot."""
        return self.last / self.first if self.finite and self.first > 0 else 1.0


def progress(trace: Trace) -> Progress:
    """How the loss went over the run."""
    series: dict[Spot, list[Backward]] = defaultdict(list)
    for event in trace.backwards:
        if event.error is None:
            series[event.spot].append(event)
    longest = max(series.values(), key=len, default=[])
    losses = tuple(event.loss for event in longest)
    return Progress(losses, tuple(loss for loss in losses if np.isfinite(loss)))


def labels_of(done: Pass) -> Counter[int]:
    """How often each class is the label, in a pass whose whole loss is a plain cross-entropy."""
    found: Counter[int] = Counter()
    root = None if done.backward is None else done.backward.root
    for call in done.losses:
        weighted = call.options.get("weight") is not None or call.options.get("label_smoothing")
        plain = call.result is root and not weighted and call.options.get("reduction") in (None, "mean")
        target = call.target if call.name in ("cross_entropy", "nll_loss") and plain else None
        if target is not None and isinstance(target.array, np.ndarray) and target.dtype.kind in "iu":
            found.update(target.array[target.array != call.options.get("ignore_index", -100)].ravel().tolist())
    return found


def guessing(labels: Counter[int]) -> float:
    """The cross-entropy of somebody who knows how frequent each class is, and nothing of the input.

    It is 0 where there are too few labels to know that.

    >>> f"{guessing(Counter({0: 50, 1: 50})):.4f}"
    '0.6931'
    """
    if labels.total() < ENOUGH * len(labels):
        return 0.0
    shares = np.array([*labels.values()], np.float64) / max(labels.total(), 1)
    return float(-(shares * np.log(shares)).sum())


def describe(operation: Operation) -> str:
    """What an operation is to a reader: its function and, inside a model, the layer."""
    call, name = operation.module, operation.name
    return name if call is None or not call.path else f"{name} ({call.path})"
