"""What children run that must not import anything themselves."""

from __future__ import annotations

from typing import Any


def nothing() -> None:
    """Do nothing."""


def add_one(tensor: Any) -> None:
    """Add one in place."""
    tensor.add_(1)
