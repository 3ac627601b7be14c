"""Whether TorchScript is on: no."""

from __future__ import annotations

__all__ = ["disable", "enable"]


class EnabledProxy:
    """A switch that is off."""

    enabled = False

    def __bool__(self) -> bool:
        return self.enabled


_enabled = EnabledProxy()


def enable() -> None:
    """Switch scripts on: there are none."""


def disable() -> None:
    """Switch scripts off."""
