"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shmtensor._tensor import Tensor
from shmtensor.nn import functional as F
from shmtensor.nn.module import Module


class MaxPool2d(Module):
    """Largest value in every window; arguments as ``functional.max_pool2d``."""

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        """``(N, C, H, W)`` or ``(C, H, W)`` to the same with fewer rows and columns."""
        return F.max_pool2d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        """The window."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class AvgPool2d(Module):
    """Mean of every window that lies wholly inside."""

    def __init__(
        self, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride

    def forward(self, input: Tensor) -> Tensor:
        """``(..., H, W)`` to the same with fewer rows and columns."""
        return F.avg_pool2d(input, self.kernel_size, self.stride)

    def extra_repr(self) -> str:
        """The window."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding=0"
