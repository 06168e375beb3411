# ruff: noqa: NPY002 (a dataset of old draws from NumPy's global generator)
"""Datasets, samplers and loaders: PyTorch's order for the same seed, workers that end, errors that name the worker."""

import os
import signal
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
    def __init__(self, size=10, bad=None, deadly=None):
        self.size, self.bad, self.deadly = size, bad, deadly

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        if i == self.bad:
            raise ValueError(f"item {i} is bad")
        if i == self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
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


def test_workers_give_the_same_batches_in_order():
    expected = [batch[1].tolist() for batch in DataLoader(Numbers(11), 3)]
    loader = DataLoader(Numbers(11), 3, num_workers=2)
    assert [batch[1].tolist() for batch in loader] == expected
    assert [batch[1].tolist() for batch in loader] == expected and len(loader) == 4


def test_workers_share_an_iterable_dataset_and_persist():
    loader = DataLoader(Stream(), 2, num_workers=2, persistent_workers=True)
    for _ in range(2):
        assert sorted(i for batch in loader for i in batch.tolist()) == list(range(9))
    processes = loader._iterator._processes
    del loader
    assert all(not process.is_alive() for process in processes)


def test_an_error_in_a_worker_arrives_with_its_traceback():
    with pytest.raises(ValueError, match=r"(?s)DataLoader worker process \d.*item 5 is bad"):
        list(DataLoader(Numbers(bad=5), 2, num_workers=2))


def test_a_worker_that_dies_is_named_and_nothing_hangs():
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=r"(?s)pid\(s\) \d+.*exit code -9"):
        list(DataLoader(Numbers(deadly=5), 2, num_workers=2))
    assert time.monotonic() - start < 20


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
