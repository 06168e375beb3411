"""The gradient on its way from a loss to one tensor, edge by edge, measured without touching the graph.

No hook runs, nothing is freed, no `.grad` is written. What operations kept (and what can be computed again from that)
also gives back the values of the forward pass, as far as they are known.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid.core.backward import leading_to, oldest_first
from pellucid.core.function.pullback import pull_back
from pellucid.core.keep import arguments
from pellucid.core.kinds import Kind
from pellucid.core.primitive import INPUTS, kept_names
from pellucid.core.saved import saved_values
from pellucid.core.tensor import PICK, Bundle, Freed, Leaf, Node
from pellucid.diagnose.pulling import Puller, added, inner, norm

__all__ = [
    "Edge", "Passage", "any_nonzero", "cancels", "flat", "is_custom", "is_freed", "length", "passage", "share_nonzero",
    "values_of",
]  # fmt: skip

CANCELLED = 1e-3  # of what another gradient of the same size would bring: what is left is rounding


@dataclass(frozen=True, slots=True)
class Edge:
    """One operation pulling a gradient back to one of its inputs."""

    node: Node
    g: Any  # what arrived at the operation
    index: int  # which input
    parent: Node
    d: Any  # what goes there

    @property
    def name(self) -> str:
        return self.node.primitive.name

    @property
    def gain(self) -> float:
        """How much longer (or shorter) the gradient is behind this operation."""
        before = length(self.g)
        return length(self.d) / before if before else 0.0


@dataclass(frozen=True, slots=True)
class Passage:
    """All edges between a loss and a tensor, from the loss on, and the gradient that arrives."""

    edges: list[Edge]
    gradients: dict[Node, Any]
    target: Node

    @property
    def arrived(self) -> Any:
        return self.gradients[self.target]

    def strongest(self) -> list[Edge]:
        """The one path along which the most gradient comes, from the loss to the tensor."""
        into: dict[Node, Edge] = {}
        for edge in self.edges:
            if edge.parent not in into or length(edge.d) > length(into[edge.parent].d):
                into[edge.parent] = edge
        path, node = [], self.target
        while node in into:
            path.append(into[node])
            node = into[node].node
        return path[::-1]


def passage(root: Node, target: Node) -> Passage:
    """Pull a gradient of one back from the root to the target, along every path."""
    order = oldest_first([root])
    wanted = leading_to({target}, order).intersection(order)
    puller, edges = Puller(), []
    waiting: dict[Node, list[Any]] = {root: [np.ones(root.shape or (), _dtype_of(root))]}
    gradients: dict[Node, Any] = {}
    with np.errstate(all="ignore"):
        for node in reversed(order):
            if node not in wanted or node not in waiting:
                continue
            g = gradients[node] = added(waiting.pop(node))
            if node is target:
                continue
            for index, parent, d in puller.pull(node, g, wanted):
                edges.append(Edge(node, g, index, parent, d))
                waiting.setdefault(parent, []).append(d)
    return Passage(edges, gradients, target)


def _dtype_of(node: Node) -> Any:
    """The dtype of a result, read off what is kept nearby; float32 when nothing is."""
    stack, seen = [node], {node}
    while stack:
        each = stack.pop()
        tensor = each.tensor() if isinstance(each, Leaf) else None
        if tensor is not None:
            return tensor.array.dtype
        for parent in each.inputs:
            if parent is not None and parent not in seen:
                seen.add(parent)
                stack.append(parent)
    return np.float32


def is_custom(node: Node) -> bool:
    """Whether the operation is a custom autograd.Function."""
    return node.primitive.pullback is pull_back


def is_freed(root: Node) -> bool:
    """Whether a backward has given the saved values of this graph back."""
    return any(type(node.saved) is Freed for node in oldest_first([root]))


# --- numbers


def flat(g: Any) -> np.ndarray:
    """All elements of a gradient (of several results together) in a row."""
    given = g.values() if type(g) is Bundle else (g,)
    parts = [np.asarray(inner(part)).ravel() for part in given if part is not None]
    return np.concatenate(parts) if parts else np.zeros(0)


def length(g: Any) -> float:
    """A gradient's length as a vector."""
    return norm(flat(g))


def any_nonzero(g: Any) -> bool:
    return bool(np.any(flat(g) != 0))


def share_nonzero(g: Any) -> float:
    """The part of the elements through which any gradient comes."""
    values = flat(g)
    return float(np.count_nonzero(values)) / values.size if values.size else 0.0


def cancels(edge: Edge) -> bool:
    """Whether an operation that lets gradients through gets one whose elements cancel in it.

    The test: the same gradient with its elements weighed at random comes through. A saturated or masked operation
    lets neither through.
    """
    if type(edge.g) is Bundle or isinstance(edge.g, Kind) or np.size(edge.g) < 2:
        return False
    g = np.asarray(edge.g)
    weights = np.random.default_rng(0).standard_normal(g.shape).astype(g.dtype)
    with np.errstate(all="ignore"):
        ((_, _, d),) = Puller().pull(edge.node, g * weights, index=edge.index)
    return length(edge.d) < CANCELLED * length(d)


# --- values of the forward pass


def values_of(node: Node) -> dict[str, np.ndarray]:
    """What an operation kept of its inputs (a, b, ...) and its result (y), by name."""
    if type(node.saved) is Freed or node.primitive is PICK:
        return {}
    p, saved = node.primitive, saved_values(node)
    found: dict[str, np.ndarray] = {}
    if p.pullback is not None:
        pairs: Iterable[tuple[str, Any]] = zip(kept_names(p.pullback), saved[0], strict=False)
    else:
        pairs = (pair for index in range(len(p.rules)) for pair in _kept_by(node, saved, index))
    for name, value in pairs:
        if name == "inputs":
            found.update(zip(INPUTS, value, strict=False))
        elif isinstance(value, np.ndarray):
            found[name] = value
    for letter, parent in zip(INPUTS, node.inputs, strict=False):
        tensor = parent.tensor() if isinstance(parent, Leaf) else None
        if tensor is not None and isinstance(tensor.array, np.ndarray):
            found.setdefault(letter, tensor.array)
    return found


def _kept_by(node: Node, saved: Any, index: int) -> Iterable[tuple[str, Any]]:
    rule = node.primitive.rules[index]
    if rule is None or node.inputs[index] is None:
        return ()
    return zip(kept_names(rule), arguments(node.primitive, saved, index), strict=False)
