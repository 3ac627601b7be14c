"""Arm's library of small kernels: not here."""

from __future__ import annotations

from shmtensor._core._absent_devices import no as _no

is_available = _no(__name__, "is_available", "it is here")
