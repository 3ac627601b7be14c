"""Mixed precision on CUDA: older names of `shmtensor.amp`."""

from __future__ import annotations

from .autocast_mode import (
    autocast as autocast,
)
from .autocast_mode import (
    custom_bwd as custom_bwd,
)
from .autocast_mode import (
    custom_fwd as custom_fwd,
)
from .common import (
    amp_definitely_not_available as amp_definitely_not_available,
)
from .grad_scaler import GradScaler as GradScaler

__all__ = ["GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"]
