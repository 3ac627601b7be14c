"""Choices and settings of modules in parts: names to compare with, the modules are missing here.

Source:
    torch.distributed.fsdp.api.
"""

from __future__ import annotations

from enum import Enum

from shmtensor._core._not_offered import unavailable_class
from shmtensor.distributed.fsdp._what import WHAT

_CLASSES = """
    CPUOffload FullOptimStateDictConfig FullStateDictConfig LocalOptimStateDictConfig
    LocalStateDictConfig MixedPrecision OptimStateDictConfig ShardedOptimStateDictConfig
    ShardedStateDictConfig StateDictConfig StateDictSettings
""".split()

__all__ = ["BackwardPrefetch", "ShardingStrategy", "StateDictType", *_CLASSES]

globals().update({name: unavailable_class(name, __name__, WHAT) for name in _CLASSES})


class ShardingStrategy(Enum):
    """Which tensors would be in parts."""

    FULL_SHARD = 1
    SHARD_GRAD_OP = 2
    NO_SHARD = 3
    HYBRID_SHARD = 4
    _HYBRID_SHARD_ZERO2 = 5


class BackwardPrefetch(Enum):
    """When the next parameters would be gathered in the backward pass."""

    BACKWARD_PRE = 1
    BACKWARD_POST = 2


class StateDictType(Enum):
    """What form a state dict would have."""

    FULL_STATE_DICT = 1
    LOCAL_STATE_DICT = 2
    SHARDED_STATE_DICT = 3
