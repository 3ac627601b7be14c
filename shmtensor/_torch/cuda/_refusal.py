"""The error of everything that needs a CUDA device."""

from __future__ import annotations

__all__ = ["refusal"]


def refusal(name: str = "") -> AssertionError:
    """Return the exception of a build without CUDA."""
    return AssertionError("Torch not compiled with CUDA enabled")
