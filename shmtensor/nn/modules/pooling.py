"""Pooling layers. Each is its function in ``nn.functional`` with the options kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shmtensor._core._tensor import Tensor
from shmtensor.nn import functional as F
from shmtensor.nn.modules.module import Module
from shmtensor.nn.modules.utils import _ntuple, _single

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
    """The largest value in every window of signals ``(N, C, L)``, N optional.

    Args:
        kernel_size: Size of the window, an int or one for each dimension.
        stride: Step of the window; its size if None.
        padding: Elements on each side that never win.
        dilation: Distance of the window's elements.
        return_indices: Also return where each value was, for ``MaxUnpool1d``.
        ceil_mode: Let a last window reach out of the input.
    """

    _function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPool):
    """The largest value in every window of images ``(N, C, H, W)``, N optional.

    Args:
        kernel_size: Size of the window, an int or one for each dimension.
        stride: Step of the window; its size if None.
        padding: Elements on each side that never win.
        dilation: Distance of the window's elements.
        return_indices: Also return where each value was, for ``MaxUnpool2d``.
        ceil_mode: Let a last window reach out of the input.
    """

    _function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPool):
    """The largest value in every window of volumes ``(N, C, D, H, W)``, N optional.

    Args:
        kernel_size: Size of the window, an int or one for each dimension.
        stride: Step of the window; its size if None.
        padding: Elements on each side that never win.
        dilation: Distance of the window's elements.
        return_indices: Also return where each value was, for ``MaxUnpool3d``.
        ceil_mode: Let a last window reach out of the input.
    """

    _function = staticmethod(F.max_pool3d)


class AvgPool1d(Module):
    """The mean of every window of signals ``(N, C, L)``, N optional.

    Args:
        kernel_size: Size of the window, an int or one for each dimension.
        stride: Step of the window; its size if None.
        padding: Zeros added on each side.
        ceil_mode: Let a last window reach out of the input.
        count_include_pad: Count added zeros in the mean.
    """

    def __init__(
        self,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _single(kernel_size)
        step = kernel_size if stride is None else stride
        self.stride = _single(step)
        self.padding = _single(padding)
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
    """The mean of every window of images ``(N, C, H, W)``, N optional.

    Args:
        kernel_size: Size of the window, an int or one for each dimension.
        stride: Step of the window; its size if None.
        padding: Zeros added on each side.
        ceil_mode: Let a last window reach out of the input.
        count_include_pad: Count added zeros in the mean.
        divisor_override: What sums are divided by, instead of the number of elements.
    """

    _function = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPool):
    """The mean of every window of volumes ``(N, C, D, H, W)``, N optional.

    Args:
        kernel_size: Size of the window, an int or one for each dimension.
        stride: Step of the window; its size if None.
        padding: Zeros added on each side.
        ceil_mode: Let a last window reach out of the input.
        count_include_pad: Count added zeros in the mean.
        divisor_override: What sums are divided by, instead of the number of elements.
    """

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
    """The means of equal shares of signals, so that the result has a given size.

    Args:
        output_size: Size of the result, an int or one for each dimension; None keeps the input's.
    """

    _function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """The means of equal shares of images, so that the result has a given size.

    Args:
        output_size: Size of the result, an int or one for each dimension; None keeps the input's.
    """

    _function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """The means of equal shares of volumes, so that the result has a given size.

    Args:
        output_size: Size of the result, an int or one for each dimension; None keeps the input's.
    """

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
    """The maxima of equal shares of signals, so that the result has a given size.

    Args:
        output_size: Size of the result, an int or one for each dimension; None keeps the input's.
        return_indices: Also return where each value was.
    """

    _function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The maxima of equal shares of images, so that the result has a given size.

    Args:
        output_size: Size of the result, an int or one for each dimension; None keeps the input's.
        return_indices: Also return where each value was.
    """

    _function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The maxima of equal shares of volumes, so that the result has a given size.

    Args:
        output_size: Size of the result, an int or one for each dimension; None keeps the input's.
        return_indices: Also return where each value was.
    """

    _function = staticmethod(F.adaptive_max_pool3d)


class _MaxUnpool(Module):
    """Puts maxima back where they were; options as ``functional.max_unpool2d``."""

    _function: Callable[..., Tensor]
    _n: int

    def __init__(self, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0) -> None:
        super().__init__()

        def each(value: Ints) -> tuple[int, ...]:
            return _ntuple(self._n)(value)

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
        name = f"FractionalMaxPool{self._n}d"

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

    def __init__(
        self,
        kernel_size: Ints,
        output_size: Ints | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        sizes = kernel_size if isinstance(kernel_size, (tuple, list)) else (kernel_size,)
        if any(size <= 0 for size in sizes):
            raise ValueError(f"kernel_size must be greater than 0, but got {kernel_size}")
        super().__init__(kernel_size, output_size, output_ratio, return_indices, _random_samples)
