"""Marks of functions that stay as they are between releases."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = ["compatibility"]

F = TypeVar("F")


def compatibility(is_backward_compatible: bool) -> Callable[[F], F]:
    """Return a decorator that returns its function."""
    return lambda function: function
