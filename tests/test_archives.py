"""Files in every form that pickle and zip have for them: all protocols, archives beyond the limits of plain zip."""

import copy
import io
import pickle
import struct
import zipfile

import numpy as np
import pytest

import pellucid
from pellucid.serialization import DamagedFileError, archive

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


def things():
    """Everything that has a way of its own to be written down, by name."""
    x = pellucid.arange(12.0).reshape(3, 4)
    pellucid.manual_seed(0)
    model = pellucid.nn.Sequential(pellucid.nn.Linear(3, 4), pellucid.nn.BatchNorm1d(4), pellucid.nn.PReLU())
    return {
        "tensor": x, "view": x[1:, ::2], "turned": x.t(), "leaf": pellucid.ones(2, requires_grad=True),
        "number": pellucid.tensor(2.5), "nothing": pellucid.empty(0, 3), "whole": pellucid.tensor([1, 2]),
        "half": pellucid.ones(3, dtype=pellucid.bfloat16),
        "truth": pellucid.tensor([True, False]), "complex": pellucid.tensor([1 + 2j]),
        "parameter": pellucid.nn.Parameter(pellucid.ones(2)), "frozen": pellucid.nn.Parameter(x, False),
        "buffer": pellucid.nn.Buffer(x), "expanded": pellucid.ones(1).expand(4), "state": model.state_dict(),
        "size": x.shape, "dtype": x.dtype, "device": x.device,
    }  # fmt: skip


def told(value):
    """All that can be told about a value, in plain Python."""
    if isinstance(value, pellucid.Tensor):
        shown = value.detach().to(pellucid.float64) if value.dtype is pellucid.bfloat16 else value.detach()
        return type(value).__name__, str(value.dtype), tuple(value.shape), value.requires_grad, shown.tolist()
    return {key: told(each) for key, each in value.items()} if isinstance(value, dict) else (type(value), value)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", things())
def test_every_pickle_protocol_brings_back_what_was_written(name, protocol):
    value = things()[name]
    back = pickle.loads(pickle.dumps(value, protocol))
    assert told(back) == told(value)
    if isinstance(back, pellucid.Tensor):
        with pellucid.no_grad():
            back.zero_()  # its memory is its own, and may be written
    assert told(value) == told(things()[name])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_pickle_protocol_keeps_what_is_shared(protocol):
    x = pellucid.arange(6.0)
    one, same, part = pickle.loads(pickle.dumps((x, x, x[2:]), protocol))
    assert one is same and part.tolist() == [2, 3, 4, 5]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_pickle_protocol_brings_back_a_model_that_trains_on(protocol):
    pellucid.manual_seed(0)
    model = pellucid.nn.Sequential(pellucid.nn.Linear(3, 2), pellucid.nn.Tanh())
    model[0].weight.requires_grad_(False)
    optimizer = pellucid.optim.Adam(model.parameters(), 0.1)
    x = pellucid.ones(4, 3)
    model(x).sum().backward()
    optimizer.step()
    other, state = pickle.loads(pickle.dumps((model, optimizer.state_dict()), protocol))
    assert [p.requires_grad for p in other.parameters()] == [False, True]
    again = pellucid.optim.Adam(other.parameters(), 0.1)
    again.load_state_dict(state)
    for each, stepping in ((model, optimizer), (other, again)):
        stepping.zero_grad()
        each(x).sum().backward()
        stepping.step()
    assert pellucid.equal(model(x), other(x))


@pytest.mark.parametrize("protocol", PROTOCOLS[1:])
@pytest.mark.parametrize("weights_only", [True, False])
def test_save_and_load_take_every_pickle_protocol(protocol, weights_only):
    value = {name: each for name, each in things().items() if name != "buffer"}
    file = io.BytesIO()
    pellucid.save(value, file, pickle_protocol=protocol)
    file.seek(0)
    back = pellucid.load(file, weights_only=weights_only)
    assert told(back) == told(value)


def test_a_protocol_that_nobody_could_load_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="pickle_protocol=0 cannot refer to the memory of tensors"):
        pellucid.save({"x": pellucid.ones(2)}, tmp_path / "x.pt", pickle_protocol=0)
    assert not list(tmp_path.iterdir())
    pellucid.save({"x": 1}, tmp_path / "x.pt", pickle_protocol=0)  # without tensors it can do what is asked
    assert pellucid.load(tmp_path / "x.pt") == {"x": 1}


@pytest.mark.parametrize("protocol", PROTOCOLS[1:])
def test_pytorch_loads_every_pickle_protocol(torch, protocol):
    file = io.BytesIO()
    pellucid.save(
        {"x": pellucid.arange(3.0), "p": pellucid.nn.Parameter(pellucid.ones(2))}, file, pickle_protocol=protocol
    )
    file.seek(0)
    back = torch.load(file, weights_only=False)
    assert back["x"].tolist() == [0, 1, 2] and type(back["p"]) is torch.nn.Parameter


def test_copies_are_deep():
    for name, value in things().items():
        assert told(copy.deepcopy(value)) == told(value), name


# --- beyond the limits of plain zip


def written(value) -> bytes:
    file = io.BytesIO()
    pellucid.save(value, file)
    return file.getvalue()


def test_archives_beyond_four_gigabytes_in_small(monkeypatch, torch):
    """Records and offsets above a limit are written as zip64; a low limit shows what 4 GB would."""
    value = {"large": pellucid.arange(1000.0), "small": pellucid.ones(2), "more": pellucid.arange(500)}
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 600)
    data = written(value)
    assert b"PK\x06\x06" in data and b"PK\x06\x07" in data  # the end of a zip64 archive, and where it is
    assert told(pellucid.load(io.BytesIO(data))) == told(value)
    monkeypatch.undo()
    assert told(pellucid.load(io.BytesIO(data))) == told(value)  # whoever reads knows no other limit than 4 GB
    theirs = torch.load(io.BytesIO(data))
    assert theirs["large"].tolist() == value["large"].tolist() and theirs["more"].tolist() == value["more"].tolist()


@pytest.mark.parametrize("limit", [600, None])
def test_every_record_begins_at_a_multiple_of_64_bytes(limit, monkeypatch):
    if limit is not None:
        monkeypatch.setattr(zipfile, "ZIP64_LIMIT", limit)
    data = written(
        {"a": pellucid.arange(1000.0), "b": pellucid.ones(3), "c": pellucid.ones(0), "d": pellucid.ones(777)}
    )
    infos = zipfile.ZipFile(io.BytesIO(data)).infolist()
    assert len(infos) > 8
    for info in infos:
        lengths = struct.unpack("<HH", data[info.header_offset + 26 : info.header_offset + 30])
        assert (info.header_offset + 30 + sum(lengths)) % 64 == 0, info.filename


def test_more_entries_than_plain_zip_counts(monkeypatch):
    """65 536 entries need zip64 too; the count is then in another place."""
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 7)
    data = written([pellucid.full((1,), float(i)) for i in range(40)])
    assert b"PK\x06\x06" in data
    assert [x.item() for x in pellucid.load(io.BytesIO(data))] == list(range(40))


@pytest.mark.parametrize("place", ["plain", "wide"])
def test_an_archive_that_claims_too_many_entries_is_refused(place, monkeypatch):
    monkeypatch.setattr(archive, "MOST_ENTRIES", 5)
    if place == "wide":
        monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    data = bytearray(written({"x": pellucid.ones(100)}))
    if place == "wide":  # the plain count says nothing then
        at = data.rfind(b"PK\x05\x06")
        data[at + 8 : at + 12] = b"\0\0\0\0"
    with pytest.raises(DamagedFileError, match="entries, more than 5"):
        pellucid.load(io.BytesIO(bytes(data)))


@pytest.mark.slow
def test_a_file_of_more_than_four_gigabytes(tmp_path):
    """One record above 4 GB and one behind it."""
    path = tmp_path / "large.pt"
    large = pellucid.from_numpy(np.zeros((1 << 32) + 64, np.uint8))
    large[-1] = 7
    pellucid.save({"large": large, "behind": pellucid.arange(3)}, path)
    del large
    back = pellucid.load(path)
    assert back["behind"].tolist() == [0, 1, 2] and back["large"].shape == ((1 << 32) + 64,)
    assert back["large"][-1] == 7 and back["large"][0] == 0
