"""DistributedSampler: each of several processes takes its share of the items."""

from collections.abc import Iterator, Sized

from pellucid.ops.random import Generator, randperm
from pellucid.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th item, from item `rank` on, of an order that all processes share.

    Without `drop_last` some items are given twice, so that all shares are equally long. Where nothing is said there is
    one process, which takes everything. Call `set_epoch` before every pass to have another order.

    >>> [list(DistributedSampler(range(5), 2, rank, shuffle=False)) for rank in range(2)]
    [[0, 2, 4], [1, 3, 0]]
    """

    def __init__(
        self, dataset: Sized, num_replicas: int | None = None, rank: int | None = None, shuffle: bool = True,
        seed: int = 0, drop_last: bool = False,
    ) -> None:  # fmt: skip
        self.num_replicas = 1 if num_replicas is None else num_replicas
        self.rank = 0 if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {self.num_replicas - 1}]")
        self.dataset, self.shuffle, self.seed, self.drop_last = dataset, shuffle, seed, drop_last
        self.epoch = 0
        whole, rest = divmod(len(dataset), self.num_replicas)
        self.num_samples = whole + (1 if rest and not drop_last else 0)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        size = len(self.dataset)
        order = list(range(size))
        if self.shuffle:
            order = randperm(size, generator=Generator().manual_seed(self.seed + self.epoch)).tolist()
        return iter([order[i % size] for i in range(self.rank, self.total_size, self.num_replicas)])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the next pass."""
        self.epoch = epoch
