"""Hooks that send factors of gradients of low rank, which are not here.

Source:
    torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook.
"""

from __future__ import annotations

from typing import Any

from shmtensor._core._not_offered import unavailable_class, unavailable_names

_WHAT = "no hook sends factors here; bf16_compress_hook and fp16_compress_hook send fewer bytes"
_REFUSED = ["batched_powerSGD_hook", "powerSGD_hook"]

__all__ = ["PowerSGDState", *_REFUSED]

__getattr__, __dir__ = unavailable_names(__name__, _REFUSED, _WHAT)

PowerSGDState: Any = unavailable_class("PowerSGDState", __name__, _WHAT)
