"""Modules with parameters in parts on a group of processes; they are missing here.

Source:
    torch.distributed.fsdp.
"""

from __future__ import annotations

from shmtensor._core._not_offered import unavailable_class, unavailable_names
from shmtensor.distributed.fsdp import api as api
from shmtensor.distributed.fsdp import fully_sharded_data_parallel as fully_sharded_data_parallel
from shmtensor.distributed.fsdp import wrap as wrap
from shmtensor.distributed.fsdp._what import WHAT
from shmtensor.distributed.fsdp.api import *  # noqa: F403
from shmtensor.distributed.fsdp.fully_sharded_data_parallel import (
    FullyShardedDataParallel as FullyShardedDataParallel,
)
from shmtensor.distributed.fsdp.fully_sharded_data_parallel import (
    OptimStateKeyType as OptimStateKeyType,
)

_REFUSED = ["fully_shard", "register_fsdp_forward_method", "share_comm_ctx"]
_CLASSES = """
    CPUOffloadPolicy DataParallelMeshDims FSDPModule FlatParameter MixedPrecisionPolicy
    OffloadPolicy UnshardHandle
""".split()

__all__ = ["FullyShardedDataParallel", "OptimStateKeyType", *api.__all__, *_CLASSES, *_REFUSED]

__getattr__, __dir__ = unavailable_names(__name__, _REFUSED, WHAT)

globals().update({name: unavailable_class(name, __name__, WHAT) for name in _CLASSES})
