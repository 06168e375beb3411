"""`torch.autograd.graph`: what is saved for backward, hooks over several tensors, and names for places in a graph."""

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pellucid.core import aliasing, backward, modes
from pellucid.core.kinds import plain
from pellucid.core.tensor import Handle, Leaf, Node, Tensor, step_over_pick, wrap
from pellucid.core.views import current_node
from pellucid.errors import explain

__all__ = [
    "GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "get_gradient_edge",
    "increment_version", "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks",
]  # fmt: skip

# --- saved tensors

MUTATION: ContextVar[bool] = ContextVar("pellucid_mutation_allowed", default=False)
DISABLED: ContextVar[str | None] = ContextVar("pellucid_saved_hooks_disabled", default=None)


class saved_tensors_hooks:
    """Decide how tensors are kept for backward: `pack` puts one away, `unpack` brings it back.

    >>> import pellucid as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> with torch.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), torch.tensor):
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 4.])
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> "saved_tensors_hooks":
        message = DISABLED.get()
        if message is not None:
            raise RuntimeError(message)
        self._before = modes.MODE.get()
        mode = modes.current()
        modes.install(replace(mode, saved_hooks=(*mode.saved_hooks, (self.pack_hook, self.unpack_hook))))
        return self

    def __exit__(self, *error: object) -> None:
        modes.MODE.set(self._before)


class save_on_cpu(saved_tensors_hooks):
    """Keep tensors for backward in main memory: that is where they are, so nothing changes.

    >>> import pellucid as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> with torch.autograd.graph.save_on_cpu():
    ...     y = x * x
    >>> y.backward()
    >>> x.grad
    tensor(6.)
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda tensor: tensor, lambda tensor: tensor)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Refuse saved_tensors_hooks inside the block, with this message.

    >>> import pellucid as torch
    >>> with torch.autograd.graph.disable_saved_tensors_hooks("no hooks in here"):
    ...     with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
    ...         pass
    Traceback (most recent call last):
        ...
    RuntimeError: no hooks in here
    """
    if modes.current().saved_hooks:
        raise RuntimeError(error_message)
    token = DISABLED.set(error_message)
    try:
        yield
    finally:
        DISABLED.reset(token)


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[None]:
    """What is saved inside this block may be overwritten: backward uses copies, made when it is saved.

    >>> import pellucid as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x.clone()
    ...     z = (y * y).sum()
    ...     _ = y.zero_()
    ...     z.backward()
    >>> x.grad
    tensor([2., 2.])
    """
    if MUTATION.get():
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    token = MUTATION.set(True)
    try:
        with saved_tensors_hooks(lambda saved: saved.clone(), lambda copy: copy):
            yield
    finally:
        MUTATION.reset(token)


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Say that a tensor's memory was written by other means, so that backward refuses what it saved of it.

    >>> import pellucid as torch
    >>> x = torch.ones(2)
    >>> torch.autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    for each in (tensor,) if isinstance(tensor, Tensor) else tuple(tensor):
        aliasing.note_write(each.array, "increment_version")


# --- places in a graph


class _Edge(NamedTuple):
    node: Node
    output_nr: int
    ownership_token: Node | None = None  # what keeps PyTorch's nodes alive; ours do that by themselves


class GradientEdge(_Edge):
    """A place a gradient goes to: a node, and the number of that node's output.

    >>> import pellucid as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> edge = torch.autograd.graph.get_gradient_edge(x * x)
    >>> edge.node.name(), edge.output_nr
    ('MulBackward0', 0)
    """

    stand_in: Tensor | None = None  # a tensor of the right form at this place


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The place in the graph that stands for a tensor.

    >>> import pellucid as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> torch.autograd.graph.get_gradient_edge(x * 2).node.name()
    'MulBackward0'
    """
    node = current_node(tensor)
    if node is None:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    made, number = step_over_pick(node)
    assert made is not None
    edge = GradientEdge(made, number)
    edge.stand_in = _standing_at(node, np.dtype(tensor.array.dtype))
    return edge


def _standing_at(node: Node, dtype: np.dtype) -> Tensor:
    """A tensor of the right form at a place in the graph, that keeps no values alive."""
    return wrap(np.broadcast_to(np.zeros((), plain(dtype)), node.shape or ()), node)


def tensor_at(edge: GradientEdge) -> Tensor:
    """A tensor that stands for a place in the graph."""
    node = edge.node
    if isinstance(node, Leaf):
        found = node.variable
        assert found is not None
        return found
    if edge.stand_in is not None:
        return edge.stand_in
    if node.shape is None:
        raise NotImplementedError(
            explain(
                f"the place of result {edge.output_nr} of {node.name()} cannot be found from its node",
                str(node.place),
                "the operation has several results",
                "take it from the tensor: torch.autograd.graph.get_gradient_edge(tensor)",
            )
        )
    leaves = (leaf.variable for leaf in reversed(backward.oldest_first([node])) if isinstance(leaf, Leaf))
    variable = next((each for each in leaves if each is not None), None)
    return _standing_at(node, np.dtype(np.float32 if variable is None else variable.array.dtype))


# --- hooks over several tensors


class MultiHandle:
    """Removes a hook over several tensors again."""

    def __init__(self, handles: Sequence[Handle], hook: "All") -> None:
        self.handles = tuple(handles)
        self.hook = hook

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()
        backward.LISTENERS.discard(self.hook)

    def __enter__(self) -> "MultiHandle":
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all") -> MultiHandle:
    """Call `fn` when the gradients of several tensors are there.

    With "all", `fn(gradients)` is called once every gradient that this backward computes is known, None for a tensor
    it does not reach. With "any", `fn(gradient)` is called for the first one only.

    >>> import pellucid as torch
    >>> a, b = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    >>> handle = torch.autograd.graph.register_multi_grad_hook((a, b), lambda grads: print(len(grads), "gradients"))
    >>> (a * b).sum().backward()
    2 gradients
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    nodes = [current_node(tensor) for tensor in tensors]
    if any(node is None for node in nodes):
        raise RuntimeError("cannot register a multi-grad hook on tensors that don't require gradient")
    hook = All(nodes, fn) if mode == "all" else First(nodes, fn)
    backward.LISTENERS.add(hook)
    handles = [tensor.register_hook(hook.for_tensor(i)) for i, tensor in enumerate(tensors)]  # type: ignore[attr-defined]
    return MultiHandle(handles, hook)


class All:
    """Collects the gradients of one walk and calls the hook with all of them."""

    def __init__(self, nodes: Sequence[Node | None], fn: Callable[..., Any]) -> None:
        self.nodes = [weakref.ref(node) for node in nodes if node is not None]
        self.fn = fn
        self.awaited: ContextVar[tuple[list[int], list[Any]]] = ContextVar("pellucid_awaited")

    @contextmanager
    def listening(self, order: set[Node | None]) -> Iterator[None]:
        """While a walk runs that will pass through the nodes of `order`."""
        expected = sum(node() in order for node in self.nodes)
        token = self.awaited.set(([expected], [None] * len(self.nodes)))
        try:
            yield
        finally:
            self.awaited.reset(token)

    def for_tensor(self, index: int) -> Callable[[Tensor], None]:
        def arrived(gradient: Tensor) -> None:
            self.arrived(index, gradient)

        return arrived

    def arrived(self, index: int, gradient: Tensor) -> None:
        left, gradients = self.awaited.get()
        gradients[index] = gradient
        left[0] -= 1
        if left[0] == 0:
            self.fn(gradients)


class First(All):
    """Calls the hook with the gradient that comes first in a walk."""

    def arrived(self, index: int, gradient: Tensor) -> None:
        left, _ = self.awaited.get()
        if left[0] > 0:
            left[0] = 0
            self.fn(gradient)
