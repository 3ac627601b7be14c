"""Optimizers that divide their work among ranks.

Source:
    torch.distributed.optim.
"""

from __future__ import annotations

from shmtensor.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = ["ZeroRedundancyOptimizer"]
