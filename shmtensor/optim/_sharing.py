"""State of optimizers in shared memory."""

from __future__ import annotations

from typing import Any

import shmtensor
from shmtensor._tensor import Tensor


def share(optimizer: Any, *, exact: bool) -> None:
    """Make the state of *optimizer* and move its tensors to shared memory."""
    with shmtensor.no_grad():
        for group in optimizer.param_groups:
            for param in group["params"]:
                optimizer._init_state(group, param)
        for entry in optimizer.state.values():
            for value in entry.values():
                if isinstance(value, Tensor):
                    value.share_memory_()
