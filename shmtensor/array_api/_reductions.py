"""Functions that reduce axes, running sums and products, differences."""

from __future__ import annotations

import shmtensor as engine
from shmtensor._core._tensor import Tensor
from shmtensor.array_api import _unsigned as wide
from shmtensor.array_api._axes import Axes, axis_index, axis_indices, only_axis, reduced
from shmtensor.array_api._dtypes import Dtype, default_integral_sum, promoted

__all__ = [
    "all",
    "any",
    "count_nonzero",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
]


def sum(
    x: Tensor, /, *, axis: Axes = None, dtype: Dtype | None = None, keepdims: bool = False
) -> Tensor:
    """Return sums over *axis*.

    Args:
        x: A numeric array.
        axis: An axis, a tuple of axes, or None for all.
        dtype: The dtype to sum in. By default integers are summed in int64 or uint64, and other
            arrays in their own dtype.
        keepdims: Keep the axes, with length 1.
    """
    dtype = default_integral_sum(x.dtype) if dtype is None else dtype
    axes = axis_indices(axis, x.ndim)
    if not axes:
        return x.to(dtype, copy=True)
    return engine.sum(x, axes, keepdim=keepdims, dtype=dtype)


def prod(
    x: Tensor, /, *, axis: Axes = None, dtype: Dtype | None = None, keepdims: bool = False
) -> Tensor:
    """Return products over *axis*; arguments as of `sum`."""
    dtype = default_integral_sum(x.dtype) if dtype is None else dtype
    return reduced(lambda y, dim: engine.prod(y, dim, dtype=dtype), x, axis, keepdims)


def mean(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return arithmetic means over *axis*, an axis, a tuple of axes, or None for all."""
    axes = axis_indices(axis, x.ndim)
    return engine.mean(x, axes, keepdim=keepdims) if axes else engine.clone(x)


def var(
    x: Tensor, /, *, axis: Axes = None, correction: int | float = 0.0, keepdims: bool = False
) -> Tensor:
    """Return variances over *axis*.

    Args:
        x: A real floating-point array.
        axis: An axis, a tuple of axes, or None for all.
        correction: What is subtracted from the number of elements: 1 for a sample's estimate.
        keepdims: Keep the axes, with length 1.
    """
    axes = axis_indices(axis, x.ndim)
    if not axes:
        return engine.var(x.unsqueeze(-1), (-1,), correction=correction)
    return engine.var(x, axes, correction=correction, keepdim=keepdims)


def std(
    x: Tensor, /, *, axis: Axes = None, correction: int | float = 0.0, keepdims: bool = False
) -> Tensor:
    """Return standard deviations over *axis*; arguments as of `var`."""
    axes = axis_indices(axis, x.ndim)
    if not axes:
        return engine.std(x.unsqueeze(-1), (-1,), correction=correction)
    return engine.std(x, axes, correction=correction, keepdim=keepdims)


def max(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the largest elements over *axis*; NaN where there is one."""
    axes = axis_indices(axis, x.ndim)
    if not axes:
        return engine.clone(x)
    return wide.by_order(lambda y: engine.amax(y, axes, keepdim=keepdims), x)


def min(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return the smallest elements over *axis*; NaN where there is one."""
    axes = axis_indices(axis, x.ndim)
    if not axes:
        return engine.clone(x)
    return wide.by_order(lambda y: engine.amin(y, axes, keepdim=keepdims), x)


def all(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return whether all elements over *axis* differ from 0."""
    return reduced(lambda y, dim: engine.all(y, dim), wide.logical(x), axis, keepdims)


def any(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return whether an element over *axis* differs from 0."""
    return reduced(lambda y, dim: engine.any(y, dim), wide.logical(x), axis, keepdims)


def count_nonzero(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Return how many elements over *axis* differ from 0, as int64."""
    return sum(wide.logical(x), axis=axis, keepdims=keepdims)


# --- running and neighbouring -----------------------------------------------------------------


def _with_initial(running: Tensor, axis: int, first: int) -> Tensor:
    sizes = list(running.shape)
    sizes[axis] = 1
    initial = engine.full(sizes, first, dtype=running.dtype, device=running.device)
    return engine.cat([initial, running], axis)


def cumulative_sum(
    x: Tensor,
    /,
    *,
    axis: int | None = None,
    dtype: Dtype | None = None,
    include_initial: bool = False,
) -> Tensor:
    """Return running sums along *axis*.

    Args:
        x: A numeric array.
        axis: The axis; may be None when there is but one.
        dtype: The dtype to sum in, by default as for `sum`.
        include_initial: Begin with a 0, so that there is one sum more than elements.

    Raises:
        ValueError: *axis* is None, and there are several.
    """
    axis = only_axis(x, axis, "cumulative_sum")
    running = engine.cumsum(
        x, axis, dtype=default_integral_sum(x.dtype) if dtype is None else dtype
    )
    return _with_initial(running, axis, 0) if include_initial else running


def cumulative_prod(
    x: Tensor,
    /,
    *,
    axis: int | None = None,
    dtype: Dtype | None = None,
    include_initial: bool = False,
) -> Tensor:
    """Return running products along *axis*; arguments as of `cumulative_sum`, the first is 1."""
    axis = only_axis(x, axis, "cumulative_prod")
    running = engine.cumprod(
        x, axis, dtype=default_integral_sum(x.dtype) if dtype is None else dtype
    )
    return _with_initial(running, axis, 1) if include_initial else running


def diff(
    x: Tensor,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """Return differences of neighbours along *axis*.

    Args:
        x: A numeric array.
        axis: The axis.
        n: How many times differences are taken.
        prepend: What to put before *x* along *axis* first.
        append: What to put behind it.

    Raises:
        ValueError: *n* is negative.
    """
    if n < 0:
        raise ValueError(f"diff(): n must not be negative, got {n}")
    axis = axis_index(axis, x.ndim)
    parts = promoted(part for part in (prepend, x, append) if part is not None)
    result = engine.cat(parts, axis) if len(parts) > 1 else parts[0]
    dtype = result.dtype
    result = wide.as_signed(result)
    for _ in range(n):
        if result.shape[axis] == 0:
            break
        length = result.shape[axis] - 1
        result = result.narrow(axis, 1, length) - result.narrow(axis, 0, length)
    return result.view(dtype) if result.dtype is not dtype else result
