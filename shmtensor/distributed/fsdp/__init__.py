"""Modules with parameters in parts on a group of processes; they are missing here.

Source:
    torch.distributed.fsdp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
_CLASSES = ["DataParallelMeshDims", "FSDPModule", "FlatParameter", "UnshardHandle"]

__all__ = [
    "CPUOffloadPolicy",
    "FullyShardedDataParallel",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
    "OptimStateKeyType",
    *api.__all__,
    *_CLASSES,
    *_REFUSED,
]

__getattr__, __dir__ = unavailable_names(__name__, _REFUSED, WHAT)

globals().update({name: unavailable_class(name, __name__, WHAT) for name in _CLASSES})


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Of which dtypes parameters, reductions and outputs would be, and what would be cast."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """No parameter would be elsewhere."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parameters would be on the CPU while they are not used."""

    pin_memory: bool = True
