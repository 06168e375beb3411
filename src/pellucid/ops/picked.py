"""Which rows of a table a gradient is for: what a sparse gradient would know, noted beside the dense one.

`SparseAdam` changes these rows and leaves the others, moments and all, as they are.
"""

from weakref import WeakKeyDictionary

import numpy as np
from numpy import ndarray

from pellucid.core.aliasing import write_to
from pellucid.core.departures import RUNS
from pellucid.core.tensor import Leaf, Node, Tensor

PICKED: WeakKeyDictionary[Node, tuple[int, ndarray]] = WeakKeyDictionary()  # by the leaf: the backward, the rows


def note_picked(table: Tensor, index: Tensor, padding: int, rows: Tensor) -> None:
    """Remember, when a gradient gets to these rows of a table, which they are; the row of padding is none of them."""
    leaf = table.node
    if isinstance(leaf, Leaf) and rows.node is not None and type(index.array) is ndarray:
        numbers = np.unique(index.array)
        rows.register_hook(lambda g: _note(leaf, numbers[numbers != padding]))


def _note(leaf: Leaf, numbers: ndarray) -> None:
    latest = RUNS[-1][2] if RUNS else 0
    run, known = PICKED.get(leaf, (latest, numbers))
    fresh = run != latest and _was_cleared(leaf.tensor(), run)
    PICKED[leaf] = latest, numbers if fresh else np.union1d(known, numbers)


def _was_cleared(table: Tensor | None, since: int) -> bool:
    """Whether the gradient is gone, or was filled with zeros: then this one is the first of a new sum."""
    grad = None if table is None else table._grad
    write = None if grad is None else write_to(grad.array)
    return grad is None or (write is not None and write.operation.startswith("zero") and write.tick > since)


def picked_rows(table: Tensor) -> ndarray | None:
    """The rows that the gradient of a table is for; None: no sparse embedding gave it one."""
    known = None if table.node is None else PICKED.get(table.node)
    return None if known is None else known[1]
