"""The backward walk: newest node first, each rule once per input that wants a gradient.

`walk` carries gradients from the seeds to the leaves and touches no tensor; `commit` then writes all `.grad` at
once. An exception, a hook that fails or Ctrl-C in between leaves every `.grad` as it was.
"""

import operator
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from heapq import heapify, heappop, heappush, heappushpop
from itertools import starmap
from operator import attrgetter, iadd
from threading import RLock
from typing import Any

import numpy as np

from pellucid import dtypes
from pellucid.core import aliasing, exposure, large, modes
from pellucid.core.commit import quietly, run_all
from pellucid.core.departures import RUNS, last_outward
from pellucid.core.hooks import Watch, after_node, as_tensor, before_node, on_gradient, post_accumulate, tell_backward
from pellucid.core.kinds import Kind
from pellucid.core.large import LARGE, added_up, gather, leading_sum
from pellucid.core.primitive import BOUND, same
from pellucid.core.provenance import getframe, here, outside
from pellucid.core.saved import by_rules, saved_values, second_backward
from pellucid.core.tensor import ACCUMULATE, OWN_DTYPE, Bundle, Freed, GivenBack, Leaf, Node, Tensor, extra_of, wrap
from pellucid.core.views import current_node, receiving_node
from pellucid.errors import explain

ndarray = np.ndarray
add = np.add
BORN = attrgetter("born")
Gradients = dict[Node, Any]
# Nodes whose gradient so far is a sum that only the walk holds, and what adds to it in place.
Adders = dict[Node, Callable[[Any, Any], Any]]


def walk(seeds: Gradients, *, retain_graph: bool, create_graph: bool, targets: set[Node] | None = None) -> Gradients:
    """Carry gradients from the seeds to the leaves (or to the target nodes) and return what arrived there.

    Without create_graph the gradients are arrays and the rules compute at once; with it they are Tensors and the
    same rules are recorded. Saved values are given back as soon as they were used, unless retain_graph is set.
    """
    wanted = None if targets is None else leading_to(targets, oldest_first(seeds))
    frame = outside(getframe(3))  # who called `backward` or `gradients`
    spent = None if retain_graph else Freed(frame.f_code, frame.f_lasti)
    mode = modes.MODE.get()
    watch = None if mode is None else Watch.under(mode)
    straight = not create_graph and wanted is None and (watch is None or not watch.check)
    tell = None if watch is None else watch.step
    if exposure.ALERT or exposure.resting:
        exposure.compare()
    grads = seeds
    landed: Gradients = {}
    ours: Adders = {}
    # Creation order is a topological order: newest first. Leaves without hooks have nothing to run, they wait.
    frontier = [(-node.born, node) for node in seeds if node.primitive is not ACCUMULATE or node.extra is not None]
    heapify(frontier)
    # The next node and its gradient, kept out of the heap and of `grads`: a chain of operations touches neither.
    newest: Node | None = None
    carried: Any = None
    while True:
        if newest is None:
            if not frontier:
                break
            node = heappop(frontier)[1]
            g = grads.pop(node)
        elif frontier and -frontier[0][0] > newest.born:
            grads[newest] = carried
            node = heappushpop(frontier, (-newest.born, newest))[1]
            g = grads.pop(node)
        else:
            node, g = newest, carried
        newest = carried = None
        p, saved, stretched = node.primitive, node.saved, node.stretched
        inputs: Sequence[Node | None] = node.inputs
        if straight and node.extra is None and p.straight:
            edges: Any = p.edges
            scalar = not node.shape and p.elementwise and isinstance(g, np.generic)
            if node.born < aliasing.latest:
                saved = saved_values(node, g)
        else:
            g = arrived(node, g, create_graph, targets, landed)
            if p is ACCUMULATE or (wanted is not None and wanted.isdisjoint(inputs)):
                continue
            if straight and watch is None and p.gather is not None and node.extra is None:
                d = value = None  # names from the node before, one of which may be g's: then it would not be free
                edges, inputs, saved = gathered(node, g, saved_values(node, g), grads, ours)
            else:
                edges, inputs, saved = pulled(node, g, saved_values(node, g), create_graph, wanted, watch)
            stretched, scalar = True, False
        for i, rule, arity in edges:
            parent = inputs[i]
            if parent is None:
                continue
            if arity == 1:  # spelled out: a call with a star costs 0.15 µs more, zip over three tuples 0.3
                value = saved[i]
                if scalar and type(value) is ndarray:
                    value = value[()]  # NumPy multiplies two scalars in 57 ns, a scalar and a 0-d array in 731
                d = rule(g, value)
            elif rule is same:
                d = g
            else:
                d = rule(g, *saved[i]) if arity else rule(g)
            if tell is not None and rule is not _passed_on:  # which `pulled` has told of already
                tell(node, g, parent, d)
            if stretched and d.shape != parent.shape:
                d = fold(d, parent.shape, node)
            before = grads.get(parent)
            if before is not None:
                adder = ours.get(parent)
                if adder is not None and type(d) is ndarray:
                    adder(before, d)
                else:
                    d = grads[parent] = before + d
                    if type(d) is ndarray:
                        ours[parent] = iadd if d.size < LARGE else gather
            elif type(parent) is not Node and parent.primitive is ACCUMULATE and parent.extra is None:  # a leaf waits
                grads[parent] = d
            elif newest is None:
                newest, carried = parent, d
            elif newest is parent:
                carried = carried + d
            else:
                grads[newest] = carried
                heappush(frontier, (-newest.born, newest))
                newest, carried = parent, d
        if spent is not None and p.keeps:
            node.saved = spent
    if exposure.MARKED and not retain_graph:
        exposure.settle()
    if targets is None and not landed:  # no hooks, nothing retained: all that is left has landed
        return grads
    landed.update(grads if targets is None else {node: g for node, g in grads.items() if node in targets})
    grads.clear()  # the arrays may become the leaves' own: see `own`
    return landed


def arrived(node: Node, g: Any, create_graph: bool, targets: set[Node] | None, landed: Gradients) -> Any:
    """A gradient is complete: run the hooks that see it, and keep it if somebody asked for it."""
    extra = node.extra
    if extra is not None:
        g = on_gradient(node, g, create_graph)
    retained = extra is not None and extra.retain is not None
    if node.primitive is ACCUMULATE or retained or (targets is not None and node in targets):
        landed[node] = g
    return g


def pulled(
    node: Node, g: Any, saved: Any, create_graph: bool, wanted: set[Node] | None, watch: "Watch | None"
) -> tuple[list[tuple[int, Any, int]], list[Node], list[Any]]:
    """The edges of a node that is not straightforward, with their gradients worked out already."""
    if type(g) is Bundle:
        g = g.listed()
    if node.extra is not None and node.extra.before:
        g = before_node(node, g, create_graph)
        if g is None:
            return [], [], []
    results = by_rules(node, g, saved, create_graph, wanted)
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
    return _with_gradients(going)


def gathered(
    node: Node, g: Any, saved: Any, grads: Gradients, ours: Adders
) -> tuple[list[tuple[int, Any, int]], list[Node], list[Any]]:
    """The edges of a node of large arrays whose gradients are still to be passed on: the others are in their sums."""
    assert node.primitive.gather is not None
    free = type(g) is ndarray and g.base is None and sys.getrefcount(g) <= WALK_REFERENCES
    totals = [grads[parent] if parent in ours else None for parent in node.inputs]
    results = node.primitive.gather(g, saved, totals, free)
    going = [
        (parent, d) for parent, d in zip(node.inputs, results, strict=True) if parent is not None and d is not None
    ]
    ours.update((parent, gather) for parent, _ in going if parent not in grads)
    return _with_gradients(going)


def _with_gradients(going: list[tuple[Node, Any]]) -> tuple[list[tuple[int, Any, int]], list[Node], list[Any]]:
    """Edges whose gradients are worked out already, in the form that the walk reads."""
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


def fold(d: Any, shape: tuple[int, ...] | None, node: Node) -> Any:
    """Sum a broadcast gradient back to the shape it is the gradient of."""
    given = d.shape
    extra = len(given) - len(shape or ())
    if type(d) is ndarray and extra > 0 and given[extra:] == shape:  # a bias: by far the most frequent
        return leading_sum(d, extra)
    if shape is None or not expands_to(shape, given):
        raise RuntimeError(
            explain(
                f"{node.name()} returned a gradient of shape {tuple(d.shape)} for an input of shape {shape}",
                str(node.place),
                "a gradient has the shape of the tensor it belongs to",
                "sum over the dimensions that were broadcast in forward",
            )
        )
    return summed_to(d, shape)


def expands_to(shape: tuple[int, ...], wide: tuple[int, ...]) -> bool:
    """Whether a tensor of a shape can have been broadcast to another.

    >>> expands_to((3, 1), (2, 3, 4)), expands_to((1, 3), (3,))
    (True, False)
    """
    extra = len(wide) - len(shape)
    return extra >= 0 and all(n in (1, m) for n, m in zip(shape, wide[extra:], strict=True))


def summed_to(d: Any, shape: tuple[int, ...]) -> Any:
    """The sum of a gradient over all that was broadcast from a shape."""
    given = d.shape
    extra = len(given) - len(shape)
    axes = (*range(extra), *(i + extra for i, n in enumerate(shape) if n == 1 != given[i + extra]))
    if type(d) is ndarray:
        total = added_up(d, axes)
    else:
        total = add.reduce(d, axes) if isinstance(d, np.generic) else BOUND["sum"](d, axes, False)
    return total if total.shape == shape else total.reshape(shape)


# --- writing the gradients down

SET_GRAD: Any = Tensor.__dict__["_grad"].__set__
COMMIT = RLock()  # held while gradients are written
EMPTY: Mapping[Node, Tensor] = {}
Write = tuple[Callable[[Any, Any], Any], Any, Any]  # a function of C and its two arguments


def _opened() -> None:
    """After a fork: the thread that held the lock stays behind in the parent, and nobody would ever open it."""
    global COMMIT
    COMMIT = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_opened)


def commit(landed: Gradients, create_graph: bool, receivers: Mapping[Node, Tensor] = EMPTY) -> None:
    """Add every gradient to its tensor's `.grad`: all or none.

    The writes are prepared first and then run in one call into C, between whose steps Python delivers no
    KeyboardInterrupt. An existing `.grad` is added to in place, as PyTorch does.
    """
    writes, tensors, hooked = [], [], []
    with COMMIT:
        while landed:
            node, g = landed.popitem()
            extra = node.extra
            if extra is None and receivers is EMPTY:
                tensor = node.tensor()  # type: ignore[attr-defined]  # a leaf: other nodes land with an extra only
            else:
                tensor = receivers[node] if node in receivers else receiver_of(node)
            if tensor is None or g is None:
                continue
            if extra is not None and isinstance(node, Leaf) and (extra.post_accumulate or extra.after):
                hooked.append((node, tensor, as_tensor(g)))
            tensors.append(tensor)
            writes.append(prepared(tensor, g, create_graph))
            del g
        before = [(tensor, tensor._grad, copy_of(tensor._grad)) for tensor in tensors] if hooked else []
        calls = starmap(operator.call, writes)
        try:
            run_all(calls)
        except BaseException:  # NumPy complains of an overflow when it has added: the others follow
            quietly(calls)
            raise
        if hooked:
            with modes.recording(create_graph):  # p.sub_(p.grad) in a hook is no part of any graph
                post_accumulate(reversed(hooked), before)


def copy_of(grad: Tensor | None) -> Any:
    """The values of a gradient as they are now."""
    return None if grad is None else grad.array.copy()


def receiver_of(node: Node) -> Tensor | None:
    """The tensor whose `.grad` a node fills, if it is still alive."""
    if isinstance(node, Leaf):
        return node.tensor()
    return node.extra.retain() if node.extra is not None and node.extra.retain is not None else None


def prepared(tensor: Tensor, g: Any, create_graph: bool) -> Write:
    """The write that gives one tensor its gradient, ready to run without failing."""
    old = tensor._grad
    if old is None and type(g) is ndarray and g.dtype is tensor.array.dtype:  # by far the most frequent
        return SET_GRAD, tensor, wrap(own(g))
    if create_graph:
        if g.array.dtype != tensor.array.dtype and (wanted := gradient_dtype(tensor)) is not None:
            g = g.to(dtypes.from_numpy_dtype(wanted))
        return SET_GRAD, tensor, (BOUND["clone"](g, "C") if old is None else old + g)  # g may be somebody's own tensor
    if isinstance(g, Kind) or isinstance(tensor.array, Kind):
        return SET_GRAD, tensor, wrap(copied(g) if old is None else old.array + g)
    g = of_dtype(g, tensor)
    if old is None:
        return SET_GRAD, tensor, wrap(own(g))
    if isinstance(old.array, ndarray) and old.array.flags.writeable:
        aliasing.note_write(old.array, "backward (accumulation into .grad)")
        return iadd, old.array, g
    return SET_GRAD, tensor, wrap(np.asanyarray(old.array + g))  # of 0-d arrays NumPy makes a number


# References to a gradient that nobody else holds: the name `g` in commit, passed to prepared, own and getrefcount;
# in walk, passed to gathered and getrefcount.
OWN_REFERENCES, WALK_REFERENCES = 1 + 3 * aliasing.PASSING, 1 + 2 * aliasing.PASSING


def own(g: Any) -> Any:
    """An array that nobody else holds: a gradient that is also somebody else's (or a view) is copied."""
    if type(g) is not ndarray or g.base is not None or sys.getrefcount(g) > OWN_REFERENCES or not g.flags.c_contiguous:
        return copied(g)
    return g


def copied(g: Any) -> Any:
    """A copy in C order, of the same kind of array; of a NumPy scalar an array."""
    if isinstance(g, ndarray):
        return large.copied(g)
    return BOUND["clone"](g, "C") if isinstance(g, Kind) else np.array(g)


# --- the public entrances


def seeds_of(tensors: Sequence[Tensor], gradients: Sequence[Any], create_graph: bool) -> Gradients:
    """The gradient each root starts with: given, or one for a scalar."""
    seeds: Gradients = {}
    for i, tensor in enumerate(tensors):  # zip(..., strict=True) takes 0.2 µs more
        node = tensor.node if tensor.window is None else receiving_node(tensor)
        if node is None:
            raise RuntimeError(no_graph(tensor))
        gradient = gradients[i]
        seed = one_for(tensor) if gradient is None else given(tensor, gradient, create_graph)
        if create_graph and not isinstance(seed, Tensor):
            seed = wrap(seed)
        seeds[node] = seeds[node] + seed if node in seeds else seed
    return seeds


ONES = {np.dtype(t): np.ones((), t) for t in (np.float16, np.float32, np.float64)}


def one_for(tensor: Tensor) -> Any:
    """The gradient of a scalar with respect to itself."""
    array = tensor.array
    if type(array) is ndarray and array.ndim == 0 and array.dtype in ONES:  # every scalar loss; np.ones costs 1.5 µs
        return ONES[array.dtype]
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
            explain(f"grad can be implicitly created only for real scalar outputs but got {tensor.dtype}", str(here()))
        )
    if type(array) is not ndarray:
        return BOUND["zeros_like"](array) + 1
    return np.ones(array.shape, array.dtype)


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
        if "c" in (np.dtype(gradient.array.dtype).kind, np.dtype(tensor.array.dtype).kind):
            raise RuntimeError(
                explain(
                    "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in "
                    f"dtype: the gradient is {gradient.dtype} and the output is {tensor.dtype}",
                    str(here()),
                    try_=f"gradient.to({tensor.dtype})",
                )
            )
        gradient = gradient.to(tensor.dtype)
    return gradient if create_graph else gradient.array


def no_graph(tensor: Tensor) -> str:
    """Why a tensor cannot be differentiated: the line that cut its graph, if one did."""
    cut = tensor.cut
    why = "no tensor that requires grad took part in computing it"
    try_ = "set requires_grad=True on the tensors you want gradients of, before computing"
    outward = last_outward() if cut is None else None
    if outward is not None:
        why += f"; a value left the graph by {outward.by} of {outward.source} at {outward.entered}"
        try_ = f"numbers and arrays carry no graph: stay with tensors on the way to the loss. Or {try_}"
    if cut is not None and cut.entered is not None:
        if cut.by in ("no_grad", "set_grad_enabled", "inference_mode"):
            why = f"it was computed inside {cut.by}, entered at {cut.entered}"
            try_ = "move the computation out of that block"
        else:
            source = f" of {cut.source}" if cut.source else ""
            why = f"the graph was cut by {cut.by}{source} at {cut.entered}"
            try_ = CURES.get(cut.by, f"{cut.by} has no derivative: compute the loss from its input instead")
    elif cut is not None:  # a mode that Pellucid itself entered
        why = "it was computed where nothing is recorded: in a hook, or inside of a custom function"
        try_ = "compute it inside `with torch.enable_grad():`"
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
    again = create_graph if retain_graph is None else retain_graph
    landed = walk_from(tensors, gradients, again, create_graph, _targets(inputs))
    root = tensors[0].node if tensors else None
    if root is not None:
        RUNS.append((weakref.ref(root), root.born, aliasing.tick(), list(map(BORN, landed))))
    receivers = EMPTY
    if inputs is not None:  # of the leaves these only; those that are none retain their gradient from now on
        receivers = {node: tensor for tensor in inputs if (node := current_node(tensor)) is not None}
        landed = {node: g for node, g in landed.items() if node in receivers or not isinstance(node, Leaf)}
        for node, tensor in receivers.items():
            if not isinstance(node, Leaf):
                retain(node, tensor)
    if create_graph:
        with modes.recording(True):
            commit(landed, True, receivers)
    else:
        commit(landed, False, receivers)
    if modes.MODE.get() is not None:
        tell_backward(tensors, gradients, inputs is not None, create_graph)


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
    try:
        if not create_graph and targets is None and not LISTENERS:
            return walk(seeds_of(tensors, gradients, False), retain_graph=retain_graph, create_graph=False)
        with modes.recording(True) if create_graph else NOTHING:
            seeds = seeds_of(tensors, gradients, create_graph)
            token = SELECTIVE.set(targets is not None)
            try:
                with announced(seeds, targets) if LISTENERS else NOTHING:
                    return walk(seeds, retain_graph=retain_graph, create_graph=create_graph, targets=targets)
            finally:
                SELECTIVE.reset(token)
    except GivenBack as error:
        raise second_backward(_newest_freed(tensors, error.freed)) from None


def _newest_freed(tensors: Sequence[Tensor], freed: Freed) -> Node:
    """The node that a walk from these tensors has found without its values, for it goes from new to old.

    Nodes that it has passed on the way are without theirs too by now: each walk leaves a `Freed` of its own.
    """
    roots = [node for tensor in tensors if (node := current_node(tensor)) is not None]
    return next(node for node in reversed(oldest_first(roots)) if node.saved is freed)


@contextmanager
def announced(seeds: Gradients, targets: set[Node] | None) -> Iterator[None]:
    """While a walk runs, let the hooks over several tensors know which nodes it will reach."""
    order = oldest_first(seeds)
    reached = set(order) if targets is None else leading_to(targets, order).intersection(order)
    with ExitStack() as stack:
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
    return {node for tensor in inputs if (node := receiving_node(tensor)) is not None}


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
        return g if g is None else dense(g)
    return wrap(copied(g if isinstance(g, Kind) else of_dtype(g, tensor)))


def dense(g: Tensor) -> Tensor:
    """A gradient with memory for every element: one that is a number repeated (of a sum) is copied, in the graph."""
    array = g.array
    if type(array) is ndarray and array.size > 1 and 0 in array.strides:
        return BOUND["clone"](g, "C")  # type: ignore[no-any-return]
    return g


def of_dtype(g: Any, tensor: Tensor) -> Any:
    """A gradient in its tensor's dtype, or the one that the tensor asked for; of a real tensor it is real."""
    dtype = tensor.array.dtype
    if g.dtype is dtype or g.dtype == dtype:
        return g
    dtype = gradient_dtype(tensor)
    if dtype is None or g.dtype == dtype:
        return g
    return (g if dtype.kind == "c" else np.real(g)).astype(dtype)


def gradient_dtype(tensor: Tensor) -> Any:
    """The dtype of a tensor's gradient: its own, unless `x.grad_dtype` said otherwise (None: whatever arrives)."""
    extra = None if tensor.node is None else tensor.node.extra
    return tensor.array.dtype if extra is None or extra.gradient_dtype is OWN_DTYPE else extra.gradient_dtype
