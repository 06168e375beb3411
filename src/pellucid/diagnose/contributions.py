"""A gradient taken apart: by the uses of a tensor, by the modules they stand in, by the terms of the loss.

One walk, newest node first, carries the gradient of every term of the loss separately (a backward is linear, so
their sum is the whole gradient). What each use sends to the tensor is kept; it is these that add up to the total.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from types import CodeType
from typing import Any

import numpy as np

from pellucid.core.backward import copied, leading_to, of_dtype, oldest_first
from pellucid.core.tensor import PICK, Bundle, Node, Tensor, wrap
from pellucid.diagnose.naming import Label
from pellucid.diagnose.paths import Edge, Edges
from pellucid.diagnose.pulling import Puller, added, is_one_number, norm, refuse_freed

__all__ = ["Contribution", "Flow", "contribution", "terms_of", "trace_flow"]

SEPARATE_TERMS = 12  # the walk costs one pull per term that reaches a node: beyond this, terms of one line go together
UNDIVIDED = -1  # the mark of the gradient on its way from the loss to its terms


@dataclass(frozen=True, slots=True)
class Contribution:
    """A part of a gradient.

    `share` is the part of the total that it makes up, measured along the total (negative: it works against it);
    the shares of all uses add to 1. `cosine` tells how far it points the same way. None where the total is zero.
    """

    label: Label
    count: int  # how many uses or terms are added up in it
    gradient: Tensor
    norm: float
    share: float | None
    cosine: float | None

    def as_json(self) -> dict[str, Any]:
        """The same as plain values, without the array."""
        return {
            **self.label.as_json(), "count": self.count,
            "norm": self.norm, "share": self.share, "cosine": self.cosine,
        }  # fmt: skip


def contribution(label: Label, parts: Sequence[Any], total: Any) -> Contribution:
    """Measure the sum of some gradients against the total."""
    part = copied(np.asarray(added(parts)))
    size, whole = norm(part), norm(total)
    share = cosine = None
    if 0 < whole < np.inf:
        along = float(np.vdot(np.asarray(total) / whole, part / size).real) if size else 0.0
        cosine = along if size else None
        share = along * (size / whole)
    return Contribution(label, len(parts), wrap(part), size, share, cosine)


@dataclass(slots=True)
class Flow:
    """What one walk from a result to one of its inputs saw."""

    puller: Puller
    seed: Any
    total: Any = None  # what arrives at the target
    scalar: bool = True  # whether every gradient on the way is a single real number
    arrived: dict[Node, Any] = field(default_factory=dict)  # nodes on the way, newest first; gradients while scalar
    edges: Edges = field(default_factory=dict)  # with gains as factors
    of_term: dict[int, Edges] = field(default_factory=dict)  # the same with the gains of one term's gradient alone
    uses: list[tuple[Node, int, Any]] = field(default_factory=list)  # what each use sends to the target
    by_term: dict[int, Any] = field(default_factory=dict)

    def note(self, node: Node, g: Any) -> None:
        """A gradient is complete. Only single numbers are kept: the others would be as large as all activations."""
        if type(g) is not Bundle and not is_one_number(g):
            self.scalar = False
        self.arrived[node] = g if self.scalar else None

    def derivatives(self) -> dict[Node, list[Edge]]:
        """The edges of scalars, with local derivatives; an operation with several results is stepped over."""
        found: dict[Node, list[Edge]] = {}
        for node, g in self.arrived.items():
            if type(g) is not Bundle and node in self.edges:
                sent = self.puller.local(node, np.ones_like(g))
                found[node] = [Edge(node, i, parent, float(np.asarray(d).item())) for i, parent, d in sent]
        return found

    def along(self, path: Iterable[Edge], x: Tensor) -> Any:
        """The part of the gradient of a tensor that came along one path."""
        g = self.seed
        for edge in path:
            ((_, _, g),) = self.puller.pull(edge.source, g, index=edge.index)
        return of_dtype(g, x)

    def by_term_edges(self, terms: dict[Node, int]) -> list[Edges]:
        """For each term the graph that its own gradient sees: from the result to the term, and on from there.

        What the terms do to one another where they meet again (one cancels in a normalisation, one does not) is in
        the gains of the whole gradient only, which would make the paths of the one look as strong as the other's.
        """
        common = self.of_term.pop(UNDIVIDED, {})
        return [
            {node: [*_within(common.get(node, ()), terms, mark), *own.get(node, ())] for node in self.edges}
            for mark, own in self.of_term.items()
        ]

    def settle(self, x: Tensor) -> None:
        """Give what arrived the dtype of its tensor, as backward does: the gradient of a real tensor is real."""
        self.total = of_dtype(self.total, x)
        self.uses = [(node, i, of_dtype(d, x)) for node, i, d in self.uses]
        self.by_term = {number: of_dtype(d, x) for number, d in self.by_term.items()}


def trace_flow(root: Node, seed: Any, target: Node, terms: dict[Node, int]) -> Flow:
    """Walk from the root to the target; `terms` are the nodes where the gradient is divided, with their numbers."""
    order = oldest_first([root])
    wanted = leading_to({target}, order)
    order = [node for node in reversed(order) if node in wanted]
    refuse_freed((node for node in order if node is not target), "explain")
    walk = _Walk(Flow(Puller(), seed), target, terms, wanted)
    walk.arriving[root] = {terms.get(root, UNDIVIDED): seed}
    for node in order:
        walk.visit(node)
    return walk.flow


@dataclass(slots=True)
class _Walk:
    flow: Flow
    target: Node
    terms: dict[Node, int]
    wanted: set[Node]
    arriving: dict[Node, dict[int, Any]] = field(default_factory=dict)  # per node, the gradient of each term

    def visit(self, node: Node) -> None:
        """A node whose gradient is complete sends it on."""
        parts = self.arriving.pop(node, None)
        if parts is None:  # a custom function in between returned no gradient
            return
        g = added(parts.values())
        self.flow.note(node, g)
        if node is self.target:
            self.flow.total, self.flow.by_term = g, parts
            return
        sent: dict[int, list[Any]] = {}
        for mark, part in parts.items():
            pulled = self.flow.puller.pull(node, part, self.wanted)
            for i, parent, d in pulled:
                sent.setdefault(i, []).append(d)
                self.hand(parent, mark, d)
            if self.terms:
                self.flow.of_term.setdefault(mark, {})[node] = _gains(node, pulled, norm(part))
        whole = [(i, node.inputs[i], added(gradients)) for i, gradients in sent.items()]
        self.flow.uses += [(node, i, d) for i, parent, d in whole if parent is self.target]
        self.flow.edges[node] = _gains(node, whole, norm(g))

    def hand(self, parent: Node, mark: int, d: Any) -> None:
        """Add a gradient to what arrives at a node under the number of its term, which may begin here."""
        number = self.terms.get(parent, mark) if mark == UNDIVIDED else mark
        there = self.arriving.setdefault(parent, {})
        there[number] = there[number] + d if number in there else d


def _within(ways: Iterable[Edge], terms: dict[Node, int], mark: int) -> list[Edge]:
    """The ways that do not lead into another term."""
    return [edge for edge in ways if terms.get(edge.target, mark) == mark]


def _gains(node: Node, sent: Iterable[tuple[int, Any, Any]], came: float) -> list[Edge]:
    """The ways to the inputs, each with its gain: the norm of what is sent over the norm of what came."""
    ways = []
    for i, parent, d in sent:
        going = came if node.primitive is PICK else norm(d)  # a pick only files what it gets
        ways.append(Edge(node, i, parent, going / came if came else 0.0))
    return ways


# --- the terms of a loss

ADDING = frozenset(("add", "sub", "rsub", "rsub_number", "neg", "clone"))
JOINING = frozenset(("stack", "cat"))
REDUCING = frozenset(("sum", "sum_all", "mean", "mean_all"))


def terms_of(root: Node, target: Node) -> list[list[Node]]:
    """The addends of a loss: looked for through sums, differences, constant factors, and a sum of a stack.

    Terms that one expression made (in a loop) are one group when there are many of them.
    """
    chain, terms, stack = {root}, [], [root]
    while stack:
        node = stack.pop()
        parents = [] if node is target else _addends(node)
        if not parents:
            terms.append(node)
        fresh = [parent for parent in dict.fromkeys(parents) if parent not in chain]
        chain.update(fresh)
        stack.extend(reversed(fresh))
    return [[node] for node in terms] if len(terms) <= SEPARATE_TERMS else _grouped(terms)


def _addends(node: Node) -> list[Node]:
    """The nodes whose results are added up (with constant factors) in this one; none: it is a term itself."""
    name, parents = node.primitive.name, [parent for parent in node.inputs if parent is not None]
    if name in ADDING or name in JOINING:
        return parents
    scaling = name == "mul" or (name == "div" and node.inputs[0] is not None)
    if scaling and len(parents) == 1 and prod(node.shape or (1,)) == 1:  # a loss times a constant, or over one
        return parents
    return parents if name in REDUCING and parents[0].primitive.name in JOINING else []


def _grouped(terms: Sequence[Node]) -> list[list[Node]]:
    """Terms of one expression together; if there are still too many, the last ones too."""
    groups: dict[tuple[str, CodeType, int], list[Node]] = {}
    for node in terms:
        groups.setdefault((node.place.filename, node.code, node.lasti), []).append(node)
    found = list(groups.values())
    rest = [node for group in found[SEPARATE_TERMS:] for node in group]
    return found[:SEPARATE_TERMS] + ([rest] if rest else [])
