"""Sizes of the parts of a sharded tensor, which are not here.

Source:
    torch.distributed.tensor._utils.
"""

from __future__ import annotations

from shmtensor._core._not_offered import unavailable_names

_REFUSED = ["compute_local_shape_and_global_offset"]

__all__ = [*_REFUSED]

__getattr__, __dir__ = unavailable_names(
    __name__, _REFUSED, "process groups do not shard tensors here"
)
