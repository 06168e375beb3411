"""What runs in a worker process of a DataLoader, and how the main process talks to it.

A worker takes (number of the batch, pickled indices) from its queue and sends the number and what was fetched, pickled,
down a pipe of its own. None ends it. It pickles by itself, so that what cannot be sent is an error like any other:
errors travel home as text and are raised there, with the worker's number. And the pipe is its own, so that one who dies
in the middle of a batch leaves an end of file, not half a batch that those of the others follow.
"""

import io
import os
import pickle
import queue
import random
import signal
import struct
import threading
import traceback
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from pellucid.errors import a_kind, explain
from pellucid.ops.random import manual_seed
from pellucid.utils.data.dataset import IterableDataset

NUMBER = struct.Struct("<q")  # how the number of a batch is sent
CHECK_SECONDS = 5.0  # how often a waiting worker looks whether its parent still lives


@dataclass
class WorkerInfo:
    """Which worker this process is."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker process: its number, how many there are, its seed and its dataset; None in the main process.

    >>> get_worker_info() is None
    True
    """
    return _worker_info


@dataclass
class Failure:
    """An error on its way from a worker to the main process."""

    kind: bytes  # its class, pickled: not every process that reads this can know it
    text: str

    @staticmethod
    def of(error: BaseException, where: str) -> "Failure":
        """The error with its traceback as text."""
        text = f"Caught {type(error).__name__} {where}.\nOriginal {traceback.format_exc()}"
        try:
            return Failure(pickle.dumps(type(error)), text)
        except Exception:
            return Failure(b"", text)

    def reraise(self) -> None:
        """Raise it here: of its own class if that takes a text, else a RuntimeError.

        What would end a loop or the program without a word (StopIteration, SystemExit) is a RuntimeError too.
        """
        try:
            kind = pickle.loads(self.kind)
            error = kind(Lines(self.text) if issubclass(kind, KeyError) else self.text)
        except Exception:
            raise RuntimeError(self.text) from None
        if not isinstance(error, Exception) or isinstance(error, (StopIteration, StopAsyncIteration)):
            raise RuntimeError(self.text)
        if self.text not in str(error):
            error.add_note(self.text)
        raise error


class Lines(str):
    """A text of several lines, shown as such by a KeyError too, which shows the repr of what it was given."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Exhausted:
    """An iterable dataset has no more items for this worker."""


class Fetcher:
    """Gets batches out of a dataset, by indices or by iterating."""

    def __init__(self, dataset: Any, batched: bool, collate: Any, drop_last: bool) -> None:
        self.dataset, self.batched, self.collate, self.drop_last = dataset, batched, collate, drop_last
        self.items = iter(dataset) if isinstance(dataset, IterableDataset) else None

    def fetch(self, indices: Any) -> Any:
        """One batch, or one item where there are no batches; StopIteration when an iterable is at its end."""
        return self.collated(self.samples(indices))

    def samples(self, indices: Any) -> Any:
        """The items of a batch, or one item, as the dataset gives them."""
        if self.items is not None:
            return self._next(indices)
        try:
            if not self.batched:
                return self.dataset[indices]
            several = getattr(self.dataset, "__getitems__", None)
            return several(indices) if callable(several) else [self.dataset[i] for i in indices]
        except StopIteration as error:  # would end the loop over the loader, as if there were no more
            raise RuntimeError("the dataset raised StopIteration for an item") from error

    def collated(self, samples: Any) -> Any:
        try:
            return self.collate(samples)
        except StopIteration as error:
            raise RuntimeError("collate_fn raised StopIteration") from error

    def _next(self, indices: Any) -> Any:
        assert self.items is not None
        if not self.batched:
            return next(self.items)
        batch = [item for _, item in zip(indices, self.items, strict=False)]
        if not batch or (self.drop_last and len(batch) < len(indices)):
            raise StopIteration
        return batch


def numpy_seed(base: int, number: int) -> np.ndarray:
    """The seed of NumPy's own generator in a worker, as PyTorch mixes it from the loader's and the worker's number.

    >>> numpy_seed(5, 1)
    array([3025039489, 3528014902, 3507927383, 2601490367], dtype=uint32)
    """
    words = np.array([number, base % 2**32, base >> 32, 0], dtype=np.uint32)
    return np.random.SeedSequence(words).generate_state(4)  # type: ignore[arg-type]


def work(
    number: int, workers: int, seed: int, dataset: Any, batched: bool, collate: Any, drop_last: bool, init: Any,
    tasks: Any, results: Any, inherited: list[Any],
) -> None:  # fmt: skip
    """The life of a worker process."""
    global _worker_info
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends Ctrl-C to all processes: the main one decides
    for connection in inherited:  # a fork has the main process's ends too: while one is open, writing to nobody waits
        connection.close()
    random.seed(seed)
    manual_seed(seed)
    np.random.seed(numpy_seed(seed - number, number))  # noqa: NPY002 (what the dataset's own code draws from)
    _worker_info = WorkerInfo(number, workers, seed, dataset)
    worker = Worker(number, init, dataset, batched, collate, drop_last)
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_send, args=(answers, results), daemon=True).start()
    parent = os.getppid()
    while (task := next_task(tasks, parent)) is not None:
        batch, indices = task
        if indices is None:
            worker.begin()
        else:
            answers.put(worker.answer(NUMBER.pack(batch), indices))


def _send(answers: Any, results: Any) -> None:
    """Send answers while others are made: a pipe holds 64 KB, and the main process reads when it needs a batch."""
    with suppress(BrokenPipeError):  # nobody reads any more
        while True:
            results.send_bytes(answers.get())


class Worker:
    """Answers tasks with bytes."""

    def __init__(self, number: int, init: Any, *source: Any) -> None:
        self.number, self.init, self.source = number, init, source
        self.where = f"in DataLoader worker process {number}"
        self.begin()

    def begin(self) -> None:
        """Start, or start an iterable dataset anew; an error waits until a batch is asked for."""
        self.failure: Failure | None = None
        self.given = 0
        try:
            if self.init is not None:
                self.init(self.number)
                self.init = None
            self.fetcher = Fetcher(*self.source)
        except BaseException as error:
            self.failure = Failure.of(error, self.where)

    def answer(self, start: bytes, pickled: bytes) -> Any:
        """What a batch is, or why there is none, pickled."""
        if self.failure is not None:
            return packed(self.failure, start)
        where, iterable = self.where, self.fetcher.items is not None
        try:
            indices = pickle.loads(pickled)
            if not iterable:
                where += f", fetching {named(indices)}"
            samples = self.fetcher.samples(indices)
            batch = self.fetcher.collated(samples)
        except BaseException as error:
            ended = iterable and isinstance(error, StopIteration)
            return packed(Exhausted() if ended else Failure.of(error, where), start)
        self.given += 1
        try:
            return packed(batch, start)
        except BaseException as error:
            return packed(self._unsendable(error, indices, samples, batch), start)

    def _unsendable(self, error: BaseException, indices: Any, samples: Any, batch: Any) -> Failure:
        """Which item it is, or what collate_fn made of the items, and what of it cannot be pickled."""
        of = f"of batch {self.given - 1}" if self.fetcher.items is not None else ""
        if not self.fetcher.batched:
            items = [(f"the item {of}" if of else f"item {indices}", samples)]
        else:
            items = [(f"item {i} {of}".rstrip(), each) for i, each in zip(count() if of else indices, samples)]
        bad = next((f"{name} is {described(each)}" for name, each in items if not can_be_sent(each)), None)
        made = f"collate_fn made {described(batch)} of {f'the items {of}' if of else named(indices)}"
        text = explain(
            f"what was fetched {self.where} cannot be sent to the main process: {bad or made}",
            why=f"{type(error).__name__}: {error}",
            try_="give tensors, arrays, numbers, texts and containers of them, or use num_workers=0",
        )
        return Failure(pickle.dumps(RuntimeError), text)


def packed(value: Any, start: bytes = b"") -> Any:
    """The bytes of what goes to another process, after a few others."""
    out = io.BytesIO()
    out.write(start)
    ForkingPickler(out).dump(value)
    return out.getbuffer()


def can_be_sent(value: Any) -> bool:
    """Whether a value can be pickled.

    >>> can_be_sent([1, "a"]), can_be_sent(lambda: 0)
    (True, False)
    """
    try:
        packed(value)
    except BaseException:
        return False
    return True


def described(value: Any) -> str:
    """What a value that cannot be pickled is, and which part of it is to blame.

    >>> described({"a": 1, "f": [0, lambda: 0]})
    "a dict whose ['f'][1] is a function"
    """
    path, part = "", value
    for _ in range(20):  # deep enough for what people write; a part may contain itself
        step = next((each for each in _parts(part) if not can_be_sent(each[1])), None)
        if step is None:
            break
        path, part = path + step[0], step[1]
    return a_kind(value) + (f" whose {path} is {a_kind(part)}" if path else "")


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """The parts of a container or an object, each with the way to it."""
    if isinstance(value, dict):
        return ((f"[{key!r}]", part) for key, part in value.items())
    if isinstance(value, (list, tuple)):
        return ((f"[{i}]", part) for i, part in enumerate(value))
    return ((f".{name}", part) for name, part in getattr(value, "__dict__", {}).items())


def named(indices: Any) -> str:
    """The items of a batch, the first ones of a large one.

    >>> named([4, 5]), named(7), named(list(range(100))), named([None, None])
    ('items 4, 5', 'item 7', 'items 0, 1, 2, 3, 4, 5, 6, 7, ...', 'the next items')
    """
    if indices is None or (isinstance(indices, list) and indices and indices[0] is None):  # of an iterable dataset
        return "the next items"
    if not isinstance(indices, list):
        return f"item {indices}"
    return f"items {', '.join(map(str, indices[:8]))}{', ...' if len(indices) > 8 else ''}"


def next_task(tasks: Any, parent: int) -> Any:
    """The next task; None (the end) also when the parent process is gone."""
    while True:
        try:
            return tasks.get(timeout=CHECK_SECONDS)
        except queue.Empty:
            if os.getppid() != parent:
                return None
