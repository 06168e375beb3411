"""Reading a pickle without executing it: a small machine that knows the instructions data are made of, and no others.

A global is only ever looked up in a list of names that are known to be harmless; anything else is refused by its name.
Every length is checked against what is there, every index against what was stored. A few bytes can describe a value
that is endless to look at (a tuple that holds the one before it twice, sixty times): it is neither hashed nor shown.
"""

import pickle
import struct
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from pellucid.serialization.archive import DamagedFileError

MARK = object()
LIMIT = 10_000_000  # instructions, and things on the stack
MOST_IN_KEY = 1_000  # things inside of a tuple that is a key


class UnpicklingError(pickle.UnpicklingError, RuntimeError):
    """A pickle that is damaged, or that asks for something it may not have.

    >>> import pellucid as torch
    >>> import io, os
    >>> file = io.BytesIO()
    >>> torch.save(os.getcwd, file)  # a function, which a file of weights may not call
    >>> _ = file.seek(0)
    >>> try:
    ...     torch.load(file)
    ... except torch.serialization.UnpicklingError as error:
    ...     print(str(error).splitlines()[0])
    Weights only load failed: <file>: posix.getcwd is not allowed in a file of weights
    """


def shown(value: Any) -> str:
    """A value of a file as a message may show it: short, and without looking inside of what it holds.

    >>> shown(("storage", [1, 2], "\\x1b[2J"))
    "('storage', a list, '\\\\x1b[2J')"
    """
    if type(value) is tuple:
        return f"({', '.join(map(_shown_part, value[:8]))})"
    return _shown_part(value)


def _shown_part(value: Any) -> str:
    if type(value) in (bool, float, type(None)) or (type(value) is int and value.bit_length() <= 64):
        return repr(value)
    return repr(value[:80]) if type(value) is str else f"a {type(value).__name__}"


def key(value: Any) -> Any:
    """A key for a dictionary or a set; one whose hash takes long to compute, or is made to be like others, is none."""
    if type(value) is str:
        return value
    waiting, size = [value], 0
    while waiting:
        part = waiting.pop()
        if isinstance(part, tuple):
            size += 1 + len(part)
            waiting.extend(part[:MOST_IN_KEY])
        if size > MOST_IN_KEY or (isinstance(part, int) and part.bit_length() > 64):
            raise UnpicklingError("a key is too large")
    return value


class Unpickler:
    """Runs one pickle.

    >>> import pickle
    >>> Unpickler(pickle.dumps({"a": [1, (2.5, None)]}, 2), {}).load()
    {'a': [1, (2.5, None)]}
    >>> Unpickler(b"cos\\nsystem\\n.", {}).load()
    Traceback (most recent call last):
    pellucid.serialization.unpickling.UnpicklingError: os.system is not allowed in a file of weights
    """

    def __init__(
        self, data: bytes, allowed: dict[str, Any], persistent: Callable[[Any], Any] | None = None, start: int = 0
    ) -> None:
        self.data, self.place, self.allowed, self.persistent = data, start, allowed, persistent
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def load(self) -> Any:
        """The object that the pickle describes."""
        try:
            for _ in range(LIMIT):
                code = self.take(1)[0]
                if code == ord("."):
                    return self.pop()
                action = ACTIONS.get(code)
                if action is None:
                    raise UnpicklingError(f"instruction {bytes([code])!r} at byte {self.place - 1} is not allowed")
                action(self)
        except (UnpicklingError, DamagedFileError):
            raise
        except Exception as error:  # whatever nonsense leads to, it is the file's fault
            raise UnpicklingError(f"the pickle is damaged at byte {self.place}: {repr(error)[:200]}") from None
        raise UnpicklingError(f"the pickle has more than {LIMIT:,} instructions")

    # --- reading

    def take(self, count: int) -> bytes:
        """The next bytes; there must be so many."""
        end = self.place + count
        if count < 0 or end > len(self.data):
            raise UnpicklingError(
                f"the pickle ends early: {count} bytes wanted at byte {self.place} of {len(self.data)}"
            )
        taken = self.data[self.place : end]
        self.place = end
        return taken

    def number(self, form: str) -> int:
        """The next whole number."""
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def line(self) -> str:
        """The text up to the end of the line."""
        end = self.data.find(b"\n", self.place)
        if end < 0:
            raise UnpicklingError("the pickle ends in the middle of a line")
        return self.take(end + 1 - self.place)[:-1].decode("utf-8")

    # --- the stack

    def push(self, value: Any) -> None:
        """Put a value on the stack."""
        self.stack.append(value)
        if len(self.stack) > LIMIT:
            raise UnpicklingError("the pickle's stack grows without end")

    def pop(self) -> Any:
        """Take a value off the stack."""
        if not self.stack or self.stack[-1] is MARK:
            raise UnpicklingError(f"the pickle takes from an empty stack at byte {self.place}")
        return self.stack.pop()

    def pop_to_mark(self) -> list[Any]:
        """Take everything off the stack down to the last mark."""
        for i in range(len(self.stack) - 1, -1, -1):
            if self.stack[i] is MARK:
                values = self.stack[i + 1 :]
                del self.stack[i:]
                return values
        raise UnpicklingError(f"the pickle misses a mark at byte {self.place}")

    def put(self, index: int) -> None:
        """Remember what is on top of the stack."""
        if len(self.memo) > LIMIT:
            raise UnpicklingError("the pickle remembers without end")
        self.memo[index] = self.stack[-1]

    def get(self, index: int) -> None:
        """Bring back what was remembered."""
        if index not in self.memo:
            raise UnpicklingError(f"the pickle asks for memo {index}, which it never stored")
        self.push(self.memo[index])

    # --- objects

    def look_up(self, module: str, name: str) -> None:
        """A global, if it is on the list."""
        path = f"{module}.{name}"
        if path not in self.allowed:
            named = path if path.isprintable() else repr(path)
            raise UnpicklingError(f"{named[:200]} is not allowed in a file of weights")
        self.push(self.allowed[path])

    def call(self) -> None:
        """REDUCE: call a global of the list with arguments."""
        arguments, function = self.pop(), self.pop()
        if not isinstance(arguments, tuple) or not self.is_allowed(function):
            raise UnpicklingError(f"the pickle calls {shown(function)}, which is not on the list")
        self.push(function(*arguments))

    def build(self) -> None:
        """BUILD: give an object its state; only dictionaries may have one, and objects of classes of the list."""
        state, target = self.pop(), self.stack[-1]
        if isinstance(target, OrderedDict) and isinstance(state, dict):
            target.__dict__.update(state)
        elif self.is_allowed(type(target)):
            _set_state(target, state)
        else:
            raise UnpicklingError(f"the pickle sets the state of a {type(target).__name__}, which is not allowed")

    def make(self) -> None:
        """NEWOBJ: an instance of a class of the list."""
        arguments, kind = self.pop(), self.pop()
        if not isinstance(kind, type) or not self.is_allowed(kind):
            raise UnpicklingError(f"the pickle makes {shown(kind)}, which is not on the list")
        self.push(kind.__new__(kind, *arguments))

    def is_allowed(self, value: Any) -> bool:
        """Tell whether something is on the list."""
        return any(value is each for each in self.allowed.values())

    def persistent_load(self) -> None:
        """BINPERSID: a tensor's memory, by its name in the archive."""
        if self.persistent is None:
            raise UnpicklingError("the pickle refers to an archive that is not there")
        self.push(self.persistent(self.pop()))

    def set_items(self, pairs: list[Any]) -> None:
        """SETITEMS: into a dictionary only."""
        target = self.stack[-1]
        if not isinstance(target, dict):
            raise UnpicklingError(f"the pickle sets items of a {type(target).__name__}")
        for name, value in zip(pairs[::2], pairs[1::2], strict=True):
            target[key(name)] = value

    def append(self, values: list[Any]) -> None:
        """APPENDS: to a list only."""
        target = self.stack[-1]
        if not isinstance(target, list):
            raise UnpicklingError(f"the pickle appends to a {type(target).__name__}")
        target.extend(values)

    def add_to_set(self) -> None:
        """ADDITEMS: to a set only."""
        values = self.pop_to_mark()
        target = self.stack[-1]
        if not isinstance(target, set):
            raise UnpicklingError(f"the pickle adds to a {type(target).__name__}")
        target.update(map(key, values))


def _set_state(target: Any, state: Any) -> None:
    """What Python's own unpickler does for an object whose class is trusted."""
    if hasattr(target, "__setstate__"):
        target.__setstate__(state)
        return
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    if attributes:
        target.__dict__.update(attributes)
    for name, value in (slots or {}).items():
        setattr(target, name, value)


def _skip_protocol(machine: Unpickler) -> None:
    version = machine.take(1)[0]
    if version > 5:
        raise UnpicklingError(f"pickle protocol {version} is not known")


def _stack_global(machine: Unpickler) -> None:
    name, module = machine.pop(), machine.pop()
    if not isinstance(name, str) or not isinstance(module, str):
        raise UnpicklingError("the pickle names a global by something that is not text")
    machine.look_up(module, name)


def _text(machine: Unpickler, size: int) -> None:
    machine.push(machine.take(size).decode("utf-8", "surrogatepass"))


def _whole_number(machine: Unpickler) -> None:
    text = machine.line()
    machine.push({"00": False, "01": True}[text] if text in ("00", "01") else int(text))


def _tuple(machine: Unpickler, count: int) -> None:
    values = [machine.pop() for _ in range(count)]
    machine.push(tuple(reversed(values)))


def _long(machine: Unpickler, size: int) -> None:
    machine.push(int.from_bytes(machine.take(size), "little", signed=True))


def _duplicate(machine: Unpickler) -> None:
    machine.push(machine.stack[-1])


def _frozen(machine: Unpickler) -> None:
    machine.push(frozenset(map(key, machine.pop_to_mark())))


def _dictionary(machine: Unpickler) -> None:
    values = machine.pop_to_mark()
    machine.push(dict(zip(map(key, values[::2]), values[1::2], strict=True)))


def _pair(machine: Unpickler) -> None:
    value, name = machine.pop(), machine.pop()
    machine.set_items([name, value])


ACTIONS: dict[int, Callable[[Unpickler], Any]] = {
    ord(code): action
    for code, action in {
        "\x80": _skip_protocol,
        "\x95": lambda m: m.take(8),  # a frame: its length is of no use here
        "(": lambda m: m.push(MARK),
        "0": lambda m: m.pop(),
        "1": lambda m: m.pop_to_mark(),
        "2": _duplicate,
        "N": lambda m: m.push(None),
        "\x88": lambda m: m.push(True),
        "\x89": lambda m: m.push(False),
        "K": lambda m: m.push(m.number("<B")),
        "M": lambda m: m.push(m.number("<H")),
        "J": lambda m: m.push(m.number("<i")),
        "I": _whole_number,
        "L": lambda m: m.push(int(m.line().rstrip("L"))),
        "\x8a": lambda m: _long(m, m.number("<B")),
        "\x8b": lambda m: _long(m, m.number("<i")),
        "G": lambda m: m.push(struct.unpack(">d", m.take(8))[0]),
        "F": lambda m: m.push(float(m.line())),
        "X": lambda m: _text(m, m.number("<I")),
        "\x8c": lambda m: _text(m, m.number("<B")),
        "\x8d": lambda m: _text(m, m.number("<Q")),
        "V": lambda m: m.push(m.line()),
        "U": lambda m: m.push(m.take(m.number("<B")).decode("latin-1")),
        "T": lambda m: m.push(m.take(m.number("<i")).decode("latin-1")),
        "C": lambda m: m.push(m.take(m.number("<B"))),
        "B": lambda m: m.push(m.take(m.number("<I"))),
        "\x8e": lambda m: m.push(m.take(m.number("<Q"))),
        "]": lambda m: m.push([]),
        "l": lambda m: m.push(m.pop_to_mark()),
        "a": lambda m: m.append([m.pop()]),
        "e": lambda m: m.append(m.pop_to_mark()),
        ")": lambda m: m.push(()),
        "t": lambda m: m.push(tuple(m.pop_to_mark())),
        "\x85": lambda m: _tuple(m, 1),
        "\x86": lambda m: _tuple(m, 2),
        "\x87": lambda m: _tuple(m, 3),
        "}": lambda m: m.push({}),
        "d": _dictionary,
        "s": _pair,
        "u": lambda m: m.set_items(m.pop_to_mark()),
        "\x8f": lambda m: m.push(set()),
        "\x90": lambda m: m.add_to_set(),
        "\x91": _frozen,
        "q": lambda m: m.put(m.number("<B")),
        "r": lambda m: m.put(m.number("<I")),
        "\x94": lambda m: m.put(len(m.memo)),
        "h": lambda m: m.get(m.number("<B")),
        "j": lambda m: m.get(m.number("<I")),
        "p": lambda m: m.put(int(m.line())),
        "g": lambda m: m.get(int(m.line())),
        "c": lambda m: m.look_up(m.line(), m.line()),
        "\x93": _stack_global,
        "R": lambda m: m.call(),
        "\x81": lambda m: m.make(),
        "b": lambda m: m.build(),
        "Q": lambda m: m.persistent_load(),
    }.items()
}
