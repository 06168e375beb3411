"""Memory that a NumPy array outside shares: it is written there without our knowledge, and found out in time.

`from_numpy`, `.numpy()`, DLPack and buffers expose memory. What a node keeps of it is marked, and a walk back compares
before it uses the value. Marks belong to memory, not to nodes: a weight that twenty nodes keep is marked once.

- A node that keeps an array marks all of it. If another has done so a moment ago, a look at some elements (of
  a tiny array at all) must do, and it is marked again if those have changed. A mark is in force from the birth of its
  node on.
- A walk begins by comparing what was marked since the walk before. If all of it is as it was, no node needs a look.
  If not, or when a function of the user's has run in between, each node is asked for the mark in force at its birth.
- Where little memory is shared and several walks have found it unchanged, nobody looks any more (`rest`): all of it is
  compared when a node first keeps some of it, and again by the walk. What is then written in between is an error for
  every node that kept it, even if that was only afterwards.
- Memory that nobody outside holds any more is ours: `from_numpy` of a temporary costs nothing.

21 products and sums of arrays that the user holds take 4 to 9 % longer, forward and backward, than those of our own
memory, and 2 to 4 % if only another array is shared (bench/run.py --shared).
"""

import sys
import weakref
from collections.abc import Callable
from functools import partial
from itertools import starmap
from math import isqrt
from operator import eq
from typing import Any
from weakref import getweakrefcount

import numpy as np

from pellucid.core import aliasing
from pellucid.core.aliasing import EXPOSED, PASSING, forgetting, owner_of
from pellucid.core.large import add_words

TINY = 1 << 12  # bytes: up to here all elements are looked at whenever a node keeps them
SAMPLE = 64  # bytes of a larger array, side by side: comparing them takes 25 ns
SMALL = 1 << 16  # bytes: up to here a mark is a copy of them, and so many are compared as a whole; of more it is sums
LINE, LONG_LINE, MANY = 1021, 4093, 1 << 20  # words in a line, from so many bytes on the second number: see `sums_of`
MOMENT = 8  # births after a node has kept an array in which some elements stand for all of it
MOST_MARKS, FEW_MARKS = 8, 2  # contents of an array that are remembered, and of one that is not tiny
CALM = 8  # walks that must find all shared memory unchanged before it is compared as a whole
Read = Callable[[], bytes]

# References to an array that only its tensor holds: those of the tensor, of the caller, which passes it to expose, and
# of the name `owner` there; expose passes it to getrefcount.
TENSOR_REFERENCES = 3 + 2 * PASSING
# References to an array whose memory nobody else holds: that of the memoryview, and that with which it is asked for.
LAST_REFERENCES = 1 + 1


class Exposure:
    """Memory that is known outside, by the array that owns it."""

    __slots__ = ("by_root", "gone", "marked", "nbytes", "owner", "whole")

    def __init__(self, owner: np.ndarray, by_root: bool) -> None:
        self.by_root = by_root  # whether `rooted` made the owner: then nobody outside has that array itself
        self.owner = weakref.ref(owner, forgetting(EXPOSED, id(owner)))
        self.gone = [weakref.ref(owner, forgetting(ledger, id(owner))) for ledger in LEDGERS]
        self.whole: Region | None = None
        self.nbytes = owner.nbytes
        self.marked = False  # whether nodes have kept some of it while it could be written outside

    def mark(self, born: int) -> "Region | None":
        """Remember what all of it is."""
        owner = self.owner()
        if self.whole is None and owner is not None:
            self.whole = whole_of(owner)
        if self.whole is not None:
            self.whole.mark(born)
            self.marked = True
        return self.whole

    def region_of(self, array: np.ndarray, owner: np.ndarray) -> "Region":
        """The bytes that are marked together when a node keeps an array of this memory."""
        if array.nbytes != owner.nbytes or not array.flags.forc:
            return region_of(array)
        if self.whole is None:
            self.whole = whole_of(owner)
        return self.whole

    def written(self) -> None:
        """An operation of ours has written here, perhaps beside the samples: the next node marks it anew.

        The ledger of writes has all older nodes looked at one by one.
        """
        if calm:
            stir()
        if self.whole is not None:
            self.whole.active = False
        if MARKED:
            for key, kept in list(MARKED.items()):
                if kept.exposure is self:
                    kept.settle()
                    MARKED.pop(key, None)


class Region:
    """Bytes that are marked together: an exposed memory as a whole, or the part of it that some array shows."""

    __slots__ = ("active", "dropped", "last", "marks", "memory", "read", "witness")

    def __init__(self, memory: memoryview | None, read: Read) -> None:
        self.memory = memory  # the bytes themselves, if a mark is a copy of them that can be compared at once
        self.read = read
        self.marks: list[tuple[int, Any]] = []  # each with the tick from which on it is in force
        self.dropped = False  # whether older marks were forgotten
        self.active = False  # whether a node has kept it since its marks were settled
        self.last: tuple[int, Any, bool] | None = None  # the last comparison: when, with what mark, and the answer
        self.witness = 0  # the identity of the array that was kept when it was marked last

    def mark(self, born: int) -> None:
        """Remember what the bytes are when a node keeps them."""
        was_active, self.active = self.active, True
        now = self.memory if self.memory is not None else self.read()
        if self.marks and self.marks[-1][1] == now:
            return
        if calm and self.marks:
            stir()
        if was_active:  # somebody's kept values have changed: nodes born until now are to be looked at one by one
            aliasing.latest = aliasing.tick()
        self.marks.append((born, bytearray(now)))
        if len(self.marks) > (MOST_MARKS if len(now) <= TINY else FEW_MARKS):
            del self.marks[0]
            self.dropped = True

    def is_vouched_for(self) -> bool:
        """Whether an array of these bytes was marked whose elements that are looked at are as they were then."""
        witness = KEPT.get(self.witness)
        if not isinstance(witness, Kept) or witness.region is not self or witness.seen is None:
            return False
        return bool(witness.seen == witness.view)

    def is_unchanged(self) -> bool:
        """Whether the bytes are those that were marked last."""
        now = self.memory if self.memory is not None else self.read()
        return bool(self.marks and self.marks[-1][1] == now)

    def is_still(self, mark: Any) -> bool:
        """Whether the bytes are those of a mark; compared once as long as no function of the user's can run."""
        asked = quiet_since  # before the bytes are read: another thread may run a function of the user's meanwhile
        if self.last is None or self.last[0] != asked or self.last[1] is not mark:
            now = self.memory if self.memory is not None else self.read()
            self.last = asked, mark, bool(mark == now)
        return self.last[2]

    def differs_since(self, born: int) -> bool | None:
        """Whether the bytes are not those that a node kept at its birth; None if they were not marked then.

        Marks that were forgotten are taken to differ.
        """
        for since, mark in reversed(self.marks):
            if since <= born:
                return not self.is_still(mark)
        return True if self.dropped else None


HIDDEN: Any = "memory of our own, which a view of it would keep alive"  # equals nothing that was seen


class Kept:
    """An array that nodes keep: where its bytes are marked, and what some of them were when a node kept it last."""

    __slots__ = ("array", "born", "exposure", "gone", "region", "seen", "view")

    def __init__(self, array: np.ndarray, exposure: Exposure, owner: np.ndarray) -> None:
        self.array = weakref.ref(array, forgetting(KEPT, id(array)))
        self.gone = weakref.ref(array, forgetting(MARKED, id(array)))
        self.exposure, self.region = exposure, exposure.region_of(array, owner)
        shown, memory = beside(array, owner), self.region.memory
        if shown is None:
            self.view = HIDDEN
        else:
            self.view = memory if memory is not None and len(memory) <= TINY else sample_of(shown)
        self.seen: Any = None  # a bytearray: it compares itself with any memory, without a copy
        self.born = 0  # of the node that kept it last

    def look(self, array: np.ndarray) -> memoryview:
        """The elements that are looked at, as they are now."""
        return sample_of(array) if self.view is HIDDEN else self.view

    def was_just_seen(self, array: np.ndarray, born: int) -> bool:
        """Whether it was kept a moment ago, and the elements that are looked at are as they were then."""
        if born - self.born > MOMENT or self.seen != self.look(array):
            return False
        self.born = born
        return True

    def note(self, array: np.ndarray, born: int) -> None:
        """Mark the bytes anew, unless the array that they were marked by (a weight, and this is its transpose) says
        that they have not changed.
        """
        region, key = self.region, id(array)
        if region.witness == key or not region.is_vouched_for():
            region.mark(born)
            region.witness, self.exposure.marked = key, True
        whole = self.view is region.memory
        self.seen, self.born = region.marks[-1][1] if whole else bytearray(self.look(array)), born
        MARKED[key] = self

    def settle(self) -> None:
        """Have the next node that keeps the array mark it."""
        self.seen, self.region.active = None, False


class Ours:
    """An array from outside that nodes keep and nobody else holds: it changes only where we write."""

    __slots__ = ("array", "gone")

    def __init__(self, array: np.ndarray, owner: np.ndarray) -> None:
        self.array = weakref.ref(array, forgetting(KEPT, id(array)))
        self.gone = weakref.ref(array, forgetting(OURS, id(owner)))


# By the identity of an array: all that nodes have kept, and those that a walk compares.
KEPT: dict[int, Kept | Ours] = {}
MARKED: dict[int, Kept] = {}
OURS: dict[int, int] = {}  # the array that shows the memory of an owner whom nobody else holds
YOUNG: dict[int, Exposure] = {}  # memory from outside since the last walk, by its owner
HANDED_OUT: dict[int, Exposure] = {}  # exposed memory of our own: an array that is no view may have it
ALERT: list[bool] = []  # not empty: whoever makes a node looks whether what it keeps is exposed,
DUE: list[bool] = []  # and not empty: after `rest` nobody need look
# By the identity of its owner: the mark of a memory that has stayed as it is, and its bytes; and the same of our own.
RESTING: dict[int, tuple[bytearray, memoryview]] = {}
LENT: dict[int, tuple[bytearray, Callable[[], Any]]] = {}
LEDGERS: tuple[dict[int, Any], ...] = YOUNG, HANDED_OUT, RESTING, LENT
quiet_since = 0  # when a function of the user's may have run last
calm = 0  # walks in a row that have found no exposed memory changed
resting = False  # whether nobody looks because all exposed memory has been marked


def rooted(array: np.ndarray) -> np.ndarray:
    """An array's memory as a new array with a memoryview between them, by which `claimed` can tell who holds it.

    NumPy would let all views refer to the first array, ours and the user's.
    """
    if array.base is not None or array.dtype.kind == "V":  # somebody's view, or a type that no buffer has: bfloat16
        return array
    memory: Any = array
    return np.asarray(memoryview(memory))


def claimed(exposure: Exposure) -> bool:
    """Take memory for our own that came by `rooted`, if nobody outside can reach it and nothing of it was marked."""
    owner = exposure.owner()
    if owner is None or exposure.marked or not exposure.by_root:
        return False
    view: Any = owner.base
    if sys.getrefcount(view.obj) != LAST_REFERENCES or getweakrefcount(view.obj):
        return False
    EXPOSED.pop(id(owner), None)
    return True


def claim_young() -> None:
    """Look whether the memory that has come from outside is ours by now."""
    for key in list(YOUNG):
        exposure = YOUNG.pop(key, None)  # other threads and arrays that die take entries out meanwhile
        if exposure is not None:
            claimed(exposure)


def expose(array: np.ndarray, new: bool = False, by_root: bool = False) -> None:
    """Remember that a NumPy array outside Pellucid shares this memory from now on.

    It is marked at once if a node may have kept it already, that is, if somebody besides the tensor holds it; memory
    that is `new` to Pellucid is not. What came `by_root` is ours when nobody outside holds it any more.
    """
    owner = owner_of(array)
    key = id(owner)
    known = EXPOSED.get(key)
    if known is not None and known.owner() is owner:
        return
    KEPT.pop(OURS.pop(key, 0), None)
    ledger = YOUNG if new else HANDED_OUT
    exposure = EXPOSED[key] = ledger[key] = Exposure(owner, by_root)
    stir()  # after it stands in EXPOSED: see `rest`
    if not new and (array is not owner or sys.getrefcount(array) > TENSOR_REFERENCES):
        exposure.mark(0)
        aliasing.latest = aliasing.tick()


def note_kept(array: np.ndarray, born: int) -> None:
    """Mark an array that a new node keeps, if it is exposed."""
    kept = KEPT.get(id(array))
    if kept is None:
        owner = owner_of(array)
        exposure = EXPOSED.get(id(owner))
        if exposure is None:
            return
        if claimed(exposure):
            KEPT[id(array)], OURS[id(owner)] = Ours(array, owner), id(array)
            return
        kept = KEPT.setdefault(id(array), Kept(array, exposure, owner))  # one for all threads, with one set of marks
    if isinstance(kept, Kept) and not kept.was_just_seen(array, born):
        kept.note(array, born)


def rest(born: int) -> bool:
    """Mark all exposed memory, which is little, and look no more until a walk; False if something has changed.

    No lock, for which a child process might wait for ever: what another thread exposes meanwhile is counted at the end.
    """
    global resting
    DUE.clear()
    if len(RESTING) + len(LENT) != len(EXPOSED) or not is_at_rest():
        if not is_little():
            stir()
        if not calm or not mark_all(born):
            return False
    ALERT.clear()
    resting = True
    if len(RESTING) + len(LENT) != len(EXPOSED):
        stir()
    return resting


def is_little() -> bool:
    """Whether all exposed memory can be compared as a whole."""
    return bool(sum([each.nbytes for each in list(EXPOSED.values())]) <= SMALL)


def is_at_rest() -> bool:
    """Whether the memory that has stayed as it is still is so."""
    if LENT and not all(mark == array() for mark, array in list(LENT.values())):
        return False
    return all(starmap(eq, list(RESTING.values())))


def mark_all(born: int) -> bool:
    """Mark all exposed memory; False if some of it has changed, or cannot be compared at once."""
    was_calm = True
    for key, exposure in list(EXPOSED.items()):
        owner, region = exposure.owner(), exposure.mark(born)
        was_calm = was_calm and calm > 0
        if region is None or owner is None:
            continue
        mark = region.marks[-1][1]
        if region.memory is not None:
            RESTING[key] = mark, region.memory
        elif owner.flags.c_contiguous and owner.dtype.kind in "fiubc":
            LENT[key] = mark, exposure.owner
        else:
            was_calm = False
    if not was_calm:
        stir()
    return was_calm


def stir() -> None:
    """Exposed memory is not what it was, or not all of it is marked: look at all that nodes keep, for some walks."""
    global calm, resting
    if RESTING or LENT:
        aliasing.latest = aliasing.tick()
        RESTING.clear()
        LENT.clear()
    calm, resting = 0, False
    DUE.clear()
    if not ALERT:
        ALERT.append(True)


def compare() -> None:
    """Before a walk: if something that was marked since the last one has changed, let each node be looked at."""
    global calm, quiet_since, resting
    quiet_since = aliasing.tick()
    if YOUNG:
        claim_young()
    if not is_at_rest() or (MARKED and not are_as_marked()):
        aliasing.latest = quiet_since
        stir()
    calm += 1
    if resting:
        resting = False
        ALERT.append(True)
    if calm > CALM and (KEPT or HANDED_OUT):
        DUE[:] = [True]
    if not EXPOSED:
        ALERT.clear()


def are_as_marked() -> bool:
    """Whether what nodes have kept since the last walk is as it was."""
    return all(map(Region.is_unchanged, {kept.region for kept in list(MARKED.values())}))


def settle() -> None:
    """After a walk: what nodes keep from now on is marked anew, and older nodes are looked at when they are walked."""
    for key, kept in list(MARKED.items()):
        kept.settle()
        MARKED.pop(key, None)
    aliasing.latest = aliasing.tick()


def user_code_ran() -> None:
    """What was compared may have changed: a hook or a custom backward can have written to anything."""
    global quiet_since
    quiet_since = aliasing.tick()
    if MARKED or RESTING or LENT:
        aliasing.latest = quiet_since


def written_outside(array: np.ndarray, born: int) -> bool:
    """Whether an array that a node kept at its birth was changed by NumPy since."""
    kept = KEPT.get(id(array))
    differs = kept.region.differs_since(born) if isinstance(kept, Kept) else None
    if differs is None:  # it was kept before it was exposed, and marked as a whole then
        exposure = EXPOSED.get(id(owner_of(array)))
        differs = exposure is not None and exposure.whole is not None and exposure.whole.differs_since(born)
    return bool(differs)


# --- reading bytes


def beside(array: np.ndarray, owner: np.ndarray) -> np.ndarray | None:
    """An array of the same memory that does not keep `array` alive, if there can be one."""
    if array is not owner:
        return array
    memory: Any = owner.base
    return np.asarray(memory) if type(memory) is memoryview else None


def once(array: np.ndarray) -> np.ndarray:
    """An array without its repetitions: of what is expanded one line."""
    return array[tuple([slice(1) if step == 0 else slice(None) for step in array.strides])]


def raw_of(array: np.ndarray) -> np.ndarray | None:
    """The bytes of an array as they lie in memory, if they lie side by side."""
    if 0 in array.strides:
        array = once(array)
    return array.ravel("K").view(np.uint8) if array.flags.forc else None


def region_of(array: np.ndarray) -> Region:
    """The bytes of an array, to be marked together."""
    raw = raw_of(array)
    return Region(None if raw is None or raw.nbytes > SMALL else raw.data, reader_of(array))


def whole_of(owner: np.ndarray) -> Region:
    """All bytes of a memory; the region does not keep it alive."""
    array = beside(owner, owner)
    return Region(None, partial(_through, weakref.ref(owner))) if array is None else region_of(array)


def _through(reference: "weakref.ref[np.ndarray]") -> bytes:
    array = reference()
    return b"" if array is None else reader_of(array)()


def sample_of(array: np.ndarray) -> memoryview:
    """Some bytes of an array, side by side; of a tiny one all.

    They lie in the middle of the line in the middle, also of a picture whose lines stand in a row: a border is often
    empty.
    """
    raw = raw_of(array)
    if raw is not None and raw.nbytes <= TINY:
        return raw.data
    line = once(array)[tuple([slice(n // 2, n // 2 + 1) for n in array.shape[:-1]])].reshape(-1)
    count = SAMPLE // array.itemsize if line.flags.forc else 1
    begin = max(0, (line.size + isqrt(line.size) - count) // 2)
    return line[begin : begin + count].view(np.uint8).data


def reader_of(array: np.ndarray) -> Read:
    """A function, prepared for speed, that reads an array's bytes as a mark: all of them, of a large array sums."""
    if 0 in array.strides:
        array = once(array)
    if not array.flags.forc:
        return array.view().tobytes if array.nbytes <= SMALL else partial(_sums_of_copy, array)
    memory = array.ravel("K")
    return memory.tobytes if array.nbytes <= SMALL else sums_of(memory)


def _sums_of_copy(array: np.ndarray) -> bytes:
    return sums_of(array.ravel())()


def sums_of(memory: np.ndarray) -> Read:
    """A function that adds up the words of a long array: sums that differ when its bytes do, but by accident.

    The words stand in lines of a prime number, and odd numbers of lines are added up. So what is moved, or added to
    one word and taken from another, is seen unless both are in one column of one sum, and of numbers that change
    their signs an odd number falls into some column. (256 KB take 5 to 10 µs, a CRC takes 60.)
    """
    raw = memory.view(np.uint8)
    words, rest_of_words = raw[: raw.size // 8 * 8].view(np.int64), raw[raw.size // 8 * 8 :].tobytes
    if not words.flags.aligned:
        return lambda: sums_of(memory.copy())()
    width = LINE if raw.size < MANY else LONG_LINE
    lines = -(-words.size // width)
    half = (lines + 1) // 2 | 1  # each core has a half in its cache if it has just computed with the array
    shape = -(-lines // half), width
    free: list[np.ndarray] = []  # for who reads next: new memory each time would take twice the time

    def read() -> bytes:
        try:
            sums = free.pop()  # no lock, which another thread, a signal's handler or a forked process would wait for
        except IndexError:
            sums = np.empty(shape, np.int64)
        add_words(words, half, sums)
        found = sums.tobytes() + rest_of_words()
        free.append(sums)
        return found

    return read
