"""save and load, in PyTorch's own format: its files load here, and ours load there.

`load` reads weights only, unless it is told otherwise: nothing in a file is executed. A file is written whole or not at
all, and damage to one is noticed when it is read.
"""

import io
import os
import pickle
import pickletools
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from pellucid.core.provenance import here
from pellucid.core.tensor import Tensor
from pellucid.errors import explain
from pellucid.serialization.archive import DamagedFileError, Reader, Writer, damaged, fill, read_file
from pellucid.serialization.atomic import write_whole
from pellucid.serialization.names import home, module_for
from pellucid.serialization.safetensors import load_file
from pellucid.serialization.tensors import SAFE, TENSOR, Blocks, Pickler, truthful
from pellucid.serialization.unpickling import Unpickler, UnpicklingError, brief, shown

__all__ = [
    "DEFAULT_PROTOCOL", "DamagedFileError", "LoadEndianness", "SourceChangeWarning", "UnpicklingError",
    "add_safe_globals", "clear_safe_globals",
    "get_crc32_options", "get_default_load_endianness", "get_safe_globals", "get_unsafe_globals_in_checkpoint", "load",
    "safe_globals", "save", "set_crc32_options", "set_default_load_endianness",
]  # fmt: skip

DEFAULT_PROTOCOL = 2  # of the pickles that `save` writes
MAP_LOCATION: TypeAlias = Any  # the type of what `load` takes under that name, which libraries import


# --- saving


def save(obj: Any, f: Any, pickle_module: Any = None, pickle_protocol: int = DEFAULT_PROTOCOL, **options: Any) -> None:
    """Write an object with all its tensors to a path or an open file.

    >>> import io
    >>> import pellucid as torch
    >>> file = io.BytesIO()
    >>> torch.save({"weight": torch.ones(2)}, file)
    >>> _ = file.seek(0)
    >>> torch.load(file)
    {'weight': tensor([1., 1.])}
    """
    text = io.BytesIO()
    pickler = Pickler(text, pickle_protocol)
    pickler.dump(obj)
    blocks = list(pickler.blocks.values())
    if blocks and pickle_protocol == 0:
        raise ValueError(
            explain(
                "save: pickle_protocol=0 cannot refer to the memory of tensors",
                str(here()),
                "it knows references as text only, so that nobody could load the file, PyTorch neither",
                f"pickle_protocol={DEFAULT_PROTOCOL}, or leave it out",
            )
        )
    size = text.tell() + sum(memory.nbytes + 200 for _, memory in blocks)
    if hasattr(f, "write"):
        whole = io.BytesIO()
        _write(whole, text.getvalue(), blocks)
        f.write(whole.getvalue())
        if hasattr(f, "flush"):  # the file may be opened again by its name before it is closed
            f.flush()
    else:
        write_whole(f, lambda out: _write(out, text.getvalue(), blocks), size)


def _write(out: BinaryIO, text: bytes, blocks: list[tuple[str, Any]]) -> None:
    with Writer(out) as writer:
        writer.write("data.pkl", text)
        writer.write(".format_version", b"1")
        writer.write(".storage_alignment", b"64")
        writer.write("byteorder", b"little")
        for key, memory in blocks:
            writer.write(f"data/{key}", memory.tobytes())
        writer.write("version", b"3\n")


# --- loading

EXTRA: ContextVar[dict[str, Any]] = ContextVar("pellucid_safe_globals", default={})  # noqa: B039 (never changed in place)


def load(f: Any, map_location: Any = None, pickle_module: Any = None, *, weights_only: bool | None = None,
         mmap: bool | None = None, **options: Any) -> Any:  # fmt: skip
    """Read what `save` (here or in PyTorch) wrote. Nothing in the file is executed unless `weights_only=False`.

    A `pickle_module` is an error without that; in PyTorch it alone means that the file is trusted.

    As in PyTorch, the environment may decide: TORCH_FORCE_WEIGHTS_ONLY_LOAD=1 for every call,
    TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1 for the calls that do not say `weights_only`.

    >>> import pellucid as torch
    >>> import io
    >>> file = io.BytesIO()  # or a path
    >>> torch.save(torch.nn.Linear(2, 1).state_dict(), file)
    >>> _ = file.seek(0)
    >>> {name: tuple(value.shape) for name, value in torch.load(file).items()}
    {'weight': (1, 2), 'bias': (1,)}
    """
    weights_only = _only_weights(weights_only, pickle_module)
    if isinstance(f, (str, os.PathLike)) and os.fspath(f).endswith(".safetensors"):
        return load_file(f)
    data, path = read_file(f)
    if data[:2] != b"PK":
        return _load_legacy(data, path)
    reader = Reader(data, path)
    unsaid = b"big" if get_default_load_endianness() is LoadEndianness.BIG else b"little"
    order = reader.read("byteorder") if "byteorder" in reader else unsaid
    if order not in (b"little", b"big"):
        raise damaged(path, f"its byte order is {shown(order)}")
    blocks = Blocks(lambda key, size: reader.view(f"data/{key}"), order == b"big")
    try:
        if reader.suspect is not None and not weights_only:
            raise UnpicklingError("a damaged file is not trusted")
        loaded = _unpickled(reader.read("data.pkl"), blocks, weights_only)
    except UnpicklingError as error:
        if reader.suspect is not None:
            raise _named(reader, None, blocks) from None
        raise _refused(error, path) from None
    if reader.suspect is not None:
        raise _named(reader, loaded, blocks)
    return loaded


def _only_weights(said: bool | None, pickle_module: Any) -> bool:
    """Whether to read weights only: what the call says, unless the environment has the last word."""
    always, unless_said = (_set_to_true(f"TORCH_FORCE_{way}WEIGHTS_ONLY_LOAD") for way in ("", "NO_"))
    if always and unless_said:
        raise RuntimeError(
            explain(
                "TORCH_FORCE_WEIGHTS_ONLY_LOAD and TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD are both set",
                str(here()),
                try_="unset one of these environment variables",
            )
        )
    if said is None and unless_said:
        warnings.warn("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD is set: this file may run any program as it is loaded",
                      UserWarning, stacklevel=3)  # fmt: skip
        return False
    weights_only = always or said is None or bool(said)
    if weights_only and pickle_module is not None:
        raise RuntimeError(
            explain(
                f"load: weights only are read with an unpickler of its own, but pickle_module is {pickle_module!r}",
                str(here()),
                "a pickle_module alone does not say that the file is trusted, as it does in PyTorch",
                "leave pickle_module out, or if you trust the file: weights_only=False",
            )
        )
    return weights_only


def _set_to_true(variable: str) -> bool:
    return os.environ.get(variable, "").lower() in ("1", "y", "yes", "true")


def _named(reader: Reader, loaded: Any, blocks: Blocks) -> DamagedFileError:
    """The error for a record with a wrong digest, with the name of the tensor if it can be told."""
    assert reader.suspect is not None
    record, expected, actual = reader.suspect
    why = f"SHA-256 of record {record!r} is {actual}, {expected} was written"
    block = blocks.seen.get(record.removeprefix("data/"))
    found = (
        way for way, tensor in _tensors_of(loaded)
        if block is not None and np.may_share_memory(tensor.array, block.array)
    )  # fmt: skip
    way = next(found, None)
    return damaged(reader.path, why, record if way is None else _path_of(way))


def _tensors_of(loaded: Any) -> Iterator[tuple[Any, Tensor]]:
    """The tensors in a value, each with the way to it: (the way to what holds it, what holds it, its key or index).

    The file is not to be trusted: each thing is looked at once, and a way is written out for one tensor only.
    """
    waiting: list[tuple[Any, Any]] = [((), loaded)]
    seen: set[int] = set()
    while waiting:
        way, value = waiting.pop()
        if isinstance(value, Tensor):
            yield way, value
        elif isinstance(value, (dict, list, tuple)) and id(value) not in seen:
            seen.add(id(value))
            parts = value.items() if isinstance(value, dict) else enumerate(value)
            held = [((way, value, key), part) for key, part in parts if isinstance(part, (Tensor, dict, list, tuple))]
            waiting.extend(reversed(held))


def _path_of(way: Any) -> str:
    """The way to a tensor as a name: layers.0.weight[2]; at most the last hundred steps."""
    steps: list[str] = []
    while way and len(steps) < 100:
        way, holder, key = way
        steps.append(f".{_said(key)}" if isinstance(holder, dict) else f"[{key}]")
    return "".join(reversed(steps)).removeprefix(".")


def _said(key: Any) -> str:
    """A key in the name of a tensor; one of a file may be long."""
    return key[:200] if type(key) is str else shown(key)


NEWER = "save it again as PyTorch does since 1.6 (files of the older format are read as weights only)"
NEITHER = "it is neither a zip archive nor PyTorch's older format"


def _refused(error: UnpicklingError, path: str, way: str = "load(..., weights_only=False)") -> UnpicklingError:
    if str(error) == NEITHER:
        look = "torch.load_file, if it is a file of safetensors; else look what it is: it may be text, or cut off"
        return UnpicklingError(explain(f"Weights only load failed: {path}: {NEITHER}", str(here()), try_=look))
    return UnpicklingError(
        explain(
            f"Weights only load failed: {path}: {error}",
            str(here()),
            "a pickle can run any program when it is loaded; this one was read without running anything",
            f"if you trust the file: {way}, or torch.serialization.add_safe_globals([...])",
        )
    )


def _unpickled(text: bytes, blocks: Blocks, weights_only: bool) -> Any:
    if weights_only:
        return Unpickler(text, _allowed(), blocks).load()
    return Trusting(io.BytesIO(text), blocks).load()


def _public(module: str, name: str) -> tuple[str, str]:
    """Where a function is that PyTorch pickles by the module of C++ that it comes from: torch._C._nn.gelu for gelu.

    >>> _public("torch._C._special", "special_expit")
    ('torch.special', 'expit')
    """
    methods = "_VariableFunctionsClass"  # torch.relu is a method of this class
    if module == "torch._C" and name.startswith(methods):
        return "torch", name.removeprefix(methods)
    part = module.removeprefix("torch._C._")
    if part == module:
        return module, name
    return ("torch.nn.functional", name) if part == "nn" else (f"torch.{part}", name.removeprefix(f"{part}_"))


class Trusting(pickle.Unpickler):
    """Python's own unpickler, for files that are trusted: PyTorch's names lead to Pellucid."""

    def __init__(self, file: Any, blocks: Blocks) -> None:
        super().__init__(file, encoding="utf-8")
        self._blocks = blocks

    def persistent_load(self, reference: Any) -> Any:
        """A block of memory."""
        return self._blocks(reference)

    def find_class(self, module: str, name: str) -> Any:
        """A class or function by its name."""
        if module != "torch" and not module.startswith("torch."):
            return super().find_class(module, name)
        known = SAFE.get(f"{module}.{name}", TENSOR)
        if known is not TENSOR:
            return known
        module, name = _public(module, name)
        found: Any = module_for(module)
        for part in filter(None, name.split(".")):
            found = getattr(found, part)
        return found


MAGIC = 0x1950A86A20F9469CFC6C


def _load_legacy(data: bytes, path: str) -> Any:
    """The format before zip: five pickles one after the other, then the memory that they refer to; weights only."""
    blocks = Blocks(_room(len(data)))
    place, parts = 0, []
    try:
        for number in range(5):
            reader = Unpickler(data, _allowed(), blocks, place)
            parts.append(reader.load())
            place = reader.place
            if number == 0 and (type(parts[0]) is not int or parts[0] != MAGIC):
                raise UnpicklingError(NEITHER)
        _fill(blocks, parts[4], data, place)
    except UnpicklingError as error:
        named = data[:1] == b"\x80" or "not allowed" in str(error)  # else it is no pickle, which a text may look like
        raise _refused(error if named else UnpicklingError(NEITHER), path, NEWER) from None
    return parts[3]


def _room(most: int) -> Callable[[str, int], bytes]:
    """What gives memory to fill later: all together no more than the file has bytes."""
    left = most

    def room(key: str, size: int) -> bytes:
        nonlocal left
        left -= size
        if left < 0:
            raise UnpicklingError(f"more memory is announced than the file has bytes, {most:,}")
        return bytes(size)

    return room


def _fill(blocks: Blocks, keys: Any, data: bytes, place: int) -> None:
    """Read the memory behind the pickles: for every block its number of elements, then its bytes."""
    for key in keys if type(keys) is list else [keys]:
        if type(key) is not str or key not in blocks.seen:
            raise UnpicklingError(f"memory {shown(key)} belongs to no tensor")
        array = blocks.seen[key].array
        count, start = int.from_bytes(data[place : place + 8], "little"), place + 8
        place = start + array.nbytes
        if count != array.size or place > len(data):
            raise UnpicklingError(f"memory {shown(key)} is cut off")
        fill(array, memoryview(data)[start:place])
        truthful(array)


# --- names that weights may use


def add_safe_globals(safe_globals: Iterable[Any]) -> None:
    """Let files of weights use these classes and functions too.

    >>> import pellucid as torch
    >>> from fractions import Fraction
    >>> torch.serialization.add_safe_globals([Fraction])
    >>> torch.serialization.get_safe_globals()
    [<class 'fractions.Fraction'>]
    >>> torch.serialization.clear_safe_globals()
    """
    EXTRA.set({**EXTRA.get(), **{_path(each): each for each in safe_globals}})


def get_safe_globals() -> list[Any]:
    """The classes and functions that were added.

    >>> import pellucid as torch
    >>> torch.serialization.get_safe_globals()
    []
    """
    return list(EXTRA.get().values())


def clear_safe_globals() -> None:
    """Forget the classes and functions that were added.

    >>> import pellucid as torch
    >>> from fractions import Fraction
    >>> torch.serialization.add_safe_globals([Fraction])
    >>> torch.serialization.clear_safe_globals()
    >>> torch.serialization.get_safe_globals()
    []
    """
    EXTRA.set({})


@contextmanager
def safe_globals(safe_globals: Iterable[Any]) -> Iterator[None]:
    """Let files of weights use these classes and functions inside a block.

    >>> import pellucid as torch
    >>> import io
    >>> from fractions import Fraction
    >>> file = io.BytesIO()
    >>> torch.save({"ratio": Fraction(2, 3)}, file)
    >>> with torch.serialization.safe_globals([Fraction]):
    ...     _ = file.seek(0)
    ...     print(torch.load(file))
    {'ratio': Fraction(2, 3)}
    """
    before = EXTRA.get()
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        EXTRA.set(before)


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """The names in a file that weights may not use: what `add_safe_globals` would be asked for. Nothing is executed.

    >>> import pellucid as torch
    >>> import io
    >>> from fractions import Fraction
    >>> file = io.BytesIO()
    >>> torch.save([torch.ones(1), Fraction(2, 3)], file)
    >>> _ = file.seek(0)
    >>> torch.serialization.get_unsafe_globals_in_checkpoint(file)
    ['fractions.Fraction']
    """
    text = Reader(*read_file(f)).read("data.pkl")
    strings: tuple[str, ...] = ()  # STACK_GLOBAL, of newer protocols, takes the last two
    named: set[tuple[str, ...]] = set()  # module and name: put together once, for a file may name them very often
    try:
        for operation, argument, _ in pickletools.genops(text):
            if operation.name == "GLOBAL":
                named.add((str(argument).replace(" ", "."),))
            elif operation.name == "STACK_GLOBAL":
                named.add(strings)
            elif isinstance(argument, str):
                strings = (*strings[-1:], argument)
    except Exception as error:  # whatever nonsense leads to, it is the file's fault
        raise UnpicklingError(f"the pickle is damaged: {brief(error)}") from None
    return sorted(set(map(".".join, named)) - _allowed().keys())


def _allowed() -> dict[str, Any]:
    """What weights may use now, by the name in the file: what was added as (class, name) goes by that name.

    Our way to make a thing goes before the class that was added: it looks at what the thing is made of.
    """
    return {path: each[0] if isinstance(each, tuple) else each for path, each in EXTRA.get().items()} | SAFE


def _path(each: Any) -> str:
    if isinstance(each, tuple):
        return str(each[1])
    return f"{home(each)}.{each.__qualname__}"


# --- settings: what to read where a file does not say it; sums are always written


class SourceChangeWarning(Warning):
    """What PyTorch warns of when a class has changed since its object was saved; here to be named in filters.

    >>> import warnings
    >>> warnings.filterwarnings("ignore", category=SourceChangeWarning)
    """


class LoadEndianness(Enum):
    """The order of bytes of files that do not say theirs.

    >>> LoadEndianness.LITTLE.name
    'LITTLE'
    """

    NATIVE = 1
    LITTLE = 2
    BIG = 3


_SETTINGS: dict[str, Any] = {"endianness": None, "crc32": True}


def set_default_load_endianness(endianness: Any) -> None:
    """Set the order of bytes of files that do not say theirs.

    >>> import pellucid as torch
    >>> torch.serialization.set_default_load_endianness(torch.serialization.LoadEndianness.LITTLE)
    >>> torch.serialization.get_default_load_endianness()
    <LoadEndianness.LITTLE: 2>
    >>> torch.serialization.set_default_load_endianness(None)
    """
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _SETTINGS["endianness"] = endianness


def get_default_load_endianness() -> LoadEndianness | None:
    """The order of bytes that was set, if one was.

    >>> get_default_load_endianness() is None
    True
    """
    return _SETTINGS["endianness"]  # type: ignore[no-any-return]


def set_crc32_options(compute_crc32: bool) -> None:
    """Remembered; sums are written all the same.

    >>> set_crc32_options(True)
    >>> get_crc32_options()
    True
    """
    _SETTINGS["crc32"] = compute_crc32


def get_crc32_options() -> bool:
    """Whether sums were asked for.

    >>> get_crc32_options()
    True
    """
    return bool(_SETTINGS["crc32"])
