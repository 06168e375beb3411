"""Where a gradient is lost: values are followed forward from a parameter, operation by operation, to the loss.

A pass is searched while its values are there. What was found is kept by the ledger (ledger.py).
"""

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from pellucid.diagnose.events import Flow, Operation, Parameter, Pass, Value
from pellucid.diagnose.finding import Spot
from pellucid.diagnose.trace import Trace
from pellucid.diagnose.values import statement_on

DETACHING = frozenset(("detach", "detach_", "data"))
WRAPPING = DETACHING | {"Variable", "Parameter"}  # what was cut off stays the tensor it is
# Functions whose slope is zero wherever they have one.
STEPS = frozenset(
    ("round", "round_decimals", "floor", "ceil", "trunc", "div_floor", "div_trunc", "sign", "sgn", "drawn_bernoulli",
     "drawn_normal")
)  # fmt: skip
# Operations that only add up, arrange or scale what goes in.
LINEAR = frozenset(
    ("add", "sub", "rsub", "rsub_number", "neg", "sum", "sum_all", "mean", "mean_all", "stack", "cat", "reshape",
     "select", "slice", "index", "unbind", "squeeze0", "squeeze1", "squeeze2", "unsqueeze", "expand", "cast", "clone")
)  # fmt: skip
SCALING = frozenset(("mul", "div"))
# Methods that store what they are given.
KEEPING = frozenset(("append", "extend", "add", "insert", "put", "update", "setdefault"))
DRAWS = frozenset(("sample", "multinomial", "poisson", "drawn_bernoulli", "drawn_normal"))
# What becomes of a value that was cut off, the likeliest slip first.
FEEDS, MEETS, CHOOSES = range(3)


@dataclass(slots=True, eq=False)
class Cut:
    """A place where the value of a parameter goes on and its gradient does not come back."""

    code: str
    spot: Spot
    operation: Operation | None  # None: it raised before it was one
    parameter: Parameter | None  # None: a whole term of the loss is cut off
    number: int  # of the pass
    hopeless: bool = False  # nothing that wants a gradient, or should, joins the value on its way to the loss
    fate: int = MEETS  # FEEDS: layers that learn take it in; MEETS: only the loss does; CHOOSES: it picked data
    fatal: bool = False  # the loss wants no gradient at all: backward() refused
    blocked: bool = False  # another cut lies on every way from here to the loss: mending this one would not help
    guessed: bool = False  # a number went out to Python, and nothing that came back is known to be made of it
    heir: Parameter | None = None  # the leaf that the value goes on as: a copy that is trained in its place

    @property
    def order(self) -> int:
        return 0 if self.operation is None else self.operation.order

    @property
    def likelihood(self) -> tuple[bool, bool, bool, int, int, int]:
        """What to compare the cuts of one parameter by: the smallest is to blame.

        A network that acts under no_grad and then learns from what it did is run twice: the path to the loss is the
        second run. Targets and old log-probabilities meet the loss only, features go on into layers that learn.
        """
        return self.fate == CHOOSES, self.blocked, not self.hopeless, self.fate, self.number, self.order


class Search:
    """One pass: its values, followed from its parameters to its loss."""

    def __init__(self, done: Pass, trace: Trace) -> None:
        self.done, self.trace = done, trace
        self.root = done.backward.root if done.backward is not None else None
        self.toward = done.toward_loss
        self.fatal = done.backward is not None and "does not require grad" in str(done.backward.error or "")
        self.additive = set(self._additive())
        self._outcomes: dict[Operation, tuple[bool, int]] = {}
        self._guessed: set[Operation] = set()
        self._blocked: dict[tuple[Operation, frozenset[Operation]], bool] = {}

    # --- what a search needs that has somebody to look for: in most passes every parameter gets its gradient

    @cached_property
    def upstream(self) -> set[Value]:
        """The values that had a part in the loss."""
        found = {value for operation in self.toward for value in operation.inputs}
        return found if self.root is None else found | {self.root}

    @cached_property
    def flat(self) -> set[Operation | None]:
        """The step functions that turned a gradient into zeros."""
        return {flow.operation for flow in self.done.flows if flow.op in STEPS and _is_flat(flow)}

    @cached_property
    def results(self) -> dict[Operation, list[Value]]:
        """What came of each operation, also by way of numbers."""
        found: dict[Operation, list[Value]] = {}
        for value in self.upstream:
            if value.maker is not None:
                found.setdefault(value.maker, []).append(value)
        return found

    # --- what every parameter met

    def starts(self) -> dict[Parameter, set[Value]]:
        """The parameters that operations of this pass took, as values."""
        found: dict[Parameter, set[Value]] = {}
        for value in self.done.leaves:
            found.setdefault(value.parameter, set()).add(value)  # type: ignore[arg-type]
        return found

    def cuts(self, parameter: Parameter, values: Iterable[Value]) -> Iterator[Cut]:
        """The first places on the ways from a parameter to the loss that let no gradient back."""
        found = list(self._first_cuts(values))
        if not found:
            found = list(self._detours(values))
        every = frozenset(found)
        for operation in dict.fromkeys(found):
            code, blamed = self._judged(operation)
            if operation not in self._outcomes:
                self._outcomes[operation] = self._is_hopeless(operation), self._fate(operation)
            hopeless, fate = self._outcomes[operation]
            blocked = len(every) > 1 and self._is_blocked(operation, every)
            yield Cut(
                code, spot_of(blamed, code), blamed, parameter, self.done.number, hopeless, fate, self.fatal, blocked,
                operation in self._guessed, self._heir(operation),
            )  # fmt: skip

    def _heir(self, operation: Operation) -> Parameter | None:
        """The leaf that a value became after a cut: `w.detach().clone().requires_grad_()`."""
        stack = list(self.results.get(operation, ()))
        seen = set(stack)
        while stack:
            value = stack.pop()
            tensor = self.done.begun.get(value, lambda: None)()
            if tensor is not None:
                return self.trace.parameter_of(tensor)
            for later in self.done.uses.get(value, ()):
                if len(later.inputs) == 1 and not later.recorded:
                    fresh = [each for each in self.results.get(later, ()) if each not in seen]
                    stack.extend(fresh)
                    seen.update(fresh)
        return None

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
        """Whether the value itself goes on beside its result: indices inside max(dim), a mask, moments for a norm."""
        if operation.leaves_graph or not is_discrete(operation):
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
        stack = list(self.results.get(operation, ()))
        seen = set(stack)
        while stack:
            for later in self.done.uses.get(stack.pop(), ()):
                if later not in self.toward or (later in self.additive and later.op not in SCALING):
                    continue
                if later.recorded or any(_is_held_frozen(value) for value in later.inputs):
                    return False
                fresh = [value for value in self.results.get(later, ()) if value not in seen]
                stack.extend(fresh)
                seen.update(fresh)
        return True

    def _is_blocked(self, operation: Operation, cuts: frozenset[Operation]) -> bool:
        """Whether every way from a cut to the loss leads through another one of these."""
        if (operation, cuts) not in self._blocked:
            stack = list(self.results.get(operation, ()))
            seen = set(stack)
            while stack:
                for later in self.done.uses.get(stack.pop(), ()):
                    if later in self.toward and later not in cuts:
                        fresh = [value for value in self.results.get(later, ()) if value not in seen]
                        stack.extend(fresh)
                        seen.update(fresh)
            self._blocked[operation, cuts] = bool(seen) and self.root not in seen
        return self._blocked[operation, cuts]

    def _fate(self, operation: Operation) -> int:
        """What becomes of a value that was cut off; a number that was drawn or compared is another value."""
        stack = list(self.results.get(operation, ()))
        seen, fate = set(stack), CHOOSES
        while stack:
            value = stack.pop()
            fate = MEETS if value is self.root else fate
            for later in self.done.uses.get(value, ()):
                if later not in self.toward or later.op in DRAWS or is_discrete(later):
                    continue
                if later.recorded:
                    fate = MEETS
                    if any(each.parameter is not None and each.requires_grad for each in later.inputs):
                        return FEEDS
                fresh = [each for each in self.results.get(later, ()) if each not in seen]
                stack.extend(fresh)
                seen.update(fresh)
        return fate

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
            numbers = [out for out in departures if out.op in ("item", "float") and not is_only_told(out.place.source)]
            last = max(self._strange_numbers(), default=0)
            guess = [out for out in numbers if out.order < last or _is_function_of(out.inputs[0], values)][-1:]
            self._guessed.update(guess)
            yield from guess

    def _strange_numbers(self) -> Iterator[int]:
        """When operations on the way to the loss took numbers that nobody would write into a program."""
        for operation in self.toward:
            for value in operation.inputs:
                fresh = value.maker is None and value.parameter is None and value.size == 1 and value.floating
                if fresh and value.array is not None and not _is_short(float(value.array.reshape(-1)[0])):
                    yield operation.order

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
                yield Cut(code, spot_of(cut, code), cut, None, self.done.number, hopeless=True)

    def _lost_behind(self, term: Value, terms: set[Value], limit: int = 500) -> Operation | None:
        """The first operation behind a term that lost the graph of a parameter which learns.

        A sample or a label made by argmax is data to whom it is given, and so is all it was chosen by: a cut elsewhere
        is the likelier slip.
        """
        found, stack, seen = [], [term], {term}
        drawn: set[Value] = set()  # what samples were drawn with, and choices made by
        while stack and limit:
            value, limit = stack.pop(), limit - 1
            maker = value.maker
            if maker is None or maker.recorded:
                continue
            if any(_is_held_frozen(value) for value in maker.inputs):
                return None  # its layer is frozen, or gradients would pass here
            lost = [value for value in maker.inputs if value.requires_grad]
            cancels = maker.op in DETACHING and lost and lost[0] in terms  # loss - loss.detach() is meant
            if not cancels and any(_learns(value) for value in lost):
                found.append(maker)
            fresh = [each for each in maker.inputs if each not in seen and not each.requires_grad]
            if maker.op in DRAWS or is_discrete(maker) or value in drawn:
                drawn.update((*fresh, *maker.inputs))
            stack.extend(fresh)
            seen.update(fresh)
        return min(found, key=lambda op: (is_discrete(op) or not drawn.isdisjoint(op.outputs), op.order), default=None)

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
            yield Cut("left-the-graph", crash.spot, None, None, self.done.number, hopeless=True, fatal=True)
        elif "has no attribute 'backward'" in text:
            yield from self._last("left-the-graph", lambda op: op.leaves_graph and op.op not in DETACHING)
        elif "only tensors of floating point" in text and "require gradients" in text:
            yield from self._last("non-differentiable-op", lambda op: op.cuts and is_discrete(op))
        elif "inference tensor" in text:
            region = [op for op in self.done.operations if op.switched_off_by == "inference_mode" and op.cuts]
            yield from (self._fatal("no-grad-region", op) for op in region[:1])

    def _last(self, code: str, fits: Callable[[Operation], bool]) -> Iterator[Cut]:
        found = [op for op in self.done.operations if fits(op) and any(v.requires_grad for v in op.inputs)]
        yield from (self._fatal(code, operation) for operation in found[-1:])

    def _fatal(self, code: str, operation: Operation) -> Cut:
        return Cut(code, spot_of(operation, code), operation, None, self.done.number, hopeless=True, fatal=True)


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
    if operation.outputs and not operation.output.floating:
        return True
    row = operation.primitive
    return row is not None and row.pullback is None and bool(row.rules) and all(rule is None for rule in row.rules)


def is_only_told(line: str) -> bool:
    """Whether a statement gives its numbers to a reader and not to the program: print, a logger, a progress bar.

    >>> [is_only_told(line) for line in ("print(step, s.item())", "s = scale.item()", "kept.append(s.item())")]
    [True, False, False]
    """
    statement = statement_on(line)
    call = statement.value if isinstance(statement, ast.Expr) else None
    keeps = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in KEEPING
    return call is not None and not keeps


def _is_multiple(number: float, of: float) -> bool:
    """Whether a number is a short decimal times another."""
    ratio = number / of if of else 0.0
    return ratio != 0 and abs(float(f"{ratio:.2g}") - ratio) < 1e-6 * abs(ratio)


def _is_short(number: float) -> bool:
    """Whether a number has few digits, as those that people write."""
    return abs(float(f"{number:.4g}") - number) <= 1e-7 * abs(number)


def _is_function_of(value: Value, parameter: Iterable[Value]) -> bool:
    """Whether a value was computed from a parameter and nothing else."""
    sources = set(parameter)
    while value not in sources:
        if value.maker is None or len(value.maker.inputs) != 1:
            return False
        value = value.maker.inputs[0]
    return True


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
    return operation.spot


def _left_on(operation: Operation) -> bool:
    """Whether gradients were switched off by a statement, for all that follows, and not for a block."""
    source = "" if operation.entered is None else operation.entered.source
    return operation.switched_off_by == "set_grad_enabled" and not source.startswith(("with", "async"))
