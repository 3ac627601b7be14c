"""Modules that a group changes in place, which are not here.

Source:
    torch.distributed._composable.
"""

from __future__ import annotations

from shmtensor._core._not_offered import unavailable_names

__all__ = ["checkpoint", "contract", "fully_shard", "replicate"]

__getattr__, __dir__ = unavailable_names(
    __name__, __all__, "process groups do not change modules here"
)
