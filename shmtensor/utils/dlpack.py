"""The capsule functions of DLPack; ``from_dlpack(x)`` of the package takes objects directly."""

from __future__ import annotations

from typing import Any

from shmtensor._C import from_dlpack
from shmtensor._core._tensor import Tensor

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """Return a capsule over the memory of *tensor*, for the next library to take over.

    Raises:
        BufferError: The tensor requires grad or has no data.

    Source:
        torch.utils.dlpack.to_dlpack.
    """
    return tensor.__dlpack__()
