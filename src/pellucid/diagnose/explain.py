"""A gradient as a sum of paths: `pellucid.explain(y, wrt=x)`.

By the chain rule ∂y/∂x is the sum, over every path from y back to x, of the product of the local derivatives along
it. For single numbers that sum is written out. For tensors it is taken apart by the uses of x, the modules they
stand in, the terms of the loss and the strongest paths. Nothing is freed, no `.grad` is touched, no hook is run.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from pellucid.core.backward import copied, no_graph, oldest_first, seeds_of
from pellucid.core.departures import DEPARTURES, REGIONS, cuts_of
from pellucid.core.kinds import Kind
from pellucid.core.provenance import getframe, here, outside
from pellucid.core.tensor import PICK, Node, Tensor, wrap
from pellucid.core.views import current_node
from pellucid.diagnose import render
from pellucid.diagnose.contributions import Contribution, Flow, contribution, terms_of, trace_flow
from pellucid.diagnose.naming import Label, Names, number, short
from pellucid.diagnose.paths import Edge, census, every_path, prune, strongest_of
from pellucid.diagnose.pulling import norm
from pellucid.errors import a_kind
from pellucid.errors import explain as message

__all__ = ["Explanation", "Path", "explain"]

MOST_STEPS = 1_000_000  # edges of all paths together that are worth listing


@dataclass(frozen=True, slots=True)
class Path:
    """One way from the result back to the tensor.

    `factors` are the local derivatives (for tensors the gains: norm of what an operation sends on / norm of what
    came in), `start` is the gradient that the result itself has. For scalars `value` is start times all factors.
    `part` is the exact part of the gradient that came along this path.
    """

    labels: tuple[Label, ...]  # the operations from the result to the one that uses the tensor
    factors: tuple[float, ...]
    start: float
    via: str  # what tells this path from the others
    value: float | None
    part: Contribution

    @property
    def strength(self) -> float:
        """The product of the sizes of the factors, by which the strongest paths are chosen."""
        return abs(self.start) * prod(abs(factor) for factor in self.factors)

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        steps = [{**label.as_json(), "factor": factor} for label, factor in zip(self.labels, self.factors, strict=True)]
        return {
            "value": self.value, "via": self.via, "start": self.start, "strength": self.strength, "steps": steps,
            "norm": self.part.norm, "share": self.part.share, "cosine": self.part.cosine,
        }  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Explanation:
    """Why a gradient is what it is. Print it, `.show()` it, or read its parts."""

    y: str
    x: str
    gradient: Tensor
    value: float | None  # the derivative, when everything between y and x is a single number
    norm: float
    count: int  # how many paths there are, exactly
    paths: tuple[Path, ...]  # all of them (scalars), or the strongest
    uses: tuple[Contribution, ...]
    terms: tuple[Contribution, ...]  # empty when y is not a sum
    modules: tuple[Contribution, ...]
    notes: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether every path is listed."""
        return len(self.paths) == self.count

    def as_json(self) -> dict[str, Any]:
        """Plain dictionaries and numbers; what JSON has no number for is text: infinity, a count beyond 2**53."""
        parts = {
            kind: [part.as_json() for part in getattr(self, kind)] for kind in ("uses", "terms", "modules", "paths")
        }
        return render.plain({
            "y": self.y, "x": self.x, "shape": list(self.gradient.array.shape), "value": self.value,
            "norm": self.norm, "count": self.count, "complete": self.complete,
            **parts, "notes": list(self.notes),
        })  # fmt: skip

    def show(self) -> None:
        """Print with colours and lines if rich is installed, else as plain text."""
        render.show(self)

    def __str__(self) -> str:
        return render.text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return render.html(self)


def explain(
    y: Tensor, wrt: Tensor, *, gradient: Tensor | None = None, strongest: int = 5, limit: int = 1000
) -> Explanation:
    """Explain the gradient of y with respect to a tensor as a sum over the paths between them.

    y is a scalar, or `gradient` says how much each of its elements counts. When everything in between is a single
    number, up to `limit` paths are listed, otherwise the `strongest` ones; they are counted exactly either way.

    >>> import pellucid as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> y = x*x + x
    >>> explanation = torch.explain(y, wrt=x)
    >>> explanation.value, [path.value for path in explanation.paths]
    (7.0, [3.0, 3.0, 1.0])
    """
    names = Names(outside(getframe(1)))
    root, target = _ends(y, wrt, names)
    (seed,) = seeds_of([y], [gradient], False).values()
    groups = terms_of(root, target)
    numbers = {node: i for i, group in enumerate(groups) for node in group} if len(groups) > 1 else {}
    flow = trace_flow(root, seed, target, numbers)
    if flow.total is None:
        raise RuntimeError(_not_connected(names, root, target))
    flow.settle(wrt)
    return _Work(flow, wrt, root, target, names, groups if numbers else [], numbers).explanation(strongest, limit)


# --- the two ends


def _ends(y: Tensor, wrt: Tensor, names: Names) -> tuple[Node, Node]:
    """The nodes to go from and to; what cannot be explained is refused with the reason."""
    for value, what in ((y, "y"), (wrt, "wrt")):
        if not isinstance(value, Tensor):
            raise TypeError(f"explain takes tensors, but {what} is {a_kind(value)}")
        if isinstance(value.array, Kind):
            raise RuntimeError("explain needs values: call it outside of vmap, grad and other transforms")
    root, target = current_node(y), current_node(wrt)
    if root is None:
        raise RuntimeError(no_graph(y))
    if target is None:
        raise RuntimeError(_no_gradient(wrt))
    if target is not root and target not in oldest_first([root]):
        raise RuntimeError(_not_connected(names, root, target))
    return root, target


def _no_gradient(wrt: Tensor) -> str:
    """The tensor itself has no graph: say why."""
    _, _, *reasons = no_graph(wrt).splitlines()
    head = message("explain: the tensor given as wrt does not require grad", str(here()))
    return "\n".join([head, *reasons])


def _not_connected(names: Names, root: Node, target: Node) -> str:
    """No path leads from y to the tensor: name what may have cut it."""
    y, x = names.of(root) or "y", names.of(target) or "the tensor given as wrt"
    what = f"explain: no path leads from {y} back to {x}: it was not used in computing {y}, or the graph was cut"
    if root.born < target.born:
        why = f"{x} was made at {short(target.place)}, after {y} (at {short(root.place)})"
        return message(what, str(here()), why, f"compute {y} again from this {x}, or explain with the older tensor")
    cuts = list(dict.fromkeys(_cuts(target)))
    left = f"values computed from {x} left the graph by " + "; by ".join(cuts[-3:]) if cuts else None
    return message(what, str(here()), left, "use the tensor itself on the way to the result, outside of no_grad")


def _cuts(target: Node) -> Iterable[str]:
    """Where values that depend on a node left the graph, as far as the ledger remembers."""
    leaves = {node.born for node in oldest_first([target]) if not node.inputs}
    for cut in DEPARTURES:
        if cut.behind >= target.born and not leaves.isdisjoint(cut.leaves):
            yield f"{cut.by} at {cut.entered}"
    for cut in (cut for region in REGIONS for cut in cuts_of(region)):
        if not leaves.isdisjoint(cut.leaves):
            yield f"{cut.by} under no_grad at {cut.entered}"


# --- the work


@dataclass(slots=True)
class _Work:
    flow: Flow
    x: Tensor
    root: Node
    target: Node
    names: Names
    groups: Sequence[Sequence[Node]]
    numbers: dict[Node, int]  # of the terms

    def explanation(self, strongest: int, limit: int) -> Explanation:
        total = self.flow.total
        scalar = self.flow.scalar
        count, paths = self.paths(scalar, strongest, limit)
        uses, modules = self.uses()
        return Explanation(
            y=self.result(),
            x=self.names.of(self.target) or "x",
            gradient=wrap(copied(total)),
            value=float(np.asarray(total).item()) if scalar else None,
            norm=norm(total),
            count=count,
            paths=paths,
            uses=uses,
            terms=self.terms(),
            modules=modules,
            notes=tuple(self.notes(uses)),
        )

    def result(self) -> str:
        """What the result is called: its variable, else the expression it was written as."""
        label = self.names.label(self.root, modules=False)
        return label.name or (label.target if label.source else "y")

    # paths

    def paths(self, scalar: bool, strongest: int, limit: int) -> tuple[int, tuple[Path, ...]]:
        """How many there are; all of them, or the strongest."""
        edges = prune(self.flow.derivatives() if scalar else self.flow.edges, self.target)
        count, steps = census(edges, self.root, self.target)
        every = scalar and count <= limit and steps <= MOST_STEPS
        if every:
            found = list(every_path(edges, self.root, self.target))
        else:
            graphs = [] if scalar else [prune(own, self.target) for own in self.flow.by_term_edges(self.numbers)]
            found = strongest_of(graphs or [edges], self.root, self.target, strongest)
        common = set.intersection(*({edge.source for edge in path} for path in found)) if found else set()
        labels = {node: self.names.label(node) for node in {edge.source: None for path in found for edge in path}}
        paths = [self.path(path, labels, common, scalar, len(found) == 1) for path in found]
        return count, tuple(paths) if scalar else tuple(sorted(paths, key=lambda path: -path.part.norm))

    def path(
        self, edges: Sequence[Edge], labels: dict[Node, Label], common: set[Node], scalar: bool, alone: bool
    ) -> Path:
        """One path with its numbers."""
        shown = edges if scalar else [edge for edge in edges if edge.source.primitive is not PICK]
        factors = tuple(edge.factor for edge in shown)
        start = float(np.asarray(self.flow.seed).item()) if scalar else norm(self.flow.seed)
        value = start * prod(factors) if scalar else None
        total = self.flow.total
        exact = np.full(np.shape(total), value) if scalar else self.flow.along(edges, self.x)
        last = labels[edges[-1].source] if edges else self.names.label(self.root)
        return Path(
            labels=tuple(labels[edge.source] for edge in shown),
            factors=factors,
            start=start,
            via=_via([edge.source for edge in shown], labels, common, alone),
            value=value,
            part=contribution(last, [exact], total),
        )

    # parts

    def uses(self) -> tuple[tuple[Contribution, ...], tuple[Contribution, ...]]:
        """The contribution of every use of the tensor, and the same added up by module; the largest first."""
        total = self.flow.total
        uses: list[Contribution] = []
        by_module: dict[str, list[Any]] = {}
        for node, _, d in self.flow.uses:
            label = self.names.label(node)
            uses.append(contribution(label, [d], total))
            by_module.setdefault(label.module, []).append(d)
        modules = [
            contribution(Label("", "", name or "outside of modules", "", None, name), parts, total)
            for name, parts in by_module.items()
        ]
        return _largest_first(uses), _largest_first(modules) if any(by_module) else ()

    def terms(self) -> tuple[Contribution, ...]:
        """The contribution of every term of the loss, in the order in which they are written."""
        total = self.flow.total
        nothing = np.zeros_like(total)
        found = []
        for i, group in enumerate(self.groups):
            part = contribution(self.names.label(group[0]), [self.flow.by_term.get(i, nothing)], total)
            found.append(Contribution(part.label, len(group), part.gradient, part.norm, part.share, part.cosine))
        return tuple(found)

    def notes(self, uses: Sequence[Contribution]) -> Iterable[str]:
        """What a reader should know beside the numbers."""
        hooked = [node for node in self.flow.arrived if node.extra is not None and _hooks(node)]
        if hooked:
            first = self.names.label(hooked[0]).via
            yield f"hooks were not run (the first is that of {first}): backward() may give another .grad"
        together, total = sum(use.norm for use in uses), norm(self.flow.total)
        if len(uses) > 1 and together > 10 * total:
            yield f"the uses nearly cancel: their norms add to {number(together)}, the gradient has {number(total)}"


def _hooks(node: Node) -> bool:
    extra = node.extra
    return extra is not None and bool(extra.on_gradient or extra.before or extra.after)


def _via(nodes: Sequence[Node], labels: dict[Node, Label], common: set[Node], alone: bool) -> str:
    """What tells a path from the others: the first operation that not all of them pass."""
    if not nodes:
        return "as the same tensor"
    own = [node for node in nodes[1:] if alone or node not in common]
    if own:
        return f"via {labels[own[0]].via} at {labels[own[0]].at}"
    last = labels[nodes[-1]]
    return f"directly at {last.at}" if len(nodes) == 1 else f"directly in {last.via} at {last.at}"


def _largest_first(parts: Iterable[Contribution]) -> tuple[Contribution, ...]:
    return tuple(sorted(parts, key=lambda part: -part.norm))
