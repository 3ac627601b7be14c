"""What a program that is being traced knows of its trace; nothing is traced here.

Source:
    torch._guards.
"""

from __future__ import annotations

from typing import Any

__all__ = ["active_fake_mode", "detect_fake_mode"]


def detect_fake_mode(inputs: Any = None) -> None:
    """Return the mode of tensors without values that is active: None, there is none."""


def active_fake_mode() -> None:
    """Return the mode of tensors without values that is active: None, there is none."""
