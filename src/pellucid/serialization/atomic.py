"""Writing a file so that it is there whole or not at all: a temporary file, fsync, rename, fsync of the folder.

The temporary file is locked while it is written, and a lock dies with its process: so the next save can tell what a
killed one left behind, and remove it.
"""

import errno
import io
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

from pellucid.errors import explain

try:
    import fcntl
except ImportError:  # pragma: no cover (Windows has none: nothing is locked there, and nothing removed)
    fcntl = None  # type: ignore[assignment]


def write_whole(path: Any, write: Callable[[BinaryIO], None], size: int = 0) -> None:
    """Write a file through a function; a crash at any moment leaves the old file or the new one.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "note"
    >>> write_whole(file, lambda out: out.write(b"kept") and None)
    >>> file.read_bytes()
    b'kept'
    """
    target = os.path.realpath(os.fsdecode(path))  # through a link, as an ordinary write goes
    folder, name = os.path.split(target)
    prefix = f".{name[:100]}."
    try:
        mode = _mode_of(target)
        if mode is not None and not stat.S_ISREG(mode):
            return _write_through(target, write)
        handle, temporary = _create(os.path.join(folder, prefix), mode)
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
    _sweep(folder, prefix)


def _mode_of(target: str) -> int | None:
    try:
        return os.stat(target).st_mode
    except FileNotFoundError:
        return None


def _write_through(target: str, write: Callable[[BinaryIO], None]) -> None:
    """Write to something that must not be replaced by a file: a pipe, or /dev/null."""
    whole = io.BytesIO()
    write(whole)
    with open(target, "wb") as out:
        out.write(whole.getbuffer())


def _create(start: str, mode: int | None) -> tuple[int, str]:
    """A new file with the permissions of the one it replaces, or those that any new file gets; locked."""
    while True:
        temporary = f"{start}{secrets.token_hex(6)}.part"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        handle = os.open(temporary, flags, 0o666 if mode is None else 0o600)
        try:
            if mode is not None:
                os.chmod(temporary, stat.S_IMODE(mode))
            if not _lock(handle) or os.fstat(handle).st_nlink:
                return handle, temporary
        except OSError:
            os.close(handle)
            os.unlink(temporary)
            raise
        os.close(handle)  # another save swept it away before it was locked


def _lock(handle: int, wait: bool = True) -> bool:
    """Lock an open file until it is closed; not every file system can."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
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


def _sweep(folder: str, prefix: str) -> None:
    """Remove what saves to the same file left behind when they were killed: such files are no longer locked."""
    with suppress(OSError), os.scandir(folder) as files:
        left = [file.path for file in files if file.name.startswith(prefix) and file.name.endswith(".part")]
        for path in left:
            handle = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
            try:
                if _lock(handle, wait=False):
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
