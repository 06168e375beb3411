"""save_file and load_file: both ways with safetensors itself, every flipped bit noticed, hostile headers refused."""

import builtins
import json
import os
import random
import struct
import sys
import time

import numpy as np
import pytest

import pellucid
from pellucid.serialization import DamagedFileError
from pellucid.serialization import safetensors as st
from pellucid.serialization.safetensors import KINDS, SEAL, load, save

package = pytest.importorskip("safetensors", reason="needs pip install pellucid[safetensors]")
RECENT = {"complex64", "uint16", "uint32", "uint64"}  # types that older releases of the package do not know
OLD = tuple(map(int, package.__version__.split(".")[:2])) < (0, 8)

SOAK = bool(os.environ.get("PELLUCID_SOAK"))
SHAPES = [(), (0,), (3,), (2, 0, 3), (2, 3), (1, 1, 1, 4), (5, 1)]
DTYPES = [str(pellucid.dtypes.from_numpy_dtype(kind)).removeprefix("torch.") for kind in KINDS.values()]
DTYPES = [dtype for dtype in DTYPES if not OLD or dtype not in RECENT]


def drawn(library, dtype, shape):
    """Some values of a type, equal in both libraries."""
    values = np.random.default_rng(len(shape)).integers(0, 2 if dtype == "bool" else 90, shape)
    return library.as_tensor(values).to(getattr(library, dtype))


def plain(tensors):
    def values(tensor):
        tensor = tensor.float() if "bfloat16" in str(tensor.dtype) else tensor
        return tensor.tolist()

    return {name: (str(t.dtype), tuple(t.shape), values(t)) for name, t in tensors.items()}


def everything(library):
    return {f"{dtype} {shape}": drawn(library, dtype, shape) for dtype in DTYPES for shape in SHAPES}


# --- round trips


def test_round_trip(tmp_path):
    tensors = everything(pellucid)
    pellucid.save_file(tensors, tmp_path / "a.safetensors", {"made by": "us \U0001f40d"})
    for back in (
        pellucid.load_file(tmp_path / "a.safetensors"),
        load(save(tensors)),
        load(save(tensors), verify=False),
    ):
        assert plain(back) == {name: plain(tensors)[name] for name in back}
        assert back.keys() == tensors.keys()
    assert os.listdir(tmp_path) == ["a.safetensors"]


def test_what_is_loaded_is_ours_alone():
    tensors = load(save({"a": pellucid.ones(3, requires_grad=True), "b": pellucid.zeros(2)}))
    tensors["a"].add_(1)
    assert tensors["a"].tolist() == [2.0] * 3 and tensors["b"].tolist() == [0.0] * 2
    assert not tensors["a"].requires_grad
    assert load(save({})) == {}


def test_equal_tensors_give_equal_files():
    assert save({"b": pellucid.ones(3), "a": pellucid.ones(3)}) == save({"a": pellucid.ones(3), "b": pellucid.ones(3)})


def test_a_model_goes_through(tmp_path):
    def model():
        return pellucid.nn.Sequential(pellucid.nn.Linear(3, 4), pellucid.nn.BatchNorm1d(4), pellucid.nn.Linear(4, 2))

    first, second = model(), model()
    pellucid.save_file(first.state_dict(), tmp_path / "model.safetensors")
    second.load_state_dict(pellucid.load_file(tmp_path / "model.safetensors"))
    assert plain(first.state_dict()) == plain(second.state_dict())


def test_safetensors_reads_our_files(torch, tmp_path):
    import safetensors
    import safetensors.torch

    pellucid.save_file(everything(pellucid), tmp_path / "a", {"step": "3"})
    assert plain(safetensors.torch.load_file(tmp_path / "a")) == plain(everything(torch))
    with safetensors.safe_open(tmp_path / "a", "pt") as file:
        assert file.metadata()["step"] == "3"


def test_we_read_files_of_safetensors(torch, tmp_path):
    import safetensors.torch

    safetensors.torch.save_file(everything(torch), tmp_path / "a", {"format": "pt"})
    assert plain(pellucid.load_file(tmp_path / "a")) == plain(everything(pellucid))
    assert plain(load(safetensors.torch.save(everything(torch)))) == plain(everything(pellucid))


def tied(lib, value):
    model = lib.nn.ModuleDict({"embed": lib.nn.Embedding(3, 2), "head": lib.nn.Linear(2, 3)})
    model["head"].weight = model["embed"].weight
    with lib.no_grad():
        model["embed"].weight.fill_(value)
        model["head"].bias.fill_(value)
    return model


def test_models_with_tied_weights_go_both_ways(torch, tmp_path):
    import safetensors.torch

    from pellucid.serialization import safetensors as ours

    ours.save_model(tied(pellucid, 1.0), tmp_path / "ours", {"step": "3"})
    safetensors.torch.save_model(tied(torch, 2.0), tmp_path / "theirs", {"step": "3"})
    opened = safetensors.safe_open
    with opened(tmp_path / "ours", "pt") as mine, opened(tmp_path / "theirs", "pt") as its:
        assert its.metadata().items() <= mine.metadata().items() and list(mine.keys()) == list(its.keys())
    for path, value in (("ours", 1.0), ("theirs", 2.0)):
        for lib, load_model in ((pellucid, ours.load_model), (torch, safetensors.torch.load_model)):
            model = tied(lib, 0.0)
            assert load_model(model, tmp_path / path) == (set(), [])
            assert model["head"].weight is model["embed"].weight
            assert (model["head"].weight == value).all() and (model["head"].bias == value).all()


def test_a_model_that_does_not_fit_is_refused_by_name(torch, tmp_path):
    import safetensors.torch

    from pellucid.serialization import safetensors as ours

    for lib, module in ((pellucid, ours), (torch, safetensors.torch)):
        module.save_model(lib.nn.Linear(2, 3), tmp_path / "a")
        other = lib.nn.Linear(2, 3, bias=False)
        assert module.load_model(other, tmp_path / "a", strict=False) == (set(), ["bias"])
        with pytest.raises(RuntimeError, match=r'(?s)Error.*for Linear:.*Unexpected key.*: "bias"'):
            module.load_model(other, tmp_path / "a")
        module.save_model(other, tmp_path / "a")
        with pytest.raises(RuntimeError, match=r'(?s)Error.*for Linear:.*Missing key.*: "bias"'):
            module.load_model(lib.nn.Linear(2, 3), tmp_path / "a")


# --- what is refused when saving


def refusals():
    x = pellucid.arange(6.0)
    return [
        (3, None, ValueError, "Expected a dict"),
        ({"a": 1}, None, ValueError, "Key `'a'` is invalid"),
        ({1: x}, None, TypeError, "names of tensors are text"),
        ({"__metadata__": x}, None, TypeError, "is taken"),
        ({"a": x, "b": x}, None, RuntimeError, "share memory: 'a', 'b'"),
        (
            {"first": x[:4], "other": pellucid.ones(2), "last": x[3:]},
            None,
            RuntimeError,
            "share memory: 'first', 'last'",
        ),
        ({"a": pellucid.ones(2, 3).t()}, None, ValueError, "non contiguous tensor: 'a'"),
        ({"a": x.to(pellucid.complex128)}, None, TypeError, "torch.complex128, which safetensors does not know"),
        ({"a": x}, {"a": 1}, TypeError, "metadata"),
        ({"a": x}, ["a"], TypeError, "metadata"),
        ({"a": x}, {"mine": f"{SEAL} 1"}, ValueError, "mine"),
        ({"a\x1b[2J": x, "b": x}, None, RuntimeError, r"'a\\x1b\[2J'"),
    ]


@pytest.mark.parametrize("case", range(len(refusals())))
def test_refused_when_saving(case, tmp_path):
    tensors, metadata, kind, text = refusals()[case]
    with pytest.raises(kind, match=text):
        pellucid.save_file(tensors, tmp_path / "a", metadata)
    assert os.listdir(tmp_path) == []


def test_neighbours_in_memory_are_not_shared():
    x = pellucid.arange(6.0)
    assert plain(load(save({"a": x[:3], "b": x[3:]})))["b"][2] == [3.0, 4.0, 5.0]


def test_without_the_package_the_way_to_get_it_is_named(monkeypatch):
    usual = builtins.__import__

    def missing(name, *args):
        if name.startswith("safetensors"):
            raise ImportError(name)
        return usual(name, *args)

    data = save({"a": pellucid.ones(2)})
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r"pip install pellucid\[safetensors\]"):
        save({"a": pellucid.ones(2)})
    assert load(data)["a"].tolist() == [1.0, 1.0]


def test_only_the_cpu():
    with pytest.raises((RuntimeError, AssertionError), match="cuda"):
        pellucid.load_file("nowhere", device="cuda")


# --- damage


def sealed(seed=0):
    pellucid.manual_seed(seed)
    return save({
        "encoder.weight": pellucid.rand(40, 40), "encoder.bias": pellucid.rand(40), "größe": pellucid.arange(3),
        "half": pellucid.rand(700).bfloat16(), "truth": pellucid.tensor([True, False]), "nothing": pellucid.empty(0),
    }, {"note": 'a "quoted" note', "other": "x"})  # fmt: skip


def damage(data, other, kind, draw):
    i = draw.randrange(len(data))
    if kind == "flip":
        return data[:i] + bytes([data[i] ^ (1 << draw.randrange(8))]) + data[i + 1 :]
    if kind == "flip in header":
        return damage(data[:1200], b"", "flip", draw) + data[1200:]
    if kind == "truncate":
        return data[:i]
    if kind == "lengthen":
        return data + bytes(draw.randrange(1, 100))
    if kind == "zero":
        return data[: i // 512 * 512] + bytes(len(data[i // 512 * 512 :][:512])) + data[i // 512 * 512 + 512 :]
    return data[:i] + other[i:]


@pytest.mark.parametrize("kind", ["flip", "flip in header", "truncate", "lengthen", "zero", "splice"])
def test_damage_is_always_noticed(kind):
    data, other, draw = sealed(), sealed(1), random.Random(kind)
    assert load(data) and load(other)
    for _ in range(10_000 if SOAK else 500):
        broken = damage(data, other, kind, draw)
        if broken not in (data, other):
            with pytest.raises(DamagedFileError, match="<bytes>: the file is damaged"):
                load(broken)


def test_every_bit_of_the_header_counts():
    data = save({"größe": pellucid.ones(2)}, {"é\x01": "\u202e"})
    for i in range(8 * (len(data) if SOAK else 120)):
        broken = bytearray(data)
        broken[i // 8] ^= 1 << i % 8
        with pytest.raises(DamagedFileError):
            load(bytes(broken))


def test_damage_names_file_tensor_and_digests(tmp_path):
    path = tmp_path / "model.safetensors"
    pellucid.save_file({"encoder.weight": pellucid.ones(100), "bias": pellucid.zeros(3)}, path)
    data = bytearray(path.read_bytes())
    data[data.find(np.ones(100, np.float32).tobytes()) + 40] ^= 1
    path.write_bytes(data)
    with pytest.raises(
        DamagedFileError, match=r"(?s)model.safetensors.*'encoder.weight'.*SHA-256 is \w{64}, \w{64} was"
    ):
        pellucid.load_file(path)
    assert pellucid.load_file(path, verify=False)["bias"].tolist() == [0.0] * 3


# --- hostile headers


def file_of(header, body=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(text) if length is None else length) + text + body


def one(dtype="F32", shape=(2,), offsets=(0, 8), **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets), **more}


EIGHT = bytes(8)
HOSTILE = {
    "empty": b"",
    "short prefix": bytes(5),
    "length of all ones": b"\xff" * 8 + b"{}",
    "length of 2**63": struct.pack("<Q", 2**63) + b"{}",
    "length beyond the end": file_of({"a": one()}, EIGHT, 10_000),
    "length of a header of 200 MB": file_of(b"{}", b"", 200_000_000),
    "length in the middle": file_of({"a": one()}, EIGHT, 20),
    "no header": file_of(b""),
    "an array": file_of(b"[]"),
    "white space first": file_of(b' {"a":1}'),
    "not UTF-8": file_of(b'{"\xff\xfe":1}'),
    "not JSON": file_of(b"{a:1}"),
    "something behind": file_of(b"{}{}"),
    "NUL behind": file_of(b"{}\x00\x00"),
    "raw control character": file_of(b'{"a\x01":{}}'),
    "twice the same tensor": file_of(b'{"a":%b,"a":%b}' % ((json.dumps(one()).encode(),) * 2), EIGHT),
    "twice the same field": file_of(b'{"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}', EIGHT),
    "twice the metadata": file_of(b'{"__metadata__":{"a":"b"},"__metadata__":{"a":"c"}}'),
    "deep arrays": file_of(b'{"a":' + b"[" * 500_000 + b"]" * 500_000 + b"}"),
    "deep objects": file_of(b'{"a":' * 300_000 + b"1" + b"}" * 300_000),
    "deep shape": file_of(b'{"a":{"dtype":"F32","data_offsets":[0,8],"shape":%b}}' % (b"[" * 900 + b"]" * 900), EIGHT),
    "NaN": file_of(b'{"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,8]}}', EIGHT),
    "fraction": file_of(b'{"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}}', EIGHT),
    "exponent": file_of(b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8e0]}}', EIGHT),
    "5,000 digits": file_of(b'{"a":{"dtype":"F32","shape":[%b],"data_offsets":[0,8]}}' % (b"9" * 5000), EIGHT),
    "truth as size": file_of({"a": one("U8", (True,), (0, 1))}, b"\0"),
    "text as size": file_of({"a": one(shape=("2",))}, EIGHT),
    "negative size": file_of({"a": one(shape=(-2,))}, EIGHT),
    "two negative sizes": file_of({"a": one(shape=(-2, -1))}, EIGHT),
    "sizes that overflow": file_of({"a": one(shape=(2**32, 2**32), offsets=(0, 0))}),
    "nothing of a huge kind": file_of({"a": one(shape=(0, 2**62, 2**62), offsets=(0, 0))}),
    "100 dimensions": file_of({"a": one(shape=(1,) * 100, offsets=(0, 4))}, bytes(4)),
    "a million dimensions": file_of({"a": one(shape=(1,) * 1_000_000, offsets=(0, 4))}, bytes(4)),
    "negative offset": file_of({"a": one(offsets=(-8, 0))}, EIGHT),
    "offsets backwards": file_of({"a": one(offsets=(8, 0))}, EIGHT),
    "offset beyond the end": file_of({"a": one(offsets=(0, 8))}, bytes(4)),
    "far offset": file_of({"a": one(offsets=(2**62, 2**62 + 8))}, EIGHT),
    "three offsets": file_of({"a": one(offsets=(0, 8, 8))}, EIGHT),
    "offsets in a table": file_of({"a": {**one(), "data_offsets": {"0": 0}}}, EIGHT),
    "size and shape differ": file_of({"a": one(shape=(3,))}, EIGHT),
    "overlap": file_of({"a": one(), "b": one(offsets=(4, 12))}, bytes(12)),
    "the same bytes twice": file_of({"a": one(), "b": one()}, EIGHT),
    "hole": file_of({"a": one(), "b": one(offsets=(16, 24))}, bytes(24)),
    "hole at the front": file_of({"a": one(offsets=(8, 16))}, bytes(16)),
    "bytes left over": file_of({"a": one()}, bytes(16)),
    "bytes and no tensor": file_of({}, EIGHT),
    "unknown type": file_of({"a": one("F31")}, EIGHT),
    "type of small letters": file_of({"a": one("f32")}, EIGHT),
    "type of 4 bits": file_of({"a": one("F4", (16,))}, EIGHT),
    "type in a list": file_of({"a": one(["F32"])}, EIGHT),
    "tensor is a number": file_of({"a": 3}, EIGHT),
    "missing field": file_of({"a": {"dtype": "F32", "shape": [2]}}, EIGHT),
    "one field more": file_of({"a": one(path="/etc/passwd")}, EIGHT),
    "metadata is a list": file_of({"__metadata__": ["a"]}),
    "metadata of numbers": file_of({"__metadata__": {"a": 1}}),
    "metadata of tables": file_of({"__metadata__": {"a": {"b": "c"}}}),
    "half a letter": file_of({"\ud800": one()}, EIGHT),
    "truth that is 7": file_of({"a": one("BOOL", (1,), (0, 1))}, b"\x07"),
    "a seal without digests": file_of({"__metadata__": {SEAL: SEAL}}),
    "a seal of nonsense": file_of({"__metadata__": {SEAL: f"{SEAL} x y z"}}),
    "a seal of another key": file_of({"__metadata__": {"other": f"{SEAL} {'0' * 64}"}}),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_headers_are_refused(name):
    start = time.perf_counter()
    with pytest.raises(DamagedFileError) as refused:
        load(HOSTILE[name])
    assert time.perf_counter() - start < 1
    assert len(str(refused.value)) < 1_500 and str(refused.value).replace("\n", "").isprintable()


ODD_NAMES = [
    "../../etc/passwd", "/etc/passwd", "a/b", "NUL \0", "\x1b[2J", "\u202egnp.exe", "<img src=x onerror=alert(1)>",
    "", ".", "C:\\con", "a\nb", "x" * 5_000, "\u2028", "\x7f", "é", "e\u0301", "__class__", "\U0001f40d",
]  # fmt: skip


def test_odd_names_are_keys_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tensors = {name: pellucid.full((2,), float(i)) for i, name in enumerate(ODD_NAMES)}
    assert plain(load(save(tensors))) == {name: plain(tensors)[name] for name in load(save(tensors))}
    assert load(save(tensors)).keys() == tensors.keys()
    assert os.listdir(tmp_path) == []
    for name in ODD_NAMES:
        broken = save({name: pellucid.ones(2)})[:-1] + b"\xff"
        with pytest.raises(DamagedFileError) as refused:
            load(broken)
        assert len(str(refused.value)) < 1_500 and str(refused.value).replace("\n", "").isprintable()


def test_many_empty_tensors_load_quickly():
    empty = json.dumps(one(shape=(0,), offsets=(0, 0)))
    data = file_of(("{" + ",".join(f'"t{i}":{empty}' for i in range(200_000)) + "}").encode())
    start = time.process_time()
    json.loads(data[8:])
    parsed = time.process_time()
    assert len(load(data)) == 200_000
    # Three seconds; on a machine that is busy with other things, not much more than it takes to read the JSON.
    assert time.process_time() - parsed < max(3, 6 * (parsed - start))


def test_a_file_that_shrinks_while_it_is_read(tmp_path):
    from pellucid.serialization.safetensors import _read

    data = save({"a": pellucid.ones(2_000)})
    (tmp_path / "a").write_bytes(data[:-100])
    with open(tmp_path / "a", "rb", buffering=0) as file, pytest.raises(DamagedFileError, match="became shorter"):
        _read(file, len(data), "a", True)
    (tmp_path / "a").write_bytes(data[:50])
    with open(tmp_path / "a", "rb", buffering=0) as file, pytest.raises(DamagedFileError, match="became shorter"):
        _read(file, len(data), "a", True)


def test_a_header_is_read_only_up_to_a_bound(monkeypatch):
    data = save({"a": pellucid.ones(2)})
    length = int.from_bytes(data[:8], "little")
    monkeypatch.setattr("pellucid.serialization.safetensors.LARGEST_HEADER", length)
    assert load(data)["a"].tolist() == [1.0, 1.0]
    monkeypatch.setattr("pellucid.serialization.safetensors.LARGEST_HEADER", length - 1)
    with pytest.raises(DamagedFileError, match=f"its header has {length:,} bytes, more than {length - 1:,}"):
        load(data)


def test_what_an_old_release_of_the_package_refuses_is_told(monkeypatch, tmp_path):
    import safetensors.numpy

    def refuse(*_, **__):
        raise safetensors.SafetensorError("unknown dtype")

    monkeypatch.setattr(safetensors.numpy, "save", refuse)
    with pytest.raises(TypeError, match=r"cannot be written[\s\S]*refuses it: unknown dtype[\s\S]*update the package"):
        pellucid.save_file({"a": pellucid.ones(2)}, tmp_path / "a")
    assert os.listdir(tmp_path) == []


def test_a_script_that_imports_safetensors_torch_gets_ours(tmp_path):
    pytest.importorskip("safetensors")
    from pellucid.shim import as_torch

    path = tmp_path / "weights.safetensors"
    with as_torch() as torch:
        from safetensors.torch import load_file, save_file

        save_file({"weight": torch.ones(2, 3)}, path)
        assert load_file(path)["weight"].sum().item() == 6.0
    assert load_file.__module__ == "pellucid.serialization.safetensors"
    assert "safetensors.torch" not in sys.modules or not sys.modules["safetensors.torch"].__name__.startswith(
        "pellucid"
    )


def test_a_header_is_sorted_in_pieces(monkeypatch):
    """One call to sort a million entries would not hear Ctrl-C for a second; the order is that of one call."""
    names = [f"{i * 7919 % 101:x}" for i in range(101)]
    tensors = {name: pellucid.full((1,), float(i)) for i, name in enumerate(names)}
    data, sizes = st.save(tensors), []

    def watched(values, key=None):
        values = list(values)
        sizes.append(len(values))
        return sorted(values, key=key)

    monkeypatch.setattr(st, "SORTED_AT_ONCE", 8)
    monkeypatch.setattr(st, "sorted", watched, raising=False)
    loaded = st.load(data)
    assert {name: tensor.item() for name, tensor in loaded.items()} == {name: i for i, name in enumerate(names)}
    assert max(sizes) <= 8 and sum(sizes) == 2 * len(names)  # by their places, and by their names for the digests
    assert list(st.in_order([3, 1, 2] * 50)) == sorted([3, 1, 2] * 50) and list(st.in_order([])) == []
