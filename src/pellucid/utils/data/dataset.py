"""Datasets: things with a length and items, or things to iterate over."""

import bisect
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

from pellucid.core.provenance import warn
from pellucid.core.tensor import Tensor
from pellucid.ops.random import randperm

__all__ = [
    "ChainDataset", "ConcatDataset", "Dataset", "IterableDataset", "StackDataset", "Subset", "TensorDataset",
    "random_split",
]  # fmt: skip

T = TypeVar("T")


class Dataset(Generic[T]):
    """Items by number: write `__getitem__` and `__len__`.

    >>> class Squares(Dataset):
    ...     def __getitem__(self, i): return i * i
    ...     def __len__(self): return 4
    >>> list(Squares() + Squares())
    [0, 1, 4, 9, 0, 1, 4, 9]
    """

    def __getitem__(self, index: Any) -> T:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: "Dataset[T]") -> "ConcatDataset[T]":
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T]):
    """Items one after the other: write `__iter__`.

    >>> import pellucid as torch
    >>> class Countdown(torch.utils.data.IterableDataset):
    ...     def __iter__(self): return iter([3, 2, 1])
    >>> list(torch.utils.data.DataLoader(Countdown(), batch_size=2))
    [tensor([3, 2]), tensor([1])]
    """

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Any) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Tensors of equal first size; an item is a tuple of one slice of each.

    >>> import pellucid as torch
    >>> data = TensorDataset(torch.arange(3), torch.arange(3) * 10)
    >>> data[1]
    (tensor(1), tensor(10))
    """

    def __init__(self, *tensors: Any) -> None:
        if any(tensor.shape[0] != tensors[0].shape[0] for tensor in tensors):
            raise AssertionError(f"Size mismatch between tensors: {[tensor.shape[0] for tensor in tensors]}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])


class StackDataset(Dataset[Any]):
    """Several datasets side by side: an item is a tuple (or a dictionary) of one item of each.

    >>> import pellucid as torch
    >>> data = torch.utils.data.StackDataset(image=["cat.png", "dog.png"], label=[0, 1])
    >>> data[1]
    {'image': 'dog.png', 'label': 1}
    """

    def __init__(self, *args: Dataset[Any], **kwargs: Dataset[Any]) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or ``dict``- (via ``kwargs``) like input/output"
            )
        self.datasets: Any = args or kwargs
        lengths = {len(each) for each in (args or kwargs.values())}  # type: ignore[arg-type]
        if len(lengths) != 1:
            raise ValueError("Size mismatch between datasets")
        self._length = lengths.pop()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """Several items at once: of each dataset that can, all of its items in one call."""
        named = isinstance(self.datasets, dict)
        columns = [_several(each, indices) for each in (self.datasets.values() if named else self.datasets)]
        rows = zip(*columns, strict=True)
        return [dict(zip(self.datasets, row, strict=True)) for row in rows] if named else list(rows)

    def __len__(self) -> int:
        return self._length


def _several(dataset: Any, indices: list[int]) -> Any:
    """Some items of a dataset, in one call if it has one for that."""
    fetch = getattr(dataset, "__getitems__", None)
    if not callable(fetch):
        return [dataset[i] for i in indices]
    found = fetch(indices)
    if len(found) != len(indices):
        raise ValueError(f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(found)}")
    return found


class ConcatDataset(Dataset[T]):
    """Several datasets one after the other.

    >>> import pellucid as torch
    >>> both = torch.utils.data.ConcatDataset([["a", "b"], ["c"]])
    >>> len(both), both[2]
    (3, 'c')
    """

    def __init__(self, datasets: Iterable[Dataset[T]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(each, IterableDataset) for each in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Sequence[Any]) -> list[int]:
        """The number of items up to the end of each."""
        return list(accumulate(len(each) for each in sequence))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T:
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset[T]):
    """Several iterable datasets one after the other.

    >>> import pellucid as torch
    >>> class Upto(torch.utils.data.IterableDataset):
    ...     def __init__(self, n): self.n = n
    ...     def __iter__(self): return iter(range(self.n))
    >>> list(torch.utils.data.ChainDataset([Upto(2), Upto(3)]))
    [0, 1, 0, 1, 2]
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[T]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self.datasets)


class Subset(Dataset[T]):
    """Some items of a dataset, by their numbers.

    >>> import pellucid as torch
    >>> part = torch.utils.data.Subset(["a", "b", "c", "d"], [3, 0])
    >>> list(part), len(part)
    (['d', 'a'], 2)
    """

    def __init__(self, dataset: Dataset[T], indices: Sequence[int]) -> None:
        kind = type(self)
        if kind.__getitem__ is not Subset.__getitem__ and kind.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{kind.__name__} overrides __getitem__ but not __getitems__, which a DataLoader calls for a batch: "
                "its items would bypass the __getitem__ that was written. Override both"
            )
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> T:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[T]:
        """Several items at once."""
        chosen = [self.indices[i] for i in indices]
        fetch = getattr(self.dataset, "__getitems__", None)
        return fetch(chosen) if callable(fetch) else [self.dataset[i] for i in chosen]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Dataset[T], lengths: Sequence[float], generator: Any = None) -> list[Subset[T]]:
    """Split a dataset at random into parts of the given lengths, or fractions that sum to 1.

    >>> import pellucid as torch
    >>> [len(part) for part in random_split(TensorDataset(torch.arange(10)), [0.7, 0.3])]
    [7, 3]
    """
    size = len(dataset)  # type: ignore[arg-type]
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _shares(lengths, size)
    if sum(lengths) != size:
        what = "Sum of input lengths does not equal the length of the input dataset!"
        raise ValueError(f"{what} {list(lengths)} is {sum(lengths)}, the dataset has {size} items")
    order = randperm(size, generator=generator).tolist()
    counts = [int(n) for n in lengths]
    return [Subset(dataset, order[end - n : end]) for end, n in zip(accumulate(counts), counts, strict=True)]


def _shares(fractions: Sequence[float], size: int) -> list[int]:
    """Whole numbers in the proportion of the fractions: what is left over goes to the first ones."""
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1")
    counts = [math.floor(size * fraction) for fraction in fractions]
    for i in range(size - sum(counts)):
        counts[i % len(counts)] += 1
    for i, count in enumerate(counts):
        if count == 0:
            warn(f"Length of split at index {i} is 0. This might result in an empty dataset.")
    return counts
