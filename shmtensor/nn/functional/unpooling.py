"""Pooling with random windows, and the inverse of max pooling. Source: torch.nn.functional."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import shmtensor
from shmtensor import _C
from shmtensor._core._overridable import overridable
from shmtensor._core._tensor import Tensor

_nn = _C._nn

__all__ = [
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]

Ints = int | Sequence[int]


def _list(value: Any, n: int) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value] * n


# --- unpooling --------------------------------------------------------------------------------


def _unpool_sizes(
    input: Tensor, kernel: list[int], steps: list[int], pads: list[int], wanted: Any
) -> list[int]:
    """The output's spatial sizes: the wanted ones if pooling them could give the input's."""
    n = len(kernel)
    usual = [(input.shape[d - n] - 1) * steps[d] + kernel[d] - 2 * pads[d] for d in range(n)]
    if wanted is None:
        return usual
    given = list(wanted)
    if len(given) == n + 2:
        given = given[2:]
    if len(given) != n:
        raise ValueError(
            "output_size should be a sequence containing "
            f"{n} or {n + 2} elements, but it has a length of '{len(given)}'"
        )
    for d in range(n):
        if not usual[d] - steps[d] < given[d] < usual[d] + steps[d]:
            raise ValueError(
                f'invalid output_size "{given}" (dim {d} must be between '
                f"{usual[d] - steps[d]} and {usual[d] + steps[d]})"
            )
    return given


def _unpool(
    input: Tensor,
    indices: Tensor,
    kernel: Ints,
    stride: Ints | None,
    padding: Ints,
    wanted: Any,
    n: int,
) -> Tensor:
    windows, pads = _list(kernel, n), _list(padding, n)
    steps = windows if stride is None else _list(stride, n)
    sizes = _unpool_sizes(input, windows, steps, pads, wanted)
    if n == 3:
        return _nn.max_unpool3d(input, indices, sizes, steps, pads)
    if n == 2:
        return _nn.max_unpool2d(input, indices, sizes)
    # Signals are images of width 1.
    return _nn.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [*sizes, 1]).squeeze(-1)


@overridable
def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Put maxima back where they were; as ``max_unpool2d`` for ``(N, C, L)`` or ``(C, L)``."""
    return _unpool(input, indices, kernel_size, stride, padding, output_size, 1)


@overridable
def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Put maxima back where they were, with zeros elsewhere.

    Args:
        input: Maxima, ``(N, C, H, W)`` or ``(C, H, W)``.
        indices: Their positions, as ``max_pool2d`` gives them.
        kernel_size: Size of the windows.
        stride: Their step; their size if absent.
        padding: The padding of the pooling.
        output_size: The wanted spatial sizes, where several would do.

    Raises:
        ValueError: *output_size* could not have been pooled to the input's.
        RuntimeError: Shapes differ, or an index is outside.
    """
    return _unpool(input, indices, kernel_size, stride, padding, output_size, 2)


@overridable
def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Put maxima back where they were; as ``max_unpool2d`` for ``(N, C, D, H, W)``."""
    return _unpool(input, indices, kernel_size, stride, padding, output_size, 3)


# --- random windows -----------------------------------------------------------------------------


def _fractional(
    input: Tensor,
    kernel_size: Ints,
    output_size: Any,
    output_ratio: Any,
    samples: Tensor | None,
    n: int,
) -> tuple[Tensor, Tensor]:
    name = f"fractional_max_pool{n}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if output_size is None:
        ratios = _list(output_ratio, n)
        if len(ratios) > n:
            many = "Ints" if n == 2 else "three Ints"
            raise ValueError(
                f"{name} requires output_ratio to either be a single Int or tuple of {many}."
            )
        output_size = [int(input.size(d - n) * ratios[d]) for d in range(n)]
    if samples is None:
        batch = 1 if input.dim() == n + 1 else input.size(0)
        samples = shmtensor.rand(
            batch, input.size(-n - 1), n, dtype=input.dtype, device=input.device
        )
    operator: Callable[..., tuple[Tensor, Tensor]] = getattr(_nn, name)
    return operator(input, _list(kernel_size, n), _list(output_size, n), samples)


@overridable
def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """``fractional_max_pool2d`` and the flat position of every maximum."""
    return _fractional(input, kernel_size, output_size, output_ratio, _random_samples, 2)


@overridable
def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """``fractional_max_pool3d`` and the flat position of every maximum."""
    return _fractional(input, kernel_size, output_size, output_ratio, _random_samples, 3)


@overridable
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Largest value in windows whose steps are random, so that any size can be reached.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        kernel_size: Size of the windows.
        output_size: Number of windows.
        output_ratio: Or their number by the input's size, between 0 and 1.
        return_indices: Also give the flat index of each maximum in its plane.
        _random_samples: ``(N, C, 2)``, from 0 to 1, which decide on the steps.

    Raises:
        ValueError: Neither size nor ratio.
        RuntimeError: Sizes do not fit together.

    Source:
        Graham, "Fractional max-pooling", 2014.
    """
    both = _fractional(input, kernel_size, output_size, output_ratio, _random_samples, 2)
    return both if return_indices else both[0]


@overridable
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """``fractional_max_pool2d`` of ``(N, C, D, H, W)`` or without N."""
    both = _fractional(input, kernel_size, output_size, output_ratio, _random_samples, 3)
    return both if return_indices else both[0]
