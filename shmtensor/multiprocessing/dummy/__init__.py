"""The standard `multiprocessing.dummy`: threads with the interface of processes."""

from __future__ import annotations

from multiprocessing import dummy as _standard

from shmtensor.multiprocessing._overlay import Overlay

__all__ = list(_standard.__all__)

Overlay.install(__name__, _standard)
