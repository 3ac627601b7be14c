"""Names of `shmtensor.distributed.fsdp` where they were at first.

Source:
    torch.distributed._composable.fsdp.
"""

from __future__ import annotations

from shmtensor.distributed import fsdp as _fsdp

__all__ = ["FSDPModule", "fully_shard"]

FSDPModule = _fsdp.FSDPModule
fully_shard = _fsdp.fully_shard
