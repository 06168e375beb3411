"""One differentiated call: the arguments that it makes of the user's, and what of it is seen from outside.

The tape has no levels: what keeps nested calls apart is that every call differentiates with respect to tensors that
it made itself (`Argument`), and that a walk goes only where these targets are. Where a call is nested in another one,
its result is recorded (create_graph), otherwise it has no graph and costs no more than one backward.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pellucid.core import modes
from pellucid.core.backward import oldest_first
from pellucid.core.careful import seen_from
from pellucid.core.primitive import Primitive, edges_of, same
from pellucid.core.provenance import here
from pellucid.core.tensor import Leaf, Node, Tensor, wrap
from pellucid.core.views import current_array, current_node
from pellucid.errors import explain
from pellucid.transforms.forward import zeros_like
from pellucid.transforms.tree import map_tree


def _no_forward(*_: Any) -> Any:
    raise AssertionError("an argument is never run")


ARGUMENT = Primitive("argument", _no_forward, (same,), None, edges=edges_of((same,)), grad_name="ArgumentBackward0")


class Argument(Leaf):
    """A leaf within the function; seen from outside, a step that passes the gradient on to the tensor it stands for."""

    __slots__ = ()

    def __init__(self, tensor: Tensor, source: Node) -> None:
        super().__init__(tensor, here())
        self.primitive = ARGUMENT
        self.inputs = (source,)
        self.saved = (None,)


class Scope:
    """One differentiated call: the arguments it made, and whether anything outside wants to see its graph."""

    def __init__(self) -> None:
        self.outer = modes.current()
        self.own: set[Node] = set()
        self.known: dict[int, tuple[Tensor, Tensor]] = {}  # what a tensor in the call is outside; kept for its id

    def argument(self, value: Any) -> Tensor:
        """A tensor of this call's own that stands for one of the user's."""
        if not isinstance(value, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(value)}")
        tensor = wrap(current_array(value))
        if np.dtype(tensor.array.dtype).kind in "biu":
            raise RuntimeError(
                explain(
                    f"only Tensors of floating point and complex dtype can require gradients, not {tensor.dtype}",  # type: ignore[attr-defined]
                    str(here()),
                    try_="convert it first, e.g. x.float(), or leave it out of argnums",
                )
            )
        source = current_node(value) if self.outer.grad else None
        tensor.node = Leaf(tensor, here()) if source is None else Argument(tensor, source)
        self.own.add(tensor.node)
        self.known[id(tensor)] = (tensor, value)
        return tensor

    def seen_outside(self, tensors: Iterable[Tensor]) -> bool:
        """Whether somebody outside could differentiate these tensors: a leaf that is not ours took part."""
        if not self.outer.grad:
            return False
        roots = [node for node in (current_node(tensor) for tensor in tensors) if node is not None]
        return any(isinstance(node, Leaf) and type(node) is not Argument and node not in self.own
                   for node in oldest_first(roots))  # fmt: skip

    def release(self, tree: Any) -> Any:
        """What the call hands out: without graph, unless it is part of a larger one."""
        return map_tree(lambda leaf: self._released(leaf) if isinstance(leaf, Tensor) else leaf, tree)

    def _released(self, tensor: Tensor) -> Tensor:
        if id(tensor) not in self.known:
            self.known[id(tensor)] = (tensor, self._outside(tensor))
        return self.known[id(tensor)][1]

    def _outside(self, tensor: Tensor) -> Tensor:
        """A tensor as it is outside: an argument is the user's own again, a view one of what its base is there."""
        node, view = current_node(tensor), tensor.window
        base = None if view is None else self._released(view.base)
        seen = node is None or self.seen_outside([tensor])
        if seen and (view is None or base is view.base):
            return tensor
        out = wrap(current_array(tensor), node if seen else None, tensor.cut)
        if view is None or base is None:
            return out
        before = base.window
        start, steps, forbids = (base, (), "") if before is None else (before.base, before.steps, before.forbids)
        with modes.recording(self.outer.grad):
            return seen_from(out, start, (*steps, *view.steps), view.forbids or forbids, before)


def recording() -> Any:
    """Record inside a differentiated function whatever the mode outside."""
    return modes.switched(grad=True, inference=False)


def chosen(args: tuple[Any, ...], argnums: Any) -> tuple[int, ...]:
    """The positions of the differentiated arguments, checked."""
    if not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    if not numbers:
        raise RuntimeError("argnums must be non-empty")
    for n in numbers:
        if not isinstance(n, int):
            raise RuntimeError(f"argnum must be int, got: {type(n)}")
        if not -len(args) <= n < len(args):
            raise RuntimeError(f"Got argnum={n}, but only {len(args)} positional inputs")
    positions = tuple(n % len(args) for n in numbers)
    if len(set(positions)) != len(positions):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return positions


def replaced(args: tuple[Any, ...], positions: Sequence[int], values: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments with some of them replaced."""
    result = list(args)
    for position, value in zip(positions, values, strict=True):
        result[position] = value
    return tuple(result)


def without_aux(returned: Any, has_aux: bool, api: str) -> tuple[Any, Any]:
    """The output of a function and what it returned beside it."""
    if not has_aux:
        return returned, None
    if not (isinstance(returned, tuple) and len(returned) == 2):
        raise RuntimeError(f"{api}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return returned


def filled(grads: Sequence[Tensor | None], inputs: Sequence[Tensor]) -> list[Tensor]:
    """Gradients with zeros where an input had no influence."""
    return [zeros_like(wrap(x.array)) if g is None else g for g, x in zip(grads, inputs, strict=True)]
