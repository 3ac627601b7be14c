"""Distances and similarities of vectors. Source: torch.nn.functional."""

from __future__ import annotations

import shmtensor
from shmtensor._core._arguments import checked
from shmtensor._core._overridable import overridable
from shmtensor._core._tensor import Tensor

__all__ = ["cosine_similarity", "pairwise_distance", "pdist"]


@overridable(as_given=True)
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along *dim*.

    Args:
        x1: Any shape, floating point.
        x2: A shape that broadcasts with it.
        dim: The dimension of the vectors, in the broadcast shape.
        eps: The smallest length that is divided by.

    Returns:
        The broadcast shape without *dim*.

    Raises:
        RuntimeError: Neither is floating point, or the shapes do not broadcast.
    """
    return shmtensor.cosine_similarity(x1, x2, dim, eps)


@overridable(as_given=True)
@checked
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of ``x1 - x2 + eps`` along the last dimension.

    Args:
        x1: ``(N, D)`` or ``(D,)``.
        x2: A shape that broadcasts with it.
        p: Exponent of the norm.
        eps: Added to every difference, so that the gradient at 0 is defined.
        keepdim: Keep the last dimension, with size 1.
    """
    last = max(x1.dim(), x2.dim()) - 1
    return (x1 - x2 + eps).norm(p, last, keepdim)


@overridable(as_given=True)
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norms of the differences of all pairs of rows.

    Args:
        input: ``(N, D)``, floating point.
        p: Exponent of the norm, not negative.

    Returns:
        ``(N * (N - 1) / 2,)``: the pairs (0, 1), (0, 2), ..., (N - 2, N - 1).

    Raises:
        RuntimeError: *input* is not a matrix, or *p* is negative.
    """
    return shmtensor.pdist(input, p)
