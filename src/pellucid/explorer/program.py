"""A drawn graph as a program that can be run again: what becomes of everything when the numbers of a leaf change."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from pellucid.core.primitive import BOUND, TABLE
from pellucid.core.tensor import Tensor, wrap
from pellucid.diagnose.naming import Names
from pellucid.explorer.graph import Graph, Item
from pellucid.explorer.watch import Watch, watching

if TYPE_CHECKING:
    from pellucid.explorer.tensors import Builder

__all__ = ["Program", "Unrepeatable", "called"]

TOLD = ("name", "called", "formula", "module", "kind", "place", "badge", "symbol")  # what a run does not change


class Unrepeatable(ValueError):
    """The operations cannot be run again, or did not give the recorded values when they were."""


class Program:
    """The operations behind a graph, in their order.

    A run computes with the rows themselves, on tensors of its own, and is observed as the first run was: its gradients
    are Pellucid's, not an imitation.
    """

    def __init__(self, graph: Graph, builder: "Builder", gradient: Any) -> None:
        self.graph, self.builder, self.gradient = graph, builder, gradient
        self.proven = False

    @property
    def repeatable(self) -> bool:
        """Whether every operation and everything that goes into it is known."""
        return all(map(_is_known, self.graph.items))

    def editable(self, index: Any) -> bool:
        """Whether a box holds given numbers that may be replaced."""
        items = self.graph.items
        if not isinstance(index, int) or not 0 <= index < len(items) or items[index].is_operation:
            return False
        return np.asarray(items[index].value).dtype.kind == "f"

    def run(self, changes: Mapping[int, np.ndarray]) -> Graph:
        """The same graph with other numbers in some of its leaves; the recorded graph stays as it is.

        >>> import pellucid as torch
        >>> from pellucid.explorer.snapshot import look
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> program = look((x * x).sum()).program
        >>> program.run({0: np.array([3.0, 2.0])}).items[0].grad
        array([6., 4.], dtype=float32)
        """
        if not self.proven:
            self._prove()
        return self._run(changes)

    def _prove(self) -> None:
        """Run unchanged once: a row that draws random numbers, say, would show here."""
        again = self._run({})
        for old, new in zip(self.graph.items, again.items, strict=True):
            if not np.allclose(_real(old.value), _real(new.value), rtol=1e-4, atol=1e-6, equal_nan=True):
                raise Unrepeatable(f"{old.called} came out differently when it was run again")
        self.proven = True

    def _run(self, changes: Mapping[int, np.ndarray]) -> Graph:
        from pellucid.explorer.tensors import tensor_graph

        if not self.repeatable:
            raise Unrepeatable("not everything that this graph was computed from is known")
        with watching(names=False) as watch, np.errstate(all="ignore"):
            run = _Run(self.builder, watch)
            for item in self.graph.items:
                run.take(item, changes.get(item.index))
        nobody: Any = SimpleNamespace(f_locals={}, f_globals={})
        graph = tensor_graph(run.made[self.graph.root], Names(nobody), watch, {}, self.gradient)
        if _shape_of(graph) != _shape_of(self.graph):
            raise Unrepeatable("the operations did not give the same graph when they were run again")
        for old, new in zip(self.graph.items, graph.items, strict=True):
            for field in TOLD:
                setattr(new, field, getattr(old, field))
        return graph


class _Run:
    """One run: the tensors made so far, by the number of their box."""

    def __init__(self, builder: "Builder", watch: Watch) -> None:
        self.builder, self.watch = builder, watch
        self.made: dict[int, Any] = {}
        self.behind: dict[int, Any] = {}  # results that are not drawn, by the identity of the recorded array

    def take(self, item: Item, changed: np.ndarray | None) -> None:
        self.made[item.index] = self.computed(item) if item.is_operation else self.given(item, changed)

    def given(self, item: Item, changed: np.ndarray | None) -> Tensor:
        recorded = np.asarray(item.value)
        array = np.array(recorded if changed is None else changed, recorded.dtype).reshape(recorded.shape)
        tensor: Any = wrap(array)
        if item.row == "constant":
            self.watch.names[id(array)] = item.name or "constant"  # without a name it would stand in the formula
            return tensor  # type: ignore[no-any-return]
        return tensor.requires_grad_()  # type: ignore[no-any-return]

    def computed(self, item: Item) -> Any:
        inputs = [self.input(item, slot, source) for slot, source in enumerate(item.inputs)]
        if item.row == "detach":
            return inputs[0].detach()
        if item.row == "pick":
            return inputs[0][item.result]
        made = called(item.row, inputs, item.arguments)
        return made if not isinstance(made, tuple) or item.picked else made[item.result]

    def input(self, item: Item, slot: int, source: Any) -> Any:
        if isinstance(source, Item):
            return self.made[source.index]
        return self.hidden(item.hidden[slot]) if slot in item.hidden else source

    def hidden(self, tensor: Tensor) -> Any:
        """A tensor that one of our operations made for itself, or was given."""
        item = self.builder.drawn(tensor)
        if item is not None:
            return self.made[item.index].detach()
        key = id(tensor.array)
        made = self.builder.watch.without_graph.get(key)
        if made is None:
            return tensor
        if key not in self.behind:
            call, number = made
            result = called(call.primitive.name, [self.hidden(each) for each in call.inputs], call.params)
            self.behind[key] = result[number] if isinstance(result, tuple) else result
        return self.behind[key]


def called(row: str, inputs: list[Any], params: tuple[Any, ...]) -> Any:
    """A row of the table on some inputs."""
    return BOUND[row](inputs, *params) if TABLE[row].variadic else BOUND[row](*inputs, *params)


def _is_known(item: Item) -> bool:
    if not item.is_operation:
        return item.value is not None
    if any(source is None and slot not in item.hidden for slot, source in enumerate(item.inputs)):
        return False
    return item.row in ("detach", "pick") or (item.row in BOUND and bool(item.inputs))


def _shape_of(graph: Graph) -> Any:
    """What must be the same again: rows, uses and the steps of backward."""
    uses = [(edge.source, edge.target, edge.slot) for edge in graph.edges]
    return [item.row for item in graph.items], uses, [move.item for move in graph.moves], graph.root


def _real(value: Any) -> Any:
    array = np.asarray(0.0 if value is None else value)
    return array if array.dtype.kind in "fcb" else array.astype(np.float64)
