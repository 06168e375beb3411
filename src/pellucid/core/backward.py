"""The backward walk: newest node first, each rule once per input that wants a gradient.

`walk` carries gradients from the seeds to the leaves and touches no tensor; `commit` then writes all `.grad` at
once. An exception, a hook that fails or Ctrl-C in between leaves every `.grad` as it was.
"""

import operator
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from functools import lru_cache, partial
from operator import attrgetter
from threading import RLock
from typing import Any

import numpy as np

from pellucid.core import aliasing, modes
from pellucid.core.careful import Kind, current_node, first_bad, unpacked
from pellucid.core.keep import arguments
from pellucid.core.primitive import BOUND, INPUTS, kept_names, same
from pellucid.core.provenance import Place, here
from pellucid.core.tensor import ACCUMULATE, Bundle, Freed, Leaf, Node, Tensor, extra_of, pick, wrap
from pellucid.errors import AnomalyError, InplaceError, explain

ndarray = np.ndarray
add = np.add
BORN = attrgetter("born")
Gradients = dict[Node, Any]


def walk(seeds: Gradients, *, retain_graph: bool, create_graph: bool, targets: set[Node] | None = None) -> Gradients:
    """Carry gradients from the seeds to the leaves (or to the target nodes) and return what arrived there.

    Without create_graph the gradients are arrays and the rules compute at once; with it they are Tensors and the
    same rules are recorded. Saved values are given back as soon as they were used, unless retain_graph is set.
    """
    order = oldest_first(seeds)
    wanted = None if targets is None else leading_to(targets, order)
    spent = None if retain_graph else Freed(here())
    watch = Watch.if_needed()
    straight = not create_graph and wanted is None and watch is None
    grads = seeds
    landed: Gradients = {}
    ours: set[Node] = set()  # nodes whose gradient so far is an array that only this walk holds
    while order:
        node = order.pop()
        g = grads.pop(node, None)
        if g is None:
            continue
        extra, p, saved = node.extra, node.primitive, node.saved
        if extra is not None:
            g = on_gradient(node, g, create_graph)
        if p is ACCUMULATE or (extra is not None and extra.retain is not None) or (targets and node in targets):
            landed[node] = g
            if p is ACCUMULATE or (wanted is not None and wanted.isdisjoint(node.inputs)):
                continue
        if node.born < aliasing.latest or extra is not None or type(saved) is Freed:
            saved = saved_values(node)
        stretched = node.stretched
        edges: Any
        inputs: Sequence[Node | None]
        if straight and extra is None and p.pullback is None:
            edges, inputs = p.edges, node.inputs
        else:
            edges, inputs, saved = pulled(node, g, saved, create_graph, wanted, watch)
            stretched = True
        for i, rule, arity in edges:
            parent = inputs[i]
            if parent is None:
                continue
            if arity == 1:  # spelled out: a call with a star costs 0.15 µs more, zip over three tuples 0.3
                d = rule(g, saved[i])
            elif rule is same:
                d = g
            else:
                d = rule(g, *saved[i]) if arity else rule(g)
            if stretched and d.shape != parent.shape:
                d = fold(d, parent.shape, node)
            before = grads.get(parent)
            if before is None:
                grads[parent] = d
            elif parent in ours and type(d) is ndarray:  # the sum made below is nobody else's array: add to it in place
                add(before, d, before)
            else:
                d = grads[parent] = before + d
                if type(d) is ndarray:
                    ours.add(parent)
        if spent is not None and p.keeps:
            node.saved = spent
    return landed


def pulled(
    node: Node, g: Any, saved: Any, create_graph: bool, wanted: set[Node] | None, watch: "Watch | None"
) -> tuple[list[tuple[int, Any, int]], list[Node], list[Any]]:
    """The edges of a node that is not straightforward, with their gradients worked out already."""
    p = node.primitive
    if type(g) is Bundle:
        g = g.listed()
    if node.extra is not None and node.extra.before:
        g = before_node(node, g, create_graph)
        if g is None:
            return [], [], []
    if p.pullback is not None:
        results = p.pullback(g, *(lifted(node, p.pullback, saved[0]) if create_graph else saved[0]))
    else:
        results = []
        for i, rule, _ in p.edges:
            parent = node.inputs[i]
            if parent is None or (wanted is not None and parent not in wanted):
                results.append(None)
                continue
            values = arguments(p, saved, i)
            results.append(rule(g, *(lifted(node, rule, values) if create_graph else values)))
    if node.extra is not None and node.extra.after:
        results = after_node(node, results, g, create_graph)
    going = [
        (parent, d)
        for parent, d in zip(node.inputs, results, strict=True)
        if parent is not None and d is not None and (wanted is None or parent in wanted)
    ]
    if watch is not None:
        for parent, d in going:
            watch.step(node, g, parent, d)
    return (
        [(i, _passed_on, 1) for i in range(len(going))],
        [parent for parent, _ in going],
        [d for _, d in going],
    )


def _passed_on(g: Any, d: Any) -> Any:
    return d


# --- the order of the walk


def oldest_first(roots: Iterable[Node]) -> list[Node]:
    """Every node the roots depend on. Creation order is already a topological order."""
    found = set(roots)
    stack = list(found)
    while stack:
        for node in stack.pop().inputs:
            if node is not None and node not in found:
                found.add(node)
                stack.append(node)
    return sorted(found, key=BORN)


def leading_to(targets: set[Node], order: Sequence[Node]) -> set[Node]:
    """The nodes through which a gradient can reach a target."""
    wanted = set(targets)
    for node in order:
        if node not in wanted and any(parent in wanted for parent in node.inputs):
            wanted.add(node)
    return wanted


# --- what a node kept


def saved_values(node: Node) -> Any:
    """The kept values of a node, checked: not given back yet, not overwritten since."""
    saved = node.saved
    if type(saved) is Freed:
        raise RuntimeError(second_backward(node, saved))
    if not node.primitive.keeps:
        return saved
    if node.extra is not None:
        check_fingerprints(node)
        if node.extra.unpack is not None:
            return unpacked(saved)
    if node.born < aliasing.latest:
        check_writes(node, saved)
        check_exposed(node, saved)
    return saved


names_of = lru_cache(maxsize=None)(kept_names)


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


def fold(d: Any, shape: tuple[int, ...] | None, node: Node) -> Any:
    """Sum a broadcast gradient back to the shape it is the gradient of."""
    extra = len(d.shape) - len(shape or ())
    if shape is None or extra < 0 or any(n not in (1, m) for n, m in zip(shape, d.shape[extra:], strict=True)):
        raise RuntimeError(
            explain(
                f"{node.name()} returned a gradient of shape {tuple(d.shape)} for an input of shape {shape}",
                str(node.place),
                "a gradient has the shape of the tensor it belongs to",
                "sum over the dimensions that were broadcast in forward",
            )
        )
    axes = (*range(extra), *(i + extra for i, n in enumerate(shape) if n == 1 != d.shape[i + extra]))
    total = add.reduce(d, axes) if isinstance(d, (ndarray, np.generic)) else d.sum(axes)
    return total if total.shape == shape else total.reshape(shape)


# --- checks of what was kept


def named_values(node: Node, saved: Any) -> Iterable[tuple[str, Any]]:
    """Every array a node keeps, with the name its rule knows it by."""
    p = node.primitive
    if p.pullback is not None:
        kept: Iterable[tuple[str, Any]] = zip(names_of(p.pullback), saved[0], strict=False)
    else:
        kept = (
            pair
            for i, rule, _ in p.edges
            if node.inputs[i] is not None
            for pair in zip(names_of(rule), arguments(p, saved, i), strict=False)
        )
    for name, value in kept:
        for array in value if type(value) is tuple else (value,):
            if isinstance(array, (ndarray, Kind)):
                yield name, array


def check_writes(node: Node, saved: Any) -> None:
    """Refuse a kept array whose memory was written after the node was made."""
    for name, array in named_values(node, saved):
        write = aliasing.write_to(getattr(array, "value", array))
        if write is not None and write.tick > node.born:
            raise InplaceError(overwritten(node, name, array, write.operation, write.place))


def check_fingerprints(node: Node) -> None:
    """Refuse a kept array that was written through NumPy after it had been saved."""
    assert node.extra is not None
    for array, mark in node.extra.fingerprints:
        if aliasing.fingerprint(array) != mark:
            raise InplaceError(overwritten(node, "value", array, "NumPy (a write to an array that shares it)", None))


def check_exposed(node: Node, saved: Any) -> None:
    """Refuse a kept array that was exposed to NumPy after it had been saved, and written there."""
    for name, array in named_values(node, saved):
        if type(array) is ndarray:
            owner = aliasing.owner_of(array)
            exposure = aliasing.EXPOSED.get(id(owner))
            if exposure is not None and exposure[1] > node.born and exposure[2] is not None:
                if aliasing.fingerprint(owner) != exposure[2]:
                    by = "NumPy (a write to an array that shares it, from .numpy())"
                    raise InplaceError(overwritten(node, name, array, by, None))


ROLES = {
    "y": "its result", "a": "its first input", "b": "its second input", "c": "its third input",
    "kept": "a saved tensor",
}  # fmt: skip


def overwritten(node: Node, name: str, array: Any, by: str, place: Place | None) -> str:
    """The message PyTorch ends with "Good luck!"; ours ends with two lines of the user's."""
    what = ROLES.get(name, "one of its inputs")
    version = f", version {aliasing.version_of(array)}" if isinstance(array, ndarray) else ""
    return explain(
        f"backward of {node.primitive.name} needs {what}, but that was overwritten by {by}",
        f"saved at {node.place}" + (f"\n         overwritten at {place}" if place is not None else ""),
        "one of the variables needed for gradient computation has been modified by an inplace operation "
        f"(shape {tuple(array.shape)}{version})",
        f"use the out-of-place form there, or change a copy: {what.split()[-1]}.clone()",
    )


def second_backward(node: Node, freed: Freed) -> str:
    """A graph was walked twice: name both walks and the op whose values are gone."""
    return explain(
        f"Trying to backward through the graph a second time: {node.name()} has given its saved values back",
        f"the first backward ran at {freed.place}\n         the operation was recorded at {node.place}",
        "saved values are freed as backward uses them",
        "backward(retain_graph=True) the first time, one combined loss (loss_a + loss_b).backward(), "
        "or detach() what is carried over from an earlier step",
    )


# --- hooks


def as_tensor(g: Any) -> Tensor:
    """A gradient as the user sees it."""
    return g if isinstance(g, Tensor) else wrap(g if isinstance(g, Kind) else np.asanyarray(g))


def _grad_outputs(g: Any) -> tuple[Tensor | None, ...]:
    """The gradients of a node's results, as the hooks of a node see them."""
    return tuple(None if part is None else as_tensor(part) for part in (g if isinstance(g, list) else (g,)))


def _like(value: Any, create_graph: bool) -> Any:
    """A gradient as the walk carries it."""
    return value if create_graph or value is None else value.array


def on_gradient(node: Node, g: Any, create_graph: bool) -> Any:
    """Run the hooks that see the gradient of a tensor; of a leaf also its node's, which has nothing to run itself."""
    extra = node.extra
    assert extra is not None
    if extra.on_gradient:
        with modes.recording(create_graph):
            for hook in list(extra.on_gradient.values()):
                changed = hook(as_tensor(g))
                if changed is not None:
                    g = _like(checked(changed, as_tensor(g), hook, node), create_graph)
    return before_node(node, g, create_graph) if extra.before and node.primitive is ACCUMULATE else g


def before_node(node: Node, g: Any, create_graph: bool) -> Any:
    """Run the hooks that see what comes into a node, after a retained gradient was taken."""
    assert node.extra is not None
    with modes.recording(create_graph):
        for hook in list(node.extra.before.values()):
            changed = hook(shown(g))
            if changed is not None:
                parts = [_like(d, create_graph) for d in checked_all(changed, shown(g), hook, node)]
                g = parts if isinstance(g, list) else parts[0]
    return g


def after_node(node: Node, results: Sequence[Any], g: Any, create_graph: bool) -> Sequence[Any]:
    """Run the hooks that see what a node sends on."""
    assert node.extra is not None
    with modes.recording(create_graph):
        for hook in list(node.extra.after.values()):
            sent = shown(list(results))
            changed = hook(sent, shown(g))
            if changed is not None:
                results = [_like(d, create_graph) for d in checked_all(changed, sent, hook, node)]
    return results


def shown(g: Any) -> tuple[Tensor | None, ...]:
    """The gradients at a node as a hook sees them."""
    return tuple(None if part is None else as_tensor(part) for part in (g if isinstance(g, list) else (g,)))


def checked_all(changed: Any, before: Sequence[Tensor | None], hook: Any, node: Node) -> list[Tensor | None]:
    """What a node's hook returned, if it is a tuple of as many gradients as it was given."""
    if not isinstance(changed, tuple):
        raise TypeError(f"expected tuple, but hook returned {type(changed).__name__!r}")
    if len(changed) != len(before):
        raise RuntimeError(
            explain(
                f"hook {hook_name(hook)} has returned an incorrect number of values "
                f"(got {len(changed)}, but expected {len(before)})",
                str(node.place),
            )
        )
    return [
        None if d is None else checked(d, old if old is not None else d, hook, node)
        for d, old in zip(changed, before, strict=True)
    ]


def checked(changed: Any, before: Tensor, hook: Any, node: Node) -> Tensor:
    """What a hook returned, if it is a Tensor of the right shape and dtype."""
    if not isinstance(changed, Tensor):
        raise TypeError(f"expected Variable, but hook returned {type(changed).__name__!r}")
    for what, old, new in (
        ("size", tuple(before.array.shape), tuple(changed.array.shape)),
        ("type", before.array.dtype, changed.array.dtype),
    ):
        if old != new:
            raise RuntimeError(
                explain(
                    f"hook {hook_name(hook)} has changed the {what} of value (was {old}, got {new})",
                    str(node.place),
                    "a gradient has the shape and dtype of its tensor",
                )
            )
    return changed


def hook_name(hook: Any) -> str:
    return repr(getattr(hook, "__name__", type(hook).__name__))


class Watch:
    """Looks at every step of a walk: anomaly mode's check and the observers'."""

    def __init__(self, mode: modes.Mode) -> None:
        self.check = mode.anomaly and mode.check_nan
        self.observers = mode.observers

    @classmethod
    def if_needed(cls) -> "Watch | None":
        mode = modes.MODE.get()
        return cls(mode) if mode is not None and (mode.anomaly or mode.observers) else None

    def step(self, node: Node, g: Any, parent: Node, d: Any) -> None:
        if self.check:
            check_backward(node, g, d)
        for observer in self.observers:
            observer.gradient(node, g, parent, d)


def check_backward(node: Node, g: Any, d: Any) -> None:
    """Anomaly mode: complain about a NaN or Inf that this node made out of a finite gradient."""
    array, incoming = getattr(d, "array", d), getattr(g, "array", g)
    bad = first_bad(array)
    if bad is None or isinstance(incoming, list) or first_bad(np.asarray(incoming)) is not None:
        return
    label, index = bad
    raise AnomalyError(
        explain(
            f"backward of {node.primitive.name} ({node.name()}) returned {label} at index {index}",
            str(node.place),
            f"the gradient that came in was finite, of shape {tuple(incoming.shape)}: "
            f"the derivative of {node.primitive.name} is not finite at the values it was called with",
            "keep its input away from the point where the derivative is infinite or undefined "
            "(an epsilon, clamp, or where on the input, not on the result)",
        )
    )


# --- writing the gradients down

SET_GRAD: Any = Tensor.__dict__["_grad"].__set__
COMMIT = RLock()


def commit(landed: Gradients, create_graph: bool) -> None:
    """Add every gradient to its tensor's `.grad`: all or none.

    The writes are prepared first and then run in one call into C, between whose steps Python delivers no
    KeyboardInterrupt. An existing `.grad` is added to in place, as PyTorch does.
    """
    with COMMIT:
        writes, hooked, before = [], [], []
        while landed:
            node, g = landed.popitem()
            tensor = _receiver(node)
            if tensor is None or g is None:
                continue
            extra = node.extra
            if extra is not None and isinstance(node, Leaf) and (extra.post_accumulate or extra.after):
                hooked.append((node, tensor, as_tensor(g)))
            before.append((tensor, tensor._grad))
            writes.append(prepared(tensor, g, create_graph))
            del g
        copies = [(t, old, None if old is None else old.array.copy()) for t, old in before] if hooked else []
        deque(map(operator.call, writes), maxlen=0)
        if hooked:
            post_accumulate(reversed(hooked), copies)


def _receiver(node: Node) -> Tensor | None:
    """The tensor whose `.grad` a node fills, if it is still alive."""
    if isinstance(node, Leaf):
        return node.tensor()
    return node.extra.retain() if node.extra is not None and node.extra.retain is not None else None


def prepared(tensor: Tensor, g: Any, create_graph: bool) -> Callable[[], Any]:
    """The write that gives one tensor its gradient, ready to run without failing."""
    old = tensor._grad
    if create_graph:
        g = g if g.array.dtype == tensor.array.dtype else g.to(tensor.dtype)
        return partial(SET_GRAD, tensor, g if old is None else old + g)
    if isinstance(g, Kind) or isinstance(tensor.array, Kind):
        return partial(SET_GRAD, tensor, wrap(g if old is None else old.array + g))
    if g.dtype != tensor.array.dtype:
        g = (g if tensor.array.dtype.kind == "c" else np.real(g)).astype(tensor.array.dtype)
    if old is None:
        return partial(SET_GRAD, tensor, wrap(own(g)))
    if old.node is None and isinstance(old.array, ndarray) and old.array.flags.writeable:
        aliasing.note_write(old.array, "backward (accumulation into .grad)")
        return partial(add, old.array, g, old.array)
    return partial(SET_GRAD, tensor, wrap(old.array + g))


# References to a gradient that nobody else holds: the name `g` in commit, prepared and own, getrefcount's argument.
OWN_REFERENCES = 4


def own(g: Any) -> np.ndarray:
    """An array that nobody else holds: a gradient that is also somebody else's (or a view) is copied."""
    if type(g) is not ndarray or g.base is not None or sys.getrefcount(g) > OWN_REFERENCES or not g.flags.c_contiguous:
        return copied(g)
    return g


def copied(g: Any) -> Any:
    """A copy in C order, of the same kind of array; of a NumPy scalar an array."""
    return g.copy() if isinstance(g, ndarray) else np.array(g)


def post_accumulate(
    hooked: Iterable[tuple[Node, Tensor, Tensor]], before: Sequence[tuple[Tensor, Any, Any]]
) -> None:
    """Run the hooks that want to see a finished `.grad`; if one fails, put every gradient back."""
    try:
        for node, tensor, g in hooked:
            assert node.extra is not None
            for hook in list(node.extra.post_accumulate.values()):
                if hook(tensor) is not None:
                    raise TypeError(f"a post accumulate grad hook must return None: {hook_name(hook)} did not")
            for hook in list(node.extra.after.values()):
                hook((), (g,))
    except BaseException:
        for tensor, grad, values in before:
            tensor._grad = grad
            if grad is not None:
                grad.array[...] = values
        raise


# --- the public entrances


def seeds_of(tensors: Sequence[Tensor], gradients: Sequence[Any], create_graph: bool) -> Gradients:
    """The gradient each root starts with: given, or one for a scalar."""
    seeds: Gradients = {}
    for tensor, gradient in zip(tensors, gradients, strict=True):
        node = current_node(tensor)
        if node is None:
            raise RuntimeError(no_graph(tensor))
        seed = one_for(tensor) if gradient is None else given(tensor, gradient, create_graph)
        if create_graph and not isinstance(seed, Tensor):
            seed = wrap(seed)
        seeds[node] = seeds[node] + seed if node in seeds else seed
    return seeds


ONES = {np.dtype(t): np.ones((), t) for t in (np.float16, np.float32, np.float64)}


def one_for(tensor: Tensor) -> Any:
    """The gradient of a scalar with respect to itself."""
    array = tensor.array
    if array.size != 1:
        raise RuntimeError(
            explain(
                f"grad can be implicitly created only for scalar outputs, but this one has shape {tuple(array.shape)}",
                str(here()),
                "backward needs to know how much each element counts",
                "reduce it first, e.g. .sum() or .mean(), or pass gradient=torch.ones_like(y)",
            )
        )
    if np.dtype(array.dtype).kind == "c":
        raise RuntimeError(
            explain("grad can be computed only for real scalar outputs but got a complex one", str(here()))
        )
    if type(array) is not ndarray:
        return BOUND["zeros_like"](array) + 1
    one = None if array.shape else ONES.get(array.dtype)  # np.ones costs 1.5 µs, and every scalar loss asks for it
    return np.ones(array.shape, array.dtype) if one is None else one


def given(tensor: Tensor, gradient: Any, create_graph: bool) -> Any:
    """A gradient the user passed in, checked."""
    if not isinstance(gradient, Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(gradient).__name__}")
    if tuple(gradient.array.shape) != tuple(tensor.array.shape):
        raise RuntimeError(
            explain(
                f"Mismatch in shape: the gradient has shape {tuple(gradient.array.shape)} and the output has shape "
                f"{tuple(tensor.array.shape)}",
                str(here()),
            )
        )
    if gradient.array.dtype != tensor.array.dtype:
        gradient = gradient.to(tensor.dtype)
    return gradient if create_graph else gradient.array


def no_graph(tensor: Tensor) -> str:
    """Why a tensor cannot be differentiated: the line that cut its graph, if one did."""
    cut = tensor.cut
    why = "no tensor that requires grad took part in computing it"
    try_ = "set requires_grad=True on the tensors you want gradients of, before computing"
    if cut is not None and cut.entered is not None:
        if cut.by in ("no_grad", "set_grad_enabled", "inference_mode"):
            why = f"it was computed inside {cut.by}, entered at {cut.entered}"
            try_ = "move the computation out of that block"
        else:
            source = f" of {cut.source}" if cut.source else ""
            why = f"the graph was cut by {cut.by}{source} at {cut.entered}"
            try_ = CURES.get(cut.by, f"{cut.by} has no derivative: compute the loss from its input instead")
    return explain("element 0 of tensors does not require grad and does not have a grad_fn", str(here()), why, try_)


CURES = {
    "detach": "leave detach() out on the path to the loss",
    "data": "use the tensor itself instead of .data",
    "tensor": "use the tensor itself (or .clone()) instead of building a new one",
}


def backward(
    tensors: Sequence[Tensor],
    gradients: Sequence[Any],
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Sequence[Tensor] | None = None,
) -> None:
    """Add the gradients of the tensors to the `.grad` of the leaves they depend on (or of `inputs` only)."""
    retain = create_graph if retain_graph is None else retain_graph
    landed = walk_from(tensors, gradients, retain, create_graph, _targets(inputs))
    with modes.recording(True) if create_graph else NOTHING:
        commit(_receiving(landed, inputs), create_graph)


NOTHING: AbstractContextManager[None] = nullcontext()
SELECTIVE: ContextVar[bool] = ContextVar("pellucid_selective", default=False)  # a walk to some leaves only
LISTENERS: "weakref.WeakSet[Any]" = weakref.WeakSet()  # hooks over several tensors: they count what a walk will reach


def walk_from(
    tensors: Sequence[Tensor],
    gradients: Sequence[Any],
    retain_graph: bool,
    create_graph: bool,
    targets: set[Node] | None,
) -> Gradients:
    """Walk from the tensors with their gradients; with create_graph recording is on, whatever the mode around."""
    with modes.recording(True) if create_graph else NOTHING:
        seeds = seeds_of(tensors, gradients, create_graph)
        if targets is None and not LISTENERS:
            return walk(seeds, retain_graph=retain_graph, create_graph=create_graph)
        with announced(seeds, targets):
            return walk(seeds, retain_graph=retain_graph, create_graph=create_graph, targets=targets)


@contextmanager
def announced(seeds: Gradients, targets: set[Node] | None) -> Iterator[None]:
    """While a walk runs, let those know who must: that it goes to some leaves only, and which nodes it will reach."""
    with ExitStack() as stack:
        stack.callback(SELECTIVE.reset, SELECTIVE.set(targets is not None))
        if LISTENERS:
            order = oldest_first(seeds)
            reached = set(order) if targets is None else leading_to(targets, order).intersection(order)
            for listener in list(LISTENERS):
                stack.enter_context(listener.listening(reached))
        yield


def _targets(inputs: Sequence[Tensor] | None) -> set[Node] | None:
    """The nodes of the tensors whose gradients are asked for."""
    if inputs is None:
        return None
    nodes = [current_node(tensor) for tensor in inputs]
    if not nodes:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty")
    for node, tensor in zip(nodes, inputs, strict=True):
        if node is None:
            raise RuntimeError(
                explain(
                    f"One of the differentiated Tensors does not require grad (shape {tuple(tensor.array.shape)})",
                    str(here()),
                    try_="call requires_grad_() on it before computing with it",
                )
            )
    return set(nodes)  # type: ignore[arg-type]


def _receiving(landed: Gradients, inputs: Sequence[Tensor] | None) -> Gradients:
    """With `inputs`, gradients go to those tensors only, leaves or not."""
    if inputs is None:
        return landed
    asked = {current_node(tensor): tensor for tensor in inputs}
    for node, tensor in asked.items():
        if node is not None and not isinstance(node, Leaf):
            retain(node, tensor)
    return {node: g for node, g in landed.items() if node in asked}


def retain(node: Node, tensor: Tensor) -> None:
    """Keep the gradient of a tensor that is not a leaf."""
    extra_of(node).retain = weakref.ref(tensor)


def gradients(
    outputs: Sequence[Tensor],
    grad_outputs: Sequence[Any],
    inputs: Sequence[Tensor],
    retain_graph: bool,
    create_graph: bool,
) -> list[Tensor | None]:
    """The gradients of outputs with respect to inputs; only tensors that retain their gradient are written to."""
    landed = walk_from(outputs, grad_outputs, retain_graph, create_graph, _targets(inputs))
    results = [_returned(landed.get(current_node(tensor)), tensor) for tensor in inputs]  # type: ignore[arg-type]
    retained = {node: g for node, g in landed.items() if node.extra is not None and node.extra.retain is not None}
    if retained:
        commit(retained, create_graph)
    return results


def _returned(g: Any, tensor: Tensor) -> Tensor | None:
    """A gradient as the user gets it: a tensor of its own, of the input's dtype."""
    if g is None or isinstance(g, Tensor):
        return g
    if isinstance(g, Kind):
        return wrap(g)
    if g.dtype != tensor.array.dtype:
        g = (g if tensor.array.dtype.kind == "c" else np.real(g)).astype(tensor.array.dtype)
    return wrap(copied(g))
