"""Mixed precision on CUDA: older names of `shmtensor.amp`."""

from __future__ import annotations

from shmtensor.cuda.amp.autocast_mode import (
    autocast as autocast,
)
from shmtensor.cuda.amp.autocast_mode import (
    custom_bwd as custom_bwd,
)
from shmtensor.cuda.amp.autocast_mode import (
    custom_fwd as custom_fwd,
)
from shmtensor.cuda.amp.common import amp_definitely_not_available as amp_definitely_not_available
from shmtensor.cuda.amp.grad_scaler import GradScaler as GradScaler

__all__ = ["GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"]
