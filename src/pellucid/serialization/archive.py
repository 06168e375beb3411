"""PyTorch's zip archives: written so that damage shows, read so that a hostile one does no harm.

An archive holds `data.pkl` and one record per block of memory under `data/`. Ours also holds `pellucid/digests`, the
SHA-256 of every record, and ends in a comment with the SHA-256 of all the bytes before it; other readers ignore both.
"""

import hashlib
import io
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from pellucid.core.provenance import here
from pellucid.errors import explain

ALIGNMENT = 64
COMMENT = b"pellucid sha256 "
MOST_ENTRIES = 200_000
AT_ONCE = 1 << 20  # bytes that are read or summed in one call, which does not hear Ctrl-C; stays in the cache, too
DIGESTS = "pellucid/digests"


class DamagedFileError(RuntimeError):
    """A file whose bytes are not those that were written.

    >>> import pellucid as torch
    >>> import io
    >>> file = io.BytesIO()
    >>> torch.save({"weight": torch.ones(3)}, file)
    >>> damaged = file.getvalue().replace(torch.ones(3).numpy().tobytes(), torch.zeros(3).numpy().tobytes())
    >>> try:
    ...     torch.load(io.BytesIO(damaged))
    ... except torch.serialization.DamagedFileError as error:
    ...     print(str(error).splitlines()[0])
    <file>: the file is damaged in tensor 'weight'
    """


def damaged(path: str, why: str, tensor: str = "") -> DamagedFileError:
    """The error for a file that cannot be trusted."""
    what = f"{path}: the file is damaged" + (f" in tensor {tensor!r}" if tensor else "")
    return DamagedFileError(explain(what, "", why, "take another copy; nothing of this one was loaded"))


class Writer:
    """Writes the records of an archive, each beginning at a multiple of 64 bytes."""

    def __init__(self, out: BinaryIO, name: str = "archive") -> None:
        self.out, self.name = out, name
        self.zip = zipfile.ZipFile(out, "w", zipfile.ZIP_STORED, allowZip64=True)
        self.digests: dict[str, str] = {}

    def write(self, record: str, data: Any) -> None:
        """Add one record; its SHA-256 is remembered."""
        if record != DIGESTS and len(self.digests) > MOST_ENTRIES - 2:  # the list of digests comes last
            raise ValueError(
                explain(
                    f"a file may have at most {MOST_ENTRIES:,} blocks of memory",
                    str(here()),
                    "nobody could load a larger one here; the file that was there before is untouched",
                    "put tensors together: torch.stack or torch.cat, or views of one tensor",
                )
            )
        info = zipfile.ZipInfo(f"{self.name}/{record}", (1980, 1, 1, 0, 0, 0))
        wide = 20 if len(data) * 1.05 > zipfile.ZIP64_LIMIT else 0  # bytes of long sizes, for which zipfile decides so
        header = 30 + len(info.filename.encode()) + 4 + wide
        info.extra = _padding(-(self.out.tell() + header) % ALIGNMENT)
        self.zip.writestr(info, data)
        if record != DIGESTS:
            self.digests[record] = hashlib.sha256(data).hexdigest()

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            if kind is None:
                self.close()
        finally:
            self.zip.fp = None  # after an error it would else try to end the archive later, in a file that is closed

    def close(self) -> None:
        """End the archive with the digests."""
        lines = "".join(f"{digest} {record}\n" for record, digest in self.digests.items())
        self.write(DIGESTS, lines.encode())
        self.zip.comment = COMMENT + b"0" * 64
        self.zip.close()
        end = self.out.tell() - 64
        self.out.seek(0)
        digest = hashlib.sha256()
        left = end
        while left:
            chunk = self.out.read(min(left, 1 << 20))
            digest.update(chunk)
            left -= len(chunk)
        self.out.seek(end)
        self.out.write(digest.hexdigest().encode())


def _padding(size: int) -> bytes:
    """An extra field that PyTorch's writer uses too: two letters, a length, and so many bytes of Z."""
    return b"FB" + struct.pack("<H", size) + b"Z" * size


class Reader:
    """Reads the records of an archive after making sure that it is what it seems."""

    def __init__(self, data: bytes, path: str) -> None:
        self.data, self.path = data, path
        self._check_end()
        try:
            self.zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, NotImplementedError, struct.error, OSError, ValueError) as error:
            raise damaged(path, f"it is not a whole zip archive: {error}") from None
        self.infos = self._checked(self.zip.infolist())
        self.prefix = self._prefix()
        self.suspect: tuple[str, str, str] | None = None  # a record whose digest is wrong; its tensor has no name yet
        self.digests = self._digests()
        self.checked = self._check_whole()

    def _check_end(self) -> None:
        """The end of the archive says how many entries there are: look before anything is read by its word."""
        place = self.data.rfind(b"PK\x05\x06", max(0, len(self.data) - 65_557))
        if place < 0 or place + 22 > len(self.data):
            raise damaged(self.path, "the end of the zip archive is missing: the file was cut off")
        entries, size = struct.unpack("<HI", self.data[place + 10 : place + 16])
        wide = self.data.rfind(b"PK\x06\x06", max(0, place - 200), max(0, place - 44))  # a whole record, or none
        if wide >= 0:
            entries, size = struct.unpack("<QQ", self.data[wide + 32 : wide + 48])
            place = wide
        entries = max(entries, self.data.count(b"PK\x01\x02", max(0, place - size), place))  # zipfile does not count
        if entries > MOST_ENTRIES:
            raise damaged(self.path, f"it has {entries:,} entries, more than {MOST_ENTRIES:,}")

    def _checked(self, infos: list[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
        """Refuse what no writer of weights makes: compression, encryption, twins, overlaps, paths that lead out."""
        found: dict[str, zipfile.ZipInfo] = {}
        end = 0
        for info in sorted(infos, key=lambda each: each.header_offset):
            name = info.filename
            if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
                raise damaged(self.path, f"entry {name!r} is compressed, which files of weights are not")
            if info.flag_bits & 0x1:
                raise damaged(self.path, f"entry {name!r} is encrypted")
            if name in found:
                raise damaged(self.path, f"entry {name!r} is there twice")
            if name.startswith(("/", "\\")) or ".." in name.split("/") or (info.external_attr >> 28) == 0xA:
                raise damaged(self.path, f"entry {name!r} points outside of the archive")
            fits = end <= info.header_offset <= len(self.data) - 30
            end = self._start(info) + info.file_size if fits else 0
            if not fits or end > len(self.data):
                raise damaged(self.path, f"entry {name!r} overlaps another, or the end of the file")
            found[name] = info
        return found

    def _start(self, info: zipfile.ZipInfo) -> int:
        """Where the bytes of an entry begin: behind a header of 30 bytes, which says how long name and extra are."""
        return info.header_offset + 30 + sum(struct.unpack_from("<HH", self.data, info.header_offset + 26))

    def _prefix(self) -> str:
        names = [name for name in self.infos if name.endswith("/data.pkl") and name.count("/") == 1]
        if len(names) != 1:
            raise damaged(self.path, "it has no data.pkl: it was not written by torch.save")
        return names[0].removesuffix("data.pkl")

    def _digests(self) -> dict[str, str]:
        if self.prefix + DIGESTS not in self.infos:
            return {}
        try:
            lines = str(self._raw(DIGESTS), "utf-8").splitlines()
            return {record: digest for digest, record in (line.split(" ", 1) for line in lines)}
        except (ValueError, UnicodeDecodeError):
            raise damaged(self.path, "the list of digests cannot be read") from None

    def _check_whole(self) -> bool:
        """Compare the whole file with the digest in its comment; there is none if it is not one of ours."""
        comment = self.zip.comment
        if not comment.startswith(COMMENT):
            if self.digests:
                raise damaged(self.path, "the digest at its end is missing")
            return False
        end = len(self.data) - 64
        if digest_of(memoryview(self.data)[:end]).encode() == comment[len(COMMENT) :]:
            return True
        for record, digest in self.digests.items():
            if self.prefix + record not in self.infos:
                raise damaged(self.path, f"record {record!r} is missing")
            actual = digest_of(self._raw(record))
            if actual != digest:
                self.suspect = (record, digest, actual)
                return False
        raise damaged(self.path, "its bytes are not those that were written (SHA-256 of the whole file)")

    def read(self, record: str) -> bytes:
        """One record."""
        return bytes(self.view(record))

    def view(self, record: str) -> memoryview:
        """One record, checked by its CRC where no digest says more (a damaged one is read to find its tensor)."""
        if self.prefix + record not in self.infos:
            raise damaged(self.path, f"record {record!r} is missing")
        found = self._raw(record)
        if self.suspect is None and not self.checked:
            info, total = self.infos[self.prefix + record], 0
            for part in pieces(found):
                total = zlib.crc32(part, total)
            if len(found) != info.file_size or total != info.CRC:
                raise damaged(self.path, f"record {record!r}: its bytes do not have the sum (CRC-32) that was written")
        return found

    def _raw(self, record: str) -> memoryview:
        """The bytes of a record as they lie in the file, behind a name that must be the one in the directory."""
        info = self.infos[self.prefix + record]
        header = self.data[info.header_offset : (start := self._start(info))]
        written = info.orig_filename.encode("utf-8" if info.flag_bits & 0x800 else "cp437")
        if header[:4] != b"PK\x03\x04" or header[30 : 30 + int.from_bytes(header[26:28], "little")] != written:
            raise damaged(self.path, f"record {record!r} is not where the directory of the archive says")
        return memoryview(self.data)[start : start + info.file_size]

    def __contains__(self, record: str) -> bool:
        return self.prefix + record in self.infos


def pieces(data: memoryview) -> Iterator[memoryview]:
    """The same bytes, so many at a time that Ctrl-C is heard in between."""
    return (data[start : start + AT_ONCE] for start in range(0, len(data), AT_ONCE))


def fill(array: np.ndarray, data: memoryview, turned: int = 1) -> None:
    """Copy bytes into an array that has as many; numbers of so many bytes are turned round."""
    place, memory = 0, array.reshape(-1).view(np.uint8)
    for part in pieces(data):
        piece = memory[place : place + len(part)]
        piece[:] = np.frombuffer(part, np.uint8)
        if turned > 1:
            piece.view(f"u{turned}").byteswap(inplace=True)
        place += len(part)


def digest_of(data: memoryview) -> str:
    """The SHA-256 of some bytes."""
    digest = hashlib.sha256()
    for part in pieces(data):
        digest.update(part)
    return digest.hexdigest()


def read_file(source: Any) -> tuple[bytes, str]:
    """The bytes of a path or of an open file, and a name for errors."""
    if hasattr(source, "read"):
        return _read_all(source), str(getattr(source, "name", "<file>"))
    path = os.fspath(source)
    with open(path, "rb", buffering=0) as file:
        return _read_all(file), str(path)


def _read_all(file: Any) -> bytes:
    whole = io.BytesIO()
    while part := file.read(AT_ONCE):
        whole.write(part)
    return whole.getvalue()
