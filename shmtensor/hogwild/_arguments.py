"""Checks of what callers of the package say: an error names the argument and its value."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any, SupportsFloat, SupportsIndex

__all__ = ["check_word", "integer", "number"]


def integer(
    call: str,
    name: str,
    value: SupportsIndex,
    *,
    least: int | None = None,
    above: int | None = None,
) -> int:
    """Return a whole number.

    Raises:
        TypeError: It is none, as 1.0.
        ValueError: It is below *least*, or not above *above*.
    """
    if not hasattr(value, "__index__"):
        raise TypeError(f"{call}: {name} must be an integer, got {value!r}")
    found = operator.index(value)
    if least is not None and found < least:
        raise ValueError(f"{call}: {name} must be at least {least}, got {found}")
    if above is not None and found <= above:
        raise ValueError(f"{call}: {name} must be above {above}, got {found}")
    return found


def number(call: str, name: str, value: SupportsFloat, *, may_be_0: bool = False) -> float:
    """Return a number above 0 as a float; infinity is one.

    Raises:
        TypeError: It is no number.
        ValueError: It is nan or negative; or 0, unless that is allowed.
    """
    if not hasattr(value, "__float__"):
        raise TypeError(f"{call}: {name} must be a number, got {value!r}")
    found = _float_of(value)
    if may_be_0 and not found >= 0:
        raise ValueError(f"{call}: {name} must be 0 or more, got {value}")
    if not may_be_0 and not found > 0:
        raise ValueError(f"{call}: {name} must be above 0, got {value}")
    return found


def _float_of(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # of an integer; other types give infinity by themselves
        return math.inf if value > 0 else -math.inf


def check_word(call: str, name: str, word: str, allowed: Iterable[str]) -> None:
    """Refuse a word that is none of the allowed ones.

    Raises:
        ValueError: It is none of them.
    """
    if word not in allowed:
        raise ValueError(f"{call}: {name} must be one of {', '.join(allowed)}, got {word!r}")
