"""Pooling over windows and over equal shares. Source: torch.nn.functional."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shmtensor import _C
from shmtensor._tensor import Tensor

_nn = _C._nn

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
]

Ints = int | Sequence[int]
Sizes = int | None | Sequence[int | None]

adaptive_avg_pool1d = _C.adaptive_avg_pool1d


def _step(stride: Ints | None) -> Ints:
    return () if stride is None else stride


def avg_pool1d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Mean of every window of ``(N, C, L)`` or ``(C, L)``; as ``avg_pool2d``."""
    return _C.avg_pool1d(input, kernel_size, _step(stride), padding, ceil_mode, count_include_pad)


def avg_pool2d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Mean of every window.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        kernel_size: Size of the window.
        stride: Step; the window's size if absent.
        padding: Implicit zeros on each side.
        ceil_mode: Keep a last window that is only partly inside.
        count_include_pad: Whether the zeros count in the divisor.
        divisor_override: What sums are divided by instead.
    """
    return _nn.avg_pool2d(
        input,
        kernel_size,
        _step(stride),
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
    )


def avg_pool3d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Mean of every window of ``(N, C, D, H, W)`` or without N; as ``avg_pool2d``."""
    return _nn.avg_pool3d(
        input,
        kernel_size,
        _step(stride),
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
    )


def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """``max_pool1d`` and the position of every maximum."""
    return _nn.max_pool1d_with_indices(
        input, kernel_size, _step(stride), padding, dilation, ceil_mode
    )


def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """``max_pool2d`` and the flat position of every maximum in its plane."""
    return _nn.max_pool2d_with_indices(
        input, kernel_size, _step(stride), padding, dilation, ceil_mode
    )


def max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """``max_pool3d`` and the flat position of every maximum in its volume."""
    return _nn.max_pool3d_with_indices(
        input, kernel_size, _step(stride), padding, dilation, ceil_mode
    )


def max_pool1d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Largest value in every window of ``(N, C, L)`` or ``(C, L)``; as ``max_pool2d``."""
    window = (input, kernel_size, _step(stride), padding, dilation, ceil_mode)
    return _nn.max_pool1d_with_indices(*window) if return_indices else _C.max_pool1d(*window)


def max_pool2d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Largest value in every window.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        kernel_size: Size of the window.
        stride: Step; the window's size if absent.
        padding: Implicit minus infinities on each side.
        dilation: Distance of window elements.
        ceil_mode: Keep a last window that is only partly inside.
        return_indices: Also give the flat index of each maximum in its plane.

    Returns:
        The maxima, or ``(maxima, indices)``.
    """
    window = (input, kernel_size, _step(stride), padding, dilation, ceil_mode)
    return _nn.max_pool2d_with_indices(*window) if return_indices else _C.max_pool2d(*window)


def max_pool3d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Largest value in every window of ``(N, C, D, H, W)`` or without N; as ``max_pool2d``."""
    window = (input, kernel_size, _step(stride), padding, dilation, ceil_mode)
    return _nn.max_pool3d_with_indices(*window) if return_indices else _C.max_pool3d(*window)


# --- equal shares ----------------------------------------------------------------------------


def _fill_sizes(output_size: Sizes, input: Tensor, n: int) -> Any:
    """``None`` among the *n* sizes stands for the input's own."""
    if isinstance(output_size, int) or output_size is None or len(output_size) != n:
        return output_size
    sizes = tuple(input.size())
    if len(sizes) <= len(output_size):
        raise ValueError(
            f"Input dimension should be at least {len(output_size) + 1}, got {len(sizes)}"
        )
    own = sizes[-len(output_size) :]
    return [o if s is None else s for s, o in zip(output_size, own, strict=True)]


def adaptive_avg_pool2d(input: Tensor, output_size: Sizes) -> Tensor:
    """Means of equal shares of ``(N, C, H, W)`` or ``(C, H, W)``.

    Args:
        input: Images.
        output_size: ``(H', W')`` or one int for both; ``None`` keeps the input's size.
    """
    return _nn.adaptive_avg_pool2d(input, _fill_sizes(output_size, input, 2))


def adaptive_avg_pool3d(input: Tensor, output_size: Sizes) -> Tensor:
    """Means of equal shares of ``(N, C, D, H, W)``; as ``adaptive_avg_pool2d``."""
    return _nn.adaptive_avg_pool3d(input, _fill_sizes(output_size, input, 3))


def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: Ints, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """``adaptive_max_pool1d`` and the position of every maximum."""
    return _C.adaptive_max_pool1d(input, output_size)


def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: Sizes, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """``adaptive_max_pool2d`` and the flat position of every maximum."""
    return _nn.adaptive_max_pool2d(input, _fill_sizes(output_size, input, 2))


def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: Sizes, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """``adaptive_max_pool3d`` and the flat position of every maximum."""
    return _nn.adaptive_max_pool3d(input, _fill_sizes(output_size, input, 3))


def adaptive_max_pool1d(input: Tensor, output_size: Ints, return_indices: bool = False) -> Any:
    """Maxima of equal shares of ``(N, C, L)`` or ``(C, L)``, and their positions if asked."""
    both = adaptive_max_pool1d_with_indices(input, output_size)
    return both if return_indices else both[0]


def adaptive_max_pool2d(input: Tensor, output_size: Sizes, return_indices: bool = False) -> Any:
    """Maxima of equal shares; sizes as ``adaptive_avg_pool2d``, and positions if asked."""
    both = adaptive_max_pool2d_with_indices(input, output_size)
    return both if return_indices else both[0]


def adaptive_max_pool3d(input: Tensor, output_size: Sizes, return_indices: bool = False) -> Any:
    """Maxima of equal shares; sizes as ``adaptive_avg_pool3d``, and positions if asked."""
    both = adaptive_max_pool3d_with_indices(input, output_size)
    return both if return_indices else both[0]


# --- powers ----------------------------------------------------------------------------------


def _tuple(value: Ints, n: int) -> tuple[int, ...]:
    return (value,) * n if isinstance(value, int) else tuple(value)


def _power_root(means: Tensor, count: int, norm_type: float) -> Tensor:
    """The p-th root of sums, from means; negative sums (odd p) keep their sign outside."""
    return (means.sign() * means.abs().relu() * count) ** (1.0 / norm_type)


def lp_pool1d(
    input: Tensor,
    norm_type: float,
    kernel_size: int,
    stride: Ints | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The p-norm of every window of ``(N, C, L)`` or ``(C, L)``.

    Args:
        input: Signals.
        norm_type: Exponent p.
        kernel_size: Size of the window.
        stride: Step; the window's size if absent.
        ceil_mode: Keep a last window that is only partly inside.
    """
    means = avg_pool1d(input.pow(norm_type), kernel_size, _step(stride), 0, ceil_mode)
    return _power_root(means, _tuple(kernel_size, 1)[0], norm_type)


def lp_pool2d(
    input: Tensor,
    norm_type: float,
    kernel_size: Ints,
    stride: Ints | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The p-norm of every window of ``(N, C, H, W)`` or ``(C, H, W)``; as ``lp_pool1d``."""
    height, width = _tuple(kernel_size, 2)
    means = avg_pool2d(input.pow(norm_type), kernel_size, _step(stride), 0, ceil_mode)
    return _power_root(means, height * width, norm_type)


def lp_pool3d(
    input: Tensor,
    norm_type: float,
    kernel_size: Ints,
    stride: Ints | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The p-norm of every window of ``(N, C, D, H, W)`` or without N; as ``lp_pool1d``."""
    depth, height, width = _tuple(kernel_size, 3)
    means = avg_pool3d(input.pow(norm_type), kernel_size, _step(stride), 0, ceil_mode)
    return _power_root(means, depth * height * width, norm_type)
