"""Which parameters never got a gradient, and where they lost it: one ledger per trace, which several rules share.

The passes are searched one by one (lineage.py). When the run is over the ledger knows who is left without a gradient,
and which of the places where their values left the graph is to blame.
"""

import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pellucid.core.provenance import Place
from pellucid.diagnose.events import Backward, Cleared, Parameter, Pass, Update, Value
from pellucid.diagnose.finding import Finding, Related, Spot
from pellucid.diagnose.lineage import CHOOSES, STEPS, Cut, Search
from pellucid.diagnose.ownership import held_for_a_twin, stale
from pellucid.diagnose.trace import Trace

ENOUGH = 3  # steps that moved nothing


@dataclass(slots=True, eq=False)
class Loss:
    """One place to blame, and all parameters that lose their gradient there."""

    cut: Cut
    parameters: list[Parameter] = field(default_factory=list)


Origin = tuple[Place | None, tuple[int, ...]]  # the line that computed a value, and its shape


def _origin(value: Value) -> Origin:
    """What tells a value from others in the next pass, where nothing else is known of it."""
    return value.made_at if value.maker is None else value.maker.place, value.shape


class Ledger:
    """What the passes of one run told about gradients that are missing."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.cuts: list[Cut] = []
        self.connected: set[Parameter] = set()  # took part in the loss of some pass
        self.carried: dict[
            Origin, set[Parameter]
        ] = {}  # where the pass before computed a value of these, and cut it off

    def see(self, done: Pass, trace: Trace) -> None:
        """Search a pass, once."""
        if done.number in self.seen:
            return
        self.seen.add(done.number)
        search = Search(done, trace)
        reached = frozenset() if done.backward is None else done.backward.reached
        complete = done.backward is not None and (done.backward.error is None or search.fatal)
        starts, self.carried = self._starts(search, done), {}
        for parameter, values in starts.items():
            if parameter in reached and any(parameter.gradient_norms) and not search.fatal:
                self.connected.add(parameter)
                continue
            if search.reaches(values):
                self.connected.add(parameter)
            if complete and (parameter.optimizers or not trace.optimizers):
                self._note(search.cuts(parameter, values), parameter)
        self.cuts.extend(search.dead_terms())
        self.cuts.extend(search.crashed())

    def _starts(self, search: Search, done: Pass) -> dict[Parameter, set[Value]]:
        """The parameters of a pass, as values; and what the pass before made of others, if it is used again.

        Of a GAN the generator often runs in the pass of the discriminator, and its own pass begins with what it made.
        """
        starts = search.starts()
        old = [value for value in done.uses if value.born < done.number] if self.carried else ()
        for value in old:
            for parameter in self.carried.get(_origin(value), ()):
                starts.setdefault(parameter, set()).add(value)
        return starts

    def _note(self, cuts: Iterable[Cut], parameter: Parameter) -> None:
        for cut in cuts:
            self.cuts.append(cut)
            for value in () if cut.operation is None else cut.operation.inputs:
                if value.requires_grad:
                    self.carried.setdefault(_origin(value), set()).add(parameter)

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
        silent, only_asked = self.silent(trace), only_asked_for(trace)
        yield from (cut for cut in self.cuts if cut.parameter is None)
        yield from self._fatal_ones()
        for parameter in silent:
            cuts = [cut for cut in self.cuts_of(parameter) if not cut.fatal]
            if parameter.reached and parameter not in only_asked:  # zeros came: only a step function makes them
                cuts = [cut for cut in cuts if cut.operation is not None and cut.operation.op in STEPS]
            if not trace.optimizers:  # trained by hand: a copy that gets the gradients is trained in its place
                cuts = [cut for cut in cuts if cut.heir is None or _got_none(cut.heir, trace.asked_for)]
            relevant = [cut for cut in cuts if serves(cut, trace)] or cuts
            if relevant:
                yield min(relevant, key=lambda cut: cut.likelihood)
        for parameter in only_cleared(trace):
            own = [cut for cut in self.cuts_of(parameter) if not cut.fatal and serves(cut, trace)]
            if own:
                yield min(own, key=lambda cut: cut.likelihood)

    def cuts_of(self, parameter: Parameter) -> list[Cut]:
        """The places where the values of a parameter left the graph.

        Guesses count if they begin with the first pass: a number that the loss needs is taken before the first loss,
        one that is only logged is taken after it.
        """
        cuts = [cut for cut in self.cuts if cut.parameter is parameter]
        known = [cut for cut in cuts if not cut.guessed]
        return known or (cuts if any(cut.number == min(self.seen) for cut in cuts) else [])

    def _fatal_ones(self) -> list[Cut]:
        fatal = [cut for cut in self.cuts if cut.fatal and cut.parameter is not None]
        fatal = [cut for cut in fatal if cut.parameter.optimizers] or fatal  # type: ignore[union-attr]
        fatal = [cut for cut in fatal if cut.fate != CHOOSES] or fatal  # what picked data is not on the path
        return [cut for cut in fatal if cut.hopeless]  # else it is right, and what joins later should have learned

    def silent(self, trace: Trace) -> list[Parameter]:
        """The parameters that should learn and never got a gradient, or only zeros."""
        only_asked = only_asked_for(trace)
        given = (trace.asked_for - only_asked).union(*(update.with_gradient for update in trace.updates))
        given.update(held_for_a_twin(trace), *(each.old for each in stale(trace)))
        return [
            parameter
            for parameter in learners(trace)
            if not is_frozen(parameter) and (parameter in only_asked or _got_none(parameter, given))
        ]


def _got_none(parameter: Parameter, given: set[Parameter]) -> bool:
    return not any(parameter.gradient_norms) if parameter.reached else parameter not in given


def only_asked_for(trace: Trace) -> set[Parameter]:
    """The parameters whose gradients autograd.grad returned, while their optimizer never found one when it stepped.

    So it is in meta-learning when the adapted weights are cut off from those that they began with.
    """
    asked = {p for p in trace.asked_for if any(info.steps for info in p.optimizers)}
    reached = (event.reached for event in trace.backwards if not event.asked)
    return asked.difference(*(update.with_gradient | update.changed for update in trace.updates), *reached)


def only_cleared(trace: Trace) -> set[Parameter]:
    """The parameters that no step of their optimizer ever moved, though some loss gave them gradients.

    So it is in a GAN whose discriminator's loss reaches the generator, where its gradients are cleared, while the
    generator's own loss does not.
    """
    held = [p for p in trace.parameters.values() if p.optimizers and not is_frozen(p)]
    still = {p for p in held if any(p.gradient_norms)}
    stepped: Counter[Any] = Counter()
    for update in trace.updates:
        still -= update.changed
        if not still:  # so it mostly is after the first step
            return still
        stepped[update.optimizer] += bool(update.rate)
    return {p for p in still if any(stepped[info] >= ENOUGH for info in p.optimizers)}


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
    if not loss.parameters and not loss.cut.fatal:
        return "this term of the loss is a number: it changes no gradient"
    if loss.cut.fatal:
        who = f": {listed(loss.parameters)} can get none" if loss.parameters else ""
        return f"the loss depends on no tensor that wants a gradient{who}"
    times = "the backward pass" if passes == 1 else f"{passes} backward passes"
    first = loss.parameters[0]
    zeros = first.reached and first not in only_asked_for(trace)
    kind = "only zeros as gradient" if zeros else "no gradient"
    if zeros and any(first.gradient_norms):
        kind = "gradients of other losses alone, which were cleared before the step,"
    held = len(learners(trace))
    return f"{len(loss.parameters)} of {held} parameters got {kind} in {times}: {listed(loss.parameters)}"


def listed(parameters: list[Parameter], most: int = 4) -> str:
    """The names of parameters, the first few."""
    counts = Counter(parameter.name for parameter in parameters)  # layers in a plain list all have the list's name
    names = [name if count == 1 else f"{name} ({count} tensors)" for name, count in counts.items()]
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def owner(loss: Loss) -> str:
    """Whose gradient is lost, for a sentence."""
    parameters = loss.parameters
    if not parameters:
        return "what this part of the loss was computed from"
    return parameters[0].name if len(parameters) == 1 else f"{parameters[0].name} and {len(parameters) - 1} more"


def related_to(place: Place | None, role: str) -> Iterator[Related]:
    """Another place that belongs to a finding, if it is known."""
    if place is not None:
        yield Related(Spot.of(place), role)
