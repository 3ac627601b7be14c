"""The error of everything that needs a CUDA device."""

from __future__ import annotations

from shmtensor._core._absent_devices import refusal_of as _refusal_of

__all__ = ["refusal"]

refusal = _refusal_of("CUDA", __name__)
