"""Workers that fail in every way there is: an explained error within seconds, no hang, nobody left behind."""

import ctypes
import errno
import faulthandler
import gc
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import pellucid
from pellucid.utils.data import DataLoader, Dataset, IterableDataset, dataloader, get_worker_info

SECONDS = 100  # a hang is told from a busy machine


class Hangs(BaseException):
    """No error that anybody might expect."""


@pytest.fixture(autouse=True)
def nothing_hangs_and_nobody_is_left():
    def late(*_):
        raise Hangs

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    gc.collect()
    assert not multiprocessing.active_children()


class Failing(Dataset):
    """Ten numbers, of which one is what a function makes of it."""

    def __init__(self, do, at=5):
        self.do, self.at = do, at

    def __len__(self):
        return 10

    def __getitem__(self, i):
        return self.do(i) if i == self.at else i


def as_list(batch):
    return batch


def error_of(loader, kind=RuntimeError):
    with pytest.raises(kind) as caught:
        list(loader)
    return str(caught.value)


# --- what cannot be sent


class Odd:
    def __init__(self, part):
        self.part = part


class Breaks:
    """Fails in the way it is told when it is pickled."""

    def __init__(self, kind):
        self.kind = kind

    def __reduce__(self):
        raise self.kind("not me")


def local_class(i):
    class Local:
        pass

    return Local()


UNSENDABLE = {
    "function": (lambda i: lambda: i, "item 5 is a function"),
    "generator": (lambda i: (j for j in "ab"), "item 5 is a generator"),
    "lock": (lambda i: threading.Lock(), "item 5 is a lock"),
    "file": (lambda i: open(os.devnull), "item 5 is a TextIOWrapper"),  # noqa: SIM115
    "local class": (local_class, "item 5 is a Local"),
    "in a dict": (lambda i: {"a": 1, "f": [2, lambda: i]}, "item 5 is a dict whose ['f'][1] is a function"),
    "in an object": (lambda i: Odd((0, threading.Lock())), "item 5 is an Odd whose .part[1] is a lock"),
    "MemoryError": (lambda i: Breaks(MemoryError), "item 5 is a Breaks"),
    "RecursionError": (lambda i: Breaks(RecursionError), "item 5 is a Breaks"),
    "SystemExit": (lambda i: Breaks(SystemExit), "item 5 is a Breaks"),
    "KeyboardInterrupt": (lambda i: Breaks(KeyboardInterrupt), "item 5 is a Breaks"),
    "ctypes": (lambda i: ctypes.pointer(ctypes.c_int(3)), "item 5 is a LP_c_int"),
}


@pytest.mark.parametrize("size", [None, 2])
@pytest.mark.parametrize("kind", UNSENDABLE)
def test_an_item_that_cannot_be_pickled(kind, size):
    do, told = UNSENDABLE[kind]
    loader = DataLoader(Failing(do), size, num_workers=2, collate_fn=as_list)
    assert told in error_of(loader)


def test_what_a_collate_function_makes_cannot_be_pickled():
    text = error_of(DataLoader(Failing(lambda i: i), 4, num_workers=2, collate_fn=lambda batch: {"f": lambda: batch}))
    assert "collate_fn made a dict whose ['f'] is a function of items 0, 1, 2, 3" in text


def test_an_item_of_a_stream_that_cannot_be_pickled():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter([1, 2, 3, threading.Lock(), 5])

    text = error_of(DataLoader(Stream(), 2, num_workers=1, collate_fn=as_list))
    assert "item 1 of batch 1 is a lock" in text
    assert "the item of batch 3 is a lock" in error_of(DataLoader(Stream(), None, num_workers=1))


def test_who_goes_on_after_an_item_that_cannot_be_pickled_gets_the_next():
    batches, seen = iter(DataLoader(Failing(lambda i: threading.Lock()), None, num_workers=2)), []
    for _ in range(10):
        try:
            seen.append(next(batches))
        except RuntimeError:
            seen.append(None)
    assert seen == [0, 1, 2, 3, 4, None, 6, 7, 8, 9] and next(batches, "end") == "end"


def unpickled_badly():
    raise ValueError("cannot come back")


class Back:
    def __reduce__(self):
        return unpickled_badly, ()


def test_an_item_that_unpickles_with_an_error():
    text = error_of(DataLoader(Failing(lambda i: Back()), 2, num_workers=2, collate_fn=as_list), ValueError)
    for part in ("items 4, 5", "worker process 0", "ValueError: cannot come back"):
        assert part in text


class Ends:
    """Would end the program where it is unpickled."""

    def __reduce__(self):
        return sys.exit, (4,)


def test_an_item_that_ends_the_program_where_it_is_unpickled():
    text = error_of(DataLoader(Failing(lambda i: Ends()), 2, num_workers=2, collate_fn=as_list), RuntimeError)
    for part in ("items 4, 5", "worker process 0", "SystemExit: 4"):
        assert part in text


@pytest.mark.parametrize("index", [threading.Lock(), lambda: 0, Breaks(ValueError)], ids=["lock", "lambda", "breaks"])
def test_an_index_that_cannot_be_pickled(index):
    text = error_of(DataLoader(Failing(lambda i: i), sampler=[0, 1, 2, 3, index], num_workers=1))
    assert "the sampler gave" in text and type(index).__name__ in text


def test_an_index_that_unpickles_with_an_error():
    text = error_of(DataLoader(Failing(lambda i: i), sampler=[0, Back()], num_workers=1), ValueError)
    assert "cannot come back" in text


# --- errors


class Local(Exception):
    """An exception with arguments of its own."""

    def __init__(self, code, where):
        super().__init__(f"{code} at {where}")


class Silent(Exception):
    def __init__(self, one):
        super().__init__()

    def __str__(self):
        return "silent"


def raising(error):
    def do(*_):
        raise error

    return do


def local_error(*_):
    class Unknown(Exception):
        pass

    raise Unknown("nobody else knows me")


def holding_a_lock(*_):
    error = ValueError("with a lock")
    error.lock = threading.Lock()
    error.args = ("with a lock", error.lock)
    raise error


ERRORS = {
    "own class": (raising(FileNotFoundError("no picture")), FileNotFoundError, "no picture"),
    "several arguments": (raising(Local(3, "there")), RuntimeError, "3 at there"),
    "five arguments": (lambda *_: b"\xff".decode(), RuntimeError, "UnicodeDecodeError"),
    "local class": (local_error, RuntimeError, "nobody else knows me"),
    "unpicklable": (holding_a_lock, ValueError, "with a lock"),
    "memory": (raising(MemoryError("too large")), MemoryError, "too large"),
    "exit": (raising(SystemExit(3)), RuntimeError, "SystemExit"),
    "interrupt": (raising(KeyboardInterrupt()), RuntimeError, "KeyboardInterrupt"),
    "end": (raising(StopIteration()), RuntimeError, "StopIteration"),
    "end of a generator": (raising(GeneratorExit()), RuntimeError, "GeneratorExit"),
    "key": (raising(KeyError("name")), KeyError, "name"),
    "os": (raising(OSError(errno.EIO, "disk")), OSError, "disk"),
    "group": (raising(ExceptionGroup("several", [ValueError("one")])), RuntimeError, "several"),
}


class StreamOf(IterableDataset):
    def __init__(self, start):
        self.start = start

    def __iter__(self):
        self.start()
        return iter([1])


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_arrives_wherever_it_is_raised(name):
    do, kind, text = ERRORS[name]
    fine = Failing(lambda i: i)
    loaders = {
        "item": DataLoader(Failing(do), 2, num_workers=2),
        "collate": DataLoader(fine, 2, num_workers=2, collate_fn=do),
        "init": DataLoader(fine, 2, num_workers=2, worker_init_fn=do),
        "iter": DataLoader(StreamOf(do), num_workers=1),
    }
    for place, loader in loaders.items():
        found = error_of(loader, kind)
        assert text in found and "in DataLoader worker process" in found, place


def test_a_message_that_an_error_keeps_to_itself_is_noted():
    with pytest.raises(Silent) as caught:
        list(DataLoader(Failing(raising(Silent(1))), 2, num_workers=1))
    assert "fetching items 4, 5" in caught.value.__notes__[0]


@pytest.mark.parametrize("workers", [0, 1])
def test_stopiteration_of_an_item_does_not_end_the_data_in_silence(workers):
    for loader in (
        DataLoader(Failing(raising(StopIteration())), 2, num_workers=workers),
        DataLoader(Failing(int), 2, num_workers=workers, collate_fn=lambda batch: next(iter([]))),
    ):
        assert "StopIteration" in error_of(loader)


# --- workers that die


def killed(number):
    return lambda *_: os.kill(os.getpid(), number)


def segfault(*_):
    faulthandler.disable()  # pytest's, which would print a traceback
    ctypes.string_at(0)


def aborted(*_):
    faulthandler.disable()
    os.abort()


DEATHS = {
    "SIGKILL": (killed(signal.SIGKILL), "is killed by signal: Killed"),
    "SIGTERM": (killed(signal.SIGTERM), "is killed by signal: Terminated"),
    "SIGABRT": (aborted, "is killed by signal: Aborted"),
    "segfault": (segfault, "is killed by signal: Segmentation fault"),
    "exit 3": (lambda *_: os._exit(3), "exited unexpectedly with exit code 3"),
    "exit 0": (lambda *_: os._exit(0), "exited unexpectedly with exit code 0"),
}


@pytest.mark.parametrize("place", ["item", "collate", "init", "iter"])
@pytest.mark.parametrize("name", DEATHS)
def test_a_worker_that_dies(name, place):
    do, told = DEATHS[name]
    fine = Failing(lambda i: i)
    loader = {
        "item": lambda: DataLoader(Failing(do), 2, num_workers=2),
        "collate": lambda: DataLoader(fine, 2, num_workers=2, collate_fn=do),
        "init": lambda: DataLoader(fine, 2, num_workers=2, worker_init_fn=do),
        "iter": lambda: DataLoader(StreamOf(do), num_workers=2),
    }[place]()
    start = time.monotonic()
    text = error_of(loader)
    assert time.monotonic() - start < 10
    assert "DataLoader worker (pid" in text
    assert told in text and re.search(r"worker [01] \(pid", text)
    assert ("the next items" if place == "iter" else "items 4, 5" if place == "item" else "items") in text


class Dying(Dataset):
    """A worker dies while another thread of its own is sending a large batch: half a message lies in the pipe."""

    def __len__(self):
        return 40

    def __getitem__(self, i):
        if get_worker_info().id == 0 and i == 20:
            threading.Timer(0.05, killed(signal.SIGKILL)).start()
        return np.zeros(20_000_000, np.uint8)


def test_a_worker_that_dies_in_the_middle_of_a_batch():
    for batch in (loader := iter(DataLoader(Dying(), 1, num_workers=2, prefetch_factor=4))):
        assert batch.shape == (1, 20_000_000)
        break
    with pytest.raises(RuntimeError, match="is killed by signal: Killed"):
        [time.sleep(0.01) for _ in loader]


def test_a_worker_that_is_killed_from_outside_while_it_waits():
    loader = DataLoader(Failing(lambda i: i), 1, num_workers=2, persistent_workers=True)
    assert len(list(loader)) == 10
    os.kill(loader._iterator._processes[1].pid, signal.SIGKILL)
    assert "worker 1" in error_of(loader)
    assert len(list(loader)) == 10, "the next pass has new workers"


def test_after_a_death_every_next_is_the_same_error():
    batches = iter(DataLoader(Failing(killed(signal.SIGKILL)), 1, num_workers=2))
    texts = set()
    for _ in range(9):
        try:
            next(batches)
        except RuntimeError as error:
            texts.add(str(error).splitlines()[0])
    assert len(texts) == 1 and "is killed by signal: Killed" in texts.pop()


# --- another pass after an error


class OnceBad(Dataset):
    def __init__(self, do, flag):
        self.do, self.flag = do, flag

    def __len__(self):
        return 8

    def __getitem__(self, i):
        if i == 3 and not os.path.exists(self.flag):
            open(self.flag, "w").close()
            self.do(i)
        return i


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("name", ["raises", "dies", "unsendable", "hangs"])
def test_another_pass_after_an_error(name, persistent, tmp_path):
    do = {
        "raises": raising(ValueError("once")),
        "dies": killed(signal.SIGKILL),
        "unsendable": lambda i: None,
        "hangs": lambda i: time.sleep(60),
    }[name]
    flag = tmp_path / "flag"

    def collate(batch):
        bad = name == "unsendable" and 3 in batch and not (tmp_path / "sent").exists()
        if bad:
            (tmp_path / "sent").write_text("")
        return [lambda: 0] if bad else batch

    loader = DataLoader(
        OnceBad(do, str(flag)), 2, num_workers=2, persistent_workers=persistent, collate_fn=collate,
        timeout=0.5 if name == "hangs" else 0,
    )  # fmt: skip
    with pytest.raises((RuntimeError, ValueError)):
        list(loader)
    for _ in range(2):
        assert list(loader) == [[0, 1], [2, 3], [4, 5], [6, 7]]


class Epochs(IterableDataset):
    """Cannot be started a second time, and can a third time."""

    def __init__(self):
        self.starts = 0

    def __iter__(self):
        self.starts += 1
        if self.starts == 2:
            raise LookupError("no second time")
        return iter(range(3))


def test_a_stream_that_cannot_be_started_again():
    loader = DataLoader(Epochs(), None, num_workers=1, persistent_workers=True)
    assert list(loader) == [0, 1, 2]
    assert "no second time" in error_of(loader, LookupError)
    assert list(loader) == [0, 1, 2]


def test_a_pass_that_is_left_early_does_not_reach_into_the_next():
    loader = DataLoader(Failing(lambda i: i), 1, num_workers=2, persistent_workers=True, prefetch_factor=4)
    for _ in range(5):
        assert next(iter(loader)).tolist() == [0]
    assert [batch.item() for batch in loader] == list(range(10))
    assert not loader._iterator._arrived, "what comes of an earlier pass is not kept"


def test_leaving_early_takes_no_time_though_workers_have_much_to_say():
    class Large(Failing):
        def __getitem__(self, i):
            return np.zeros(2_000_000)

    batches = iter(DataLoader(Large(None), 1, num_workers=2))
    next(batches)
    start = time.monotonic()
    del batches
    gc.collect()
    assert time.monotonic() - start < 0.95, "nobody waits for a worker that waits for a reader"


def test_workers_fetch_ahead_though_nobody_reads_yet():
    """A pipe holds 64 KB: what does not fit waits in the worker, and does not keep it from fetching on."""
    fetched = multiprocessing.Value("i")

    class Large(Failing):
        def __getitem__(self, i):
            with fetched:
                fetched.value += 1
            return np.zeros(100_000)

    batches = iter(DataLoader(Large(None), 1, num_workers=2, prefetch_factor=3))
    while fetched.value < 6:
        time.sleep(0.01)
    assert len(list(batches)) == 10


def test_many_stuck_workers_are_ended_together():
    def stuck(i):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(60)

    start = time.monotonic()
    loader = DataLoader(Failing(stuck, at=0), None, num_workers=1, timeout=0.2)
    loaders = [iter(loader) for _ in range(1)]
    with pytest.raises(RuntimeError, match="timed out"):
        next(loaders[0])
    one = time.monotonic() - start

    class AllStuck(Failing):
        def __getitem__(self, i):
            return stuck(i)

    start = time.monotonic()
    with pytest.raises(RuntimeError, match="timed out"):
        list(DataLoader(AllStuck(None), None, num_workers=6, timeout=0.2))
    assert time.monotonic() - start < 2 * one + 1


# --- other ways to start


class Unsendable(Dataset):
    def __init__(self):
        self.lock = threading.Lock()

    def __len__(self):
        return 3

    def __getitem__(self, i):
        return i


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_dataset_that_cannot_be_sent_to_a_new_process(method):
    text = error_of(DataLoader(Unsendable(), num_workers=2, multiprocessing_context=method))
    for part in ("dataset", "Unsendable", ".lock", method, "fork"):
        assert part in text
    fine = Failing(int)
    assert "collate_fn" in error_of(
        DataLoader(fine, num_workers=1, multiprocessing_context=method, collate_fn=lambda batch: batch)
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_that_are_started_anew_fail_alike(method):
    assert [b.item() for b in DataLoader(Failing(int), num_workers=1, multiprocessing_context=method)] == [*range(10)]
    assert "exit code 3" in error_of(DataLoader(Exits(), num_workers=1, multiprocessing_context=method))


class Exits(Unsendable):
    def __init__(self):
        pass

    def __getitem__(self, i):
        os._exit(3)


# --- Ctrl-C

INTERRUPTED = """
import os, signal, sys, time
import numpy as np
from pellucid.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 1000
    def __getitem__(self, i):
        if i > 5 and {stuck}:
            time.sleep(60)
        return np.zeros(100_000)

def main():
    loader = DataLoader(Slow(), 2, num_workers=2, persistent_workers={persistent})
    try:
        for number, batch in enumerate(loader):
            if number == 0:
                print(*(process.pid for process in loader._iterator._processes) if {persistent} else (), flush=True)
            time.sleep(0.01)
    finally:
        print("left", flush=True)
main()
"""


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("stuck", [False, True])
def test_ctrl_c_ends_the_program_and_its_workers(stuck, persistent):
    program = INTERRUPTED.format(stuck=stuck, persistent=persistent)
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    process.stdout.readline()
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it: to all processes at once
    start = time.monotonic()
    _, errors = process.communicate(timeout=15)
    assert time.monotonic() - start < 8
    assert process.returncode == -signal.SIGINT and errors.count("Traceback") == 1, errors
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_a_program_that_goes_on_after_ctrl_c_keeps_its_workers():
    """It may want to finish the pass and to save."""
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append("asked to stop"))
    try:
        loader = DataLoader(Failing(lambda i: i), 1, num_workers=2)
        batches = iter(loader)
        given = [next(batches).item()]
        for process in batches._processes:
            os.kill(process.pid, signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        given += [batch.item() for batch in batches]
    finally:
        signal.signal(signal.SIGINT, before)
    assert given == list(range(10)) and seen == ["asked to stop"]


def test_an_interrupt_while_a_batch_is_read_does_not_mix_batches_up(monkeypatch):
    loader = DataLoader(Failing(lambda i: i), 1, num_workers=2, persistent_workers=True)
    batches = iter(loader)
    assert next(batches).item() == 0
    connection = type(batches._readers[0])
    usual = connection.recv_bytes

    def interrupted(self, *options):
        usual(self, *options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(connection, "recv_bytes", interrupted)
        with pytest.raises(KeyboardInterrupt):
            list(batches)
    with pytest.raises(RuntimeError, match="interrupted"):
        list(batches)
    assert [batch.item() for batch in loader] == list(range(10))


def test_an_interrupt_while_a_batch_is_unpickled_loses_nothing(monkeypatch):
    batches = iter(DataLoader(Failing(lambda i: i), 1, num_workers=2))
    usual, times = dataloader.unpacked, []

    def interrupted(*given):
        times.append(1)
        if len(times) == 3:
            raise KeyboardInterrupt
        return usual(*given)

    monkeypatch.setattr(dataloader, "unpacked", interrupted)
    seen = [next(batches).item(), next(batches).item()]
    with pytest.raises(KeyboardInterrupt):
        next(batches)
    assert seen + [batch.item() for batch in batches] == list(range(10))


def test_a_worker_does_not_end_the_workers_of_another_loader():
    """It is a copy of the whole program: what it drops of that is not its own."""
    holder = {"batches": iter(DataLoader(Failing(lambda i: i), 1, num_workers=1))}

    def drop(_):
        holder.clear()
        gc.collect()

    list(DataLoader(Failing(lambda i: i), 1, num_workers=1, worker_init_fn=drop))
    assert [batch.item() for batch in holder["batches"]] == list(range(10))


def test_tensors_come_as_they_are():
    loader = DataLoader(
        Failing(lambda i: i), 2, num_workers=2, collate_fn=lambda b: pellucid.tensor(b, dtype=pellucid.int8)
    )
    assert [batch.dtype for batch in loader] == [pellucid.int8] * 5
