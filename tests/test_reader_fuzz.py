"""Broken and hostile files by the thousand: every reader answers with its own error, soon, and in little memory.

Each input is made from a seed of its own, so a failure names the one line that makes it again:

    PYTHONPATH=tests:src python -c "import test_reader_fuzz as t; t.attack('pickle', 1234)"
"""

import io
import json
import os
import pickle
import random
import struct
import sys
import time
import zipfile

import pytest

import pellucid
from pellucid.serialization import DamagedFileError, UnpicklingError
from pellucid.serialization import safetensors as st

SOAK = bool(os.environ.get("PELLUCID_SOAK"))
ROUNDS = 100_000 if SOAK else 500
# Seconds of work: the longest takes 0.4 alone, and three times that where the garbage collector has much to look at.
SECONDS, MEGABYTES = 5.0, 200
resource = pytest.importorskip("resource", reason="memory is measured by it")
OUR_ERRORS = (DamagedFileError, UnpicklingError)


# --- whole files to start from


def content():
    x = pellucid.arange(12.0).reshape(3, 4)
    model = pellucid.nn.Sequential(pellucid.nn.Linear(3, 4), pellucid.nn.Linear(4, 2))
    return {
        "model": model.state_dict(), "turned": x.t(), "row": x[1], "rate": 0.5, "half": pellucid.ones(3).bfloat16(),
        "truth": pellucid.tensor([True]), "list": [1, "a", (2.5, None)], "bytes": b"xy", "set": {1, 2}, "z": 1 + 2j,
        "parameter": pellucid.nn.Parameter(pellucid.ones(2)), "size": pellucid.Size([2]), "dtype": pellucid.float64,
    }  # fmt: skip


def archive(text, blocks):
    """A zip archive as PyTorch writes it: without our digests, so that its reader gets further."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as out:
        out.writestr("archive/data.pkl", text)
        out.writestr("archive/byteorder", "little")
        for name, block in blocks.items():
            out.writestr(f"archive/{name}", block)
        out.writestr("archive/version", "3\n")
    return file.getvalue()


def parts_of_archive():
    """The pickle and the blocks of memory of a file of ours."""
    file = io.BytesIO()
    pellucid.save(content(), file)
    with zipfile.ZipFile(file) as whole:
        names = [info.filename.removeprefix("archive/") for info in whole.infolist()]
        records = {name: whole.read(f"archive/{name}") for name in names}
    return records["data.pkl"], {name: block for name, block in records.items() if name.startswith("data/")}


def legacy(text, blocks):
    """The format before zip; its memory follows the pickles."""
    keys = [name.removeprefix("data/") for name in blocks]
    head = [pickle.dumps(part, 2) for part in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})]
    sizes = [struct.pack("<q", len(block) // 4) + block for block in blocks.values()]
    return b"".join([*head, text, pickle.dumps(keys, 2), *sizes])


def bare_header(data):
    """A file of safetensors without the seal."""
    size = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:size])
    del header["__metadata__"]
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data[size:]


# --- ways to break them

NUMBERS = [0, 1, 2, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63, 2**64 - 1]
SINGLE = b"])}({}()0012NQQRRRbbusealdttt\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x93\x94."
WORDS = [
    *(SINGLE[i : i + 1] for i in range(len(SINGLE))),
    b"c__builtin__\nbytearray\n", b"ccollections\nCounter\n", b"ccollections\nOrderedDict\n", b"ctorch\nSize\n",
    b"c_codecs\nencode\n", b"ctorch._utils\n_rebuild_tensor_v2\n", b"ctorch._utils\n_rebuild_parameter\n",
    b"ctorch.nn.parameter\nParameter\n", b"c__builtin__\nset\n", b"c__builtin__\ncomplex\n", b"ctorch\ndevice\n",
    b"ctorch\nFloatStorage\n", b"ctorch\nfloat32\n", b"cos\nsystem\n", b"X\x07\0\0\0storage", b"X\x01\0\0\x000",
    b"\x8a\x08\0\0\0\0\0\0\0\x40", b"J\xff\xff\xff\x7f", b"M\xff\xff", b"K\0", b"K\x05", b"I99\n", b"L9L\n",
    b"F1.5\n", b"G?\xf0\0\0\0\0\0\0", b"Vtext\n", b"C\x04\1\2\3\4", b"\x8c\x02os", b"\x8c\x06latin1", b"q\0", b"q\1",
    b"h\0", b"h\1",
]  # fmt: skip
LETTERS = [
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"-",
    b"9" * 20,
    b"1e9",
    b"null",
    b"true",
    b"\\u0000",
    b"\\ud800",
    b" ",
]


def changed(data, draw, words):
    """One change to some bytes."""
    if not data:
        return draw.choice(words)
    i = draw.randrange(len(data))
    j = min(len(data), i + draw.choice([1, 1, 2, 4, 8, 30, 200]))
    way = draw.randrange(8)
    if way == 0:
        return data[:i] + bytes([data[i] ^ (1 << draw.randrange(8))]) + data[i + 1 :]
    if way == 1:
        return data[:i] + bytes([draw.randrange(256)]) + data[i + 1 :]
    if way == 2:
        return data[:i] + data[j:]
    if way == 3:
        return data[:j] + data[i:j] * draw.choice([1, 2, 30]) + data[j:]
    if way == 4:
        k = draw.randrange(len(data))
        return data[:k] + data[i:j] + data[k:]
    if way == 5:
        width = draw.choice([1, 2, 4, 8])
        number = (draw.choice(NUMBERS) & (256**width - 1)).to_bytes(width, draw.choice(["little", "big"]))
        return data[:i] + number + data[i + width :]
    if way == 6:
        return data[:i] + draw.choice(words) + data[draw.choice([i, j]) :]
    return data[:i]


def broken(data, draw, words=WORDS):
    for _ in range(draw.choice([1, 1, 1, 2, 3, 8])):
        data = changed(data, draw, words)
    return data


def of_words(draw):
    """A pickle of instructions in any order."""
    return b"\x80\x02" + b"".join(draw.choices(WORDS, k=draw.randrange(1, 40))) + b"."


def number(value):
    return b"\x8a\x0a" + value.to_bytes(10, "little", signed=True)


def text_of(value):
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def tuple_of(*parts):
    return b"(" + b"".join(parts) + b"t"


def call(name, *parts):
    module, _, function = name.rpartition(".")
    return f"c{module}\n{function}\n".encode() + tuple_of(*parts) + b"R"


def memory(count=12, kind="FloatStorage", place="0"):
    names = text_of("storage"), f"ctorch\n{kind}\n".encode(), text_of(place), text_of("cpu")
    return tuple_of(*names, number(count)) + b"Q"


def tensor(sizes=(2,), strides=(1,), offset=0, block=None):
    sizes, strides = tuple_of(*map(number, sizes)), tuple_of(*map(number, strides))
    return call("torch._utils._rebuild_tensor_v2", block or memory(), number(offset), sizes, strides, b"\x89", b"}")


CALLS = [
    "__builtin__.set", "__builtin__.frozenset", "__builtin__.complex", "__builtin__.bytearray", "collections.Counter",
    "collections.OrderedDict", "torch.Size", "torch.device", "_codecs.encode", "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state", "torch.nn.parameter.Parameter",
]  # fmt: skip


def value_of(draw, depth=4):
    """A pickle of some value: the parts fit together, the values are the wildest there are."""
    way = draw.randrange(12 if depth else 5)
    parts = [value_of(draw, depth - 1) for _ in range(draw.randrange(4))] if way >= 5 else []
    if way == 0:
        return number(draw.choice([-1, 1]) * draw.choice(NUMBERS))
    if way == 1:
        return text_of(draw.choice(["0", "1", "storage", "latin1", "cpu", "\0", ""]))
    if way == 2:
        return draw.choice([b"N", b"\x88", b")", b"]", b"}", b"\x8f", b"G\x7f\xf0\0\0\0\0\0\0", b"ctorch\nfloat32\n"])
    if way == 3:
        sizes = [draw.choice([0, 1, 2, 3, 2**31, 2**40, 2**62]) for _ in range(draw.randrange(4))]
        block = memory(draw.choice([3, 8, 12, 16, 2**40]), draw.choice(["FloatStorage", "BoolStorage", "LongStorage"]))
        return tensor(sizes, [draw.choice([0, 1, 2, 2**61]) for _ in sizes], draw.choice([0, 1, 11, 2**62]), block)
    if way == 4:
        return memory(draw.choice([0, 3, 12]), draw.choice(["FloatStorage", "DoubleStorage"]), draw.choice("01234"))
    if way == 5:
        return tuple_of(*parts)
    if way == 6:
        return b"](" + b"".join(parts) + b"e"
    if way == 7:
        return b"}(" + b"".join(parts + parts) + b"u"
    if way == 8:
        return b"\x8f(" + b"".join(parts) + b"\x90"
    return call(draw.choice(CALLS), *parts)


def load_pt(data):
    return pellucid.load(io.BytesIO(data))


def starts():
    """For every reader: how an input is made from a source of chance, and what reads it."""
    text, blocks = parts_of_archive()
    whole = io.BytesIO()
    pellucid.save(content(), whole)
    ours, old = whole.getvalue(), legacy(text, blocks)
    tensors = {name: pellucid.ones(2, i) for i, name in enumerate(["a", "é", "b\0"])}
    sealed = st.save(tensors, {"note": "x"})
    bare = bare_header(sealed)
    return {
        "our archive": (lambda draw: broken(ours, draw), load_pt),
        "archive": (lambda draw: broken(archive(text, blocks), draw), load_pt),
        "pickle": (lambda draw: archive(broken(text, draw), blocks), load_pt),
        "words": (lambda draw: archive(of_words(draw), blocks), load_pt),
        "legacy": (lambda draw: broken(old, draw), load_pt),
        "legacy words": (lambda draw: old[:-900] + of_words(draw) + old[-900:], load_pt),
        "values": (lambda draw: archive(b"\x80\x02" + value_of(draw) + b".", blocks), load_pt),
        "raw": (of_words, load_pt),
        "our safetensors": (lambda draw: broken(sealed, draw, LETTERS), st.load),
        "safetensors": (lambda draw: broken(bare, draw, LETTERS), st.load),
    }


STARTS = {}


def attack(name, number):
    """Read one input; anything but a result or an error of ours is a failure."""
    STARTS.update(STARTS or starts())
    make, read = STARTS[name]
    data = make(random.Random(f"{name} {number}"))
    start = time.process_time()
    try:
        read(data)
    except OUR_ERRORS:
        pass
    except BaseException as error:
        raise AssertionError(f"attack({name!r}, {number}) gives {error!r}") from error
    taken = time.process_time() - start
    assert taken < SECONDS, f"attack({name!r}, {number}) takes {taken:.1f} s"


def most_megabytes():
    """The most memory that this process ever had."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (2**20 if sys.platform == "darwin" else 2**10)


READERS = [
    "our archive", "archive", "pickle", "words", "values", "legacy", "legacy words", "raw", "our safetensors",
    "safetensors",
]  # fmt: skip


@pytest.mark.parametrize("name", READERS)
def test_only_our_errors(name):
    attack(name, 0)
    before = most_megabytes()
    for number in range(ROUNDS):
        attack(name, number)
    assert most_megabytes() - before < MEGABYTES


# --- small files that describe something endless

DEEP = 60_000
ENDLESS = {
    "bytes by their number": call("__builtin__.bytearray", number(2**36)),
    "a deep key": b"})" + b"\x85" * DEEP + b"Ns",
    "a deep member": b"\x8f()" + b"\x85" * DEEP + b"\x90",
    "a doubled key": b"})" + b"2\x86" * 60 + b"Ns",
    "a doubled member": b"()" + b"2\x86" * 60 + b"\x91",
    "a doubled reference": b")" + b"2\x86" * 60 + b"Q",
    "a deep reference": b")" + b"\x85" * DEEP + b"Q",
    "doubled sizes": call("torch.Size", b")" + b"2\x86" * 60),
    "a doubled offset": call("torch._utils._rebuild_tensor_v2", memory(), b")" + b"2\x86" * 60, b")", b")"),
    "a doubled function": b")" + b"2\x86" * 60 + b")R",
    "a deep function": b")" + b"\x85" * DEEP + b")R",
    "a doubled class": b")" + b"2\x86" * 60 + b")\x81",
    "the set of a tensor": call("__builtin__.set", tensor((2**40,), (0,))),
    "the bytes of a tensor": call("__builtin__.bytearray", tensor((2**40,), (0,))),
    "the size of a tensor": call("torch.Size", tensor((2**40,), (0,))),
    "the count of a tensor": call("collections.Counter", tensor((2**40,), (0,))),
    "keys of one hash": b"}(" + b"".join(number((2**61 - 1) * (16 + i)) + b"N" for i in range(1, 20_000)) + b"u",
    "a number as key": b"}\x8b" + struct.pack("<I", 10**6) + b"\x7f" * 10**6 + b"Ns",
    "a long fraction": b"F" + b"x" * 10**6 + b"\n",
    "a mark alone": b"(",
    "truth that is 7": tensor((1,), (1,), 0, memory(48, "BoolStorage")),
    "a tensor that is a function": tensor() + b")R",
    "whole numbers with gradient": call(
        "torch._utils._rebuild_tensor_v2", memory(6, "LongStorage"), b"K\x00", b"K\x01\x85", b"K\x01\x85", b"\x88"
    ),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_the_endless_is_refused_at_once(name):
    text, blocks = b"\x80\x02" + ENDLESS[name] + b".", {"data/0": b"\x07" * 48}
    before = most_megabytes()
    for data in (archive(text, blocks), legacy(text, blocks)):
        start = time.process_time()
        with pytest.raises(UnpicklingError) as refused:
            load_pt(data)
        assert time.process_time() - start < SECONDS
        assert len(str(refused.value)) < 1_500 and str(refused.value).replace("\n", "").isprintable()
    assert most_megabytes() - before < MEGABYTES


def test_memory_of_the_older_format_is_no_more_than_the_file():
    text = b"\x80\x02](" + b"".join(memory(200, place=str(i)) for i in range(1_000)) + b"e."
    with pytest.raises(UnpicklingError, match="more memory is announced"):
        load_pt(legacy(text, {"data/0": bytes(800)}))


def test_damage_in_a_doubled_file_is_told_at_once():
    """A file that is damaged is searched for the tensor's name, even where that takes a path without end."""
    for value in ([], ()):
        for _ in range(60):
            value = [value, value] if isinstance(value, list) else (value, value)
        file = io.BytesIO()
        pellucid.save({"a": value, "b": pellucid.ones(50)}, file)
        data = bytearray(file.getvalue())
        data[data.find(b"\x80\x3f" * 1 + b"\0\0\x80\x3f") + 4] ^= 1
        start = time.process_time()
        with pytest.raises(DamagedFileError, match="tensor 'b'"):
            load_pt(bytes(data))
        assert time.process_time() - start < SECONDS


def test_the_unprintable_is_escaped():
    with pytest.raises(UnpicklingError, match=r"'os\\x1b\[2J.system' is not allowed"):
        load_pt(archive(b"\x80\x02cos\x1b[2J\nsystem\n.", {}))
