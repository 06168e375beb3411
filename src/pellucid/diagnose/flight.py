"""The file of the flight recorder: written whole or not at all, checked when it is read, and only data.

A zip archive, like a checkpoint: `record.json`, one record of raw bytes per array under `data/`, and the SHA-256 of
each and of the whole. `record.json` holds the operations of each step (the name of the row, slots, params, the user's
file and line, the module), the leaves, what came out, and why it was written. It holds no path above the working
folder, no argument, no variable of the environment, and nothing that is executed.
"""

import hashlib
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from pellucid import dtypes
from pellucid._version import __version__
from pellucid.core.provenance import line_of
from pellucid.diagnose.modules import paths_of, roots_of
from pellucid.diagnose.plain import Blocks, NotPlainError, array_from, bytes_of, decoded, dtype_name, encoded
from pellucid.diagnose.snapshots import written_since
from pellucid.diagnose.tape import BACKWARD, CLEAR, Entry, Given
from pellucid.errors import a_kind
from pellucid.ops.streams import Generator
from pellucid.serialization.archive import DamagedFileError, Reader, Writer, damaged, read_file
from pellucid.serialization.atomic import write_whole

__all__ = [
    "Cause", "Operation", "Record", "RecordedLeaf", "RecordedStep", "bare_name", "digest_of", "read_record",
    "same_number", "squares_of", "write_record",
]  # fmt: skip

FORMAT, VERSION = "pellucid flight record", 1
MOST_TEXT = 64 << 20  # bytes of record.json
LONG = 1 << 16  # elements of an array for which the BLAS wakes its threads: its squares are summed in lines of
LINE = 4096  # elements, 30 µs for 112 000 instead of 90


@dataclass(frozen=True)
class Cause:
    """Why a file was written: the kind of trigger, in words, and the user's line."""

    kind: str
    text: str
    spot: str


def bare_name(filename: str) -> str:
    """A source file's name as it may be stored: from the working folder on, else the name alone.

    >>> bare_name("/home/somebody/secret/train.py")
    'train.py'
    """
    try:
        inside = os.path.relpath(filename) if os.path.isabs(filename) else filename
    except ValueError:
        inside = os.pardir
    return os.path.basename(filename) if inside.startswith((os.pardir, os.sep)) else inside


# --- writing


def write_record(recorder: Any, steps: list[Any], cause: Cause) -> None:
    """Write the steps that a recorder holds, as many of the latest as its limit has room for."""
    blocks = Blocks()
    kept: list[dict[str, Any]] = []
    programs: list[list[Any]] = []
    known: list[list[Entry]] = []
    left = recorder.limit
    for step in reversed(steps):
        needed = live_slots(step.entries)
        leaves = [leaf for leaf in step.leaves() if leaf.slot in needed]
        size = sum(leaf.values.nbytes for leaf in leaves)
        if kept and size > left:
            break
        left -= size
        program = next((i for i, entries in enumerate(known) if same_program(entries, step.entries)), len(known))
        if program == len(known):
            known.append(step.entries)
            programs.append(_program(step, needed, blocks))
        kept.append(_step(recorder, step, leaves, program, blocks, last=not kept))
    document = {
        "format": FORMAT, "version": VERSION, "pellucid": __version__, "numpy": np.__version__,
        "python": platform.python_version(), "byteorder": sys.byteorder,
        "cause": {"kind": cause.kind, "text": cause.text, "spot": cause.spot},
        "programs": programs, "steps": kept[::-1], "left_out": recorder.dropped + len(steps) - len(kept),
        "optimizers": _optimizers(recorder, left, blocks), "blocks": blocks.described(),
    }  # fmt: skip
    write_whole(recorder.path, lambda out: _write(out, document, blocks), blocks.bytes)


def _write(out: BinaryIO, document: dict[str, Any], blocks: Blocks) -> None:
    writer = Writer(out, "flight")
    writer.write("record.json", json.dumps(document, separators=(",", ":")).encode())
    for number, array in enumerate(blocks.arrays):
        writer.write(f"data/{number}", bytes_of(array))
    writer.close()


def same_program(one: list[Entry], other: list[Entry]) -> bool:
    """Whether two steps did the same: then their operations are written once."""
    try:
        return len(one) == len(other) and all(a[:-1] == b[:-1] for a, b in zip(one, other, strict=True))
    except (ValueError, TypeError):  # params that NumPy compares element by element
        return False


def ticks_of(entries: list[Entry]) -> list[int]:
    """When each operation ran."""
    return [entry[-1] for entry in entries]


def live_slots(entries: list[Entry]) -> set[int]:
    """The slots that the step's backward depends on; all of them if it has come to none."""
    if not any(entry[0] is BACKWARD for entry in entries):
        return {slot for _, slots, _, first, count, *_ in entries for slot in (*slots, *range(first, first + count))}
    live: set[int] = set()
    for p, slots, params, first, count, *_ in reversed(entries):
        if p is BACKWARD:
            live.update(slots, (seed for seed in params if seed is not None))
        elif not live.isdisjoint(range(first, first + count)):
            live.update(slots, range(first, first + count))
    return live


def _program(step: Any, needed: set[int], blocks: Blocks) -> list[Any]:
    """The operations as lists: row, slots taken, params, first slot, how many, file, line, module."""
    modules = paths_of(ticks_of(step.entries))
    lines: list[Any] = []
    where: tuple[str, int] = ("", 1)
    for entry, module in zip(reversed(step.entries), reversed(modules), strict=True):
        p, slots, params, first, count, code, lasti, _ = entry
        if code is not None:
            where = bare_name(code.co_filename), line_of(code, lasti)
        if p is CLEAR:
            slots = [slot for slot in slots if slot in needed]
        concerned = p is BACKWARD or (slots if p is CLEAR else not needed.isdisjoint(range(first, first + count)))
        if not concerned:
            continue
        try:
            plain = encoded(params, blocks)
        except NotPlainError as error:
            plain = None
            step.notes.append(f"{p.name} has a param that cannot be recorded ({error}): the replay ends before it")
        lines.append([p.name, slots, plain, first, count, *where, module])
    return lines[::-1]


def _step(recorder: Any, step: Any, leaves: list[Given], program: int, blocks: Blocks, last: bool) -> dict[str, Any]:
    names = names_of(recorder, step, leaves)
    made_by = dict.fromkeys(leaf.opaque for leaf in leaves if leaf.opaque and leaf.grad)
    opaque = [f"the results of {what} are recorded; its backward is not replayed" for what in made_by]
    listed = [[leaf.slot, blocks.add(leaf.values), leaf.grad, names.get(leaf.slot, ""), leaf.opaque] for leaf in leaves]
    return {
        "number": step.number, "program": program, "leaves": listed, "notes": [*step.notes, *opaque],
        "random": blocks.add(random_bytes(*step.random)),
        "losses": [[dtype_name(loss.dtype), loss.tobytes().hex()] for loss in step.losses],
        "graded": step.graded, "squares": step.squares.hex(),
        "digests": _digests(step, leaves) if last else {},
    }  # fmt: skip


def random_bytes(words: np.ndarray, seed: int, next_normal: float | None) -> np.ndarray:
    """The state of a generator in PyTorch's layout."""
    generator = Generator()
    generator._seed, generator.next_normal = seed, next_normal
    state = {"bit_generator": "MT19937", "state": {"key": words[:624], "pos": int(words[624])}}
    generator._twister().bit_generator.state = state
    return generator.get_state().array  # type: ignore[no-any-return]


def names_of(recorder: Any, step: Any, leaves: list[Given]) -> dict[int, str]:
    """What the model calls the leaves: the recorder's model, or those that ran in this step."""
    models = [recorder.model] if recorder.model is not None else roots_of(ticks_of(step.entries))
    names = {id(t): name for m in models for name, t in (*m.named_parameters(), *m.named_buffers())}
    found = {leaf.slot: leaf.tensor() for leaf in leaves}
    return {slot: names[id(tensor)] for slot, tensor in found.items() if tensor is not None and id(tensor) in names}


def _digests(step: Any, leaves: list[Given]) -> dict[str, str]:
    """The SHA-256 of every gradient; none if one was changed since backward left them (clipped, written by hand)."""
    tensors = {leaf.slot: leaf.tensor() for leaf in leaves if leaf.slot in step.graded}
    found = {slot: t._grad.array for slot, t in tensors.items() if t is not None and t._grad is not None}
    ended = [entry[-1] for entry in step.entries if entry[0] is BACKWARD]
    kept = [*found] == step.graded and not any(written_since(array, ended[-1]) for array in found.values())
    if not kept or not same_number(squares_of(found.values()), step.squares):
        return {}
    return {str(slot): digest_of(array) for slot, array in found.items()}


def same_number(one: float, other: float) -> bool:
    """Whether two numbers are equal, or neither is one."""
    return one == other or (one != one and other != other)


def digest_of(array: np.ndarray) -> str:
    """The SHA-256 of an array's elements in order."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def squares_of(arrays: Iterable[np.ndarray]) -> float:
    """The sum of squares of all elements: cheap, and the same bits give the same sum.

    >>> squares_of([np.array([3.0, 4.0]), np.ones((2, 2))])
    29.0
    """
    parts = []
    for array in arrays:
        flat = array.reshape(-1)
        # Mostly: without a call, and one by one: all of them in a row, to be summed at once, take 8 µs more for 29.
        parts.append(flat.dot(flat) if flat.size <= LONG and flat.dtype.char in "fd" else _rarer_squares(flat))
    return sum(map(float, parts), 0.0)


def _rarer_squares(flat: np.ndarray) -> float:
    """The same of one array that is long, complex, or of short floats."""
    if flat.dtype.kind == "c":
        flat = np.ascontiguousarray(flat).view(flat.real.dtype)  # real and imaginary parts side by side
    elif flat.dtype.itemsize <= 2:
        flat = flat.astype(np.float32)
    whole = flat.size - flat.size % LINE
    lines, rest = flat[:whole].reshape(-1, LINE), flat[whole:]
    return float(np.add.reduce(np.vecdot(lines, lines))) + float(rest.dot(rest))


def _optimizers(recorder: Any, left: int, blocks: Blocks) -> list[Any]:
    """What every optimizer remembers and how it is set, if there is room for it."""
    states = []
    for optimizer in recorder.optimizers:
        state = optimizer.state_dict()
        trial = Blocks()
        try:
            encoded(state, trial)
        except NotPlainError:
            continue
        if trial.bytes <= left:
            left -= trial.bytes
            states.append([type(optimizer).__name__, encoded(state, blocks)])
    return states


# --- reading


@dataclass(frozen=True)
class Operation:
    """One recorded operation."""

    name: str
    inputs: tuple[int, ...]
    params: Any  # None: they could not be recorded
    first: int
    count: int
    file: str
    line: int
    module: str


@dataclass(frozen=True)
class RecordedLeaf:
    """A tensor that a step started from."""

    slot: int
    array: np.ndarray
    grad: bool
    name: str
    opaque: str


@dataclass(frozen=True)
class RecordedStep:
    """A step as it stands in a file."""

    number: int
    operations: list[Operation]
    leaves: list[RecordedLeaf]
    notes: list[str]
    losses: list[tuple[str, str]]
    graded: list[int]  # the leaves that had gradients
    squares: float  # of all elements of these
    digests: dict[int, str]
    random: np.ndarray  # the state of the default generator before the step


@dataclass(frozen=True)
class Record:
    """A whole file."""

    path: str
    cause: Cause
    steps: list[RecordedStep]
    left_out: int
    optimizers: list[tuple[str, Any]]  # class and state, as state_dict gives it, arrays in the place of tensors


class Archive(Reader):
    """Reads the archive of a recording with the checks that checkpoints get."""

    def _prefix(self) -> str:
        if "flight/record.json" not in self.infos:
            raise damaged(self.path, "it has no record.json: it was not written by pellucid.Recorder")
        return "flight/"


def read_record(source: Any) -> Record:
    """Read a recording; a damaged or foreign file is refused before anything of it is used."""
    data, path = read_file(source)
    archive = Archive(data, path)
    if archive.suspect is not None or not archive.digests:
        raise damaged(path, "its bytes are not those that were written (SHA-256)")
    text = archive.read("record.json")
    if len(text) > MOST_TEXT:
        raise damaged(path, f"its description has {len(text):,} bytes, more than {MOST_TEXT:,}")
    try:
        document = of_type(dict, json.loads(text))
        if document["format"] != FORMAT or document["version"] != VERSION:
            raise NotPlainError(f"it is of another format than {FORMAT!r}, version {VERSION}")
        return _record(document, archive, path)
    except DamagedFileError:
        raise
    except Exception as error:  # whatever nonsense leads to, it is the file's fault
        raise damaged(path, f"its description cannot be read: {type(error).__name__}: {str(error)[:200]}") from None


def _record(document: dict[str, Any], archive: Archive, path: str) -> Record:
    for about in ("pellucid", "numpy", "python"):
        of_type(str, document[about])
    if document["byteorder"] != sys.byteorder:
        raise NotPlainError(f"it was written where the order of bytes is {str(document['byteorder'])[:60]!r}")
    blocks = of_type(list, document["blocks"])
    arrays = [array_from(of_type(dict, about), archive.read(f"data/{i}")) for i, about in enumerate(blocks)]
    programs = [list_of(_operation, lines, arrays) for lines in of_type(list, document["programs"])]
    steps = list_of(_recorded_step, document["steps"], programs, arrays)
    cause = Cause(**{name: of_type(str, of_type(dict, document["cause"])[name]) for name in ("kind", "text", "spot")})
    return Record(
        path, cause, steps, natural(document["left_out"]), list_of(_optimizer, document["optimizers"], arrays)
    )


def list_of(read: Callable[..., Any], values: Any, *more: Any) -> list[Any]:
    """What is read of every member of a list."""
    return [read(value, *more) for value in of_type(list, values)]


def of_type(kind: type, value: Any) -> Any:
    """A value, if it is of a type: nothing else is made to fit."""
    if type(value) is not kind:
        raise NotPlainError(f"{a_kind(value)} stands where a value of type {kind.__name__} should")
    return value


def natural(value: Any) -> int:
    """A slot, a number of a line or a count."""
    if not 0 <= of_type(int, value) < 1 << 30:
        raise NotPlainError("a number is out of bounds")
    return value  # type: ignore[no-any-return]


def member(values: list[Any], number: Any) -> Any:
    """One of several things by its number."""
    if natural(number) >= len(values):
        raise NotPlainError(f"there is no number {number} among {len(values)}")
    return values[number]


def _operation(line: Any, arrays: list[np.ndarray]) -> Operation:
    name, inputs, params, first, count, file, number, module = of_type(list, line)
    plain = None if params is None else decoded(of_type(list, params), arrays)
    if bare_name(of_type(str, file)) != file:
        raise NotPlainError("a source file is outside of the working folder")
    return Operation(
        of_type(str, name), tuple(list_of(natural, inputs)), plain, natural(first), natural(count), file,
        natural(number), of_type(str, module),
    )  # fmt: skip


def _recorded_step(step: Any, programs: list[list[Operation]], arrays: list[np.ndarray]) -> RecordedStep:
    of_type(dict, step)
    random = member(arrays, step["random"])
    if random.dtype != np.uint8 or random.ndim != 1:
        raise NotPlainError("the state of the generator is not bytes")
    digests = {natural(int(slot)): of_type(str, digest) for slot, digest in of_type(dict, step["digests"]).items()}
    return RecordedStep(
        natural(step["number"]), member(programs, step["program"]), list_of(_recorded_leaf, step["leaves"], arrays),
        list_of(partial(of_type, str), step["notes"]), list_of(_loss, step["losses"]),
        list_of(natural, step["graded"]), float.fromhex(of_type(str, step["squares"])), digests, random,
    )  # fmt: skip


def _recorded_leaf(leaf: Any, arrays: list[np.ndarray]) -> RecordedLeaf:
    slot, block, grad, name, opaque = of_type(list, leaf)
    array = member(arrays, block)
    if of_type(bool, grad) and not dtypes.from_numpy_dtype(array.dtype).is_floating_point and array.dtype.kind != "c":
        raise NotPlainError(f"{array.dtype} has no gradient")
    return RecordedLeaf(natural(slot), array, grad, of_type(str, name), of_type(str, opaque))


def _loss(loss: Any) -> tuple[str, str]:
    dtype, data = of_type(list, loss)
    return of_type(str, dtype), of_type(str, data)


def _optimizer(optimizer: Any, arrays: list[np.ndarray]) -> tuple[str, Any]:
    name, state = of_type(list, optimizer)
    return of_type(str, name), of_type(dict, decoded(state, arrays))
