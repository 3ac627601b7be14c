"""Tensors of random values from a range, to try functions with."""

from __future__ import annotations

import builtins
import math
import warnings
from typing import Any

from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor.dtypes import finfo, iinfo

__all__ = ["make_tensor"]

# What values are taken from when nothing is said: integers below, floating numbers up to the end.
_INTEGRAL_DEFAULT = (-9, 10)
_UNSIGNED_DEFAULT = (0, 10)
_FLOATING_DEFAULT = (-9, 9)


def _limits(dtype: _C.dtype) -> tuple[float, float]:
    """The least number of a dtype, and the end: the largest, or one more for integers."""
    if dtype is _C.bool:
        return 0, 2
    if dtype.is_floating_point or dtype.is_complex:
        part = finfo(dtype.to_real() if dtype.is_complex else dtype)
        return part.min, part.max
    whole = iinfo(dtype)
    # randint takes ends up to the largest int64.
    return whole.min, min(whole.max + 1, 2**63 - 1)


def _bounds(dtype: _C.dtype, low: float | None, high: float | None) -> tuple[float, float]:
    """The range to draw from.

    Raises:
        ValueError: It is empty, or has nothing that the dtype can hold.
    """
    is_floating = dtype.is_floating_point or dtype.is_complex
    least, end = _limits(dtype)
    if dtype is _C.bool:
        default: tuple[float, float] = (0, 2)
    elif is_floating:
        default = _FLOATING_DEFAULT
    else:
        default = _UNSIGNED_DEFAULT if least == 0 else _INTEGRAL_DEFAULT
    low = default[0] if low is None else low
    high = default[1] if high is None else high
    if any(isinstance(bound, float) and math.isnan(bound) for bound in (low, high)):
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={low} and high={high}")
    if low > high or (low == high and not is_floating):
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    if high < least or (low >= end and not (is_floating and low == end)):
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} "
            f"only supports [{least}, {end})"
        )
    low, high = max(low, least), min(high, end)
    if not is_floating:
        return math.ceil(low), math.ceil(high)
    return low, high


def _fill(result: Tensor, low: float, high: float) -> None:
    """Draw uniformly from [low, high)."""
    dtype = result.dtype
    if dtype.is_complex:
        _fill(_C.view_as_real(result), low, high)
    elif dtype.is_floating_point:
        if low == high:
            result.fill_(low)
        elif high - low > finfo(dtype).max:
            result.uniform_(low / 2, high / 2).mul_(2)
        else:
            result.uniform_(low, high)
    else:
        drawn = _C.randint(int(low), int(high), tuple(result.shape), dtype=dtype)
        result.copy_(drawn)


def make_tensor(
    *shape: Any,
    dtype: _C.dtype,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: builtins.bool = False,
    noncontiguous: builtins.bool = False,
    exclude_zero: builtins.bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return a tensor of values that are drawn uniformly from ``[low, high)``.

    Args:
        *shape: Sizes, or one sequence of sizes.
        dtype: Any dtype.
        device: ``"cpu"``, or ``"meta"``, where nothing is drawn.
        low: The least value; -9 when absent, 0 for bool and unsigned integers. Both bounds are
            clamped to what the dtype holds, and hold for both parts of complex numbers.
        high: The end; 10 for integers, 9 for floating numbers, 2 for bool.
        requires_grad: The tensor's; for floating and complex dtypes only.
        noncontiguous: Every other element of a tensor of twice the size, unless there are fewer
            than two elements.
        exclude_zero: Zeros become the smallest positive number.
        memory_format: The tensor's; not together with *noncontiguous*.

    Raises:
        ValueError: The bounds do not fit, or options that exclude each other.
        TypeError: The sizes are not ints, or *dtype* is not a dtype that tensors have here.

    Source:
        torch.testing.make_tensor; the same seed gives the same values.
    """
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (list, tuple)) else shape
    if not isinstance(dtype, _C.dtype):
        raise TypeError(
            f"The requested dtype {dtype!r} is not supported by torch.testing.make_tensor()."
        )
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(
            "`requires_grad=True` is not supported for boolean and integral dtypes, but got "
            f"dtype={dtype}"
        )
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
            f"noncontiguous={noncontiguous} and memory_format={memory_format}"
        )
    low, high = _bounds(dtype, low, high)
    if low == high:
        warnings.warn(
            "`low` equal to `high` is deprecated for floating and complex dtypes; use torch.full()",
            FutureWarning,
            stacklevel=2,
        )
    every_other = noncontiguous and math.prod(sizes) > 1
    room = (*sizes[:-1], 2 * sizes[-1]) if every_other else sizes
    result: Tensor = _C.empty(room, dtype=dtype, device=device)
    if result.device.type != "meta":
        _fill(result, low, high)
    if every_other:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        is_floating = dtype.is_floating_point or dtype.is_complex
        part = dtype.to_real() if dtype.is_complex else dtype
        result[result == 0] = finfo(part).tiny if is_floating else 1
    if requires_grad:
        result.requires_grad_()
    return result
