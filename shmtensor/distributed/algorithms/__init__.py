"""Algorithms of groups: training with different numbers of batches on the ranks.

Source:
    torch.distributed.algorithms.
"""

from __future__ import annotations

from shmtensor.distributed.algorithms import _data_parallel_join as _data_parallel_join
from shmtensor.distributed.algorithms.join import Join as Join
from shmtensor.distributed.algorithms.join import Joinable as Joinable
from shmtensor.distributed.algorithms.join import JoinHook as JoinHook
from shmtensor.nn.parallel import DistributedDataParallel

Joinable.register(DistributedDataParallel)
