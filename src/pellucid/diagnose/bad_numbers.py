"""Where bad numbers begin: the first operation, forward or backward, that made NaN or Inf, and what kind of slip it is.

The rules of the group "bad numbers" share this: each reports the roots of its own code.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import numpy as np

from pellucid.diagnose.cures import Symptom, cure_of, meeting
from pellucid.diagnose.events import Flow, LossCall, Operation, Pass, Value, is_finite
from pellucid.diagnose.finding import Finding, Related, Spot
from pellucid.diagnose.measures import flows_of, once
from pellucid.diagnose.rewriting import guarded, stable
from pellucid.diagnose.trace import Trace
from pellucid.nn.modules.loss import _Loss

DELIBERATE = frozenset(("masked_fill", "full", "fill", "write", "index_put", "masked_scatter", "cast", "tensor"))


DIFF = "\n- "  # where the example of a fix begins


@dataclass(slots=True)
class Root:
    """The first bad value of a pass: its code, where it is, and what was measured."""

    code: str
    spot: Spot
    message: str
    evidence: str
    fix: str
    number: int
    related: tuple[Related, ...] = ()

    def finding(self) -> Finding:
        return Finding(
            self.code, self.spot, self.message, self.evidence, self._mended(), related=self.related, since=self.number,
        )  # fmt: skip

    def _mended(self) -> str:
        """The fix, with the line itself in the place of an example that adds an epsilon."""
        line = self.spot.code
        if self.code == "overflow" and (own := stable(line)):
            return f"use the function that does not overflow:{DIFF}{line}\n+ {own}"
        example = self.fix.partition("\n+ ")[2]
        kind = "log-of-less" if self.code == "log-of-zero" and "clamp(" in example else self.code
        better = guarded(line, kind) if "1e-" in example else ""
        return f"{self.fix.partition(DIFF)[0]}{DIFF}{line}\n+ {better}" if better else self.fix


class RootRule:
    """A rule of this group: it reports the root of the first bad pass if that is of its own code."""

    code: str

    def __init__(self) -> None:
        self.seen = False
        self.root: Root | None = None

    def look(self, done: Pass, trace: Trace) -> None:
        """Find the root, unless an earlier pass was bad already: later ones only carry it on."""
        if self.seen:
            return
        if is_bad(done):
            self.seen, self.root = True, root_of(done)
        else:
            mark_spoiled(done)

    def findings(self, trace: Trace) -> Iterable[Finding]:
        return [self.root.finding()] if self.root is not None and self.root.code == self.code else []


@once
def is_bad(done: Pass) -> bool:
    """Whether the loss or a gradient of a pass is not finite, or it broke off on the way with such numbers."""
    event = done.backward
    if event is None:
        return any(map(_failed, done.losses)) or (bool(done.bad) and any(map(_ended_bad, done.losses)))
    return not isfinite(event.loss) or bool(done.bad_gradients) or not isfinite(event.gradient_norm)


def _failed(call: LossCall) -> bool:
    """Whether a loss refused bad numbers, as binary_cross_entropy does: no result is there to be looked at."""
    return call.result is None and any(value is not None and not _fine(value) for value in (call.input, call.target))


def _ended_bad(call: LossCall) -> bool:
    return call.result is not None and not _fine(call.result)


@once
def root_of(done: Pass) -> Root | None:
    """The first cause of the bad numbers in a pass."""
    data = _bad_data(done)
    made = _first_making(done)
    if data is not None and (made is None or _is_first(*data, made)):
        return _source(data[0])[0].spoiled or _data_root(done, data[0], data[1])
    if made is not None:
        return _forward_root(done, made)
    if done.bad_gradients:
        return _backward_root(done, done.bad_gradients[0])
    return None


# --- bad data


def _bad_data(done: Pass) -> tuple[Value, int] | None:
    """A value from outside that is not finite and was used on the way to the loss, and when."""
    wanted = done.toward_loss or set(done.operations)
    for operation in done.operations:
        if operation not in wanted or operation.op in DELIBERATE:
            continue
        for value in operation.inputs:
            if _came_bad(value) and not operation.finite:
                return value, operation.order
    return None


def _is_first(value: Value, order: int, made: Operation) -> bool:
    """Whether bad data is met before an operation makes bad numbers, or by it: a NaN made of an Inf that was given.

    A mask that this pass has written is no data: what cannot take it is to blame.
    """
    return order < made.order or (order == made.order and _source(value)[1] is None)


def _came_bad(value: Value) -> bool:
    """Whether a value was bad before any operation of ours touched it: data, not a parameter and not a mask."""
    if value.parameter is not None or value.array is None or is_finite(value.array) or value.requires_grad:
        return False
    source, maker = _source(value)
    if maker is not None:  # what was finite when it was made has been written to since, by way of a view
        return maker.finite or maker.op in ("write", "tensor") or _is_given(maker)
    return source.spoiled is not None or not _is_mask(np.asarray(value.array, np.float64))


def _source(value: Value) -> tuple[Value, Operation | None]:
    """The first bad value behind a bad one, and the operation that made it of good ones.

    None: it came into this pass. Numbers that are moved, sliced or written into something are the same numbers.
    """
    while (maker := value.maker) is not None:
        bad = [part for part in maker.inputs if part.array is not None and not is_finite(part.array)]
        if not bad:
            return value, maker
        value = bad[0]
    return value, None


def _is_mask(array: Any) -> bool:
    """Whether all that is not finite is -inf, over numbers that are all the same: a mask that is added to scores."""
    given = array[np.isfinite(array)]
    return not np.isnan(array).any() and not np.isposinf(array).any() and (not given.size or np.ptp(given) == 0)


def _is_given(operation: Operation) -> bool:
    """Whether an operation only puts a given Inf or NaN somewhere."""
    return operation.op in DELIBERATE


def _data_root(done: Pass, value: Value, order: int, entered: Spot | None = None) -> Root:
    entered, batch = (entered, value) if entered else _entrance(done, value, order)
    array = np.asarray(batch.array, np.float64)
    bad = ~np.isfinite(array)
    index = tuple(int(i) for i in np.unravel_index(int(bad.argmax()), bad.shape))
    related = tuple(Related(Spot.of(op.place), "the data is used here") for op in done.uses.get(value, [])[:1])
    return Root(
        "nan-input", entered, "the data already holds NaN or Inf before the model computes anything",
        f"{int(bad.sum())} of {bad.size} elements of the data of shape {batch.shape} are not finite, the first is "
        f"{array[index]} at index {index}",
        "clean the data before training:\n+ assert torch.isfinite(x).all()\n+ x = torch.nan_to_num(x)",
        done.number, related,
    )  # fmt: skip


def bad_batch(done: Pass, root: Root) -> Finding | None:
    """A batch that went into a model with the bad numbers that a line before, which prepares the data, had made."""
    for call in done.outermost():
        for value in call.inputs:
            if value.array is not None and value.floating and not value.requires_grad and not is_finite(value.array):
                entered = _data_root(done, value, 0, call.spot)
                return replace(entered.finding(), severity="info", related=(Related(root.spot, "they were made here"),))
    return None


def _entrance(done: Pass, value: Value, order: int) -> tuple[Spot, Value]:
    """Where a batch enters, and as what: the call of the model or the loss that takes it, else the first operation."""
    calls: list[tuple[Spot, Iterable[Value]]] = [
        (call.spot, call.inputs) for call in done.outermost() if not isinstance(call.module, _Loss)
    ]
    first = next((op for op in done.operations if op.order == order), done.operations[0])
    losses = [loss for loss in done.losses if loss.order < order or first.written_to is not None]
    data = [(loss.spot, [v for v in loss.values if not v.requires_grad]) for loss in losses]
    for spot, given in (*calls, *data):
        for taken in given:
            if taken is value or (taken.array is not None and taken.floating and not is_finite(taken.array)):
                return spot, taken
    return first.spot, value


# --- bad numbers made in forward


@once
def mark_spoiled(done: Pass) -> None:
    """Note on data that a pass prepares where its bad numbers begin: a later pass may be the first to take them up."""
    for operation in done.bad:
        if operation.recorded or _deliberate(operation) or operation.output.array is None:
            continue
        root, stack = _forward_root(done, operation), [operation]
        while stack:
            current = stack.pop()
            fresh = [value for value in current.outputs if value.spoiled is None and not _fine(value)]
            for value in fresh:
                value.spoiled = root
                stack.extend(done.uses.get(value, ()))


def swallowed(done: Pass) -> Root | None:
    """The root of an infinity by which everything was divided: the loss is finite, and no gradient comes back."""
    flows = flows_of(done) if done.bad else {}
    for operation in done.bad:
        coming = flows.get(operation, ())
        dead = bool(coming) and not any(flow.incoming for flow in coming) and not _deliberate(operation)
        if dead and not np.isfinite(np.asarray(operation.output.array, np.float64)).any():
            return _forward_root(done, operation)
    return None


def _first_making(done: Pass) -> Operation | None:
    """The first operation whose bad result got into the loss."""
    event = done.backward
    if event is not None and np.isfinite(event.loss):
        return None
    wanted = done.toward_loss
    for operation in done.bad:
        if (not wanted or operation in wanted) and not _deliberate(operation) and _spreads(operation, done):
            return operation
    return None


def _deliberate(operation: Operation) -> bool:
    """Whether an operation was told to write Inf: a mask."""
    given = any(isinstance(p, float) and not np.isfinite(p) for p in operation.params)
    return given or (operation.op in DELIBERATE and operation.op != "cast")


def _spreads(operation: Operation, done: Pass) -> bool:
    """Whether the bad result makes other results bad, up to the loss."""
    if done.backward is None:
        return True
    root, seen, stack = done.backward.root, set(), [operation]
    while stack:
        current = stack.pop()
        if root in current.outputs:
            return True
        for value in current.outputs:
            for consumer in done.uses.get(value, ()):
                if consumer not in seen and not consumer.finite:
                    seen.add(consumer)
                    stack.append(consumer)
    return False


def _forward_root(done: Pass, operation: Operation) -> Root:
    operation = _within(done, operation)
    index, label, count = _where_bad(operation)
    arrays = [value.array for value in operation.inputs if value.array is not None]
    elements = meeting(arrays, operation.output.shape, index)
    kind = "NaN" if label == "nan" else "Inf"
    half = operation.output.dtype == np.float16
    code, cause, fix = cure_of(Symptom(operation.op.removesuffix("_"), kind, False, False, elements, half))
    given = " and ".join(_value_at(value, index, operation.output.shape) for value in operation.inputs)
    return Root(
        code, operation.spot, cause,
        f"{operation.name} gave {label}{_spread(operation, index, given, count)}{_inside(operation)}; first seen in "
        f"pass {done.number}",
        fix, done.number, _made_by(operation),
    )  # fmt: skip


def _spread(operation: Operation, index: tuple[int, ...], given: str, count: int) -> str:
    """Where, from what, and in how many elements; a number has neither an index nor elements."""
    if not index:
        return f" from {given}"
    return f" at index {index} from {given}; {count} of {operation.output.size} elements are not finite"


def _within(done: Pass, operation: Operation) -> Operation:
    """The operation inside of a function of the script's own (autograd.Function) in which its bad numbers begin."""
    made = operation.output.array
    for inner in reversed(done.operations) if operation.own else ():
        if inner is not operation and inner.outputs and inner.output.array is made and made is not None:
            return _source(inner.output)[1] or operation
    return operation


def _where_bad(operation: Operation) -> tuple[tuple[int, ...], str, int]:
    """Where the worst of the bad results is, what it is, and how many there are."""
    value = next((v for v in operation.outputs if v.array is not None and not is_finite(v.array)), operation.output)
    array = np.asarray(value.array, np.float64)
    bad = np.isnan(array) if np.isnan(array).any() else ~np.isfinite(array)
    worst = int((bad * _distance(operation, bad)).argmax())
    index = tuple(int(i) for i in np.unravel_index(worst, bad.shape))
    return index, str(array[index]), int((~np.isfinite(array)).sum())


def _distance(operation: Operation, bad: Any) -> Any:
    """How far out the input of each element of a result is, for an operation that takes its elements one by one."""
    given = operation.inputs[0].array if len(operation.inputs) == 1 else None
    if given is None or np.shape(given) != bad.shape:
        return 1.0
    return 1.0 + np.abs(np.nan_to_num(np.asarray(given, np.float64)))


def _value_at(value: Value, index: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """The element of an input that belongs to an element of the result, or the input's range."""
    if value.array is None:
        return "an input"
    array = np.asarray(value.array, np.float64) if value.floating else value.array
    try:
        return f"{np.broadcast_to(array, shape)[index]:.6g}"
    except (ValueError, IndexError, TypeError):
        if not array.size:
            return "an empty tensor"
        return f"values between {array.min():.4g} and {array.max():.4g}"


def _inside(operation: Operation) -> str:
    call = operation.module
    return f", in {call.path} ({type(call.module).__name__})" if call is not None and call.path else ""


def _made_by(operation: Operation) -> tuple[Related, ...]:
    """Where the value came from that the operation could not take."""
    made = next((v.maker for v in operation.inputs if v.maker is not None and v.maker.spot != operation.spot), None)
    return () if made is None else (Related(made.spot, f"its input was made here, by {made.name}"),)


# --- bad numbers made in backward


def _backward_root(done: Pass, flow: Flow) -> Root:
    operation = flow.operation
    arrived = None if operation is None else _arrived_bad(done, operation, flow)
    if arrived is not None:
        return arrived
    spot = Spot.of(flow.place)
    chooser = None if operation is None else _chosen_later(operation, done)
    bad = ~np.isfinite(np.asarray(flow.gradient, np.float64))
    evidence = (
        f"the gradient that reached {flow.name} was finite (norm {flow.incoming:.3g}), the one it passed on is not: "
        f"{int(bad.sum())} of {bad.size} elements{_inputs_text(operation)}; first seen in pass {done.number}"
    )
    if chooser is not None:
        first = _first_bad(operation)  # type: ignore[arg-type]
        code, cause, fix = cure_of(Symptom(first.op, "NaN", True, True, []))
        chosen = (Related(chooser.spot, "the choice is made here"),)
        return Root(code, spot if first is operation else first.spot, cause, evidence, fix, done.number, chosen)
    code, cause, fix = _backward_cure(flow, bad)
    return Root(code, spot, cause, evidence, fix, done.number)


def _arrived_bad(done: Pass, operation: Operation, flow: Flow) -> Root | None:
    """The root of an Inf or NaN that an operation got in forward, and that its derivative could not take.

    The loss is finite all the same: something was divided by that Inf, or the bad elements were not picked.
    """
    bad = [value for value in operation.inputs if not _fine(value)]
    if not bad or _chosen_later(operation, done) is not None:
        return None
    source, maker = _source(bad[0])
    if maker is None:
        known = source.parameter is not None or _is_mask(np.asarray(source.array, np.float64))
        return source.spoiled or (None if known else _data_root(done, source, operation.order))
    if _deliberate(maker):
        return None
    root = _forward_root(done, maker)
    seen = f"the loss is finite, but the gradient that {flow.name} passes on is not"
    related = (*root.related, Related(Spot.of(flow.place), "its derivative could not take that value"))
    return replace(root, evidence=f"{root.evidence}; {seen}", related=related)


def _backward_cure(flow: Flow, bad: Any) -> tuple[str, str, str]:
    """What the derivative of an operation did wrong, from its inputs where the gradient went bad."""
    inputs = [] if flow.operation is None else [v.array for v in flow.operation.inputs if v.array is not None]
    index = tuple(int(i) for i in np.unravel_index(int(bad.argmax()), bad.shape))
    return cure_of(Symptom(flow.op.removesuffix("_"), "Inf", True, False, meeting(inputs, bad.shape, index)))


def _chosen_later(operation: Operation, done: Pass) -> Operation | None:
    """The `where` further on that picks among results of which this one is not always picked."""
    seen, stack = {operation}, [operation]
    while stack:
        current = stack.pop(0)
        for value in current.outputs:
            for consumer in done.uses.get(value, ()):
                if consumer.op == "where" and value in consumer.inputs[-2:]:
                    return consumer
                if consumer not in seen and consumer.outputs and consumer.output.shape == operation.output.shape:
                    seen.add(consumer)
                    stack.append(consumer)
    return None


def _first_bad(operation: Operation) -> Operation:
    """The operation of a branch in which its bad numbers begin, in forward: 1 / 0 before the product with it."""
    while True:
        bad = [v.maker for v in operation.inputs if v.maker is not None and v.array is not None and not _fine(v)]
        if not bad:
            return operation
        operation = bad[0]


def _inputs_text(operation: Operation | None) -> str:
    if operation is None or not operation.inputs or operation.inputs[0].array is None:
        return ""
    array = np.asarray(operation.inputs[0].array, np.float64)
    if not array.size:
        return ""
    zeros = int((array == 0).sum())
    among = f" ({zeros} of {array.size} are exactly 0)" if zeros else ""
    return f"; its input lies between {array.min():.4g} and {array.max():.4g}{among}"


def _fine(value: Value) -> bool:
    return value.array is None or is_finite(value.array)
