"""Reading a pickle without executing it: a small machine that knows the instructions data are made of, and no others.

A global is only ever looked up in a list of names that are known to be harmless; anything else is refused by its name.
Every length is checked against what is there, every index against what was stored.

Reading n bytes takes time and memory in proportion to n, whatever they say. An instruction does work of its own length;
what it can do beyond that (a list that is brought back by two bytes and copied into a set) is paid out of an allowance
of so much per byte. A few bytes can also describe a value that is endless to look at (a tuple that holds the one before
it twice, sixty times): it is neither hashed nor shown. And keys may be made to be alike: see `Keys`.
"""

import pickle
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from time import thread_time
from typing import Any

from pellucid.errors import a_kind
from pellucid.serialization.archive import DamagedFileError

MARK, STOP = object(), ord(".")
BYTE, SHORT, INT, WORD, LONG = map(struct.Struct, ("<B", "<H", "<i", "<I", "<Q"))
LIMIT = 10_000_000  # instructions, and things on the stack
MOST_IN_KEY = 100  # parts of a tuple that is a key, and of tuples in it
PER_BYTE = 10  # steps of work beyond the instructions themselves: a part of a key is one,
PER_COPY = 5  # and a thing that is copied into another container so many
MOST_ARGUMENTS = 8  # of what is called with a tuple of arguments for another call
LETTERS = 4096  # of text that are compared in the time of one step
LONGEST_NAME = 200  # letters of an attribute's
AT_ONCE = 64  # keys that are timed together
SPARE, SECONDS_PER_BYTE = 0.1, 1e-6  # of the processor, that keys may take


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


def brief(error: Exception) -> str:
    """An error as a message may tell it; what it would show as well may be all of the file.

    >>> try:
    ...     (b"\\xff" * 1_000_000).decode()
    ... except UnicodeDecodeError as error:
    ...     print(brief(error))
    UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte
    """
    return f"{type(error).__name__}: {str(error)[:200]}"


def _shown_part(value: Any) -> str:
    if type(value) in (bool, float, type(None)) or (type(value) is int and value.bit_length() <= 64):
        return repr(value)
    return repr(value[:80]) if type(value) is str else a_kind(value)


def plain_attributes(state: Any, owner: Any = None) -> dict[str, Any]:
    """The attributes that a file gives an object: names as Python programs write them, and none that is special.

    NumPy, ctypes, IPython and many others believe what an object says under names like `__array_interface__` or
    `_as_parameter_`: an address, in these two. What the owner's class has is left out: a file hides none of it.

    >>> plain_attributes({"note": "mine"})
    {'note': 'mine'}
    >>> plain_attributes({"__array_interface__": {}})
    Traceback (most recent call last):
    pellucid.serialization.unpickling.UnpicklingError: '__array_interface__' may not be an attribute from a file
    """
    if type(state) not in (dict, OrderedDict):
        raise UnpicklingError(f"the attributes of an object are {shown(state)}")
    for name in state:
        if _is_special(name) or len(name) > LONGEST_NAME or not name.isidentifier():
            raise UnpicklingError(f"{shown(name)} may not be an attribute from a file")
    return {name: value for name, value in state.items() if owner is None or not hasattr(owner, name)}


def _is_special(name: Any) -> bool:
    return type(name) is not str or name[:1] == name[-1:] == "_"


@dataclass(frozen=True)
class Container:
    """A class of the list that is filled with keys: called with the machine, which looks at them first."""

    make: Callable[..., Any]


class Keys:
    """Puts keys into dictionaries and sets, as long as that takes no longer than it should.

    The hashes of numbers and tuples are no secret. A file may choose keys that all have one, or whose hashes differ and
    lead past each other all the same: then each is compared with all before it, or looks for a place behind them. So
    what is not text goes in by groups whose time is taken: the processor's, not the clock's, and of nothing else. An
    honest key has two bytes or more and takes 0.3 µs, however many there are; what is left over is for slow machines.
    """

    def __init__(self, charge: Callable[[int], None], size: int) -> None:
        self.charge = charge
        self.left = SPARE + SECONDS_PER_BYTE * size

    def put(self, target: Any, names: list[Any], values: list[Any] | None = None) -> None:
        """Put names, and values if it is a dictionary, into a container."""
        filler = _filler(target)
        update, text = partial(filler, target), set(map(type, names)) <= {str, bytes}
        if not text:
            for name in names:
                self._check(name)
        elif max(map(len, names), default=0) > LETTERS:
            self.charge(sum(map(len, names)) // LETTERS)
        if text or filler is _one_by_one:
            update(names if values is None else zip(names, values, strict=True))
            return
        for start in range(0, len(names), AT_ONCE):
            group = names[start : start + AT_ONCE]
            given = group if values is None else zip(group, values[start : start + AT_ONCE], strict=True)
            self._timed(update, given)

    def _check(self, name: Any) -> None:
        """Refuse a key whose hash takes long to compute, or that takes long to compare with one of the same hash."""
        parts = [name]
        for part in parts:
            if isinstance(part, tuple):
                parts.extend(islice(part, MOST_IN_KEY + 1))
            elif isinstance(part, (str, bytes)):
                self.charge(len(part) // LETTERS)
            elif isinstance(part, frozenset) or (isinstance(part, int) and part.bit_length() > 64):
                raise UnpicklingError(
                    f"{shown(part)} may not be in a key: text, tuples and numbers of up to 64 bits may"
                )
            if len(parts) > 1 + MOST_IN_KEY:
                raise UnpicklingError(f"a key has more than {MOST_IN_KEY} parts")
        self.charge(len(parts))

    def _timed(self, update: Callable[[Any], None], given: Any) -> None:
        """Fill in a group; between the two looks at the clock nothing is made that garbage is collected for."""
        began = thread_time()
        update(given)
        self.left -= thread_time() - began
        if self.left < 0:
            raise UnpicklingError("its keys were chosen so that their hashes collide: they take long to tell apart")


def _filler(target: Any) -> Callable[[Any, Any], None]:
    """What fills a container, all at once where it can be."""
    if isinstance(target, set):
        return set.update
    plain: Any = OrderedDict if isinstance(target, OrderedDict) else dict
    return plain.update if type(target).__setitem__ is plain.__setitem__ else _one_by_one  # type: ignore[no-any-return]


def _one_by_one(target: Any, pairs: Any) -> None:
    """Fill a dictionary of a class that has its own way to do it."""
    for name, value in pairs:
        target[name] = value


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
        self.memo: list[Any] = []  # by number; a dictionary could be given numbers that are slow to find in it
        self.harmless = set(map(id, allowed.values()))
        self.left = PER_BYTE * len(data)
        self.keys = Keys(self.charge, len(data))
        self.made: dict[int, Any] = {}  # objects of the user's classes, by their id

    def charge(self, steps: int) -> None:
        """Pay for work that is not in proportion to the instruction that asks for it."""
        self.left -= steps
        if self.left < 0:
            raise UnpicklingError(f"the pickle asks for more work than {len(self.data):,} bytes are worth")

    def load(self) -> Any:
        """The object that the pickle describes."""
        try:
            data, size = self.data, len(self.data)
            for _ in range(LIMIT):
                if self.place >= size:
                    raise UnpicklingError(f"the pickle ends early, at byte {size}")
                code = data[self.place]
                self.place += 1
                if code == STOP:
                    self._look_over()
                    return self.pop()
                action = ACTIONS.get(code)
                if action is None:
                    raise UnpicklingError(f"instruction {bytes([code])!r} at byte {self.place - 1} is not allowed")
                action(self)
        except (UnpicklingError, DamagedFileError):
            raise
        except Exception as error:  # whatever nonsense leads to, it is the file's fault
            raise UnpicklingError(f"the pickle is damaged at byte {self.place}: {brief(error)}") from None
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

    def number(self, form: struct.Struct) -> int:
        """The next whole number."""
        start = self.place
        self.place = start + form.size
        if self.place > len(self.data):
            raise UnpicklingError(f"the pickle ends early: a number is cut off at byte {start}")
        return form.unpack_from(self.data, start)[0]  # type: ignore[no-any-return]

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
        """Remember what is on top of the stack. Picklers count from 0 or 1, so no number is beyond the bytes."""
        memo, value = self.memo, self.stack[-1]
        if index == len(memo) < LIMIT:
            memo.append(value)
            return
        if not 0 <= index < min(LIMIT, len(self.data)):
            raise UnpicklingError("the pickle remembers without end")
        memo.extend([MARK] * (index + 1 - len(memo)))
        memo[index] = value

    def get(self, index: int) -> None:
        """Bring back what was remembered."""
        memo = self.memo
        if not 0 <= index < len(memo) or memo[index] is MARK:
            raise UnpicklingError(f"the pickle asks for memo {shown(index)}, which it never stored")
        self.push(memo[index])

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
        self.charge_for(arguments)
        if getattr(function, "__module__", "") in ("builtins", "collections"):  # the user's; they walk through anything
            odd = [each for each in arguments if type(each) not in WALKABLE and not isinstance(each, type)]
            if odd or (function is bytes and int in map(type, arguments)):
                raise UnpicklingError(f"the pickle makes a {function.__name__} of {shown(arguments)}")
        if type(function) is Container:
            self.push(function.make(self, *arguments))
        elif isinstance(function, type):
            self.push(self._users(function(*arguments)))
        else:
            self.push(function(*arguments))

    def charge_for(self, arguments: Any) -> None:
        """Pay for what a call may copy: its arguments, and what they hold; a tuple may be those of a call inside."""
        if type(arguments) is not tuple:
            raise UnpicklingError(f"the pickle calls something with {shown(arguments)}")
        self.charge(PER_COPY * len(arguments))
        inner = [part for each in arguments if type(each) is tuple and len(each) <= MOST_ARGUMENTS for part in each]
        for each in (*arguments, *inner):
            kind = type(each)
            if kind in CONTAINERS:
                self.charge(PER_COPY * len(each))
            elif kind in (str, bytes, bytearray):
                self.charge(len(each))

    def build(self) -> None:
        """BUILD: give an object its state; only dictionaries may have one, and objects of classes of the list."""
        state, target = self.pop(), self.stack[-1]
        self.charge_for((state, *state) if type(state) is tuple else (state,))
        if type(target) is OrderedDict:
            target.__dict__.update(plain_attributes(state, OrderedDict))
        elif self.is_allowed(type(target)):
            _set_state(self._users(target), state)
        else:
            raise UnpicklingError(f"the pickle sets the state of {a_kind(target)}, which is not allowed")

    def make(self) -> None:
        """NEWOBJ: an instance of a class of the list."""
        arguments, kind = self.pop(), self.pop()
        if not isinstance(kind, type) or not self.is_allowed(kind):
            raise UnpicklingError(f"the pickle makes {shown(kind)}, which is not on the list")
        self.charge_for(arguments)
        self.push(self._users(kind.__new__(kind, *arguments)))

    def _users(self, value: Any) -> Any:
        """Remember an object of a class that the user has allowed."""
        self.made[id(value)] = value
        return value

    def _look_over(self) -> None:
        """Such a class may take its attributes out of anything: when all is filled, none of them is special."""
        for each in self.made.values():
            for name in getattr(each, "__dict__", ()):
                if _is_special(name):
                    raise UnpicklingError(f"{shown(name)} may not be an attribute from a file")

    def is_allowed(self, value: Any) -> bool:
        """Tell whether something is on the list."""
        return id(value) in self.harmless

    def persistent_load(self) -> None:
        """BINPERSID: a tensor's memory, by its name in the archive."""
        if self.persistent is None:
            raise UnpicklingError("the pickle refers to an archive that is not there")
        self.push(self.persistent(self.pop()))

    def set_items(self, pairs: list[Any]) -> None:
        """SETITEMS: into a dictionary only."""
        target = self.stack[-1]
        if not isinstance(target, dict):
            raise UnpicklingError(f"the pickle sets items of {a_kind(target)}")
        names, values = pairs[::2], pairs[1::2]
        if len(names) != len(values):
            raise UnpicklingError("the last key has no value")
        self.keys.put(target, names, values)

    def append(self, values: list[Any]) -> None:
        """APPENDS: to a list only."""
        target = self.stack[-1]
        if not isinstance(target, list):
            raise UnpicklingError(f"the pickle appends to {a_kind(target)}")
        target.extend(values)

    def add_to_set(self) -> None:
        """ADDITEMS: to a set only."""
        values = self.pop_to_mark()
        target = self.stack[-1]
        if not isinstance(target, set):
            raise UnpicklingError(f"the pickle adds to {a_kind(target)}")
        self.keys.put(target, values)


def _set_state(target: Any, state: Any) -> None:
    """What Python's own unpickler does for an object whose class is trusted; the names of its attributes are not."""
    attributes, slots = state if type(state) is tuple and len(state) == 2 else (state, None)
    for each in (attributes, slots):
        if type(each) in (dict, OrderedDict):
            plain_attributes(each)
    if hasattr(target, "__setstate__"):
        target.__setstate__(state)
        return
    if attributes:
        target.__dict__.update(plain_attributes(attributes))
    for name, value in plain_attributes(slots or {}).items():
        setattr(target, name, value)


# --- containers of the list

CONTAINERS = (list, tuple, dict, set, frozenset, OrderedDict)
WALKABLE = (*CONTAINERS, str, bytes, bytearray, bool, int, float, complex, type(None))


def _listed(values: Any) -> list[Any]:
    """The members of a list, as pickles write it. A tensor would be walked through, and it may seem endless."""
    if type(values) not in (list, tuple, set, frozenset):
        raise UnpicklingError(f"{shown(values)} stands where a list should")
    return list(values)


def set_of(machine: Unpickler, values: Any = ()) -> set[Any]:
    """A set of a list."""
    made: set[Any] = set()
    machine.keys.put(made, _listed(values))
    return made


def frozenset_of(machine: Unpickler, values: Any = ()) -> frozenset[Any]:
    """A frozenset of a list."""
    return frozenset(set_of(machine, values))


def dictionary_of(machine: Unpickler, names: list[Any], values: list[Any], made: Any) -> Any:
    """A dictionary of keys and values."""
    if len(names) != len(values):
        raise UnpicklingError("the last key has no value")
    machine.keys.put(made, names, values)
    return made


def counter_of(machine: Unpickler, values: Any = None) -> Counter[Any]:
    """A Counter of a dictionary."""
    if values is not None and type(values) is not dict:
        raise UnpicklingError(f"things are counted in {shown(values)}")
    return Counter(dictionary_of(machine, list(values or ()), list((values or {}).values()), {}))


def ordered_of(machine: Unpickler, pairs: Any = ()) -> OrderedDict[Any, Any]:
    """An OrderedDict of a list of pairs."""
    listed = _listed(pairs)
    if not all(type(pair) in (tuple, list) and len(pair) == 2 for pair in listed):
        raise UnpicklingError(f"{shown(pairs)} stands where a list of pairs should")
    return dictionary_of(machine, [name for name, _ in listed], [value for _, value in listed], OrderedDict())


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
    machine.push(frozenset_of(machine, machine.pop_to_mark()))


def _dictionary(machine: Unpickler) -> None:
    values = machine.pop_to_mark()
    machine.push(dictionary_of(machine, values[::2], values[1::2], {}))


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
        "K": lambda m: m.push(m.number(BYTE)),
        "M": lambda m: m.push(m.number(SHORT)),
        "J": lambda m: m.push(m.number(INT)),
        "I": _whole_number,
        "L": lambda m: m.push(int(m.line().rstrip("L"))),
        "\x8a": lambda m: _long(m, m.number(BYTE)),
        "\x8b": lambda m: _long(m, m.number(INT)),
        "G": lambda m: m.push(struct.unpack(">d", m.take(8))[0]),
        "F": lambda m: m.push(float(m.line())),
        "X": lambda m: _text(m, m.number(WORD)),
        "\x8c": lambda m: _text(m, m.number(BYTE)),
        "\x8d": lambda m: _text(m, m.number(LONG)),
        "V": lambda m: m.push(m.line()),
        "U": lambda m: m.push(m.take(m.number(BYTE)).decode("latin-1")),
        "T": lambda m: m.push(m.take(m.number(INT)).decode("latin-1")),
        "C": lambda m: m.push(m.take(m.number(BYTE))),
        "B": lambda m: m.push(m.take(m.number(WORD))),
        "\x8e": lambda m: m.push(m.take(m.number(LONG))),
        "\x96": lambda m: m.push(bytearray(m.take(m.number(LONG)))),
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
        "q": lambda m: m.put(m.number(BYTE)),
        "r": lambda m: m.put(m.number(WORD)),
        "\x94": lambda m: m.put(len(m.memo)),
        "h": lambda m: m.get(m.number(BYTE)),
        "j": lambda m: m.get(m.number(WORD)),
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
