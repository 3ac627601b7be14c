"""Whether mixed precision on CUDA can work."""

from __future__ import annotations

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available() -> bool:
    """Return True: there is no CUDA device."""
    return True
