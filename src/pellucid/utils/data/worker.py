"""What runs in a worker process of a DataLoader, and how the main process talks to it.

A worker takes (number of the batch, indices) from its own queue and puts (number, what was fetched) into the common
one. None ends it. An error travels home as text and is raised there, with the worker's number.
"""

import os
import queue
import random
import traceback
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid.ops.random import manual_seed
from pellucid.utils.data.dataset import IterableDataset

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

    kind: type[BaseException]
    text: str

    @staticmethod
    def of(error: BaseException, where: str) -> "Failure":
        """The error with its traceback as text."""
        return Failure(type(error), f"Caught {type(error).__name__} {where}.\nOriginal {traceback.format_exc()}")

    def reraise(self) -> None:
        """Raise it here: of its own class if that takes a text, else a RuntimeError."""
        try:
            error = self.kind(Lines(self.text) if issubclass(self.kind, KeyError) else self.text)
        except Exception:
            error = RuntimeError(self.text)
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
        if self.items is not None:
            return self._next(indices)
        if not self.batched:
            return self.collate(self.dataset[indices])
        several = getattr(self.dataset, "__getitems__", None)
        return self.collate(several(indices) if callable(several) else [self.dataset[i] for i in indices])

    def _next(self, indices: Any) -> Any:
        assert self.items is not None
        if not self.batched:
            return self.collate(next(self.items))
        batch = [item for _, item in zip(indices, self.items, strict=False)]
        if not batch or (self.drop_last and len(batch) < len(indices)):
            raise StopIteration
        return self.collate(batch)


def numpy_seed(base: int, number: int) -> np.ndarray:
    """The seed of NumPy's own generator in a worker, as PyTorch mixes it from the loader's and the worker's number.

    >>> numpy_seed(5, 1)
    array([3025039489, 3528014902, 3507927383, 2601490367], dtype=uint32)
    """
    words = np.array([number, base % 2**32, base >> 32, 0], dtype=np.uint32)
    return np.random.SeedSequence(words).generate_state(4)  # type: ignore[arg-type]


def work(
    number: int, count: int, seed: int, dataset: Any, batched: bool, collate: Any, drop_last: bool, init: Any,
    tasks: Any, results: Any,
) -> None:  # fmt: skip
    """The life of a worker process."""
    global _worker_info
    random.seed(seed)
    manual_seed(seed)
    np.random.seed(numpy_seed(seed - number, number))  # noqa: NPY002 (what the dataset's own code draws from)
    _worker_info = WorkerInfo(number, count, seed, dataset)
    where = f"in DataLoader worker process {number}"
    fetcher = failure = None
    try:
        if init is not None:
            init(number)
        fetcher = Fetcher(dataset, batched, collate, drop_last)
    except BaseException as error:
        failure = Failure.of(error, where)
    parent = os.getppid()
    while (task := next_task(tasks, parent)) is not None:
        batch, indices = task
        if isinstance(indices, Restart):
            fetcher, failure = Fetcher(dataset, batched, collate, drop_last), None
            continue
        results.put((batch, number, failure or _fetched(fetcher, indices, where)))
    results.cancel_join_thread()


class Restart:
    """Instead of indices: begin an iterable dataset anew."""


def _fetched(fetcher: Any, indices: Any, where: str) -> Any:
    try:
        return fetcher.fetch(indices)
    except StopIteration:
        return Exhausted()
    except BaseException as error:
        return Failure.of(error, where if fetcher.items is not None else f"{where}, fetching {_named(indices)}")


def _named(indices: Any) -> str:
    """The items of a batch, the first ones of a large one.

    >>> _named([4, 5]), _named(7), _named(list(range(100)))
    ('items 4, 5', 'item 7', 'items 0, 1, 2, 3, 4, 5, 6, 7, ...')
    """
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
