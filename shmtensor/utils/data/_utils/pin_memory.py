"""Page-locked memory for accelerators, of which there are none here."""

from __future__ import annotations

from typing import Any

from shmtensor._tensor import Tensor
from shmtensor.utils.data._utils.tree import map_leaves

__all__ = ["pin_memory"]


def _pin(value: Any) -> Any:
    if isinstance(value, Tensor):
        raise RuntimeError("Cannot access accelerator device when none is available.")
    if hasattr(value, "pin_memory"):
        return value.pin_memory()
    return value


def pin_memory(data: Any, device: object = None) -> Any:
    """Have what is in *data* pinned by its own ``pin_memory`` method.

    Args:
        data: Values, or mappings and sequences of them.
        device: Ignored.

    Raises:
        RuntimeError: There is a tensor among them: no accelerator could use it.

    Source:
        torch.utils.data._utils.pin_memory.pin_memory.
    """
    return map_leaves(_pin, data)
