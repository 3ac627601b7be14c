"""The profiler of old programs: the same as `shmtensor.autograd.profiler`.

Source: torch.autograd.profiler_legacy.
"""

from __future__ import annotations

from shmtensor.autograd.profiler import profile
from shmtensor.autograd.profiler_util import DeviceType, EventList, FunctionEvent

__all__ = ["DeviceType", "EventList", "FunctionEvent", "profile"]
