"""The graph behind a tensor of real PyTorch, read off its own nodes: for those who use PyTorch and want to look.

Nothing is imported: who hands in a tensor of torch has torch. Values are those that torch kept for backward, that
variables hold, that `recording` saw, or that follow from these; gradients are what torch's engine sends.
"""

import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from pellucid.core.tensor import Tensor
from pellucid.diagnose.pulling import norm
from pellucid.diagnose.step import MAPS
from pellucid.explorer.graph import Edge, Graph, Item
from pellucid.explorer.tensors import ADDED, PRODUCTS, recompute

__all__ = ["is_of_torch", "recording", "torch_graph"]

# Nodes that compute what a row of ours does, so that values can be recomputed and the page can change them.
ROWS = frozenset((
    "add", "sub", "mul", "div", "neg", "exp", "log", "tanh", "sigmoid", "relu", "sqrt", "sin", "cos", "mm", "t",
))  # fmt: skip
# Under which names a node keeps its inputs, in their order.
SAVED = {"mm": ("_saved_self", "_saved_mat2"), "addmm": ("", "_saved_mat1", "_saved_mat2")}
ELSE_SAVED = ("_saved_self", "_saved_other")
BACKWARD = re.compile(r"Backward\d*$")
ENDING = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def is_of_torch(y: Any) -> bool:
    """Whether this is a tensor of real PyTorch."""
    torch = sys.modules.get("torch")
    return isinstance(y, getattr(torch, "Tensor", ())) and not isinstance(y, Tensor)


@contextmanager
def recording() -> Iterator[dict[Any, np.ndarray]]:
    """Keep the value of every tensor of PyTorch with a history that is computed meanwhile, by its node."""
    values: dict[Any, np.ndarray] = {}
    overrides: Any = sys.modules.get("torch.overrides")
    if not hasattr(overrides, "TorchFunctionMode"):
        yield values
        return

    class Recorder(overrides.TorchFunctionMode):  # type: ignore[misc,name-defined]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            if is_of_torch(result) and result.grad_fn is not None:
                values[result.grad_fn] = _array(result)
            return result

    with Recorder():
        yield values


def torch_graph(y: Any, scope: Mapping[str, Any], gradient: Any, recorded: Mapping[Any, np.ndarray]) -> Graph:
    """The graph of a tensor of PyTorch; its `.grad` fields and its graph stay as they are."""
    if y.grad_fn is None:
        raise RuntimeError("explore: this tensor of PyTorch has no grad_fn, so there is no graph behind it")
    reader = _Reader(y, scope, recorded)
    items = reader.items()
    recompute(sorted(items, key=lambda item: item.born))
    graph = Graph(items, reader.known[y.grad_fn])
    graph.notes.append("A graph of PyTorch: values are shown where it kept them, gradients are its own.")
    _walk(graph, reader, gradient)
    return graph


class _Reader:
    """Follows torch's nodes from the result; each is one item."""

    def __init__(self, y: Any, scope: Mapping[str, Any], recorded: Mapping[Any, np.ndarray]) -> None:
        self.y = y
        self.values = {**recorded, y.grad_fn: _array(y)}
        self.names: dict[Any, str] = {}  # by node, or by the identity of a leaf
        self.known: dict[Any, Item] = {}
        self.constants: list[Item] = []
        for name, held in scope.items():
            self.take_name(name, held)

    def take_name(self, name: str, held: Any) -> None:
        if not name.isidentifier() or name.startswith("_"):
            return
        if is_of_torch(held):
            self.names.setdefault(id(held) if held.grad_fn is None else held.grad_fn, name)
            if held.grad_fn is not None:
                self.values.setdefault(held.grad_fn, _array(held))
        elif callable(parameters := getattr(held, "named_parameters", None)) and not isinstance(held, type):
            for path, parameter in parameters():
                self.names.setdefault(id(parameter), f"{name}.{path}")

    def items(self) -> list[Item]:
        waiting = [self.y.grad_fn]
        self.known[self.y.grad_fn] = self.item(self.y.grad_fn)
        while waiting:
            node = waiting.pop()
            for source, _ in node.next_functions:
                if source is not None and source not in self.known:
                    self.known[source] = self.item(source)
                    waiting.append(source)
        for node, item in self.known.items():
            if item.is_operation:
                item.inputs = [
                    self.constant(node, slot) if source is None else self.known[source]
                    for slot, (source, _) in enumerate(node.next_functions)
                ]
                self.note_kept(node, item)
        return [*self.known.values(), *self.constants]

    def item(self, node: Any) -> Item:
        variable = getattr(node, "variable", None)
        if variable is not None:
            badge = "UPDATE!" if type(variable).__name__ == "Parameter" else ""
            return Item(
                "leaf", "leaf", name=self.names.get(id(variable), ""), shape=tuple(variable.shape), needs=True,
                value=_array(variable), badge=badge, born=math.inf,
            )  # fmt: skip
        op = operation_name(type(node).__name__)
        row, params = _row(op, node)
        value = self.values.get(node)
        if value is None:
            value = _saved(node, "_saved_result")
        return Item(
            row, op, name=self.names.get(node, ""), params=params, arguments=params, value=value, needs=True,
            shape=_shape(node) if value is None else value.shape, born=node._sequence_nr(),
        )  # fmt: skip

    def constant(self, node: Any, slot: int) -> Item | float | None:
        """An input without a history, if torch kept it: a number stays in the formula, an array is a box."""
        value = _kept_input(node, slot)
        if value is None or not value.ndim:
            return None if value is None else float(value)
        item = Item("constant", "constant", shape=value.shape, value=value, born=node._sequence_nr())
        self.constants.append(item)
        return item

    def note_kept(self, node: Any, item: Item) -> None:
        """What a node kept of an input is the value of that input; a leaf stands where it is used first."""
        for slot, source in enumerate(item.inputs):
            if isinstance(source, Item) and source.row == "leaf":
                source.born = min(source.born, item.born + slot / 100)
            if isinstance(source, Item) and source.value is None:
                kept = _kept_input(node, slot)
                source.value = kept if kept is not None and kept.shape == source.shape else None


def operation_name(node: str) -> str:
    """How users write the operation behind a node of torch.

    >>> operation_name("LogSoftmaxBackward0"), operation_name("MmBackward0"), operation_name("SquareBackward")
    ('log_softmax', 'mm', 'square')
    """
    return ENDING.sub("_", BACKWARD.sub("", node)).lower()


def _row(op: str, node: Any) -> tuple[str, tuple[Any, ...]]:
    """The row of ours that computes the same, and its params; else a name that is no row."""
    exponent = getattr(node, "_saved_exponent", None)
    if op == "pow" and isinstance(exponent, (int, float)):
        return "pow_number", (exponent,)
    if op in ROWS and getattr(node, "_saved_alpha", 1) == 1 and len(node.next_functions) <= 2:
        return op, ()
    return f"torch:{op}", ()


def _kept_input(node: Any, slot: int) -> np.ndarray | None:
    names = SAVED.get(operation_name(type(node).__name__), ELSE_SAVED)
    return _saved(node, names[slot]) if slot < len(names) else None


def _saved(node: Any, name: str) -> np.ndarray | None:
    try:
        kept = getattr(node, name, None)
    except RuntimeError:  # backward has freed it
        return None
    return _array(kept) if is_of_torch(kept) else None


def _array(tensor: Any) -> np.ndarray:
    """The numbers of a tensor, copied; NumPy has no bfloat16."""
    plain = tensor.detach().cpu()
    return np.array((plain.float() if str(plain.dtype) == "torch.bfloat16" else plain).numpy())


def _shape(node: Any) -> tuple[int, ...]:
    about = getattr(node, "_input_metadata", None)
    return tuple(about[0].shape) if about else ()


# --- gradients


def _walk(graph: Graph, reader: _Reader, gradient: Any) -> None:
    """Let torch's engine walk back, and look at what each node gets and sends."""
    torch, y = sys.modules["torch"], reader.y
    if gradient is None and y.numel() != 1:
        gradient, graph.seeded = torch.ones_like(y), True
    passed: list[tuple[Item, Any, Any]] = []
    leaves = {node.variable: item for node, item in reader.known.items() if not item.is_operation}
    handles = [
        node.register_hook(_noting(passed, item)) for node, item in reader.known.items() if item.is_operation
    ]  # fmt: skip
    try:
        found = torch.autograd.grad(y, list(leaves), gradient, retain_graph=True, allow_unused=True)
    except RuntimeError as error:
        graph.notes.append(f"PyTorch could not walk back: {str(error).split('. ')[0]}. Explore before backward().")
        for variable, item in leaves.items():
            item.grad = None if variable.grad is None else _array(variable.grad)
        return
    finally:
        for handle in handles:
            handle.remove()
    for item, grad in zip(leaves.values(), found, strict=True):
        item.grad = None if grad is None else _array(grad)
    _move(graph, passed)


def _noting(passed: list[tuple[Item, Any, Any]], item: Item) -> Callable[[Any, Any], None]:
    return lambda sent, got: passed.append((item, sent, got))


def _move(graph: Graph, passed: list[tuple[Item, Any, Any]]) -> None:
    into: dict[int, dict[int, Edge]] = {item.index: {} for item in graph.items}
    for edge in graph.edges:
        into[edge.target][edge.slot] = edge
    graph.move(graph.root, [])
    for item, sent, got in passed:
        parts = [_array(each) for each in got if each is not None]
        item.grad = parts[0] if len(parts) == 1 else np.concatenate([part.ravel() for part in parts])
        edges = []
        for slot, each in enumerate(sent):
            if each is not None and slot in into[item.index]:
                edges.append(into[item.index][slot])
                _tell(edges[-1], item, _array(each))
        graph.move(item.index, edges)


def _tell(edge: Edge, item: Item, sent: np.ndarray) -> None:
    edge.norm = norm(sent)
    if sent.size == 1:
        edge.sent = float(sent.item())
    if sent.size == np.size(item.grad) == 1:
        upstream = float(np.asarray(item.grad).item())
        if upstream and edge.sent is not None:
            edge.upstream, edge.local = upstream, edge.sent / upstream
        return
    shapes = np.shape(item.grad), sent.shape
    came = "" if shapes[0] == shapes[1] else f", shape {shapes[0]} → {shapes[1]}"
    if ADDED.get(item.op) == edge.slot:
        edge.words = f"summed over all that it was added to{came}"
        return
    edge.words = (MAPS.get(item.op) or PRODUCTS.get(item.op) or f"by torch's rule of {item.op}") + came
