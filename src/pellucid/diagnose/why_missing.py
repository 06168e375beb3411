"""Why a tensor has no gradient at all: never used, cut off (on which line?), frozen, no leaf, cleared, no backward.

A value that was cut off carries no graph. The ledger of core/departures.py connects it to the parameter: every cut
knows the leaves it left behind, and every cut value that took part in a graph again left a note.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pellucid.core import aliasing
from pellucid.core.attributes import retains_grad_of
from pellucid.core.backward import oldest_first
from pellucid.core.departures import CLEARINGS, DEPARTURES, JOINS, REGIONS, RUNS, cuts_of, leaves_of
from pellucid.core.modes import Mode, Region
from pellucid.core.provenance import Place
from pellucid.core.tensor import ACCUMULATE, Cut, Freed, Leaf, Node, Tensor
from pellucid.diagnose.edges import Passage
from pellucid.diagnose.finding import Finding, Related, Spot
from pellucid.diagnose.naming import expression, plural, short
from pellucid.nn.modules.calls import CALLS

__all__ = ["Case", "cleared_since", "missing"]

ANY_SIZE = 1_000_000  # nodes: somebody asked, so a walk may take its time


@dataclass
class Case:
    """The question: a tensor, the loss it should matter to, and who asks."""

    tensor: Tensor
    node: Node | None
    name: str
    loss: Tensor | None
    root: Node | None  # of the loss, or of the latest backward
    asked_at: Place
    passage: Passage | None = None

    @property
    def made_at(self) -> Spot:
        """Where the tensor was made (or else: where the question was asked)."""
        return Spot.of(self.asked_at if self.node is None else self.node.place)

    @property
    def retains(self) -> bool:
        return retains_grad_of(self.tensor)

    @cached_property
    def graph(self) -> list[Node]:
        """Every node the loss was computed from."""
        return [] if self.root is None else oldest_first([self.root])

    @property
    def connected(self) -> bool:
        return self.node in self.graph

    @cached_property
    def leaves(self) -> set[int]:
        """The leaves behind this tensor; a leaf is its own."""
        return set() if self.node is None else set(leaves_of(self.node, ANY_SIZE) or ())

    @property
    def horizon(self) -> int:
        """What happened later than this has nothing to do with the missing gradient."""
        return RUNS[-1][2] if self.loss is None and RUNS else aliasing.tick()

    @property
    def zeroed(self) -> bool:
        """Whether the gradient was filled with zeros after the latest backward."""
        write = None if self.tensor._grad is None else aliasing.write_to(self.tensor._grad.array)
        return write is not None and write.operation.startswith("zero") and bool(RUNS) and write.tick > RUNS[-1][2]

    @property
    def nothing(self) -> str:
        return f"{self.name}.grad is None"


def missing(case: Case) -> Finding:
    """The reason why there is no gradient."""
    if case.node is None:
        return without_graph(case)
    if not isinstance(case.node, Leaf) and not case.retains:
        return not_a_leaf(case)
    found = cleared_since(case)
    if found is not None and (case.node.born in RUNS[-1][3] or the_cut(case) is None):
        return found
    if case.connected and case.loss is not None:
        return backward_not_run(case)
    if case.loss is None and not any(tick > case.node.born for _, _, tick, _ in list(RUNS)):
        return backward_not_run(case)
    cut = the_cut(case)
    return unused(case) if cut is None else cut_off(case, *cut)


def _was_filled(case: Case) -> bool:
    return case.node is not None and any(case.node.born in filled for _, _, _, filled in list(RUNS))


# --- the tensor asks for no gradient


def without_graph(case: Case) -> Finding:
    """The tensor itself requires no gradient: frozen, or a value that was cut off."""
    cut = case.tensor.cut
    if cut is None or cut.frozen:
        return frozen(case, cut)
    if isinstance(cut, Mode):
        crossings = cuts_of(cut.region) if cut.region is not None else []
        place = crossings[0].entered if crossings else cut.entered or case.asked_at
        return cut_off(case, Cut(cut.by, place), cut)
    return cut_off(case, cut, None)


def frozen(case: Case, cut: Cut | None) -> Finding:
    """requires_grad is False."""
    if cut is None:
        since, spot = "it never asked for a gradient (requires_grad was not set)", Spot.of(case.asked_at)
    else:
        since, spot = f"it was switched off at {short(cut.entered)}", Spot.of(cut.entered)
    return Finding(
        "frozen-parameter",
        spot,
        f"{case.nothing} because {case.name}.requires_grad is False: {since}",
        f"{case.name}.requires_grad is False, {case.nothing}",
        f"{case.name}.requires_grad_(True) before computing the loss, if it is meant to learn",
    )


def not_a_leaf(case: Case) -> Finding:
    """Gradients flow through, but are kept for leaves only."""
    assert case.node is not None
    return Finding(
        "not-a-leaf",
        Spot.of(case.node.place),
        f"{case.nothing} because {case.name} is not a leaf: backward passes through it and keeps nothing",
        f"{case.name} was computed by {case.node.name()} at {short(case.node.place)}",
        f"{case.name}.retain_grad() before backward; or, if it is meant to be a parameter, make it with "
        "requires_grad_() as the last step (w = (torch.randn(3) * 0.1).requires_grad_())",
    )


# --- nothing happened, or it was undone


def backward_not_run(case: Case) -> Finding:
    """No backward has reached the tensor yet."""
    spot = Spot.of(case.root.place) if case.loss is not None and case.root is not None else case.made_at
    if case.connected and case.root is not None and type(case.root.saved) is Freed:
        message = f"{case.nothing} although the loss depends on it: that backward was asked for other tensors only"
        return Finding(
            "backward-not-run", spot, message, "the graph was walked, and left this leaf out",
            "leave `inputs=` out of backward(), or add the tensor to it",
        )  # fmt: skip
    since = "no backward() has run since it was made" if case.loss is None else "the loss depends on it"
    return Finding(
        "backward-not-run",
        spot,
        f"{case.nothing} because backward() has not run yet",
        since,
        "call loss.backward() before you look at .grad (torch.autograd.grad returns gradients and fills no .grad)",
    )


def cleared_since(case: Case) -> Finding | None:
    """A backward gave the tensor a gradient, and somebody took it away again."""
    if not _was_filled(case):
        return None
    filled = max(tick for _, _, tick, leaves in list(RUNS) if case.node is not None and case.node.born in leaves)
    later = [
        (how, Place(code, lasti))
        for owner, code, lasti, tick, how in list(CLEARINGS)
        if tick > filled and _covers(owner(), case.tensor)
    ]
    write = None if case.tensor._grad is None else aliasing.write_to(case.tensor._grad.array)
    if later:
        how, place = later[0]
    elif write is not None and write.place is not None and write.tick > filled:
        how, place = f"{write.operation}()", write.place
    else:
        how, place = "", case.asked_at
    state = case.nothing if case.tensor._grad is None else f"{case.name}.grad is zero"
    by = f"by {how} at {short(place)}" if how else "on a line that is not known"
    return Finding(
        "gradient-cleared",
        Spot.of(place),
        f"{state} because the gradient that backward() gave it was cleared since, {by}",
        "a backward() did fill it",
        "look at the gradient (and step the optimizer) after backward() and before zero_grad()",
    )


def _covers(owner: Any, tensor: Tensor) -> bool:
    """Whether a clearing of this tensor, optimizer or module concerns the tensor."""
    if owner is None or owner is tensor:
        return owner is tensor
    groups = getattr(owner, "param_groups", None)
    held: Iterable[Any] = owner.parameters() if groups is None and hasattr(owner, "parameters") else ()
    if groups is not None:
        held = (p for group in groups for p in group["params"])
    return any(each is tensor for each in held)


def unused(case: Case) -> Finding:
    """No path and no cut: it never took part."""
    assert case.node is not None
    root = f" (computed at {short(case.root.place)})" if case.root is not None else ""
    return Finding(
        "unused-parameter",
        case.made_at,
        f"{case.nothing} because {case.name} never took part in the loss{root}",
        f"no path leads from the loss back to {case.name}, and nothing computed from it was cut off on the way",
        "use it in forward(), or remove it",
    )


# --- the path was cut

Candidate = tuple[Cut, Region | None]


def the_cut(case: Case) -> tuple[Cut, Any] | None:
    """The cut that keeps the gradient away: one whose value reached the loss, else the latest that can be it."""
    found = list(departures(case)) or list(long_regions(case))
    candidates = [each for each in found if each[0].born < case.horizon]
    reached = _that_reached(case, candidates)
    rest = [each for each in candidates if not _can_be_followed(case, each)]
    for group in (reached, rest):
        strict = [each for each in group if code_of(*each) != "non-differentiable-op"]
        if strict or group:
            return _first_of_region(max(strict or group, key=lambda each: each[0].born), group)
    return None


def departures(case: Case) -> Iterator[Candidate]:
    """Every known cut behind which this tensor stayed."""
    for cut in list(DEPARTURES):
        if _left_behind(case, cut):
            yield cut, None
    for region in list(REGIONS):
        for cut in cuts_of(region):
            if _left_behind(case, cut):
                yield cut, region


def long_regions(case: Case) -> Iterator[Candidate]:
    """no_grad blocks of which only the beginning was noted, and in which the module of this tensor ran later on."""
    calls = [(module(), start) for module, start, _ in list(CALLS)]
    own = [start for module, start in calls if module is not None and _holds(module, case.tensor)]
    for region in list(REGIONS):
        if not region.open and any(start > region.crossings[-1][3] for start in own):
            yield cuts_of(region)[0], region


def _holds(module: Any, tensor: Tensor) -> bool:
    return any(each is tensor for each in module._parameters.values())


def _left_behind(case: Case, cut: Cut) -> bool:
    assert case.node is not None
    origin = None if cut.origin is None else cut.origin()
    further = () if origin is None else leaves_of(origin, ANY_SIZE) or ()
    if case.leaves.issubset((*cut.leaves, *further)):
        return isinstance(case.node, Leaf) or cut.behind >= case.node.born
    return cut.origin is not None and origin is None and _rebuilt_since(cut)


def _rebuilt_since(cut: Cut) -> bool:
    """A number left a graph too large to look through, and the backward after it reached nothing older than that."""
    if not RUNS:
        return False
    _, root, tick, filled = RUNS[-1]
    before = RUNS[-2][2] if len(RUNS) > 1 else 0
    return root != cut.behind and before < cut.born < tick and all(leaf > cut.born for leaf in filled)


def _that_reached(case: Case, candidates: list[Candidate]) -> list[Candidate]:
    """The cuts whose value, or what was computed from it, took part in the loss."""
    born = np.array([node.born for node in case.graph])
    marks = {id(mark) for mark, tick in list(JOINS) if ((born > tick) & (born <= tick + 8)).any()}
    whole = None if case.loss is None else case.loss.cut
    marks.add(id(whole.region if isinstance(whole, Mode) else whole))
    return [(cut, region) for cut, region in candidates if id(cut if region is None else region) in marks]


def _can_be_followed(case: Case, candidate: Candidate) -> bool:
    """Whether the ledger would know it if this value had come back: then it has not."""
    cut, region = candidate
    complete = not JOINS or len(JOINS) < (JOINS.maxlen or 0) or JOINS[0][1] < cut.born
    written = any(write.place == cut.entered for write in list(aliasing.WRITES.values()))  # buffer[i] = h.detach()
    return bool(case.graph) and complete and not written and (region is not None or cut.by not in TO_PYTHON)


def _first_of_region(chosen: Candidate, group: list[Candidate]) -> Candidate:
    """Of a no_grad block: the first operation in it on the path."""
    if chosen[1] is None:
        return chosen
    return min((each for each in group if each[1] is chosen[1]), key=lambda each: each[0].born)


TO_PYTHON = frozenset(("item", "numpy", "tolist", "float()", "int()", "complex()", "index()"))  # nobody sees it there
REBUILT = frozenset(("tensor", "Parameter", "Buffer"))
DETACHED = frozenset(("detach", "detach_", "data"))


def code_of(cut: Cut, region: Any) -> str:
    """The code of a cut."""
    if region is not None:
        return "no-grad-region"
    if cut.by in DETACHED:
        return "detached"
    return "left-the-graph" if cut.by in REBUILT or cut.by in TO_PYTHON else "non-differentiable-op"


HOW = {
    "detach": "detach()", "detach_": "detach_()", "data": ".data", "item": "item()", "numpy": "numpy()",
    "tolist": "tolist()", "Parameter": "building a new Parameter(...) from it",
    "tensor": "building a new tensor(...) from it", "cast": "a cast to a type without gradient",
    "gt": "the comparison >", "lt": "the comparison <", "ge": "the comparison >=", "le": "the comparison <=",
    "eq": "the comparison ==", "ne": "the comparison !=",
}  # fmt: skip

FIX = {
    "detached": "use the tensor itself instead of a detached one on the way to the loss",
    "left-the-graph": "stay with tensors: torch.stack(list) instead of torch.tensor(list), tensor operations instead "
    "of NumPy's or Python's; item() is for logs",
    "no-grad-region": "compute what leads to the loss outside of no_grad / inference_mode",
    "non-differentiable-op": "compute the loss from the values before this operation, or replace it by a smooth one "
    "(softmax for argmax, sigmoid for a comparison)",
}


def cut_off(case: Case, cut: Cut, region: Any) -> Finding:
    """The finding that names the line of the cut."""
    code = code_of(cut, region)
    source = expression(cut.entered.code, cut.entered.lasti)
    what = f"`{source}`" if source else "the value"
    if code == "no-grad-region":
        how = "computed where gradients are switched off"
    else:
        how = f"cut off from the graph by {HOW.get(cut.by, cut.by)}"
    where = "on the way to the loss" if case.node is not None else "when it was made"
    return Finding(
        code,
        Spot.of(cut.entered),
        f"{case.nothing}: {what} at {short(cut.entered)} is {how} {where}",
        _cut_evidence(case, cut),
        FIX[code],
        related=_entered(region),
    )


def _cut_evidence(case: Case, cut: Cut) -> str:
    if case.node is None:
        source = f"; before the cut it came from {cut.source}" if cut.source else ""
        return f"{case.name} requires no gradient{source}"
    reached = len(RUNS[-1][3]) if RUNS and case.loss is None else None
    others = "" if reached is None else f"; that backward filled {plural(reached, 'other tensor')}"
    left = "the value" if cut.source in ("", ACCUMULATE.grad_name) else cut.source  # a leaf has no operation to name
    return f"{case.nothing}; {left} that was left behind depends on {case.name}{others}"


def _entered(region: Any) -> tuple[Related, ...]:
    entered = None if region is None else region.entered
    return () if entered is None else (Related(Spot.of(entered), "gradients were switched off here"),)
