"""What a node kept: checked before it is used, and lifted to Tensors for higher order.

A kept value is refused when it was given back by an earlier backward, when its memory was written after the node was
made (the ledger of core/aliasing.py knows), or when a NumPy array outside changed it (core/exposure.py finds out).
"""

from collections.abc import Callable, Container, Iterable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from pellucid.core import aliasing, exposure, modes
from pellucid.core.keep import arguments
from pellucid.core.kinds import Kind, memory_of
from pellucid.core.packing import Packed, leaves_of, packed_value, unpacked
from pellucid.core.primitive import BOUND, INPUTS, Primitive, as_written, kept_names
from pellucid.core.provenance import Place
from pellucid.core.tensor import Freed, Leaf, Node, Tensor, extra_of, pick, wrap
from pellucid.errors import FreedGraphError, InplaceError, explain

ndarray = np.ndarray


def saved_values(node: Node, g: Any = None) -> Any:
    """The kept values of a node for a gradient, checked: not given back yet, not overwritten since."""
    saved = node.saved
    if type(saved) is Freed:
        raise second_backward(node)
    if not node.primitive.keeps:
        return saved
    if node.extra is not None and node.extra.unpack is not None:
        return unpacked(saved)
    if node.born < aliasing.latest:
        saved = check_writes(node, saved, g)
        if aliasing.EXPOSED:
            check_exposed(node, saved)
    return saved


names_of = cache(kept_names)


def lifted(node: Node, rule: Any, values: Sequence[Any]) -> tuple[Any, ...]:
    """For higher order: a rule's saved arrays as Tensors again, each joined to the node it came from."""
    homes = dict(zip(INPUTS, node.inputs, strict=False))
    result = list(values)
    for i, name in enumerate(names_of(rule)):
        value = values[i]
        if name == "inputs":
            result[i] = tuple(wrap(v, home) for v, home in zip(value, node.inputs, strict=True))
        elif name == "y" and type(value) is tuple:
            result[i] = tuple(_lift_output(node, k, v, len(value)) for k, v in enumerate(value))
        elif name == "y":
            result[i] = wrap(value, node)
        elif name in homes:
            result[i] = wrap(value, homes[name])
    return tuple(result)


def _lift_output(node: Node, index: int, value: Any, outputs: int) -> Tensor:
    differentiable = np.dtype(value.dtype).kind not in "biu"
    return wrap(value, pick(node, index, outputs, tuple(value.shape)) if differentiable else None)


# PyTorch's names for what it saves, and ours.
SAVED = {
    "self": "a", "input": "a", "mat1": "a", "result": "y",
    "other": "b", "mat2": "b", "weight": "b", "exponent": "b", "target": "b",
}  # fmt: skip


def saved_attribute(node: Node, name: str, known: str) -> Tensor:
    """`node._saved_self`, `_saved_result` and their kin: a kept value as a tensor, the user's own where it is a leaf.

    >>> import pellucid as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> y = x * x
    >>> y.grad_fn._saved_self is x, x.exp().grad_fn._saved_result
    (True, tensor(20.0855, grad_fn=<ExpBackward0>))
    """
    exposure.user_code_ran()
    found = dict(named_values(node, saved_values(node))).get(known)
    if found is None:
        raise AttributeError(f"'{node.name()}' object has no attribute '{name}'", name=name, obj=node)
    home = node if known == "y" else dict(zip(INPUTS, node.inputs, strict=False)).get(known)
    if isinstance(home, Leaf) and home.variable is not None and home.variable.array is found:
        return home.variable
    return wrap(found, home)


class SavedTensor:
    """One kept value of a node, so that hooks can put it somewhere else: PyTorch's `node._raw_saved_self`.

    >>> import pellucid as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> y = x.exp()
    >>> y.grad_fn._raw_saved_result.register_hooks(lambda kept: kept.item(), torch.tensor)
    >>> y.backward()
    >>> x.grad
    tensor(20.0855)
    """

    __slots__ = ("_node", "_paths")

    def __init__(self, node: Node, paths: Sequence[tuple[int, ...]]) -> None:
        self._node = node
        self._paths = paths  # where in node.saved the value stands: several rules may keep it

    def register_hooks(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        """Keep what `pack_hook` makes of the value; backward gets what `unpack_hook` makes of that."""
        if not callable(pack_hook) or not callable(unpack_hook):
            raise TypeError("register_hooks(): incompatible function arguments: two functions are expected")
        node = self._node
        if type(node.saved) is Freed:
            raise second_backward(node)
        value = _at(node.saved, self._paths[0])
        if value is None:
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
        if isinstance(value, Packed):
            raise RuntimeError("Calling register_hooks on a saved tensor whose hooks have already been set")
        packed = packed_value(value, pack_hook, unpack_hook, leaves_of(node))
        for path in self._paths:
            node.saved = _with(node.saved, path, packed)
        extra_of(node).unpack = unpack_hook


def _at(saved: Any, path: tuple[int, ...]) -> Any:
    for i in path:
        saved = saved[i]
    return saved


def _with(saved: Any, path: tuple[int, ...], value: Any) -> Any:
    """A tree of tuples with one place filled anew."""
    if not path:
        return value
    first, *rest = path
    return (*saved[:first], _with(saved[first], tuple(rest), value), *saved[first + 1 :])


def raw_saved_attribute(node: Node, name: str, known: str) -> SavedTensor:
    """`node._raw_saved_self`, `_raw_saved_result` and their kin: the place where a value is kept."""
    p = node.primitive
    paths: list[tuple[int, ...]]
    if p.pullback is not None:
        paths = [(0, k) for k, kept in enumerate(names_of(p.pullback)) if kept == known]
    else:
        wanted = [(i, rule) for i, rule in enumerate(p.rules) if rule is not None and node.inputs[i] is not None]
        paths = [
            (i,) if p.edges[i][2] == 1 else (i, k)
            for i, rule in wanted
            for k, kept in enumerate(names_of(rule))
            if kept == known
        ]
    if not paths:
        raise AttributeError(f"'{node.name()}' object has no attribute '{name}'", name=name, obj=node)
    return SavedTensor(node, paths)


for _name, _known in SAVED.items():  # properties: a `__getattr__` would make every attribute of a node slow to read
    setattr(Node, f"_saved_{_name}", property(partial(saved_attribute, name=f"_saved_{_name}", known=_known)))
    _raw = f"_raw_saved_{_name}"
    setattr(Node, _raw, property(partial(raw_saved_attribute, name=_raw, known=_known)))


def call_node(node: Node, *grads: Any) -> Any:
    """`node(gradient)`: one step of backward by hand. Gradients of the results in, gradients of the inputs out.

    >>> import pellucid as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> (x * 3).grad_fn(torch.tensor(10.0))
    (tensor(30.), None)
    """
    if isinstance(node, Leaf):
        return None if node.variable is None else node.variable.backward(*grads)
    create_graph = modes.is_grad_enabled()
    parts = [g if create_graph or g is None else g.array for g in grads]
    if node.shape is not None and len(parts) != 1:
        raise TypeError(f"{node.name()}: expected 1 arguments, got {len(parts)} instead")
    g = parts if node.shape is None else parts[0]
    exposure.user_code_ran()
    results = by_rules(node, g, saved_values(node, g), create_graph)
    found = tuple(d if d is None or isinstance(d, Tensor) else wrap(np.asanyarray(d)) for d in results)
    return found[0] if len(found) == 1 else found


def by_rules(node: Node, g: Any, saved: Any, create_graph: bool, wanted: Container[Node] | None = None) -> Any:
    """The gradients of a node's inputs, before they are summed to the inputs' shapes; None where none is wanted."""
    p = node.primitive
    if p.pullback is not None:
        return p.pullback(g, *(lifted(node, p.pullback, saved[0]) if create_graph else saved[0]))
    results: list[Any] = []
    for i, rule in enumerate(p.rules):
        parent = node.inputs[i]
        if rule is None or parent is None or (wanted is not None and parent not in wanted):
            results.append(None)
            continue
        values = arguments(p, saved, i)
        results.append(rule(g, *(lifted(node, rule, values) if create_graph else values)))
    return results


Node.__call__ = call_node  # type: ignore[method-assign]


def named_values(node: Node, saved: Any) -> Iterable[tuple[str, Any]]:
    """Every array a node keeps, with the name its rule knows it by."""
    p = node.primitive
    if p.pullback is not None:
        kept: Iterable[tuple[str, Any]] = zip(names_of(p.pullback), saved[0], strict=False)
    else:
        kept = (
            pair
            for i, rule in enumerate(p.rules)
            if node.inputs[i] is not None
            for pair in zip(names_of(rule), arguments(p, saved, i), strict=False)
        )
    for name, value in kept:
        for array in value[p.unread if name == "y" else 0 :] if type(value) is tuple else (value,):
            if isinstance(array, (ndarray, Kind)):
                yield name, array


def check_writes(node: Node, saved: Any, g: Any) -> Any:
    """The kept values, if nobody wrote to their memory after the node was made; else they are renewed or refused."""
    stale = False
    for name, array in named_values(node, saved):
        for held in memory_of(array):
            write = aliasing.write_to(held)
            if write is None or write.tick <= node.born or not write.harms(held, node.born):
                continue
            if isinstance(array, Kind) and all(held is not read for read in array.read_by(g, node)):
                continue
            if name != "y" or not node.primitive.renews:
                raise overwritten(node, name, array, write.operation, write.place)
            stale = True
    return _renewed(node.primitive, saved) if stale else saved


def _renewed(p: Primitive, saved: Any) -> Any:
    """Kept values with the result computed again from the inputs, for rows where PyTorch keeps the inputs alone."""
    names, values = names_of(p.pullback or p.rules[0]), saved[0]
    known = dict(zip(names, values, strict=False))
    known["y"] = BOUND[p.name](known["inputs" if p.variadic else "a"], *values[len(names) :])
    return ((*known.values(), *values[len(names) :]), *saved[1:])


def check_exposed(node: Node, saved: Any) -> None:
    """Refuse a kept array that NumPy has changed since the node was made."""
    for name, array in named_values(node, saved):
        if any(exposure.written_outside(memory, node.born) for memory in memory_of(array)):
            by = "NumPy (a write to an array that shares its memory)"
            raise overwritten(node, name, array, by, None)


ROLES = {
    "y": "its result", "a": "its first input", "b": "its second input", "c": "its third input",
    "kept": "a saved tensor",
}  # fmt: skip


def overwritten(node: Node, name: str, array: Any, by: str, place: Place | None) -> InplaceError:
    """The error whose message PyTorch ends with "Good luck!"; ours ends with two lines of the user's."""
    what = ROLES.get(name, "one of its inputs")
    version = f", version {aliasing.version_of(array)}" if isinstance(array, ndarray) else ""
    message = explain(
        f"backward of {as_written(node.primitive.name)} needs {what}, but that was overwritten by {by}",
        f"saved at {node.place}" + (f"\n         overwritten at {place}" if place is not None else ""),
        "one of the variables needed for gradient computation has been modified by an inplace operation "
        f"(shape {tuple(array.shape)}{version})",
        "use the out-of-place form there (y = y + 1 instead of y += 1), or write to a clone() of it",
    )
    error = InplaceError(message)
    error.saved_at, error.written_at = node.place, place
    return error


def second_backward(node: Node) -> FreedGraphError:
    """A graph was walked twice: name both walks and the op whose values are gone."""
    freed: Freed = node.saved
    message = explain(
        f"Trying to backward through the graph a second time: {node.name()} has given its saved values back",
        f"the first backward ran at {freed.place}\n         the operation was recorded at {node.place}",
        "saved values are freed as backward uses them",
        "backward(retain_graph=True) the first time, one combined loss (loss_a + loss_b).backward(), "
        "or detach() what is carried over from an earlier step",
    )
    error = FreedGraphError(message)
    error.first, error.recorded_at = freed.place, node.place
    return error
