"""Kept values that need an eye: memory that NumPy shares, and saved-tensor hooks that store them elsewhere."""

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from pellucid.core import aliasing, exposure, modes
from pellucid.core.kinds import Kind, memory_of
from pellucid.core.tensor import Leaf, Node, Tensor, extra_of, wrap
from pellucid.errors import explain


def note_exposed(node: Node) -> None:
    """Mark kept arrays whose memory a NumPy array outside shares."""
    if not (exposure.DUE and exposure.rest(node.born)):
        _note(node.saved, node.born)


def _note(values: Any, born: int) -> None:
    for value in values:
        kind = type(value)
        if kind is np.ndarray:
            if value.base is not None or exposure.HANDED_OUT:
                exposure.note_kept(value, born)
        elif kind is tuple or kind is list:
            _note(value, born)
        elif isinstance(value, (Kind, np.ndarray)):
            for array in memory_of(value):
                exposure.note_kept(array, born)


class Packed:
    """A kept value that a saved-tensor hook has put somewhere else."""

    __slots__ = ("unpack", "value")

    def __init__(self, value: Any, unpack: Any) -> None:
        self.value = value
        self.unpack = unpack


# The node whose values are being packed: checkpointing notes the operation that would have kept them.
PACKING: ContextVar[Node | None] = ContextVar("pellucid_packing", default=None)


def pack(node: Node, pack_hook: Any, unpack_hook: Any, numbers: Sequence[Any] = ()) -> None:
    """Hand every kept array to the user's pack hook, except those that are `numbers` of the user's."""
    token = PACKING.set(node)
    own = leaves_of(node)
    own.update((id(number), None) for number in numbers)
    try:
        node.saved = packed_value(node.saved, pack_hook, unpack_hook, own)
    finally:
        PACKING.reset(token)
    extra_of(node).unpack = unpack_hook


def leaves_of(node: Node) -> dict[int, Tensor | None]:
    """The user's own tensors among the inputs of a node, by the identity of their arrays."""
    leaves = [leaf.variable for leaf in node.inputs if isinstance(leaf, Leaf)]
    return {id(leaf.array): leaf for leaf in leaves if leaf is not None}


NOBODY: dict[int, Tensor | None] = {}


def packed_value(value: Any, pack_hook: Any, unpack_hook: Any, own: dict[int, Tensor | None] = NOBODY) -> Any:
    """A value with every array in it packed; the hook sees the user's own tensor where an array is that of a leaf.

    So it can tell a parameter, which lives on anyhow, from an activation. A number (None) stays as it is.
    """
    if isinstance(value, (np.ndarray, Kind)):
        tensor = own.get(id(value), value)
        if tensor is None:
            return value
        began = aliasing.tick()
        with modes.switched(grad=False, saved_hooks=()):
            packed = pack_hook(tensor if isinstance(tensor, Tensor) else wrap(value))
        write = aliasing.write_to(value) if isinstance(value, np.ndarray) else None
        if write is not None and write.tick > began:
            raise RuntimeError(
                explain(
                    "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook "
                    "can not be modified by in-place operations",
                    str(write.place),
                    "the value belongs to the operation that computed it as well",
                    "return a changed copy from the hook",
                )
            )
        return Packed(packed, unpack_hook)
    return tuple(packed_value(v, pack_hook, unpack_hook, own) for v in value) if type(value) is tuple else value


def unpacked(value: Any) -> Any:
    """The kept values again, fetched through the user's unpack hook where one was set."""
    if isinstance(value, Packed):
        with modes.switched(grad=False, saved_hooks=()):
            tensor = value.unpack(value.value)
        exposure.user_code_ran()
        if not isinstance(tensor, Tensor):
            raise TypeError(f"a saved-tensor unpack hook must return a Tensor, not {type(tensor).__name__}")
        return tensor.array
    return tuple(unpacked(v) for v in value) if type(value) is tuple else value
