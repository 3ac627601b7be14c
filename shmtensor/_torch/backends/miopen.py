"""AMD's library for networks: not here; its flag keeps its value."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from ._flags import Flag, FlagModule, swapped, use_flags
from ._flags import changed as _changed

if TYPE_CHECKING:
    immediate: bool


class _Module(FlagModule):
    immediate = Flag(False, "set_immediate_miopen")


_module = use_flags(__name__, _Module)


def set_flags(_immediate: bool | None = None) -> tuple[bool]:
    """Set the flag unless it is None; returns the value before."""
    (before,) = _changed(_module, immediate=_immediate)
    return (before,)


def flags(immediate: bool = False) -> AbstractContextManager[None]:
    """Return a context with this flag."""
    return swapped(_module, immediate=immediate)
