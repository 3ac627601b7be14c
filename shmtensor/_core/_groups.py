"""Process groups, for what stands below them: `distributed` gives itself here when it is loaded.

A data parallel module or a sampler works in a group, and who has made one has loaded `distributed`.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["algorithms", "distributed", "no_group", "offer"]

_distributed: ModuleType | None = None


def offer(module: ModuleType) -> None:
    """Let `distributed` be this module."""
    global _distributed
    _distributed = module


def distributed() -> Any:
    """Return `shmtensor.distributed`.

    Raises:
        ValueError: It has not been loaded, so there is no group.
    """
    if _distributed is None:
        raise no_group()
    return _distributed


def algorithms() -> Any:
    """Return `shmtensor.distributed.algorithms`, which is loaded when it is first asked for.

    Raises:
        ValueError: As `distributed`.
    """
    return import_module(f"{distributed().__name__}.algorithms")


def no_group() -> ValueError:
    """Return the exception of who needs the default group before there is one."""
    return ValueError(
        "Default process group has not been initialized, please make sure to call "
        "init_process_group."
    )
