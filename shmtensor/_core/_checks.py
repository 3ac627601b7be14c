"""Conditions that programs written for torch check by functions instead of statements.

Source:
    torch._assert, torch._check and its like.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from shmtensor import _C
from shmtensor._core._overridable import overridable
from shmtensor._core._tensor import Tensor

__all__ = [
    "_assert",
    "_check",
    "_check_index",
    "_check_is_size",
    "_check_not_implemented",
    "_check_tensor_all",
    "_check_tensor_all_with",
    "_check_type",
    "_check_value",
    "_check_with",
    "_constrain_as_size",
    "is_distributed",
    "is_vulkan_available",
]

Message = Callable[[], Any] | None


def _assert(condition: Any, message: str) -> None:
    """Raise an AssertionError with *message* unless the condition holds.

    Args:
        condition: A tensor of one element counts by it.
        message: The error's text.

    Raises:
        AssertionError: It does not hold.
    """
    if type(condition) is not builtins.bool and _C._has_override(condition):
        from shmtensor.overrides import handle_torch_function

        handle_torch_function(_assert, (condition,), condition, message)
    elif not condition:
        raise AssertionError(message)


def _check_with(error: type[Exception], cond: builtins.bool, message: Message = None) -> None:
    """Raise *error* unless the condition holds.

    Args:
        error: A class of exceptions.
        cond: A bool.
        message: Called for the text, when it is needed.

    Raises:
        TypeError: *cond* is not a bool, or *message* cannot be called.
    """
    if not isinstance(cond, builtins.bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is None:
        raise error("Expected cond to be True, but got False.")
    if not callable(message):
        raise TypeError("message must be a callable")
    raise error(str(message()))


def _check(cond: builtins.bool, message: Message = None) -> None:
    """Raise a RuntimeError unless the condition holds; see `_check_with`."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond: builtins.bool, message: Message = None) -> None:
    """Raise an IndexError unless the condition holds; see `_check_with`."""
    _check_with(IndexError, cond, message)


def _check_value(cond: builtins.bool, message: Message = None) -> None:
    """Raise a ValueError unless the condition holds; see `_check_with`."""
    _check_with(ValueError, cond, message)


def _check_type(cond: builtins.bool, message: Message = None) -> None:
    """Raise a TypeError unless the condition holds; see `_check_with`."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: builtins.bool, message: Message = None) -> None:
    """Raise a NotImplementedError unless the condition holds; see `_check_with`."""
    _check_with(NotImplementedError, cond, message)


def _check_tensor_all_with(error: type[Exception], cond: Any, message: Message = None) -> None:
    """Raise *error* unless all elements of a bool tensor are true.

    Raises:
        TypeError: *cond* is not a tensor of bools.
    """
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype is not _C.bool:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error, builtins.bool(cond.all().item()), message)


def _check_tensor_all(cond: Any, message: Message = None) -> None:
    """Raise a RuntimeError unless all elements of a bool tensor are true."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _check_is_size(i: int, message: Message = None, *, max: int | None = None) -> None:
    """Raise a RuntimeError unless *i* is a size: not negative, and at most *max*."""
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _constrain_as_size(symbol: int, min: int | None = None, max: int | None = None) -> None:
    """Raise a RuntimeError unless a size lies between two bounds."""
    _check(symbol >= (min or 0) and (max is None or symbol <= max))


@overridable(as_given=True)
def is_distributed(input: Tensor) -> builtins.bool:
    """Return whether a tensor is spread over machines: False."""
    return False


def is_vulkan_available() -> builtins.bool:
    """Return whether there is a Vulkan device: False."""
    return False
