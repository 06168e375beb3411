"""Small files that ask for much: families of them by size, and a child process that reads them within limits.

`python tests/hostile_files.py NAME...` reads those and prints, for each, what came out, the seconds of the processor,
the longest time in which Ctrl-C would not have been answered, and the megabytes; the tests look at these figures.
"""

import io
import json
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import pellucid
from pellucid.serialization import DamagedFileError, UnpicklingError
from pellucid.serialization import safetensors as st
from test_reader_fuzz import archive, call, legacy, memory, number, tensor, text_of, tuple_of

# What n bytes may cost. A byte of honest pickles takes up to 1 µs and 100 bytes (a list of empty dictionaries).
SECONDS, SECONDS_PER_BYTE = 1.0, 4e-6
MEGABYTES, BYTES_PER_BYTE = 60, 300
DEAF = 0.5  # seconds of the processor; 0.2 are promised
HARD_MEMORY, HARD_SECONDS = 2 << 30, 5

BLOCK = {"data/0": b"\0" * 48}
ENDLESS = tensor((2**40,), (0,))


def times(count: int, *words: bytes) -> bytes:
    return b"".join(words) * count


def listed(count: int) -> bytes:
    """A list of small numbers."""
    return b"](" + b"".join(b"M" + struct.pack("<H", i % 65_536) for i in range(count)) + b"e"


def state_of(count: int) -> bytes:
    """A dictionary of attributes."""
    return b"}(" + b"".join(text_of(f"a{i}") + b"N" for i in range(count)) + b"u"


def remembered(value: bytes, slot: int) -> bytes:
    """Store a value under a number and take it off the stack."""
    return value + b"q" + bytes([slot]) + b"0"


def again(*slots: int) -> bytes:
    return b"".join(b"h" + bytes([slot]) for slot in slots)


def function(name: str) -> bytes:
    module, _, last = name.rpartition(".")
    return f"c{module}\n{last}\n".encode()


def copies(name: str, value: bytes, times_: int, *more: bytes) -> bytes:
    """A long value, and many calls with it by its number."""
    arguments = tuple_of(again(1), *more)
    head = remembered(value, 1) + remembered(function(name), 2) + remembered(arguments, 3)
    return head + b"](" + times(times_, again(2, 3), b"R") + b"e"


def whole_tensor(state: bytes, kind: str = "torch.Tensor") -> bytes:
    arguments = tuple_of(memory(), number(0), tuple_of(number(2)), tuple_of(number(1)), b"\x89", b"}")
    rebuild = function("torch._utils._rebuild_tensor_v2")
    return call("torch._tensor._rebuild_from_type_v2", rebuild, function(kind), arguments, state)


def frozen_twice(depth: int) -> bytes:
    """Two equal frozensets of a tuple of two frozensets of ...: equal ones are compared by all that is in them."""
    sides = []
    for start in (1, 2):
        side = b"(K\x07\x91" + b"q" + bytes([start])
        for level in range(depth):
            side += b"0(" + again(start) + b"(" + again(start) + b"N\x91" + b"\x86" + number(level) + b"\x91q"
            side += bytes([start])
        sides.append(side + b"0")
    return b"".join(sides) + b"}(" + again(1) + b"N" + again(2) + b"Nu"


def frozen_nested(depth: int) -> bytes:
    """{f: None, g: None} for two equal towers of frozensets that hold the one below and a tuple of it."""
    towers = b""
    for start in (1, 2):
        towers += b"(K\x07\x91q" + bytes([start]) + b"0"
        for _ in range(depth):
            towers += b"(" + again(start) + again(start) + b"\x85\x91q" + bytes([start]) + b"0"
    return towers + b"\x8f(" + again(1, 2) + b"\x90"


def alike_tuples(count: int, after: bytes = b"N") -> bytes:
    """Tuples of two numbers with one hash: the second number is solved for (Python's mix of hashes can be undone)."""
    first, second, last = 11400714785074694791, 14029467366897019727, 2870177450012600261
    word, undo_first, undo_second = 2**64 - 1, pow(first, -1, 2**64), pow(second, -1, 2**64)

    def turned(value: int, bits: int) -> int:
        return ((value << bits) | (value >> (64 - bits))) & word

    target, parts, tried = turned(0x1234567812345678 * undo_first & word, 64 - 31), [], 0
    while len(parts) < count:
        tried += 1
        made = turned((last + tried * second) & word, 31) * first & word
        wanted = (target - made) * undo_second & word
        if wanted < 2**61 - 1:
            parts.append((tried, wanted))
    assert len({hash(each) for each in parts}) == 1
    return b"".join(number(a) + number(b) + b"\x86" + after for a, b in parts)


def alike_complex(count: int) -> bytes:
    """Complex numbers with one hash: that of the imaginary part counts 1 000 003 times."""
    pairs = [complex(-1_000_003.0 * (i + 2), i + 2) for i in range(count)]
    assert len(set(map(hash, pairs))) == 1
    return b"".join(
        call("__builtin__.complex", b"G" + struct.pack(">d", z.real), b"G" + struct.pack(">d", z.imag)) + b"N"
        for z in pairs
    )


def in_each_others_way(bits: int) -> bytes:
    """Numbers with hashes of their own, each of which looks for a free place behind all that were there before.

    In a table of 2^bits places the search goes on from place i at 5 i + 1, once the hash is used up: half of the table
    is filled with such a row of places, and more numbers begin at it.
    """
    size, row = 2**bits, [7]
    for _ in range(size // 2):
        row.append((5 * row[-1] + 1) % size)
    taken, rank = np.zeros(size, bool), np.full(size, size)
    taken[row], rank[row] = True, np.arange(len(row))
    numbers = np.arange(size, 24 * size)
    place, fits = numbers % size, taken[numbers % size]
    for step in range(1, 2 + bits // 4):
        place = (5 * place + (numbers >> 5 * step) + 1) % size
        fits &= taken[place]
    others = numbers[fits & (rank[place] < size // 4)][: size // 7]
    chosen = [*row, *map(int, others)]
    assert len(others) == size // 7 and len(set(map(hash, chosen))) == len(chosen)
    return b"".join(b"J" + struct.pack("<i", n) + b"N" for n in chosen)


def two_texts(length: int) -> bytes:
    """Two equal texts, so that each is compared with the other letter by letter."""
    return remembered(text_of("x" * length), 1) + remembered(text_of("x" * length), 2)


def both_ways(count: int) -> bytes:
    """Bytes that are looked at as truth values, as others, as truth values, ..."""
    block = remembered(memory(4_000_000, "ByteStorage"), 1)
    sizes = tuple_of(number(2)), tuple_of(number(1)), b"\x89", b"N"
    ways = [tuple_of(again(1), number(0), *sizes, function(f"torch.{kind}")) for kind in ("bool", "uint16")]
    head = block + b"".join(remembered(way, 4 + i) for i, way in enumerate(ways))
    rebuild = remembered(function("torch._utils._rebuild_tensor_v3"), 2)
    return head + rebuild + times(count, again(2, 4), b"R0", again(2, 5), b"R0") + b"N"


FAMILIES: dict[str, Callable[[], bytes]] = {
    "two towers of frozensets": lambda: frozen_twice(60),
    "a tower of frozensets": lambda: frozen_nested(60),
    "tuples of one hash": lambda: b"}(" + alike_tuples(40_000) + b"u",
    "tuples of one hash one by one": lambda: b"}" + alike_tuples(40_000, b"Ns"),
    "tuples of one hash in a set": lambda: b"\x8f(" + alike_tuples(40_000, b"") + b"\x90",
    "tuples of one hash in d": lambda: b"(" + alike_tuples(40_000) + b"d",
    "complex numbers of one hash": lambda: b"}(" + alike_complex(40_000) + b"u",
    "tuples of one hash in many": lambda: b"](" + (b"}(" + alike_tuples(1_500) + b"u") * 40 + b"e",
    "numbers in each other's way": lambda: b"}(" + in_each_others_way(18) + b"u",
    "memo of one hash": lambda: b"N" + b"".join(b"p%d\n" % ((2**61 - 1) * i) for i in range(40_000)),
    "memo read by one hash": lambda: b"N" + b"".join(b"p%d\n" % ((2**61 - 1) * i) for i in range(20_000)) + b"g0\n",
    "a long key again and again": lambda: (
        two_texts(300_000) + b"}" + again(1) + b"Ns" + times(100_000, again(2), b"Ns")
    ),
    "a long key in a tuple": lambda: (
        two_texts(300_000) + remembered(again(2) + b"\x85", 3)
        + b"}" + again(1) + b"\x85Ns" + times(100_000, again(3), b"Ns")
    ),
    "a long name of memory": lambda: two_texts(300_000) + b"".join(
        remembered(
            tuple_of(text_of("storage"), function("torch.FloatStorage"), again(i), text_of("cpu"), number(0)), i + 4
        )
        for i in (1, 2)
    ) + again(5) + b"Q0" + times(100_000, again(6), b"Q0") + b"N",
    "a wide key again and again": lambda: (
        remembered(b"(" + b"N" * 900 + b"t", 1) + b"}" + times(100_000, again(1), b"Ns")
    ),
    "a set of a list many times": lambda: copies("__builtin__.set", listed(30_000), 40_000),
    "a frozenset of a list many times": lambda: copies("__builtin__.frozenset", listed(30_000), 40_000),
    "bytes of a text many times": lambda: copies("_codecs.encode", text_of("x" * 200_000), 40_000, text_of("latin1")),
    "bytearrays of bytes many times": lambda: copies(
        "__builtin__.bytearray", b"B" + struct.pack("<I", 200_000) + b"x" * 200_000, 40_000
    ),
    "a size many times": lambda: copies("torch.Size", b"(" + b"K\x01" * 100_000 + b"t", 40_000),
    "a Counter many times": lambda: copies("collections.Counter", state_of(20_000), 40_000),
    "an OrderedDict many times": lambda: copies(
        "collections.OrderedDict", b"](" + b"".join(b"M" + struct.pack("<H", i) + b"N\x86" for i in range(30_000))
        + b"e", 40_000,
    ),
    "a device of many arguments": lambda: (
        remembered(b"(" + b"N" * 100_000 + b"t", 1) + remembered(function("torch.device"), 2)
        + times(100_000, again(2, 1), b"R0") + b"N"
    ),
    "attributes many times": lambda: (
        remembered(state_of(20_000), 1) + remembered(function("torch._tensor._rebuild_from_type_v2"), 2)
        + remembered(
            tuple_of(
                function("torch._utils._rebuild_tensor_v2"), function("torch.Tensor"),
                tuple_of(memory(), number(0), tuple_of(number(2)), tuple_of(number(1)), b"\x89", b"}"), again(1),
            ), 3)
        + b"](" + times(40_000, again(2, 3), b"R") + b"e"
    ),
    "state of a dictionary many times": lambda: (
        remembered(state_of(20_000), 1) + b"](" + times(10_000, call("collections.OrderedDict"), again(1), b"b") + b"e"
    ),
    "a long attribute many times": lambda: (
        remembered(b"}" + text_of("a" * 500_000) + b"Ns", 1) + call("collections.OrderedDict")
        + times(100_000, again(1), b"b")
    ),
    "a long attribute of many parameters": lambda: (
        remembered(function("torch._utils._rebuild_parameter_with_state"), 1)
        + remembered(tuple_of(tensor(), b"\x89", b"}", b"}" + text_of("ä" * 300_000) + b"Ns"), 2)
        + times(100_000, again(1, 2), b"R0") + b"N"
    ),
    "tensors of many dimensions over and over": lambda: (
        remembered(function("torch._tensor._rebuild_from_type_v2"), 1)
        + remembered(tuple_of(
            function("torch._utils._rebuild_tensor_v2"), function("torch.Tensor"),
            tuple_of(memory(), number(0), *[b"(" + b"K\x01" * 64 + b"t"] * 2, b"\x89", b"}"), b"N"), 2)
        + b"](" + times(400_000, again(1, 2), b"R") + b"e"
    ),
    "bytes that are no text": lambda: b"X" + struct.pack("<I", 40_000_000) + b"\xff" * 40_000_000,
    "an OrderedDict of a tensor": lambda: call("collections.OrderedDict", ENDLESS),
    "an OrderedDict of tensors": lambda: call("collections.OrderedDict", b"](" + ENDLESS + b"e"),
    "a set of a tensor": lambda: call("__builtin__.set", ENDLESS),
    "a frozenset of a tensor": lambda: call("__builtin__.frozenset", ENDLESS),
    "a Counter of a tensor": lambda: call("collections.Counter", ENDLESS),
    "a size of a tensor": lambda: call("torch.Size", ENDLESS),
    "a device of a tensor": lambda: function("torch.device") + ENDLESS + b"R",
    "a call with a tensor": lambda: function("__builtin__.set") + ENDLESS + b"R",
    "new with a tensor": lambda: function("__builtin__.set") + ENDLESS + b"\x81",
    "sizes that are a tensor": lambda: call(
        "torch._utils._rebuild_tensor_v2", memory(), number(0), ENDLESS, ENDLESS, b"\x89", b"}"
    ),
    "a state that is a tensor": lambda: function("collections.OrderedDict") + b")R" + ENDLESS + b"b",
    "attributes that are a tensor": lambda: whole_tensor(ENDLESS),
    "memory named by a tensor": lambda: tuple_of(*[ENDLESS] * 5) + b"Q",
    "a rebuild that is a tensor": lambda: call("torch._tensor._rebuild_from_type_v2", *[ENDLESS] * 4),
    "bytes of a tensor": lambda: call("_codecs.encode", text_of("a"), ENDLESS),
    "a complex number of a tensor": lambda: call("__builtin__.complex", ENDLESS),
    "a bytearray of a tensor": lambda: call("__builtin__.bytearray", ENDLESS),
    "a parameter of a list": lambda: call("torch._utils._rebuild_parameter", listed(100_000), b"\x88", b"}"),
    "a parameter of an endless tensor": lambda: call("torch._utils._rebuild_parameter", ENDLESS, b"\x88", b"}"),
    "a key that is a tensor": lambda: b"}" + ENDLESS + b"Ns",
    "truth looked at again and again": lambda: both_ways(20_000),
    "a long whole number": lambda: b"\x8b" + struct.pack("<i", 1_000_000) + b"\x7f" * 1_000_000,
    "whole numbers in digits": lambda: b"](" + (b"L" + b"9" * 4_000 + b"L\n") * 100 + b"e",
    "a very long number in digits": lambda: b"L" + b"9" * 2_000_000 + b"L\n",
    "empty sets": lambda: b"\x80\x04](" + b"\x8f" * 300_000 + b"e",
    "empty dictionaries remembered": lambda: b"\x80\x04](" + b"}\x94" * 200_000 + b"e",
    "marks": lambda: b"(" * 300_000 + b"t" * 299_999,
    "lists in lists": lambda: b"]" * 300_000 + b"a" * 299_999,
    "dictionaries in dictionaries": lambda: b"N" + b"q\x010" + (b"}" + again(1)) * 100_000 + b"N" + b"s" * 100_000,
    "tensors in tensors": lambda: b"Nq\x01" + b"".join(
        b"0" + whole_tensor(b"}" + text_of("a") + again(1) + b"s") + b"q\x01" for _ in range(5_000)
    ),
    "doubled lists": lambda: b"]" + b"".join(b"q\x010](" + again(1, 1) + b"e" for _ in range(60)),
    "tensors over and over": lambda: (
        remembered(function("torch._utils._rebuild_tensor_v2"), 1)
        + remembered(tuple_of(memory(), number(0), tuple_of(number(2)), tuple_of(number(1)), b"\x89", b"}"), 2)
        + b"](" + times(40_000, again(1, 2), b"R") + b"e"
    ),
    "memory over and over": lambda: b"](" + b"".join(memory(0, place=str(i)) for i in range(5_000)) + b"e",
}  # fmt: skip


def blocks_for(name: str) -> dict[str, bytes]:
    return {"data/0": bytes(4_000_000)} if name == "truth looked at again and again" else BLOCK


def as_archive(name: str) -> bytes:
    return archive(b"\x80\x02" + FAMILIES[name]() + b".", blocks_for(name))


def as_legacy(name: str) -> bytes:
    return legacy(b"\x80\x02" + FAMILIES[name]() + b".", blocks_for(name))


# --- other readers


def many_entries(count: int) -> bytes:
    return archive(b"N.", {f"data/{i}": b"" for i in range(count)})


def header(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def damaged_and_doubled(count: int) -> bytes:
    """A file with a wrong digest, which is searched for a tensor through keys that are long and shared."""
    key = "k" * 200_000
    file = io.BytesIO()
    pellucid.save([pellucid.ones(50), [{key: None} for _ in range(count)]], file)
    data = bytearray(file.getvalue())
    data[data.find(b"\0\0\x80\x3f\0\0\x80\x3f") + 4] ^= 1
    return bytes(data)


def damaged_and_deep(count: int) -> bytes:
    """The same with a long way to very many things that are no tensors."""
    file, inside = io.BytesIO(), [None] * count
    for level in range(5):
        inside = {f"{level}" * 190: inside}
    pellucid.save([pellucid.ones(50), inside], file)
    data = bytearray(file.getvalue())
    data[data.rfind(b"\0\0\x80\x3f\0\0\x80\x3f") + 4] ^= 1
    return bytes(data)


OTHERS: dict[str, Callable[[], bytes]] = {
    "a damaged file of long ways": lambda: damaged_and_deep(400_000),
    "globals of long names": lambda: archive(
        b"\x80\x04" + text_of("a" * 500_000) + text_of("b" * 500_000) + b"\x93" * 500_000 + b".", {}
    ),
    "many entries": lambda: many_entries(20_000),
    "a damaged file of long keys": lambda: damaged_and_doubled(50_000),
    "a header of lists": lambda: header('{"a":[' + "[]," * 300_000 + "[]]}"),
    "a header of numbers": lambda: header('{"a":[' + "0," * 1_000_000 + "0]}"),
    "a header of digits": lambda: header('{"a":[' + "9" * 1_000_000 + "]}"),
    "a deep header": lambda: header('{"a":' + "[" * 1_000_000),
    "a header of nothing": lambda: header(
        "{" + ",".join(f'"{i}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}' for i in range(10_000)) + "}"
    ),
}


# --- any program that copies, remembers and calls


def pairs_of(count: int) -> bytes:
    return b"](" + b"".join(b"M" + struct.pack("<H", i) + b"N\x86" for i in range(count)) + b"e"


VALUES = {  # of some length each; a program chooses how long
    "list": listed, "tuple": lambda n: b"(" + b"K\x01" * n + b"t", "state": state_of, "pairs": pairs_of,
    "text": lambda n: text_of("x" * n), "bytes": lambda n: b"B" + struct.pack("<I", n) + b"x" * n,
    "set": lambda n: call("__builtin__.set", listed(n)), "endless": lambda n: ENDLESS, "tensor": lambda n: tensor(),
    "table": lambda n: b"}(" + b"".join(b"M" + struct.pack("<H", i % 65_536) + b"N" for i in range(n)) + b"u",
    "number": lambda n: b"\x8b" + struct.pack("<i", n) + b"\x7f" * n, "short": lambda n: b"(" + b"N" * 90 + b"t",
    "memory": lambda n: memory(), "latin1": lambda n: text_of("latin1"), "frozen": lambda n: b"(K\x01K\x02\x91",
    "arguments": lambda n: tuple_of(memory(), number(0), tuple_of(number(2)), tuple_of(number(1)), b"\x89", b"}"),
    "wide": lambda n: b"(" + b"N" * n + b"t",
    **{name: (lambda n, name=name: function(name)) for name in (
        "__builtin__.set", "__builtin__.frozenset", "__builtin__.bytearray", "collections.Counter", "torch.device",
        "collections.OrderedDict", "torch.Size", "_codecs.encode", "torch._utils._rebuild_tensor_v2", "torch.Tensor",
        "torch._tensor._rebuild_from_type_v2", "torch._utils._rebuild_parameter",
        "torch._utils._rebuild_parameter_with_state",
    )},
}  # fmt: skip
CALLS = [
    ("__builtin__.set", "list"), ("__builtin__.set", "tuple"), ("__builtin__.frozenset", "set"),
    ("torch.Size", "tuple"), ("__builtin__.bytearray", "bytes"), ("collections.Counter", "table"),
    ("collections.OrderedDict", "pairs"), ("torch.device", "text"), ("_codecs.encode", "text", "latin1"),
    ("torch._utils._rebuild_parameter", "tensor", "list"),
    ("torch._tensor._rebuild_from_type_v2", "torch._utils._rebuild_tensor_v2", "torch.Tensor", "arguments", "state"),
    ("torch._utils._rebuild_parameter_with_state", "tensor", "list", "list", "state"),
]  # fmt: skip


def repeated(seed: int) -> bytes:
    """A few values, long or short, and a short sequence of instructions that uses them, many times over."""
    draw = random.Random(seed)
    made, length = list(VALUES), draw.choice([50, 3_000, 30_000])
    slots = {name: slot for slot, name in enumerate(made)}

    def one(name: str) -> bytes:
        """A value by its number; now and then another one than fits."""
        used.append(name if draw.random() < 0.95 else draw.choice(made))
        return again(slots[used[-1]])

    used: list[str] = []
    called, *given = draw.choice(CALLS)
    any_one = draw.choice(["text", "short", "wide", "number", "frozen", "endless", "bytes", "tuple"])
    body = draw.choice([
        *[lambda: one(called) + tuple_of(*map(one, given)) + b"R"] * 3,
        lambda: b"}" + one(any_one) + b"Ns", lambda: b"\x8f(" + one(any_one) + one("text") + b"\x90",
        lambda: call("collections.OrderedDict") + one("state") + b"b", lambda: b"(" + one(any_one) + b"\x91",
        lambda: b"(" + one(any_one) + b"Nd", lambda: b"(" + one("list") + one("list") + b"t",
    ])()  # fmt: skip
    head = b"".join(remembered(VALUES[name](length), slots[name]) for name in dict.fromkeys(used))
    return b"\x80\x02" + head + b"](" + times(20_000, body, draw.choice([b"", b"0"])) + b"e."


def read(name: str) -> None:
    """Read one file of a family by the reader it is made for."""
    kind, _, rest = name.partition(": ")
    if kind == "safetensors":
        data, reader = OTHERS[rest](), st.load
    else:
        make = {"archive": as_archive, "legacy": as_legacy, "other": lambda key: OTHERS[key](),
                "repeated": lambda key: archive(repeated(int(key)), BLOCK)}[kind]  # fmt: skip
        names = rest.startswith("globals") and kind == "other"
        look = pellucid.serialization.get_unsafe_globals_in_checkpoint if names else pellucid.load
        data, reader = make(rest), lambda data: look(io.BytesIO(data))
    measured(lambda: reader(data), len(data))


def measured(run: Callable[[], object], size: int) -> None:
    """Run, and print what came out and what it took."""
    gaps, last = [0.0], time.process_time()

    def alarm(*_: object) -> None:
        nonlocal last
        now = time.process_time()
        gaps.append(now - last)
        last = now

    signal.signal(signal.SIGPROF, alarm)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = last = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, 0.02, 0.02)
    kept = None
    try:
        kept = run()
        outcome = "loaded"
    except (DamagedFileError, UnpicklingError) as error:
        outcome = f"refused: {str(error).splitlines()[0]}"
    except BaseException as error:
        outcome = f"raw {error!r:.200}"
    signal.setitimer(signal.ITIMER_PROF, 0)
    alarm()
    seconds, most = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"outcome": outcome, "bytes": size, "seconds": seconds, "deaf": max(gaps),
                      "megabytes": (most - before) / 1024}), flush=True)  # fmt: skip
    del kept


def figures(names: list[str]) -> dict[str, dict[str, Any]]:
    """What reading these files costs, each in a process of its own."""
    run = subprocess.run([sys.executable, __file__, *names], capture_output=True, text=True, check=True)
    return dict(zip(names, map(json.loads, run.stdout.splitlines()), strict=True))


def main(names: list[str]) -> None:
    """Read each file in a child of this process, within hard limits."""
    for name in names:
        child = os.fork()
        if child == 0:
            resource.setrlimit(resource.RLIMIT_AS, (HARD_MEMORY, HARD_MEMORY))
            resource.setrlimit(resource.RLIMIT_CPU, (HARD_SECONDS, HARD_SECONDS))
            read(name)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        if status:
            print(json.dumps({"outcome": f"died: {status}"}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
