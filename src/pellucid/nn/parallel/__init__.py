"""Models on several devices, as torch.nn.parallel has them: there is one CPU, so the wrappers only pass on."""

from pellucid.nn.parallel.data_parallel import DataParallel, data_parallel
from pellucid.nn.parallel.distributed import DistributedDataParallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]
