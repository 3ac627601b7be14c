"""The error of everything that needs an XPU device."""

from __future__ import annotations

__all__ = ["refusal"]


def refusal(name: str = "") -> AssertionError:
    """Return the exception of a build without XPU."""
    return AssertionError("Torch not compiled with XPU enabled")
