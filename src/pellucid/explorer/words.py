"""Numbers, formulas and the one sentence of every backward step. The page writes the same after a value was changed."""

from collections.abc import Sequence

from pellucid.explorer.graph import Edge, Graph, Move, number

__all__ = ["caption", "paths_text"]

WORDS = ("no", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten", "Eleven", "Twelve")


def factor(value: float) -> str:
    """A number that follows a × or a +: in parentheses if it is negative."""
    text = number(value)
    return f"({text})" if text.startswith("-") else text


def caption(graph: Graph, move: Move) -> str:
    """One sentence: what this step of the backward pass sends where, with the chain rule in numbers."""
    root = graph.items[graph.root]
    item = graph.items[move.item]
    if not move.edges and item is root:
        return _seed(graph)
    parts = [_sent(graph, target, move) for target in dict.fromkeys(edge.source for edge in move.edges)]
    return f"Through {item.equation}: {'; '.join(parts)}." if parts else f"{item.called} passes nothing on."


def _seed(graph: Graph) -> str:
    called = graph.items[graph.root].called
    if graph.seeded:
        return f"Start at the end: every element of {called} counts once, so its gradient is 1 everywhere."
    return f"Start at the end: ∂{called}/∂{called} = 1."


def _sent(graph: Graph, target: int, move: Move) -> str:
    """What one input gets in this step, and the sum once all of its paths are there."""
    symbol = f"∂{graph.items[graph.root].called}/∂{graph.items[target].called}"
    uses = graph.arriving[target]
    now = [edge for edge in move.edges if edge.source == target]
    if len(uses) == 1:
        return f"{symbol} = {_product(now[0])}" if now[0].sent is not None else f"{symbol} gets {_product(now[0])}"
    given = ", ".join(f"path {uses.index(edge) + 1}: {_product(edge)}" for edge in now)
    arrived = uses[: uses.index(now[-1]) + 1]
    return f"{symbol} gets {given}" + _together(arrived, len(uses))


def _together(arrived: Sequence[Edge], every: int) -> str:
    if len(arrived) == 1:
        return f" (1 of {every} paths)"
    if any(edge.sent is None for edge in arrived):
        return f" ({len(arrived)} of {every} paths)"
    total = sum(edge.sent or 0.0 for edge in arrived)
    terms = " + ".join([number(arrived[0].sent or 0.0), *(factor(edge.sent or 0.0) for edge in arrived[1:])])
    if len(arrived) < every:
        return f" (so far {terms} = {number(total)})"
    return f"; {_count(every).lower()} paths add up: {terms} = {number(total)}"


def _product(edge: Edge) -> str:
    if edge.sent is None:
        return f"norm {number(edge.norm)} ({edge.words})" if edge.words else f"norm {number(edge.norm)}"
    if edge.local is None or edge.upstream is None:
        return number(edge.sent)
    return f"{number(edge.upstream)} × {factor(edge.local)} = {number(edge.sent)}"


def _count(many: int) -> str:
    return WORDS[many] if many < len(WORDS) else str(many)


def paths_text(graph: Graph, target: int) -> str:
    """How a gradient adds up: "Two paths: 5 (direct) + 3 (via sum)"; empty where only one path arrives."""
    uses = graph.arriving[target]
    if len(uses) < 2:
        return ""
    terms = [f"{_size(edge)} ({_way(graph, edge)})" for edge in uses]
    return f"{_count(len(uses))} paths: {' + '.join(terms).replace(' + -', ' - ')}"


def _size(edge: Edge) -> str:
    return f"norm {number(edge.norm)}" if edge.sent is None else number(edge.sent)


def _way(graph: Graph, edge: Edge) -> str:
    return "direct" if edge.target == graph.root else f"via {graph.items[edge.target].called}"
