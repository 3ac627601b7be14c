"""Pinning of memory for accelerators. There are none here."""

from __future__ import annotations

from typing import Any

from shmtensor._core._tensor import Tensor
from shmtensor.utils.data._utils.tree import map_leaves

__all__ = ["pin_memory"]


def _pin(value: Any) -> Any:
    if isinstance(value, Tensor):
        raise RuntimeError("Cannot access accelerator device when none is available.")
    if hasattr(value, "pin_memory"):
        return value.pin_memory()
    return value


def pin_memory(data: Any, device: object = None) -> Any:
    """Pin the values in *data* that have a ``pin_memory`` method, by calling it.

    Args:
        data: Values, or mappings and sequences of them.
        device: Ignored.

    Raises:
        RuntimeError: A value is a tensor, which no accelerator could use.

    Source:
        torch.utils.data._utils.pin_memory.pin_memory.
    """
    return map_leaves(_pin, data)
