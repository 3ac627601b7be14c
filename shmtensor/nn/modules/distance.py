"""Distances and similarities of vectors."""

from __future__ import annotations

from shmtensor._core._tensor import Tensor
from shmtensor.nn import functional as F
from shmtensor.nn.modules.module import Module


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along *dim*, from -1 to 1.

    Args:
        dim: The dimension of the vectors.
        eps: Least product of their lengths.
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Two shapes that broadcast to that shape without *dim*."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of differences along the last dimension."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """``(N, D)`` and ``(N, D)`` to ``(N,)``."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
