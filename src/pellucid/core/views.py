"""Views: tensors that look at the memory of another, and renew their history when that memory was changed."""

from typing import Any

import numpy as np

from pellucid.core import aliasing, modes
from pellucid.core.departures import joins
from pellucid.core.kinds import Kind, memory_of
from pellucid.core.primitive import BOUND, Primitive
from pellucid.core.provenance import here
from pellucid.core.tensor import DeadEnd, Leaf, Node, Tensor, View, bearing, extra_of, wrap
from pellucid.errors import explain

Steps = tuple[tuple[Primitive, tuple[Any, ...]], ...]


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
    """The array of a tensor; a view whose base has become of another kind is taken anew from it."""
    view = tensor.window
    if view is not None and view.rebuilt():
        _refresh(tensor, view)
    mode = modes.MODE.get()
    if mode is not None and mode.tracer is not None:
        mode.tracer.lift(tensor)
    return tensor.array


def _refresh(tensor: Tensor, view: View) -> None:
    base = view.base
    if lost(view):  # whatever happens to the base now does not concern the view
        stand_in = before_it_left(view)
        if stand_in is None or stand_in.node is view.base_node:
            view.base_node = base.node if stand_in is None else stand_in.node
            return
        base = stand_in
    if not view.rebuilt():
        writes = [aliasing.write_to(array) for array in memory_of(tensor.array)]
        if not any(write is not None and write.tick >= view.born for write in writes):
            return  # the base changed by requires_grad_, not by a write
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
    view.renew(base)


def lost(view: View) -> bool:
    """Whether the base was given other memory (`.data = ...`) since the view was made: they are strangers now."""
    then, now = view.base_array, view.base.array
    if now is then or not isinstance(then, np.ndarray) or not isinstance(now, np.ndarray):
        return False
    return place_of(then) != place_of(now)


def place_of(array: np.ndarray) -> tuple[Any, ...]:
    """Which elements of the memory an array looks at."""
    return array.ctypes.data, array.shape, array.strides


def leave(base: Tensor) -> None:
    """Note the history of what a tensor holds before it is given other memory: views of it may not have it yet."""
    write = aliasing.write_to(base.array)
    if write is None or base.node is None or isinstance(base.node, Leaf):
        return  # no write has given it a history that its views do not have
    place = place_of(base.array)
    left = [entry for entry in left_by(base) if entry[0].owner() is not None and entry[1] != place]
    base._left = [*left, (write, place, base.node)]


def left_by(base: Tensor) -> Any:
    return getattr(base, "_left", None) or ()


def before_it_left(view: View) -> Tensor | None:
    """What a base that was given other memory held before, with the history of that; None if nobody knows of any."""
    place = place_of(view.base_array)
    found = [node for _, known, node in left_by(view.base) if known == place]
    return wrap(view.base_array, found[0]) if found else None


class Paired(View):
    """A view with a second base: a tensor of forward mode looks at its primal and at its tangent.

    The tangent stands among the params of the step that made the pair.
    """

    __slots__ = ("partners", "seen")

    def __init__(self, base: Tensor, steps: Steps, forbids: str, partners: tuple[Tensor, ...]) -> None:
        super().__init__(base, steps, forbids)
        self.partners = partners
        self.renew(self.base)

    def renew(self, source: Tensor) -> None:
        super().renew(source)
        self.base_node = UNKNOWN  # so that every use looks at what was written, to whichever of the two
        self.seen = [current_array(tensor) for tensor in self.partners]

    def rebuilt(self) -> bool:
        return super().rebuilt() or any(
            tensor.array is not array and isinstance(tensor.array, Kind)
            for tensor, array in zip(self.partners, self.seen, strict=True)
        )


UNKNOWN = object()


def way_in(tensor: Tensor, level: int) -> tuple[Steps, int | None]:
    """The steps by which a tensor looks at its base, and which of them leads into a level of a transform.

    None: the base is of the level itself.
    """
    steps: Steps = () if tensor.window is None else tensor.window.steps
    for at in reversed(range(len(steps))):
        p, params = steps[at]
        if p.boundary and params[-1] == level:
            return steps, at if p.boundary == "in" else None
    return steps, None


def way_out(steps: Steps) -> int | None:
    """Which step is the last to lead out of a level that the base itself is of."""
    entered, found = set(), None
    for at, (p, params) in enumerate(steps):
        if p.boundary == "in":
            entered.add(params[-1])
        elif p.boundary and params[-1] not in entered:
            found = at
    return found


def looking(base: Tensor, steps: Steps, forbids: str) -> View:
    """A view from a base by steps, some of which may lead into a level of a transform or out of it."""
    partners = tuple(value for p, params in steps if p.boundary for value in params if isinstance(value, Tensor))
    return Paired(base, steps, forbids, partners) if partners else View(base, steps, forbids)


def replay(base: Tensor, steps: Steps) -> Tensor:
    """A view anew, with the history that its base has now; in PyTorch that is one step, whatever the view was."""
    made = looked_up(wrap(base.array, current_node(base)), steps)
    return bearing("AsStridedBackward0", made) if made.array.dtype == base.array.dtype else made


def looked_up(start: Any, steps: Steps) -> Any:
    """What is seen from a tensor or an array by some steps."""
    for p, params in steps:
        start = BOUND[p.name](start, *params)
    return start


def follow(tensor: Tensor, node: Node | None) -> None:
    """Give a tensor its new node; if it retains its gradient, that is now the gradient of the new value."""
    old = tensor.node
    if node is not None and old is not None and old.extra is not None and old.extra.retain is not None:
        extra_of(node).retain, old.extra.retain = old.extra.retain, None
    tensor.node = node


def shares_memory(y: Any, x: Any) -> bool:
    """Whether what a view operation made is a view, or a copy where it could not be one."""
    mine, others = memory_of(y), memory_of(x)
    if not mine or not others:  # no memory at all: what would be a view is one
        return isinstance(y, Kind)
    owners = [aliasing.owner_of(array) for array in others]
    return any(aliasing.owner_of(array) is owner for array in mine for owner in owners)


def view_of(input: Tensor, p: Primitive, params: tuple[Any, ...], forbids: str = "") -> View:
    """The view that a step from `input` makes: from the same base, one step further."""
    before = input.window
    if before is None:
        return looking(input, ((p, params),), forbids) if p.boundary else View(input, ((p, params),), forbids)
    steps = (*before.steps, (p, params))
    if p.boundary or type(before) is not View:
        made = looking(before.base, steps, before.forbids or forbids)
    else:
        made = View(before.base, steps, before.forbids or forbids)
    made.base_array = before.base_array  # a base that is lost to the one is lost to the other
    return made


def lead_nowhere(tensor: Tensor) -> None:
    """Let a view that was made while nothing was recorded require grad if its base does, as PyTorch has it.

    Where it is used, a graph goes on that does not lead to the base; the ledger knows which line cut it off.
    """
    view = tensor.window
    if view is not None and view.base.node is not None and tensor.array.dtype.kind not in "biu":
        joins(tensor.cut)  # the leaf is the node that is born next
        tensor.node = DeadEnd(tensor, here())
