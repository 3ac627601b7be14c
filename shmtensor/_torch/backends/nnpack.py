"""NNPACK, a library for convolutions: not here; its flag keeps its value."""

from __future__ import annotations

from contextlib import AbstractContextManager

from shmtensor._core._absent_devices import no as _no

from ._flags import Flag, FlagModule, swapped

__all__ = ["flags", "is_available", "set_flags"]


class _Settings(FlagModule):
    enabled = Flag(True, "set_enabled_NNPACK")


_settings = _Settings(__name__)


is_available = _no(__name__, "is_available", "the library is here")


def set_flags(_enabled: bool) -> tuple[bool]:
    """Set the flag; returns the value before."""
    before = _settings.enabled
    _settings.enabled = _enabled
    return (before,)


def flags(enabled: bool = False) -> AbstractContextManager[None]:
    """Return a context with this flag."""
    return swapped(_settings, enabled=enabled)
