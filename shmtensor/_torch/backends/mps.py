"""Apple's Metal: not here.

Source:
    torch.backends.mps.
"""

from __future__ import annotations

from shmtensor._core._absent_devices import no as _no

__all__ = ["is_available", "is_built", "is_macos_or_newer", "is_macos13_or_newer"]


is_built = _no(__name__, "is_built", "there is code for it")


is_available = _no(__name__, "is_available", "there is a device")


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Return whether this is macOS of that version or a later one: False."""
    return False


def is_macos13_or_newer(minor: int = 0) -> bool:
    """Return whether this is macOS 13 of that minor version or a later one: False."""
    return False
