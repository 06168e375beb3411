"""Datasets, samplers and loaders, as torch.utils.data has them."""

from pellucid.absent import absent
from pellucid.utils.data import _utils
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
    "WeightedRandomSampler", "_utils", "collate", "default_collate", "default_convert", "get_worker_info",
    "random_split",
]  # fmt: skip


__getattr__ = absent(
    "torch.utils.data",
    "DFIterDataPipe DataChunk IterDataPipe MapDataPipe argument_validation functional_datapipe "
    "guaranteed_datapipes_determinism non_deterministic runtime_validation runtime_validation_disabled",
    "data pipes are an experiment that PyTorch has given up",
    "torch.utils.data.Dataset or IterableDataset",
)
