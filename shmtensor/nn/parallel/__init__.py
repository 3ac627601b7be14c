"""`DistributedDataParallel` for groups of processes; without accelerators, `DataParallel` calls its
module.

Source:
    torch.nn.parallel.
"""

from __future__ import annotations

from shmtensor.nn.parallel.data_parallel import DataParallel as DataParallel
from shmtensor.nn.parallel.data_parallel import data_parallel
from shmtensor.nn.parallel.distributed import DistributedDataParallel
from shmtensor.nn.parallel.parallel_apply import parallel_apply
from shmtensor.nn.parallel.replicate import replicate
from shmtensor.nn.parallel.scatter_gather import gather, scatter

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
]
