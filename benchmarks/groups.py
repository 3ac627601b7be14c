"""What a group of cases is, for bench_ops and the files that list cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from measure import Call

Make = Callable[[Any, dict[str, Any]], Call]
"""Given a library and its operands, the call to measure. It has its operands as defaults, as local
variables: looking them up is no part of an operator."""


@dataclass(frozen=True)
class Group:
    """Cases that share a goal: the geometric mean of the ratios to torch's time."""

    goal: float
    sizes: tuple[int, ...]
    cases: dict[str, Make] = field(default_factory=dict)
    arrays: Callable[[int], dict[str, Any]] | None = None
    """The NumPy operands of one size; None: bench_ops' vectors."""
    finish: Callable[[Any, dict[str, Any]], None] | None = None
    """Adds to a library's operands what NumPy has no type for."""
    is_fresh: bool = False
    """Results come from the kernel: what malloc has kept is given back before each case."""


def function(name: str, operand: str, *more: Any) -> Make:
    """Return the case that calls *name*, a dotted path in the library, on one operand."""

    def make(lib: Any, operands: dict[str, Any]) -> Call:
        found, argument = lib, operands[operand]
        for part in name.split("."):
            found = getattr(found, part)
        return lambda: found(argument, *more)

    return make
