"""The package opt_einsum, which looks for the best order of an einsum's products: not used.

Source:
    torch.backends.opt_einsum.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ._flags import Flag, FlagModule, swapped, use_flags

if TYPE_CHECKING:
    enabled: bool
    strategy: str | None


class _Module(FlagModule):
    enabled = Flag(False)
    strategy = Flag(None)


_module = use_flags(__name__, _Module)


def is_available() -> bool:
    """Return whether the package is used: False."""
    return False


def get_opt_einsum() -> Any:
    """Return the package: None."""
    return None


def set_flags(
    _enabled: bool | None = None, _strategy: str | None = None
) -> tuple[bool, str | None]:
    """Set flags, and return both as they were; None leaves one as it is."""
    before = (_module.enabled, _module.strategy)
    if _enabled is not None:
        _module.enabled = _enabled
    if _strategy is not None:
        _module.strategy = _strategy
    return before


def flags(enabled: bool | None = None, strategy: str | None = None) -> AbstractContextManager[None]:
    """Return a context with these flags."""
    return swapped(_module, enabled=enabled, strategy=strategy)
