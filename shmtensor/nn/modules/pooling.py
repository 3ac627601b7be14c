"""Pooling layers. Each is its function in ``nn.functional`` with the options kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shmtensor._tensor import Tensor
from shmtensor.nn import functional as F
from shmtensor.nn.module import Module

Ints = int | Sequence[int]


class _MaxPool(Module):
    """Largest value in every window; arguments as ``functional.max_pool2d``."""

    _function: Callable[..., Any]

    def __init__(
        self,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
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
        """``(N, C, *)`` or ``(C, *)`` to the same with smaller spatial sizes."""
        return type(self)._function(
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


class MaxPool1d(_MaxPool):
    """Largest value in every window of signals."""

    _function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPool):
    """Largest value in every window of images."""

    _function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPool):
    """Largest value in every window of volumes."""

    _function = staticmethod(F.max_pool3d)


class AvgPool1d(Module):
    """Mean of every window of signals; arguments as ``functional.avg_pool1d``."""

    def __init__(
        self,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = (kernel_size,) if isinstance(kernel_size, int) else kernel_size
        step = kernel_size if stride is None else stride
        self.stride = (step,) if isinstance(step, int) else step
        self.padding = (padding,) if isinstance(padding, int) else padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """``(N, C, L)`` or ``(C, L)`` to the same with fewer elements."""
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )

    def extra_repr(self) -> str:
        """The window."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPool(Module):
    """Mean of every window; arguments as ``functional.avg_pool2d``."""

    _function: Callable[..., Any]

    def __init__(
        self,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """``(N, C, *)`` or ``(C, *)`` to the same with smaller spatial sizes."""
        result: Tensor = type(self)._function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )
        return result

    def extra_repr(self) -> str:
        """The window."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(_AvgPool):
    """Mean of every window of images."""

    _function = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPool):
    """Mean of every window of volumes."""

    _function = staticmethod(F.avg_pool3d)


class _LPPool(Module):
    """The p-norm of every window; arguments as ``functional.lp_pool2d``."""

    _function: Callable[..., Any]

    def __init__(
        self,
        norm_type: float,
        kernel_size: Ints,
        stride: Ints | None = None,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """``(N, C, *)`` or ``(C, *)`` to the same with smaller spatial sizes."""
        result: Tensor = type(self)._function(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )
        return result

    def extra_repr(self) -> str:
        """The window."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """The p-norm of every window of signals."""

    _function = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPool):
    """The p-norm of every window of images."""

    _function = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPool):
    """The p-norm of every window of volumes."""

    _function = staticmethod(F.lp_pool3d)


class _AdaptiveAvgPool(Module):
    """Means of equal shares, as many as *output_size* says."""

    _function: Callable[..., Any]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """``(N, C, *)`` or ``(C, *)`` to the same with the wanted spatial sizes."""
        result: Tensor = type(self)._function(input, self.output_size)
        return result

    def extra_repr(self) -> str:
        """The wanted sizes."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Means of equal shares of signals."""

    _function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Means of equal shares of images."""

    _function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Means of equal shares of volumes."""

    _function = staticmethod(F.adaptive_avg_pool3d)


class _AdaptiveMaxPool(Module):
    """Maxima of equal shares, as many as *output_size* says, and their positions if asked."""

    _function: Callable[..., Any]

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        """``(N, C, *)`` or ``(C, *)`` to the same with the wanted spatial sizes."""
        return type(self)._function(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        """The wanted sizes."""
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """Maxima of equal shares of signals."""

    _function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """Maxima of equal shares of images."""

    _function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """Maxima of equal shares of volumes."""

    _function = staticmethod(F.adaptive_max_pool3d)
