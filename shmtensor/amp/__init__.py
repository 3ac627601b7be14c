"""Mixed precision: operators that choose the dtype they compute in, and scaled losses.

Source:
    torch.amp.
"""

from __future__ import annotations

from shmtensor.amp.autocast_mode import (
    _enter_autocast as _enter_autocast,
)
from shmtensor.amp.autocast_mode import (
    _exit_autocast as _exit_autocast,
)
from shmtensor.amp.autocast_mode import (
    autocast as autocast,
)
from shmtensor.amp.autocast_mode import (
    custom_bwd as custom_bwd,
)
from shmtensor.amp.autocast_mode import (
    custom_fwd as custom_fwd,
)
from shmtensor.amp.autocast_mode import (
    is_autocast_available as is_autocast_available,
)
from shmtensor.amp.grad_scaler import GradScaler as GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
