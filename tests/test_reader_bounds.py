"""Reading n bytes costs time and memory in proportion to n, whatever they say, and Ctrl-C is heard (trust.md T68).

Every family of hostile files is read in a process of its own within hard limits. A failure names the family; to see it:
PYTHONPATH=src:tests python tests/hostile_files.py "archive: tuples of one hash"
"""

import io
import os
import signal
import subprocess
import sys
import time

import pytest

import pellucid
from pellucid.serialization import UnpicklingError, safe_globals, unpickling
from test_reader_fuzz import archive, call, tensor

hostile = pytest.importorskip("hostile_files", reason="limits and timers of the system are needed")
SOAK = bool(os.environ.get("PELLUCID_SOAK"))
BATCH = 12  # files that one process reads, each in a child: starting it takes longer than reading
NAMES = [
    *(f"archive: {name}" for name in hostile.FAMILIES), *(f"legacy: {name}" for name in list(hostile.FAMILIES)[::4]),
    "other: many entries", "other: a damaged file of long keys", "other: a damaged file of long ways",
    "other: globals of long names",
    *(f"safetensors: {name}" for name in hostile.OTHERS if "header" in name),
]  # fmt: skip
SEEDS = [f"repeated: {seed}" for seed in range(5_000 if SOAK else 36)]


def batches(names):
    return [names[i : i + BATCH] for i in range(0, len(names), BATCH)]


def faults(name, found):
    """What is wrong with the figures of one file."""
    if found["outcome"].startswith(("raw", "died")):
        return [f"{name}: {found['outcome']}"]
    size = found["bytes"]
    limits = {
        "seconds": hostile.SECONDS + hostile.SECONDS_PER_BYTE * size, "deaf": hostile.DEAF,
        "megabytes": hostile.MEGABYTES + hostile.BYTES_PER_BYTE * size / 1e6,
    }  # fmt: skip
    return [
        f"{name}: {found[what]:.2f} {what}, {limit:.2f} allowed for {size:,} bytes ({found['outcome']})"
        for what, limit in limits.items()
        if found[what] > limit
    ]


@pytest.mark.parametrize("names", [*batches(NAMES), *batches(SEEDS)], ids=lambda names: names[0])
def test_reading_costs_no_more_than_the_bytes_are_worth(names):
    assert [fault for name, found in hostile.figures(names).items() for fault in faults(name, found)] == []


def test_a_machine_counts_its_work():
    """The allowance is so much per byte: double the bytes, and twice the work is done before the refusal, not four."""
    done = []
    for size in (2_000, 4_000):
        text = b"\x80\x02" + hostile.copies("__builtin__.set", hostile.listed(size), size) + b"."
        machine = unpickling.Unpickler(text, {"__builtin__.set": unpickling.Container(unpickling.set_of)})
        with pytest.raises(UnpicklingError, match="more work than"):
            machine.load()
        done.append((unpickling.PER_BYTE * len(text), machine.place))
        assert -unpickling.PER_COPY * (size + 1) <= machine.left < 0
    assert 1.8 < done[1][0] / done[0][0] < 2.2


def test_keys_of_one_hash_are_refused_however_short_their_chains(monkeypatch):
    """A set of chains just too short to be slow one by one, made again and again: what counts is the time of all."""
    chain = hostile.listed(0)[:2] + hostile.alike_tuples(20_000, b"") + b"e"
    monkeypatch.setattr(unpickling, "SPARE", 0.01)
    text = b"\x80\x02" + hostile.copies("__builtin__.set", chain, 3) + b"."
    with pytest.raises(UnpicklingError, match="collide"):
        pellucid.load(io.BytesIO(archive(text, {})))


LOADER = """
import io, sys
import pellucid
data, first = open(sys.argv[1], "rb").read(), io.BytesIO()
pellucid.save(1, first)
pellucid.load(io.BytesIO(first.getvalue()))
print("reading", flush=True)
while True:
    try:
        pellucid.load(io.BytesIO(data))
    except pellucid.serialization.UnpicklingError:
        pass
"""


@pytest.mark.parametrize("family", ["numbers in each other's way", "tuples of one hash", "empty sets"])
def test_ctrl_c_is_heard(tmp_path, family):
    path = tmp_path / "hostile.pt"
    path.write_bytes(hostile.as_archive(family))
    process = subprocess.Popen([sys.executable, "-c", LOADER, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == b"reading\n"
    time.sleep(0.4)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)  # the machine may be busy: how long it takes is measured above
    assert errors.endswith(b"KeyboardInterrupt\n")


# --- honest files


HONEST = {
    "numbers": lambda i: i * 7, "large numbers": lambda i: i * 0x9E3779B97F4A7C15 % 2**63,
    "tuples": lambda i: (i, i + 1),
    "fractions": lambda i: i / 7, "complex": lambda i: complex(i, -i), "texts": lambda i: f"key {i}",
    "shifted": lambda i: i << 32, "mixed": lambda i: (i, str(i), -i / 3, None)[i % 3], "bytes": lambda i: b"%d" % i,
    "dates": lambda i: (2000 + i % 50, f"month {i % 12}", i),
}  # fmt: skip


@pytest.mark.parametrize("kind", HONEST)
@pytest.mark.parametrize("protocol", [2, 4])
def test_honest_keys_are_read_however_many_they_are(kind, protocol):
    table = {HONEST[kind](i): None for i in range(30_000)}
    whole = [table, set(table), {(1, 2, 3): 4}] if kind != "mixed" else [table]
    file = io.BytesIO()
    pellucid.save(whole, file, pickle_protocol=protocol)
    file.seek(0)
    assert pellucid.load(file) == whole


def test_long_texts_that_many_share_are_read():
    name, value = "n" * 5_000, ("a tuple", 1, 2.5)
    whole = [{name: value, (name, 1): value} for _ in range(3_000)]
    file = io.BytesIO()
    pellucid.save(whole, file)
    file.seek(0)
    assert pellucid.load(file) == whole


@pytest.mark.parametrize("key", [tuple(range(101)), ((1,) * 50, (2,) * 50), (1, 2**65), (0, frozenset())], ids=str)
def test_keys_that_are_too_large(key):
    def back(name):
        file = io.BytesIO()
        pellucid.save({name: 1}, file)
        file.seek(0)
        return pellucid.load(file)

    smaller = tuple(range(100)), ((1,) * 49, (2,) * 49), (1, 2**64 - 1, -(2**64) + 1)
    assert all(back(name) == {name: 1} for name in smaller)
    with pytest.raises(
        UnpicklingError, match=r"a key has more than 100 parts|(an int|a frozenset) may not be in a key"
    ):
        back(key)


def test_keys_that_may_not_be():
    for key in (b"(K\x01\x91", b"(K\x01\x91\x85", b"(" + b"N" * 101 + b"t", hostile.number(2**65), b"]", b"}"):
        for text in (b"}" + key + b"Ns", b"}(" + key + b"Nu", b"(" + key + b"Nd", b"\x8f(" + key + b"\x90",
                     b"(" + key + b"\x91", call("__builtin__.set", b"](" + key + b"e"),
                     call("collections.OrderedDict", b"](" + key + b"N\x86e")):  # fmt: skip
            with pytest.raises(UnpicklingError):
                pellucid.load(io.BytesIO(archive(b"\x80\x04" + text + b".", {})))


# --- classes that the user has allowed


class Slow(dict):
    """Has its own way to be filled."""

    def __setitem__(self, name, value):
        super().__setitem__(name, [value])


def test_dictionaries_of_the_users_are_filled_their_way():
    made = Slow()
    dict.update(made, {(i, i): 0 for i in range(300)} | {"a": 1})
    file = io.BytesIO()
    pellucid.save(made, file)
    file.seek(0)
    with safe_globals([Slow]):
        back = pellucid.load(file)
    assert type(back) is Slow and back["a"] == [1] and back[299, 299] == [0] and len(back) == 301


def test_what_the_user_allows_is_not_given_an_endless_tensor():
    from collections import OrderedDict, defaultdict, deque

    endless = tensor((2**40,), (0,))
    blocks = {"data/0": b"\0" * 48}
    with safe_globals([list, tuple, dict, set, deque, defaultdict, bytes, OrderedDict, sorted]):
        for name in ("builtins.list", "builtins.tuple", "builtins.dict", "builtins.set", "collections.deque",
                     "builtins.bytes", "collections.OrderedDict", "builtins.sorted"):  # fmt: skip
            for argument in (endless, b"](" + endless + b"e" if "Ordered" in name else endless, hostile.number(2**24)):
                with pytest.raises(UnpicklingError):
                    pellucid.load(io.BytesIO(archive(b"\x80\x02" + call(name, argument) + b".", blocks)))
        file = io.BytesIO()
        honest = [defaultdict(list, {1: [2]}), {3}, OrderedDict(a=1)]
        pellucid.save(honest, file, pickle_protocol=4)
        file.seek(0)
        assert pellucid.load(file) == honest
        alike = b"cbuiltins\nlist\n\x85R(" + hostile.alike_tuples(20_000) + b"u"
        with pytest.raises(UnpicklingError, match="collide"):
            pellucid.load(io.BytesIO(archive(b"\x80\x02ccollections\ndefaultdict\n" + alike + b".", {})))


# --- what users do next


def test_an_endless_tensor_can_be_looked_at():
    """Reading one is a view; printing it and loading it into a model end at once, too."""
    text = b"\x80\x02}" + hostile.text_of("weight") + tensor((2**20, 2**20), (0, 0)) + b"s."
    loaded = pellucid.load(io.BytesIO(archive(text, {"data/0": b"\0" * 48})))
    start = time.process_time()
    assert "tensor" in repr(loaded) and loaded["weight"].shape == (2**20, 2**20)
    with pytest.raises(RuntimeError, match="size mismatch"):
        pellucid.nn.Linear(2, 2, bias=False).load_state_dict(loaded)
    assert time.process_time() - start < 2


@pytest.mark.parametrize("kind", [list, tuple, dict])
def test_a_doubled_state_is_loaded_into_an_optimizer_at_once(kind):
    value = kind()
    for _ in range(60):
        value = {"a": value, "b": value} if kind is dict else kind((value, value))
    optimizer = pellucid.optim.SGD([pellucid.zeros(2, requires_grad=True)], lr=0.1)
    state = optimizer.state_dict()
    file = io.BytesIO()
    pellucid.save({**state, "state": {0: {"momentum_buffer": value}}}, file)
    file.seek(0)
    start = time.process_time()
    with pytest.raises(ValueError, match="more than 1,000,000 parts"):
        optimizer.load_state_dict(pellucid.load(file))
    assert time.process_time() - start < 10 and optimizer.state_dict() == state
