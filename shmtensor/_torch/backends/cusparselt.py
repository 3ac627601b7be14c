"""NVIDIA's library for structured sparsity: not here."""

from __future__ import annotations

__all__ = ["get_max_alg_id", "is_available", "version"]


def version() -> int | None:
    """Return the library's version: None."""
    return None


def is_available() -> bool:
    """Return whether the library is here: False."""
    return False


def get_max_alg_id() -> int | None:
    """Return how many algorithms it has: None."""
    return None
