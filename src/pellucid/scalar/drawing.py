"""A graph of Values as text, JSON, Graphviz DOT or SVG, left to right in the order of computation."""

import json
import math
from html import escape
from typing import Any

from pellucid.scalar.value import Value

BOX, GAP = (150, 54), (60, 22)  # width and height of a box, and of the space between boxes


def _named(root: Value) -> dict[Value, str]:
    """A name for every value of a graph: its label, or v1, v2, ... in the order of computation."""
    return {node: _shown(node.label) or f"v{i}" for i, node in enumerate(root.graph(), 1)}


def _shown(label: str) -> str:
    """A label without what would move a terminal's cursor, or is no character of XML."""
    return "".join(character for character in label if character.isprintable())


def _finite(number: float) -> float | str:
    """A number as JSON can hold it: NaN and inf become text."""
    return number if math.isfinite(number) else str(number)


def to_text(root: Value) -> str:
    """One line per value: how it is computed, its number and its gradient.

    >>> a, b = Value(2.0, label="a"), Value(3.0, label="b")
    >>> c = (a + b) * b
    >>> c.backward()
    >>> print(to_text(c))
    a                   =        2   grad        3
    b                   =        3   grad        8
    v3 = a + b          =        5   grad        3
    v4 = v3 * b         =       15   grad        1
    """
    names = _named(root)
    return "\n".join(
        f"{_formula(node, names):<20}= {node.data:>8.6g}   grad {node.grad:>8.6g}" for node in root.graph()
    )


def _formula(node: Value, names: dict[Value, str]) -> str:
    inputs = [names[value] for value in node._inputs]
    if not inputs:
        return names[node]
    if len(inputs) == 2:
        return f"{names[node]} = {inputs[0]} {node._op} {inputs[1]}"
    return (
        f"{names[node]} = {inputs[0]}{node._op}"
        if node._op.startswith("**")
        else f"{names[node]} = {node._op}({inputs[0]})"
    )


def to_json(root: Value) -> str:
    """The nodes with their numbers, operations and inputs, and the local derivative on every edge.

    >>> a = Value(3.0, label="a")
    >>> json.loads(to_json(a * a))["edges"]
    [{'from': 0, 'to': 1, 'local': 3.0}, {'from': 0, 'to': 1, 'local': 3.0}]
    """
    numbers = {node: i for i, node in enumerate(root.graph())}
    names = _named(root)
    nodes = [
        {"id": i, "name": names[node], "op": node._op, "data": _finite(node.data), "grad": _finite(node.grad)}
        for node, i in numbers.items()
    ]
    edges = [
        {"from": numbers[value], "to": i, "local": _finite(local)}
        for node, i in numbers.items()
        for value, local in zip(node._inputs, node._local, strict=True)
    ]
    return json.dumps({"nodes": nodes, "edges": edges})


def to_dot(root: Value) -> str:
    """The graph in Graphviz's language.

    >>> a = Value(3.0, label="a")
    >>> print(to_dot(a * a))
    digraph {
      rankdir=LR; node [shape=box];
      n0 [label="a | data 3 | grad 0"];
      n1 [label="* | data 9 | grad 0"];
      n0 -> n1;
      n0 -> n1;
    }
    """
    numbers = {node: i for i, node in enumerate(root.graph())}
    lines = ["digraph {", "  rankdir=LR; node [shape=box];"]
    for node, i in numbers.items():
        label = json.dumps(
            f"{_shown(node.label) or node._op} | data {node.data:.4g} | grad {node.grad:.4g}", ensure_ascii=False
        )
        lines.append(f"  n{i} [label={label}];")
    lines += [f"  n{numbers[value]} -> n{i};" for node, i in numbers.items() for value in node._inputs]
    return "\n".join([*lines, "}"])


def to_svg(root: Value) -> str:
    """A picture: one column per step from the inputs, curved lines for the uses of a value.

    >>> a = Value(3.0, label="a")
    >>> picture = to_svg(a * a + 1)
    >>> picture[:4], picture.count("<rect"), picture.count("<path")  # boxes, and lines between them
    ('<svg', 4, 4)
    """
    places = _placed(root)
    (width, height), names = BOX, _named(root)
    right = max(x for x, _ in places.values()) + width + 20
    bottom = max(y for _, y in places.values()) + height + 20
    parts = [_line(places[value], places[node]) for node in places for value in node._inputs]
    parts += [_box(node, places[node], names[node]) for node in places]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{right}" height="{bottom}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="computation graph">{"".join(parts)}</svg>'
    )


def _placed(root: Value) -> dict[Value, tuple[int, int]]:
    """The corner of every box: its column is the longest way from a leaf."""
    columns: dict[Value, int] = {}
    rows: dict[int, int] = {}
    places = {}
    for node in root.graph():
        column = columns[node] = 1 + max((columns[value] for value in node._inputs), default=-1)
        row = rows[column] = rows.get(column, -1) + 1
        places[node] = (20 + column * (BOX[0] + GAP[0]), 20 + row * (BOX[1] + GAP[1]))
    return places


def _line(start: tuple[int, int], end: tuple[int, int]) -> str:
    x1, y1, x2, y2 = start[0] + BOX[0], start[1] + BOX[1] // 2, end[0], end[1] + BOX[1] // 2
    middle = (x1 + x2) // 2
    return f'<path d="M{x1},{y1} C{middle},{y1} {middle},{y2} {x2},{y2}" fill="none" stroke="#888"/>'


def _box(node: Value, place: tuple[int, int], name: str) -> str:
    x, y = place
    title = f"{name}  {node._op}".strip()
    rows: list[tuple[str, Any]] = [(title, 16), (f"data {node.data:.4g}", 32), (f"grad {node.grad:.4g}", 47)]
    texts = "".join(f'<text x="{x + 8}" y="{y + down}">{escape(text)}</text>' for text, down in rows)
    return f'<rect x="{x}" y="{y}" width="{BOX[0]}" height="{BOX[1]}" rx="6" fill="#f4f6fb" stroke="#446"/>{texts}'
