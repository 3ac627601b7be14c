"""Moving elements between channels and space, and distances of vectors."""

from __future__ import annotations

from shmtensor._core._tensor import Tensor
from shmtensor.nn import functional as F
from shmtensor.nn.modules.module import Module


class PixelShuffle(Module):
    """Spread channels over squares of pixels: ``(*, C r^2, H, W)`` to ``(*, C, H r, W r)``.

    Args:
        upscale_factor: r.
    """

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
    """The inverse of ``PixelShuffle``: ``(*, C, H r, W r)`` to ``(*, C r^2, H, W)``.

    Args:
        downscale_factor: r.
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """``(*, C, H r, W r)`` to ``(*, C r^2, H, W)``."""
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return f"downscale_factor={self.downscale_factor}"
