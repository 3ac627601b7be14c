"""Streams and events of XPU devices: classes that have no instances."""

from __future__ import annotations

from shmtensor._core._absent_devices import dummy_class as _dummy_class

__all__ = ["Event", "Stream"]


Stream = _dummy_class("Stream", "torch.xpu")
Event = _dummy_class("Event", "torch.xpu")
