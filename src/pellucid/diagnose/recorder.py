"""The flight recorder: the last steps of a training run, ready to be written to a file when something goes wrong.

While training is healthy a step costs one tape (see tape.py), one look at the loss and one at the size of each
gradient. A trigger writes one file; `pellucid replay FILE` runs the recorded operations again and finds the cause.
"""

import ctypes
import math
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from types import TracebackType
from typing import Any

import numpy as np

from pellucid.core import aliasing, modes
from pellucid.core.departures import RUNS
from pellucid.core.provenance import PACKAGE_FOLDER, Place, here, warn
from pellucid.core.tensor import Tensor
from pellucid.diagnose.flight import Cause, bare_name, squares_of, write_record
from pellucid.diagnose.modules import roots_of
from pellucid.diagnose.naming import plural
from pellucid.diagnose.scaling import scaler_instruments
from pellucid.diagnose.snapshots import Arrangement, written_since
from pellucid.diagnose.tape import Entry, Given, Tape, keeps_values, transcribed, without_nodes
from pellucid.diagnose.tapping import replaced
from pellucid.nn.modules.module import Module
from pellucid.ops.streams import default_generator
from pellucid.optim.optimizer import Optimizer, register_optimizer_step_post_hook
from pellucid.shim import run_script

__all__ = ["Recorder", "Step", "record_script"]

ndarray = np.ndarray
MEGABYTE = 1_000_000
RANK = {"spike": 1, "exception": 2, "non-finite": 3, "signal": 4, "asked": 4}  # a file gives way to a higher one only
ENOUGH, MANY = 10, 50  # losses before a spike is looked for, and losses that are remembered


@dataclass(slots=True)
class Step:
    """One recorded step: what happened, the leaves it started from, and what came out."""

    number: int
    log: dict[int, Any]
    arranged: Arrangement  # the parameters, and
    snapshot: list[np.ndarray]  # their values before the step
    given: list[Given]  # the other leaves
    notes: list[str]
    losses: list[np.ndarray]  # per backward
    graded: list[int]  # the leaves that have gradients
    squares: float  # of all elements of these, summed: a replay must meet it exactly
    random: Any  # the state of the default generator before the step
    bytes: int  # copied for this step alone
    shared: int  # copied for an earlier step and still true
    entries: list[Entry] | None = None  # what happened as a program, once somebody wants to read it

    def transcribe(self) -> None:
        """Work out the program: from then on values are known by their slots, not by the keys of the log."""
        if self.entries is None:
            self.entries, slots = transcribed(self.log, self.arranged.slots)
            self.given = [leaf._replace(slot=slots[leaf.slot]) for leaf in self.given]
            self.graded = [slots[key] for key in self.graded]
            self.log = {}

    def leaves(self) -> list[Given]:
        """Everything that the step starts from: the parameters first."""
        known = enumerate(zip(self.arranged.apart(self.snapshot), self.arranged.tensors, strict=True))
        return [*(Given(slot, values, True, tensor, "") for slot, (values, tensor) in known), *self.given]


class Recorder:
    """Keep the last `keep` steps of a training loop, and write them to `path` when it fails.

    A step ends with `optimizer.step()`. A file is written when the loss or a gradient is not finite, when the loss
    jumps by more than `spike` times its usual spread, when an exception leaves the block, on Ctrl-\\ (SIGQUIT), and by
    `dump()`. At most `limit` bytes of leaves are kept; older steps give way first.

    >>> import os, tempfile
    >>> import pellucid as torch
    >>> model = torch.nn.Linear(2, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> path = os.path.join(tempfile.mkdtemp(), "flight.pellucid")
    >>> with Recorder(model, optimizer, path, keep=2) as recorder:
    ...     for _ in range(3):
    ...         optimizer.zero_grad()
    ...         model(torch.ones(4, 2)).square().mean().backward()
    ...         optimizer.step()
    ...     recorder.dump("to have a look") == path
    True
    """

    def __init__(
        self,
        model: Module | None = None,
        optimizer: Optimizer | Iterable[Optimizer] | None = None,
        path: Any = "flight.pellucid",
        keep: int = 3,
        *,
        limit: int = 200 * MEGABYTE,
        spike: float | None = 20.0,
    ) -> None:
        if keep < 1 or limit < 1:
            raise ValueError(f"keep and limit must be positive, got keep={keep} and limit={limit}")
        self.model, self.path, self.limit, self.spike = model, path, limit, spike
        given = (optimizer,) if isinstance(optimizer, Optimizer) else tuple(optimizer or ())
        self.optimizers: list[Optimizer] = list(given)
        self.steps: deque[Step] = deque(maxlen=keep)
        self.number = 1
        self.written: str | None = None  # the kind of trigger that wrote the file
        self.dropped = 0
        self.largest = 0.0  # loss so far
        self.tape = Tape(limit, self._after_backward, self._end_step)
        self._losses: dict[Any, deque[float]] = {}
        self._random_state = RandomState()
        self._begin()

    # --- the block

    def __enter__(self) -> "Recorder":
        with ExitStack() as block:
            block.enter_context(modes.switched(observers=(*modes.current().observers, self.tape)))
            block.callback(register_optimizer_step_post_hook(self._after_step).remove)
            for owner, name, wrapper in scaler_instruments(self._scaled, self._left_out):
                block.enter_context(replaced(owner, name, wrapper))
            if hasattr(signal, "SIGQUIT") and threading.current_thread() is threading.main_thread():
                before = signal.signal(signal.SIGQUIT, self._on_signal)
                block.callback(signal.signal, signal.SIGQUIT, signal.SIG_DFL if before is None else before)
            self._block = block.pop_all()
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._block.close()
        if self.waiting is not None:  # no scaler has left this out
            self._trigger(self.waiting)
        if kind is not None and not issubclass(kind, (SystemExit, GeneratorExit)):
            self._trigger(Cause("exception", f"{kind.__name__} left the recorded block", _raised_at(trace)))

    def dump(self, reason: str = "asked for") -> str:
        """Write the file now; returns its path."""
        self._write(Cause("asked", reason, _spot(here())))
        return str(self.path)

    def failed(self, what: str) -> None:
        """Write the file because of an error that does not leave the block."""
        self._trigger(Cause("exception", what, ""))

    # --- a step

    def _begin(self) -> None:
        self.tape.begin()
        self.random = self._random_state()
        self.losses: list[np.ndarray] = []
        self.filled: set[int] = set()  # the leaves to which backward has brought gradients
        self.added_to: set[int] = set()  # those of them that had gradients of an earlier step
        self.graded: list[int] = []
        self.squares = 0.0
        self.scale = 1.0  # by which a GradScaler has multiplied the losses
        self.waiting: Cause | None = None  # a fault that a GradScaler may yet leave out

    def _after_backward(self, tensors: list[Tensor], parameters: list[Tensor | None]) -> None:
        """The one look per step at the loss and at the size of the gradients."""
        loss = tensors[0].array
        self.losses.append(np.array(loss))
        gradients = self._gradients(parameters)
        self.graded, self.squares = list(gradients), squares_of(gradients.values())
        finite = math.isfinite(self.squares)
        if self.added_to:
            self._leave_out_older(gradients)
        value = float(loss.real) / self.scale if loss.size == 1 else 0.0
        if not math.isfinite(value):
            self._found(Cause("non-finite", f"the loss is {value:g}", self._backward_spot()))
        elif not finite and (bad := self._bad_gradient()):
            self._found(Cause("non-finite", f"the gradient of {bad}", self._backward_spot()))
        elif self.spike is not None and loss.size == 1:
            self._look_for_spike(value)

    def _found(self, cause: Cause) -> None:
        """Numbers are not finite: a fault, unless it is an overflow by which a GradScaler finds its scale."""
        if self.scale > 1.0:
            self.waiting = cause
        else:
            self._trigger(cause)

    def _scaled(self, scale: float) -> None:
        """A GradScaler has multiplied a loss."""
        self.scale = scale

    def _left_out(self, optimizer: Optimizer) -> None:
        """A GradScaler has left a step out, by design: that ends it, too."""
        self.waiting = None
        self._after_step(optimizer, (), {})

    def _backward_spot(self) -> str:
        return "" if self.tape.walked is None else _spot(self.tape.walked)

    def _gradients(self, parameters: list[Tensor | None]) -> dict[int, np.ndarray]:
        """The gradients that this step has given its leaves, by key; others may have some that are left from before."""
        tape, filled = self.tape, self.filled
        filled.update(RUNS[-1][3])
        others = [(leaf.slot, leaf.tensor()) for leaf in tape.given if leaf.grad]
        arrays = {
            key: grad.array
            for key, tensor in chain(zip(tape.arranged.slots, parameters, strict=True), others)
            if tensor is not None and key in filled and (grad := tensor._grad) is not None
            if type(grad.array) is ndarray
        }
        if len(self.losses) == 1 and aliasing.latest > tape.began:
            self.added_to = {key for key, array in arrays.items() if written_since(array, tape.began)}
        return arrays

    def _leave_out_older(self, gradients: dict[int, np.ndarray]) -> None:
        """A replay knows nothing of the gradients of earlier steps, nor of what was added to these."""
        own = {key: array for key, array in gradients.items() if key not in self.added_to}
        self.graded, self.squares = list(own), squares_of(own.values())
        text = plural(len(self.added_to), "parameter")
        self.tape.note(f"{text} had gradients of an earlier step in .grad, which are not looked at here")

    def _bad_gradient(self) -> str:
        """Which gradient is not finite, and how; empty when only the sum of squares was too large for its dtype."""
        for leaf in self._recorded().leaves():
            tensor = leaf.tensor() if leaf.grad else None
            if tensor is not None and tensor._grad is not None and not np.isfinite(tensor._grad.array).all():
                return f"{self.name_of(tensor)} is {'nan' if np.isnan(tensor._grad.array).any() else 'inf'}"
        return ""

    def _look_for_spike(self, loss: float) -> None:
        """Compare a loss with those before it at the same line: their median and median absolute deviation.

        Near the end of a training that went well, a loss may jump without meaning anything: below a tenth of the
        largest one it is not looked at.
        """
        at = self.tape.walked
        before = self._losses.setdefault(at and (at.code, at.lasti), deque(maxlen=MANY))
        self.largest = max(self.largest, loss)
        if len(before) >= ENOUGH and loss > before[-1] and loss > max(before[0], 0.1 * self.largest):
            middle, spread = spread_of(before)
            if loss > middle + (self.spike or 0.0) * max(spread, 0.01 * abs(middle)):
                text = f"the loss jumped to {loss:.4g} from about {middle:.4g}"
                self._trigger(Cause("spike", text, self._backward_spot()))
        before.append(loss)

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """An optimizer has stepped."""
        if optimizer not in self.optimizers:
            self.optimizers.append(optimizer)
        self._end_step()

    def _end_step(self) -> None:
        """A step is done: put it into the ring and begin the next."""
        if self.tape.overflow:
            self._say_too_large()
        elif self.losses:
            if len(self.steps) == self.steps.maxlen:
                gone = self.steps.popleft()
                gone.arranged.spare = gone.snapshot
            step = self._recorded()
            if keeps_values(step.log):
                without_nodes(step.log)
            self.steps.append(step)
            self._fit()
        waiting = self.waiting
        self._begin()
        if waiting is not None:  # the step was made all the same, and is in the ring
            self._trigger(waiting)
        self.number += 1

    def _recorded(self) -> Step:
        """The step so far."""
        tape = self.tape
        return Step(
            self.number, tape.lines(), tape.arranged, tape.snapshot, tape.given, tape.notes, self.losses, self.graded,
            self.squares, self.random, tape.bytes, tape.shared,
        )  # fmt: skip

    def _fit(self) -> None:
        """Let go of the oldest steps until the rest fits the limit."""
        while len(self.steps) > 1 and held(self.steps) > self.limit:
            self.steps.popleft()
            self.dropped += 1

    def _say_too_large(self) -> None:
        self.dropped += 1
        if self.dropped == 1:
            warn(
                f"pellucid.Recorder: step {self.number} starts from more than {self.limit / MEGABYTE:g} MB of tensors "
                "(or never ends) and is not recorded; a larger limit= records it"
            )

    # --- triggers

    def _on_signal(self, number: int, frame: Any) -> None:
        self._trigger(Cause("signal", "Ctrl-\\ was pressed", ""))

    def _trigger(self, cause: Cause) -> None:
        """Write the file, unless a more telling one is there already; training does not stop for it, whatever fails."""
        if self.written is not None and RANK[cause.kind] <= RANK[self.written] < RANK["asked"]:
            return
        try:
            self._write(cause)
        except Exception as error:
            print(f"pellucid: {cause.text}, but the recording was not written: {error}", file=sys.stderr)

    def _write(self, cause: Cause) -> None:
        self.tape.settle()
        steps = list(self.steps)
        if self._ticks() and not self.tape.overflow:
            self.tape.check_parameters()
            steps.append(self._recorded())
        for step in steps:
            step.transcribe()
        write_record(self, steps[-(self.steps.maxlen or 1) :], cause)
        self.written = cause.kind
        where = f" ({cause.spot})" if cause.spot else ""
        print(
            f"pellucid: {cause.text} in step {self.number}{where}; recorded: pellucid replay {self.path}",
            file=sys.stderr,
        )

    def _ticks(self) -> list[int]:
        """When each operation of the step ran, so far."""
        return [tick for tick, said in self.tape.lines().items() if said is not None]

    def name_of(self, tensor: Tensor) -> str:
        """What the model calls a tensor, or its shape."""
        models = [self.model] if self.model is not None else roots_of(self._ticks())
        named = (pair for model in models for pair in (*model.named_parameters(), *model.named_buffers()))
        found = next((name for name, each in named if each is tensor), "")
        return found or f"a tensor of shape {tuple(tensor.array.shape)}"


def record_script(script: str, arguments: Sequence[str], path: str) -> int:
    """Run a script as `pellucid run` does, with a recorder around it; returns the exit status."""
    with Recorder(path=path) as recorder:
        status = run_script(script, arguments)
        if status:  # the exception was printed already, and went no further
            recorder.failed("the script ended with an exception")
    return status


class RandomState:
    """Reads the default generator's state where it lies: 1 µs at every step instead of the 40 of `get_state`."""

    def __init__(self) -> None:
        self.engine: Any = None

    def __call__(self) -> tuple[np.ndarray, int, float | None]:
        """The 624 words and the position, the seed, and the normal number that is left over."""
        engine = default_generator._twister().bit_generator
        if engine is not self.engine:
            memory: Any = (ctypes.c_uint32 * 625).from_address(engine.ctypes.state_address)
            self.engine, self.words = engine, np.frombuffer(memory, np.uint32)
        return self.words.copy(), default_generator._seed, default_generator.next_normal


def held(steps: Sequence[Step]) -> int:
    """The bytes that steps hold at most: what each copied, and what the last one has from before."""
    return sum(step.bytes for step in steps) + steps[-1].shared


def spread_of(values: Iterable[float]) -> tuple[float, float]:
    """The median, and the median distance from it.

    >>> spread_of([1.0, 2.0, 9.0])
    (2.0, 1.0)
    """
    ordered = sorted(values)
    middle = ordered[len(ordered) // 2]
    return middle, sorted(abs(value - middle) for value in ordered)[len(ordered) // 2]


def _spot(place: Place) -> str:
    return f"{bare_name(place.filename)}:{place.line}"


def _raised_at(trace: TracebackType | None) -> str:
    """The innermost line of the user's own code that an exception passed."""
    spot = ""
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not name.startswith(PACKAGE_FOLDER):
            spot = f"{bare_name(name)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return spot
