"""Saving where the disk fails or the process dies, at every single step: the old file or the new one, no litter."""

import errno
import io
import os
import stat
import subprocess
import sys
import threading

import pytest

import pellucid
from pellucid.serialization import atomic

pytest.importorskip("safetensors", reason="needs pip install pellucid[safetensors]")

WRITERS = {
    "save": (lambda value, path: pellucid.save({"a": value}, path), pellucid.load),
    "save_file": (lambda value, path: pellucid.save_file({"a": value}, path), pellucid.load_file),
}
OLD, NEW = pellucid.zeros(1_000), pellucid.ones(30_000)


class Disk:
    """Counts what is done to the disk, and does something at one of the steps."""

    def __init__(self, monkeypatch, step, fault):
        self.steps, self.step, self.fault = 0, step, fault
        fdopen = os.fdopen
        for module, name in ((os, "fsync"), (os, "replace"), (os, "open"), (os, "fstat")):
            monkeypatch.setattr(module, name, self.counted(getattr(module, name)))
        monkeypatch.setattr(os, "fdopen", lambda handle, mode: File(fdopen(handle, mode), self))

    def counted(self, function):
        def call(*args, **options):
            self.count()
            return function(*args, **options)

        return call

    def count(self):
        self.steps += 1
        if self.steps == self.step:
            self.fault()


class File(io.RawIOBase):
    """An open file whose every call is counted."""

    def __init__(self, file, disk):
        self.file, self.disk = file, disk
        for name in ("write", "read", "seek", "tell", "flush", "fileno"):
            setattr(self, name, disk.counted(getattr(file, name)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.disk.count()

    def close(self):
        self.file.close()


def steps_of(write, path, monkeypatch):
    with monkeypatch.context() as patch:
        disk = Disk(patch, 0, None)
        write(NEW, path)
        return disk.steps


FAULTS = [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS, errno.EACCES]


@pytest.mark.parametrize("number", FAULTS, ids=errno.errorcode.get)
@pytest.mark.parametrize("name", WRITERS)
def test_a_fault_at_every_step(name, number, tmp_path, monkeypatch):
    write, read = WRITERS[name]
    path = tmp_path / "model"
    write(OLD, path)
    steps = steps_of(write, path, monkeypatch)
    assert steps >= 8

    def fault():
        raise OSError(number, os.strerror(number))

    errors = []
    for step in range(1, steps + 1):
        write(OLD, path)
        try:
            with monkeypatch.context() as patch:
                Disk(patch, step, fault)
                write(NEW, path)
            expected = NEW
        except OSError as error:
            errors.append(error)
            expected = OLD
        assert read(path)["a"].equal(expected), step
        assert os.listdir(tmp_path) == ["model"], step
    assert len(errors) >= steps - 5, "only asking for the place, and what comes after the rename, may fail in silence"
    assert {error.errno for error in errors} == {number}
    for part in (str(path), os.strerror(number), "bytes are free", "untouched"):
        assert all(part in str(error) for error in errors)


def test_a_read_only_folder(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root writes everywhere")
    path = tmp_path / "model.pt"
    pellucid.save({"a": OLD}, path)
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(PermissionError, match=r"(?s)model.pt.*Permission denied.*untouched"):
            pellucid.save({"a": NEW}, path)
    finally:
        tmp_path.chmod(0o700)
    assert pellucid.load(path)["a"].equal(OLD)


def test_a_disk_that_is_really_full():
    """/dev/full is written to as it is, and is still there afterwards."""
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    with pytest.raises(OSError, match=r"(?s)/dev/full.*No space left"):
        pellucid.save({"a": OLD}, "/dev/full")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


# --- a process that dies

DYING = """
import os, signal, sys
sys.path.insert(0, {tests!r})
import pytest
import test_serialization_faults as faults

write, read = faults.WRITERS[{name!r}]
path = {path!r}
steps = faults.steps_of(write, path, pytest.MonkeyPatch())
for step in range(1, steps + 1):
    write(faults.OLD, path)
    child = os.fork()
    if not child:
        faults.Disk(pytest.MonkeyPatch(), step, lambda: os.kill(os.getpid(), signal.SIGKILL))
        write(faults.NEW, path)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status
    back = read(path)["a"]
    assert back.equal(faults.OLD) or back.equal(faults.NEW)
    left = len(os.listdir(os.path.dirname(path))) - 1
    write(faults.NEW, path)
    assert read(path)["a"].equal(faults.NEW)
    assert os.listdir(os.path.dirname(path)) == ["model"], (step, left)
    print(step, "new" if back.equal(faults.NEW) else "old", left)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("name", WRITERS)
def test_a_kill_at_every_step_leaves_a_whole_file_and_the_next_save_no_litter(name, tmp_path):
    tests = os.path.dirname(os.path.abspath(__file__))
    program = DYING.format(tests=tests, name=name, path=str(tmp_path / "model"))
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    lines = [line.split() for line in run.stdout.splitlines()]
    assert {found for _, found, _ in lines} == {"old", "new"}
    assert any(int(left) for _, _, left in lines), "some step leaves litter behind, which the next save removes"


def test_what_is_being_written_is_not_swept_away(tmp_path):
    """Two saves to one file at the same time: the later rename wins, and neither takes the other's file away."""
    path, inside, go_on = tmp_path / "model", threading.Event(), threading.Event()

    def slow(out):
        inside.set()
        go_on.wait(10)
        out.write(b"slow")

    thread = threading.Thread(target=atomic.write_whole, args=(path, slow))
    thread.start()
    inside.wait(10)
    atomic.write_whole(path, lambda out: out.write(b"quick") and None)
    assert path.read_bytes() == b"quick" and len(os.listdir(tmp_path)) == 2
    go_on.set()
    thread.join()
    assert path.read_bytes() == b"slow" and os.listdir(tmp_path) == ["model"]


def test_a_file_that_another_save_swept_away_before_it_was_locked(tmp_path, monkeypatch):
    usual, taken = atomic._lock, []

    def late(handle, wait=True):
        if not taken:
            taken.extend(os.listdir(tmp_path))
            os.unlink(tmp_path / taken[0])
        return usual(handle, wait)

    monkeypatch.setattr(atomic, "_lock", late)
    atomic.write_whole(tmp_path / "model", lambda out: out.write(b"whole") and None)
    assert len(taken) == 1 and (tmp_path / "model").read_bytes() == b"whole" and os.listdir(tmp_path) == ["model"]


def test_where_nothing_can_be_locked_nothing_is_swept_away(tmp_path, monkeypatch):
    """As on Windows: another process may be writing the file that lies there."""
    monkeypatch.setattr(atomic, "fcntl", None)
    (tmp_path / ".model.0123456789ab.part").write_bytes(b"another's")
    pellucid.save({"a": NEW}, tmp_path / "model")
    assert pellucid.load(tmp_path / "model")["a"].equal(NEW)
    assert sorted(os.listdir(tmp_path)) == [".model.0123456789ab.part", "model"]


# --- what kind of file it becomes


def test_permissions(tmp_path):
    new, old = tmp_path / "new", tmp_path / "old"
    old.write_bytes(b"")
    old.chmod(0o640)
    before = os.umask(0o027)
    try:
        for path in (new, old):
            pellucid.save({}, path)
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (new, old)] == [0o640, 0o640]


def test_a_link_stays_one(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "latest.pt").symlink_to(tmp_path / "real" / "model.pt")
    for value in (OLD, NEW):
        pellucid.save({"a": value}, tmp_path / "latest.pt")
        assert (tmp_path / "latest.pt").is_symlink()
        assert pellucid.load(tmp_path / "real" / "model.pt")["a"].equal(value)


def test_long_names(tmp_path):
    pellucid.save({"a": OLD}, tmp_path / ("x" * 250))
    assert os.listdir(tmp_path) == ["x" * 250]
