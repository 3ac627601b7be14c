"""Copies of a module on accelerators: there are none.

Source:
    torch.nn.parallel.replicate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shmtensor.nn.modules.module import Module

__all__ = ["replicate"]


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """Return a copy of a module for each accelerator.

    Raises:
        AssertionError: One is named; there is none.
    """
    if devices:
        raise AssertionError("Torch not compiled with CUDA enabled")
    return []
