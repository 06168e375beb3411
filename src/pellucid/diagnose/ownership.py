"""Who owns and who trains a parameter: the modules it belongs to, and the optimizers that do or do not hold it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pellucid.core.provenance import Place
from pellucid.diagnose.events import Backward, Operation, OptimizerInfo, Parameter, Pass, Replaced, Update, Value
from pellucid.diagnose.finding import Spot
from pellucid.diagnose.trace import Trace
from pellucid.diagnose.values import names_along
from pellucid.nn.modules.container import ModuleDict, ModuleList


class Family:
    """The modules of a run, and whose child each of them is."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.owner: dict[Parameter, Any] = {}
        self.parent: dict[Any, Any] = {}
        for module in self._modules():
            for child in module._modules.values():
                if child is not None:
                    self.parent[child] = module
            for tensor in module._parameters.values():
                known = None if tensor is None else trace.parameters.get(id(tensor))
                if known is not None and known.tensor() is tensor:
                    self.owner[known] = module

    def _modules(self) -> Iterator[Any]:
        """Every module that is alive; copies were never made by a line, but they were called."""
        called = (model for reference in self.trace.models if (model := reference()) is not None)
        yield from dict.fromkeys([*self.trace.made_at, *(module for model in called for module in model.modules())])

    def within(self, module: Any) -> set[Parameter]:
        """The parameters of a module and of all modules inside it."""
        found = (self.trace.parameters.get(id(tensor)) for tensor in module.parameters())
        return {parameter for parameter in found if parameter is not None}

    def whole(self, parameter: Parameter, among: set[Parameter]) -> Any:
        """The largest module around a parameter all of whose parameters are among these; None: not even its own."""
        found, module = None, self.owner.get(parameter)
        while module is not None and self.within(module) <= among:
            found, module = module, self.parent.get(module)
        return found

    def ancestors(self, parameter: Parameter) -> Iterator[Any]:
        """The modules around a parameter, the innermost first."""
        module = self.owner.get(parameter)
        while module is not None:
            yield module
            module = self.parent.get(module)

    def siblings(self, module: Any) -> list[Any]:
        """The other modules of the same kind, with parameters of the same shapes, under the same parent."""
        parent = self.parent.get(module)
        others = [] if parent is None else [each for each in parent._modules.values() if each is not None]
        return [each for each in others if each is not module and _look(each) == _look(module)]

    def neighbours(self, module: Any) -> list[Any]:
        """The other modules in the same list or dictionary of modules."""
        parent = self.parent.get(module)
        if not isinstance(parent, (ModuleList, ModuleDict)):
            return []
        return [each for each in parent._modules.values() if each is not module]

    def spot(self, parameter: Parameter, among: set[Parameter]) -> tuple[Spot, Any]:
        """Where the largest such module was made (or the parameter itself), and that module."""
        module = self.whole(parameter, among)
        place = None if module is None else self.trace.created(module)
        if place is None:
            others = [each.route for each in self.trace.parameters.values() if each.reached and each not in among]
            return told_apart(parameter.created, parameter.route, others), module
        routes = self.trace.routes
        others = [route for each, route in routes.items() if any(p.reached for p in self.within(each) - among)]
        return told_apart(place, routes.get(module, ()), others), module


def told_apart(made: Place, route: Sequence[Place], others: Iterable[Sequence[Place]]) -> Spot:
    """The line to name for a thing that was made at a line of a function which made others, too: the call of it.

    Of the lines that led there, the outermost that is needed to tell it from the others, which are well; but not beyond
    the making of an object, whose `__init__` is the same for all of its class.
    """
    named = Spot.of(made)
    outward = _outward(made, route)
    left = [line for each in others if (line := _outward(made, each))]
    for depth, place in enumerate(outward):
        same = [each for each in left if len(each) > depth and Spot.of(each[depth]) == Spot.of(place)]
        if len(same) < len(left):
            named, left = Spot.of(place), same
        if place.code.co_name == "__init__":
            break
    return named


def _outward(made: Place, route: Sequence[Place]) -> Sequence[Place]:
    """The part of a route from the line on that made something."""
    spots = [Spot.of(place) for place in route]
    return route[spots.index(Spot.of(made)) :] if Spot.of(made) in spots else ()


def _look(module: Any) -> tuple[Any, ...]:
    return (type(module), *(tuple(tensor.shape) for tensor in module.parameters()))


class Attendance:
    """Which modules were called how in the passes that were looked at, and which leaves went into them as inputs."""

    def __init__(self) -> None:
        self.training: set[Any] = set()  # modules called in training mode
        self.evaluating: set[Any] = set()
        self.callers: dict[Any, Any] = {}  # the module that called each one
        self.inputs: set[Parameter] = set()  # leaves that models took as inputs

    def look(self, done: Pass) -> None:
        """Take down the calls of a pass that has a backward."""
        if done.backward is None:
            return
        for call in done.calls:
            if call.grad_mode:
                (self.training if call.training else self.evaluating).add(call.module)
            if call.parent is not None:
                self.callers.setdefault(call.module, call.parent.module)
            elif call.grad_mode:
                self.inputs.update(leaves_behind(call.inputs))


def leaves_behind(values: Iterable[Value], limit: int = 200) -> set[Parameter]:
    """The leaves that values were computed from, without passing through a module."""
    found: set[Parameter] = set()
    stack, seen = list(values), set(values)
    while stack and limit:
        value, limit = stack.pop(), limit - 1
        if value.parameter is not None and not value.parameter.is_module_parameter:
            found.add(value.parameter)
        maker: Operation | None = value.maker
        if maker is not None and maker.module is None:
            fresh = [each for each in maker.inputs if each not in seen]
            stack.extend(fresh)
            seen.update(fresh)
    return found


# --- parameters that get gradients and no steps


@dataclass(slots=True, eq=False)
class Stale:
    """An optimizer holds tensors that gave way to others, which it does not hold."""

    spot: Spot
    optimizer: OptimizerInfo
    old: set[Parameter]
    new: set[Parameter]  # get gradients, and no step changes them
    name: str = ""  # of the attribute that was assigned anew, if it was one


def unheld(trace: Trace) -> list[Parameter]:
    """The parameters that got gradients, that no optimizer ever held, and that nobody changed by hand."""
    if not any(info.steps for info in trace.optimizers):
        return []
    by_hand = changed_by_hand(trace)
    return [
        parameter
        for parameter in trace.parameters.values()
        if parameter.reached and not parameter.optimizers
        and parameter not in by_hand and parameter not in trace.asked_for
    ]  # fmt: skip


def changed_by_hand(trace: Trace) -> set[Parameter]:
    """The parameters that somebody trains without an optimizer: written to with a gradient, or again and again."""
    writes = [update for update in trace.updates if update.optimizer is None]
    with_gradient = {parameter for update in writes for parameter in update.changed & update.with_gradient}
    counts = Counter(parameter for update in writes for parameter in update.changed)
    return with_gradient | {parameter for parameter, count in counts.items() if count > 2}


def held_for_a_twin(trace: Trace) -> set[Parameter]:
    """What an optimizer holds in place of what it should: none of it gets gradients, a twin of the same shapes does.

    So it is when the optimizer is given the target network instead of the one that learns.
    """
    learning = Counter(parameter.shape for parameter in unheld(trace))
    mistaken = (
        info.parameters
        for info in trace.optimizers
        if info.steps and not any(parameter.reached for parameter in info.parameters)
        and Counter(parameter.shape for parameter in info.parameters) == learning
    )  # fmt: skip
    return {parameter for held in mistaken for parameter in held}


def stepped_beside(trace: Trace) -> set[Parameter]:
    """The parameters that got a gradient together with others, of the same loss, which a step then changed."""
    found: set[Parameter] = set()
    waiting: list[frozenset[Parameter]] = []
    for event in trace.loop:
        if isinstance(event, Backward):
            waiting.append(event.reached)
        elif isinstance(event, Update) and event.optimizer is not None:
            held = event.optimizer.parameters
            useless = not any(parameter.reached for parameter in held)
            found.update(*(reached for reached in waiting if useless or not reached.isdisjoint(held)))
            waiting.clear()
    return found


def idle_steps(parameter: Parameter, trace: Trace) -> Counter[OptimizerInfo]:
    """How often each optimizer stepped after a pass that gave this parameter a gradient, and nothing it holds."""
    found: Counter[OptimizerInfo] = Counter()
    reached: frozenset[Parameter] = frozenset()
    for event in trace.loop:
        if isinstance(event, Backward):
            reached = event.reached
        elif isinstance(event, Update) and event.optimizer is not None and parameter in reached:
            found[event.optimizer] += reached.isdisjoint(event.optimizer.parameters)
    return found


def stale(trace: Trace) -> list[Stale]:
    """What was replaced after an optimizer had taken hold of it."""
    waiting = {parameter for parameter in unheld(trace) if parameter.gradient_norms}
    found = list(_replaced(trace, waiting))
    for each in found:
        waiting -= each.new
    return [*found, *_made_anew(trace, waiting)]


def _replaced(trace: Trace, waiting: set[Parameter]) -> Iterator[Stale]:
    for event in trace.loop:
        if not isinstance(event, Replaced):
            continue
        new = waiting & event.new
        old = {q for q in event.old if q.optimizers and all(q.last_reached < p.last_reached for p in new)}
        if new and old:
            twins = {q.shape for q in old}
            again = {p for p in waiting if p.spot in {each.spot for each in new} and p.shape in twins}
            yield Stale(event.spot, next(iter(old)).optimizers[0], old, new | again, event.name)


def _made_anew(trace: Trace, waiting: set[Parameter]) -> Iterator[Stale]:
    """A whole model, or a plain tensor, that was made again under the same name."""
    family = Family(trace)
    for info in trace.optimizers:
        later = {p for p in waiting if p.born > info.born}
        pairs = [(p, q) for p in later for q in info.parameters if _succeeds(p, q)]
        groups: dict[Spot, Stale] = {}
        for p, q in pairs:
            spot = _remade_at(p, q, later, info, family)
            group = groups.setdefault(spot, Stale(spot, info, set(), set()))
            group.old.add(q)
            group.new.add(p)
        for group in groups.values():
            made = {p.spot for p in group.new}
            group.new.update(p for p in later if p.spot in made)
            waiting = waiting - group.new
            yield group


def _remade_at(
    new: Parameter, old: Parameter, later: set[Parameter], info: OptimizerInfo, family: Family
) -> Spot:  # fmt: skip
    """Where its whole module was made anew; of a module that was there before the optimizer, its own line.

    A function that makes the model is the same for the old one and the new one: the line that differs is meant.
    """
    spot, module = family.spot(new, later)
    if module is None:
        return _named_again(new, old)
    if any(each is module for each in info.keeps):
        return new.spot
    before = {place for each in family.ancestors(old) for place in family.trace.routes.get(each, ())}
    route = [Spot.of(place) for place in family.trace.routes.get(module, ()) if place not in before]
    outward = route[route.index(spot) :] if spot in route else route
    return outward[0] if outward else spot


def _named_again(new: Parameter, old: Parameter) -> Spot:
    """Where a plain tensor takes the name of the old one; a function may have made it, and others, too."""
    places = list(names_along(new.route))
    again = [place for place, name in places if name and name == old.name]
    return Spot.of((again or [place for place, _ in places] or [new.created])[0])


def _succeeds(new: Parameter, old: Parameter) -> bool:
    return new.shape == old.shape and old.last_reached < new.last_reached and _same_role(new, old)


def _same_role(new: Parameter, old: Parameter) -> bool:
    return new.is_module_parameter == old.is_module_parameter and not old.last_used > new.last_used
