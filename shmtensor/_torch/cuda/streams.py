"""Streams and events of CUDA devices: classes that have no instances."""

from __future__ import annotations

from shmtensor._core._absent_devices import absent_class
from shmtensor._core._absent_devices import dummy_class as _dummy_class

__all__ = ["Event", "ExternalStream", "Stream"]


def _no_stream(name: str) -> RuntimeError:
    return RuntimeError(f"torch.cuda.{name} requires CUDA support")


Stream = absent_class("Stream", "torch.cuda", _no_stream)
ExternalStream = absent_class("ExternalStream", "torch.cuda", _no_stream)
Event = _dummy_class("Event", "torch.cuda")
