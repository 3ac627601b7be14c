"""Pooling with random windows, and the inverse of max pooling, as layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shmtensor._tensor import Tensor
from shmtensor.nn import functional as F
from shmtensor.nn.module import Module

Ints = int | Sequence[int]


class _MaxUnpool(Module):
    """Puts maxima back where they were; options as ``functional.max_unpool2d``."""

    _function: Callable[..., Tensor]
    _n: int

    def __init__(self, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0) -> None:
        super().__init__()

        def each(value: Ints) -> tuple[int, ...]:
            return (value,) * self._n if isinstance(value, int) else tuple(value)

        self.kernel_size = each(kernel_size)
        self.stride = each(kernel_size if stride is None else stride)
        self.padding = each(padding)

    def forward(
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        """Maxima ``(N, C, *)`` and their positions to the same with larger spatial sizes."""
        return type(self)._function(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )

    def extra_repr(self) -> str:
        """The window."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Puts maxima of signals back where they were."""

    _function = staticmethod(F.max_unpool1d)
    _n = 1


class MaxUnpool2d(_MaxUnpool):
    """Puts maxima of images back where they were."""

    _function = staticmethod(F.max_unpool2d)
    _n = 2


class MaxUnpool3d(_MaxUnpool):
    """Puts maxima of volumes back where they were."""

    _function = staticmethod(F.max_unpool3d)
    _n = 3


class _FractionalMaxPool(Module):
    """Maxima of windows with random steps; options as ``functional.fractional_max_pool2d``."""

    _function: Callable[..., Any]
    _n: int

    def __init__(
        self,
        kernel_size: Ints,
        output_size: Ints | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__

        def each(value: Any) -> Any:
            return (value,) * self._n if isinstance(value, (int, float)) else value

        self.kernel_size = each(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = each(output_size)
        self.output_ratio = each(output_ratio)
        if output_size is None and output_ratio is None:
            raise ValueError(
                f"{name} requires specifying either an output size, or a pooling ratio"
            )
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        """``(N, C, *)`` or ``(C, *)`` to the same with smaller spatial sizes."""
        return type(self)._function(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """Maxima of windows of images with random steps."""

    _function = staticmethod(F.fractional_max_pool2d)
    _n = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """Maxima of windows of volumes with random steps."""

    _function = staticmethod(F.fractional_max_pool3d)
    _n = 3
