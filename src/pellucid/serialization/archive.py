"""PyTorch's zip archives: written so that damage shows, read so that a hostile one does no harm.

An archive holds `data.pkl` and one record per block of memory under `data/`. Ours also holds `pellucid/digests`, the
SHA-256 of every record, and ends in a comment with the SHA-256 of all the bytes before it; other readers ignore both.
"""

import hashlib
import io
import os
import struct
import zipfile
from typing import Any, BinaryIO

from pellucid.errors import explain

ALIGNMENT = 64
COMMENT = b"pellucid sha256 "
MOST_ENTRIES = 200_000
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
        info = zipfile.ZipInfo(f"{self.name}/{record}", (1980, 1, 1, 0, 0, 0))
        header = 30 + len(info.filename.encode()) + 4
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
        self._check_whole()

    def _check_end(self) -> None:
        """The end of the archive says how many entries there are: look before anything is read by its word."""
        place = self.data.rfind(b"PK\x05\x06", max(0, len(self.data) - 65_557))
        if place < 0 or place + 22 > len(self.data):
            raise damaged(self.path, "the end of the zip archive is missing: the file was cut off")
        entries = struct.unpack("<H", self.data[place + 10 : place + 12])[0]
        wide = self.data.rfind(b"PK\x06\x06", max(0, place - 200), place)
        if wide >= 0:
            entries = struct.unpack("<Q", self.data[wide + 32 : wide + 40])[0]
        if entries > MOST_ENTRIES:
            raise damaged(self.path, f"it claims {entries:,} entries, more than {MOST_ENTRIES:,}")

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
            if info.header_offset < end or info.header_offset + 30 + info.file_size > len(self.data):
                raise damaged(self.path, f"entry {name!r} overlaps another, or the end of the file")
            end = info.header_offset + 30 + info.file_size
            found[name] = info
        return found

    def _prefix(self) -> str:
        names = [name for name in self.infos if name.endswith("/data.pkl") and name.count("/") == 1]
        if len(names) != 1:
            raise damaged(self.path, "it has no data.pkl: it was not written by torch.save")
        return names[0].removesuffix("data.pkl")

    def _digests(self) -> dict[str, str]:
        if self.prefix + DIGESTS not in self.infos:
            return {}
        try:
            lines = self._raw(DIGESTS).decode().splitlines()
            return {record: digest for digest, record in (line.split(" ", 1) for line in lines)}
        except (ValueError, UnicodeDecodeError):
            raise damaged(self.path, "the list of digests cannot be read") from None

    def _check_whole(self) -> None:
        """Compare the whole file with the digest in its comment, if one of ours wrote it."""
        comment = self.zip.comment
        if not comment.startswith(COMMENT):
            if self.digests:
                raise damaged(self.path, "the digest at its end is missing")
            return
        end = len(self.data) - 64
        if hashlib.sha256(memoryview(self.data)[:end]).hexdigest().encode() == comment[len(COMMENT) :]:
            return
        for record, digest in self.digests.items():
            if self.prefix + record not in self.infos:
                raise damaged(self.path, f"record {record!r} is missing")
            actual = hashlib.sha256(self._raw(record)).hexdigest()
            if actual != digest:
                self.suspect = (record, digest, actual)
                return
        raise damaged(self.path, "its bytes are not those that were written (SHA-256 of the whole file)")

    def read(self, record: str) -> bytes:
        """One record, checked by its CRC (unless it is known to be damaged: then its tensor is being looked for)."""
        if self.prefix + record not in self.infos:
            raise damaged(self.path, f"record {record!r} is missing")
        if self.suspect is not None:
            return self._raw(record)
        try:
            return self.zip.read(self.infos[self.prefix + record])
        except (zipfile.BadZipFile, NotImplementedError, OSError, EOFError, struct.error, ValueError) as error:
            raise damaged(self.path, f"record {record!r}: {error}") from None

    def _raw(self, record: str) -> bytes:
        """The bytes of a record as they lie in the file."""
        info = self.infos[self.prefix + record]
        lengths = self.data[info.header_offset + 26 : info.header_offset + 30]
        start = info.header_offset + 30 + sum(struct.unpack("<HH", lengths))
        return self.data[start : start + info.file_size]

    def __contains__(self, record: str) -> bool:
        return self.prefix + record in self.infos


def read_file(source: Any) -> tuple[bytes, str]:
    """The bytes of a path or of an open file, and a name for errors."""
    if hasattr(source, "read"):
        return source.read(), str(getattr(source, "name", "<file>"))
    path = os.fspath(source)
    with open(path, "rb") as file:
        return file.read(), str(path)
