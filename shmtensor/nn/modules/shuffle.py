"""Moving elements between channels and space, and distances of vectors."""

from __future__ import annotations

from shmtensor._tensor import Tensor
from shmtensor.nn import functional as F
from shmtensor.nn.module import Module


class PixelShuffle(Module):
    """Spreads groups of channels over squares of pixels."""

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """``(*, C r^2, H, W)`` to ``(*, C, H r, W r)``."""
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """The inverse of ``PixelShuffle``."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """``(*, C, H r, W r)`` to ``(*, C r^2, H, W)``."""
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Interleaves groups of channels."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """``(N, C, *)`` to the same shape."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """The number of groups."""
        return f"groups={self.groups}"


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along *dim*."""

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
