"""Products of vectors and matrices that are in the main namespace."""

from __future__ import annotations

from collections.abc import Sequence

import shmtensor as engine
from shmtensor._core._tensor import Tensor
from shmtensor.array_api import _unsigned as wide
from shmtensor.array_api._axes import axis_index
from shmtensor.array_api._dtypes import pair

__all__ = ["matmul", "matrix_transpose", "tensordot", "vecdot"]


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Return matrix products.

    Args:
        x1: A vector, or matrices in the last two axes.
        x2: Likewise; the axes before the last two broadcast with those of *x1*.

    Raises:
        ValueError: An operand has no axes.
        RuntimeError: Lengths do not fit.
    """
    if x1.ndim == 0 or x2.ndim == 0:
        raise ValueError("matmul(): both arrays must have an axis")
    return wide.by_bits(engine.matmul, *pair(x1, x2))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """Return *x* with its last two axes exchanged; a view.

    Raises:
        ValueError: There are fewer than two.
    """
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose(): expected two axes or more, got {x.ndim}")
    return engine.transpose(x, -2, -1)


def tensordot(
    x1: Tensor,
    x2: Tensor,
    /,
    *,
    axes: int | tuple[Sequence[int], Sequence[int]] = 2,
) -> Tensor:
    """Return sums of products over several axes.

    Args:
        x1: A numeric array.
        x2: Another.
        axes: How many of the last axes of *x1* are summed over with the first of *x2*, or the
            axes of both.
    """
    dims = axes if isinstance(axes, int) else [list(each) for each in axes]
    return wide.by_bits(lambda a, b: engine.tensordot(a, b, dims), *pair(x1, x2))


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Return ``sum(conj(x1) * x2)`` over an axis; other axes broadcast.

    Args:
        x1: A numeric array.
        x2: Another, of the same length along the axis.
        axis: The axis, counted from the end as both arrays may have different numbers of them.

    Raises:
        ValueError: The lengths differ.
    """
    if not -min(x1.ndim, x2.ndim) <= axis < 0:
        axis = axis_index(axis, max(x1.ndim, x2.ndim)) - max(x1.ndim, x2.ndim)
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(
            f"vecdot(): shapes {tuple(x1.shape)} and {tuple(x2.shape)} differ along axis {axis}"
        )

    def dot(a: Tensor, b: Tensor) -> Tensor:
        rows = engine.movedim(engine.conj(a), axis, -1).unsqueeze(-2)
        columns = engine.movedim(b, axis, -1).unsqueeze(-1)
        return engine.matmul(rows, columns).squeeze(-1).squeeze(-1)

    return wide.by_bits(dot, *pair(x1, x2))
