"""Where the elements of a result come from, for operations that only move elements: slices, joins, padding."""

from typing import Any

import numpy as np

from pellucid.core.primitive import TABLE
from pellucid.explorer.graph import FEW, Item

__all__ = ["moves_of"]

MOVING = frozenset((
    "reshape", "unsafe_view", "unsqueeze", "squeeze0", "squeeze1", "squeeze2", "slice", "select", "newaxis", "alias",
    "permute", "transpose", "t", "flip", "rot90", "roll", "take_along", "expand", "cat", "stack", "block_diag",
    "diagonal", "diag_embed", "tril", "triu", "split", "split_with_sizes", "unbind", "unfold", "as_strided", "index",
    "index_select", "take", "masked_select", "index_mask", "masked_fill", "index_fill", "index_copy", "repeat",
    "select_scatter", "slice_scatter", "diagonal_scatter", "constant_pad_nd", "reflection_pad1d", "reflection_pad2d",
    "replication_pad1d", "replication_pad2d", "pad_circular1d", "pad_circular2d", "embedding", "im2col",
    "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "upsample_nearest1d", "upsample_nearest2d",
))  # fmt: skip
FIRST = 2.0**40  # labels from here on: no number that an operation fills in is so large, and float64 holds them exactly


def moves_of(item: Item) -> list[list[int]] | None:
    """For each element of a small result, the input and the element in it that it is a copy of; [] where it is neither.

    Found out by running the operation on labels instead of numbers, so that every index means what it means there.

    >>> x = Item("leaf", "leaf", shape=(2, 2), value=np.zeros((2, 2)))
    >>> moves_of(Item("flip", "flip", inputs=[x], arguments=((0,),), shape=(2, 2), value=x.value))
    [[0, 2], [0, 3], [0, 0], [0, 1]]
    """
    size = int(np.prod(item.shape))
    if item.row not in MOVING or not 0 < size <= FEW or not all(map(_is_told, item.inputs)):
        return None
    inputs, owners = _labelled(item)
    labels = np.ravel(_run(item, inputs)) - FIRST
    if labels.size != size:
        return None
    return [list(owners[int(label)]) if 0 <= label < len(owners) else [] for label in labels]


def _is_told(source: "Item | float | None") -> bool:
    """Whether an input is known and stays as it is: positions that are computed may change with a number."""
    if not isinstance(source, Item):
        return source is not None
    if source.value is None or not 0 < np.size(source.value) <= FEW:
        return False
    return _is_moved(source) or not source.is_operation


def _is_moved(source: Item) -> bool:
    return np.asarray(source.value).dtype.kind == "f"


def _labelled(item: Item) -> tuple[list[Any], list[tuple[int, int]]]:
    """The inputs with a label of its own in the place of each number that can be moved, and whose label it is."""
    inputs: list[Any] = []
    owners: list[tuple[int, int]] = []
    for slot, source in enumerate(item.inputs):
        if isinstance(source, Item) and _is_moved(source):
            many = int(np.size(source.value))
            inputs.append(FIRST + np.arange(len(owners), len(owners) + many, dtype=np.float64).reshape(source.shape))
            owners += [(slot, place) for place in range(many)]
        else:
            inputs.append(np.asarray(source.value if isinstance(source, Item) else source))
    return inputs, owners


def _run(item: Item, inputs: list[Any]) -> Any:
    row = TABLE[item.row]
    try:
        result = row.forward(inputs, *item.arguments) if row.variadic else row.forward(*inputs, *item.arguments)
    except Exception:  # of a graph that was freed or not watched, not all params are known
        return []
    return result[item.result] if isinstance(result, tuple) else result
