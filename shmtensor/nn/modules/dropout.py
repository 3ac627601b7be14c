"""Dropout layers."""

from __future__ import annotations

from shmtensor._core._tensor import Tensor
from shmtensor.nn import functional as F
from shmtensor.nn.modules.module import Module


class _Dropout(Module):
    """A probability, and whether to work in place."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """Zeros elements with probability *p* while training.

    Source:
        Hinton et al., "Improving neural networks by preventing co-adaptation of feature
        detectors", 2012.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_Dropout):
    """Zero channels of ``(N, C, L)`` while training; scale the others by 1 / (1 - p).

    Args:
        p: Probability of a channel to be zeroed.
        inplace: Write into the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        """``(N, C, L)`` or ``(C, L)`` to the same shape."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_Dropout):
    """Zeros channels with probability *p* while training.

    Source:
        Tompson et al., "Efficient object localization using convolutional networks", 2014.
    """

    def forward(self, input: Tensor) -> Tensor:
        """``(N, C, H, W)`` or ``(N, C, L)`` to the same shape."""
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_Dropout):
    """Zero channels of ``(N, C, D, H, W)`` while training; scale the others by 1 / (1 - p).

    Args:
        p: Probability of a channel to be zeroed.
        inplace: Write into the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        """``(N, C, D, H, W)`` or ``(C, D, H, W)`` to the same shape."""
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_Dropout):
    """Dropout that keeps mean and variance, for self-normalising networks."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(_Dropout):
    """``AlphaDropout`` of whole channels."""

    def forward(self, input: Tensor) -> Tensor:
        """``(N, C, *)`` to the same shape."""
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)
