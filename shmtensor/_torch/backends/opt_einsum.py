"""The package opt_einsum, which looks for the best order of an einsum's products: not used.

Source:
    torch.backends.opt_einsum.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from shmtensor._core._absent_devices import no as _no

from ._flags import Flag, FlagModule, swapped, use_flags
from ._flags import changed as _changed

if TYPE_CHECKING:
    enabled: bool
    strategy: str | None


class _Module(FlagModule):
    enabled = Flag(False)
    strategy = Flag(None)


_module = use_flags(__name__, _Module)


is_available = _no(__name__, "is_available", "the package is used")


def get_opt_einsum() -> Any:
    """Return the package: None."""
    return None


def set_flags(
    _enabled: bool | None = None, _strategy: str | None = None
) -> tuple[bool, str | None]:
    """Set flags, and return both as they were; None leaves one as it is."""
    enabled_before, strategy_before = _changed(_module, enabled=_enabled, strategy=_strategy)
    return enabled_before, strategy_before


def flags(enabled: bool | None = None, strategy: str | None = None) -> AbstractContextManager[None]:
    """Return a context with these flags."""
    return swapped(_module, enabled=enabled, strategy=strategy)
