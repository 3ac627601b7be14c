"""Contexts and wrappers of tensors in parts, which are not here.

Source:
    torch.distributed.tensor.experimental.
"""

from __future__ import annotations

from shmtensor._core._not_offered import unavailable_names

_REFUSED = ["context_parallel", "implicit_replication", "local_map", "register_sharding"]

__all__ = [*_REFUSED]

__getattr__, __dir__ = unavailable_names(
    __name__, _REFUSED, "process groups do not shard tensors here"
)
