"""Dropout."""

from __future__ import annotations

from shmtensor._tensor import Tensor
from shmtensor.nn import functional as F
from shmtensor.nn.module import Module


class Dropout(Module):
    """Zeros elements with probability *p* while training.

    Source:
        Hinton et al., "Improving neural networks by preventing co-adaptation of feature
        detectors", 2012.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}, inplace={self.inplace}"
