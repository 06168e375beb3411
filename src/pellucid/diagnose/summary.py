"""summary: what the layers of a model make, hold, keep for backward and compute, as a table.

One forward pass is watched: hooks tell which layer is running, an observer sees every operation in it, and the ledger
of `pellucid.memory` tells what the graph keeps. Whatever happens is counted once, in the innermost layer where it
happens, so that every column adds up to its total.
"""

from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from pellucid import memory
from pellucid.core import modes
from pellucid.core.aliasing import tick
from pellucid.core.provenance import here
from pellucid.core.tensor import Tensor
from pellucid.diagnose.flops import flops
from pellucid.dtypes import get_default_dtype
from pellucid.errors import explain, printable
from pellucid.nn.modules.module import Module
from pellucid.ops.create import zeros
from pellucid.ops.random import get_rng_state, set_rng_state
from pellucid.transforms.tree import flatten

__all__ = ["Row", "Summary", "summary"]

Shape = tuple[int, ...]


@dataclass
class Row:
    """One layer: everything here is its own, not its parts'."""

    path: str  # from the model, as in named_modules(); the model itself has none
    layer: str  # its class
    calls: int = 0
    outputs: list[Shape] = field(default_factory=list)  # of its first call
    trainable: int = 0  # elements of its own parameters
    frozen: int = 0
    shared: int = 0  # elements of parameters that an earlier row has counted
    saved: int = 0  # bytes kept for backward
    flops: int = 0  # floating-point operations of one forward pass

    @property
    def depth(self) -> int:
        """How many layers are around it."""
        return self.path.count(".") + 1 if self.path else 0

    @property
    def label(self) -> str:
        """Its name in its place of the tree, and its class."""
        name = self.path.rpartition(".")[2]
        return "  " * self.depth + (f"{name}: {self.layer}" if name else self.layer)


class Summary:
    """The rows of a model, their totals, and both as text and as data.

    >>> import pellucid as torch
    >>> told = torch.summary(torch.nn.Linear(2, 3), (4, 2))
    >>> told.trainable, told.flops, told.rows[0].outputs
    (9, 48, [(4, 3)])
    """

    def __init__(self, rows: list[Row], parameter_bytes: int) -> None:
        self.rows = rows
        self.parameter_bytes = parameter_bytes
        self.trainable, self.frozen, self.saved, self.flops = (
            sum(getattr(row, column) for row in rows) for column in ("trainable", "frozen", "saved", "flops")
        )

    @property
    def parameters(self) -> int:
        """Elements of all parameters, each counted once."""
        return self.trainable + self.frozen

    def as_json(self) -> dict[str, Any]:
        """The form that other programs read."""
        totals = ("parameters", "trainable", "frozen", "parameter_bytes", "saved", "flops")
        return {"rows": [asdict(row) for row in self.rows], **{name: getattr(self, name) for name in totals}}

    def __str__(self) -> str:
        header = ("layer", "output", "parameters", "saved", "FLOPs")
        lines = [_cells(row) for row in self.rows]
        total = ("total", "", f"{self.parameters:,}", memory.readable(self.saved), f"{self.flops:,}")
        return printable("\n".join([*aligned([header, *lines, total]), "", *self._in_words()]))

    def _in_words(self) -> Iterator[str]:
        frozen = f", {self.frozen:,} frozen" if self.frozen else ""
        size = memory.readable(self.parameter_bytes)
        yield f"parameters: {self.trainable:,} trainable{frozen}, {size}"
        yield f"one forward pass: {self.flops:,} FLOPs, keeps {memory.readable(self.saved)} for backward"

    __repr__ = __str__


def _cells(row: Row) -> tuple[str, ...]:
    shapes = ", ".join(map(str, row.outputs)) or "-"
    own = f"{row.trainable + row.frozen:,}" + (f" (+{row.shared:,} shared)" if row.shared else "")
    repeated = f" ×{row.calls}" if row.calls > 1 else ""
    return row.label + repeated, shapes, own, memory.readable(row.saved), f"{row.flops:,}"


def aligned(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns side by side: words to the left, numbers (from the third column on) to the right; a rule at both ends.

    >>> print("\\n".join(aligned([("layer", "output", "n"), ("Linear", "(2,)", "12"), ("total", "", "12")])))
    layer   output   n
    ------------------
    Linear  (2,)    12
    ------------------
    total           12
    """
    widths = [max(map(len, column)) for column in zip(*lines)]
    texts = [
        "  ".join(
            cell.ljust(width) if i < 2 else cell.rjust(width) for i, (cell, width) in enumerate(zip(line, widths))
        )
        for line in lines
    ]
    rule = "-" * len(texts[0])
    yield from (texts[0], rule, *texts[1:-1], rule, texts[-1])


def summary(model: Module, input: Any) -> Summary:
    """A table of a model's layers: what each makes, its parameters, the bytes it keeps for backward, its FLOPs.

    `input` is what the model is called with: a tensor, a tuple of arguments, a dictionary of named ones, or a shape
    (then it is zeros of the parameters' dtype). The model runs once, in the mode it is in (training or not).
    Its buffers and gradients and the state of the random numbers stay as they were; lazy layers get their shapes, as
    by any first call.

    FLOPs: a multiplication with its addition counts two, any other operation one per element (see diagnose/flops.py).

    >>> import pellucid as torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    >>> torch.summary(model, (32, 64))
    layer        output     parameters    saved    FLOPs
    ----------------------------------------------------
    Sequential   (32, 10)            0      0 B        0
      0: Linear  (32, 128)       8,320   8.0 KB  524,288
      1: ReLU    (32, 128)           0  16.0 KB    4,096
      2: Linear  (32, 10)        1,290      0 B   81,920
    ----------------------------------------------------
    total                        9,610  24.0 KB  610,304
    <BLANKLINE>
    parameters: 9,610 trainable, 37.5 KB
    one forward pass: 610,304 FLOPs, keeps 24.0 KB for backward
    """
    if not isinstance(model, Module):
        raise TypeError(
            explain(
                f"summary: model must be a torch.nn.Module, not {type(model).__name__}",
                here().text,
                try_="summary(model, input); pellucid.memory.report tells what any graph keeps",
            )
        )
    args, kwargs = _arguments(model, input)
    watch = Watch({module: Row(path, type(module).__name__) for path, module in model.named_modules()})
    with watch.hooked(), buffers_aside(model), random_numbers_kept(), watch.observing():
        result = model(*args, **kwargs)
    watch.note_saved(leaf for leaf in flatten(result)[0] if isinstance(leaf, Tensor))
    return Summary(list(watch.rows.values()), _count_parameters(watch.rows))


# --- the input


def _arguments(model: Module, input: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What to call a model with."""
    if isinstance(input, dict):
        return (), {name: _argument(model, value) for name, value in input.items()}
    if isinstance(input, (tuple, list)) and not _is_shape(input):
        return tuple(_argument(model, value) for value in input), {}
    return (_argument(model, input),), {}


def _argument(model: Module, value: Any) -> Any:
    if not _is_shape(value):
        return value
    floats = (parameter.dtype for parameter in model.parameters() if parameter.is_floating_point())
    return zeros(tuple(value), dtype=next(floats, get_default_dtype()))


def _is_shape(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and all(type(size) is int for size in value)


# --- one pass, watched


class Watch:
    """Hooks and an observer that write into the rows what happens in their layers."""

    def __init__(self, rows: dict[Module, Row]) -> None:
        self.rows = rows
        self.running: list[tuple[Row, int]] = []  # the calls that have not ended, and the ticks when they began
        self.ended: list[tuple[int, int, Row]] = []  # begin, end; in the order of their ends

    @contextmanager
    def hooked(self) -> Iterator[None]:
        """Follow the calls of the layers."""
        handles = [
            handle
            for module in self.rows
            for handle in (
                module.register_forward_pre_hook(self.enter, prepend=True),
                module.register_forward_hook(self.leave, always_call=True),  # a model may catch a failure
            )
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    @contextmanager
    def observing(self) -> Iterator[None]:
        """See every operation, and have it recorded as in training."""
        observers = (*modes.current().observers, self)
        with modes.switched(grad=True, inference=False, observers=observers):
            yield

    def enter(self, module: Module, args: Any) -> None:
        self.running.append((self.rows[module], tick()))

    def leave(self, module: Module, args: Any, output: Any) -> None:
        row, began = self.running.pop()
        self.ended.append((began, tick(), row))
        row.calls += 1
        if row.calls == 1:
            row.outputs = [tuple(leaf.shape) for leaf in flatten(output)[0] if isinstance(leaf, Tensor)]

    def operation(self, row: Any, tensors: Sequence[Tensor], params: tuple[Any, ...], outs: Sequence[Tensor]) -> None:
        """An operation has run."""
        if self.running:
            shapes = ([tuple(tensor.shape) for tensor in some] for some in (tensors, outs))
            self.running[-1][0].flops += flops(row, next(shapes), params, next(shapes))

    def gradient(self, *_: Any) -> None:
        """Backward inside of forward is not counted."""

    def write(self, *_: Any) -> None:
        """Writing a result into a tensor is free."""

    def note_saved(self, results: Iterable[Tensor]) -> None:
        """Give every block of memory that the graph keeps to the layer whose operation keeps it."""
        ends = [end for _, end, _ in self.ended]
        for entry in memory.report(results).entries:
            around = self.ended[bisect(ends, entry.born) :]  # inner calls end before the calls around them
            row = next((row for began, _, row in around if began < entry.born), None)
            if row is not None and not entry.leaf:
                row.saved += entry.bytes


def _count_parameters(rows: dict[Module, Row]) -> int:
    """Give every parameter to the first layer that holds it; returns the bytes of all."""
    counted, size = set(), 0
    for module, row in rows.items():
        for parameter in module.parameters(recurse=False):
            if id(parameter) in counted:
                row.shared += parameter.numel()
                continue
            counted.add(id(parameter))
            size += parameter.numel() * parameter.element_size()
            if parameter.requires_grad:
                row.trainable += parameter.numel()
            else:
                row.frozen += parameter.numel()
    return size


# --- what stays as it was


@contextmanager
def buffers_aside(model: Module) -> Iterator[None]:
    """Inside, the model works on copies of its buffers (a batch norm changes its own); afterwards it has them back."""
    copies: dict[int, Tensor] = {}
    with ExitStack() as later:
        for module in model.modules():
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    later.callback(module._buffers.__setitem__, name, buffer)
                    copies.setdefault(id(buffer), buffer.detach().clone())
        for module in model.modules():
            for name, buffer in module._buffers.items():
                module._buffers[name] = copies.get(id(buffer), buffer)
        yield


@contextmanager
def random_numbers_kept() -> Iterator[None]:
    """Afterwards the random numbers go on as if nothing had been drawn."""
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)
