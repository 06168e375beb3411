"""Writing a file so that it is there whole or not at all: a temporary file, fsync, rename, fsync of the folder.

The temporary file is locked while it is written, and a lock dies with its process: so the next save can tell what a
killed one left behind, and remove it.
"""

import errno
import io
import os
import re
import secrets
import shutil
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

from pellucid.errors import explain

try:
    import fcntl
except ImportError:  # pragma: no cover (Windows has none: nothing is locked there, and nothing removed)
    fcntl = None  # type: ignore[assignment]

ATTEMPTS = 100  # to have a file before a sweep has it; a second one is hardly ever needed


def write_whole(path: Any, write: Callable[[BinaryIO], object], size: int = 0) -> None:
    """Write a file through a function; a crash at any moment leaves the old file or the new one.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "note"
    >>> write_whole(file, lambda out: out.write(b"kept"))
    >>> file.read_bytes()
    b'kept'
    """
    target = os.fsdecode(path)
    try:
        mode = _mode_of(target)
        if mode is not None and not stat.S_ISREG(mode):
            return _write_through(target, write)
        target = os.path.realpath(target)  # through a link, as an ordinary write goes
        folder, name = os.path.split(target)
        handle, temporary = _create(folder, name, mode)
    except OSError as error:
        raise _explained(error, target, size) from error
    try:
        with _lock_kept(handle):
            with os.fdopen(handle, "w+b") as out:
                write(out)
                out.flush()
                os.fsync(out.fileno())
            os.replace(temporary, target)
    except OSError as error:
        raise _explained(error, target, size) from error
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
    _sync_folder(folder)
    _sweep(folder, name)


def write_bytes(path: Any, raw: bytes) -> None:
    """Write bytes to a file, which is there whole or not at all.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "note"
    >>> write_bytes(file, b"kept")
    >>> file.read_bytes()
    b'kept'
    """
    write_whole(path, lambda out: out.write(raw), len(raw))


def _mode_of(target: str) -> int | None:
    try:
        return os.stat(target).st_mode
    except FileNotFoundError:
        return None


def _write_through(target: str, write: Callable[[BinaryIO], object]) -> None:
    """Write to something that must not be replaced by a file: a pipe, or /dev/null."""
    whole = io.BytesIO()
    write(whole)
    with open(target, "wb") as out:
        out.write(whole.getbuffer())


def _temporary(name: str, token: str) -> str:
    """What a file is called while it is written; a long name is cut, and told from its like by a sum over all of it."""
    if len(os.fsencode(name)) > 200:  # of the 255 bytes that a name may have
        name = f"{name[:40]}.{zlib.crc32(os.fsencode(name)):08x}"
    return f".{name}.{token}.part"


def _create(folder: str, name: str, mode: int | None) -> tuple[int, str]:
    """A new file, locked, with the permissions of the one it replaces or those that any new file gets.

    It is there before it is locked, and another save may sweep it away in between: then it is made once more.
    """
    for _ in range(ATTEMPTS):
        temporary = os.path.join(folder, _temporary(name, secrets.token_hex(6)))
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        handle = os.open(temporary, flags, 0o666 if mode is None else 0o600)
        try:
            if _is_ours(handle, temporary):
                if mode is not None:
                    os.chmod(temporary, stat.S_IMODE(mode))
                return handle, temporary
        except BaseException:
            _drop(handle, temporary)
            raise
        _drop(handle, temporary)
    raise BlockingIOError(errno.EAGAIN, f"other saves took its temporary file away, {ATTEMPTS} times")


def _is_ours(handle: int, temporary: str) -> bool:
    """Lock a new file; False if another save has it, or took it away before."""
    try:
        if _lock(handle):
            os.stat(temporary)  # by its name: NFS and FUSE count the links of a removed file that is open as before
    except (BlockingIOError, FileNotFoundError):
        return False
    return True


def _drop(handle: int, temporary: str) -> None:
    os.close(handle)
    with suppress(FileNotFoundError):
        os.unlink(temporary)


def _lock(handle: int) -> bool:
    """Lock an open file until it is closed; a BlockingIOError if another has, False where files cannot be locked.

    Nobody waits for a lock: a process that holds it may be stopped, or have left it to a child.
    """
    if fcntl is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


@contextmanager
def _lock_kept(handle: int) -> Iterator[None]:
    """Keep the lock after the file is closed, until it has its name."""
    if fcntl is None:
        yield
        return
    held = os.dup(handle)
    try:
        yield
    finally:
        os.close(held)


def _sweep(folder: str, name: str) -> None:
    """Remove what saves to the same file left behind when they were killed: such files are no longer locked."""
    ours = re.compile("[0-9a-f]{12}".join(re.escape(part) for part in _temporary(name, "\0").split("\0")))
    with suppress(OSError), os.scandir(folder) as files:
        for path in [file.path for file in files if ours.fullmatch(file.name)]:
            with suppress(OSError):  # another's, busy, or gone since: the next one is looked at
                _remove_unlocked(path)


def _remove_unlocked(path: str) -> None:
    for way in (os.O_RDWR, os.O_RDONLY):  # NFS locks what can be written to; a copy of a read-only file cannot
        with suppress(PermissionError):
            handle = os.open(path, way | getattr(os, "O_NOFOLLOW", 0))
            break
    else:
        return
    try:
        if _lock(handle):
            os.unlink(path)
    finally:
        os.close(handle)


def _sync_folder(folder: str) -> None:
    """The rename itself must reach the disk; not every system lets a folder be opened."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        with suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)


def _explained(error: OSError, target: str, size: int) -> OSError:
    """The same error with the file, what it needs and what there is."""
    folder = os.path.dirname(os.path.abspath(target))
    try:
        free = f"{shutil.disk_usage(folder).free:,} bytes are free there"
    except OSError:
        free = "the folder cannot be looked at"
    advice = "make room, or save elsewhere" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "save elsewhere"
    text = explain(
        f"{target!r} could not be written: {error.strerror or error}",
        "",
        f"it needs about {size:,} bytes and {free}; the file that was there before is untouched",
        advice,
    )
    return type(error)(error.errno, text)
