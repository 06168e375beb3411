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
    if place == "wide":
        monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    data = bytearray(written({"x": pellucid.ones(100)}))
    if place == "wide":  # the plain count says nothing then
        at = data.rfind(b"PK\x05\x06")
        data[at + 8 : at + 12] = b"\0\0\0\0"
    monkeypatch.setattr(archive, "MOST_ENTRIES", 5)
    with pytest.raises(DamagedFileError, match="entries, more than 5"):
        pellucid.load(io.BytesIO(bytes(data)))


@pytest.mark.parametrize("claim", [0, 1])
def test_entries_are_counted_whatever_the_archive_claims(claim, monkeypatch):
    """Python's zipfile reads all that its directory holds."""
    data = bytearray(written([pellucid.ones(1), pellucid.ones(2)]))
    at = data.rfind(b"PK\x05\x06")
    data[at + 8 : at + 12] = struct.pack("<HH", claim, claim)
    monkeypatch.setattr(archive, "MOST_ENTRIES", 5)
    with pytest.raises(DamagedFileError, match="it has 8 entries, more than 5"):
        pellucid.load(io.BytesIO(bytes(data)))


def test_the_end_of_an_archive_cut_short():
    """Half of the record that only large archives have, right before the end."""
    for length in range(4, 60):
        for after in (b"", b"PK\x05\x06" + b"\0" * 18):
            with pytest.raises(DamagedFileError):
                pellucid.load(io.BytesIO(b"PK" + b"PK\x06\x06" + b"\xff" * (length - 4) + after))


@pytest.mark.parametrize("way", ["path", "file"])
def test_what_could_not_be_loaded_is_not_saved(way, monkeypatch, tmp_path):
    """More blocks of memory than `load` reads: an error, and the file that was there stays."""
    path = tmp_path / "many.pt"
    pellucid.save(1, path)
    monkeypatch.setattr(archive, "MOST_ENTRIES", 8)
    for count in range(6):
        tensors = [pellucid.ones(1) for _ in range(count)]
        file = io.BytesIO()
        if count <= 2:  # and the pickle, its format, alignment, order of bytes and version, and the digests
            pellucid.save(tensors, file if way == "file" else path)
            assert len(pellucid.load(io.BytesIO(file.getvalue()) if way == "file" else path)) == count
            continue
        with pytest.raises(ValueError, match="at most 8 blocks of memory"):
            pellucid.save(tensors, file if way == "file" else path)
        assert file.getvalue() == b""
    if way == "path":
        assert len(pellucid.load(path)) == 2 and [each.name for each in tmp_path.iterdir()] == ["many.pt"]


def test_blocks_do_not_overlap():
    """A header that says that its entry begins later than it does: inside of the next one, or beyond the end."""
    data = written([pellucid.ones(64), pellucid.zeros(64)])
    infos = {info.filename: info for info in zipfile.ZipFile(io.BytesIO(data)).infolist()}
    for step in (64, 300, 60_000):
        forged = bytearray(data[:-80])  # without the digest at its end
        at = forged.rfind(b"PK\x05\x06") + 20
        forged[at : at + 2] = b"\0\0"
        forged = forged.replace(b"pellucid/digests", b"pellucid/nothing")
        place = infos["archive/data/0"].header_offset + 28
        extra = int.from_bytes(forged[place : place + 2], "little")
        forged[place : place + 2] = struct.pack("<H", extra + step)
        with pytest.raises(DamagedFileError, match="overlaps another"):
            pellucid.load(io.BytesIO(bytes(forged)))


def test_an_open_file_is_read_in_pieces():
    """One call that reads all of a large file does not hear Ctrl-C; and a read may give less than was asked for."""
    asked = []

    class Slow(io.BytesIO):
        def read(self, size=-1):
            asked.append(size)
            return super().read(min(size, 1_000))

    assert pellucid.load(Slow(written(pellucid.arange(5_000)))).shape == (5_000,)
    assert len(asked) > 40 and set(asked) == {archive.AT_ONCE}


def test_reading_in_small_pieces_is_the_same(monkeypatch, torch):
    """What is copied in one call does not hear Ctrl-C: large blocks are copied piece by piece."""
    value = {str(kind): pellucid.arange(-50, 50).to(kind) for kind in (
        pellucid.float64, pellucid.float32, pellucid.int16, pellucid.int8, pellucid.bool, pellucid.bfloat16,
        pellucid.complex128, pellucid.complex64)}  # fmt: skip
    whole = written(value)
    older = io.BytesIO()
    torch.save({"x": torch.arange(100.0)}, older, _use_new_zipfile_serialization=False)
    monkeypatch.setattr(archive, "AT_ONCE", 48)
    assert told(pellucid.load(io.BytesIO(whole))) == told(value)
    assert pellucid.load(io.BytesIO(older.getvalue()))["x"].tolist() == list(range(100))


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
