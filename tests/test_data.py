# ruff: noqa: NPY002 (a dataset of old draws from NumPy's global generator)
"""Datasets, samplers and loaders: PyTorch's order for the same seed, workers that end, errors that name the worker."""

import contextlib
import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import pellucid
from pellucid.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    get_worker_info,
    random_split,
)


class Numbers(Dataset):
    def __init__(self, size=10, bad=None, deadly=None, endless=None):
        self.size, self.bad, self.deadly, self.endless = size, bad, deadly, endless

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        if i == self.bad:
            raise ValueError(f"item {i} is bad")
        if i == self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        if i == self.endless:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(3600)
        return pellucid.tensor([float(i)]), i


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        start, step = (0, 1) if info is None else (info.id, info.num_workers)
        yield from (pellucid.tensor(i) for i in range(start, 9, step))


def orders(library, build):
    """What loaders give for seed 3: two passes and the next random number."""
    library.manual_seed(3)
    loader = build(library, library.utils.data)
    passes = [[np.asarray(batch[0]).ravel().tolist() for batch in loader] for _ in range(2)]
    return passes, library.rand(1).item()


LOADERS = {
    "in order": lambda t, d: d.DataLoader(d.TensorDataset(t.arange(10)), batch_size=3),
    "shuffled": lambda t, d: d.DataLoader(d.TensorDataset(t.arange(10)), batch_size=3, shuffle=True),
    "last dropped": lambda t, d: d.DataLoader(d.TensorDataset(t.arange(10)), 4, shuffle=True, drop_last=True),
    "own generator": lambda t, d: d.DataLoader(
        d.TensorDataset(t.arange(10)), 3, shuffle=True, generator=t.Generator().manual_seed(5)
    ),
    "with replacement": lambda t, d: d.DataLoader(
        d.TensorDataset(t.arange(10)), 4, sampler=d.RandomSampler(range(10), replacement=True, num_samples=70)
    ),
    "weighted": lambda t, d: d.DataLoader(
        d.TensorDataset(t.arange(4)), 2, sampler=d.WeightedRandomSampler([0.1, 0.2, 0.3, 0.4], 6)
    ),
    "subset": lambda t, d: d.DataLoader(d.TensorDataset(t.arange(9)), sampler=d.SubsetRandomSampler([1, 3, 5])),
    "batch sampler": lambda t, d: d.DataLoader(
        d.TensorDataset(t.arange(9)), batch_sampler=d.BatchSampler(d.RandomSampler(range(9)), 2, True)
    ),
    "random split": lambda t, d: d.DataLoader(d.random_split(d.TensorDataset(t.arange(10)), [0.55, 0.45])[1], 2),
}


@pytest.mark.parametrize("name", LOADERS)
def test_orders_are_pytorchs(name, torch):
    assert orders(pellucid, LOADERS[name]) == orders(torch, LOADERS[name])


def test_order_of_a_seed():
    pellucid.manual_seed(0)
    loader = DataLoader(TensorDataset(pellucid.arange(5)), shuffle=True)
    assert [batch[0].item() for batch in loader] == [1, 4, 2, 3, 0]


SHARES = [
    {"num_replicas": 3, "rank": 1}, {"num_replicas": 3, "rank": 2, "shuffle": False}, {"num_replicas": 2, "rank": 0},
    {"num_replicas": 3, "rank": 0, "drop_last": True, "seed": 4}, {"num_replicas": 30, "rank": 29},
    {"num_replicas": 2, "rank": 2}, {"num_replicas": 2, "rank": -1},
]  # fmt: skip


@pytest.mark.parametrize("options", SHARES, ids=str)
def test_shares_of_several_processes_are_pytorchs(options, torch):
    def shares(library):
        try:
            sampler = library.utils.data.distributed.DistributedSampler(range(10), **options)
        except ValueError as error:
            return str(error)
        passes = [list(sampler)]
        sampler.set_epoch(3)
        return [*passes, list(sampler), len(sampler), sampler.total_size]

    assert shares(pellucid) == shares(torch)


def test_one_process_takes_everything():
    assert sorted(pellucid.utils.data.DistributedSampler(range(5))) == list(range(5))


SAMPLES = [
    [1, 2], [1.5, 2.5], [True, False], ["a", "b"], [{"x": 1, "y": [1.0, 2]}, {"x": 2, "y": [3.0, 4]}],
    [(1, (2, "c")), (3, (4, "d"))], [np.float32(1), np.float32(2)], [np.ones(2), np.zeros(2)],
]  # fmt: skip


@pytest.mark.parametrize("batch", SAMPLES, ids=str)
def test_collate_as_pytorch(batch, torch):
    def plain(value):
        if isinstance(value, (pellucid.Tensor, torch.Tensor)):
            return str(value.dtype), value.tolist()
        if isinstance(value, dict):
            return {key: plain(part) for key, part in value.items()}
        return type(value), [plain(part) for part in value] if isinstance(value, (list, tuple)) else value

    ours, theirs = pellucid.utils.data.default_collate(batch), torch.utils.data.default_collate(batch)
    assert plain(ours) == plain(theirs)


def test_collate_refuses():
    with pytest.raises(TypeError, match="found <class 'object'>"):
        pellucid.utils.data.default_collate([object()])
    with pytest.raises(RuntimeError, match="equal size"):
        pellucid.utils.data.default_collate([[1], [1, 2]])


def test_datasets():
    both = Numbers(3) + Numbers(2)
    assert isinstance(both, ConcatDataset) and [i for _, i in both] == [0, 1, 2, 0, 1] and both[-1][1] == 1
    assert [i for _, i in Subset(Numbers(), [7, 2])] == [7, 2]
    assert StackDataset(a=Numbers(2), b=Numbers(2))[1]["b"][1] == 1
    with pytest.raises(AssertionError, match="Size mismatch"):
        TensorDataset(pellucid.ones(2), pellucid.ones(3))
    with pytest.raises(ValueError, match="Sum of input lengths"):
        random_split(Numbers(), [3, 3])


@pytest.mark.parametrize("options", [
    {"shuffle": True, "sampler": [1]}, {"batch_size": 2, "batch_sampler": [[1]]}, {"num_workers": -1},
    {"batch_size": None, "drop_last": True}, {"prefetch_factor": 2}, {"persistent_workers": True}, {"timeout": -1},
])  # fmt: skip
def test_options_that_exclude_each_other(options):
    with pytest.raises(ValueError):
        DataLoader(Numbers(), **options)


@pytest.mark.parametrize("shuffle", [False, True])
def test_workers_give_the_same_batches_in_order(shuffle):
    def passes(workers):
        pellucid.manual_seed(7)
        loader = DataLoader(Numbers(11), 3, shuffle, num_workers=workers)
        assert len(loader) == 4
        return [[batch[1].tolist() for batch in loader] for _ in range(2)]

    expected = passes(0)
    assert passes(1) == expected and passes(4) == expected


def test_workers_share_an_iterable_dataset_and_persist():
    loader = DataLoader(Stream(), 2, num_workers=2, persistent_workers=True)
    for _ in range(2):
        assert sorted(i for batch in loader for i in batch.tolist()) == list(range(9))
    processes = loader._iterator._processes
    del loader
    assert all(not process.is_alive() for process in processes)


def test_an_error_in_a_worker_arrives_with_its_traceback():
    with pytest.raises(ValueError, match="item 5 is bad") as caught:
        list(DataLoader(Numbers(bad=5), 2, num_workers=2))
    text = str(caught.value)
    assert text.startswith("Caught ValueError in DataLoader worker process 0, fetching items 4, 5.\nOriginal Traceback")
    assert 'raise ValueError(f"item {i} is bad")' in text and __file__ in text
    del caught  # who catches the error may go on with the next batch, so the workers live as long as it does
    gc.collect()
    assert not multiprocessing.active_children()


def test_a_worker_that_dies_is_named_and_nothing_hangs():
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=r"(?s)pid\(s\) \d+.*worker 0 \(pid \d+, killed by signal 9, SIGKILL\)"):
        list(DataLoader(Numbers(deadly=5), 2, num_workers=2))
    assert time.monotonic() - start < 5
    assert not multiprocessing.active_children()


def test_a_worker_that_hangs_runs_out_of_time():
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=r"(?s)DataLoader timed out after 0\.5 seconds.*items 4, 5"):
        list(DataLoader(Numbers(endless=5), 2, num_workers=2, timeout=0.5))
    assert time.monotonic() - start < 8  # it is asked, told and then made to end
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_a_hundred_runs_leave_no_process_behind():
    faults = ({}, {"bad": 5}, {"deadly": 5})
    for number in range(100):
        with contextlib.suppress(RuntimeError, ValueError):
            for batch in DataLoader(Numbers(**faults[number % 3]), 2, num_workers=2):
                if number % 2 and batch[1][0] == 2:
                    break
    gc.collect()
    assert not multiprocessing.active_children()


LEFT_ALONE = """
import os, sys, time
import pellucid
from pellucid.utils.data import DataLoader, TensorDataset
loader = iter(DataLoader(TensorDataset(pellucid.arange(1000)), 1, num_workers=2))
next(loader)
print(*(process.pid for process in loader._processes), flush=True)
time.sleep(60)
"""


@pytest.mark.slow
def test_workers_end_when_their_parent_is_killed():
    with subprocess.Popen([sys.executable, "-c", LEFT_ALONE], stdout=subprocess.PIPE, text=True) as parent:
        workers = [int(pid) for pid in parent.stdout.readline().split()]
        parent.kill()
    assert len(workers) == 2
    end = time.monotonic() + 15
    while any(is_running(pid) for pid in workers) and time.monotonic() < end:
        time.sleep(0.2)
    assert not any(is_running(pid) for pid in workers)


def is_running(pid):
    """Whether a process is there and no zombie that nobody has waited for."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_workers_end_when_the_iterator_is_left():
    iterator = iter(DataLoader(Numbers(1000), 1, num_workers=2))
    next(iterator)
    processes = iterator._processes
    del iterator
    assert all(not process.is_alive() for process in processes)


def seen_by_worker(number):
    np.random.seed(number)


def test_workers_have_seeds_and_an_init_function():
    class Seeds(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return get_worker_info().seed, float(np.random.rand())

    pellucid.manual_seed(1)
    batches = list(DataLoader(Seeds(), 2, num_workers=2, worker_init_fn=seen_by_worker))
    seeds = [batch[0].tolist() for batch in batches]
    assert seeds[1][0] == seeds[0][0] + 1
    np.random.seed(1)
    assert batches[1][1].tolist() == [np.random.rand(), np.random.rand()]


class Draws(Dataset):
    """Items made of a library's random numbers."""

    def __init__(self, library):
        self.library = library

    def __len__(self):
        return 4

    def __getitem__(self, i):
        drawn = float(np.random.rand()), random.random()  # augmentations draw from these two
        return np.array([*self.library.rand(2).tolist(), *drawn])


def test_workers_draw_pytorchs_random_numbers(torch):
    def drawn(library):
        library.manual_seed(4)
        return [batch.tolist() for batch in library.utils.data.DataLoader(Draws(library), 2, num_workers=2)]

    ours = drawn(pellucid)
    assert ours == drawn(pellucid) == drawn(torch) and ours[0] != ours[1]
