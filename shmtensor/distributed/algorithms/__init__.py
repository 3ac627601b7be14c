"""Algorithms of groups: unequal numbers of batches, hooks that reduce gradients, averages.

Source:
    torch.distributed.algorithms.
"""

from __future__ import annotations

from shmtensor.distributed.algorithms import _checkpoint as _checkpoint
from shmtensor.distributed.algorithms import _data_parallel_join as _data_parallel_join
from shmtensor.distributed.algorithms import ddp_comm_hooks as ddp_comm_hooks
from shmtensor.distributed.algorithms import model_averaging as model_averaging
from shmtensor.distributed.algorithms.join import Join as Join
from shmtensor.distributed.algorithms.join import Joinable as Joinable
from shmtensor.distributed.algorithms.join import JoinHook as JoinHook
from shmtensor.nn.parallel import DistributedDataParallel

Joinable.register(DistributedDataParallel)
