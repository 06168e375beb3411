"""Who wrote to this memory, and when: the ledger that catches stale saved values.

A write is an event with a number, a recorded node is an event with a number (the same counter). A saved array is
stale when its memory was written after its node was born. So recording costs nothing: only writes are noted, and
backward looks them up. Memory is known by the ndarray that owns it, hence views share their fate.

Memory that a NumPy array outside shares (`.numpy()`, `from_numpy`) can be written without our knowledge: exposure.py.
"""

import sys
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from types import CodeType
from typing import Any

import numpy as np

from pellucid.core.provenance import Place, getframe, outside

tick = count(1).__next__


class Write:
    """The latest write to one block of memory."""

    __slots__ = ("code", "count", "lasti", "operation", "owner", "parts", "tick")

    def __init__(self, owner: "weakref.ref[np.ndarray]") -> None:
        self.owner = owner
        self.count = 0
        self.tick = 0
        self.operation = ""
        self.code: CodeType | None = None
        self.lasti = 0
        self.parts: list[Part] = []  # the latest writes by way of `.data`

    @property
    def place(self) -> Place | None:
        return None if self.code is None else Place(self.code, self.lasti)

    def harms(self, array: np.ndarray, since: int) -> bool:
        """Whether an array that was saved at a time may be another now."""
        number, latest = self.count, self.tick
        for part in reversed(self.parts):
            if latest <= since or part.number != number:
                break
            if part.meets(array):
                return True
            number, latest = number - 1, part.before
        return latest > since


class Part:
    """A write to a part of some memory: which of its writes, when the one before was, and where the part is."""

    __slots__ = ("before", "interface", "number")

    def __init__(self, number: int, before: int, array: np.ndarray) -> None:
        self.number, self.before = number, before
        self.interface = array.__array_interface__  # where it is; the memory is not kept alive by it

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.interface

    def meets(self, array: np.ndarray) -> bool:
        """Whether an array has an element in the part; to be called while the array lives."""
        try:
            return np.shares_memory(np.asarray(self), array, max_work=MOST_WORK)
        except np.exceptions.TooHardError:
            return True


MOST_PARTS = 64
MOST_WORK: Any = 10_000  # NumPy's older stubs allow 0 and -1 only


WRITES: dict[int, Write] = {}
latest = 0  # the number of the latest write or exposure: a node born after it cannot be stale
EXPOSED: dict[int, Any] = {}  # by the identity of its owner: memory that is shared with NumPy, see exposure.py


def owner_of(array: np.ndarray) -> np.ndarray:
    """The ndarray that owns the memory a view looks at."""
    base = array.base
    while isinstance(base, np.ndarray):
        array, base = base, base.base
    return array


def deep_copy(array: np.ndarray, is_view: bool, memo: dict[int, Any]) -> np.ndarray:
    """A copy of an array for copy.deepcopy: what shares memory shares it in the copies too, as PyTorch's storages do.

    Memory is copied whole when a view or all of it is asked for, and looked up by its owner after that. An array that
    is neither is a part of some pool, and gets memory of its own.
    """
    if type(array) is not np.ndarray:
        return np.copy(array, order="K")
    owner = owner_of(array)
    known = memo.get(id(owner))
    if known is None and owner.flags.forc and (is_view or array.nbytes == owner.nbytes):
        known = memo[id(owner)] = np.copy(owner, order="K")
        memo.setdefault(id(memo), []).append(owner)  # keeps it alive, and with it the number it is known by
    if type(known) is not np.ndarray or known.strides != owner.strides:
        return np.copy(array, order="K")
    start = array.ctypes.data - owner.ctypes.data
    return np.ndarray(array.shape, array.dtype, known.ravel("K").view(np.uint8), start, array.strides)


def forgetting(ledger: dict[int, Any], key: int) -> Callable[[Any], Any]:
    """What strikes memory off a ledger when it is gone: called with the reference, which `pop` takes as its default.

    Python calls it anywhere; written in C it cannot be where Ctrl-C falls, which would be lost there with the entry.
    """
    return partial(ledger.pop, key)


def record_of(array: np.ndarray) -> Write:
    """The ledger's entry for the memory of an array; it stays the same as long as the memory lives."""
    owner = owner_of(array)
    key = id(owner)
    write = WRITES.get(key)
    if write is None:
        write = WRITES[key] = Write(weakref.ref(owner, forgetting(WRITES, key)))
    return write


def note_write(array: np.ndarray, operation: str) -> None:
    """Remember that a block of memory was overwritten, by which operation and on which line of the user's."""
    note_writes((record_of(array),), operation)


def note_part(array: np.ndarray, operation: str) -> None:
    """Remember a write that a version counter does not see, as PyTorch's does not see those by way of `.data`.

    It spoils only what shares elements with it; any other write spoils all that was saved of its memory.
    """
    write = record_of(array)
    before = write.tick
    note_writes((write,), operation)
    write.parts.append(Part(write.count, before, array))
    del write.parts[:-MOST_PARTS]


def note_writes(records: Iterable[Write], operation: str) -> None:
    """Remember that blocks of memory were overwritten by one operation: the user's line is looked up once for all."""
    global latest
    frame = outside(getframe(1))
    code, lasti = frame.f_code, frame.f_lasti
    latest = now = tick()
    for write in records:
        write.count += 1
        write.tick, write.operation, write.code, write.lasti = now, operation, code, lasti
        if EXPOSED and (exposure := EXPOSED.get(id(write.owner()))) is not None:
            exposure.written()


def write_to(array: Any) -> Write | None:
    """The latest known write to an array's memory, if any."""
    return WRITES.get(id(owner_of(array))) if isinstance(array, np.ndarray) else None


def version_of(array: Any) -> int:
    """How often an array's memory was written in place: PyTorch's `_version`."""
    write = write_to(array)
    return 0 if write is None else write.count


def _passing() -> int:
    """References that passing a local name to a function adds: one, but none since Python 3.14, which lends it."""
    name = object()
    return sys.getrefcount(name) - 1


PASSING = _passing()


def is_exposed(array: Any) -> bool:
    """Tell whether memory is shared with a NumPy array outside."""
    return isinstance(array, np.ndarray) and id(owner_of(array)) in EXPOSED
