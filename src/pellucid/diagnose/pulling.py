"""A recorded graph read without changing it: what each operation does to a gradient, nothing freed or written."""

from collections.abc import Container, Iterable
from typing import Any

import numpy as np

from pellucid.core.backward import SELECTIVE, fold
from pellucid.core.keep import arguments
from pellucid.core.kinds import Kind
from pellucid.core.provenance import Place
from pellucid.core.saved import saved_values
from pellucid.core.tensor import PICK, Bundle, Freed, Node
from pellucid.errors import FreedGraphError, explain

__all__ = ["Puller", "added", "norm", "refuse_freed"]

Sent = tuple[int, Node, Any]  # the number of an input, its node, the gradient that goes there


class Puller:
    """Pulls gradients back through single nodes. Hooks are not run: this is the derivative, not the `.grad`."""

    def __init__(self) -> None:
        self._fetched: dict[Node, Any] = {}

    def saved(self, node: Node) -> Any:
        """What a node kept, checked. What a saved-tensor hook fetched (a checkpoint's rerun) is fetched only once."""
        if node in self._fetched:
            return self._fetched[node]
        values = saved_values(node)
        if node.extra is not None and node.extra.unpack is not None:
            self._fetched[node] = values
        return values

    def pull(self, node: Node, g: Any, only: Container[Node] | None = None, index: int | None = None) -> list[Sent]:
        """What a node makes of a gradient for each of its inputs (for those in `only`, or for one input)."""
        parents = {
            i: parent
            for i, parent in enumerate(node.inputs)
            if parent is not None and (only is None or parent in only) and index in (None, i)
        }
        return [
            (i, parents[i], d if d.shape == parents[i].shape else fold(d, parents[i].shape, node))
            for i, d in self.results(node, g, parents)
        ]

    def results(self, node: Node, g: Any, wanted: Container[int]) -> list[tuple[int, Any]]:
        """The gradients that the rules of a node give for its inputs, before broadcast ones are summed back."""
        p, saved = node.primitive, self.saved(node)
        g = g.listed() if type(g) is Bundle else g
        if p.pullback is None:
            return [(i, rule(g, *arguments(p, saved, i))) for i, rule, _ in p.edges if i in wanted]
        token = SELECTIVE.set(True)  # a reentrant checkpoint would fill the .grad of its leaves: it refuses
        try:
            return [(i, d) for i, d in enumerate(p.pullback(g, *saved[0])) if i in wanted and d is not None]
        finally:
            SELECTIVE.reset(token)

    def local(self, node: Node, one: Any) -> list[Sent]:
        """The derivatives of one result with respect to the inputs, where everything is a single number.

        One result among several is its own node (a pick); its inputs are those of the operation behind it.
        """
        if node.primitive is not PICK:
            return self.pull(node, one)
        (operation,), ((index, outputs),) = node.inputs, node.saved
        assert operation is not None
        return self.pull(operation, Bundle(index, one, outputs))


def added(gradients: Iterable[Any]) -> Any:
    """The sum of some gradients, none of which is changed."""
    first, *others = gradients
    if type(first) is Bundle and others:  # bundles add in place
        total: Any = Bundle(0, None, first.outputs)
        total.clear()
        others.insert(0, first)
    else:
        total = first
    for other in others:
        total = total + other
    return total


def inner(array: Any) -> Any:
    """The values inside of another kind of array (of a function under vmap)."""
    while isinstance(array, Kind):
        array = array.value  # type: ignore[attr-defined]
    return array


def is_one_number(g: Any) -> bool:
    """Whether a gradient is a single real number."""
    return type(g) is not Bundle and not isinstance(g, Kind) and np.size(g) == 1 and np.asarray(g).dtype.kind != "c"


def norm(g: Any) -> float:
    """The length of a gradient as a vector, of several together for an operation with several results.

    >>> f"{norm(np.array([3e200, 4e200])):.3g}"
    '5e+200'
    """
    if type(g) is Bundle:
        return float(np.linalg.norm([norm(part) for part in g.values()]))
    array = np.asarray(inner(g))
    array = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64, copy=False).ravel()
    largest = float(np.abs(array).max(initial=0.0))
    if array.size <= 1 or largest == 0 or not np.isfinite(largest):
        return largest
    scale = 1.0 if 1e-150 < largest < 1e150 else largest  # squares of others would leave the range of numbers
    return scale * float(np.linalg.norm(array / scale if scale != 1 else array))


def refuse_freed(nodes: Iterable[Node], what: str) -> None:
    """Say at once that a graph is gone, before anything was computed from it."""
    for node in nodes:
        if type(node.saved) is Freed:
            raise freed(node, node.saved.place, what)


def freed(node: Node, backward: Place, what: str) -> FreedGraphError:
    """The error for a graph whose values an earlier backward gave back."""
    message = explain(
        f"{what} needs the graph, but backward has freed it: {node.name()} has given its saved values back",
        f"backward ran at {backward}\n         the operation was recorded at {node.place}",
        "saved values are freed as backward uses them",
        f"call {what} before backward(), or keep the graph with backward(retain_graph=True)",
    )
    error = FreedGraphError(message)
    error.first, error.recorded_at = backward, node.place
    return error
