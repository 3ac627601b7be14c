"""Streams and events of CUDA devices: classes that have no instances."""

from __future__ import annotations

from shmtensor._core._absent_devices import absent_class

__all__ = ["Event", "ExternalStream", "Stream"]


def _no_stream(name: str) -> RuntimeError:
    return RuntimeError(f"torch.cuda.{name} requires CUDA support")


def _dummy(name: str) -> RuntimeError:
    return RuntimeError(f"Tried to instantiate dummy base class {name}")


Stream = absent_class("Stream", "torch.cuda", _no_stream)
ExternalStream = absent_class("ExternalStream", "torch.cuda", _no_stream)
Event = absent_class("Event", "torch.cuda", _dummy)
