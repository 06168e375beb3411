"""The graph behind a `pellucid.scalar.Value`: every box is one number, every edge has its local derivative."""

from typing import Any

import numpy as np

from pellucid.explorer.graph import Edge, Graph, Item
from pellucid.scalar.value import Value

__all__ = ["value_graph"]

ROWS = {"+": "add", "*": "mul"}


def value_graph(root: Value, scope: dict[str, Any]) -> Graph:
    """The graph of a Value; its `grad` fields are neither read nor written."""
    names = {value: name for name, value in reversed(scope.items()) if isinstance(value, Value) and name.isidentifier()}
    items: dict[Value, Item | float] = {}
    for value in root.graph():
        name = value.label or names.get(value, "")
        items[value] = value.data if _is_number(value, name, root) else _item(value, name, items)
    graph = Graph([item for item in items.values() if isinstance(item, Item)], items[root])  # type: ignore[arg-type]
    _walk(graph, {item.index: value for value, item in items.items() if isinstance(item, Item)})
    return graph


def _is_number(value: Value, name: str, root: Value) -> bool:
    """A Python number that met a Value: it stays in the formula."""
    return not value._inputs and not name and value is not root


def _item(value: Value, name: str, items: "dict[Value, Item | float]") -> Item:
    power = value._op.startswith("**")
    row = "pow_number" if power else ROWS.get(value._op, value._op or "leaf")
    return Item(
        row, "pow" if power else row, [items[source] for source in value._inputs],
        params=(float(value._op[2:]),) if power else (), name=name, value=np.asarray(float(value.data)), needs=True,
        born=value._made,
    )  # fmt: skip


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
            edge.upstream, edge.local = upstream, float(values[item.index]._local[edge.slot])
            edge.sent = edge.upstream * edge.local
            edge.norm = abs(edge.sent)
            grads[edge.source] += edge.sent
        if item.is_operation:
            graph.move(item.index, into[item.index])
        item.grad = np.asarray(upstream)
