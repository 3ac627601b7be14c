"""Optimizers of the ranks of a group.

Source:
    torch.distributed.optim.
"""

from __future__ import annotations

from typing import Any

from shmtensor._core._not_offered import unavailable_class
from shmtensor.distributed.optim.post_localSGD_optimizer import PostLocalSGDOptimizer
from shmtensor.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = ["DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]

DistributedOptimizer: Any = unavailable_class(
    "DistributedOptimizer", __name__, "there are no remote references here"
)
