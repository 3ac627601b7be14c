"""Pooling over windows and over equal shares. Source: torch.nn.functional."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from shmtensor import _C
from shmtensor._core._overridable import overridable
from shmtensor._core._tensor import Tensor

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

_SHAPES = {1: "``(N, C, L)``", 2: "``(N, C, H, W)``", 3: "``(N, C, D, H, W)``"}


def _step(stride: Ints | None) -> Ints:
    return () if stride is None else stride


def _named(function: Callable[..., Any], name: str, n: int) -> Callable[..., Any]:
    """Give *function*, one of a family, its own name and *n* dimensions in its text."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = str(function.__doc__).replace("{shape}", f"{_SHAPES[n]} or without N")
    return function


# --- averages of windows ------------------------------------------------------------------------


def _avg_pool(n: int) -> Callable[..., Tensor]:
    operator: Any = _C.avg_pool1d if n == 1 else getattr(_nn, f"avg_pool{n}d")

    @overridable(as_given=True)
    def avg_pool(
        input: Tensor,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
        *,
        out: Tensor | None = None,
    ) -> Any:
        """Mean of every window.

        Args:
            input: {shape}.
            kernel_size: Size of the window.
            stride: Step; the window's size if absent.
            padding: Implicit zeros on each side.
            ceil_mode: Keep a last window that is only partly inside.
            count_include_pad: Whether the zeros count in the divisor.
            divisor_override: What sums are divided by instead.
            out: Where the result goes.
        """
        options = (_step(stride), padding, ceil_mode, count_include_pad, divisor_override)
        return operator(input, kernel_size, *options, out=out)

    return _named(avg_pool, f"avg_pool{n}d", n)


avg_pool1d = _avg_pool(1)
avg_pool2d = _avg_pool(2)
avg_pool3d = _avg_pool(3)


# --- maxima of windows --------------------------------------------------------------------------


def _max_pool(n: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    values, both = getattr(_C, f"max_pool{n}d"), getattr(_nn, f"max_pool{n}d_with_indices")

    @overridable
    def with_indices(
        input: Tensor,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        """The largest value of every window of {shape}, and its position among them all."""
        return both(input, kernel_size, _step(stride), padding, dilation, ceil_mode)

    @overridable
    def max_pool(
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
            input: {shape}.
            kernel_size: Size of the window.
            stride: Step; the window's size if absent.
            padding: Implicit minus infinities on each side.
            dilation: Distance of window elements.
            ceil_mode: Keep a last window that is only partly inside.
            return_indices: Also give the flat index of each maximum among its channel's elements.

        Returns:
            The maxima, or ``(maxima, indices)``.
        """
        operator = both if return_indices else values
        return operator(input, kernel_size, _step(stride), padding, dilation, ceil_mode)

    name = f"max_pool{n}d"
    return _named(max_pool, name, n), _named(with_indices, f"{name}_with_indices", n)


max_pool1d, max_pool1d_with_indices = _max_pool(1)
max_pool2d, max_pool2d_with_indices = _max_pool(2)
max_pool3d, max_pool3d_with_indices = _max_pool(3)


# --- equal shares -------------------------------------------------------------------------------


def _fill_sizes(output_size: Sizes, input: Tensor, n: int) -> Any:
    """``None`` among the *n* sizes stands for the input's own."""
    if not isinstance(output_size, Sequence) or len(output_size) != n:
        return output_size
    sizes = tuple(input.size())
    if len(sizes) <= len(output_size):
        raise ValueError(
            f"Input dimension should be at least {len(output_size) + 1}, got {len(sizes)}"
        )
    own = sizes[-len(output_size) :]
    return [o if s is None else s for s, o in zip(output_size, own, strict=True)]


def _adaptive_avg_pool(n: int) -> Callable[..., Tensor]:
    operator = getattr(_nn, f"adaptive_avg_pool{n}d")

    @overridable
    def adaptive_avg_pool(input: Tensor, output_size: Sizes) -> Any:
        """Means of equal shares.

        Args:
            input: {shape}.
            output_size: A size for each dimension or one for all; ``None`` keeps the input's.
        """
        return operator(input, _fill_sizes(output_size, input, n))

    return _named(adaptive_avg_pool, f"adaptive_avg_pool{n}d", n)


adaptive_avg_pool1d = _C.adaptive_avg_pool1d
adaptive_avg_pool2d = _adaptive_avg_pool(2)
adaptive_avg_pool3d = _adaptive_avg_pool(3)


def _adaptive_max_pool(n: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    operator: Any = _C.adaptive_max_pool1d if n == 1 else getattr(_nn, f"adaptive_max_pool{n}d")

    @overridable
    def with_indices(input: Tensor, output_size: Sizes, return_indices: bool = False) -> Any:
        """The largest value of equal shares of {shape}, and its position among them all."""
        return operator(input, _fill_sizes(output_size, input, n) if n > 1 else output_size)

    @overridable
    def adaptive_max_pool(input: Tensor, output_size: Sizes, return_indices: bool = False) -> Any:
        """Maxima of equal shares.

        Args:
            input: {shape}.
            output_size: A size for each dimension or one for all; ``None`` keeps the input's.
            return_indices: Also give the flat index of each maximum among its channel's elements.
        """
        both = with_indices(input, output_size)
        return both if return_indices else both[0]

    name = f"adaptive_max_pool{n}d"
    return _named(adaptive_max_pool, name, n), _named(with_indices, f"{name}_with_indices", n)


adaptive_max_pool1d, adaptive_max_pool1d_with_indices = _adaptive_max_pool(1)
adaptive_max_pool2d, adaptive_max_pool2d_with_indices = _adaptive_max_pool(2)
adaptive_max_pool3d, adaptive_max_pool3d_with_indices = _adaptive_max_pool(3)


# --- powers -------------------------------------------------------------------------------------


def _lp_pool(n: int) -> Callable[..., Tensor]:
    average = (avg_pool1d, avg_pool2d, avg_pool3d)[n - 1]

    @overridable
    def lp_pool(
        input: Tensor,
        norm_type: float,
        kernel_size: Ints,
        stride: Ints | None = None,
        ceil_mode: bool = False,
    ) -> Any:
        """The p-norm of every window; a negative sum (odd p) keeps its sign outside the root.

        Args:
            input: {shape}.
            norm_type: Exponent p.
            kernel_size: Size of the window.
            stride: Step; the window's size if absent.
            ceil_mode: Keep a last window that is only partly inside.
        """
        sizes = tuple(kernel_size) if isinstance(kernel_size, Sequence) else (kernel_size,) * n
        if len(sizes) != n and n > 1:
            raise ValueError(f"lp_pool{n}d: expected {n} sizes of the window, got {kernel_size}")
        means = average(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
        return (means.sign() * means.abs().relu() * math.prod(sizes)) ** (1.0 / norm_type)

    return _named(lp_pool, f"lp_pool{n}d", n)


lp_pool1d = _lp_pool(1)
lp_pool2d = _lp_pool(2)
lp_pool3d = _lp_pool(3)
