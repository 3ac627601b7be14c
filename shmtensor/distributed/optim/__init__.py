"""Optimizers whose ranks divide the work among themselves.

Source:
    torch.distributed.optim.
"""

from __future__ import annotations

from shmtensor.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = ["ZeroRedundancyOptimizer"]
