"""The older path of `shmtensor.ao.quantization`.

Source:
    torch.quantization.
"""

from __future__ import annotations

from typing import Any

from shmtensor.ao import quantization
from shmtensor.ao.quantization import *  # noqa: F403


def __getattr__(name: str) -> Any:
    return getattr(quantization, name)
