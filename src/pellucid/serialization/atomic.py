"""Writing a file so that it is there whole or not at all: a temporary file, fsync, rename, fsync of the folder."""

import errno
import os
import shutil
import tempfile
from collections.abc import Callable
from typing import Any, BinaryIO

from pellucid.errors import explain


def write_whole(path: Any, write: Callable[[BinaryIO], None], size: int = 0) -> None:
    """Write a file through a function; a crash at any moment leaves the old file or the new one.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "note"
    >>> write_whole(file, lambda out: out.write(b"kept") and None)
    >>> file.read_bytes()
    b'kept'
    """
    target = os.fspath(path)
    folder = os.path.dirname(os.path.abspath(target))
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{os.path.basename(target)}.", suffix=".part", dir=folder)
    except OSError as error:
        raise _explained(error, target, size) from error
    try:
        with os.fdopen(handle, "w+b") as out:
            write(out)
            out.flush()
            os.fsync(out.fileno())
        os.chmod(temporary, _permissions(target))
        os.replace(temporary, target)
    except OSError as error:
        raise _explained(error, target, size) from error
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    _sync_folder(folder)


def _permissions(target: str) -> int:
    """Those of the file that is replaced, else what a new file gets."""
    if os.path.exists(target):
        return os.stat(target).st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_folder(folder: str) -> None:
    """The rename itself must reach the disk; not every system lets a folder be opened."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
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
