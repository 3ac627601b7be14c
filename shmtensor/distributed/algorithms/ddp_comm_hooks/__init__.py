"""Functions that reduce the gradients of `DistributedDataParallel`, for `register_comm_hook`.

Source:
    torch.distributed.algorithms.ddp_comm_hooks.
"""

from __future__ import annotations

from shmtensor.distributed.algorithms.ddp_comm_hooks import debugging_hooks as debugging_hooks
from shmtensor.distributed.algorithms.ddp_comm_hooks import default_hooks as default_hooks
from shmtensor.distributed.algorithms.ddp_comm_hooks import (
    post_localSGD_hook as post_localSGD_hook,
)
from shmtensor.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powerSGD_hook

__all__: list[str] = []
