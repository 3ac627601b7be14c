"""The parts of `DataLoader`: fetching, collating, worker processes."""

from __future__ import annotations

from shmtensor._core._lazy import submodules
from shmtensor._core._utils import ExceptionWrapper

__all__ = ["MP_STATUS_CHECK_INTERVAL", "ExceptionWrapper"]

#: Seconds that workers have for ending by themselves before they get SIGTERM.
MP_STATUS_CHECK_INTERVAL = 5.0

submodules(__name__, "pin_memory")
