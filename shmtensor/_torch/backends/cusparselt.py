"""NVIDIA's library for structured sparsity: not here."""

from __future__ import annotations

from shmtensor._core._absent_devices import no as _no

__all__ = ["get_max_alg_id", "is_available", "version"]


def version() -> int | None:
    """Return the library's version: None."""
    return None


is_available = _no(__name__, "is_available", "the library is here")


def get_max_alg_id() -> int | None:
    """Return how many algorithms it has: None."""
    return None
