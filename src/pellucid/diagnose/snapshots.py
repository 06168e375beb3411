"""The parameters that every step starts from, copied all at once.

Between kernels a line of Python costs three times what it costs in a loop of its own, so parameters are not copied when
they are used but together, when the step before has ended: one concatenation for all of one dtype. (29 parameters of
the GPT in examples/: 30 µs instead of 300.)
"""

import weakref
from itertools import zip_longest
from typing import Any

import numpy as np

from pellucid.core import aliasing
from pellucid.core.tensor import Tensor

__all__ = ["Arrangement", "Parameters", "written_since"]


class Arrangement:
    """Parameters in slots 0, 1, 2, ..., and the place of each in the joint copy of its dtype."""

    def __init__(self, known: "dict[int, weakref.ref[Tensor]]") -> None:
        found = [(born, reference, reference()) for born, reference in known.items()]
        there = [(born, reference, tensor) for born, reference, tensor in found if _is_leaf(tensor, born)]
        self.tensors = [reference for _, reference, _ in there]
        self.arrays: list[np.ndarray] = [tensor.array for _, _, tensor in there]  # type: ignore[union-attr]
        self.slots = {born: slot for slot, (born, _, _) in enumerate(there)}  # by the number of the node's birth
        self.known = dict.fromkeys(self.slots)  # what the log of a step begins with
        self.bytes = sum(array.nbytes for array in self.arrays)
        self.kinds = list(dict.fromkeys(array.dtype for array in self.arrays))
        self.flat = [[array.reshape(-1) for array in self.arrays if array.dtype == kind] for kind in self.kinds]
        self.spare: list[np.ndarray] = []  # the snapshot of a step that nobody needs any more
        self.outdated = False  # a parameter was found to be gone or to have other memory

    def living(self) -> list[Tensor | None] | None:
        """The parameters (None: it is gone), if every one that is alive still has its memory.

        A leaf of the step before may go in the middle of this one, which is no matter: nobody can use it any more.
        """
        found: list[Tensor | None] = []
        for reference, array in zip(self.tensors, self.arrays, strict=True):
            tensor = reference()
            if tensor is None:
                self.outdated = True
            elif tensor.array is not array or tensor.node is None:
                self.outdated = True
                return None
            found.append(tensor)
        return found

    def copied(self) -> list[np.ndarray]:
        """All values as they are now: one flat array per dtype, in memory that was used before if there is some.

        New memory of that size comes from the system page by page, and goes back there: 40 µs for half a megabyte.
        """
        memory, self.spare = self.spare, []
        return [np.concatenate(parts, out=out) for parts, out in zip_longest(self.flat, memory)]

    def written_since(self, tick: int) -> bool:
        """Whether a parameter may have been written after a tick."""
        if aliasing.latest <= tick and not aliasing.EXPOSED:
            return False
        return any(written_since(array, tick) or aliasing.is_exposed(array) for array in self.arrays)

    def apart(self, copies: list[np.ndarray]) -> list[np.ndarray]:
        """The values of each parameter, as views of the joint copies."""
        places = dict.fromkeys(self.kinds, 0)
        parts = []
        for array in self.arrays:
            flat, start = copies[self.kinds.index(array.dtype)], places[array.dtype]
            places[array.dtype] = start + array.size
            parts.append(flat[start : start + array.size].reshape(array.shape))
        return parts


def _is_leaf(tensor: Tensor | None, born: int) -> bool:
    node = None if tensor is None else tensor.node
    return node is not None and node.born == born and tensor.array.flags.c_contiguous  # type: ignore[union-attr]


class Parameters:
    """The leaves with gradients that were used so far, and how they are arranged now."""

    def __init__(self) -> None:
        self.known: dict[int, weakref.ref[Tensor]] = {}  # by the number of the node's birth
        self.now = Arrangement({})

    def add(self, tensor: "weakref.ref[Tensor]", born: int) -> None:
        """Count on this tensor from the next step on."""
        self.known[born] = tensor

    def arrange(self) -> Arrangement:
        """The arrangement for the next step: the same one, unless parameters are new, gone or have other memory.

        What has happened since `living` last looked shows when it looks again, before the step is counted on.
        """
        if len(self.known) != len(self.now.tensors) or self.now.outdated:
            self.now = Arrangement(self.known)
            self.known = {born: self.known[born] for born in self.now.slots}
        return self.now


def written_since(array: Any, tick: int) -> bool:
    """Whether memory was written after a tick, as far as the ledger knows."""
    if aliasing.latest <= tick:
        return False
    write = aliasing.write_to(array)
    return write is not None and write.tick > tick
