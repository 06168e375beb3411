"""The paths of a graph from a result to one of its inputs: counted exactly, listed, or only the strongest ones.

Counting and finding the strongest are dynamic programmes over the nodes, newest first: a chain of a thousand
doublings has 2**1000 paths and takes a few milliseconds.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from heapq import nlargest
from math import inf, isnan, log

from pellucid.core.tensor import Node

__all__ = ["Edge", "Edges", "census", "every_path", "prune", "strongest_of", "strongest_paths"]


@dataclass(frozen=True, slots=True, eq=False)
class Edge:
    """One input of one operation: the factor by which a gradient changes on its way there."""

    source: Node
    index: int
    target: Node
    factor: float  # scalars: the local derivative; tensors: norm of what is sent / norm of what came

    @property
    def strength(self) -> float:
        """The logarithm of the factor's size; what is not a number counts as infinite, so that it is seen."""
        size = inf if isnan(self.factor) else abs(self.factor)
        return log(size) if 0 < size < inf else (inf if size else -inf)


Edges = dict[Node, list[Edge]]  # the ways on from each node, newest node first


def prune(edges: Edges, target: Node) -> Edges:
    """The edges that lead to the target."""
    alive = {target}
    kept: Edges = {}
    for node in reversed(edges):
        ways = [edge for edge in edges[node] if edge.target in alive]
        if ways:
            alive.add(node)
            kept[node] = ways
    return dict(reversed(kept.items()))


def census(edges: Edges, root: Node, target: Node) -> tuple[int, int]:
    """How many paths there are, and how many edges all of them have together."""
    paths, lengths = {root: 1}, {root: 0}
    for node, ways in edges.items():
        for edge in ways if node in paths else ():
            paths[edge.target] = paths.get(edge.target, 0) + paths[node]
            lengths[edge.target] = lengths.get(edge.target, 0) + lengths[node] + paths[node]
    return paths.get(target, 0), lengths.get(target, 0)


def every_path(edges: Edges, root: Node, target: Node) -> Iterator[list[Edge]]:
    """All paths, in the order in which the expression is written; without recursion, however deep the graph."""
    if root is target:
        yield []
        return
    path: list[Edge] = []
    open_ways = [iter(edges[root])]
    while open_ways:
        edge = next(open_ways[-1], None)
        if edge is None:
            open_ways.pop()
            if path:
                path.pop()
        elif edge.target is target:
            yield [*path, edge]
        else:
            path.append(edge)
            open_ways.append(iter(edges[edge.target]))


Arrival = tuple[float, Edge | None, int]  # strength so far, the edge it came by, the rank of the path before it


def strongest_of(graphs: Iterable[Edges], root: Node, target: Node, k: int) -> list[list[Edge]]:
    """The k strongest paths of several graphs, in each of which the factors may be others."""
    found = [path for edges in graphs for path in strongest_paths(edges, root, target, k)]
    return nlargest(k, found, key=lambda path: reduce(_times, (edge.strength for edge in path), 0.0))


def strongest_paths(edges: Edges, root: Node, target: Node, k: int) -> list[list[Edge]]:
    """The k paths whose product of factors is largest in size: at each node only the k best arrivals are kept.

    That is exact, since the best continuation of a path does not depend on how it arrived.
    """
    arrivals: dict[Node, list[Arrival]] = {root: [(0.0, None, 0)]}
    for node, ways in edges.items():
        if node not in arrivals:
            continue
        best = arrivals[node] = nlargest(k, arrivals[node], key=_strength)
        for edge in ways:
            gain = edge.strength
            onward = [(_times(so_far, gain), edge, rank) for rank, (so_far, _, _) in enumerate(best)]
            arrivals.setdefault(edge.target, []).extend(onward)
    arrivals[target] = nlargest(k, arrivals.get(target, []), key=_strength)
    return [_retraced(arrivals, target, rank) for rank in range(len(arrivals[target]))]


def _strength(arrival: Arrival) -> float:
    return arrival[0]


def _times(a: float, b: float) -> float:
    """Add logarithms; zero times infinity is not a number, and worth seeing."""
    total = a + b
    return inf if isnan(total) else total


def _retraced(arrivals: Mapping[Node, Sequence[Arrival]], node: Node, rank: int) -> list[Edge]:
    path: list[Edge] = []
    while True:
        _, edge, rank = arrivals[node][rank]
        if edge is None:
            return path[::-1]
        path.append(edge)
        node = edge.source
