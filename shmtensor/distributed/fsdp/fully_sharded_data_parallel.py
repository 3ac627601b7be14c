"""The class of modules with parameters in parts, of which there are none here.

Source:
    torch.distributed.fsdp.fully_sharded_data_parallel.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from shmtensor._core._not_offered import unavailable_class
from shmtensor.distributed.fsdp._what import WHAT
from shmtensor.distributed.fsdp.api import *  # noqa: F403
from shmtensor.nn import Module

__all__ = ["FullyShardedDataParallel", "OptimStateKeyType"]

FullyShardedDataParallel: Any = unavailable_class(
    "FullyShardedDataParallel", __name__, WHAT, (Module,)
)


class OptimStateKeyType(Enum):
    """What would name the states of an optimizer."""

    PARAM_NAME = 1
    PARAM_ID = 2
