"""Choices and settings of modules in parts; they can be made, the modules are missing here.

Source:
    torch.distributed.fsdp.api.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from shmtensor.nn.modules.batchnorm import _BatchNorm

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "LocalOptimStateDictConfig",
    "LocalStateDictConfig",
    "MixedPrecision",
    "OptimStateDictConfig",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictSettings",
    "StateDictType",
]


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


@dataclass
class MixedPrecision:
    """Of which dtypes parameters, reductions and buffers would be, and what would be cast."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type] = (_BatchNorm,)


@dataclass
class CPUOffload:
    """Whether parameters would be on the CPU while they are not used."""

    offload_params: bool = False


@dataclass
class StateDictConfig:
    """Whether the tensors of a state dict would be on the CPU."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """A state dict of whole tensors, perhaps on one rank only."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """A state dict of the parts of a rank, flat."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """A state dict of the parts of a rank."""

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """Whether the tensors of an optimizer's state dict would be on the CPU."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """An optimizer's state dict of whole tensors, perhaps on one rank only."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """An optimizer's state dict of the parts of a rank, flat."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """An optimizer's state dict of the parts of a rank."""

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """A form of state dicts with its settings."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig
