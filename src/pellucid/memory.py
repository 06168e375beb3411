"""Where the memory goes: what a graph keeps for backward, what a block really used, what checkpointing would save.

`report` reads a finished graph and counts every block of memory once. `track` measures a block with tracemalloc,
which sees each array NumPy allocates. `plan` predicts the memory of a sequential model for every number of
checkpointed segments, and measures it when asked.
"""

import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isqrt
from typing import Any

import numpy as np

from pellucid.core import aliasing, backward, modes
from pellucid.core.packing import Packed
from pellucid.core.provenance import Place
from pellucid.core.tensor import Leaf, Node, Tensor, wrap
from pellucid.core.views import current_node
from pellucid.utils.checkpoint import Argument, Segment, checkpoint_sequential

__all__ = ["Plan", "Report", "Track", "plan", "report", "track"]


def readable(size: float) -> str:
    """A number of bytes for people.

    >>> readable(1536)
    '1.5 KB'
    """
    for unit in ("B", "KB", "MB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GB"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Aligned columns: the last one to the left, the others to the right."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    last = len(header) - 1
    return "\n".join(
        "  ".join([*(text.rjust(width) for text, width in zip(line[:last], widths, strict=False)), line[last]])
        for line in lines
    )


# --- report: what a finished graph keeps


@dataclass(frozen=True)
class Entry:
    """One block of memory that a graph keeps alive, and the first operation that wants it."""

    bytes: int
    operation: str
    place: Place
    shape: tuple[int, ...]
    dtype: str
    leaf: bool  # the memory of a leaf (a parameter, an input): alive anyway
    born: int = 0  # the tick when that operation ran: tells which call of a module it belongs to


@dataclass
class Report:
    """What a graph keeps for backward; prints as a table.

    >>> import pellucid as torch
    >>> x = torch.ones(1000, requires_grad=True)
    >>> kept = torch.memory.report((x.exp() * x.sin()).sum())
    >>> kept.total, kept.arrays, kept.leaves
    (8000, 2, 4000)
    >>> kept.by_operation()
    {'exp': 4000, 'mul': 4000}
    """

    entries: list[Entry] = field(default_factory=list)
    recomputed: int = 0  # values that a checkpoint computes again instead of keeping

    @property
    def total(self) -> int:
        """Bytes kept for backward, every block of memory counted once, leaves not counted."""
        return sum(entry.bytes for entry in self.entries if not entry.leaf)

    @property
    def leaves(self) -> int:
        """Bytes of leaves that backward needs: no cost of its own, they are alive anyway."""
        return sum(entry.bytes for entry in self.entries if entry.leaf)

    @property
    def arrays(self) -> int:
        """How many blocks of memory are kept."""
        return sum(not entry.leaf for entry in self.entries)

    def by_operation(self) -> dict[str, int]:
        """Bytes by operation, largest first."""
        return self._grouped(lambda entry: entry.operation)

    def by_line(self) -> dict[Place, int]:
        """Bytes by line of the user's code, largest first."""
        return self._grouped(lambda entry: entry.place)

    def _grouped(self, key: Callable[[Entry], Any]) -> dict[Any, int]:
        sums: dict[Any, int] = {}
        for entry in self.entries:
            if not entry.leaf:
                sums[key(entry)] = sums.get(key(entry), 0) + entry.bytes
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

    def __str__(self) -> str:
        head = f"saved for backward: {readable(self.total)} in {self.arrays} arrays"
        head += f", and {readable(self.leaves)} of leaves" if self.leaves else ""
        head += f"; {self.recomputed} values are recomputed" if self.recomputed else ""
        groups: dict[tuple[str, Place], list[int]] = {}
        for entry in self.entries:
            if not entry.leaf:
                groups.setdefault((entry.operation, entry.place), []).append(entry.bytes)
        rows = [
            (readable(sum(sizes)), f"{sum(sizes) / (self.total or 1):.0%}", str(len(sizes)), name, str(place))
            for (name, place), sizes in sorted(groups.items(), key=lambda item: -sum(item[1]))
        ]
        return head + ("\n" + table(("kept", "share", "arrays", "operation", "line"), rows) if rows else "")

    __repr__ = __str__


def report(tensors: Tensor | Iterable[Tensor]) -> Report:
    """What the graph behind a tensor (or several) keeps for backward: by operation and by line.

    >>> import pellucid as torch
    >>> x = torch.ones(100, requires_grad=True)
    >>> ledger = report((x.exp() + 2).sum())
    >>> ledger.total
    400
    >>> ledger.by_operation()
    {'exp': 400}
    """
    roots = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    nodes = backward.oldest_first(node for node in map(current_node, roots) if node is not None)
    owned = {id(owner) for owner in map(_leaf_memory, nodes) if owner is not None}
    result = Report()
    seen: set[int] = set()
    for node in nodes:
        for array, name in _kept(node, node.saved, result, seen):
            owner = aliasing.owner_of(array)
            if id(owner) not in seen:
                seen.add(id(owner))
                result.entries.append(
                    Entry(owner.nbytes, name, node.place, array.shape, str(array.dtype), id(owner) in owned, node.born)
                )
    return result


def _leaf_memory(node: Node) -> np.ndarray | None:
    tensor = node.tensor() if isinstance(node, Leaf) else None
    return aliasing.owner_of(tensor.array) if tensor is not None and isinstance(tensor.array, np.ndarray) else None


def _kept(node: Node, value: Any, result: Report, seen: set[int]) -> Iterator[tuple[np.ndarray, str]]:
    """Every ndarray a node keeps alive, with the operation it is kept for."""
    name = node.primitive.name
    if isinstance(value, np.ndarray):
        yield value, name
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _kept(node, part, result, seen)
    elif isinstance(value, Packed):
        if isinstance(value.value, Tensor):
            yield from _kept(node, value.value.array, result, seen)
        segment = getattr(value.unpack, "__self__", None)
        if isinstance(segment, Segment):
            result.recomputed += 1
            if id(segment) not in seen:
                seen.add(id(segment))
                for array in _kept_by_segment(segment):
                    yield array, "checkpoint"


def _kept_by_segment(segment: Segment) -> Iterator[np.ndarray]:
    for value in (*segment.args, *segment.kwargs.values()):
        if isinstance(value, Argument) and isinstance(value.value, np.ndarray):
            yield value.value
    yield from (array for array in segment.values.values() if isinstance(array, np.ndarray))


# --- track: what a block really used


class Watcher:
    """An observer that notes the memory in use after every operation and every step of backward."""

    def __init__(self, track: "Track") -> None:
        self.track = track

    def operation(self, *_: Any) -> None:
        self.track.note()

    def gradient(self, *_: Any) -> None:
        self.track.note()

    def write(self, *_: Any) -> None:
        self.track.note()


class Track:
    """The memory of a block, relative to its beginning, in bytes.

    >>> import pellucid as torch
    >>> with torch.memory.track(timeline=True) as used:
    ...     x = torch.ones(1_000_000)  # 4 MB
    ...     y = (x * 2).sum()  # 4 MB more for a moment
    >>> used.peak > 8_000_000, used.end < 5_000_000, len(used.timeline)
    (True, True, 2)
    """

    def __init__(self) -> None:
        self.start = 0
        self.peak = 0
        self.end = 0
        self.timeline: list[int] = []  # after every operation, if asked for

    def note(self) -> None:
        self.timeline.append(tracemalloc.get_traced_memory()[0] - self.start)

    def __repr__(self) -> str:
        return f"<memory: peak {readable(self.peak)}, at the end {readable(self.end)}>"


@contextmanager
def track(timeline: bool = False) -> Iterator[Track]:
    """Measure the memory that a block takes: its peak, and what is left of it at the end.

    Everything that Python and NumPy allocate is counted. `timeline=True` also notes it after every operation.

    >>> import pellucid as torch
    >>> with track() as used:
    ...     y = torch.ones(1000, 1000)
    >>> 4_000_000 <= used.peak < 9_000_000
    True
    """
    result = Track()
    started = not tracemalloc.is_tracing()
    if started:
        tracemalloc.start()
    tracemalloc.reset_peak()
    result.start = tracemalloc.get_traced_memory()[0]
    observers = modes.current().observers
    try:
        with modes.switched(observers=(*observers, Watcher(result)) if timeline else observers):
            yield result
    finally:
        now, peak = tracemalloc.get_traced_memory()
        result.peak, result.end = peak - result.start, now - result.start
        if started:
            tracemalloc.stop()


# --- plan: what checkpointing would save


@dataclass
class Layer:
    """One step of a sequential model: what it keeps for backward, and the size of its input."""

    kept: int
    input: int


class Plan:
    """Predicted memory of a sequential model for each number of checkpointed segments; prints as a table.

    >>> import pellucid as torch
    >>> model = torch.nn.Sequential(*(torch.nn.Tanh() for _ in range(16)))
    >>> plan = torch.memory.plan(model, torch.ones(1000))
    >>> print(plan)
    segments  predicted  less  measured
           1    62.5 KB    0%            no checkpointing
           4    27.3 KB   56%            <- recommended
          16    62.5 KB    0%
    """

    def __init__(self, functions: Sequence[Callable[..., Any]], input: Tensor, layers: list[Layer]) -> None:
        self.functions = functions
        self.input = input
        self.layers = layers
        self.predicted = {k: predicted_bytes(layers, k) for k in range(1, len(layers) + 1)}
        self.measured: dict[int, int] = {}

    @property
    def recommended(self) -> int:
        """The number of segments with the least memory; the smallest such number."""
        return min(self.predicted, key=lambda k: (self.predicted[k], k))

    def measure(self, segments: int | None = None) -> int:
        """Run forward and backward with this many segments and return the peak memory; no `.grad` is touched."""
        k = self.recommended if segments is None else segments
        leaf = wrap(self.input.array).requires_grad_()  # type: ignore[attr-defined]
        with track() as used:
            run_sequential(self.functions, leaf, k)
        self.measured[k] = used.peak
        return used.peak

    def run(self, input: Tensor) -> Any:
        """Run the model with the recommended number of segments."""
        return checkpoint_sequential(self.functions, self.recommended, input, use_reentrant=False)

    def __str__(self) -> str:
        whole = self.predicted[1]
        interesting = sorted({1, isqrt(len(self.layers)), self.recommended, len(self.layers), *self.measured} - {0})
        rows = [
            (
                str(k),
                readable(self.predicted[k]),
                f"{1 - self.predicted[k] / whole:.0%}" if whole else "",
                readable(self.measured[k]) if k in self.measured else "",
                "<- recommended" if k == self.recommended else "no checkpointing" if k == 1 else "",
            )
            for k in interesting
        ]
        return table(("segments", "predicted", "less", "measured", ""), rows)

    __repr__ = __str__


def predicted_bytes(layers: Sequence[Layer], segments: int) -> int:
    """The most that is kept at once: the inputs of the segments so far, and all of one segment's own values.

    >>> predicted_bytes([Layer(kept=100, input=10)] * 4, 1), predicted_bytes([Layer(kept=100, input=10)] * 4, 2)
    (400, 210)
    """
    size = len(layers) // segments
    starts = [i * size for i in range(segments)]
    ends = [*starts[1:], len(layers)]
    kept = [sum(layer.kept for layer in layers[start:end]) for start, end in zip(starts, ends, strict=True)]
    inputs, most = 0, 0
    for i, start in enumerate(starts):
        inputs += layers[start].input if i < segments - 1 else 0  # the last segment is not checkpointed
        most = max(most, inputs + kept[i])
    return most


def plan(functions: Any, input: Tensor, segments: Iterable[int] | None = None) -> Plan:
    """Predict the memory of a sequential model for every number of segments, by running each step once.

    `segments`: numbers of segments to measure as well.

    >>> import pellucid as torch
    >>> steps = [lambda t: (t * t).sin()] * 16
    >>> p = plan(steps, torch.ones(1000))
    >>> p.recommended, p.predicted[1] > 2 * p.predicted[p.recommended]
    (4, True)
    """
    steps = list(functions.children() if hasattr(functions, "children") else functions)
    layers, value = [], wrap(input.array)
    for step in steps:
        leaf = wrap(value.array).requires_grad_()  # type: ignore[attr-defined]
        result = step(leaf)
        layers.append(Layer(_kept_by_layer(result, leaf), leaf.array.nbytes))
        value = result
    made = Plan(steps, input, layers)
    for k in segments or ():
        made.measure(k)
    return made


def _kept_by_layer(result: Tensor, leaf: Tensor) -> int:
    """What one step keeps; its input counts too, because the step before has to keep it for this one."""
    ledger = report(result)
    own = aliasing.owner_of(leaf.array).nbytes
    uses_input = any(entry.leaf and entry.bytes == own and entry.shape == leaf.array.shape for entry in ledger.entries)
    return ledger.total + (own if uses_input else 0)


def run_sequential(functions: Sequence[Callable[..., Any]], input: Tensor, segments: int) -> None:
    """One forward and backward; gradients go to every leaf of the graph and are thrown away."""
    result = checkpoint_sequential(functions, segments, input, use_reentrant=False)
    node = current_node(result)
    assert node is not None
    leaves = [leaf.tensor() for leaf in backward.oldest_first([node]) if isinstance(leaf, Leaf)]
    targets = [tensor for tensor in leaves if tensor is not None]
    backward.gradients([result], [wrap(np.ones_like(result.array))], targets, False, False)
