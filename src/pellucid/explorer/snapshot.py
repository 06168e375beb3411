"""A recorded graph as plain data: what the page draws, and what a server sends.

The dictionary has `nodes` (in the order of computation, leaves first), `edges` (one per use of a value), `forward`
(the nodes computed one after the other), `backward` (its steps with a sentence each), `groups` (runs of modules),
`sources` (lines of code), `live` (whether the page computes changed values itself) and `training`.
"""

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from types import SimpleNamespace
from typing import Any, NamedTuple

from pellucid.core.provenance import Place, getframe, outside
from pellucid.core.tensor import Tensor
from pellucid.core.views import current_node
from pellucid.diagnose.naming import Names, short
from pellucid.errors import explain, printable
from pellucid.explorer.beside import compare
from pellucid.explorer.from_torch import is_of_torch, recording, torch_graph
from pellucid.explorer.graph import Edge, Graph, Item
from pellucid.explorer.groups import grouped
from pellucid.explorer.program import Program
from pellucid.explorer.summary import plain_number, summary
from pellucid.explorer.tensors import tensor_graph
from pellucid.explorer.training import Training, runs_as_json
from pellucid.explorer.values import value_graph
from pellucid.explorer.watch import Watch, watching
from pellucid.explorer.words import caption, paths_text
from pellucid.scalar.value import Value

__all__ = ["Seen", "changed", "look", "snapshot"]

VERSION = 1
HEAT = (
    (30, 32),
    (100, 20),
    (250, 12),
)  # in graphs of that many nodes, rows and columns of a heat map: pages stay small
ALWAYS = frozenset(("name", "value", "grad", "inputs", "shape"))  # fields of a node that are there when empty too


class Seen(NamedTuple):
    """A graph as plain data, and the program behind it, if it can be run again with other numbers."""

    data: dict[str, Any]
    program: Program | None


def snapshot(y: "Tensor | Value | Callable[..., Any]", *inputs: Any, **options: Any) -> dict[str, Any]:
    """The graph behind a tensor or a Value, or behind what a function makes of some inputs, as plain data.

    Of a finished tensor the values are shown that backward has kept, that variables hold, or that follow from these.
    Give the function instead, or what `watching()` has kept, to see every value and the inputs without gradient.
    Names are the variables of the caller, or those in `scope`. Further options are those of `look`.

    >>> import pellucid as torch
    >>> a, b = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
    >>> seen = snapshot(lambda a, b: (a + b) * b, a, b)
    >>> [(node["name"] or node["formula"], node["grad"]["numbers"]) for node in seen["nodes"]]
    [('a', [3]), ('b', [8]), ('a + b', [3]), ('y', [1])]
    >>> seen["nodes"][1]["paths"]
    'Two paths: 5 (direct) + 3 (via (a + b))'
    """
    return look(y, *inputs, **options).data


def look(
    y: "Tensor | Value | Callable[..., Any]", *inputs: Any, gradient: Tensor | None = None, watch: Watch | None = None,
    scope: Mapping[str, Any] | None = None, title: str = "", note: str = "", controls: Mapping[str, Any] | None = None,
    annotate: Mapping[str, Mapping[str, str]] | None = None, start: Mapping[str, Any] | None = None,
    training: Training | Sequence[Training] | None = None, times: bool = False,
    beside: Mapping[str, Any] | None = None,
) -> Seen:  # fmt: skip
    """The snapshot of a graph together with its program; with `times` also how long each operation takes.

    `beside` holds gradients from elsewhere by name: the page shows them beside ours, with the difference.
    """
    frame = outside(getframe(1))
    found = dict(frame.f_globals) | dict(frame.f_locals) if scope is None else dict(scope)
    recorded: dict[Any, Any] = {}
    if callable(y) and not isinstance(y, (Tensor, Value)) and not is_of_torch(y):
        called = getattr(y, "__name__", "")
        with watching() as watch, recording() as recorded:
            y = y(*inputs)
        if called.isidentifier() and isinstance(y, Tensor):
            watch.names.setdefault(current_node(y), called)
        elif called.isidentifier() and is_of_torch(y):
            found[called] = y
    elif inputs:
        raise TypeError("explore takes inputs only after a function: explore(f, x), or explore(f(x))")
    graph = torch_graph(y, found, gradient, recorded) if is_of_torch(y) else _graph(y, watch, found, gradient, times)
    _annotate(graph, annotate or {})
    compare(graph, beside or {})
    title = printable(title) or f"Graph of {graph.items[graph.root].called}"
    data = {"version": VERSION, "title": title, "note": printable(note), **_data(graph, times)}
    data["controls"] = _controls(graph, controls or {})
    data["start"] = dict(start or {"mode": "backward", "step": len(graph.moves) - 1} if graph.moves else {})
    data["training"] = runs_as_json(training)
    program = graph.program
    return Seen(data, program if program is not None and program.repeatable else None)


def changed(program: Program, changes: Mapping[int, Any]) -> dict[str, Any]:
    """What the page needs to show a graph with other numbers in some leaves: only what has changed.

    >>> import pellucid as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> changed(look((x * x).sum()).program, {0: [3.0, 2.0]})["nodes"][0]["grad"]["numbers"]
    [6, 4]
    """
    graph = program.run(changes)
    heat = _heat_size(graph)
    return {
        "nodes": [{name: _summary(getattr(item, name), heat) for name in ("value", "grad")} for item in graph.items],
        "edges": [_edge(edge) for edge in graph.edges],
        "captions": [caption(graph, move) for move in graph.moves],
    }


def _graph(y: Any, watch: Watch | None, scope: dict[str, Any], gradient: Tensor | None, times: bool) -> Graph:
    if isinstance(y, Value):
        return value_graph(y, scope)
    if not isinstance(y, Tensor):
        raise TypeError(
            explain(
                f"explore takes a Tensor, a Value or a function that gives one, not {type(y).__name__}",
                try_="for several results, explore one of them, or their sum",
            )
        )
    names = Names(SimpleNamespace(f_locals=scope, f_globals=scope))  # type: ignore[arg-type]
    return tensor_graph(y, names, watch, scope, gradient, times)


def _annotate(graph: Graph, notes: Mapping[str, Mapping[str, str]]) -> None:
    """Badges and symbolic gradients that an example adds to its variables."""
    for item in graph.items:
        for field, text in notes.get(item.name, {}).items():
            setattr(item, field, printable(text))


def _controls(graph: Graph, controls: Mapping[str, Any]) -> dict[str, Any]:
    """The ranges of the sliders by the number of the node."""
    return {str(item.index): dict(controls[item.name]) for item in graph.items if item.name in controls}


def _heat_size(graph: Graph) -> int:
    return next((size for most, size in HEAT if len(graph.items) <= most), 0)


def _summary(array: Any, heat: int) -> dict[str, Any] | None:
    return None if array is None else summary(array, heat)


def _data(graph: Graph, times: bool) -> dict[str, Any]:
    heat = _heat_size(graph)
    sources: dict[tuple[str, int], int] = {}
    groups, member = grouped(graph)
    lines: list[dict[str, Any]] = []
    at = [_source(item.place, sources, lines) for item in graph.items]
    nodes = [_node(graph, item, heat, at[item.index], member.get(item.index)) for item in graph.items]
    if times:
        _tell_times(nodes, graph)
    numbers = {id(edge): i for i, edge in enumerate(graph.edges)}
    return {
        "root": graph.root, "live": graph.live, "arrays": graph.arrays, "nodes": nodes,
        "edges": [_edge(edge) for edge in graph.edges],
        "forward": [item.index for item in graph.items if item.is_operation],
        "backward": [
            {"node": move.item, "edges": [numbers[id(edge)] for edge in move.edges], "caption": caption(graph, move)}
            for move in graph.moves
        ],
        "groups": groups, "sources": lines, "notes": graph.notes,
    }  # fmt: skip


def _node(graph: Graph, item: Item, heat: int, source: int | None, group: int | None) -> dict[str, Any]:
    told = {
        "id": item.index, "name": item.name, "called": item.called, "op": item.op, "row": item.row,
        "formula": item.formula, "needs": item.needs, "shape": list(item.shape),
        "value": _summary(item.value, heat), "grad": _summary(item.grad, heat),
        "inputs": [source.index if isinstance(source, Item) else {"number": _number(source)} for source in item.inputs],
        "params": _params(item.params), "moves": item.moves, "source": source, "module": item.module, "group": group,
        "paths": paths_text(graph, item.index), "badge": item.badge, "symbol": item.symbol,
        "saved": item.saved or None, "beside": _beside(item, heat),
    }  # fmt: skip
    return {key: value for key, value in told.items() if value not in ("", None, []) or key in ALWAYS}


def _beside(item: Item, heat: int) -> dict[str, Any] | None:
    if item.beside is None:
        return None
    given, apart = item.beside
    return {"grad": summary(given, heat), "apart": None if apart is None else plain_number(apart)}


def _tell_times(nodes: list[dict[str, Any]], graph: Graph) -> None:
    """Milliseconds forward and backward, to be read by people: three digits."""
    for node, item in zip(nodes, graph.items, strict=True):
        if item.took is not None or item.pulled is not None:
            node["ms"] = [None if each is None else float(f"{each / 1e6:.3g}") for each in (item.took, item.pulled)]


def _number(constant: float | None) -> Any:
    return None if constant is None else plain_number(constant)


def _params(value: Any) -> Any:
    """Arguments of an operation; among them may be numbers that JSON does not have."""
    if isinstance(value, (tuple, list)):
        return [_params(each) for each in value]
    return plain_number(value) if isinstance(value, float) and not isfinite(value) else value


def _edge(edge: Edge) -> dict[str, Any]:
    told: dict[str, Any] = {"from": edge.source, "to": edge.target, "slot": edge.slot}
    if edge.carries:
        told["norm"] = plain_number(f"{edge.norm:.6g}")
        for name in ("local", "sent"):
            value = getattr(edge, name)
            if value is not None:
                told[name] = plain_number(value)
        if edge.words:
            told["words"] = edge.words
    return told


def _source(place: Place | None, known: dict[tuple[str, int], int], lines: list[dict[str, Any]]) -> int | None:
    """The number of a line of code among all that are shown."""
    if place is None:
        return None
    key = place.filename, place.line
    if key not in known:
        known[key] = len(lines)
        file = printable(short(place).rpartition(":")[0])
        lines.append({"file": file, "line": place.line, "text": printable(place.source)})
    return known[key]
