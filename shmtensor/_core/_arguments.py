"""Checks of arguments for functions in Python that are operators in torch.

Operators have the parser in C; functions that are composed here get its rules from annotations.
"""

from __future__ import annotations

import functools
import numbers
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from shmtensor import _C
from shmtensor._core._tensor import Tensor

__all__ = ["checked", "is_int"]

P = ParamSpec("P")
R = TypeVar("R")


def is_int(value: object) -> bool:
    """Say whether *value* stands for an int: no bool, but also an integral tensor without dims."""
    if isinstance(value, Tensor):
        is_whole = not (value.is_floating_point() or value.is_complex() or value.dtype is _C.bool)
        return value.dim() == 0 and is_whole
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_float(value: object) -> bool:
    if isinstance(value, Tensor):
        return value.dim() == 0 and not value.is_complex() and not value.requires_grad
    return isinstance(value, numbers.Real)


_KINDS: dict[str, Callable[[object], bool]] = {
    "Tensor": lambda value: isinstance(value, Tensor),
    "bool": lambda value: type(value).__name__ in ("bool", "bool_"),
    "float": _is_float,
    "int": is_int,
    "str": lambda value: isinstance(value, str),
}


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse arguments that are not what the annotations of *function* say; others it may have.

    Raises:
        TypeError: From the function that is returned.
    """
    code, annotations = function.__code__, function.__annotations__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

    def check(name: str, value: object, place: str) -> None:
        kind, _, optional = annotations[name].partition(" | ")
        if kind not in _KINDS or (optional == "None" and value is None) or _KINDS[kind](value):
            return
        raise TypeError(
            f"{function.__name__}(): argument '{name}'{place} must be {kind}, not "
            f"{type(value).__name__}"
        )

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for position, (name, value) in enumerate(zip(names, args, strict=False), 1):
            check(name, value, f" (position {position})")
        for name, value in kwargs.items():
            if name in names:
                check(name, value, "")
        return function(*args, **kwargs)

    return call
