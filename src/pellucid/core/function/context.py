"""What forward hands to backward: the context, the node that keeps it, and the tensors it saved."""

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np

from pellucid.core.provenance import here
from pellucid.core.saved import SavedTensor, saved_values
from pellucid.core.tensor import Node, Tensor, pick, wrap
from pellucid.core.views import current_node
from pellucid.errors import explain

if TYPE_CHECKING:
    from pellucid.core.function.definition import Function


Result = tuple[tuple[int, ...], np.dtype]  # the shape and dtype of one output of forward


class Call:
    """What the engine knows about one call; the context keeps it apart from the user's own attributes."""

    __slots__ = (
        "__weakref__",
        "dirty",
        "fixed",
        "function",
        "homes",
        "inputs",
        "materialize",
        "node",
        "originals",
        "outputs",
        "to_save",
        "to_save_forward",
    )  # fmt: skip

    def __init__(self, function: type["Function"], args: Sequence[Any]) -> None:
        self.function = function
        self.inputs: tuple[Result | None, ...] = tuple(described(value) for value in args)
        self.outputs: tuple[Result | None, ...] | None = None  # None: forward returned one tensor, not a tuple
        self.to_save: tuple[Tensor | None, ...] = ()
        self.to_save_forward: tuple[Tensor | None, ...] = ()
        self.dirty: tuple[Tensor, ...] = ()
        self.fixed: tuple[Tensor, ...] = ()  # marked as not differentiable
        self.materialize = True
        self.homes: tuple[Node | int | None, ...] = ()  # per saved tensor: its node, or the number of the output it is
        self.originals: tuple[weakref.ref[Tensor] | None, ...] = ()  # the user's own tensors, unless outputs
        self.node: weakref.ref[Node] | None = None


def described(value: Any) -> Result | None:
    """The shape and dtype of a tensor, None for what is none."""
    return (tuple(value.array.shape), value.array.dtype) if isinstance(value, Tensor) else None


class FunctionCtx:
    """What forward hands to backward: saved tensors, and any attribute you like."""

    needs_input_grad: tuple[bool, ...]
    _call: Call

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for backward: they are watched for in-place writes and freed after use."""
        for i, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, Tensor):
                kind = type(tensor).__name__
                raise TypeError(
                    explain(
                        f"save_for_backward can only save variables, but argument {i} is of type {kind}",
                        str(here()),
                        try_="set anything else as an attribute: ctx.factor = factor",
                    )
                )
        self._call.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for jvp, which reads them as `saved_tensors`."""
        self._call.to_save_forward = tensors

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """What save_for_backward was given."""
        call = self._call
        live = LIVE.get()
        if live is not None and live[0] is call:
            return live[1].taken(call.function)
        node = call.node() if call.node is not None else None
        return () if node is None else saved_tensors(call, node, saved_values(node)[0][0])

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which inputs forward changed in place; they must be among its outputs."""
        self._call.dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which outputs have no gradient."""
        self._call.fixed = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (the default) or None for an output that no gradient reached."""
        self._call.materialize = bool(value)

    def name(self) -> str:
        """The name of the node, such as `SquareBackward`."""
        return self._call.function._row.grad_name

    def __repr__(self) -> str:
        return f"<context of {self._call.function.__name__}>"


class BackwardNode(Node):
    """The node of a custom operation; what is not its own it asks of the context."""

    __slots__ = ("ctx",)
    ctx: FunctionCtx

    @property
    def _raw_saved_tensors(self) -> tuple[SavedTensor, ...]:
        """The places where save_for_backward keeps its tensors."""
        if not self.primitive.keeps:
            return ()
        return tuple(SavedTensor(self, [(0, 0, i)]) for i in range(len(self.ctx._call.homes)))

    def apply(self, *grads: Any) -> Any:
        """Run the user's backward by hand: gradients of the outputs in, gradients of the inputs out."""
        call = self.ctx._call
        with alive(call, saved_tensors(call, self, saved_values(self)[0][0])):
            return call.function._run_backward(self.ctx, list(grads))

    def __getattr__(self, name: str) -> Any:
        if name == "ctx":
            raise AttributeError(name)
        return getattr(self.ctx, name)


class Reading:
    """The saved tensors while the user's code runs: to be read at will, or once only if the class says so."""

    __slots__ = ("tensors",)

    def __init__(self, tensors: tuple[Tensor | None, ...]) -> None:
        self.tensors: tuple[Tensor | None, ...] | None = tensors

    def taken(self, function: type["Function"]) -> tuple[Tensor | None, ...]:
        tensors = self.tensors
        if tensors is None:
            raise RuntimeError(
                explain(
                    "ctx.saved_tensors can only be accessed once",
                    str(here()),
                    f"{function.__qualname__} sets clear_saved_tensors_on_access = True",
                    "keep what the first access returned in a variable, or leave the attribute out",
                )
            )
        if function.clear_saved_tensors_on_access:
            self.tensors = None
        return tensors


# The call whose backward or jvp is running, and its saved tensors: at hand, and each thread's own.
LIVE: ContextVar[tuple[Call, Reading] | None] = ContextVar("pellucid_live_call", default=None)


@contextmanager
def alive(call: Call, tensors: tuple[Tensor | None, ...]) -> Iterator[None]:
    """While the user's code runs, `ctx.saved_tensors` is at hand."""
    token = LIVE.set((call, Reading(tensors)))
    del tensors
    try:
        yield
    finally:
        LIVE.reset(token)


def saved_tensors(call: Call, node: Node, kept: Sequence[Any]) -> tuple[Tensor | None, ...]:
    """Saved arrays as tensors again."""
    return tuple(
        None if array is None else _saved_tensor(call, node, array, home, own)
        for array, home, own in zip(kept, call.homes, call.originals, strict=True)
    )


def _saved_tensor(
    call: Call, node: Node, array: Any, home: Node | int | None, own: "weakref.ref[Tensor] | None"
) -> Tensor:
    """The user's own tensor with all that was attached to it (`weight.main_grad`) while it is what it was when saved;
    else another one, joined to where it came from."""
    tensor = None if own is None else own()
    if tensor is not None and tensor.array is array and current_node(tensor) is home:
        return tensor
    return wrap(array, _home_node(call, node, home, array))


def _home_node(call: Call, node: Node, home: Node | int | None, array: Any) -> Node | None:
    if not isinstance(home, int):
        return home
    if np.dtype(array.dtype).kind in "biu":
        return None
    return node if call.outputs is None else pick(node, home, len(call.outputs), tuple(array.shape))


def no_forward(*_: Any) -> Any:  # pragma: no cover (a row must have a forward; nothing runs this one)
    """The forward of a row that only `apply` runs."""
    raise AssertionError("a custom operation runs through apply")
