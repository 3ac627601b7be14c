"""Questions about sizes that tracing leaves open: here all sizes are plain numbers.

Source:
    torch.fx.experimental.symbolic_shapes.
"""

from __future__ import annotations

from typing import Any

from shmtensor._core._not_offered import unavailable_names
from shmtensor.errors import ShmTensorError

_WHAT = "sizes are plain numbers here"

__all__ = [
    "GuardOnDataDependentSymNode",
    "expect_true",
    "free_symbols",
    "free_unbacked_symbols",
    "guard_bool",
    "guard_float",
    "guard_int",
    "guard_or_false",
    "guard_or_true",
    "guard_scalar",
    "guard_size_oblivious",
    "has_free_symbols",
    "has_free_unbacked_symbols",
    "has_static_value",
    "is_concrete_bool",
    "is_concrete_float",
    "is_concrete_int",
    "is_nested_int",
    "is_symbolic",
    "statically_known_false",
    "statically_known_true",
    "sym_and",
    "sym_eq",
    "sym_or",
]

__getattr__, __dir__ = unavailable_names(__name__, ("DimDynamic", "ShapeEnv"), _WHAT)


class GuardOnDataDependentSymNode(ShmTensorError, RuntimeError):
    """A condition depends on values that a trace does not know. Nothing raises it here."""


def _of(value: Any, kind: type | tuple[type, ...], what: str) -> Any:
    if not isinstance(value, kind):
        raise AssertionError(f"Expected {what}, got {value!r}")
    return value


# --- conditions ----------------------------------------------------------------------------------


def guard_or_false(a: bool) -> bool:
    """Return the condition; a trace that does not know it would take False.

    Raises:
        AssertionError: It is not a bool.
    """
    result: bool = _of(a, bool, "bool")
    return result


guard_or_true = guard_bool = guard_or_false


def guard_size_oblivious(expr: bool) -> bool:
    """Return the condition."""
    return expr


def statically_known_true(x: bool) -> bool:
    """Return whether a condition is true whatever the values are."""
    result: bool = _of(x, bool, "bool")
    return result


def statically_known_false(x: bool) -> bool:
    """Return whether a condition is false whatever the values are."""
    return not statically_known_true(x)


def expect_true(a: bool, skip: int = 0) -> bool:
    """Return the condition."""
    return guard_or_false(a)


def sym_eq(x: Any, y: Any) -> bool:
    """Return whether two numbers, or two sequences of numbers, are equal.

    Raises:
        AssertionError: They are neither.
    """
    if isinstance(x, list | tuple) and isinstance(y, list | tuple):
        return len(x) == len(y) and all(map(sym_eq, x, y))
    if isinstance(x, int) and isinstance(y, int):
        return x == y
    raise AssertionError(f"unexpected sym_eq between {type(x)} {type(y)}")


def sym_and(x: bool, *others: bool) -> bool:
    """Return whether all conditions are true."""
    return bool(x and all(others))


def sym_or(x: bool, *others: bool) -> bool:
    """Return whether one of the conditions is true."""
    return bool(x or any(others))


# --- numbers -------------------------------------------------------------------------------------


def guard_int(a: int) -> int:
    """Return a number that is an int.

    Raises:
        AssertionError: It is none.
    """
    result: int = _of(a, int, "int")
    return result


def guard_float(a: float) -> float:
    """Return a number that is a float.

    Raises:
        AssertionError: It is none.
    """
    result: float = _of(a, float, "float")
    return result


def guard_scalar(a: float) -> float:
    """Return a bool, int or float.

    Raises:
        AssertionError: It is something else.
    """
    result: float = _of(a, (bool, int, float), "a bool, int or float")
    return result


def is_concrete_int(a: int) -> bool:
    """Return whether a size is a plain int: True.

    Raises:
        AssertionError: It is not an int.
    """
    return _of(a, int, "int") is a


def is_concrete_float(a: float) -> bool:
    """Return whether a number is a plain float: True.

    Raises:
        AssertionError: It is not a float.
    """
    return _of(a, float, "float") is a


def is_concrete_bool(a: bool) -> bool:
    """Return whether a condition is a plain bool: True.

    Raises:
        AssertionError: It is not a bool.
    """
    return _of(a, bool, "bool") is a


def has_static_value(a: float) -> bool:
    """Return whether a number is known: True.

    Raises:
        AssertionError: It is none.
    """
    return guard_scalar(a) is a


def is_symbolic(val: object) -> bool:
    """Return whether a number is left open: False."""
    return False


def is_nested_int(s: object) -> bool:
    """Return whether a size stands for those of a nested tensor: False."""
    return False


def free_symbols(val: object) -> set[object]:
    """Return the sizes in *val* that are left open: none."""
    return set()


free_unbacked_symbols = free_symbols


def has_free_symbols(val: object) -> bool:
    """Return whether a size in *val* is left open: False."""
    return False


has_free_unbacked_symbols = has_free_symbols
