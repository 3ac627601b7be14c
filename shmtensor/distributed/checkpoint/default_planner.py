"""The planners of `shmtensor.distributed.checkpoint`, where libraries look for them.

Source:
    torch.distributed.checkpoint.default_planner.
"""

from __future__ import annotations

from shmtensor.distributed import checkpoint as _checkpoint

__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner"]

DefaultLoadPlanner = _checkpoint.DefaultLoadPlanner  # type: ignore[attr-defined]
DefaultSavePlanner = _checkpoint.DefaultSavePlanner  # type: ignore[attr-defined]
