"""Where a gradient is lost: values are followed forward from a parameter, operation by operation, to the loss.

A pass is searched while its values are there; what was found is kept in one ledger per trace, which the rules about
missing gradients share. When the run is over the ledger knows which parameters never got a gradient, and which of the
places where their values left the graph is to blame.
"""

import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pellucid.core.provenance import Place
from pellucid.diagnose.events import Backward, Cleared, Flow, Operation, Parameter, Pass, Update, Value
from pellucid.diagnose.finding import Finding, Related, Spot
from pellucid.diagnose.ownership import stale
from pellucid.diagnose.trace import Trace

DETACHING = frozenset(("detach", "detach_", "data"))
WRAPPING = DETACHING | {"Variable", "Parameter"}  # what was cut off stays the tensor it is
STEPS = frozenset(("round", "floor", "ceil", "trunc", "sign", "sgn", "drawn_bernoulli", "drawn_normal"))  # their slope is zero
LINEAR = frozenset(("add", "sub", "neg", "sum", "mean", "stack", "cat", "reshape", "view", "index", "squeeze"))
SCALING = frozenset(("mul", "div", "true_divide"))


@dataclass(slots=True, eq=False)
class Cut:
    """A place where the value of a parameter goes on and its gradient does not come back."""

    code: str
    spot: Spot
    operation: Operation | None  # None: it raised before it was one
    parameter: Parameter | None  # None: a whole term of the loss is cut off
    number: int  # of the pass
    hopeless: bool = False  # nothing that wants a gradient, or should, joins the value on its way to the loss
    fatal: bool = False  # the loss wants no gradient at all: backward() refused

    @property
    def order(self) -> int:
        return 0 if self.operation is None else self.operation.order


@dataclass(slots=True, eq=False)
class Loss:
    """One place to blame, and all parameters that lose their gradient there."""

    cut: Cut
    parameters: list[Parameter] = field(default_factory=list)


class Search:
    """One pass: its values, followed from its parameters to its loss."""

    def __init__(self, done: Pass, trace: Trace) -> None:
        self.done, self.trace = done, trace
        self.root = done.backward.root if done.backward is not None else None
        self.toward = done.toward_loss
        self.upstream = {value for operation in self.toward for value in operation.inputs}
        if self.root is not None:
            self.upstream.add(self.root)
        self.fatal = done.backward is not None and "does not require grad" in str(done.backward.error or "")
        self.flat = {flow.operation for flow in done.flows if _is_flat(flow)}
        self.additive = set(self._additive())

    # --- what every parameter met

    def starts(self) -> dict[Parameter, set[Value]]:
        """The parameters that operations of this pass took, as values."""
        found: dict[Parameter, set[Value]] = {}
        for operation in self.done.operations:
            for value in operation.inputs:
                if value.parameter is not None:
                    found.setdefault(value.parameter, set()).add(value)
        return found

    def cuts(self, parameter: Parameter, values: Iterable[Value]) -> Iterator[Cut]:
        """The first places on the ways from a parameter to the loss that let no gradient back."""
        found = list(self._first_cuts(values))
        if not found:
            found = list(self._detours(values))
        for operation in dict.fromkeys(found):
            code, operation = self._judged(operation)
            hopeless = self._is_hopeless(operation)
            yield Cut(
                code, spot_of(operation, code), operation, parameter, self.done.number, hopeless, self.fatal
            )  # fmt: skip

    def reaches(self, values: Iterable[Value]) -> bool:
        """Whether one of these values has a part in the loss."""
        return any(value in self.upstream for value in values)

    def _first_cuts(self, values: Iterable[Value]) -> Iterator[Operation]:
        stack = [value for value in values if value.requires_grad and value in self.upstream]
        seen = set(stack)
        while stack:
            for operation in self.done.uses.get(stack.pop(), ()):
                if operation not in self.toward:
                    continue
                if operation in self.flat or operation.leaves_graph or not operation.recorded:
                    if not self._selects(operation):
                        yield operation
                    continue
                for value in operation.outputs:
                    if value.requires_grad and value not in seen:
                        seen.add(value)
                        stack.append(value)
                    elif not value.requires_grad and value in self.upstream and value.dtype.kind in "biu":
                        yield operation  # the indices of max(dim), sort, topk

    def _selects(self, operation: Operation) -> bool:
        """Whether its result only tells which elements of the same value go on: the indices inside max(dim), a mask."""
        if operation.leaves_graph or operation.output.floating:
            return False
        users = [user for user in self.done.uses.get(operation.output, ()) if user in self.toward]
        return bool(users) and all(user.recorded and operation.inputs[0] in user.inputs for user in users)

    # --- what kind of cut it is

    def _judged(self, operation: Operation) -> tuple[str, Operation]:
        """The code for a cut, and the operation to blame: of `.detach().numpy()` the second."""
        if operation.op in DETACHING:
            further = self._further_out(operation)
            return ("detached", operation) if further is None else ("left-the-graph", further)
        if operation.leaves_graph:
            return "left-the-graph", operation
        if operation.switched_off_by and not operation.grad_mode and not is_discrete(operation):
            return "no-grad-region", operation
        return "non-differentiable-op", operation

    def _further_out(self, detached: Operation) -> Operation | None:
        """Where a detached value goes on to Python or NumPy, if that is all that becomes of it."""
        stack, seen, out = list(detached.outputs), set(detached.outputs), None
        while stack:
            for operation in self.done.uses.get(stack.pop(), ()):
                if operation.leaves_graph and operation.op not in WRAPPING:
                    out = out or operation
                elif operation in self.toward and not operation.leaves_graph and len(operation.inputs) > 1:
                    return None
                else:
                    fresh = [value for value in operation.outputs if value not in seen]
                    stack.extend(fresh)
                    seen.update(fresh)
        return out if self.root is None or out is None or self.root not in seen else None

    def _is_hopeless(self, operation: Operation) -> bool:
        stack, seen = list(operation.outputs), set(operation.outputs)
        while stack:
            for later in self.done.uses.get(stack.pop(), ()):
                if later not in self.toward or later in self.additive:
                    continue
                if later.recorded or any(_is_held_frozen(value) for value in later.inputs):
                    return False
                fresh = [value for value in later.outputs if value not in seen]
                stack.extend(fresh)
                seen.update(fresh)
        return True

    def _additive(self) -> Iterator[Operation]:
        """The operations at the end that only add up and scale the terms of the loss."""
        stack = [self.root] if self.root is not None else []
        seen = set(stack)
        while stack:
            maker = stack.pop().maker
            if maker is None or maker.leaves_graph or not maker.recorded or not _is_linear(maker):
                continue
            yield maker
            fresh = [value for value in maker.inputs if value not in seen]
            stack.extend(fresh)
            seen.update(fresh)

    # --- values that go out to Python or NumPy and come back as numbers nobody recognises

    def _detours(self, values: Iterable[Value]) -> Iterator[Operation]:
        """The last departure before a tensor of unknown numbers arrives on the way to the loss."""
        arrivals = [order for order, value in self.done.arrivals if value in self.upstream]
        departures = list(self._departures(values))
        before = [out for out in departures if any(out.order < order for order in arrivals)]
        if before:
            yield max(before, key=lambda out: out.order)
        elif departures and not self.reaches(values):
            near = [out for out in departures if out.op == "item" and out.inputs[0] in set(values)]
            yield from near[:1]

    def _departures(self, values: Iterable[Value]) -> Iterator[Operation]:
        stack = list(values)
        seen = set(stack)
        while stack:
            for operation in self.done.uses.get(stack.pop(), ()):
                if operation.leaves_graph and operation.op not in DETACHING:
                    yield operation
                fresh = [value for value in operation.outputs if value not in seen]
                stack.extend(fresh)
                seen.update(fresh)

    # --- terms of the loss that are mere numbers

    def dead_terms(self) -> Iterator[Cut]:
        """Terms that are added to the loss as mere numbers though they depend on parameters that learn."""
        sums = [operation for operation in self.additive if operation.op not in SCALING]
        terms = {value for operation in sums for value in operation.inputs}
        for value in terms:
            if value.requires_grad or value.size != 1:
                continue
            cut = self._lost_behind(value, terms) or self._recognised(value)
            if cut is not None:
                code, cut = self._judged(cut)
                yield Cut(code, spot_of(cut, code), cut, None, self.done.number, True)

    def _lost_behind(self, term: Value, terms: set[Value], limit: int = 500) -> Operation | None:
        """The first operation behind a term that lost the graph of a parameter which learns."""
        found, stack, seen = [], [term], {term}
        while stack and limit:
            maker, limit = stack.pop().maker, limit - 1
            if maker is None or maker.recorded:
                continue
            lost = [value for value in maker.inputs if value.requires_grad and value not in terms]
            if any(_learns(value) for value in lost):
                found.append(maker)
            fresh = [value for value in maker.inputs if value not in seen and not value.requires_grad]
            stack.extend(fresh)
            seen.update(fresh)
        return min(found, key=lambda operation: operation.order, default=None)

    def _recognised(self, value: Value) -> Operation | None:
        """The way out of a number that Python has scaled or summed since: `0.01 * penalty.item()`."""
        number = float(value.array.reshape(-1)[0]) if value.maker is None and value.array is not None else 0.0
        if not self.trace.departed_numbers or round(number, 3) == number:
            return None
        totals: dict[Spot, float] = {}
        for operation, left in self.trace.departed_numbers.items():
            totals[operation.spot] = totals.get(operation.spot, 0.0) + left
        for operation, left in self.trace.departed_numbers.items():
            if _is_multiple(number, left) or _is_multiple(number, totals[operation.spot]):
                return operation if operation.inputs[0].requires_grad else None
        return None

    # --- crashes that happen because a value has left the graph

    def crashed(self) -> Iterator[Cut]:
        """What a crash before backward says about it."""
        crash = self.trace.crash
        text = "" if crash is None else f"{type(crash.error).__name__}: {crash.error}".lower()
        if crash is None or crash.in_backward:
            return
        if "can't call numpy() on tensor that requires grad" in text:
            yield Cut("left-the-graph", crash.spot, None, None, self.done.number, True, True)
        elif "has no attribute 'backward'" in text:
            yield from self._last("left-the-graph", lambda op: op.leaves_graph and op.op not in DETACHING)
        elif "only tensors of floating point" in text and "require gradients" in text:
            yield from self._last("non-differentiable-op", lambda op: op.cuts and is_discrete(op))
        elif "inference tensor" in text:
            region = [op for op in self.done.operations if op.switched_off_by == "inference_mode" and op.cuts]
            yield from (self._fatal("no-grad-region", op) for op in region[:1])

    def _last(self, code: str, fits: Any) -> Iterator[Cut]:
        found = [op for op in self.done.operations if fits(op) and any(v.requires_grad for v in op.inputs)]
        yield from (self._fatal(code, operation) for operation in found[-1:])

    def _fatal(self, code: str, operation: Operation) -> Cut:
        return Cut(code, spot_of(operation, code), operation, None, self.done.number, True, True)


def _is_flat(flow: Flow) -> bool:
    """Whether a step function has turned a gradient into zeros."""
    return flow.operation is not None and flow.op in STEPS and flow.incoming > 0 and flow.outgoing == 0


def _is_held_frozen(value: Value) -> bool:
    return value.parameter is not None and not value.requires_grad and bool(value.parameter.optimizers)


def _is_linear(operation: Operation) -> bool:
    if operation.op in SCALING:
        return sum(value.requires_grad for value in operation.inputs) <= 1
    return operation.op in LINEAR


def is_discrete(operation: Operation) -> bool:
    """Whether an operation has no derivative, in whatever mode: argmax, a comparison, a cast to integers."""
    if not operation.output.floating:
        return True
    row = operation.primitive
    return row is not None and row.pullback is None and bool(row.rules) and all(rule is None for rule in row.rules)


def _is_multiple(number: float, of: float) -> bool:
    """Whether a number is a short decimal times another."""
    ratio = number / of if of else 0.0
    return ratio != 0 and abs(float(f"{ratio:.2g}") - ratio) < 1e-6 * abs(ratio)


def _learns(value: Value, limit: int = 500) -> bool:
    """Whether a value depends on a parameter that an optimizer holds."""
    stack, seen = [value], {value}
    while stack and limit:
        value, limit = stack.pop(), limit - 1
        if value.parameter is not None and value.parameter.optimizers:
            return True
        fresh = [each for each in (value.maker.inputs if value.maker is not None else ()) if each not in seen]
        stack.extend(fresh)
        seen.update(fresh)
    return False


def spot_of(operation: Operation, code: str) -> Spot:
    """The line to report: of an operation under no_grad, the one inside the block itself."""
    if code != "no-grad-region":
        return operation.spot
    if operation.within is not None and not _left_on(operation):
        return Spot.of(operation.within)
    call = operation.module
    while call is not None and call.parent is not None:
        call = call.parent
    return operation.spot if call is None else call.spot


def _left_on(operation: Operation) -> bool:
    """Whether gradients were switched off by a statement, for all that follows, and not for a block."""
    source = "" if operation.entered is None else operation.entered.source
    return operation.switched_off_by == "set_grad_enabled" and not source.startswith(("with", "async"))


class Ledger:
    """What the passes of one run told about gradients that are missing."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.cuts: list[Cut] = []
        self.connected: set[Parameter] = set()  # took part in the loss of some pass

    def see(self, done: Pass, trace: Trace) -> None:
        """Search a pass, once."""
        if done.number in self.seen:
            return
        self.seen.add(done.number)
        search = Search(done, trace)
        reached = frozenset() if done.backward is None else done.backward.reached
        for parameter, values in search.starts().items():
            if parameter in reached and any(parameter.gradient_norms) and not search.fatal:
                self.connected.add(parameter)
                continue
            if search.reaches(values):
                self.connected.add(parameter)
            if done.backward is not None:
                self.cuts.extend(search.cuts(parameter, values))
        self.cuts.extend(search.dead_terms())
        self.cuts.extend(search.crashed())

    # --- when the run is over

    def losses(self, trace: Trace, code: str) -> list[Loss]:
        """The places to blame under one code, each with the parameters that lose their gradient there."""
        found: dict[Any, Loss] = {}
        for cut in sorted(self._chosen(trace), key=lambda cut: (cut.number, cut.order)):
            entered = cut.operation.entered if cut.operation is not None else None
            key = entered if cut.code == "no-grad-region" and entered is not None else cut.spot
            loss = found.setdefault((cut.code, key), Loss(cut))
            if cut.parameter is not None and cut.parameter not in loss.parameters:
                loss.parameters.append(cut.parameter)
        return [loss for loss in found.values() if loss.cut.code == code]

    def _chosen(self, trace: Trace) -> Iterator[Cut]:
        silent = self.silent(trace)
        yield from (cut for cut in self.cuts if cut.parameter is None)
        yield from self._fatal_ones()
        for parameter in silent:
            cuts = [cut for cut in self.cuts if cut.parameter is parameter and not cut.fatal]
            if parameter.reached:  # zeros came: only a step function makes them of a gradient
                cuts = [cut for cut in cuts if cut.operation is not None and cut.operation.op in STEPS]
            relevant = [cut for cut in cuts if serves(cut, trace)] or cuts
            if relevant:
                yield min(relevant, key=lambda cut: (not cut.hopeless, cut.number, cut.order))

    def _fatal_ones(self) -> list[Cut]:
        fatal = [cut for cut in self.cuts if cut.fatal and cut.parameter is not None]
        fatal = [cut for cut in fatal if cut.parameter.optimizers] or fatal  # type: ignore[union-attr]
        return [cut for cut in fatal if cut.hopeless]  # else it is right, and what joins later should have learned

    def silent(self, trace: Trace) -> list[Parameter]:
        """The parameters that should learn and never got a gradient, or only zeros."""
        given = set(trace.asked_for).union(*(update.with_gradient for update in trace.updates))
        given.update(*(each.old for each in stale(trace)))
        return [
            parameter
            for parameter in learners(trace)
            if not is_frozen(parameter)
            and (not any(parameter.gradient_norms) if parameter.reached else parameter not in given)
        ]


LEDGERS: weakref.WeakKeyDictionary[Trace, Ledger] = weakref.WeakKeyDictionary()


def ledger_of(trace: Trace) -> Ledger:
    """The ledger that all rules about one run share."""
    return LEDGERS.setdefault(trace, Ledger())


def learners(trace: Trace) -> list[Parameter]:
    """The parameters that should learn: an optimizer holds them, or there is none and they want gradients."""
    if not trace.optimizers:
        by_hand = set().union(*(update.changed - update.with_gradient for update in trace.updates))
        return [parameter for parameter in trace.parameters.values() if parameter not in by_hand]
    stepping = any(info.steps for info in trace.optimizers)
    held = [parameter for parameter in trace.parameters.values() if parameter.optimizers]
    return [parameter for parameter in held if not stepping or any(info.steps for info in parameter.optimizers)]


def is_frozen(parameter: Parameter) -> bool:
    """Whether a parameter wants no gradient now."""
    tensor = parameter.tensor()
    return tensor is not None and tensor.node is None


def serves(cut: Cut, trace: Trace) -> bool:
    """Whether the pass of a cut was meant for its parameter: a step that would use its gradient follows.

    The discriminator's pass of a GAN rightly cuts the generator off: the generator's step follows another pass.
    """
    after, holders = False, [] if cut.parameter is None else cut.parameter.optimizers
    for event in trace.loop:
        if isinstance(event, Backward) and event.number == cut.number:
            after = True
        elif after and isinstance(event, Cleared) and cut.parameter in event.parameters:
            return False
        elif after and isinstance(event, Update) and event.optimizer in holders:
            return True
    return after


class CutRule:
    """What the rules about cuts have in common; a rule adds its code, its words and its examples."""

    code: str

    def look(self, done: Pass, trace: Trace) -> None:
        ledger_of(trace).see(done, trace)

    def findings(self, trace: Trace) -> Iterable[Finding]:
        for loss in ledger_of(trace).losses(trace, self.code):
            yield Finding(
                self.code, loss.cut.spot, self.message(loss), evidence(loss, trace), self.fix(loss),
                related=tuple(self.related(loss)), since=loss.cut.number,
            )  # fmt: skip

    def message(self, loss: Loss) -> str:
        raise NotImplementedError

    def fix(self, loss: Loss) -> str:
        raise NotImplementedError

    def related(self, loss: Loss) -> Iterator[Related]:
        yield from ()


# --- words


def evidence(loss: Loss, trace: Trace) -> str:
    """Who got no gradient, and how often that was seen."""
    passes = len(trace.backwards)
    if loss.cut.parameter is None and not loss.cut.fatal:
        return "this term of the loss is a number: it changes no gradient"
    if loss.cut.fatal:
        who = f": {listed(loss.parameters)} can get none" if loss.parameters else ""
        return f"the loss depends on no tensor that wants a gradient{who}"
    times = "the backward pass" if passes == 1 else f"{passes} backward passes"
    kind = "only zeros as gradient" if loss.parameters[0].reached else "no gradient"
    held = len(learners(trace))
    return f"{len(loss.parameters)} of {held} parameters got {kind} in {times}: {listed(loss.parameters)}"


def listed(parameters: list[Parameter], most: int = 4) -> str:
    """The names of parameters, the first few."""
    names = [parameter.name for parameter in parameters[:most]]
    more = len(parameters) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def owner(loss: Loss) -> str:
    """Whose gradient is lost, for a sentence."""
    parameters = loss.parameters
    if not parameters:
        return "this part of the loss"
    return parameters[0].name if len(parameters) == 1 else f"{parameters[0].name} and {len(parameters) - 1} more"


def related_to(place: Place | None, role: str) -> Iterator[Related]:
    """Another place that belongs to a finding, if it is known."""
    if place is not None:
        yield Related(Spot.of(place), role)
