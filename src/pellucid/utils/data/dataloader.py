"""DataLoader: batches of a dataset, in this process or fetched by worker processes."""

import multiprocessing
import os
import pickle
import signal
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import cycle, repeat
from multiprocessing.connection import wait
from typing import Any, Generic, TypeVar

from pellucid import dtypes
from pellucid.core.provenance import here, warn
from pellucid.errors import explain
from pellucid.ops.create import empty
from pellucid.utils.data.collate import default_collate, default_convert
from pellucid.utils.data.dataset import IterableDataset
from pellucid.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler
from pellucid.utils.data.worker import NUMBER, Exhausted, Failure, Fetcher, can_be_sent, described, named, work

__all__ = ["DataLoader"]

T = TypeVar("T")
FIXED = frozenset(("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"))
POLL_SECONDS = 0.2  # how often the main process looks whether its workers live
INTERRUPTED = (
    "the DataLoader was interrupted in the middle of a batch, and its workers have ended: iterate over it anew"
)
# A forked worker needs no pickled dataset and knows that `torch` means Pellucid. Python 3.14 no longer forks by itself;
# elsewhere than on Linux it never did, or system libraries do not bear it.
START_METHOD = "fork" if sys.platform == "linux" else None


class DataLoader(Generic[T]):
    """Iterate over a dataset in batches.

    >>> import pellucid as torch
    >>> from pellucid.utils.data import DataLoader, TensorDataset
    >>> loader = DataLoader(TensorDataset(torch.arange(5)), batch_size=2)
    >>> [batch[0].tolist() for batch in loader]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None, sampler: Any = None,
        batch_sampler: Any = None, num_workers: int = 0, collate_fn: Any = None, pin_memory: bool = False,
        drop_last: bool = False, timeout: float = 0, worker_init_fn: Any = None, multiprocessing_context: Any = None,
        generator: Any = None, *, prefetch_factor: int | None = None, persistent_workers: bool = False,
        pin_memory_device: str = "", in_order: bool = True,
    ) -> None:  # fmt: skip
        _check_numbers(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset = dataset
        self.num_workers, self.timeout = num_workers, timeout
        self.prefetch_factor = prefetch_factor if num_workers == 0 else prefetch_factor or 2
        self.pin_memory, self.pin_memory_device, self.in_order = pin_memory, pin_memory_device, in_order
        self.worker_init_fn, self.generator = worker_init_fn, generator
        self.persistent_workers = persistent_workers
        self.multiprocessing_context = _checked_context(multiprocessing_context, num_workers)
        self._is_iterable = isinstance(dataset, IterableDataset)
        self._announced: int | None = None  # the length that an iterable dataset said it has, if it was asked
        if self._is_iterable:
            _check_iterable(shuffle, sampler, batch_sampler)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            sampler = self._usual_sampler(bool(shuffle))
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler = sampler, batch_sampler
        self.collate_fn = collate_fn or (default_collate if self._auto_collation else default_convert)
        self._iterator: Any = None

    def __setattr__(self, name: str, value: Any) -> None:
        if name in FIXED and "_iterator" in self.__dict__:  # set last by __init__
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    def _usual_sampler(self, shuffle: bool) -> Any:
        if self._is_iterable:
            return repeat(None)
        if shuffle:
            return RandomSampler(self.dataset, generator=self.generator)
        return SequentialSampler(self.dataset)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __iter__(self) -> Iterator[T]:
        if self.num_workers == 0:
            return SingleProcess(self)
        if not self.persistent_workers:
            return Workers(self)
        if self._iterator is None or self._iterator.ended:
            self._iterator = Workers(self)
        else:
            self._iterator.restart(self)
        return self._iterator  # type: ignore[no-any-return]

    def __len__(self) -> int:
        count = self._length()()
        if self._is_iterable:
            self._announced = count
        return count

    def _length(self) -> Callable[[], int]:
        """The number of batches, as a function that does not hold the loader: its iterator keeps it."""
        dataset, sampler, iterable = self.dataset, self._index_sampler, self._is_iterable
        batch, drop_last = self.batch_size, self.drop_last

        def length() -> int:
            if not iterable:
                return len(sampler)
            size = len(dataset)
            return size if batch is None else size // batch if drop_last else -(-size // batch)

        return length


def _check_numbers(num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool) -> None:
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing. let num_workers > 0 to enable "
            "multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _checked_context(context: Any, num_workers: int) -> Any:
    """How workers are started: the name of a way to do it, or what multiprocessing gives for a name."""
    if context is None:
        return None
    if num_workers == 0:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
            "num_workers=0"
        )
    methods = multiprocessing.get_all_start_methods()
    if isinstance(context, str) and context not in methods:
        raise ValueError(
            f"multiprocessing_context option should specify a valid start method in {methods}, but got {context!r}"
        )
    if not isinstance(context, (str, multiprocessing.context.BaseContext)):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the start method, "
            f"but got multiprocessing_context={context}"
        )
    return context


def _check_iterable(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    for name, value in (("shuffle", shuffle or None), ("sampler", sampler), ("batch_sampler", batch_sampler)):
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
            )


def _base_seed(loader: Any) -> int:
    """Drawn for every pass over the data, as PyTorch does, whether workers need it or not."""
    return int(empty((), dtype=dtypes.int64).random_(generator=loader.generator).item())


class Pass(Iterator[Any]):
    """The batches of one pass, counted: an iterable dataset may have more of them than it said."""

    _given = 0

    def __init__(self, loader: Any) -> None:
        self._announced = loader._announced

    def __next__(self) -> Any:
        batch = self._next()
        self._given += 1
        if self._announced is not None and self._given > self._announced:
            warn(
                f"Length of IterableDataset was reported to be {self._announced} batches (when accessing "
                f"len(dataloader)), but {self._given} have been fetched: __len__ says too little, or each of several "
                "workers gives everything (get_worker_info() says which one it is)"
            )
        return batch

    def _next(self) -> Any:
        raise NotImplementedError


class SingleProcess(Pass):
    """The batches of one pass, fetched when they are asked for."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._sampler = iter(loader._index_sampler)
        self._length = loader._length()
        self._base_seed = _base_seed(loader)
        self._fetcher = Fetcher(loader.dataset, loader._auto_collation, loader.collate_fn, loader.drop_last)

    def _next(self) -> Any:
        return self._fetcher.fetch(next(self._sampler))

    def __len__(self) -> int:
        return int(self._length())


class Workers(Pass):
    """The batches of one pass, fetched by processes some steps ahead and given out in order."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._sampler = iter(loader._index_sampler)
        self._length, self._timeout, self._persistent = loader._length(), loader.timeout, loader.persistent_workers
        self._ahead = loader.prefetch_factor * loader.num_workers
        self._next_in = 0  # the number of the next batch to ask for; in another pass the numbers go on
        self._error: str | None = None  # why there are no more batches
        self._processes: list[Any] = []
        self._tasks: list[Any] = []
        self._readers: list[Any] = []
        self._finalizer = weakref.finalize(self, stop, os.getpid(), self._processes, self._tasks, self._readers)
        try:
            self._start(loader)
            self._begin()
        except BaseException:
            self._finalizer()
            raise

    def _start(self, loader: Any) -> None:
        context = loader.multiprocessing_context
        if context is None or isinstance(context, str):
            context = multiprocessing.get_context(context or START_METHOD)
        method, seed = context.get_start_method(), _base_seed(loader)
        for number in range(loader.num_workers):
            tasks, (reader, writer) = context.Queue(), context.Pipe(duplex=False)
            tasks.cancel_join_thread()
            self._tasks.append(tasks)
            self._readers.append(reader)
            process = context.Process(
                target=work, daemon=True,
                args=(number, loader.num_workers, seed + number, loader.dataset, loader._auto_collation,
                      loader.collate_fn, loader.drop_last, loader.worker_init_fn, tasks, writer,
                      self._readers if method == "fork" else []),
            )  # fmt: skip
            try:
                process.start()
            except Exception as error:
                if method == "fork" or isinstance(error, OSError):
                    raise
                raise RuntimeError(_not_sent(loader, method, error)) from error
            finally:
                writer.close()  # the worker has the only one: when it dies, its pipe comes to an end
            self._processes.append(process)

    def _begin(self) -> None:
        self._next_out = self._next_in
        self._waiting: dict[int, tuple[int, Any]] = {}  # batch -> the worker that was asked for it, and its indices
        self._arrived: dict[int, bytes] = {}
        self._alive = set(range(len(self._processes)))  # workers that still have items
        self._turn = cycle(range(len(self._processes)))
        for _ in range(self._ahead):
            self._ask()

    def restart(self, loader: Any) -> None:
        """Another pass over the data with the same processes."""
        self._sampler = iter(loader._index_sampler)
        self._announced, self._given = loader._announced, 0
        _base_seed(loader)
        for tasks in self._tasks:
            tasks.put((-1, None))
        self._begin()

    def _ask(self) -> None:
        """Give the next batch to the next worker that has items."""
        if not self._alive:
            return
        try:
            indices = next(self._sampler)
        except StopIteration:
            return
        try:
            task = pickle.dumps(indices)  # here: in the queue's own thread an error would be printed, and lost
        except Exception as error:
            what = f"the sampler gave {described(indices)}, which cannot be sent to a worker process"
            raise RuntimeError(explain(what, str(here()), f"{type(error).__name__}: {error}")) from error
        try:
            number = next(worker for worker in self._turn if worker in self._alive)
            self._waiting[self._next_in] = number, indices
            self._tasks[number].put((self._next_in, task))
            self._next_in += 1
        except BaseException:
            self._end(INTERRUPTED)  # nobody knows what was asked for
            raise

    def _next(self) -> Any:
        while True:
            if self._error is not None:
                raise RuntimeError(self._error)
            if self._next_out not in self._waiting:
                if not self._persistent:
                    self._finalizer()
                raise StopIteration
            while self._next_out not in self._arrived:
                self._receive()
            worker, indices = self._waiting[self._next_out]
            value = unpacked(self._arrived[self._next_out], worker, indices)
            del self._arrived[self._next_out], self._waiting[self._next_out]
            self._next_out += 1
            if isinstance(value, Exhausted):
                self._alive.discard(worker)
                self._ask()
                continue
            self._ask()
            if isinstance(value, Failure):
                value.reraise()  # who goes on after the error gets the next batch
            return value

    def _receive(self) -> None:
        """Wait for a batch; a worker that died in the meantime is an error that names it."""
        start = time.monotonic()
        while not (ready := wait(self._readers, POLL_SECONDS)):
            self._check_workers()
            if self._timeout and time.monotonic() - start > self._timeout:
                raise self._end(self._told_late())
        for reader in ready:
            self._read(reader)

    def _read(self, reader: Any) -> None:
        try:
            answer = reader.recv_bytes()
        except (EOFError, OSError):  # it died, perhaps in the middle of a batch
            worker = self._readers.index(reader)
            self._processes[worker].join(1.0)
            self._check_workers(silent=worker)
            raise
        except BaseException:
            self._end(INTERRUPTED)  # the rest of the batch would be read as the next one
            raise
        batch = NUMBER.unpack_from(answer)[0]
        if batch in self._waiting:  # else it is of an earlier pass
            self._arrived[batch] = answer

    def _check_workers(self, silent: int | None = None) -> None:
        """An error if a worker died, or closed its pipe."""
        gone = [i for i, process in enumerate(self._processes) if i == silent or not process.is_alive()]
        if gone:
            raise self._end(self._told(gone))

    def _told(self, gone: list[int]) -> str:
        """What is known of workers that died, in PyTorch's words first."""
        ends = [(i, self._processes[i].pid, self._processes[i].exitcode) for i in gone]
        missing = [each for batch, each in self._waiting.items() if batch not in self._arrived]
        asked = {i: [named(indices) for worker, indices in missing if worker == i][:4] for i in gone}
        killed = any(code == -9 for _, _, code in ends)
        memory = "the system kills processes when memory runs out: use fewer workers or smaller batches; "
        return explain(
            f"DataLoader worker (pid(s) {', '.join(str(pid) for _, pid, _ in ends)}) exited unexpectedly: "
            + "; ".join(f"worker (pid {pid}) {_in_pytorchs_words(code)}" for _, pid, code in ends),
            str(here()),
            "; ".join(
                f"worker {i} (pid {pid}, {_ending(code)}) still had to give {' and '.join(asked[i]) or 'nothing'}"
                for i, pid, code in ends
            ),
            memory * killed + "run with num_workers=0 to see the error in this process",
        )

    def _told_late(self) -> str:
        """What is known of a batch that did not come in time."""
        worker, indices = self._waiting[self._next_out]
        return explain(
            f"DataLoader timed out after {self._timeout} seconds",
            str(here()),
            f"worker {worker} (pid {self._processes[worker].pid}) did not give {named(indices)}",
            "a larger timeout=, or num_workers=0 to see where it hangs",
        )

    def _end(self, why: str) -> RuntimeError:
        """End the workers; whoever asks for more is told why there is none."""
        if self._error is None:
            self._error = why
        self._finalizer()
        return RuntimeError(why)

    @property
    def ended(self) -> bool:
        """Whether the processes are gone."""
        return not self._finalizer.alive

    def __len__(self) -> int:
        return int(self._length())


def _not_sent(loader: Any, method: str, error: Exception) -> str:
    """Which part of a loader a process that starts anew cannot be given."""
    parts = {name: getattr(loader, name) for name in ("collate_fn", "worker_init_fn", "dataset")}
    bad = {name: value for name, value in parts.items() if not can_be_sent(value)} or {"dataset": loader.dataset}
    return explain(
        "; ".join(f"{name} is {described(value)}" for name, value in bad.items())
        + f": it cannot be sent to a worker process that is started by {method}",
        str(here()),
        f"{type(error).__name__}: {error}",
        "define functions and classes at the top of a module, or use multiprocessing_context='fork'",
    )


def unpacked(answer: bytes, worker: int, indices: Any) -> Any:
    """What a worker sent after the number of the batch; an error in the making of it is one of the worker's."""
    try:
        return pickle.loads(memoryview(answer)[NUMBER.size :])
    except KeyboardInterrupt:  # of this process: the batch is still there for who goes on
        raise
    except BaseException as error:
        return Failure.of(error, f"unpickling what DataLoader worker process {worker} sent for {named(indices)}")


def _ending(code: int | None) -> str:
    """How a process ended, by its exit code: a negative one is the signal that killed it.

    >>> _ending(-9), _ending(3)
    ('killed by signal 9, SIGKILL', 'exit code 3')
    """
    if code is None:
        return "alive, but its pipe is closed"
    if code >= 0:
        return f"exit code {code}"
    name = next((f", {each.name}" for each in signal.Signals if each == -code), "")
    return f"killed by signal {-code}{name}"


def _in_pytorchs_words(code: int | None) -> str:
    """
    >>> _in_pytorchs_words(-9), _in_pytorchs_words(3)
    ('is killed by signal: Killed', 'exited unexpectedly with exit code 3')
    """
    if code is None:
        return "closed its pipe"
    return (
        f"is killed by signal: {signal.strsignal(-code)}" if code < 0 else f"exited unexpectedly with exit code {code}"
    )


def stop(owner: int, processes: list[Any], tasks: list[Any], readers: list[Any]) -> None:
    """End the workers: ask, wait a moment, then make them."""
    if os.getpid() != owner:  # a copy in a forked process: they are not its workers
        return
    for reader in readers:
        reader.close()  # who waits for a reader is told that there is none
    for each in tasks:
        with suppress(OSError, ValueError):
            each.put(None)
    for force, seconds in ((None, 1.0), ("terminate", 1.0), ("kill", 10.0)):
        left = [process for process in processes if process.is_alive()]
        end = time.monotonic() + seconds
        for process in left:
            if force:
                getattr(process, force)()
        for process in left:
            process.join(max(0.0, end - time.monotonic()))
    for each in tasks:
        each.close()
