"""Choices and settings of modules in parts: names to compare with, the modules are missing here.

Source:
    torch.distributed.fsdp.api.
"""

from __future__ import annotations

from enum import Enum, auto

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

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When the next parameters would be gathered in the backward pass."""

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


class StateDictType(Enum):
    """What form a state dict would have."""

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()
