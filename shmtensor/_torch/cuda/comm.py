"""Collective operations on tensors of CUDA devices; there are none here."""

from __future__ import annotations

from shmtensor._core._absent_devices import refusals

from ._refusal import refusal

__all__ = """
    broadcast broadcast_coalesced gather reduce_add reduce_add_coalesced scatter
""".split()

__getattr__, __dir__ = refusals(__name__, __all__, refusal)
