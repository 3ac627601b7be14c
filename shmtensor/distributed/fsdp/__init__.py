"""Modules with parameters in parts on a group of processes; they are missing here.

Source:
    torch.distributed.fsdp.
"""

from __future__ import annotations

from typing import Any

from shmtensor._core._not_offered import unavailable_class, unavailable_names
from shmtensor.nn import Module

_WHAT = "process groups do not shard tensors here"
_REFUSED = ["fully_shard", "register_fsdp_forward_method", "share_comm_ctx"]
_CLASSES = """
    BackwardPrefetch CPUOffload CPUOffloadPolicy FSDPModule FullOptimStateDictConfig
    FullStateDictConfig LocalOptimStateDictConfig LocalStateDictConfig MixedPrecision
    MixedPrecisionPolicy OffloadPolicy OptimStateDictConfig ShardedOptimStateDictConfig
    ShardedStateDictConfig ShardingStrategy StateDictConfig StateDictSettings StateDictType
    UnshardHandle
""".split()

__all__ = ["FullyShardedDataParallel", *_CLASSES, *_REFUSED]

__getattr__, __dir__ = unavailable_names(__name__, _REFUSED, _WHAT)

globals().update({name: unavailable_class(name, __name__, _WHAT) for name in _CLASSES})

FullyShardedDataParallel: Any = unavailable_class(
    "FullyShardedDataParallel", __name__, _WHAT, (Module,)
)
