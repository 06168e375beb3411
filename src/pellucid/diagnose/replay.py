"""`pellucid replay FILE`: run the recorded operations of a step again, alone, compare bit for bit, name the cause.

The user's script is not needed: the recorded list of operations is what runs, each in a frame that bears the user's
file and line, so that everything that names a line names theirs. It runs twice: once on the plain path, to compare the
loss and the gradients with what was recorded, and, if they are not finite, once with a Watcher.
"""

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from inspect import signature
from types import CodeType
from typing import Any

import numpy as np

from pellucid.core import modes
from pellucid.core.backward import backward
from pellucid.core.primitive import BOUND, as_written
from pellucid.core.tensor import Tensor, wrap
from pellucid.diagnose.anomaly import Watcher, first_bad
from pellucid.diagnose.finding import Finding
from pellucid.diagnose.flight import (
    Operation,
    Record,
    RecordedStep,
    digest_of,
    read_record,
    same_number,
    squares_of,
)
from pellucid.diagnose.naming import plural
from pellucid.diagnose.plain import dtype_name, fresh
from pellucid.errors import explain, printable
from pellucid.ops import load_families
from pellucid.serialization.archive import DamagedFileError, damaged

__all__ = ["Replayed", "print_replay", "replay"]

NO_RESULT = frozenset(("backward", "clear"))
OURS = NO_RESULT | {"detach"}  # what stands on a tape besides operations
TEMPLATE = compile("result = run()", "<recorded>", "exec")


@dataclass
class Replayed:
    """What a replay found; prints as a report."""

    record: Record
    step: RecordedStep
    losses: list[np.ndarray] = field(default_factory=list)
    gradients: dict[int, np.ndarray] = field(default_factory=dict)  # by the slot of the leaf
    different: list[str] = field(default_factory=list)  # what is not the same, bit for bit
    compared: int = 0
    error: str = ""  # an operation failed, as it did when it was recorded
    finding: Finding | None = None
    trace: list[str] = field(default_factory=list)  # every operation with its line and what came out

    @property
    def exact(self) -> bool:
        """Everything that could be compared is the same, bit for bit."""
        return not self.different

    def __str__(self) -> str:
        return printable("\n".join(self._lines()))

    def _lines(self) -> list[str]:
        record, step = self.record, self.step
        at = f" at {record.cause.spot}" if record.cause.spot else ""
        numbers = ", ".join(str(each.number) for each in record.steps)
        lines = [f"{record.path}: {record.cause.text}{at}", f"recorded: step{'s'[: len(record.steps) > 1]} {numbers}"]
        if record.left_out:
            lines.append(f"          {record.left_out:,} earlier steps had no room")
        count = sum(operation.name not in NO_RESULT for operation in step.operations)
        lines.append(
            f"replayed: step {step.number}, {plural(count, 'operation')} from {plural(len(step.leaves), 'tensor')}"
        )
        lines += [f"  note:   {note}" for note in step.notes]
        lines += [f"  loss:   {float(np.real(loss.reshape(-1)[0])):.9g}" for loss in self.losses if loss.size == 1]
        lines.append(f"  {self._verdict()}")
        lines += [f"    {each}" for each in self.different[:20]]
        if self.error:
            lines += ["  failed: " + self.error.replace("\n", "\n  ")]
        if not step.losses and self.trace:  # an exception came first: where it had got to
            lines += [f"  last:   {line}" for line in self.trace[-3:]]
        if self.finding is not None:
            lines += ["", str(self.finding)]
        return lines

    def _verdict(self) -> str:
        if not self.compared:
            return "nothing to compare: the step had not come to backward"
        if self.exact:
            return f"the same, bit for bit: {self.compared:,} of {self.compared:,} results (losses and gradients)"
        return (
            f"NOT the same: {len(self.different):,} of {self.compared:,} results differ "
            "(another NumPy or machine, or a hook that changes gradients?)"
        )


def replay(path: Any, number: int | None = None) -> Replayed:
    """Run a recorded step again (the last, unless another number is asked for) and say what was found."""
    load_families()
    record = read_record(path)
    step = _chosen(record, number)
    _check(step, record.path)
    try:
        return _replayed(Replayed(record, step))
    except DamagedFileError:
        raise
    except Exception as error:  # it ran when it was recorded, so what stands there now is not what was written
        why = f"an operation cannot take what is recorded for it: {type(error).__name__}: {str(error)[:200]}"
        raise damaged(record.path, why) from None


def _replayed(result: Replayed) -> Replayed:
    _run(result, None)
    _compare(result)
    if not _finite(result):
        watcher = Watcher()
        again = Replayed(result.record, result.step)
        with modes.switched(observers=(*modes.current().observers, watcher)):
            loss = _run(again, watcher)
        result.finding = first_bad(watcher, loss) or first_bad(watcher)
    str(result)  # a report can be made of it
    return result


def print_replay(path: str, number: int | None = None, trace: bool = False) -> int:
    """Print the report of a replay; 0 when it is the same bit for bit, 1 when not, 2 when nothing can be replayed."""
    try:
        result = replay(path, number)
    except (DamagedFileError, OSError, ValueError) as error:
        print(f"pellucid replay: {error}", file=sys.stderr)
        return 2
    print(*(result.trace if trace else ()), result, sep="\n")
    return 0 if result.exact else 1


def _chosen(record: Record, number: int | None) -> RecordedStep:
    for step in reversed(record.steps):
        if number is None or step.number == number:
            return step
    there = ", ".join(str(step.number) for step in record.steps) or "none"
    raise ValueError(
        explain(f"{record.path}: step {number} is not in the recording", try_=f"one of its steps: {there}")
    )


# --- running


def _run(result: Replayed, watcher: Watcher | None) -> Tensor | None:
    """Run all operations; returns the first loss that is not finite, else the last."""
    step = result.step
    values = {leaf.slot: _leaf(leaf.array, leaf.grad) for leaf in step.leaves}
    leaves = {leaf.slot: values[leaf.slot] for leaf in step.leaves if leaf.grad}
    if watcher is not None:
        watcher.functions = {id(values[leaf.slot]): leaf.opaque for leaf in step.leaves if leaf.opaque}
    several = sum(operation.name == "backward" for operation in step.operations) > 1
    losses: list[Tensor] = []
    for operation in step.operations:
        if operation.params is None:
            break
        if watcher is not None:
            watcher.module = operation.module
        try:
            if operation.name == "backward":
                losses += _go_back(operation, values, several)
            elif operation.name == "clear":
                for slot in operation.inputs:
                    del values[slot].grad
            else:
                result.trace.append(_go_on(operation, values, result.record.path))
        except RuntimeError as error:
            if isinstance(error, (DamagedFileError, RecursionError)):
                raise
            result.error = f"{type(error).__name__}: {error}"
            break
    result.losses = [loss.array for loss in losses]
    result.gradients = {slot: leaf._grad.array for slot, leaf in leaves.items() if leaf._grad is not None}
    bad = [loss for loss in losses if not np.isfinite(loss.array).all()]
    return bad[0] if bad else losses[-1] if losses else None


def _leaf(array: np.ndarray, grad: bool) -> Tensor:
    tensor = wrap(fresh(array))  # operations that write in place must not change the recording
    return tensor.requires_grad_() if grad else tensor  # type: ignore[no-any-return]


def _go_on(operation: Operation, values: dict[int, Tensor], path: str) -> str:
    """Run one operation of forward, and describe it."""
    if operation.name == "detach":
        values[operation.first] = values[operation.inputs[0]].detach()
        return described(operation, (values[operation.first],))
    row: Any = BOUND[operation.name]
    tensors = [values[slot] for slot in operation.inputs]
    p = row.primitive
    result = at_line(
        operation, lambda: row(tensors, *operation.params) if p.variadic else row(*tensors, *operation.params)
    )
    outs = result if isinstance(result, tuple) else (result,)
    if len(outs) != operation.count:
        raise damaged(path, f"{operation.name} does not give what was recorded")
    values.update(zip(range(operation.first, operation.first + operation.count), outs, strict=True))
    return described(operation, outs)


def described(operation: Operation, outs: Sequence[Tensor]) -> str:
    """One line about an operation: where, what, the shape of the result and its largest element."""
    results = []
    for out in outs:
        array = out.array
        size = float(np.abs(array).astype(np.float64).max()) if array.size and array.dtype.kind != "c" else 0.0
        results.append(f"{tuple(array.shape)} up to {size:.3g}")
    module = f"  in {operation.module}" if operation.module else ""
    return f"{operation.file}:{operation.line}  {as_written(operation.name)} -> {', '.join(results)}{module}"


def _go_back(operation: Operation, values: dict[int, Tensor], several: bool) -> list[Tensor]:
    """Run a backward; the loss it started from."""
    roots = [values[slot] for slot in operation.inputs]
    seeds = [None if seed is None else values[seed] for seed in operation.params]
    at_line(operation, lambda: backward(roots, seeds, retain_graph=several))
    return roots[:1]


def _check(step: RecordedStep, path: str) -> None:
    """Before anything runs: every operation is known, every slot is filled once and before it is used."""
    leaves = sorted(leaf.slot for leaf in step.leaves)
    if len(set(leaves)) != len(leaves):
        raise damaged(path, "two leaves have the same slot")
    firsts: list[int] = []  # the slots that operations fill, one after the other: first of each and the one after
    ends = [0]
    for operation in step.operations:
        primitive = getattr(BOUND.get(operation.name), "primitive", None)
        if operation.name not in OURS and (primitive is None or primitive.boundary):
            raise damaged(path, f"there is no operation called {operation.name!r}")
        if operation.name not in OURS and operation.params is not None and not _fits(primitive, operation):
            raise damaged(path, f"{operation.name} does not take {plural(len(operation.params), 'param')}")
        taken = {*operation.inputs, *_seeds(operation, path)}
        end = operation.first + operation.count
        again = operation.first < ends[-1] or bisect_left(leaves, operation.first) != bisect_left(leaves, end)
        filled = all(_is_filled(slot, leaves, firsts, ends) for slot in taken)
        if not operation.inputs or not filled or (operation.count and again):
            raise damaged(path, f"{operation.name} uses a slot that is not filled, or fills one again")
        if operation.name in NO_RESULT and operation.count:
            raise damaged(path, f"{operation.name} has no result")
        if operation.count:
            firsts.append(operation.first)
            ends.append(end)


def _fits(primitive: Any, operation: Operation) -> bool:
    """Whether a row takes so many params; those of NumPy's own functions do not say."""
    try:
        signature(primitive.forward).bind(*([0] if primitive.variadic else operation.inputs), *operation.params)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def _seeds(operation: Operation, path: str) -> list[int]:
    """The slots of the gradients that a backward starts from."""
    if operation.name != "backward":
        return []
    seeds = operation.params
    if seeds is None or not all(seed is None or (type(seed) is int and seed >= 0) for seed in seeds):
        raise damaged(path, "a backward starts from something that is not a slot")
    return [seed for seed in seeds if seed is not None]


def _is_filled(slot: int, leaves: list[int], firsts: list[int], ends: list[int]) -> bool:
    place = bisect_right(firsts, slot)
    return (place > 0 and slot < ends[place]) or slot in leaves[bisect_left(leaves, slot) : bisect_right(leaves, slot)]


def at_line(operation: Operation, run: Callable[[], Any]) -> Any:
    """Call a function from a frame of the user's file and line."""
    scope = {"run": run, "__name__": "recorded"}
    exec(line_code(operation.file, operation.line), scope)  # a constant: only its file name and line are recorded
    return scope["result"]


@cache
def line_code(file: str, line: int) -> CodeType:
    """The code `result = run()`, which says that it stands at a line of a file."""
    return TEMPLATE.replace(co_filename=file, co_firstlineno=max(line, 1))


# --- comparing


def _finite(result: Replayed) -> bool:
    arrays = (*result.losses, *result.gradients.values())
    return all(bool(np.isfinite(array).all()) for array in arrays) and (bool(result.losses) or not result.error)


def _compare(result: Replayed) -> None:
    """Compare the losses and the gradients with what was recorded."""
    step = result.step
    for i, (dtype, data) in enumerate(step.losses):
        result.compared += 1
        loss = result.losses[i] if i < len(result.losses) else None
        if loss is None or dtype_name(loss.dtype) != dtype or loss.tobytes().hex() != data:
            result.different.append(f"the loss of backward {i + 1}")
    if any("not compared" in note or "not replayed" in note for note in step.notes):
        return
    if step.digests:
        names = {leaf.slot: leaf.name or f"tensor {leaf.slot}" for leaf in step.leaves}
        for slot, digest in step.digests.items():
            grad = result.gradients.get(slot)
            result.compared += 1
            if grad is None or digest_of(grad) != digest:
                result.different.append(f"the gradient of {names.get(slot, slot)}")
    elif step.losses:
        result.compared += 1
        found = [result.gradients.get(slot) for slot in step.graded]
        if not same_number(squares_of([grad for grad in found if grad is not None]), step.squares):
            result.different.append("the gradients (the sum of their squares)")
