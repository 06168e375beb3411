"""save_file, load_file and kin: files of safetensors that every other reader reads too, and in which damage shows.

Such a file is eight bytes with the length of a header, the header (JSON: name, type, shape and place of every tensor),
and the tensors' bytes. Ours also carry a seal in the header's `__metadata__`, which other readers ignore: the SHA-256
of the header (with zeros where that digest itself stands), then that of every tensor in the order of their names.

Nothing in a file is believed before it is checked; a name is a key of a dictionary and nothing else.
"""

import hashlib
import io
import json
import math
import os
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from json.decoder import scanstring  # type: ignore[attr-defined]
from operator import itemgetter
from typing import Any, BinaryIO, TypeAlias

import ml_dtypes
import numpy as np

from pellucid import dtypes
from pellucid.core.attributes import concrete
from pellucid.core.provenance import here
from pellucid.core.tensor import Tensor, wrap
from pellucid.errors import explain
from pellucid.serialization.archive import AT_ONCE, damaged, digest_of
from pellucid.serialization.atomic import write_whole

__all__ = ["load", "load_file", "load_model", "save", "save_file", "save_model"]

KINDS: dict[str, np.dtype[Any]] = {
    "F64": np.dtype(np.float64), "F32": np.dtype(np.float32), "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16), "I64": np.dtype(np.int64), "I32": np.dtype(np.int32),
    "I16": np.dtype(np.int16), "I8": np.dtype(np.int8), "U64": np.dtype(np.uint64), "U32": np.dtype(np.uint32),
    "U16": np.dtype(np.uint16), "U8": np.dtype(np.uint8), "BOOL": np.dtype(np.bool_), "C64": np.dtype(np.complex64),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn), "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "F8_E8M0": np.dtype(ml_dtypes.float8_e8m0fnu),
}  # fmt: skip
TRUTH = KINDS["BOOL"]
LARGEST_HEADER = 100_000_000
METADATA = "__metadata__"
SEAL = "pellucid.sha256"  # the key of the seal, and how its text begins: a flipped bit cannot hide both
NO_DIGEST = "0" * 64
LONGEST_ENTRY = 1 << 14  # letters that describe a tensor; 64 sizes of 19 digits take 1 300
SORTED_AT_ONCE = 1 << 16  # values, which take 0.1 s
SPACES = " \t\n\r"
NO_SPACE = re.compile(f"[{SPACES}]*")
FIELDS = dict.fromkeys(("dtype", "shape", "data_offsets")).keys()


# --- saving


def save_file(tensors: dict[str, Tensor], filename: Any, metadata: dict[str, str] | None = None) -> None:
    """Write tensors to a file of safetensors; it is there whole or not at all.

    >>> import pathlib, tempfile
    >>> import pellucid as torch
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> torch.save_file({"weight": torch.ones(2)}, path)
    >>> torch.load_file(path)
    {'weight': tensor([1., 1.])}
    """
    head, body = _written(tensors, metadata)

    def write(out: BinaryIO) -> None:
        out.write(head)
        out.write(body)

    write_whole(filename, write, len(head) + len(body))


def save(tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a file of safetensors.

    >>> import pellucid as torch
    >>> load(save({"bias": torch.zeros(3)}))
    {'bias': tensor([0., 0., 0.])}
    """
    return b"".join(_written(tensors, metadata))


def save_model(
    model: Any, filename: Any, metadata: dict[str, str] | None = None, force_contiguous: bool = True
) -> None:
    """Write a module's state; of names that are one tensor (tied weights) the first is kept, the others are noted.

    >>> import os, tempfile
    >>> import pellucid as torch
    >>> model = torch.nn.ModuleDict({"embed": torch.nn.Embedding(3, 2), "head": torch.nn.Linear(2, 3, bias=False)})
    >>> model["head"].weight = model["embed"].weight
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, os.path.join(folder, "model.safetensors"))
    ...     print(load_model(model, os.path.join(folder, "model.safetensors")))
    ...     print(list(load_file(os.path.join(folder, "model.safetensors"))))
    (set(), [])
    ['embed.weight']
    """
    state = model.state_dict()
    twins = _twins(state)
    notes = {**twins, **(metadata or {})}
    kept = {name: tensor for name, tensor in state.items() if name not in twins}
    if force_contiguous:
        kept = {name: tensor.contiguous() for name, tensor in kept.items()}
    save_file(kept, filename, notes or None)


def _twins(state: dict[str, Tensor], preferred: Iterable[str] = ()) -> dict[str, str]:
    """The names that are another name's tensor, and that name: one of the preferred, else the first of the alphabet."""
    groups: dict[Any, list[str]] = {}
    for name, tensor in state.items():
        array = concrete(tensor, "save_model")
        if array.size:
            memory = array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str
            groups.setdefault(memory, []).append(name)
    wanted, twins = frozenset(preferred), {}
    for group in groups.values():
        first, *others = sorted(group, key=lambda name: (name not in wanted, name))
        twins.update(dict.fromkeys(sorted(others), first))
    return twins


def _written(tensors: dict[str, Tensor], metadata: dict[str, str] | None) -> tuple[bytes, memoryview]:
    """The head of a file, sealed, and its body."""
    arrays = _arrays(tensors)
    digests = [_digest(arrays[name]) for name in sorted(arrays)]
    notes = {**_checked_metadata(metadata), SEAL: " ".join((SEAL, NO_DIGEST, *digests))}
    library = _library()
    try:
        data = library.numpy.save(arrays, metadata=notes)
    except library.SafetensorError as error:
        why = f"release {library.__version__} of the package safetensors refuses it: {error}"
        raise TypeError(explain("the tensors cannot be written", str(here()), why, "update the package")) from None
    size = 8 + int.from_bytes(data[:8], "little")
    head = data[:size]
    place = _place_of_digest(head)
    sealed = head[:place] + hashlib.sha256(head).hexdigest().encode() + head[place + 64 :]
    return sealed, memoryview(data)[size:]


def _library() -> Any:
    """The package safetensors with its NumPy side: what lies below that changes from release to release."""
    try:
        import safetensors.numpy
    except ImportError as error:
        raise ImportError(
            explain(
                "save_file needs the package safetensors, which is not installed",
                str(here()),
                "Pellucid reads such files by itself, but writes them through it",
                "pip install pellucid[safetensors]",
            )
        ) from error
    return safetensors


def _arrays(tensors: Any) -> dict[str, np.ndarray]:
    """The arrays to write, if all of them can be."""
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    arrays: dict[str, np.ndarray] = {}
    for name, tensor in tensors.items():
        if not isinstance(name, str) or name == METADATA:
            raise TypeError(f"the names of tensors are text, and {METADATA!r} is taken; one is {name!r}")
        if not isinstance(tensor, Tensor):
            raise ValueError(f"Key `{_shown(name)}` is invalid, expected torch.Tensor but received {type(tensor)}")
        arrays[name] = concrete(tensor, "save_file()")
    _refuse_shared(arrays)
    for name, array in arrays.items():
        _refuse_layout(name, array)
    return arrays


def _refuse_shared(arrays: dict[str, np.ndarray]) -> None:
    """Safetensors has no way to say that two tensors share memory."""
    groups: list[list[str]] = []
    reached = 0
    areas = ((np.lib.array_utils.byte_bounds(array), name) for name, array in arrays.items() if array.size)
    for (start, stop), name in sorted(areas):
        if start < reached:
            groups[-1].append(name)
        else:
            groups.append([name])
        reached = max(reached, stop)
    shared = [sorted(group) for group in groups if len(group) > 1]
    if shared:
        raise RuntimeError(
            explain(
                f"Some tensors share memory: {'; '.join(', '.join(map(_shown, group)) for group in shared)}",
                str(here()),
                "a file of safetensors would hold them twice, and they would be apart after loading",
                "leave all but one out of each group (or .clone() it), or use torch.save, which keeps them together",
            )
        )


def _refuse_layout(name: str, array: np.ndarray) -> None:
    if not array.flags.c_contiguous:
        raise ValueError(
            explain(
                f"You are trying to save a non contiguous tensor: {_shown(name)}, which is not allowed",
                str(here()),
                f"its shape is {array.shape}, its steps in bytes are {array.strides}",
                "save tensor.contiguous()",
            )
        )
    if array.dtype not in KINDS.values():
        raise TypeError(
            explain(
                f"tensor {_shown(name)} is of {dtypes.from_numpy_dtype(array.dtype)}, which safetensors does not know",
                str(here()),
                f"it has {', '.join(str(dtypes.from_numpy_dtype(kind)) for kind in KINDS.values())}",
                "save view_as_real(tensor), or use torch.save",
            )
        )


def _checked_metadata(metadata: dict[str, str] | None) -> dict[str, str]:
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        raise TypeError(f"argument 'metadata': expected a dict, got {type(metadata).__name__}")
    for key, text in metadata.items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise TypeError(f"argument 'metadata': keys and values are text, got {key!r}: {text!r}")
        if key != SEAL and text.startswith(SEAL):
            raise ValueError(f"argument 'metadata': {_shown(key)} begins with {SEAL!r}, as only our own entry may")
    return metadata


def _digest(array: np.ndarray) -> str:
    return digest_of(_bytes_of(array).data)


def _bytes_of(array: np.ndarray) -> np.ndarray:
    """The memory of an array as bytes; bfloat16 has no buffer of its own."""
    return array.reshape(-1).view(np.uint8)


def _place_of_digest(head: bytes) -> int:
    """Where the header's own digest stands in it. Quotes inside of a JSON text are escaped: it is found only there."""
    start = f'"{SEAL}":"{SEAL} '.encode()
    place = head.find(start)
    return place + len(start) if place >= 0 else -1


# --- loading


def load_file(filename: Any, device: Any = "cpu", verify: bool = True) -> dict[str, Tensor]:
    """Read the tensors of a file of safetensors; `verify=False` leaves the digests out, all other checks stay.

    >>> import pellucid as torch
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.safetensors")
    ...     torch.save_file({"weight": torch.ones(2)}, path)
    ...     print(torch.load_file(path))
    {'weight': tensor([1., 1.])}
    """
    dtypes.check_device(device)
    path = os.fspath(filename)
    with open(path, "rb", buffering=0) as file:
        return _read(file, os.fstat(file.fileno()).st_size, str(path), verify)


def load_model(model: Any, filename: Any, strict: bool = True, device: Any = "cpu") -> tuple[set[str], list[str]]:
    """Give a module the state that `save_model` wrote; the names that are missing in the file, and those not used."""
    loaded = load_file(filename, device)
    twins = _twins(model.state_dict(), loaded)
    absent, unused = model.load_state_dict(loaded, strict=False)
    missing = set(absent) - twins.keys()
    unexpected = [*unused, *(name for name in twins if name not in absent)]
    if strict and (missing or unexpected):
        lines = [f"Error(s) in loading state_dict for {type(model).__name__}:"]
        for what, names in (("Missing", missing), ("Unexpected", unexpected)):
            if names:
                lines.append(f"    {what} key(s) in state_dict: " + ", ".join(f'"{name}"' for name in sorted(names)))
        raise RuntimeError("\n".join([*lines, f"  where: {here()}"]))
    return missing, unexpected


def load(data: bytes, verify: bool = True) -> dict[str, Tensor]:
    """Read the tensors out of the bytes of a file of safetensors."""
    return _read(io.BytesIO(data), len(data), "<bytes>", verify)


# What a header says about one tensor: name, type, shape, first byte and last. Headers may list very many, so these are
# plain tuples of plain values: the garbage collector takes no interest in such.
Entry: TypeAlias = tuple[str, "np.dtype[Any]", tuple[int, ...], int, int]


def _read(file: Any, size: int, path: str, verify: bool) -> dict[str, Tensor]:
    head = _head(file, size, path)
    entries, metadata = _parsed(head, size - len(head), path)
    digests = _digests(head, entries, metadata, path) if verify else {}
    loaded: dict[str, Tensor] = {}
    for name, dtype, shape, _, _ in entries:
        array = np.empty(shape, dtype)
        if array.size:
            _fill(file, _bytes_of(array), name, path)
        expected, actual = digests.get(name), _digest(array) if digests else None
        if expected != actual:
            raise damaged(path, f"its SHA-256 is {actual}, {expected} was written", _cut(name))
        if dtype is TRUTH and array.size and _bytes_of(array).max() > 1:
            raise damaged(path, "it holds truth values other than 0 and 1", _cut(name))
        loaded[name] = wrap(array)
    return loaded


def _head(file: Any, size: int, path: str) -> bytes:
    """The length of the header and the header itself."""
    prefix = file.read(8)
    length = int.from_bytes(prefix, "little")
    if len(prefix) < 8 or length > size - 8:
        raise damaged(path, f"it has {size:,} bytes and announces a header of {length:,}: it was cut off")
    if length > LARGEST_HEADER:
        raise damaged(path, f"its header has {length:,} bytes, more than {LARGEST_HEADER:,}")
    header = file.read(length)
    if len(header) < length:
        raise damaged(path, "it became shorter while it was read")
    return bytes(prefix + header)


def _fill(file: Any, memory: np.ndarray, name: str, path: str) -> None:
    """Read until the memory is full: one read may give less than was asked for."""
    place = 0
    while place < memory.size:
        count = file.readinto(memory[place : place + AT_ONCE])
        if not count:
            raise damaged(path, "the file became shorter while it was read", _cut(name))
        place += count


def _parsed(head: bytes, room: int, path: str) -> tuple[list[Entry], dict[str, str]]:
    """The tensors in the order of their bytes, and the metadata."""
    try:
        header = _json(head[8:])
        metadata = header.pop(METADATA, {})
        if type(metadata) is not dict or not all(type(text) is str for text in metadata.values()):
            raise ValueError(f"{METADATA} is not a table of texts")
        entries = [_entry(name, value) for name, value in header.items()]
    except RecursionError:
        raise damaged(path, "its header is nested without end") from None
    except ValueError as error:
        raise damaged(path, f"its header cannot be believed: {error}") from None
    entries = list(in_order(entries, itemgetter(3, 4)))
    end = 0
    for name, _, _, start, stop in entries:
        if start != end:
            what = "overlaps the one before it" if start < end else "begins after a hole"
            raise damaged(path, f"it {what}: it begins at byte {start:,}, not {end:,}", _cut(name))
        end = stop
    if end != room:
        raise damaged(path, f"its tensors take {end:,} bytes, but {room:,} follow the header: it was cut or lengthened")
    return entries, metadata


def _json(text: bytes) -> dict[str, Any]:
    """Read JSON as strictly as it can be read: no repeated keys, no fractions, no NaN."""
    if not text.startswith(b"{"):
        raise ValueError("it does not begin with {")
    try:
        whole = text.decode("utf-8")
        found, end = _members(whole, 0, _described)
    except json.JSONDecodeError as error:  # which would bring the whole header along
        raise ValueError(f"{error.msg} at character {error.pos:,}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 at byte {error.start:,}") from None
    if whole[end:].strip(SPACES):
        raise ValueError(f"Extra data at character {end:,}")
    return found


def _members(text: str, place: int, read: Callable[[str, int, str], tuple[Any, int]]) -> tuple[dict[str, Any], int]:
    """An object of JSON and where it ends, read member by member: one call for all would be deaf to Ctrl-C."""
    found: dict[str, Any] = {}
    place = _next(text, place + 1)
    if text[place] == "}":
        return found, place + 1
    while True:
        if text[place] != '"':
            raise ValueError(f"Expecting property name enclosed in double quotes at character {place:,}")
        name, place = scanstring(text, place + 1, True)
        place = _next(text, place)
        if text[place] != ":":
            raise ValueError(f"Expecting ':' delimiter at character {place:,}")
        value, place = read(text, _next(text, place + 1), name)
        if name in found:
            raise ValueError(f"{_shown(name)} is there twice")
        found[name] = value
        place = _next(text, place)
        if text[place] == "}":
            return found, place + 1
        if text[place] != ",":
            raise ValueError(f"Expecting ',' delimiter at character {place:,}")
        place = _next(text, place + 1)


def _next(text: str, place: int) -> int:
    """The place of the next character that is no space; there must be one."""
    if place < len(text) and text[place] not in SPACES:
        return place
    place = NO_SPACE.match(text, place).end()  # type: ignore[union-attr]
    if place >= len(text):
        raise ValueError(f"it ends early, at character {place:,}")
    return place


def _described(text: str, place: int, name: str) -> tuple[Any, int]:
    """What a header says of one name, and where that ends: in few letters, or it is no tensor."""
    if name == METADATA and text[place] == "{":
        return _members(text, place, _text)
    try:
        value, size = SCAN(text[place : place + LONGEST_ENTRY], 0)
    except StopIteration:
        raise ValueError(f"Expecting value at character {place:,}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at character {place + error.pos:,}, in {_shown(name)}") from None
    return value, place + size


def _text(text: str, place: int, name: str) -> tuple[str, int]:
    """An entry of the metadata."""
    if text[place] != '"':
        raise ValueError(f"{METADATA} is not a table of texts")
    return scanstring(text, place + 1, True)  # type: ignore[no-any-return]


def _table(pairs: list[tuple[str, Any]]) -> Any:
    """An object of JSON: the description of a tensor as a tuple of its fields, anything else as a dictionary."""
    table = dict(pairs)
    if len(table) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"{_shown(twice)} is there twice")
    if table.keys() == FIELDS:
        return tuple([tuple(part) if type(part) is list else part for part in map(table.get, FIELDS)])
    return table


def _refuse_number(text: str) -> Any:
    raise ValueError(f"the number {_shown(text)} is not a whole one")


SCAN: Any = json.JSONDecoder(
    object_pairs_hook=_table, parse_float=_refuse_number, parse_constant=_refuse_number
).scan_once  # type: ignore[attr-defined]


def _entry(name: str, value: Any) -> Entry:
    if type(value) is not tuple:
        raise ValueError(f"tensor {_shown(name)} is not described by {', '.join(FIELDS)}")
    if not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
        raise ValueError(f"the name {_shown(name)} is not Unicode text")
    kind, shape, place = value
    if type(kind) is not str or kind not in KINDS:
        raise ValueError(f"tensor {_shown(name)} has the type {_shown(kind)}, which is not one of {', '.join(KINDS)}")
    dtype = KINDS[kind]
    if not _sizes(shape, 64) or math.prod(filter(None, shape)) * dtype.itemsize >= 2**63:
        raise ValueError(f"tensor {_shown(name)} has the shape {_shown(shape)}")
    if not _sizes(place, 2) or len(place) < 2 or place[1] - place[0] != math.prod(shape) * dtype.itemsize:
        raise ValueError(
            f"tensor {_shown(name)} lies at {_shown(place)}, where {kind} of shape {_shown(shape)} has no room"
        )
    return name, dtype, shape, *place


def _sizes(values: Any, most: int) -> bool:
    """Tell whether these are sizes, and no more than `most`."""
    if type(values) is not tuple or len(values) > most:
        return False
    for n in values:  # noqa: SIM110 (twice as fast as all() in a header of many tensors)
        if type(n) is not int or not 0 <= n < 2**63:
            return False
    return True


def _digests(head: bytes, entries: list[Entry], metadata: dict[str, str], path: str) -> dict[str, str]:
    """The digest of every tensor; none where another program wrote the file."""
    seals = [(key, text) for key, text in metadata.items() if key == SEAL or text.startswith(SEAL)]
    if not seals:
        return {}
    place = _place_of_digest(head)
    if len(seals) > 1 or place < 0:
        raise damaged(path, "the digests in its header cannot be read")
    expected, *digests = metadata[SEAL].split(" ")[1:]
    actual = hashlib.sha256(head[:place] + NO_DIGEST.encode() + head[place + 64 :]).hexdigest()
    if expected != actual or len(digests) != len(entries):
        raise damaged(
            path,
            f"SHA-256 of its header is {actual}, {_shown(expected)} was written; or another program changed the file "
            "and kept our digests, then verify=False reads it",
        )
    return dict(zip(in_order([name for name, *_ in entries]), digests, strict=True))


def in_order(values: list[Any], key: Callable[[Any], Any] | None = None) -> Iterator[Any]:
    """The same values in their order. One call to sort all that a header may list would be deaf to Ctrl-C."""
    starts = range(0, len(values), SORTED_AT_ONCE)
    return merge(*(sorted(values[start : start + SORTED_AT_ONCE], key=key) for start in starts), key=key)


# --- names in messages


def _shown(value: Any) -> str:
    """Something out of a file as a message may show it: short, without characters that act on a terminal."""
    return repr(_cut(value)) if isinstance(value, str) else reprlib.repr(value)


def _cut(name: str) -> str:
    return name if len(name) <= 80 else name[:77] + "..."
