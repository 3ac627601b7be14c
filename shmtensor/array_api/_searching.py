"""Searching, sorting and sets."""

from __future__ import annotations

from typing import NamedTuple

import shmtensor as engine
from shmtensor._core._tensor import Tensor
from shmtensor.array_api import _unsigned as wide
from shmtensor.array_api._axes import axis_index
from shmtensor.array_api._dtypes import Operand, pair

__all__ = [
    "argmax",
    "argmin",
    "argsort",
    "nonzero",
    "searchsorted",
    "sort",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "where",
]


def _extreme(name: str, x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    function = getattr(engine, name)
    ordered = wide.as_ordered(x)
    if axis is not None:
        result: Tensor = function(ordered, axis_index(axis, x.ndim), keepdim=keepdims)
        return result
    result = function(ordered)
    return result.reshape((1,) * x.ndim) if keepdims else result


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return where the largest elements are, the first of equal ones.

    Args:
        x: A real array.
        axis: The axis to search along; None searches all elements, counted row by row.
        keepdims: Keep the axes, with length 1.
    """
    return _extreme("argmax", x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return where the smallest elements are; arguments as of `argmax`."""
    return _extreme("argmin", x, axis, keepdims)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """Return where elements differ from 0: one array of indices for each axis.

    Raises:
        ValueError: *x* has no axes.
    """
    if x.ndim == 0:
        raise ValueError("nonzero(): an array without axes has no indices")
    return tuple(engine.nonzero(wide.logical(x), as_tuple=True))


def searchsorted(
    x1: Tensor, x2: Tensor, /, *, side: str = "left", sorter: Tensor | None = None
) -> Tensor:
    """Return where to insert elements into a sorted array so that it stays sorted.

    Args:
        x1: The sorted array, one-dimensional.
        x2: What to insert.
        side: ``"left"`` is the first such place, ``"right"`` the last.
        sorter: Indices that sort *x1*.

    Raises:
        ValueError: *side* is something else.
    """
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted(): side must be 'left' or 'right', got {side!r}")
    a, b = map(wide.as_ordered, pair(x1, x2))
    if sorter is not None:
        a = a[sorter.to(engine.int64)]
    return engine.searchsorted(a.contiguous(), b.contiguous(), right=side == "right")


def where(condition: Tensor, x1: Operand, x2: Operand, /) -> Tensor:
    """Return elements of *x1* where *condition* is true and of *x2* elsewhere."""
    a, b = pair(x1, x2)
    return engine.where(condition, a, b)


# --- sorting ----------------------------------------------------------------------------------


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return *x* sorted along an axis; NaN is larger than any number."""
    axis = axis_index(axis, x.ndim)
    return engine.sort(x, stable=stable, dim=axis, descending=descending)[0]


def argsort(
    x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """Return the indices that sort *x* along an axis; equal elements stay in order if *stable*."""
    axis = axis_index(axis, x.ndim)
    return engine.sort(x, stable=stable, dim=axis, descending=descending)[1]


# --- sets -------------------------------------------------------------------------------------


class UniqueAll(NamedTuple):
    """What `unique_all` returns."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What `unique_counts` returns."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What `unique_inverse` returns."""

    values: Tensor
    inverse_indices: Tensor


def _order(x: Tensor) -> Tensor:
    """The indices that sort one-dimensional *x*, complex numbers by real and imaginary part."""
    if not x.dtype.is_complex:
        return engine.sort(x, stable=True)[1]
    by_imaginary = engine.sort(engine.imag(x), stable=True)[1]
    by_real = engine.sort(engine.real(x)[by_imaginary], stable=True)[1]
    return by_imaginary[by_real]


def unique_all(x: Tensor, /) -> UniqueAll:
    """Return the distinct elements of *x*, and how they lie in it.

    Every NaN is an element of its own, and both zeros are one.

    Returns:
        ``values``, sorted; ``indices``, where each occurs first in the flattened *x*;
        ``inverse_indices``, the value at each place of *x*, in its shape; ``counts``, how often
        each occurs.
    """
    flat = engine.resolve_conj(x).reshape(-1)
    n = flat.numel()
    order = _order(flat)
    ordered = flat[order]
    begins = engine.ones_like(ordered, dtype=engine.bool)
    if n:
        begins[1:] = ordered[1:] != ordered[:-1]
    starts = engine.nonzero(begins, as_tuple=True)[0]
    ends = engine.cat([starts[1:], engine.full((min(n, 1),), n, dtype=engine.int64)])
    inverse = engine.empty_like(order)
    inverse[order] = engine.cumsum(begins, 0) - 1
    return UniqueAll(ordered[starts], order[starts], inverse.reshape(x.shape), ends - starts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """Return the distinct elements, and how often each occurs; as `unique_all`."""
    if x.dtype.is_complex:
        result = unique_all(x)
        return UniqueCounts(result.values, result.counts)
    values, counts = engine.unique(x, return_counts=True)
    return UniqueCounts(values, counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """Return the distinct elements, and which is at each place of *x*; as `unique_all`."""
    if x.dtype.is_complex:
        result = unique_all(x)
        return UniqueInverse(result.values, result.inverse_indices)
    values, inverse = engine.unique(x, return_inverse=True)
    return UniqueInverse(values, inverse)


def unique_values(x: Tensor, /) -> Tensor:
    """Return the distinct elements; as `unique_all`."""
    return unique_all(x).values if x.dtype.is_complex else engine.unique(x)
