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
    "_assert_async",
    "_assert_scalar",
    "_assert_tensor_metadata",
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
    "sym_constrain_range",
    "sym_constrain_range_for_size",
]

#: The largest int64, which bounds sizes.
_LARGEST = (1 << 63) - 1

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


@overridable(as_given=True)
def _assert_async(
    input: Tensor, assert_msg: str = "Expected Tensor with single nonzero value, but got zero"
) -> None:
    """Raise a RuntimeError unless the one element of a tensor is other than zero.

    Args:
        input: A tensor of one element.
        assert_msg: The error's text.

    Raises:
        RuntimeError: It is zero, or *input* has none or several elements.
    """
    if not input:
        raise RuntimeError(assert_msg)


def _assert_scalar(self: Any, assert_msg: str) -> None:
    """Raise a RuntimeError with *assert_msg* unless a number is other than zero."""
    if not self:
        raise RuntimeError(assert_msg)


@overridable(as_given=True)
def _assert_tensor_metadata(
    a: Tensor,
    size: Any = None,
    stride: Any = None,
    dtype: _C.dtype | None = None,
    *,
    device: _C.device | str | None = None,
    layout: _C.layout | None = None,
) -> None:
    """Raise unless a tensor is as described; what is None may be anything.

    Args:
        a: A tensor.
        size: Its sizes.
        stride: Its strides.
        dtype: Its dtype.
        device: Its device.
        layout: Its layout.

    Raises:
        RuntimeError: It is something else.
    """
    expected = {
        "sizes": None if size is None else list(size),
        "strides": None if stride is None else list(stride),
        "dtype": dtype,
        "device": None if device is None else _C.device(device),
        "layout": layout,
    }
    for what, wanted in expected.items():
        if wanted is None:
            continue
        found = _metadata(a, what)
        if wanted != found:
            raise RuntimeError(f"Tensor {what} mismatch! Expected: {wanted}, Got: {found}")


def _metadata(a: Tensor, what: str) -> Any:
    if what == "sizes":
        return list(a.shape)
    return list(a.stride()) if what == "strides" else getattr(a, what)


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


def sym_constrain_range(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    """Raise unless a number lies between two bounds.

    Args:
        size: The number.
        min: The lower bound.
        max: The upper bound.

    Raises:
        RuntimeError: It does not, or no number does.
    """
    least = -_LARGEST - 1 if min is None else min
    most = _LARGEST if max is None else max
    if most < least:
        raise RuntimeError(f"Max must be greater than or equal to min. Got min={least} max={most}")
    if not least <= size <= most:
        raise RuntimeError(f"Invalid value range for {size} between [{least}, {most}].")


def sym_constrain_range_for_size(
    size: Any, *, min: int | None = None, max: int | None = None
) -> None:
    """Raise unless a size lies between two bounds; the lower one is at least 0.

    Args:
        size: The size.
        min: The lower bound.
        max: The upper bound, above 2.

    Raises:
        RuntimeError: It does not.
    """
    if max is not None and max <= 2:
        raise RuntimeError(
            f"Max value to constrain_range_for_size must be greater than 2. got: {max}"
        )
    sym_constrain_range(size, min=0 if min is None else min, max=max)


@overridable(as_given=True)
def is_distributed(input: Tensor) -> builtins.bool:
    """Return whether a tensor is spread over machines: False."""
    return False


def is_vulkan_available() -> builtins.bool:
    """Return whether there is a Vulkan device: False."""
    return False
