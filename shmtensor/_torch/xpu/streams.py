"""Streams and events of XPU devices: classes that have no instances."""

from __future__ import annotations

from shmtensor._core._absent_devices import absent_class

__all__ = ["Event", "Stream"]


def _dummy(name: str) -> RuntimeError:
    return RuntimeError(f"Tried to instantiate dummy base class {name}")


Stream = absent_class("Stream", "torch.xpu", _dummy)
Event = absent_class("Event", "torch.xpu", _dummy)
