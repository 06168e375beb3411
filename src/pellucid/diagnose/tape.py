"""The tape of one training step: the operations that ran, as data, and copies of the values they started from.

A tape observes. Every tensor that takes part gets a number (a slot): results in the order in which they are made, and
between them the tensors that no operation on the tape has made, the leaves: parameters, the batch, random numbers,
buffers. A leaf is copied when it is first used, with its memory layout (sums and matrix products depend on it in the
last bit). No result is kept alive, so a tape costs a step the memory of its leaves.

An in-place operation on a result needs nothing of its own: it computes its functional form, which is on the tape, and
from then on the tensor stands for that result.
"""

import weakref
from typing import Any, NamedTuple

import numpy as np

from pellucid.core import aliasing
from pellucid.core.function import no_forward
from pellucid.core.keep import arguments
from pellucid.core.primitive import BOUND, TABLE, Primitive
from pellucid.core.provenance import here
from pellucid.core.tensor import Leaf, Node, Tensor, wrap
from pellucid.core.views import current_node
from pellucid.diagnose.snapshots import Arrangement, Parameters, written_since

__all__ = ["BACKWARD", "DETACH", "Entry", "Given", "Tape", "copy_of"]

ndarray = np.ndarray
BACKWARD = Primitive("backward", lambda *_: None, (), None)  # stands on the tape where the user called backward()
DETACH = Primitive("detach", lambda *_: None, (), None)  # the same values without history
SMALL = 4096  # bytes; copying that much costs less than finding out whether it has to be copied
MOST_ENTRIES = 100_000  # operations; a program that never steps must not fill the memory
LARGE = 1 << 20  # bytes; of what an operation without graph picks out of more, only the pick is recorded (a dataset)

# An operation on the tape: the row, the slots it takes, its params, its first slot and how many it fills; code and
# lasti of the user's line (None: that of the next one); the tick when it ran.
Entry = tuple[Primitive, list[int], tuple[Any, ...], int, int, Any, int, int]
Copy = tuple[Any, int, np.ndarray]  # whose memory (weakly), the tick of its last write, and the copy of it


class Given(NamedTuple):
    """A leaf of the tape: its slot, its values, whether gradients come to rest there, and what it is."""

    slot: int
    values: np.ndarray  # our own memory
    grad: bool
    tensor: "weakref.ref[Tensor]"
    opaque: str  # the operation that made it, if that cannot be replayed


class Tape:
    """An observer that writes down one step."""

    only_recording = True  # nothing happens while gradients are off
    gradient = None  # backward is written down as a whole

    def __init__(self, limit: int, after_backward: Any = None) -> None:
        self.limit, self.after_backward = limit, after_backward
        self.copies: dict[int, Copy] = {}
        self.parameters = Parameters()
        self.begin()

    def begin(self) -> None:
        """Start over with an empty tape; copies of the last step serve again where nothing was written since."""
        self.arranged = self.parameters.arrange()
        self.entries: list[Entry] = []
        self.given: list[Given] = []  # the leaves besides the parameters
        self.notes: list[str] = []
        self.began = self.copied = aliasing.tick()
        self.of_node = self.arranged.slots.copy()  # number of birth -> slot
        self.of_tensor: dict[int, tuple[Any, int, int]] = {}  # without graph: id -> (weakly, slot, tick)
        self.count = len(self.arranged.arrays)
        self.bytes, self.shared = self.arranged.bytes, 0  # copied in this step, and kept from the step before
        self.overflow = self.bytes > self.limit
        self.snapshot = [] if self.overflow else self.arranged.copied()
        self.earlier, self.copies = self.copies, {}
        self.last: Any = ()  # the results of the operation before, and the slot of the first
        self.last_slot = -1

    def check_parameters(self) -> None:
        """Copy the parameters again if some were changed since the step began (by the user, before their use)."""
        if self.arranged.holds():
            if not self.arranged.written_since(self.copied):
                return
        else:  # `parameter.data = ...` gave one other memory
            renewed = Arrangement(dict(zip(self.arranged.slots, self.arranged.tensors, strict=True)))
            if renewed.slots != self.arranged.slots:
                return self.note("a parameter went away in the middle of the step: gradients are not compared")
            self.arranged = renewed
        self.snapshot, self.copied = self.arranged.copied(), aliasing.tick()
        if any(entry[0] is BACKWARD for entry in self.entries):
            self.note("a parameter was changed in the middle of the step: gradients are not compared")

    # --- what an observer is told

    def operation(self, p: Primitive, tensors: Any, params: tuple[Any, ...], outs: Any) -> None:
        """Write down an operation that has just run. (Between kernels nothing is in the cache: every line counts.)"""
        out: Any = outs[0] if outs else None
        node = None if out is None else out.node
        if node is None or p.boundary or p.forward is no_forward or self.overflow or type(out.array) is not ndarray:
            return self._rare(p, tensors, params, outs)
        of_node = self.of_node
        slots = []
        for tensor in tensors:
            parent = tensor.node
            slot = None if parent is None else of_node.get(parent.born)
            slots.append(self._slot(tensor) if slot is None else slot)
        first = self.count
        if len(outs) == 1:
            of_node[node.born] = first
            self.count = first + 1
        else:
            self._several(outs, node.born)
        self.last, self.last_slot = outs, first
        self.entries.append((p, slots, params, first, len(outs), node.code, node.lasti, node.born))

    def _several(self, outs: Any, now: int) -> None:
        """Give several results their slots; those of integers have no graph."""
        for out in outs:
            if out.node is not None:
                self.of_node[out.node.born] = self.count
            else:
                self.of_tensor[id(out)] = weakref.ref(out), self.count, now
            self.count += 1

    def _rare(self, p: Primitive, tensors: Any, params: tuple[Any, ...], outs: Any) -> None:
        """Write down an operation without graph, or results that cannot be computed again from data."""
        if self.overflow or not outs:
            return
        if p.boundary or p.forward is no_forward or type(outs[0].array) is not ndarray:
            return self._opaque(p, outs)
        last = self.last
        if last and len(tensors) == 1 and tensors[0].array is last[0].array and not any(p.rules) and p.pullback is None:
            # Half of an operation of ours (the moments of a layer norm): the other half, which follows, knows the line.
            first, now = self.count, self.entries[-1][-1]
            self.entries.append((p, [self.last_slot], params, first, len(outs), None, 0, now))
            self.count += len(outs)
        elif self._is_leaf_enough(tensors, outs):
            return
        else:
            first = self._emit(p, [self._slot(tensor) for tensor in tensors], params, None, len(outs))
            now = self.entries[-1][-1]
        for slot, out in enumerate(outs, first):
            self.of_tensor[id(out)] = weakref.ref(out), slot, now
        self.last, self.last_slot = outs, first

    def write(self, target: Tensor, name: str) -> None:
        """A result was written in place: the tensor now stands for what was computed last."""
        node = target.node
        if node is not None and self.last and node is self.last[0].node:
            self.of_node[node.born] = self.last_slot

    def backward(self, tensors: Any, gradients: Any, selective: bool, create_graph: bool) -> None:
        """The user's backward() has filled `.grad`."""
        if self.overflow:
            return
        if selective or create_graph:
            what = "inputs=" if selective else "create_graph=True"
            self.note(f"backward({what}) is not replayed: gradients are not compared")
        self.check_parameters()
        roots = [self._slot(tensor) for tensor in tensors]
        seeds = tuple(None if g is None else self._slot(g) for g in gradients)
        self.last = ()
        self._emit(BACKWARD, roots, seeds, None, 0)
        if self.after_backward is not None:
            self.after_backward(tensors)

    def note(self, text: str) -> None:
        """Remember something about this step that a reader of the recording has to know."""
        if text not in self.notes:
            self.notes.append(text)

    # --- which slot a tensor is

    def _slot(self, tensor: Tensor) -> int:
        node = tensor.node if tensor.window is None else current_node(tensor)
        if node is None:
            known = self.of_tensor.get(id(tensor))
            if known is not None and known[0]() is tensor and not written_since(tensor.array, known[2]):
                return known[1]
            last = self.last
            return self._detached(tensor) if last and tensor.array is last[0].array else self._enter(tensor)
        slot = self.of_node.get(node.born)
        if slot is None:
            return self._enter(tensor, node) if isinstance(node, Leaf) else self._revived(tensor, node)
        return slot

    def _detached(self, tensor: Tensor) -> int:
        """A result's values taken out of the graph (`detach`): of the last one, as those before it are not held."""
        slot = self._emit(DETACH, [self.last_slot], (), None)
        self.of_tensor[id(tensor)] = weakref.ref(tensor), slot, self.entries[-1][-1]
        return slot

    def _enter(self, tensor: Tensor, node: Node | None = None, opaque: str = "") -> int:
        """A tensor that nothing on the tape has made: copy its values."""
        array, slot = tensor.array, self.count
        self.count += 1
        reference = weakref.ref(tensor)
        if node is None:
            self.of_tensor[id(tensor)] = reference, slot, aliasing.tick()
        else:
            self.of_node[node.born] = slot
            if not opaque:
                self.parameters.add(reference, node.born)
        self.given.append(Given(slot, self._copy(array), node is not None, reference, opaque))
        if self.bytes + self.shared > self.limit or len(self.entries) > MOST_ENTRIES:  # nothing of this step is kept
            self.overflow = True
            self.entries, self.given, self.copies = [], [], {}
        return slot

    def _copy(self, array: np.ndarray) -> np.ndarray:
        """Copy an array, unless the copy of the step before is still true."""
        size = array.nbytes
        if size <= SMALL:
            self.bytes += size
            return copy_of(array)
        write = aliasing.write_to(array)
        written = 0 if write is None else write.tick
        key = id(array)
        known = self.earlier.get(key) or self.copies.get(key)
        if known is not None and known[1] == written and known[0]() is array and not aliasing.is_exposed(array):
            self.copies[key] = known
            self.shared += size
        else:
            self.bytes += size
            known = self.copies[key] = weakref.ref(array), written, copy_of(array)
        return known[2]

    def _revived(self, tensor: Tensor, node: Node) -> int:
        """A result that came about unseen: a view whose base was written, a base written through a view."""
        if node.primitive.name == "write_view":
            return self._written_view(tensor, node)
        view = tensor.window
        if view is not None and view.steps and view.base is not tensor:
            slot = self._slot(view.base)
            for p, params in view.steps:
                slot = self._emit(p, [slot], params, node)
            self.of_node[node.born] = slot
            return slot
        return self._enter(tensor, node, node.primitive.name)

    def _written_view(self, base: Tensor, node: Node) -> int:
        """The base of a view that was written: its old self with this part replaced."""
        old, new = node.inputs
        steps = arguments(node.primitive, node.saved, 0 if old is not None else 1)[-1]
        before = None if old is None else self.of_node.get(old.born)
        if new is not None and self.last and new is self.last[0].node:  # a write made it younger than it was
            self.of_node[new.born] = self.last_slot
        value = None if new is None else self.of_node.get(new.born)
        if before is None:  # all but the written part is as it was, and that part is written again
            before = self._enter(wrap(base.array)) if old is None else self._enter(base, old, "a view")
        if value is None:
            part = base.array
            for p, params in steps:
                part = BOUND[p.name](part, *params)
            value = self._enter(wrap(np.array(part)))
        slot = self._emit(TABLE["write_view"], [before, value], (steps,), node)
        self.of_node[node.born] = slot
        return slot

    def _emit(self, p: Primitive, inputs: list[int], params: tuple[Any, ...], node: Node | None, count: int = 1) -> int:
        """Put an operation on the tape at the line of a node, or at the line that is running; its first slot."""
        at = here() if node is None else node
        self.entries.append((p, inputs, params, self.count, count, at.code, at.lasti, aliasing.tick()))
        self.count += count
        return self.count - count

    def _opaque(self, p: Primitive, outs: Any) -> None:
        """An operation that cannot run again from data: its results are leaves."""
        custom = p.forward is no_forward
        what = f"{p.name}, a function of the script's own" if custom else "a transformation (vmap, jvp)"
        self.note(f"the results of {what}, are recorded; its backward is not replayed")
        for out in outs:
            if type(out.array) is np.ndarray:
                self._enter(out, out.node, what)

    def _is_leaf_enough(self, tensors: Any, outs: Any) -> bool:
        """Whether results without graph are copied when they are used, and what made them is not written down.

        That is so for a few integers, which never are where something went wrong, and for a batch out of a dataset.
        """
        size = sum([out.array.nbytes for out in outs])
        if size <= SMALL and outs[0].array.dtype.kind in "biu":
            return True
        largest = max([t.array.nbytes for t in tensors if id(t) not in self.of_tensor], default=0)
        return largest > LARGE and 4 * size < largest


def copy_of(array: np.ndarray) -> np.ndarray:
    """The same values in memory of their own, with the same strides (a layout full of holes is closed up).

    >>> copy_of(np.zeros((4, 6))[::2].T).strides
    (8, 96)
    """
    if array.flags.c_contiguous:
        return array.copy()
    reach = [stride * (size - 1) for stride, size in zip(array.strides, array.shape, strict=True)]
    low, high = (sum(step for step in reach if (step < 0) is below) for below in (True, False))
    span = high - low + array.itemsize
    if not array.size or span > 4 * array.nbytes + 1024:
        return array.copy(order="K")
    made: np.ndarray = np.ndarray(array.shape, array.dtype, np.zeros(span, np.uint8).data, -low, array.strides)
    np.copyto(made, array)
    return made
