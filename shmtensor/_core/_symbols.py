"""Sizes that stand for a number not yet known; nothing here makes any.

Programs ask ``isinstance(size, SymInt)`` and call ``sym_max`` and its like on plain numbers.

Source:
    torch.SymInt, torch.SymFloat, torch.SymBool, torch.sym_int and its like.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

from shmtensor._core._overridable import Handed, overridable

__all__ = [
    "SymBool",
    "SymFloat",
    "SymInt",
    "sym_float",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
    "sym_sqrt",
    "sym_sum",
]


class _Symbol:
    def __new__(cls, *args: object, **kwargs: object) -> NoReturn:
        raise RuntimeError(
            f"{cls.__name__} stands for a number that tracing does not know yet, and there is no "
            "tracing here"
        )


class SymInt(_Symbol):
    """An int that is not known yet. Has no instances."""


class SymFloat(_Symbol):
    """A float that is not known yet. Has no instances."""


class SymBool(_Symbol):
    """A bool that is not known yet. Has no instances."""


@overridable
def sym_int(a: Any) -> int:
    """Return *a* as an int, rounded towards zero."""
    return int(a)


@overridable
def sym_float(a: Any) -> float:
    """Return *a* as a float."""
    return float(a)


@overridable
def sym_not(a: Any) -> bool:
    """Return the contrary of *a*."""
    return not a


@overridable
def sym_max(a: Any, b: Any) -> Any:
    """Return the larger of two numbers; a float where one of them is."""
    larger = max(a, b)
    return float(larger) if isinstance(a, float) or isinstance(b, float) else larger


@overridable
def sym_min(a: Any, b: Any) -> Any:
    """Return the smaller of two numbers; a float where one of them is."""
    smaller = min(a, b)
    return float(smaller) if isinstance(a, float) or isinstance(b, float) else smaller


def _summands(args: tuple[Any, ...]) -> Sequence[Any]:
    """The numbers of ``f(a, b)`` or ``f([a, b])``."""
    return args[0] if len(args) == 1 and isinstance(args[0], list | tuple) else args


def _hand_summands_over(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Handed:
    return _summands(args), (_summands(args),), kwargs


@overridable(hand_over=_hand_summands_over)
def sym_sum(*args: Any) -> Any:
    """Return the sum of some numbers, given one by one or in a list."""
    return sum(_summands(args))


@overridable
def sym_sqrt(a: Any) -> float:
    """Return the square root of a number."""
    return math.sqrt(a)


@overridable
def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """Return *t* where *b* is true, and *f* otherwise."""
    return t if b else f
