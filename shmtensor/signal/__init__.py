"""Signal processing."""

from __future__ import annotations

from shmtensor.signal import windows as windows

__all__ = ["windows"]
