"""The tape of one training step: the operations that ran, as data, and copies of the values they started from.

A tape observes. Every value that takes part has a key: results the number of their node's birth, values without graph
and leaves (parameters, the batch, random numbers, buffers) a number of their own. A leaf is copied when it is first
used, with its memory layout (sums and matrix products depend on it in the last bit). No result is kept alive but the
last, so a tape costs a step the memory of its leaves.

While a step runs, its log is a dictionary in the order of what happened, most of whose lines the hot path itself has
left there (see `modes.Log`): a row, its params, and the node, which knows its inputs and the user's line. What all that
means is worked out when somebody wants to read it, by `transcribed`.

An in-place operation on a result needs nothing of its own: it computes its functional form, which is on the tape, and
from then on the tensor stands for that result.
"""

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid.core import aliasing
from pellucid.core.departures import CLEARINGS
from pellucid.core.function import no_forward
from pellucid.core.keep import arguments
from pellucid.core.modes import Log
from pellucid.core.primitive import BOUND, TABLE, Primitive, as_written
from pellucid.core.provenance import Place, here
from pellucid.core.tensor import Freed, Leaf, Node, Tensor, picked_from, wrap
from pellucid.core.views import current_node
from pellucid.diagnose.snapshots import Arrangement, Parameters, written_since

__all__ = [
    "BACKWARD",
    "CLEAR",
    "DETACH",
    "Entry",
    "Given",
    "Tape",
    "copy_of",
    "keeps_values",
    "transcribed",
    "without_nodes",
]

ndarray = np.ndarray
BACKWARD = Primitive("backward", lambda *_: None, (), None)  # stands on the tape where the user called backward()
CLEAR = Primitive("clear", lambda *_: None, (), None)  # where gradients were forgotten between two of these
DETACH = Primitive("detach", lambda *_: None, (), None)  # the same values without history
SMALL = 4096  # bytes; copying that much costs less than finding out whether it has to be copied
MOST_LINES = 100_000  # in a log; a program that never steps must not fill the memory
MANY = 512  # lines of the hot path that may wait with their nodes: those of results that are gone hold what they kept
LARGE = 1 << 20  # bytes; of what an operation without graph picks out of more, only the pick is recorded (a dataset)

# An operation on the tape: the row, the slots it takes, its params, its first slot and how many it fills; code and
# lasti of the user's line (None: that of the next one); the tick when it ran.
Entry = tuple[Primitive, list[int], tuple[Any, ...], int, int, Any, int, int]
Copy = tuple[Any, int, np.ndarray]  # whose memory (weakly), the tick of its last write, and the copy of it


class Line(NamedTuple):
    """What the log says of an operation that it was told of: keys of its inputs and its results."""

    row: Primitive
    params: tuple[Any, ...]
    code: Any
    lasti: int
    inputs: list[Any]  # None: what half of the operation works out (see `Primitive.half`)
    results: Sequence[int]


class Given(NamedTuple):
    """A leaf of the tape: its slot, its values, whether gradients come to rest there, and what it is."""

    slot: int  # its key, until the tape is transcribed
    values: np.ndarray  # our own memory
    grad: bool
    tensor: "weakref.ref[Tensor]"
    opaque: str  # the operation that made it, if that cannot be replayed


class Tape:
    """An observer that writes down one step."""

    only_recording = True  # nothing happens while gradients are off
    gradient = None  # backward is written down as a whole

    def __init__(self, limit: int, after_backward: Any = None, after_update: Any = None) -> None:
        self.limit, self.after_backward, self.after_update = limit, after_backward, after_update
        self.copies: dict[int, Copy] = {}
        self.parameters = Parameters()
        self.log = Log()
        self.begin()

    def begin(self) -> None:
        """Start over with an empty tape; copies of the last step serve again where nothing was written since."""
        self.arranged = self.parameters.arrange()
        self.given: list[Given] = []  # the leaves besides the parameters
        self.notes: list[str] = []
        self.began = self.copied = aliasing.tick()
        self.log.clear()
        self.log.update(self.arranged.known)
        self.log.last = None
        self.aside: dict[int, Any] | None = None  # the log after a backward, until the next operation shows what it is
        self.stripped = len(self.log)  # lines that hold no node
        self.walked: Place | None = None  # where backward() was called last, and
        self.ended = 0  # when
        self.of_tensor: dict[int, tuple[Any, int, int]] = {}  # without graph: id -> (weakly, key, tick)
        self.bytes, self.shared = self.arranged.bytes, 0  # copied in this step, and kept from the step before
        self.overflow = self.bytes > self.limit
        self.snapshot = [] if self.overflow else self.arranged.copied()
        self.earlier, self.copies = self.copies, {}

    def check_parameters(self) -> list[Tensor | None]:
        """Copy the parameters again if some were changed since the step began (by the user, before their use)."""
        arranged = self.arranged
        tensors: Any = arranged.living()
        if tensors is not None:
            if not arranged.written_since(self.copied):
                return tensors  # type: ignore[no-any-return]
        else:  # `parameter.data = ...` gave one other memory
            tensors = [reference() for reference in arranged.tensors]
            self.arranged = Arrangement(dict(zip(arranged.slots, arranged.tensors, strict=True)))
            if self.arranged.slots != arranged.slots:
                self.arranged = arranged
                self.note("a parameter went away in the middle of the step: gradients are not compared")
                return tensors  # type: ignore[no-any-return]
        self.snapshot, self.copied = self.arranged.copied(), aliasing.tick()
        if self.walked is not None:
            self.note("a parameter was changed in the middle of the step: gradients are not compared")
        return tensors  # type: ignore[no-any-return]

    # --- what an observer is told

    def operation(self, p: Primitive, tensors: Any, params: tuple[Any, ...], outs: Any) -> None:
        """Write down an operation that has just run and whose inputs are not all in the log."""
        if self.overflow or not outs:
            return
        out = outs[0]
        if self.aside is not None and out.node is not None:
            self.settle()
        if p.boundary or p.forward is no_forward or type(out.array) is not ndarray:
            return self._opaque(p, outs)
        node = out.node
        if node is None:
            return self._without_graph(p, tensors, params, outs)
        log, keys = self.log, self._keys(p, tensors)
        if len(outs) == 1:
            born = node.born
            log[born] = Line(p, params, node.code, node.lasti, keys, (born,))
        else:
            self._several(p, params, keys, outs)
        log.last = out
        if len(log) - self.stripped > MANY:
            self._make_room()

    def lines(self) -> dict[int, Any]:
        """What the log says of the step so far."""
        if self.aside is None:
            return dict(self.log)
        return self.aside | self.log if self.log else self.aside

    def settle(self) -> None:
        """After a backward: a new step begins if the parameters were changed (by hand, by LBFGS), else this goes on."""
        if self.aside is not None:
            if self.after_update is not None and self._are_changed():
                self.after_update()
            else:
                self._go_on()

    def _go_on(self) -> None:
        lines = self.lines()
        self.log.clear()
        self.log.update(lines)
        self.aside = None

    def _are_changed(self) -> bool:
        """Whether a parameter has other values than those that were copied."""
        if self.arranged.living() is None or self.arranged.written_since(self.copied):
            return True
        new = [(leaf.tensor(), leaf.values) for leaf in self.given if leaf.grad and not leaf.opaque]  # not arranged yet
        return not all(tensor is None or np.array_equal(tensor.array, was, equal_nan=True) for tensor, was in new)

    def _make_room(self) -> None:
        """Let go of nodes, which may hold what they kept for a backward that never comes; give up an endless step."""
        without_nodes(self.log)
        self.stripped = len(self.log)
        if self.stripped > MOST_LINES:
            self._give_up()

    def _give_up(self) -> None:
        """The step is too large to be recorded: nothing of it is kept."""
        self.overflow = True
        self.given, self.copies = [], {}
        self.log.clear()
        self.aside = None

    def _keys(self, p: Primitive, tensors: Any) -> list[Any]:
        """The keys of the inputs of an operation; None for one that half of the operation works out again."""
        log, keys = self.log, []
        for tensor in tensors[:-1] if p.half else tensors:
            parent = tensor.node
            key = None if parent is None else parent.born
            keys.append(key if key in log else self._key(tensor))
        return [*keys, None] if p.half else keys

    def _several(self, p: Primitive, params: tuple[Any, ...], keys: list[Any], outs: Any) -> None:
        """Write down an operation with several results; those of integers have no graph."""
        node, log, results = outs[0].node, self.log, []
        for out in outs:
            key = self._named(out) if out.node is None else out.node.born
            results.append(key)
            log[key] = None
        log[results[0]] = Line(p, params, node.code, node.lasti, keys, tuple(results))

    def _named(self, tensor: Tensor) -> int:
        """A key for a value without graph."""
        key = aliasing.tick()
        self.of_tensor[id(tensor)] = weakref.ref(tensor), key, key
        return key

    def _without_graph(self, p: Primitive, tensors: Any, params: tuple[Any, ...], outs: Any) -> None:
        """Write down an operation whose results have no graph."""
        last, at = self.log.last, None
        if last is not None and len(tensors) == 1 and tensors[0].array is last.array and _is_constant(p):
            # Half of an operation of ours (the moments of a layer norm): the other half, which follows, knows the line.
            keys = [self._key_of_last()]
        elif self._is_leaf_enough(tensors, outs):
            return
        else:
            keys, at = [self._key(tensor) for tensor in tensors], here()
        results = tuple([self._named(out) for out in outs])
        self._put(p, keys, params, at, results)
        for key in results[1:]:
            self.log[key] = None
        self.log.last = outs[0]

    def write(self, target: Tensor, name: str) -> None:
        """A result was written in place: the tensor now stands for what was computed last."""
        node, last = target.node, self.log.last
        if node is not None and last is not None and node is last.node:
            self._born_again(node)

    def _born_again(self, node: Node) -> None:
        """A write has made the last result younger than it was: its new number is another key of the same value."""
        if node.born not in self.log:
            self.log[node.born] = next(reversed(self.log))

    def backward(self, tensors: Any, gradients: Any, selective: bool, create_graph: bool) -> None:
        """The user's backward() has filled `.grad`."""
        if self.overflow:
            return
        if self.aside is not None:  # of the same graph, or of another that was there before
            self._go_on()
        if self.walked is not None:
            self._note_clearings()
        if selective or create_graph:
            what = "inputs=" if selective else "create_graph=True"
            self.note(f"backward({what}) is not replayed: gradients are not compared")
        parameters = self.check_parameters()
        roots = [self._key(tensor) for tensor in tensors]
        seeds = tuple(None if g is None else self._key(g) for g in gradients)
        self.log.last = None
        self.walked, self.ended = here(), aliasing.tick()
        self._put(BACKWARD, roots, seeds, self.walked, ())
        self.aside = dict(self.log)
        self.log.clear()
        if self.after_backward is not None:
            self.after_backward(tensors, parameters)

    def _note_clearings(self) -> None:
        """Gradients that were forgotten between two backwards of a step: the second one begins anew."""
        for owner, code, lasti, tick, _ in CLEARINGS:
            if tick > self.ended:
                keys = [leaf.born for leaf in _leaves_of(owner()) if leaf.born in self.log]
                if keys:
                    self.log[tick] = Line(CLEAR, (), code, lasti, keys, ())

    def note(self, text: str) -> None:
        """Remember something about this step that a reader of the recording has to know."""
        if text not in self.notes:
            self.notes.append(text)

    # --- which key a tensor has

    def _key(self, tensor: Tensor) -> int:
        node = tensor.node if tensor.window is None else current_node(tensor)
        if node is None:
            known = self.of_tensor.get(id(tensor))
            if known is not None and known[0]() is tensor and not written_since(tensor.array, known[2]):
                return known[1]
            last = self.log.last
            detached = last is not None and last is not tensor and tensor.array is last.array  # not by detach_()
            return self._detached(tensor) if detached else self._enter(tensor)
        if node.born in self.log or (self.aside is not None and node.born in self.aside):
            return node.born
        return self._enter(tensor, node) if isinstance(node, Leaf) else self._revived(tensor, node)

    def _key_of_last(self) -> int:
        """The key of the result that was made last."""
        last = self.log.last
        return self.of_tensor[id(last)][1] if last.node is None else last.node.born  # type: ignore[no-any-return]

    def _detached(self, tensor: Tensor) -> int:
        """A result's values taken out of the graph (`detach`): of the last one, as those before it are not held."""
        key = self._named(tensor)
        self._put(DETACH, [self._key_of_last()], (), here(), (key,))
        return key

    def _enter(self, tensor: Tensor, node: Node | None = None, opaque: str = "") -> int:
        """A tensor that nothing on the tape has made: copy its values."""
        key = self._named(tensor) if node is None else node.born
        self.log[key] = None
        reference = weakref.ref(tensor)
        if node is not None and not opaque:
            self.parameters.add(reference, key)
        self.given.append(Given(key, self._copy(tensor.array), node is not None, reference, opaque))
        if self.bytes + self.shared > self.limit:
            self._give_up()
        return key

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
        if view is None or not view.steps or view.base is tensor:
            return self._enter(tensor, node, f"{as_written(picked_from(node).primitive.name)} in an earlier step")
        key = self._key(view.base)
        for p, params in view.steps[:-1]:
            before, key = key, aliasing.tick()
            self._put(p, [before], params, node.place, (key,))
        p, params = view.steps[-1]
        self._put(p, [key], params, node.place, (node.born,))
        return node.born

    def _written_view(self, base: Tensor, node: Node) -> int:
        """The base of a view that was written: its old self with this part replaced."""
        old, new = node.inputs
        steps = arguments(node.primitive, node.saved, 0 if old is not None else 1)[-1]
        if new is not None and self.log.last is not None and new is self.log.last.node:
            self._born_again(new)
        if old is not None and old.born in self.log:
            before = old.born
        else:  # all but the written part is as it was, and that part is written again
            before = self._enter(wrap(base.array)) if old is None else self._enter(base, old, "a write to a view")
        if new is not None and new.born in self.log:
            value = new.born
        else:
            part = base.array
            for p, params in steps:
                part = BOUND[p.name](part, *params)
            value = self._enter(wrap(np.array(part)))
        self._put(TABLE["write_view"], [before, value], (steps,), node.place, (node.born,))
        return node.born

    def _put(
        self, p: Primitive, inputs: list[int], params: tuple[Any, ...], at: Place | None, results: tuple[int, ...]
    ) -> None:
        """Put an operation into the log, at a line (None: that of the next operation that has one)."""
        code, lasti = (None, 0) if at is None else (at.code, at.lasti)
        self.log[results[0] if results else aliasing.tick()] = Line(p, params, code, lasti, inputs, results)

    def _opaque(self, p: Primitive, outs: Any) -> None:
        """An operation that cannot run again from data: its results are leaves."""
        custom = p.forward is no_forward
        what = f"{p.name}, a function of the script's own" if custom else "a transformation (vmap, jvp)"
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


def _leaves_of(owner: Any) -> list[Node]:
    """The leaves whose gradients a tensor, an optimizer or a module clears."""
    if owner is None or isinstance(owner, Tensor):
        tensors = [] if owner is None else [owner]
    else:
        groups = getattr(owner, "param_groups", None)
        tensors = list(owner.parameters()) if groups is None else [p for group in groups for p in group["params"]]
    return [tensor.node for tensor in tensors if isinstance(tensor.node, Leaf)]


def _is_constant(p: Primitive) -> bool:
    return p.pullback is None and not any(p.rules)


# --- a log, read


def transcribed(log: dict[int, Any], parameters: dict[int, int]) -> tuple[list[Entry], dict[int, int]]:
    """The operations of a log, and the slot of each key: the parameters have theirs, then in the order of the log."""
    entries: list[Entry] = []
    slots: dict[Any, int] = dict(parameters)
    count = len(slots)
    for key, said in log.items():
        if type(said) is int:  # another key of a value that was written in place
            slots[key] = slots[said]
        elif said is None:  # a leaf, or one of several results
            if key not in slots:
                slots[key] = count
                count += 1
        else:
            row, params, code, lasti, inputs, results = as_line(key, said)
            if row.half:
                entries.append((TABLE[row.half], [slots[inputs[0]]], params, count, 1, None, 0, key))
                slots[None] = count
                count += 1
            if row is BACKWARD:
                params = tuple([None if seed is None else slots[seed] for seed in params])
            entries.append((row, [slots[each] for each in inputs], params, count, len(results), code, lasti, key))
            slots.update(zip(results, range(count, count + len(results)), strict=True))
            count += len(results)
    return entries, slots


def as_line(key: int, said: Any) -> Line:
    """What the log says of an operation, whoever put it there."""
    if type(said) is Line:
        return said
    row, params, node, *several = said
    inputs = [None if parent is None else parent.born for parent in node.inputs]
    return Line(row, params, node.code, node.lasti, inputs, several[0] if several else (key,))


def without_nodes(log: dict[int, Any]) -> None:
    """Let go of the nodes in a log."""
    log.update([(key, as_line(key, said)) for key, said in log.items() if type(said) is tuple])


def keeps_values(log: dict[int, Any]) -> bool:
    """Whether a node in a log still holds what it kept for backward: no walk came by, or one that retains the graph."""
    lines = [said for said in log.values() if type(said) is tuple]
    return bool([line for line in lines if line[0].keeps and type(line[2].saved) is not Freed])


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
