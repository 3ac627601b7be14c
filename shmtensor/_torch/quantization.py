"""The older path of `shmtensor.ao.quantization`.

Source:
    torch.quantization.
"""

from __future__ import annotations

from typing import Any

from shmtensor._torch.ao import quantization
from shmtensor._torch.ao.quantization import *  # noqa: F403


def __getattr__(name: str) -> Any:
    return getattr(quantization, name)
