"""Views: tensors that look at the memory of another, and renew their history when that memory was changed."""

from typing import Any

import numpy as np

from pellucid.core import aliasing, modes
from pellucid.core.departures import joins
from pellucid.core.kinds import Kind
from pellucid.core.primitive import BOUND, Primitive
from pellucid.core.provenance import here
from pellucid.core.tensor import DeadEnd, Node, Tensor, View, bearing, extra_of, wrap
from pellucid.errors import explain


def current_node(tensor: Tensor) -> Node | None:
    """The node of a tensor; a view whose base was changed in place gets its history anew from the base."""
    view = tensor.window
    if view is None:
        return tensor.node
    base = view.base
    if base.node is view.base_node and (base.array is view.base_array or isinstance(tensor.array, np.ndarray)):
        return tensor.node
    _refresh(tensor, view)
    return tensor.node


def receiving_node(tensor: Tensor) -> Node | None:
    """The node of a tensor, if gradients that arrive there come to something: at a dead end they do not."""
    node = current_node(tensor)
    return None if type(node) is DeadEnd else node


def current_array(tensor: Tensor) -> Any:
    """The array of a tensor; a view over a kind of array is taken anew from its base (kinds are immutable)."""
    view = tensor.window
    if view is not None and view.base.array is not view.base_array and isinstance(view.base.array, Kind):
        _refresh(tensor, view)
    mode = modes.MODE.get()
    if mode is not None and mode.tracer is not None:
        mode.tracer.lift(tensor)
    return tensor.array


def _refresh(tensor: Tensor, view: View) -> None:
    base = view.base
    if isinstance(tensor.array, np.ndarray) and isinstance(base.array, np.ndarray):
        write = aliasing.write_to(tensor.array)
        if write is None or write.tick < view.born:  # the base changed by requires_grad_, not by a write
            return
    if view.forbids and current_node(base) is not None:
        raise RuntimeError(
            explain(
                "a view was used whose base or another view of its base has been modified inplace",
                str(here()),
                view.forbids,
                "clone() the view when it is made, or change the base by an out-of-place operation",
            )
        )
    with modes.switched(grad=True, inference=False, anomaly=False, saved_hooks=(), observers=()):
        replayed = replay(base, view.steps)
    tensor.array = replayed.array
    follow(tensor, replayed.node)
    view.base_node, view.base_array, view.born = base.node, base.array, aliasing.tick()


def replay(base: Tensor, steps: tuple[tuple[Primitive, tuple[Any, ...]], ...]) -> Tensor:
    """A view anew, with the history that its base has now; in PyTorch that is one step, whatever the view was."""
    made = wrap(base.array, current_node(base))
    for p, params in steps:
        made = BOUND[p.name](made, *params)
    return bearing("AsStridedBackward0", made) if made.array.dtype == base.array.dtype else made


def follow(tensor: Tensor, node: Node | None) -> None:
    """Give a tensor its new node; if it retains its gradient, that is now the gradient of the new value."""
    old = tensor.node
    if node is not None and old is not None and old.extra is not None and old.extra.retain is not None:
        extra_of(node).retain, old.extra.retain = old.extra.retain, None
    tensor.node = node


def shares_memory(y: Any, x: Any) -> bool:
    if isinstance(y, np.ndarray) and isinstance(x, np.ndarray):
        return y.base is not None and aliasing.owner_of(y) is aliasing.owner_of(x)
    return isinstance(y, Kind)


def view_of(input: Tensor, p: Primitive, params: tuple[Any, ...], forbids: str = "") -> View:
    """The view that a step from `input` makes: from the same base, one step further."""
    before = input.window
    if before is None:
        return View(input, ((p, params),), forbids)
    return View(before.base, (*before.steps, (p, params)), before.forbids or forbids)


def lead_nowhere(tensor: Tensor) -> None:
    """Let a view that was made while nothing was recorded require grad if its base does, as PyTorch has it.

    Where it is used, a graph goes on that does not lead to the base; the ledger knows which line cut it off.
    """
    view = tensor.window
    if view is not None and view.base.node is not None and tensor.array.dtype.kind not in "biu":
        joins(tensor.cut)  # the leaf is the node that is born next
        tensor.node = DeadEnd(tensor, here())
