"""The graph behind a Tensor: boxes from the recorded nodes, values from whoever kept them, gradients step by step."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from pellucid.core.backward import no_graph, oldest_first
from pellucid.core.keep import arguments
from pellucid.core.kinds import Kind
from pellucid.core.primitive import INPUTS, TABLE, as_written, kept_names
from pellucid.core.tensor import PICK, Bundle, Freed, Leaf, Node, Tensor, wrap
from pellucid.core.views import current_node
from pellucid.diagnose.naming import Names, operation_of
from pellucid.diagnose.pulling import norm
from pellucid.diagnose.step import MAPS, Step
from pellucid.diagnose.steps import BackwardSteps
from pellucid.errors import explain
from pellucid.explorer.graph import Edge, Graph, Item
from pellucid.explorer.moves import moves_of
from pellucid.explorer.program import Program
from pellucid.explorer.timing import TimedSteps, time_forward
from pellucid.explorer.watch import Call, Watch
from pellucid.nn.parameter import Parameter
from pellucid.ops.operation import OPERATIONS

__all__ = ["ADDED", "PRODUCTS", "Builder", "recompute", "tensor_graph"]

FACTORS = ("mv", "dot", "linear", "addmm", "einsum", "convolution", "convolution_transposed")
PRODUCTS = dict.fromkeys(FACTORS, "times the other factors")
ADDED = {"linear_with_bias": 2, "convolution_bias": 2, "convolution_transposed_bias": 2, "addmm": 0}  # that input is
MOST = 20_000  # boxes; more is not a picture any more


def tensor_graph(
    y: Tensor, names: Names, watch: Watch | None, scope: dict[str, Any], gradient: Any = None, times: bool = False
) -> Graph:
    """The graph of a tensor with all values and gradients that can be known; with `times` also how long each takes."""
    if isinstance(y.array, Kind):
        raise RuntimeError("explore needs values: call it outside of vmap, grad and other transforms")
    root = current_node(y)
    watch = watch or Watch()
    if root is None and id(y.array) not in watch.without_graph:
        raise RuntimeError(no_graph(y))
    return Builder(y, names, watch, scope).graph(gradient, times)


class Builder:
    """Follows the inputs from the result; a node is one item, a tensor without node is known by its array."""

    def __init__(self, y: Tensor, names: Names, watch: Watch, scope: dict[str, Any]) -> None:
        self.y, self.names, self.watch = y, names, watch
        self.by_node: dict[Node, Item] = {}
        self.by_array: dict[int, Item] = {}
        self.waiting: list[tuple[Item, Any]] = []
        self.root = current_node(y)
        nodes = oldest_first([self.root]) if self.root is not None else []
        if len(nodes) > MOST:
            raise ValueError(
                explain(
                    f"explore: the graph has {len(nodes)} operations, more than the {MOST} that can be drawn",
                    try_="explore a part of it: one layer, one step of the loop",
                )
            )
        self.freed = any(type(node.saved) is Freed for node in nodes)
        self.picks = _picks(nodes)
        self.named = dict(_named_tensors(scope))  # by node, or by the identity of an array

    def graph(self, gradient: Any, times: bool) -> Graph:
        root = self.item_of(self.y)
        while self.waiting:
            item, origin = self.waiting.pop()
            self.connect(item, origin)
        items = [*dict.fromkeys(self.by_node.values()), *self.by_array.values()]
        recompute(sorted(items, key=lambda item: item.born))
        for item in items:
            item.moves = moves_of(item)
        graph = Graph(items, root)
        if self.freed:
            graph.notes.append(
                "backward() has freed what the operations kept: gradients are shown for the leaves only. "
                "Explore before backward(), or call backward(retain_graph=True)."
            )
            self.leaf_gradients()
        elif self.root is not None:
            self.walk(graph, gradient, times)
        else:
            graph.notes.append("Nothing here requires a gradient: there is no backward pass.")
        graph.program = Program(graph, self, gradient)
        if times:
            time_forward(graph.items)
        return graph

    # --- items

    def item_of(self, tensor: Tensor) -> Item:
        node = current_node(tensor)
        return self.of_array(tensor) if node is None else self.of_node(node)

    def of_node(self, node: Node) -> Item:
        if node in self.by_node:
            return self.by_node[node]
        if node.primitive is PICK and len(self.picks.get(node.inputs[0], ())) <= 1:  # type: ignore[arg-type]
            item = self.by_node[node] = self.of_node(node.inputs[0])  # type: ignore[arg-type]
            item.name = item.name or self.name_of(node)
            item.result = _index_of(node)
            item.shape = node.shape or ()
            item.value = self.value_of(node) if item.value is None else item.value
            return item
        item = self.by_node[node] = self.leaf(node) if isinstance(node, Leaf) else self.operation(node)
        self.waiting.append((item, node))
        return item

    def name_of(self, node: Node) -> str:
        return self.names.of(node) or self.watch.names.get(node, "")

    def leaf(self, node: Leaf) -> Item:
        tensor = node.tensor()
        known = None if tensor is None else tensor.array
        return Item(
            "leaf", "leaf", name=self.name_of(node), shape=node.shape or (), needs=True, place=node.place,
            value=known if known is None else self.watch.entered.get(id(known), known),
            badge="UPDATE!" if isinstance(tensor, Parameter) else "", born=node.born,
        )  # fmt: skip

    def operation(self, node: Node) -> Item:
        several = node.shape is None
        row = node.primitive.name
        return Item(
            row, operation_of(node), name=self.name_of(node), params=(_index_of(node),) if row == "pick" else (),
            result=_index_of(node), picked=len(self.picks.get(node, ())) > 1, shape=node.shape or (), needs=True,
            place=node.place, module=self.names.module(node), value=None if several else self.value_of(node),
            born=node.born, saved=_bytes_saved(node),
        )  # fmt: skip

    def value_of(self, node: Node) -> Any:
        if node is self.root:
            return self.y.array
        call = self.watch.calls.get(node)
        if call is not None:
            return call[0].results[call[1]]
        return self.named[node][1].array if node in self.named else None

    def of_array(self, tensor: Tensor) -> Item:
        """A tensor without graph: computed by an operation that was watched, cut off, or given."""
        key = id(tensor.array)
        if key in self.by_array:
            return self.by_array[key]
        made, owner = self.watch.without_graph.get(key), self.watch.owners.get(key)
        if owner is not None and tensor.cut is None and made is None:  # the same values inside an operation of ours
            return self.of_node(owner)
        name = self.watch.names.get(key, "") or self.named.get(key, ("", None))[0]
        item = Item("constant", "constant", name=name, shape=tuple(tensor.array.shape))
        item.value = self.watch.entered.get(key, tensor.array)
        self.by_array[key] = item
        if made is not None:
            call, index = made
            item.row, item.op, item.result = call.primitive.name, call.primitive.name, index
            item.arguments, item.params = call.params, _plain_params(call.params)
            item.place, item.born, item.value = call.place, call.born, call.results[index]
            item.module = self.names.module(call)  # type: ignore[arg-type]
            self.waiting.append((item, call))
        elif owner is not None and tensor.cut is not None:
            item.row = item.op = "detach"
            item.place, item.born = tensor.cut.entered, tensor.cut.born
            self.waiting.append((item, owner))
        return item

    # --- inputs

    def connect(self, item: Item, origin: Any) -> None:
        if item.row == "detach":
            item.inputs = [self.of_node(origin)]
        elif isinstance(origin, Call):
            item.inputs = [self.input_of(tensor, item, slot) for slot, tensor in enumerate(origin.inputs)]
        elif origin.inputs:
            self.connect_node(item, origin)

    def connect_node(self, item: Item, node: Node) -> None:
        if node.primitive is PICK:
            item.inputs = [self.of_node(node.inputs[0])]  # type: ignore[arg-type]
            return
        watched = self.watch.calls.get(node) or self.watched_results(node)
        if watched is not None:
            call = watched[0]
            item.arguments, item.params = call.params, _plain_params(call.params)
            given: list[Any] = [self.input_of(tensor, item, slot) for slot, tensor in enumerate(call.inputs)]
        else:
            kept, item.arguments = _kept(node)
            item.params = _plain_params(item.arguments)
            letters = [*INPUTS, *[""] * len(node.inputs)]
            given = [
                self.constant_of(kept.get(letter)) if parent is None else None
                for letter, parent in zip(letters, node.inputs, strict=False)
            ]
            self.note_kept(item, node, kept)
        item.inputs = [
            given[i] if parent is None else self.of_node(parent) for i, parent in enumerate(node.inputs)
        ]  # fmt: skip

    def constant_of(self, kept: Any) -> "Item | float | None":
        """An input without graph, where a rule kept it: a number stays in the formula, an array is a box."""
        if not isinstance(kept, (np.ndarray, np.generic)):
            return None
        name = self.named.get(id(kept), ("", None))[0]
        if np.size(kept) == 1 and not name:
            return float(np.asarray(kept).real.item())
        fresh = Item("constant", "constant", name=name, shape=tuple(np.shape(kept)), value=kept)
        return self.by_array.setdefault(id(kept), fresh)

    def watched_results(self, node: Node) -> tuple[Call, int] | None:
        """The call behind an operation with several results: it is filed under each of them."""
        picks = self.picks.get(node, ())
        return next((self.watch.calls[pick] for pick in picks if pick in self.watch.calls), None)

    def note_kept(self, item: Item, node: Node, kept: dict[str, Any]) -> None:
        """What a rule kept is the value of the result, or of an input."""
        if item.value is None and isinstance(kept.get("y"), (np.ndarray, np.generic)):
            item.value = kept["y"]
        for letter, parent in zip(INPUTS, node.inputs, strict=False):
            if parent is not None and isinstance(kept.get(letter), (np.ndarray, np.generic)):
                source = self.of_node(parent)
                if source.value is None and np.shape(kept[letter]) == source.shape:
                    source.value = kept[letter]

    def input_of(self, tensor: Tensor, item: Item, slot: int) -> "Item | float | None":
        """A number that the user wrote in the formula stays in the formula; halves of our operations are not shown."""
        made = self.watch.without_graph.get(id(tensor.array)) if tensor.node is None else None
        if made is not None and as_written(made[0].primitive.name) not in OPERATIONS:
            item.hidden[slot] = tensor
            return None
        source = self.item_of(tensor)
        if source.row == "constant" and not source.name and np.size(source.value) == 1 and not source.shape:
            self.by_array.pop(id(tensor.array), None)
            return float(np.asarray(source.value).real.item())
        return source

    def drawn(self, tensor: Tensor) -> Item | None:
        """The box of a tensor, if it has one."""
        node = current_node(tensor)
        if node is None:
            key = id(tensor.array)
            node = None if key in self.by_array else self.watch.owners.get(key)
            return self.by_array.get(key) if node is None else self.by_node.get(node)
        return self.by_node.get(node)

    # --- gradients

    def leaf_gradients(self) -> None:
        for node, item in self.by_node.items():
            tensor = node.tensor() if isinstance(node, Leaf) else None
            if tensor is not None and tensor._grad is not None:
                item.grad = tensor._grad.array

    def walk(self, graph: Graph, gradient: Any, times: bool) -> None:
        """Take the steps of the backward pass one by one."""
        if gradient is None and np.size(self.y.array) != 1:
            gradient = wrap(np.ones_like(self.y.array))
            graph.seeded = True
        steps = (TimedSteps if times else BackwardSteps)(self.y, gradient, None, self.names)
        root = graph.items[graph.root]
        root.grad = np.ones_like(self.y.array) if gradient is None else gradient.array
        graph.move(graph.root, [])
        into: list[dict[int, Edge]] = [{} for _ in graph.items]
        for edge in graph.edges:
            into[edge.target][edge.slot] = edge
        for step in steps:
            self.take(graph, step, into)
            if isinstance(steps, TimedSteps):
                self.by_node[step.node].pulled = steps.spent[step.node]

    def take(self, graph: Graph, step: Step, into: list[dict[int, Edge]]) -> None:
        item = self.by_node[step.node]
        item.grad = _gradient(step._g)
        single = np.size(step._g) == 1 and type(step._g) is not Bundle
        every = single and all(np.size(d) == 1 for _, d, _ in step._sent)
        locals_ = step.local if every else [None] * len(step._sent)
        sent = []
        for (slot, d, total), local in zip(_slots(step), locals_, strict=True):
            source = self.by_node[step.node.inputs[slot]]  # type: ignore[index]
            edge = into[item.index][slot]
            edge.norm, edge.words = norm(d), "" if every else _words(step, slot, d)
            if np.size(d) == 1:
                edge.sent = float(np.asarray(d).real.item())
                if isinstance(local, Tensor):
                    edge.local, edge.upstream = float(local.array.item()), float(np.asarray(step._g).item())
            source.grad = total
            sent.append(edge)
        graph.move(item.index, sent)
        if type(step._g) is Bundle:
            self.collect(graph, item)

    def collect(self, graph: Graph, item: Item) -> None:
        """The gradients of several results come together in their operation."""
        for edge in graph.edges:
            part = graph.items[edge.target]
            if edge.source == item.index and part.row == "pick" and part.grad is not None:
                edge.carries, edge.norm = True, norm(part.grad)


def _slots(step: Step) -> Iterable[tuple[int, Any, Any]]:
    """The inputs that a step sends a gradient to, by their number."""
    waiting = list(step._sent)
    for slot, parent in enumerate(step.node.inputs):
        if waiting and parent is waiting[0][0]:
            _, d, total = waiting.pop(0)
            yield slot, d, total


def _words(step: Step, slot: int, d: Any) -> str:
    """What is done to a gradient on its way to one input, where that is no single product."""
    same = type(step._g) is Bundle or np.shape(step._g) == np.shape(d)
    came = "" if same else f", shape {tuple(np.shape(step._g))} → {tuple(np.shape(d))}"
    each = "element by element" if step.node.primitive.elementwise else f"by the rule of {step.op}"
    each += ", summed over what was repeated" if step.node.primitive.elementwise and not same else ""
    if ADDED.get(step.node.primitive.name) == slot:
        return f"summed over all that it was added to{came}"
    return (MAPS.get(step.op) or PRODUCTS.get(step.op, each)) + came


def _gradient(g: Any) -> Any:
    return np.concatenate([np.ravel(part) for part in g.values()]) if type(g) is Bundle else g


def _picks(nodes: Iterable[Node]) -> dict[Node, list[Node]]:
    """The results that are used of each operation with several."""
    picks: dict[Node, list[Node]] = {}
    for node in nodes:
        if node.primitive is PICK:
            picks.setdefault(node.inputs[0], []).append(node)  # type: ignore[arg-type]
    return picks


def _index_of(node: Node) -> int:
    """Which of several results a pick stands for."""
    return int(node.saved[0][0]) if node.primitive is PICK and type(node.saved) is not Freed else 0


def _bytes_saved(node: Node) -> int:
    """What an operation keeps for backward: its arrays, each counted once."""
    parts = node.saved if isinstance(node.saved, tuple) else ()
    flat = [each for part in parts for each in (part if isinstance(part, tuple) else (part,))]
    return sum({id(each): each.nbytes for each in flat if isinstance(each, np.ndarray)}.values())


def _named_tensors(scope: dict[str, Any]) -> Iterable[tuple[Any, Any]]:
    for name, value in scope.items():
        if issubclass(type(value), Tensor) and name.isidentifier() and not name.startswith("_"):
            node = current_node(value)
            yield id(value.array) if node is None else node, (name, value)


def _kept(node: Node) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """What the rules of a node kept, by the letter of the rules; and the params, which follow."""
    p = node.primitive
    found: dict[str, Any] = {}
    params: tuple[Any, ...] = ()
    if type(node.saved) is Freed:
        return found, params
    if node.extra is not None and node.extra.unpack is not None:  # fetching it may run a checkpoint again
        return found, params
    if p.pullback is not None:
        names, values = kept_names(p.pullback), node.saved[0]
        return dict(zip(names, values, strict=False)), tuple(values[len(names) :])
    for i, rule in enumerate(p.rules):
        if node.inputs[i] is not None:
            names, values = kept_names(rule), arguments(p, node.saved, i)
            found.update(zip(names, values, strict=False))
            params = tuple(values[len(names) :])
    return found, params


def _plain_params(params: Iterable[Any]) -> tuple[Any, ...]:
    """Params that mean something to a reader: numbers, words, axes."""
    return tuple(param for param in params if _is_plain_param(param))


def _is_plain_param(param: Any) -> bool:
    if isinstance(param, tuple):
        return all(type(each) is int for each in param)
    return param is None or isinstance(param, (bool, int, float, str))


def recompute(items: Iterable[Item]) -> None:
    """Compute the values that nobody kept from those that are known, and constants that only a sum hides."""
    for item in items:
        if not item.is_operation or item.row not in TABLE or TABLE[item.row].variadic:
            continue
        _infer_constant(item)
        values = [source.value if isinstance(source, Item) else source for source in item.inputs]
        if item.value is None and values and all(value is not None for value in values):
            item.value = _computed(TABLE[item.row], values, item)


def _computed(p: Any, values: list[Any], item: Item) -> Any:
    like = next((np.asarray(value).dtype for value in values if not isinstance(value, float)), None)
    try:
        arrays = [np.asarray(value, like if isinstance(value, float) else None) for value in values]
        y = p.forward(*arrays, *item.arguments)
    except Exception:  # a row may take params that are not shown: then its value stays unknown
        return None
    return y if np.shape(y) == item.shape else None


def _infer_constant(item: Item) -> None:
    """x + c = y: where c was not kept but y was, it follows."""
    if item.row not in ("add", "sub") or item.value is None or item.inputs.count(None) != 1:
        return
    place = item.inputs.index(None)
    other = item.inputs[1 - place]
    known = other.value if isinstance(other, Item) else other
    if known is None or np.size(item.value) != 1 or np.size(known) != 1:
        return
    y, x = float(np.asarray(item.value).item()), float(np.asarray(known).item())
    missing = y - x if item.row == "add" else (x - y if place == 1 else y + x)
    item.inputs[place] = float(f"{missing:.6g}")
