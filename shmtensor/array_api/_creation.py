"""Functions that make arrays."""

from __future__ import annotations

import math
from typing import Any

import shmtensor as engine
from shmtensor._core._tensor import Tensor
from shmtensor.array_api._array import as_array
from shmtensor.array_api._dtypes import Dtype, Scalar, promoted

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]

_Shape = int | tuple[int, ...]


def _sizes(shape: _Shape) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def _wrapped(n: int) -> int:
    """The integer of int64 with the bits that *n* has in uint64."""
    n %= 2**64
    return n - 2**64 if n >= 2**63 else n


def asarray(
    obj: Any,
    /,
    *,
    dtype: Dtype | None = None,
    device: Any = None,
    copy: bool | None = None,
) -> Tensor:
    """Return *obj* as an array.

    Args:
        obj: An array or other tensor, a number, nested sequences of numbers, or what has the
            buffer protocol or ``__dlpack__``.
        dtype: The dtype of the result; that of *obj* by default.
        device: The device of the result.
        copy: True copies always, False never; None copies when it must.

    Raises:
        ValueError: A copy is needed and *copy* is False.
    """
    return as_array(engine.asarray(obj, dtype=dtype, device=device, copy=copy))


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return an array over the memory of another library's array.

    Args:
        x: An object with ``__dlpack__``.
        device: The device of the result.
        copy: True copies always, False never; None copies when it must.

    Raises:
        BufferError: *x* cannot be exported or imported.
        ValueError: A copy is needed and *copy* is False.
    """
    return as_array(engine.from_dlpack(x, device=device, copy=copy))


def arange(
    start: int | float,
    /,
    stop: int | float | None = None,
    step: int | float = 1,
    *,
    dtype: Dtype | None = None,
    device: Any = None,
) -> Tensor:
    """Return the numbers from *start* in steps of *step* that lie before *stop*.

    Args:
        start: The first number; with *stop* None this is *stop*, and the first number is 0.
        stop: The end, which does not belong to the result.
        step: The distance of two numbers, positive or negative.
        dtype: int64 when all numbers are integers and the default dtype otherwise.
        device: The device of the result.

    Raises:
        ValueError: *step* is 0.
    """
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ValueError("arange(): step must not be 0")
    if dtype is None:
        whole = all(isinstance(n, int) for n in (start, stop, step))
        dtype = engine.int64 if whole else engine.get_default_dtype()
    if (stop - start) * step <= 0:
        start, stop, step = 0, 0, 1
    if dtype is engine.uint64 and isinstance(start, int) and isinstance(step, int):
        # The engine's ends are int64: count from 0, and let multiples of the step wrap around.
        count = engine.arange(0, math.ceil(-((start - stop) // step)), device=device)
        return as_array((count * _wrapped(step) + _wrapped(start)).view(dtype))
    return as_array(engine.arange(start, stop, step, dtype=dtype, device=device))


def linspace(
    start: Scalar,
    stop: Scalar,
    /,
    num: int,
    *,
    dtype: Dtype | None = None,
    device: Any = None,
    endpoint: bool = True,
) -> Tensor:
    """Return *num* numbers at equal distances from *start* to *stop*.

    Args:
        start: The first number.
        stop: The last number, or with *endpoint* False the one after the last.
        num: How many.
        dtype: A floating-point dtype; the default real or complex one by default.
        device: The device of the result.
        endpoint: Whether *stop* belongs to the result.

    Raises:
        ValueError: *num* is negative.
    """
    if num < 0:
        raise ValueError(f"linspace(): num must not be negative, got {num}")
    count = num if endpoint else num + 1
    return as_array(engine.linspace(start, stop, count, dtype=dtype, device=device)[:num])


def empty(shape: _Shape, *, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """Return an array of any values."""
    return as_array(engine.empty(_sizes(shape), dtype=dtype, device=device))


def zeros(shape: _Shape, *, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """Return an array of zeros."""
    return as_array(engine.zeros(_sizes(shape), dtype=dtype, device=device))


def ones(shape: _Shape, *, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """Return an array of ones."""
    return as_array(engine.ones(_sizes(shape), dtype=dtype, device=device))


def full(
    shape: _Shape, fill_value: Scalar, *, dtype: Dtype | None = None, device: Any = None
) -> Tensor:
    """Return an array of one value; without *dtype*, of the default dtype for its type."""
    return as_array(engine.full(_sizes(shape), fill_value, dtype=dtype, device=device))


def empty_like(x: Tensor, /, *, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """Return an array of any values in the shape of *x*."""
    return engine.empty_like(x, dtype=dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """Return an array of zeros in the shape of *x*."""
    return engine.zeros_like(x, dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """Return an array of ones in the shape of *x*."""
    return engine.ones_like(x, dtype=dtype, device=device)


def full_like(
    x: Tensor, /, fill_value: Scalar, *, dtype: Dtype | None = None, device: Any = None
) -> Tensor:
    """Return an array of one value in the shape of *x*."""
    return engine.full_like(x, fill_value, dtype=dtype, device=device)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Dtype | None = None,
    device: Any = None,
) -> Tensor:
    """Return a matrix with ones on one diagonal and zeros elsewhere.

    Args:
        n_rows: The number of rows.
        n_cols: The number of columns; that of rows by default.
        k: Which diagonal: 0 is the main one, positive ones are above it.
        dtype: The dtype of the result.
        device: The device of the result.
    """
    n_cols = n_rows if n_cols is None else n_cols
    result = engine.zeros((n_rows, n_cols), dtype=dtype, device=device)
    if -n_rows < k < n_cols:
        result.diagonal(k).fill_(1)
    return as_array(result)


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Return the matrices of *x* with zeros above their *k*-th diagonal."""
    return engine.tril(x, diagonal=k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Return the matrices of *x* with zeros below their *k*-th diagonal."""
    return engine.triu(x, diagonal=k)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """Return the coordinates of a grid, one array for each dimension.

    Args:
        *arrays: The coordinates along each dimension, one-dimensional.
        indexing: ``"xy"`` has the second array along the rows, ``"ij"`` the first.

    Raises:
        ValueError: *indexing* is something else.
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid(): indexing must be 'xy' or 'ij', got {indexing!r}")
    return list(engine.meshgrid(*promoted(arrays), indexing=indexing))
