"""Saving where the disk fails or the process dies, at every single step: the old file or the new one, no litter."""

import errno
import hashlib
import io
import os
import random
import stat
import subprocess
import sys
import threading
import time

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

    def __init__(self, monkeypatch, step, fault, also=()):
        self.steps, self.step, self.fault = 0, step, fault
        fdopen = os.fdopen
        for module, name in ((os, "fsync"), (os, "replace"), (os, "open"), (os, "stat"), *also):
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


@pytest.mark.skipif(atomic.fcntl is None, reason="nothing is swept where nothing can be locked")
def test_another_save_at_every_step_takes_nothing_away(tmp_path, monkeypatch):
    """Between any two steps of a save another one runs whole, and sweeps: both succeed, and the later rename wins."""
    path, steps, swept = tmp_path / "model", 0, []
    also = [(os, name) for name in ("chmod", "dup", "close", "unlink")] + [(atomic.fcntl, "flock")]

    def another():
        before = set(os.listdir(tmp_path))
        atomic.write_whole(path, lambda out: out.write(b"another") and None)
        swept.extend(before - set(os.listdir(tmp_path)))

    for mode in (None, 0o640):
        with monkeypatch.context() as patch:
            disk = Disk(patch, 0, None, also)
            atomic.write_whole(tmp_path / "counted", lambda out: out.write(b"one") and None)
        os.unlink(tmp_path / "counted")
        steps = disk.steps + (mode is not None)
        assert steps >= 10
        for step in range(1, steps + 1):
            if mode is not None:
                path.write_bytes(b"before")
                path.chmod(mode)
            with monkeypatch.context() as patch:
                Disk(patch, step, another, also)
                atomic.write_whole(path, lambda out: out.write(b"one") and None)
            assert path.read_bytes() in (b"one", b"another"), (mode, step)
            assert os.listdir(tmp_path) == ["model"], (mode, step)
            os.unlink(path)
    assert len(swept) >= 2, "a file is there before it is locked: at that step it is swept away, and made once more"


def test_a_sweep_that_holds_the_new_file_is_not_waited_for(tmp_path, monkeypatch):
    """It may be stopped, or its lock have gone on to a child: the save takes another name."""
    held, usual = [], atomic._lock

    def late(handle):
        if not held:
            (name,) = os.listdir(tmp_path)
            held.append(os.open(tmp_path / name, os.O_RDWR))
            assert usual(held[0])
        return usual(handle)

    monkeypatch.setattr(atomic, "_lock", late)
    atomic.write_whole(tmp_path / "model", lambda out: out.write(b"whole") and None)
    os.close(held[0])
    assert (tmp_path / "model").read_bytes() == b"whole" and os.listdir(tmp_path) == ["model"]


def test_one_file_that_cannot_be_swept_does_not_keep_the_others(tmp_path, monkeypatch):
    """Another's file, one that is busy, one that is gone since: each is passed by."""
    left = [tmp_path / f".model.{number:012x}.part" for number in range(5)]
    for file in left:
        file.write_bytes(b"left")
    left[2].unlink()
    left[2].symlink_to("nowhere")
    usual = os.unlink

    def unlink(path):
        if path == os.fspath(left[3]):
            raise PermissionError(errno.EACCES, "not yours")
        usual(path)

    monkeypatch.setattr(os, "unlink", unlink)
    atomic.write_whole(tmp_path / "model", lambda out: out.write(b"whole") and None)
    assert sorted(os.listdir(tmp_path)) == [left[2].name, left[3].name, "model"]


def test_what_another_file_or_program_left_is_not_ours_to_sweep(tmp_path):
    names = [".model.part", ".model.b.0123456789ab.part", ".model.0123456789abc.part", ".model.0123456789aX.part"]
    for name in names:
        (tmp_path / name).write_bytes(b"another's")
    pellucid.save({}, tmp_path / "model")
    assert sorted(os.listdir(tmp_path)) == sorted([*names, "model"])


def test_what_a_save_over_a_read_only_file_left_is_swept(tmp_path):
    (tmp_path / ".model.0123456789ab.part").write_bytes(b"left")
    (tmp_path / ".model.0123456789ab.part").chmod(0o444)
    pellucid.save({}, tmp_path / "model")
    assert os.listdir(tmp_path) == ["model"]


def test_where_nothing_can_be_locked_nothing_is_swept_away(tmp_path, monkeypatch):
    """As on Windows: another process may be writing the file that lies there."""
    monkeypatch.setattr(atomic, "fcntl", None)
    (tmp_path / ".model.0123456789ab.part").write_bytes(b"another's")
    pellucid.save({"a": NEW}, tmp_path / "model")
    assert pellucid.load(tmp_path / "model")["a"].equal(NEW)
    assert sorted(os.listdir(tmp_path)) == [".model.0123456789ab.part", "model"]


@pytest.mark.skipif(atomic.fcntl is None, reason="nothing can be locked")
@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EBADF], ids=errno.errorcode.get)
def test_file_systems_that_lock_nothing(number, tmp_path, monkeypatch):
    """Some network file systems: a save works as everywhere, and what lies there may be another machine's."""

    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(atomic.fcntl, "flock", refuse)
    (tmp_path / ".model.0123456789ab.part").write_bytes(b"another's")
    for value in (OLD, NEW):
        pellucid.save({"a": value}, tmp_path / "model")
        assert pellucid.load(tmp_path / "model")["a"].equal(value)
    assert sorted(os.listdir(tmp_path)) == [".model.0123456789ab.part", "model"]


@pytest.mark.skipif(atomic.fcntl is None, reason="nothing can be locked")
def test_a_file_that_is_always_taken_away_is_an_error_in_the_end(tmp_path, monkeypatch):
    def busy(*_):
        raise BlockingIOError(errno.EAGAIN, "busy")

    monkeypatch.setattr(atomic.fcntl, "flock", busy)
    with pytest.raises(BlockingIOError, match="took its temporary file away, 100 times"):
        pellucid.save({"a": NEW}, tmp_path / "model")
    assert os.listdir(tmp_path) == []


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


@pytest.mark.parametrize("name", ["x" * 250, "\N{GRINNING FACE}" * 60], ids=["letters", "wide"])
def test_long_names(name, tmp_path):
    left = []
    atomic.write_whole(tmp_path / name, lambda out: left.extend(os.listdir(tmp_path)))
    (tmp_path / left[0]).write_bytes(b"left")
    atomic.write_whole(tmp_path / (name[:-1] + "y"), lambda out: None)
    assert len(os.listdir(tmp_path)) == 3, "what a save to another file left, whose name begins alike"
    pellucid.save({"a": OLD}, tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == sorted([name, name[:-1] + "y"])


def test_a_pipe_that_has_no_name_is_written_to(tmp_path):
    """/dev/stdout leads to `pipe:[123]`, where nothing can be created."""
    program = "import pellucid; pellucid.save({'a': pellucid.ones(2)}, '/dev/stdout')"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert run.returncode == 0, run.stderr
    assert pellucid.load(io.BytesIO(run.stdout))["a"].equal(pellucid.ones(2))


def test_a_download_is_there_whole_or_not_at_all(tmp_path):
    """The hub writes as `save` does: with the usual permissions, and without litter when the digest is wrong."""
    (tmp_path / "source").write_bytes(b"weights")
    (tmp_path / "there").mkdir()
    url, path = (tmp_path / "source").as_uri(), tmp_path / "there" / "model.pt"
    (tmp_path / "there" / ".model.pt.0123456789ab.part").write_bytes(b"of a process that was killed")
    digest = hashlib.sha256(b"weights").hexdigest()
    pellucid.hub.download_url_to_file(url, str(path), digest[:8])
    with pytest.raises(RuntimeError, match="invalid hash value"):
        pellucid.hub.download_url_to_file(url, str(path), "0" * 8)
    assert path.read_bytes() == b"weights" and os.listdir(tmp_path / "there") == ["model.pt"]
    assert path.stat().st_mode == (tmp_path / "source").stat().st_mode


# --- many at once

SAVING = """
import sys
import pellucid

folder, count = sys.argv[1], int(sys.argv[2])
print(flush=True)
for number in range(count):
    same = pellucid.full((300,), float(number))
    name, save, load = (
        ("model.pt", pellucid.save, pellucid.load)
        if number % 2
        else ("model.safetensors", pellucid.save_file, pellucid.load_file)
    )
    save({"a": same, "b": same * 1}, folder + "/" + name)
    found = load(folder + "/" + name)  # whoever's it is: whole
    assert found["a"].shape == (300,) and found["a"].equal(found["b"]) and (found["a"] == found["a"][0]).all()
"""


def saving(folder, count):
    process = subprocess.Popen(
        [sys.executable, "-c", SAVING, str(folder), str(count)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "\n"
    return process


def save_together(folder, processes, count, kills):
    """Processes that save to the same two files while others that do the same are killed."""
    chance = random.Random(0)
    working = [saving(folder, count) for _ in range(processes)]
    for _ in range(kills):
        victim = saving(folder, 10**9)
        time.sleep(chance.uniform(0, 0.1))
        victim.kill()
        victim.communicate()
    errors = [process.communicate()[1] for process in working]
    assert [process.returncode for process in working] == [0] * processes, errors
    saving(folder, 2).communicate()
    assert sorted(os.listdir(folder)) == ["model.pt", "model.safetensors"], "no litter after the next save"


def test_processes_that_save_to_one_file(tmp_path):
    save_together(tmp_path, processes=3, count=60, kills=2)


@pytest.mark.slow
def test_ten_thousand_saves_to_one_file(tmp_path):
    save_together(tmp_path, processes=4, count=2500, kills=40)
