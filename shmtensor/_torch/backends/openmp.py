"""OpenMP: not here; operators split their work over threads of our own."""

from __future__ import annotations


def is_available() -> bool:
    """Return whether it is here: False."""
    return False
