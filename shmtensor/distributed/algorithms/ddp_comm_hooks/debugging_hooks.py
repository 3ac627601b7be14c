"""A hook that leaves each rank its own gradients.

Source:
    torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks.
"""

from __future__ import annotations

from typing import Any

from shmtensor._core._tensor import Tensor
from shmtensor.futures import Future
from shmtensor.nn.parallel._reducer import GradBucket

__all__ = ["noop_hook"]


def noop_hook(_: Any, bucket: GradBucket) -> Future[Tensor]:
    """Reduce nothing: the ranks differ afterwards. It shows what the communication costs."""
    own: Future[Tensor] = Future()
    own.set_result(bucket.buffer())
    return own
