"""Datasets, samplers and loaders, as torch.utils.data has them."""

from pellucid.utils.data.collate import collate, default_collate, default_convert
from pellucid.utils.data.dataloader import DataLoader
from pellucid.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from pellucid.utils.data.distributed import DistributedSampler
from pellucid.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from pellucid.utils.data.worker import get_worker_info

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler", "IterableDataset",
    "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset", "SubsetRandomSampler", "TensorDataset",
    "WeightedRandomSampler", "collate", "default_collate", "default_convert", "get_worker_info", "random_split",
]  # fmt: skip
