"""Axes of the standard and dimensions of the engine.

A reduction takes an axis, several or None for all of them. The engine's functions mostly take one
dimension, or take no dimensions for all; by the standard, no axes means that nothing is reduced.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import shmtensor as engine
from shmtensor._core._tensor import Tensor

__all__ = ["Axes", "axis_index", "axis_indices", "only_axis", "reduced"]

Axes = int | tuple[int, ...] | None


def axis_index(axis: int, ndim: int) -> int:
    """*axis* counted from the front.

    Raises:
        IndexError: It is out of range.
    """
    if not -ndim <= axis < ndim:
        raise IndexError(f"axis {axis} is out of range for an array of {ndim} dimensions")
    return axis % ndim


def axis_indices(axis: Axes, ndim: int) -> tuple[int, ...]:
    """All axes that *axis* means, counted from the front.

    Raises:
        IndexError: One is out of range.
        ValueError: One is given twice.
    """
    if axis is None:
        return tuple(range(ndim))
    axes = tuple(axis_index(n, ndim) for n in ((axis,) if isinstance(axis, int) else axis))
    if len(set(axes)) < len(axes):
        raise ValueError(f"an axis is given twice in {axis!r}")
    return axes


def only_axis(x: Tensor, axis: int | None, name: str) -> int:
    """*axis*, or the only one of *x* for None.

    Raises:
        ValueError: None, and there are several.
    """
    if axis is not None:
        return axis_index(axis, x.ndim)
    if x.ndim != 1:
        raise ValueError(f"{name}(): axis must be given for an array of {x.ndim} dimensions")
    return 0


def reduced(
    function: Callable[[Tensor, int], Tensor], x: Tensor, axis: Axes, keepdims: bool
) -> Tensor:
    """Apply a reduction over one dimension to all *axis*, by making one of them.

    Args:
        function: Takes an array and the dimension that it is to reduce.
        x: The array.
        axis: What to reduce; an empty tuple reduces single elements.
        keepdims: Whether the axes stay, with length 1.
    """
    axes = axis_indices(axis, x.ndim)
    if len(axes) == 1:
        result = function(x, axes[0])
        return result.unsqueeze(axes[0]) if keepdims else result
    kept = [n for n in range(x.ndim) if n not in axes]
    sizes = [x.shape[n] for n in kept]
    count = math.prod(x.shape[n] for n in axes)
    result = function(engine.permute(x, (*kept, *axes)).reshape((*sizes, count)), len(kept))
    if keepdims:
        return result.reshape([1 if n in axes else x.shape[n] for n in range(x.ndim)])
    return result
