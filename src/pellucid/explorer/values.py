"""The graph behind a `pellucid.scalar.Value`: every box is one number, every edge has its local derivative."""

import math
from typing import Any

import numpy as np

from pellucid.explorer.graph import Edge, Graph, Item
from pellucid.scalar.value import Value

__all__ = ["value_graph"]

ROWS = {"+": "add", "-": "sub", "*": "mul", "/": "div"}


def value_graph(root: Value, scope: dict[str, Any]) -> Graph:
    """The graph of a Value; its `grad` fields are neither read nor written."""
    names = _names(scope)
    items: dict[Value, Item | float] = {}
    order = root.graph()
    numbers = _numbers(order, names)
    for value in order:
        items[value] = _real(value.data) if value in numbers else _item(value, names.get(value, ""), items)
    graph = Graph([item for item in items.values() if isinstance(item, Item)], items[root])  # type: ignore[arg-type]
    _walk(graph, {item.index: value for value, item in items.items() if isinstance(item, Item)})
    return graph


def _names(scope: dict[str, Any]) -> dict[Value, str]:
    """The user's variables, and the places in their lists: `weights[0]`."""
    found: dict[Value, str] = {}
    for name, held in scope.items():
        if isinstance(held, Value) and name.isidentifier():
            found.setdefault(held, name)
    for name, held in scope.items():
        if type(held) in (list, tuple) and not name.startswith("_"):
            for place, value in enumerate(held):
                if isinstance(value, Value):
                    found.setdefault(value, f"{name}[{place}]")
    return found


def _numbers(order: list[Value], names: dict[Value, str]) -> set[Value]:
    """Python numbers that met a Value: made right before their only use, without a name. They stay in the formula."""
    uses: dict[Value, list[Value]] = {}
    for value in order:
        for source in value._inputs:
            uses.setdefault(source, []).append(value)
    return {
        value
        for value, users in uses.items()
        if not value._inputs and not value.label and value not in names and len(users) == 1
        and users[0]._made == value._made + 1 and len(users[0]._inputs) > 1
    }  # fmt: skip


def _item(value: Value, name: str, items: "dict[Value, Item | float]") -> Item:
    power = value._op.startswith("**")
    row = "pow_number" if power else ROWS.get(value._op, value._op or "leaf")
    return Item(
        row, "pow" if power else row, [items[source] for source in value._inputs],
        params=(_plain(value._op[2:]),) if power else (), name=value.label or name,
        value=np.asarray(_real(value.data)), needs=True, born=value._made,
    )  # fmt: skip


def _real(number: float) -> float:
    """A number as the page shows it: an integer beyond all floats is infinite.

    >>> _real(3), _real(-(10**400))
    (3.0, -inf)
    """
    try:
        return float(number)
    except OverflowError:
        return math.copysign(math.inf, number > 0 or -1)


def _plain(power: str) -> float:
    """The exponent as it was written: 2, not 2.0.

    >>> _plain("2"), _plain("0.5")
    (2, 0.5)
    """
    return int(power) if power.lstrip("-").isdigit() else float(power)


def _walk(graph: Graph, values: dict[int, Value]) -> None:
    """The backward pass, newest value first."""
    grads = dict.fromkeys(values, 0.0)
    grads[graph.root] = 1.0
    into: dict[int, list[Edge]] = {index: [] for index in values}
    for edge in graph.edges:
        into[edge.target].append(edge)
    graph.move(graph.root, [])
    for item in reversed(graph.items):
        upstream = grads[item.index]
        for edge in into[item.index]:
            edge.upstream, edge.local = upstream, _real(values[item.index]._local[edge.slot])
            edge.sent = edge.upstream * edge.local
            edge.norm = abs(edge.sent)
            grads[edge.source] += edge.sent
        if item.is_operation:
            graph.move(item.index, into[item.index])
        item.grad = np.asarray(upstream)
