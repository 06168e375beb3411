"""Samplers: in which order the items of a dataset are taken."""

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Any, Generic, TypeVar

from pellucid import dtypes
from pellucid.core.provenance import here
from pellucid.errors import explain
from pellucid.ops.construct import as_tensor
from pellucid.ops.create import empty
from pellucid.ops.distributions import multinomial
from pellucid.ops.random import Generator, randint, randperm

__all__ = [
    "BatchSampler", "RandomSampler", "Sampler", "SequentialSampler", "SubsetRandomSampler", "WeightedRandomSampler",
]  # fmt: skip

T = TypeVar("T")


class Sampler(Generic[T]):
    """An order of items: write `__iter__`.

    >>> import pellucid as torch
    >>> class EverySecond(torch.utils.data.Sampler):
    ...     def __init__(self, data): self.data = data
    ...     def __iter__(self): return iter(range(0, len(self.data), 2))
    >>> data = [10, 11, 12, 13, 14]
    >>> list(torch.utils.data.DataLoader(data, batch_size=None, sampler=EverySecond(data)))
    [10, 12, 14]
    """

    def __init__(self, data_source: Any = None) -> None:
        """Nothing is kept."""

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError("Subclasses of Sampler should implement __iter__.")


class SequentialSampler(Sampler[int]):
    """The items in their order.

    >>> import pellucid as torch
    >>> list(torch.utils.data.SequentialSampler(["a", "b", "c"]))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """The items in random order, without or with replacement; PyTorch's order for the same seed.

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> list(RandomSampler(range(5)))
    [1, 3, 4, 2, 0]
    """

    def __init__(
        self, data_source: Sized, replacement: bool = False, num_samples: int | None = None, generator: Any = None
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            text = f"num_samples should be a positive integer value, but got num_samples={self.num_samples}"
            why = "the dataset is empty: its length is 0" if num_samples is None else None
            raise ValueError(explain(text, str(here()), why))

    @property
    def num_samples(self) -> int:
        """How many items are drawn."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        size = len(self.data_source)
        generator = self.generator
        if generator is None:
            seed = int(empty((), dtype=dtypes.int64).random_().item())
            generator = Generator()
            generator.manual_seed(seed)
        if self.replacement:
            for _ in range(self.num_samples // 32):
                yield from randint(size, (32,), dtype=dtypes.int64, generator=generator).tolist()
            yield from randint(size, (self.num_samples % 32,), dtype=dtypes.int64, generator=generator).tolist()
        else:
            for _ in range(self.num_samples // size):
                yield from randperm(size, generator=generator).tolist()
            yield from randperm(size, generator=generator).tolist()[: self.num_samples % size]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Given items in random order.

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> list(torch.utils.data.SubsetRandomSampler([2, 3, 5, 7]))
    [2, 3, 7, 5]
    """

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Items drawn with given probabilities.

    >>> import pellucid as torch
    >>> _ = torch.manual_seed(0)
    >>> list(torch.utils.data.WeightedRandomSampler([0.9, 0.1, 0.0], num_samples=8))  # item 2 never comes
    [1, 0, 0, 1, 0, 0, 0, 0]
    """

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True, generator: Any = None
    ) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights = as_tensor(weights, dtype=dtypes.float64)
        if self.weights.ndim != 1:
            raise ValueError(
                f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        yield from multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator).tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """The items of another sampler in lists of a size.

    >>> import pellucid as torch
    >>> list(torch.utils.data.BatchSampler(range(7), batch_size=3, drop_last=False))
    [[0, 1, 2], [3, 4, 5], [6]]
    >>> list(torch.utils.data.BatchSampler(range(7), batch_size=3, drop_last=True))
    [[0, 1, 2], [3, 4, 5]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        items = iter(self.sampler)
        while batch := list(islice(items, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        size = len(self.sampler)  # type: ignore[arg-type]
        return size // self.batch_size if self.drop_last else -(-size // self.batch_size)
