"""Profiles of a program: which operators ran, how often, how long, with what memory.

Source: torch.profiler.
"""

from __future__ import annotations

from shmtensor.autograd.profiler import KinetoStepTracker, kineto_available, record_function
from shmtensor.autograd.profiler_util import DeviceType
from shmtensor.profiler import itt as itt
from shmtensor.profiler._execution_trace import ExecutionTraceObserver
from shmtensor.profiler.profiler import (
    ProfilerAction,
    ProfilerActivity,
    RecordScope,
    _ExperimentalConfig,
    _KinetoProfile,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

__all__ = [
    "DeviceType",
    "ExecutionTraceObserver",
    "KinetoStepTracker",
    "ProfilerAction",
    "ProfilerActivity",
    "RecordScope",
    "_ExperimentalConfig",
    "_KinetoProfile",
    "itt",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
