"""The outputs of forward, joined to the graph by one node."""

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid.core import aliasing, careful, inplace, modes
from pellucid.core.attention import attend
from pellucid.core.function.context import BackwardNode, Call, FunctionCtx
from pellucid.core.provenance import here, warn
from pellucid.core.tensor import PICK, Cut, Leaf, Node, Tensor, View, pick, wrap
from pellucid.core.views import current_array, current_node
from pellucid.errors import explain


def joined(ctx: FunctionCtx, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The outputs of forward, joined to the graph by one node."""
    call = ctx._call
    tensors = tuple(value for value in args if isinstance(value, Tensor))
    recording = modes.is_grad_enabled() and any(ctx.needs_input_grad)
    if call.dirty:
        _check_dirty(call, tensors, outputs, recording)
    node = _new_node(ctx, tensors, outputs) if recording else None
    results: list[Any] = []
    for i, value in enumerate(outputs):
        if isinstance(value, Tensor):
            value = _output(call, tensors, value, _node_of_output(call, node, i, value))
        results.append(value)
    call.to_save, call.dirty, call.fixed = (), (), ()
    mode = modes.MODE.get()
    if mode is not None:
        made = tuple(value for value in results if isinstance(value, Tensor))
        attend(call.function._row, tensors, (), made, mode)
    return tuple(results)


def _new_node(ctx: FunctionCtx, tensors: tuple[Tensor, ...], outputs: tuple[Any, ...]) -> Node:
    call = ctx._call
    cls = call.function
    for tensor in call.to_save:
        if tensor is not None:
            careful.rejoin(cls._row, tensor)
    call.homes = tuple(None if t is None else _home(t, outputs) for t in call.to_save)
    call.originals = tuple(None if t is None or _among(t, outputs) else weakref.ref(t) for t in call.to_save)
    kept = tuple(None if t is None else current_array(t) for t in call.to_save)
    row = cls._row if kept else cls._row_without_memory
    parents = tuple(current_node(tensor) for tensor in tensors)
    shape = tuple(outputs[0].array.shape) if call.outputs is None else None
    node = careful.new_node(row, parents, ((kept, ctx),), shape, here(), cls._backward_cls)
    assert isinstance(node, BackwardNode)
    node.ctx = ctx
    call.node = weakref.ref(node)
    careful.watch_saved(node, modes.current())
    return node


def _home(tensor: Tensor, outputs: tuple[Any, ...]) -> Node | int | None:
    """Where the gradient of a saved tensor belongs: an output by its number, so that no cycle is made."""
    for i, output in enumerate(outputs):
        if output is tensor:
            return i
    return current_node(tensor)


def _node_of_output(call: Call, node: Node | None, index: int, value: Tensor) -> Node | None:
    """The node of one output, or None if it has no gradient."""
    if node is None or np.dtype(value.array.dtype).kind in "biu" or _among(value, call.fixed):
        return None
    if call.outputs is None:
        return node
    return pick(node, index, len(call.outputs), tuple(value.array.shape))


def _among(value: Any, tensors: Sequence[Any]) -> bool:
    return any(value is tensor for tensor in tensors)


CUSTOM_VIEW = (
    "it was made inside the custom function {} (or is an input returned as it was), "
    "whose backward an in-place operation would bypass"
)


def _output(call: Call, inputs: tuple[Tensor, ...], value: Tensor, node: Node | None) -> Tensor:
    """One output with its history: the very tensor if it is new or was changed in place, else another of its memory.

    A new tensor that is returned twice stays one tensor; its gradient arrives at the last of its places.
    """
    if _among(value, call.dirty) and _among(value, inputs):
        if node is not None:
            inplace.rebase(value, node, wrap(value.array, node))
        return value
    forbids = CUSTOM_VIEW.format(call.function.__name__)
    if _among(value, inputs) or (value.node is not None and not _made_by(value.node, node)):
        value = _alias(value, forbids)
    elif value.window is not None:
        value.window.forbids = forbids or value.window.forbids
    value.node = node
    if node is not None:
        value.cut = None
    elif _among(value, call.fixed):
        value.cut = Cut(f"{call.function.__name__} (mark_non_differentiable)", here())
    return value


def _made_by(node: Node, made: Node | None) -> bool:
    """Whether a node is that of another result of the same call."""
    return made is not None and node.inputs == made.inputs and node.primitive is made.primitive is PICK


def _alias(value: Tensor, forbids: str) -> Tensor:
    """A tensor of the same memory."""
    view = value.window
    alias = wrap(current_array(value), None, value.cut)
    alias.window = View(value, (), forbids) if view is None else View(view.base, view.steps, forbids or view.forbids)
    return alias


def _not_an_input(tensor: Tensor, name: str) -> None:
    """Say that mark_dirty was given something else than an input; of a view that is refused."""
    what = "ctx.mark_dirty() received a tensor that was not an input. Only inputs changed in place belong there"
    if tensor.window is not None:
        raise RuntimeError(explain(what, str(here()), f"{name}.forward marked a view of a tensor that it made"))
    warn(f"{name}: {what}.")


def _check_dirty(call: Call, inputs: tuple[Tensor, ...], outputs: tuple[Any, ...], recording: bool) -> None:
    """Refuse inputs changed in place whose history cannot follow; note the write of the others."""
    name = call.function.__name__
    for tensor in call.dirty:
        if not _among(tensor, inputs):
            _not_an_input(tensor, name)
            continue
        if not _among(tensor, outputs):
            raise RuntimeError(
                explain(
                    "Some elements marked as dirty during the forward method were not returned as output. The inputs "
                    "that are modified inplace must all be outputs of the Function.",
                    str(here()),
                    f"{name}.forward marked an input of shape {tuple(tensor.array.shape)} as dirty",
                    "return the changed input itself",
                )
            )
        if recording:
            if isinstance(current_node(tensor), Leaf):
                raise RuntimeError(
                    explain(
                        f"{name}: a leaf Variable that requires grad has been used in an in-place operation.",
                        str(here()),
                        "its gradient would belong to a value that no longer exists",
                        "call it on a clone(), or under torch.no_grad()",
                    )
                )
            if tensor.window is not None:
                inplace.check_view(tensor, name)
        if isinstance(tensor.array, np.ndarray):
            aliasing.note_write(tensor.array, name)
