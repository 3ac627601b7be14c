"""Mixed precision on the CPU: older names of `shmtensor.amp`."""

from __future__ import annotations

from shmtensor.cpu.amp.autocast_mode import autocast as autocast
from shmtensor.cpu.amp.grad_scaler import GradScaler as GradScaler

__all__ = ["GradScaler", "autocast"]
