"""A module in a group of processes, which there are none of.

Source:
    torch.nn.parallel.distributed.
"""

from __future__ import annotations

from typing import Any

from shmtensor.nn.modules.module import Module

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """Would train a module in a group of processes; for `isinstance`, it has no instances.

    Processes on one machine train one module in place instead (``module.share_memory()``).

    Raises:
        ValueError: There is no group.

    Source:
        torch.nn.parallel.DistributedDataParallel.
    """

    def __init__(self, module: Module, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        raise ValueError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group."
        )
