"""Arm's library of small kernels: not here."""

from __future__ import annotations


def is_available() -> bool:
    """Return whether it is here: False."""
    return False
