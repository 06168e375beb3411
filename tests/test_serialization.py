"""save and load: both ways with PyTorch, nothing executed, whole files or none, every flipped bit noticed."""

import io
import os
import pickle
import random
import signal
import struct
import subprocess
import sys
import textwrap
import time
import warnings
import zipfile
from collections import Counter, OrderedDict
from functools import reduce

import numpy as np
import pytest

import pellucid
import test_reader_fuzz as reader_fuzz
from pellucid.serialization import DamagedFileError, UnpicklingError, archive, names, safe_globals, unpickling

SOAK = bool(os.environ.get("PELLUCID_SOAK"))


def content(library):
    x = library.arange(12.0).reshape(3, 4)
    model = library.nn.Sequential(library.nn.Linear(3, 4), library.nn.Linear(4, 2))
    return {
        "model": model.state_dict(), "x": x, "turned": x.t(), "row": x[1], "step": 3, "rate": 0.5, "none": None,
        "half": library.ones(3, dtype=library.bfloat16), "whole": library.tensor([1, 2]), "dtype": library.float64,
        "truth": library.tensor([True, False]), "complex": library.tensor([1 + 2j]), "nothing": library.empty(0, 3),
        "number": library.tensor(2.5), "size": library.Size([2, 3]), "list": [1, "a", (2.5, None)], "bytes": b"xy",
        "parameter": library.nn.Parameter(library.ones(2)), "order": OrderedDict(a=1), "set": {1, 2}, "z": 1 + 2j,
        "device": library.device("cpu"),
    }  # fmt: skip


def plain(value):
    """Values in a form that does not tell the library."""
    if hasattr(value, "detach"):
        array = value.detach().float() if "bfloat16" in str(value.dtype) else value.detach()
        return str(value.dtype), tuple(value.shape), bool(value.requires_grad), array.numpy().tolist()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return str(value) if "torch" in str(value) or type(value).__name__ == "device" else value


def saved(obj, library=pellucid, **options):
    file = io.BytesIO()
    library.save(obj, file, **options)
    return file.getvalue()


def loaded(data, library=pellucid, **options):
    return library.load(io.BytesIO(data), **options)


def archive_of(pickled):
    """A file of PyTorch's format that holds a pickle and nothing else."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as z:
        z.writestr("archive/data.pkl", pickled)
        z.writestr("archive/version", "3\n")
    return file.getvalue()


def test_round_trip():
    obj = content(pellucid)
    back = loaded(saved(obj))
    assert plain(back) == plain(obj)
    back["x"][0, 0] = 100.0
    assert back["turned"][0, 0] == 100.0, "tensors that share memory still do"


@pytest.mark.parametrize("options", [{}, {"_use_new_zipfile_serialization": False}])
def test_files_of_pytorch_load_here(torch, options):
    obj = content(torch)
    assert plain(loaded(saved(obj, torch, **options))) == plain(obj)


def test_files_of_ours_load_in_pytorch(torch):
    obj = content(pellucid)
    assert plain(loaded(saved(obj), torch)) == plain(obj)


def test_named_results_go_both_ways(torch):
    for writer, reader in ((torch, pellucid), (pellucid, torch), (pellucid, pellucid)):
        stream = io.BytesIO()
        writer.save(writer.tensor([1.0, 3.0, 2.0]).sort(), stream)
        stream.seek(0)
        found = reader.load(stream, weights_only=False)
        assert type(found) is reader.return_types.sort and found.indices.tolist() == [0, 2, 1]


def test_whole_models_go_both_ways(torch):
    for here, there in ((pellucid, torch), (torch, pellucid)):
        model = here.nn.Sequential(here.nn.Linear(3, 4), here.nn.ReLU(), here.nn.Linear(4, 2))
        other = loaded(saved(model, here), there, weights_only=False)
        assert repr(other) == repr(model)
        x = np.ones((2, 3), np.float32)
        results = [m(lib.from_numpy(x)).detach().numpy() for m, lib in ((model, here), (other, there))]
        np.testing.assert_allclose(*results, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "path", ["relu", "nn.functional.relu", "nn.functional.gelu", "special.entr", "fft.fft", "linalg.inv"]
)
def test_functions_go_both_ways_under_public_names(torch, path):
    mine, theirs = (reduce(getattr, path.split("."), library) for library in (pellucid, torch))
    assert loaded(saved({"f": theirs}, torch), weights_only=False)["f"] is mine
    assert loaded(saved({"f": mine}), torch, weights_only=False)["f"] == theirs


def test_weights_may_use_a_function_that_was_added():
    layer = pellucid.nn.TransformerEncoderLayer(4, 2, 8)
    nn, functional = pellucid.nn, pellucid.nn.functional
    linear = nn.modules.linear.NonDynamicallyQuantizableLinear
    classes = [type(layer), nn.MultiheadAttention, nn.Linear, linear, nn.Dropout, nn.LayerNorm]
    with safe_globals([*classes, functional.relu]):
        assert loaded(saved(layer)).activation is functional.relu
    with safe_globals(classes), pytest.raises(UnpicklingError, match=r"torch.nn.functional.relu is not allowed"):
        loaded(saved(layer))


def test_whole_objects_are_named_by_the_modules_in_which_pytorch_has_them(torch):
    """A layer with attention, a schedule and distributions: here they are in other files than there."""
    for here, there in ((pellucid, torch), (torch, pellucid)):
        here.manual_seed(0)
        layer = here.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0)
        schedule = here.optim.lr_scheduler.StepLR(here.optim.SGD(layer.parameters(), lr=0.5), 2)
        spread = [here.distributions.HalfNormal(2.0), here.distributions.LogisticNormal(here.zeros(1), here.ones(1))]
        known = [here.nn.MultiheadAttention, here.distributions.Bernoulli, here.Tensor, here.nn.functional.gelu]
        data = saved([layer, schedule, spread, known], here)
        other, again, wide, classes = loaded(data, there, weights_only=False)
        x = np.ones((2, 3, 4), np.float32)
        results = [m(lib.from_numpy(x)).detach().numpy() for m, lib in ((layer, here), (other, there))]
        np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-5)
        assert again.get_last_lr() == [0.5] and float(wide[0].scale) == 2.0
        assert classes == [
            there.nn.MultiheadAttention,
            there.distributions.Bernoulli,
            there.Tensor,
            there.nn.functional.gelu,
        ]


def test_whole_models_are_not_weights():
    data = saved(pellucid.nn.Linear(2, 2))
    with pytest.raises(UnpicklingError, match=r"torch.nn.modules.linear.Linear is not allowed"):
        loaded(data)
    assert loaded(data, weights_only=False).in_features == 2


FORCE, FORCE_NOT = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"


ENVIRONMENTS = [{}, {FORCE: "1"}, {FORCE_NOT: "Yes"}, {FORCE: "0"}, {FORCE: "y", FORCE_NOT: "1"}]


@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("said", [{}, {"weights_only": False}, {"weights_only": True}])
def test_the_environment_decides_about_weights_only_as_in_pytorch(torch, monkeypatch, environment, said):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    outcomes = []
    for library in (torch, pellucid):
        data = saved(library.nn.Linear(2, 2), library)
        try:
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always", UserWarning)
                loaded(data, library, **said)
            outcomes.append([FORCE_NOT in str(warning.message) for warning in warned])
        except (RuntimeError, pickle.UnpicklingError) as error:
            outcomes.append("refused" if isinstance(error, pickle.UnpicklingError) else "cannot be meant")
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("module", [pickle, np])
@pytest.mark.parametrize("environment", [{}, {FORCE: "1"}])
def test_a_pickle_module_alone_does_not_make_a_file_trusted(monkeypatch, tmp_path, environment, module):
    """In PyTorch it does; our docstring says that nothing is executed unless weights_only=False."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    hostile = archive_of(pickle.dumps(Gadget(os.mkdir, str(tmp_path / "made")), 2))
    for data in (hostile, saved({"a": 1})):
        for said in ({}, {"weights_only": True}, {"weights_only": None}):
            with pytest.raises(RuntimeError, match="pickle_module") as refused:
                loaded(data, pickle_module=module, **said)
            assert "weights_only=False" in str(refused.value)
    assert not (tmp_path / "made").exists()
    if not environment:
        assert loaded(saved(Known()), pickle_module=module, weights_only=False).args == (1,)
        loaded(hostile, pickle_module=module, weights_only=False)
        assert (tmp_path / "made").exists()


class Known:
    def __init__(self, *args):
        self.args = args

    def __reduce__(self):
        return Known, (1,)


@pytest.mark.parametrize("weights_only", [True, False])
def test_a_model_in_the_older_format_is_not_promised_to_the_trusting(torch, weights_only):
    """What is advised helps: files of this format are read as weights only, whatever the call says."""
    data = saved(torch.nn.Linear(2, 1), torch, _use_new_zipfile_serialization=False)
    with pytest.raises(UnpicklingError, match="save it again as PyTorch does") as caught:
        loaded(data, weights_only=weights_only)
    assert "weights_only=False" not in str(caught.value)


@pytest.mark.parametrize("protocol", range(1, 6))
def test_every_protocol_brings_bytes_back(protocol):
    value = {"bytearray": bytearray(b"a\0b"), "bytes": b"c\xff", "empty": [bytearray(), b""], "long": bytearray(70_000)}
    back = loaded(saved(value, pickle_protocol=protocol))
    assert back == value and type(back["bytearray"]) is type(back["empty"][0]) is bytearray


def test_safe_globals():
    data = saved({"a": Known()})
    with pytest.raises(UnpicklingError, match="Known"):
        loaded(data)
    with safe_globals([Known]):
        assert loaded(data)["a"].args == (1,)
    with pytest.raises(UnpicklingError, match="Known"):
        loaded(data)


def test_a_safe_global_may_have_another_name_in_the_file():
    data = archive_of(b"\x80\x02cother.place\nOld\nK\x07\x85R.")
    with pytest.raises(UnpicklingError, match=r"other\.place\.Old is not allowed"):
        loaded(data)
    with safe_globals([(Known, "other.place.Old")]):
        assert loaded(data).args == (7,)
        assert pellucid.serialization.get_safe_globals() == [(Known, "other.place.Old")]
        pellucid.serialization.clear_safe_globals()
        with pytest.raises(UnpicklingError, match="Old"):
            loaded(data)


@pytest.mark.parametrize("protocol", [2, 4])
def test_safe_classes_get_their_state(protocol):
    data = saved(pellucid.nn.Linear(2, 3), pickle_protocol=protocol)
    with safe_globals([pellucid.nn.Linear]):
        assert repr(loaded(data)) == "Linear(in_features=2, out_features=3, bias=True)"
    with safe_globals([Slotted]):
        assert loaded(saved(Slotted(), pickle_protocol=protocol)).a == 5
    with safe_globals([Plain]):
        assert loaded(saved(Plain(), pickle_protocol=protocol)).a == 6


class Plain:
    def __init__(self):
        self.a = 6


class Slotted:
    __slots__ = ("a",)

    def __init__(self):
        self.a = 5


def test_safe_classes_of_pytorch(torch):
    data = saved(torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()), torch)
    nn = pellucid.nn
    with safe_globals([nn.Sequential, nn.Linear, nn.ReLU]):
        assert repr(loaded(data)) == repr(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))
    with safe_globals([nn.Sequential, nn.ReLU]), pytest.raises(UnpicklingError, match=r"linear.Linear is not allowed"):
        loaded(data)


def test_parameters_of_pytorch_with_attributes(torch):
    parameter = torch.nn.Parameter(torch.arange(3.0), requires_grad=False)
    parameter.note = "mine"  # PyTorch then writes the attributes too
    data = saved({"p": parameter}, torch)
    assert b"_rebuild_parameter_with_state" in data
    back = loaded(data)["p"]
    assert isinstance(back, pellucid.nn.Parameter) and plain(back) == plain(parameter) and back.note == "mine"


def with_attributes_and_unsigned_integers(lib):
    rows = lib.arange(6).to(lib.uint16).reshape(2, 3)
    tensor, parameter = lib.zeros(2), lib.nn.Parameter(lib.ones(1))
    tensor.note, parameter.note = "mine", [1, 2.5]
    return {"rows": rows, "second": rows[1:], "large": lib.tensor([3]).to(lib.uint64), "t": tensor, "p": parameter}


@pytest.mark.parametrize("writer", ["torch", "pellucid"])
@pytest.mark.parametrize("reader", ["torch", "pellucid"])
@pytest.mark.parametrize("weights_only", [True, False])
def test_attributes_and_unsigned_integers_are_saved(torch, writer, reader, weights_only):
    libraries = {"torch": torch, "pellucid": pellucid}
    back = loaded(saved(with_attributes_and_unsigned_integers(libraries[writer]), libraries[writer]),
                  libraries[reader], weights_only=weights_only)  # fmt: skip
    assert {name: str(value.dtype) for name, value in back.items()}["rows"] == "torch.uint16"
    assert (back["rows"].tolist(), back["large"].tolist()) == ([[0, 1, 2], [3, 4, 5]], [3])
    assert (back["t"].note, back["p"].note) == ("mine", [1, 2.5])
    assert back["rows"].untyped_storage().data_ptr() == back["second"].untyped_storage().data_ptr()


def test_an_attribute_from_a_file_hides_nothing():
    tensor = pellucid.zeros(1)
    tensor.__dict__["backward"] = tensor.__dict__["note"] = "mine"
    back = loaded(saved({"t": tensor}))["t"]
    assert back.note == "mine" and callable(back.backward)


def test_what_shares_memory_in_a_file_shares_it_again():
    x = pellucid.arange(4.0, requires_grad=True)
    back, part = loaded(saved((x.detach(), x.detach()[1:])))
    y = back.requires_grad_() ** 2
    part.fill_(9.0)
    assert back.tolist() == [0.0, 9.0, 9.0, 9.0]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


# --- damage


def damage(data, kind, draw):
    if kind == "flip":
        i = draw.randrange(len(data))
        return data[:i] + bytes([data[i] ^ (1 << draw.randrange(8))]) + data[i + 1 :]
    if kind == "truncate":
        return data[: draw.randrange(len(data))]
    if kind == "zero":
        i = draw.randrange(len(data) - 64)
        return data[:i] + bytes(64) + data[i + 64 :] if any(data[i : i + 64]) else data[:-1]
    other = saved({"a": pellucid.rand(50), "b": pellucid.rand(3, 3)})
    i = draw.randrange(1, min(len(data), len(other)))
    return data[:i] + other[i:] if data[:i] != other[:i] and data[i:] != other[i:] else data[:-1]


@pytest.mark.parametrize("kind", ["flip", "truncate", "zero", "splice"])
def test_damage_is_always_noticed(kind):
    pellucid.manual_seed(0)
    data, draw = saved({"a": pellucid.rand(50), "b": pellucid.rand(3, 3)}), random.Random(kind)
    for _ in range(10_000 if SOAK else 400):
        broken = damage(data, kind, draw)
        if broken == data:
            continue
        with pytest.raises((DamagedFileError, UnpicklingError)):
            loaded(broken)


def test_damage_names_the_tensor(tmp_path):
    path = tmp_path / "model.pt"
    pellucid.save({"encoder": {"weight": pellucid.ones(100)}, "bias": pellucid.zeros(3)}, path)
    data = bytearray(path.read_bytes())
    place = data.find(np.ones(100, np.float32).tobytes())
    data[place + 40] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedFileError, match=r"(?s)model.pt.*tensor 'encoder.weight'.*SHA-256"):
        pellucid.load(path)


# --- hostile files


class Gadget:
    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


def gadgets():
    import builtins
    import operator
    import shutil
    import webbrowser
    from functools import partial

    functions = [
        os.system, os.popen, os.remove, os.unlink, os.rmdir, os.mkdir, os.rename, os.execv, os.kill, os.putenv,
        subprocess.Popen, subprocess.run, subprocess.call, subprocess.check_output, subprocess.getoutput, eval, exec,
        compile, open, __import__, getattr, setattr, delattr, globals, input, breakpoint, vars, map, filter, type,
        shutil.rmtree, shutil.move, webbrowser.open, sys.exit, sys.setrecursionlimit, partial, operator.attrgetter,
        operator.methodcaller, operator.itemgetter, pickle.loads, pickle.load, io.open_code, socket_of(), time.sleep,
        signal.raise_signal, textwrap.dedent, struct.unpack, zipfile.ZipFile, np.load, np.fromfile, np.frombuffer,
        builtins.memoryview, builtins.range, builtins.slice, builtins.property, bytes.fromhex, str.format, print,
        random.seed, iter, next,
    ]  # fmt: skip
    return [function for function in functions if function is not None]


def socket_of():
    import socket

    return socket.create_connection


CANARY = "pellucid-canary"


@pytest.mark.parametrize("protocol", range(6))
def test_gadgets_are_refused_by_name_and_never_run(protocol, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    called = gadgets()
    assert len(called) >= 60
    for function in called:
        raw = pickle.dumps(Gadget(function, f"touch {CANARY}"), protocol)
        for data in (raw, archive_of(raw)):
            with pytest.raises((UnpicklingError, DamagedFileError)) as refused:
                loaded(data)
            assert "is not allowed" in str(refused.value) or "damaged" in str(refused.value)
    assert os.listdir(tmp_path) == []


def test_hostile_archives_are_refused_quickly():
    def archive(**entries):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", entries.pop("how", zipfile.ZIP_STORED)) as z:
            for name, value in entries.items():
                z.writestr(name, value)
        return file.getvalue()

    twice = io.BytesIO()
    with zipfile.ZipFile(twice, "w") as z:
        z.writestr("a/data.pkl", b".")
        with pytest.warns(UserWarning, match="Duplicate name"):
            z.writestr("a/data.pkl", b".")
    many = bytearray(archive(**{"a/data.pkl": b"."}))
    place = many.rfind(b"PK\x05\x06")
    many[place + 8 : place + 12] = struct.pack("<HH", 65535, 65535)
    cases = [
        archive(**{"a/data.pkl": b"0" * 10**7, "how": zipfile.ZIP_DEFLATED}),
        archive(**{"../data.pkl": b"."}), archive(**{"/data.pkl": b"."}), archive(**{"a/other": b"."}),
        twice.getvalue(), bytes(many), b"PK", b"PK\x03\x04" + bytes(100), b"", b"\x80\x02.",
    ]  # fmt: skip
    for data in cases:
        start = time.perf_counter()
        with pytest.raises((DamagedFileError, UnpicklingError)):
            loaded(data)
        assert time.perf_counter() - start < 5


@pytest.mark.parametrize("text", [
    b"\x80\x02X\xff\xff\xff\xff.", b"\x80\x02r\xff\xff\xff\xff.", b"\x80\x02h\x05.", b"\x80\x02t.", b"0.", b"\x80\x09.",
    b"\x80\x02]K\x01s.", b"\x80\x02K\x01K\x02\x86R.", b"(lp0\n0g9\n.", b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
])  # fmt: skip
def test_broken_pickles_are_refused(text):
    with pytest.raises(UnpicklingError):
        loaded(text)


def test_pickles_are_bounded(monkeypatch):
    """Instructions, the stack and the memo; and what refers to an archive, or fills what is no set, is refused."""
    monkeypatch.setattr(unpickling, "LIMIT", 50)
    for pickled, message in (
        (b"N0" * 26 + b"N.", "more than 50 instructions"), (b"N" * 49 + b".", None), (b"N" * 50 + b".", "more than 50"),
        (b"N" * 49 + b"2.", "more than 50"), (b"K\x01Q.", "an archive that is not there"),
        (b"\x80\x04](K\x01\x90.", "adds to a list"),
    ):  # fmt: skip
        machine = unpickling.Unpickler(pickled, {})
        if message is None:
            assert machine.load() is None
            continue
        with pytest.raises(UnpicklingError, match=message):
            machine.load()
    machine = unpickling.Unpickler(b"", {})
    for _ in range(50):
        machine.push(None)
    with pytest.raises(UnpicklingError, match="stack grows without end"):
        machine.push(None)
    for index in (0, 1, 50, -1, 2**61 - 1):  # no bytes, so nothing may be remembered far ahead
        machine.memo = [None] * (index == 50) * 50
        if index:
            with pytest.raises(UnpicklingError, match="remembers without end"):
                machine.put(index)
        else:
            machine.put(index)


def test_an_archive_that_claims_very_many_entries_is_refused_before_it_is_read():
    data = saved({})
    place = data.rfind(b"PK\x05\x06")
    for entries, refused in ((200_000, False), (200_001, True)):
        wide = b"PK\x06\x06" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, entries, entries, 0, 0)
        with pytest.raises(DamagedFileError) as caught:
            loaded(data[:place] + wide + data[place:])
        assert (f"it has {entries:,} entries" in str(caught.value)) == refused


def test_damaged_objects_are_never_made(monkeypatch):
    """With weights_only=False a pickle may run code: not that of a file whose digests are wrong."""
    data = bytearray(saved({"a": Known(), "weight": pellucid.ones(50)}))
    place = data.find(pellucid.ones(50).numpy().tobytes())
    data[place + 3] ^= 1
    monkeypatch.setattr(Known, "__init__", lambda *_: pytest.fail("it ran"))
    with pytest.raises(DamagedFileError, match="SHA-256"):
        loaded(bytes(data), weights_only=False)


def test_tensors_stay_inside_their_memory():
    from pellucid.serialization.tensors import Storage, rebuild_tensor

    memory = Storage(np.zeros(6, np.float32), "0")
    for offset, size, stride in [(0, (7,), (1,)), (-1, (2,), (1,)), (5, (2,), (1,)), (0, (2, 2), (5, 1)),
                                 (0, (2,), (-1,)), (0, (2**40,), (0,) * 2), (0, "ab", (1,))]:  # fmt: skip
        with pytest.raises(UnpicklingError):
            rebuild_tensor(memory, offset, size, stride)
    assert rebuild_tensor(memory, 1, (2, 2), (2, 1)).shape == (2, 2)


# --- writing


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model.pt"
    pellucid.save({"a": pellucid.ones(3)}, path)
    before = path.read_bytes()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"(?s)model.pt.*No space left.*bytes are free.*untouched"):
        pellucid.save({"a": pellucid.zeros(3)}, path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["model.pt"]


def test_missing_folders_are_an_error_with_the_path(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        pellucid.save({}, tmp_path / "nowhere" / "model.pt")


SAVER = """
import sys, pellucid
n = 0
while True:
    n += 1
    pellucid.save({"n": n, "a": pellucid.full((20000,), float(n))}, sys.argv[1])
    print(n, flush=True)
"""


def test_a_kill_at_any_moment_leaves_a_whole_file(tmp_path):
    path, draw = tmp_path / "model.pt", random.Random(0)
    for _ in range(200 if SOAK else 4):
        process = subprocess.Popen([sys.executable, "-c", SAVER, str(path)], stdout=subprocess.PIPE)
        process.stdout.readline()
        time.sleep(draw.random() * 0.1)
        process.kill()
        process.wait()
        process.stdout.close()
        back = pellucid.load(path)
        assert bool((back["a"] == back["n"]).all())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64", "int16", "bool", "float64"])
def test_files_of_machines_with_the_other_byte_order(dtype):
    tensor = pellucid.tensor([1, 0, 3]).to(getattr(pellucid, dtype))
    swapped = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved(tensor))) as z, zipfile.ZipFile(swapped, "w") as out:
        for name in (each for each in z.namelist() if not each.endswith(archive.DIGESTS)):
            data = z.read(name)
            if name.endswith("/byteorder"):
                data = b"big"
            elif name.endswith("/data/0"):
                width = len(data) // 3 // (2 if "complex" in dtype else 1)
                data = np.frombuffer(data, f"u{width}").byteswap().tobytes()
            out.writestr(name, data)
    assert loaded(swapped.getvalue()).tolist() == tensor.tolist()


@pytest.mark.parametrize("writer", ["torch", "pellucid"])
@pytest.mark.parametrize("reader", ["torch", "pellucid"])
def test_tensors_on_meta_are_saved_without_values(torch, writer, reader):
    libraries = {"torch": torch, "pellucid": pellucid}
    lib = libraries[writer]
    given = [lib.empty(3, 4, dtype=lib.float64, device="meta").T, lib.nn.Linear(2, 3, device="meta").weight]
    back = loaded(saved(given, lib), libraries[reader])
    assert [(str(x.device), str(x.dtype), tuple(x.shape), x.requires_grad) for x in back] == [
        ("meta", "torch.float64", (4, 3), False), ("meta", "torch.float32", (3, 2), True),
    ]  # fmt: skip


def test_a_file_is_whole_before_it_is_closed(tmp_path):
    with open(tmp_path / "model.pt", "wb") as file:
        pellucid.save(pellucid.ones(2), file)
        assert pellucid.load(tmp_path / "model.pt").tolist() == [1.0, 1.0]


def test_load_knows_safetensors_by_their_name(tmp_path):
    pellucid.save_file({"weight": pellucid.ones(2)}, tmp_path / "model.safetensors")
    assert pellucid.load(tmp_path / "model.safetensors")["weight"].tolist() == [1.0, 1.0]


# --- attributes that a file gives


SPECIAL = [
    "__array_interface__", "__array_struct__", "__array__", "__array_priority__", "__array_ufunc__", "__class__",
    "__dict__", "__dlpack__", "__cuda_array_interface__", "__len__", "__reduce_ex__", "__x__", "__", "_", "___",
    "_as_parameter_", "_ipython_display_", "_repr_html_", "_numba_type_", "a b", "", "1a", "a.b", "a\0", "é\u0301 ",
]  # fmt: skip
ODD = [7, b"a", None, 1.5, (1,)]  # no names at all


def address():
    """What NumPy reads at an address of the file's choice, if it is asked."""
    return {"data": (0x1000, False), "shape": (8,), "typestr": "|u1", "version": 3}


def attribute_files(name):
    """Files that give an attribute to each kind of object that has some."""
    from pellucid.serialization.tensors import Global, Pickler

    state = {name: address()}
    rebuild, hooks = Global("torch._utils", "_rebuild_tensor_v2"), OrderedDict()

    class Forged:
        def __init__(self, *parts):
            self.parts = parts

        def __reduce__(self):
            return self.parts

    class Own(Pickler):
        def reducer_override(self, value):
            if isinstance(value, pellucid.Tensor) and tensors and value is tensors[0]:
                _, arguments = super()._over_memory(value)
                kind = Global("torch", "Tensor")
                return Global("torch._tensor", "_rebuild_from_type_v2"), (rebuild, kind, arguments, state)
            return super().reducer_override(value)

    tensors = []
    parameter = Forged(Global("torch._utils", "_rebuild_parameter_with_state"), (pellucid.ones(2), False, hooks, state))
    yield "parameter", parameter, Pickler
    yield "ordered", Forged(Global("collections", "OrderedDict"), (), state), Pickler
    yield "plain", Forged(Global(Plain.__module__, "Plain"), (), state), Pickler
    yield "slots", Forged(Global(Plain.__module__, "Plain"), (), (None, state)), Pickler
    yield "module", Forged(Global("torch.nn.modules.module", "Module"), (), state), Pickler
    tensors.append(pellucid.ones(2))
    yield "tensor", tensors[0], Own


def attribute_file(value, pickler):
    from pellucid.serialization import _write

    text, file = io.BytesIO(), io.BytesIO()
    machine = pickler(text, 2)
    machine.dump(value)
    _write(file, text.getvalue(), list(machine.blocks.values()))
    return file.getvalue()


@pytest.mark.parametrize("name", [*SPECIAL, *ODD], ids=repr)
def test_no_special_name_is_ever_an_attribute_from_a_file(name):
    with safe_globals([Plain, pellucid.nn.Module]):
        for kind, value, pickler in attribute_files(name):
            with pytest.raises(UnpicklingError, match="may not be an attribute from a file"):
                print(kind, loaded(attribute_file(value, pickler)))


class Taking:
    """Takes its attributes out of whatever it is given."""

    def __setstate__(self, state):
        for each in state if type(state) is tuple else (state,):
            if each:
                vars(self).update(each)


class Mirrored(dict):
    """Its items are its attributes."""

    def __new__(cls, *args):
        made = super().__new__(cls, *args)
        made.__dict__ = made
        return made


WAYS = {
    "a dictionary": lambda state: state,
    "an OrderedDict": OrderedDict,
    "a Counter": Counter,
    "pairs": lambda state: list(state.items()),
    "a pair": lambda state: (OrderedDict(state), None),
    "slots": lambda state: (None, OrderedDict(state)),
    "three": lambda state: ({}, {}, state),
    "parameters": lambda state: {"_parameters": state},
    "buffers": lambda state: {"_buffers": OrderedDict(state)},
    "modules": lambda state: {"_modules": list(state.items())},
}


def instruction(value):
    """The instructions of a pickle that make a value."""
    return pickle.dumps(value, 2)[2:-1]


TABLES = ("parameters", "buffers", "modules")  # their members are attributes of the module


@pytest.mark.parametrize(
    ("kind", "way"),
    [*((Taking, way) for way in WAYS if way not in TABLES), *((pellucid.nn.Linear, way) for way in WAYS)],
    ids=lambda each: getattr(each, "__name__", each),
)
@pytest.mark.parametrize("name", ["__array_interface__", "__array_struct__", "_as_parameter_", "_", 7])
def test_no_class_that_is_allowed_takes_a_special_name_from_a_file(kind, way, name):
    """Whatever its __setstate__ makes of a state: NumPy would follow the address."""
    home = f"c{names.home(kind)}\n{kind.__name__}\n".encode()
    text = b"\x80\x02" + home + b")\x81" + instruction(WAYS[way]({name: address()})) + b"b."
    with safe_globals([kind]), pytest.raises(UnpicklingError):
        loaded(reader_fuzz.archive(text, {}))


ITEM = instruction("__array_interface__") + instruction(address())


@pytest.mark.parametrize(
    "rest", [b"}" + ITEM + b"s\x85R", b")R(" + ITEM + b"u", b")\x81" + ITEM + b"s"], ids=["called", "filled", "new"]
)
def test_items_that_are_attributes_are_looked_at_when_all_is_filled(rest):
    home = f"c{Mirrored.__module__}\nMirrored\n".encode()
    with safe_globals([Mirrored]), pytest.raises(UnpicklingError, match="may not be an attribute from a file"):
        loaded(reader_fuzz.archive(b"\x80\x02" + home + rest + b".", {}))


@pytest.mark.parametrize("name", ["note", "_private", "__half", "half__", "_Class__mangled", "größe", "_metadata"])
def test_plain_names_are_attributes_as_before(name):
    with safe_globals([Plain, pellucid.nn.Module]):
        for kind, value, pickler in attribute_files(name):
            back = loaded(attribute_file(value, pickler))
            assert getattr(back, name) == address(), kind
            if kind in ("tensor", "parameter"):
                assert np.asarray(back.detach()).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("kind", ["tensor", "parameter", "ordered"])
def test_an_attribute_from_a_file_hides_nothing_of_its_class(kind):
    files = {name: pair for name, *pair in attribute_files("note")}
    whole = type(loaded(attribute_file(*files[kind])))
    names = [name for name in dir(whole) if name.isidentifier() and not name[0] == name[-1] == "_"]
    assert len(names) > 5
    believed = {"array", "node", "window", "cut", "_grad", "backward", "items", "copy"}
    for name in [*names[::9], *believed.intersection(names)]:
        again = {each: pair for each, *pair in attribute_files(name)}
        back = loaded(attribute_file(*again[kind]))
        assert name not in back.__dict__ and getattr(whole, name, None) is not address()


def test_attributes_of_pytorch_files(torch):
    """Notes and names of all kinds: what PyTorch writes is read; `node` is a name of our own."""
    parameter, tensor = torch.nn.Parameter(torch.ones(2)), torch.ones(2)
    parameter._is_shared, parameter.note, tensor.node, tensor._tag = True, {"a": [1]}, 5, "x"
    tensor.requires_grad_()
    state = torch.nn.Linear(2, 2).state_dict()
    back = loaded(saved({"p": parameter, "t": tensor, "s": state}, torch))
    assert (back["p"]._is_shared, back["p"].note, back["t"]._tag) == (True, {"a": [1]}, "x")
    assert back["s"]._metadata == state._metadata and back["t"].node is not None and back["t"].requires_grad
