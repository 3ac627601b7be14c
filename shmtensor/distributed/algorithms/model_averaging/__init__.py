"""Averages of the ranks' parameters, for training in which they differ in between.

Source:
    torch.distributed.algorithms.model_averaging.
"""

from __future__ import annotations

from shmtensor.distributed.algorithms.model_averaging import averagers as averagers
from shmtensor.distributed.algorithms.model_averaging import utils as utils

__all__: list[str] = []
