"""Why a tensor has no gradient at all: never used, cut off (on which line?), frozen, no leaf, cleared, no backward.

A value that was cut off carries no graph. The ledger of core/departures.py connects it to the parameter: every cut
knows the leaves it left behind, and every cut value that took part in a graph again left a note.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pellucid.core import aliasing
from pellucid.core.attributes import retains_grad_of
from pellucid.core.backward import oldest_first
from pellucid.core.departures import CLEARINGS, DEPARTURES, JOINS, REGIONS, RUNS, cuts_of, leaves_of
from pellucid.core.modes import Mode, Region
from pellucid.core.primitive import as_written
from pellucid.core.provenance import Place
from pellucid.core.tensor import ACCUMULATE, Cut, Leaf, Node, Tensor
from pellucid.diagnose.edges import Passage, is_custom, is_freed, length
from pellucid.diagnose.finding import Finding, Related, Spot
from pellucid.diagnose.naming import expression, number, plural, short
from pellucid.nn.modules.calls import CALLS

__all__ = ["Case", "changed_since", "cleared_since", "missing"]

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

    def gate(self, lets_through: Callable[[Node], Sequence[Node | None]]) -> Node | None:
        """The operation that stops every path to the tensor, told which inputs each one lets a gradient through to."""
        if self.root is None or not self.connected:
            return None
        stack, seen, gates = [self.root], {self.root}, []
        while stack:
            node = stack.pop()
            if node is self.node:
                return None
            onward = lets_through(node)
            if len(onward) < len(node.inputs):
                gates.append(node)
            fresh = [parent for parent in onward if parent is not None and parent not in seen]
            seen.update(fresh)
            stack.extend(fresh)
        return next((node for node in gates if self.node in oldest_first([node])), None)


def missing(case: Case) -> Finding:
    """The reason why there is no gradient."""
    if case.node is None:
        return without_graph(case)
    if not isinstance(case.node, Leaf) and not case.retains:
        return not_a_leaf(case)
    if case.loss is not None and case.root is not None and case.connected and not is_freed(case.root):
        return returned_none(case) or backward_not_run(case)
    found = cleared_since(case)
    if found is not None and (case.node.born in RUNS[-1][3] or the_cut(case) is None):
        return found
    if case.connected:
        return returned_none(case) or backward_not_run(case)
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
    dtype = case.tensor.dtype
    learns = dtype.is_floating_point or dtype.is_complex
    return Finding(
        "frozen-parameter",
        spot,
        f"{case.nothing} because {case.name}.requires_grad is False: {since}",
        f"{case.name}.requires_grad is False, its dtype is {dtype}",
        f"{case.name}.requires_grad_(True) before computing the loss, if it is meant to learn"
        if learns
        else "only tensors of floating-point or complex dtype have gradients: x.float().requires_grad_()",
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
    if case.connected and case.root is not None and is_freed(case.root):
        message = f"{case.nothing} although the loss depends on it: that backward was asked for other tensors only"
        return Finding(
            "backward-not-run", spot, message, "the graph was walked, and left this leaf out",
            "leave `inputs=` out of backward(), or add the tensor to it",
        )  # fmt: skip
    return Finding(
        "backward-not-run",
        spot,
        f"{case.nothing} because backward() has not run yet",
        _to_come(case),
        "call loss.backward() before you look at .grad (torch.autograd.grad returns gradients and fills no .grad)",
    )


def returned_none(case: Case) -> Finding | None:
    """Every path to the tensor leads through a custom function, and no gradient came out of it."""
    node = case.gate(lambda node: () if is_custom(node) else node.inputs)
    if node is None or (case.loss is not None and case.passage is not None):
        return None
    name = node.primitive.name
    return Finding(
        "backward-returned-none",
        Spot.of(node.place),
        f"{case.nothing} because the backward of {name} at {short(node.place)} returns None in its place",
        f"every path from the loss to {case.name} leads through {name}, a custom autograd.Function",
        f"return a gradient for it from {name}.backward: one for each input of forward, in the same order",
    )


def _to_come(case: Case) -> str:
    """What is known of the gradient that a backward would give."""
    if case.loss is None:
        return "no backward() has run since it was made"
    if case.passage is None:
        return "the loss depends on it"
    return f"the loss depends on it: backward() will give it a gradient of norm {number(length(case.passage.arrived))}"


def changed_since(case: Case, values: np.ndarray) -> Finding | None:
    """The graph gives a good gradient and `.grad` holds another: a hook changed it on its way, or it was cleared."""
    if not values.any():
        found = cleared_since(case, known=True)
        if found is not None:
            return found
    hooks = [hook for node in case.graph if node.extra is not None for hook in _hooks_of(node)]
    if not hooks:
        return None
    code = getattr(hooks[0], "__code__", None)
    spot = case.made_at if code is None else Spot(code.co_filename, code.co_firstlineno)
    state = "is zero" if not values.any() else "is not what the graph gives"
    return Finding(
        "changed-by-hook",
        spot,
        f"{case.name}.grad {state}: without hooks backward() would give it a good gradient",
        f"{plural(len(hooks), 'hook')} between the loss and {case.name}; without hooks the gradient has norm "
        f"{number(length(case.passage.arrived)) if case.passage is not None else 'unknown'}",
        "look at what the hook returns: it takes the place of the gradient",
    )


def _hooks_of(node: Node) -> list[Any]:
    extra = node.extra
    groups = () if extra is None else (extra.on_gradient, extra.before, extra.after, extra.post_accumulate)
    return [hook for group in groups for hook in group.values()]


def cleared_since(case: Case, known: bool = False) -> Finding | None:
    """A backward gave the tensor a gradient, and somebody took it away again (`known`: on a line that is known)."""
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
    elif known:
        return None
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
    older = case.node.born < cut.born  # nothing depends on what was made later
    return older and cut.origin is not None and origin is None and _rebuilt_since(cut)


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


INDICES = frozenset(
    ("topk", "sort", "max", "min", "kthvalue", "median", "nanmedian", "mode", "cummax", "cummin", "max_pool")
)  # operations that give values and the places they come from


def drawn(cut: Cut) -> bool:
    """Whether the value was drawn by `distribution.sample()`, which works under no_grad."""
    return DRAWN.search(expression(cut.entered.code, cut.entered.lasti)) is not None


DRAWN = re.compile(r"\.sample(_n)?\([^()]*\)$")


def code_of(cut: Cut, region: Any) -> str:
    """The code of a cut."""
    if drawn(cut):
        return "non-differentiable-op"
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


OF_DRAWS = (
    "draw with rsample(), which lets the gradient through (Normal, Uniform, Gamma ...); where there is none, use "
    "log_prob(sample) times the reward as the loss, or F.gumbel_softmax"
)


def cut_off(case: Case, cut: Cut, region: Any) -> Finding:
    """The finding that names the line of the cut."""
    code = code_of(cut, region)
    source = expression(cut.entered.code, cut.entered.lasti)
    what = f"`{source}`" if source else "the value"
    if drawn(cut):
        how = "drawn at random, and a draw has no derivative,"
    elif code == "no-grad-region":
        how = "computed where gradients are switched off"
    else:
        by = f"the indices of {cut.by}" if cut.by in INDICES else HOW.get(cut.by, as_written(cut.by))
        how = f"cut off from the graph by {by}"
    where = "on the way to the loss" if case.node is not None else "when it was made"
    return Finding(
        code,
        Spot.of(cut.entered),
        f"{case.nothing}: {what} at {short(cut.entered)} is {how} {where}",
        _cut_evidence(case, cut),
        OF_DRAWS if drawn(cut) else FIX[code],
        related=() if drawn(cut) else _entered(region),
    )


def _cut_evidence(case: Case, cut: Cut) -> str:
    if case.node is None:
        source = f"; before the cut it came from {cut.source}" if cut.source else ""
        return f"{case.name} requires no gradient{source}"
    reached = len(RUNS[-1][3]) if RUNS and case.loss is None else None
    others = "" if reached is None else f"; that backward filled {plural(reached, 'other tensor')}"
    leaf = cut.source in ("", ACCUMULATE.grad_name)  # has no operation to name
    left = "the value" if leaf else f"the result of {cut.source}"
    text = f"{case.nothing}; {left} that was left behind depends on {case.name}{others}"
    if cut.by in TO_PYTHON:
        return f"{text}; if the number is only printed or logged, {case.name} never took part in the loss"
    return text


def _entered(region: Any) -> tuple[Related, ...]:
    entered = None if region is None else region.entered
    return () if entered is None else (Related(Spot.of(entered), "gradients were switched off here"),)
