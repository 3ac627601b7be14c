"""Pooling with random windows, and the inverse of max pooling. Source: torch.nn.functional."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import shmtensor
from shmtensor._tensor import Tensor

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
    input: Tensor, kernel: Ints, stride: Ints | None, padding: Ints, wanted: Any, n: int
) -> list[int]:
    """The output's spatial sizes: the wanted ones if pooling them could give the input's."""
    sizes = _list(kernel, n)
    steps = sizes if stride is None else _list(stride, n)
    pads = _list(padding, n)
    usual = [
        (length - 1) * steps[d] + sizes[d] - 2 * pads[d]
        for d, length in enumerate(input.shape[-n:])
    ]
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
    name = f"max_unpooling{n}d_forward_out"
    sizes = _unpool_sizes(input, kernel, stride, padding, wanted, n)
    if indices.dtype is not shmtensor.int64:
        raise RuntimeError(f"elements in indices should be type int64 but got: {indices.dtype}")
    if input.dim() not in (n + 1, n + 2):
        raise RuntimeError(
            f"Input to {name} should be a {n + 1}d or {n + 2}d Tensor, but got input with "
            f"{input.dim()} dimensions."
        )
    if input.shape != indices.shape:
        raise RuntimeError(
            f"Expected shape of indices to be: {list(input.shape)} but got: {list(indices.shape)}"
        )
    if 0 in input.shape[input.dim() - n - 1 :]:
        raise RuntimeError(
            f"{name}: expected input to have non-zero sizes in its last {n + 1} dimensions, got "
            f"{list(input.shape)}"
        )
    if min(sizes) <= 0:
        raise RuntimeError(f"{name}: expected positive output sizes, got {sizes}")
    outer, space = list(input.shape[:-n]), math.prod(sizes)
    where = indices.reshape([*outer, -1])
    if where.numel() and not 0 <= int(where.min()) <= int(where.max()) < space:
        wrong = where[(where < 0) | (where >= space)]
        raise RuntimeError(
            f"Found an invalid max index: {int(wrong[0])} (output volumes are of size "
            f"{'x'.join(str(s) for s in sizes)}"
        )
    planes = input.new_zeros([*outer, space])
    result = planes.scatter(-1, where, input.reshape([*outer, -1])).reshape([*outer, *sizes])
    last = shmtensor.channels_last
    is_last = n == 2 and input.dim() == 4 and input.is_contiguous(memory_format=last)
    return (
        result.contiguous(memory_format=last) if is_last and not input.is_contiguous() else result
    )


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


def _window_starts(samples: Tensor, length: int, out: int, kernel: int) -> Tensor:
    """Where the windows of each plane begin, ``(planes, out)``, from one number for each."""
    last = shmtensor.full(
        (samples.size(0), 1), length - kernel, dtype=shmtensor.int64, device=samples.device
    )
    if out == 1:
        return last
    step = (length - kernel) / (out - 1)
    places = shmtensor.arange(out - 1, dtype=samples.dtype, device=samples.device)
    shifted = ((places + samples.unsqueeze(1)) * step).to(shmtensor.int64)
    return shmtensor.cat([shifted - (samples * step).to(shmtensor.int64).unsqueeze(1), last], 1)


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
    if input.dim() not in (n + 1, n + 2):
        raise RuntimeError(
            f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got: {list(input.shape)}"
        )
    batch = 1 if input.dim() == n + 1 else input.size(0)
    channels = input.size(-n - 1)
    space = list(input.shape[-n:])
    if output_size is None:
        ratios = _list(output_ratio, n)
        output_size = [int(s * r) for s, r in zip(space, ratios, strict=True)]
    sizes, windows = _list(output_size, n), _list(kernel_size, n)
    if len(sizes) != n or len(windows) != n:
        raise RuntimeError(f"{name}: kernel_size and output_size must each have {n} elements")
    if 0 in input.shape[input.dim() - n - 1 :]:
        raise RuntimeError(
            f"{name}(): Expected input to have non-zero size for non-batch dimensions, but got "
            f"{list(input.shape)}"
        )
    for s, w, o in zip(space, windows, sizes, strict=True):
        if w <= 0 or o <= 0 or o + w - 1 > s:
            raise RuntimeError(
                f"{name}(): pool size {w} and output size {o} do not fit into input size {s}"
            )
    if samples is None:
        samples = shmtensor.rand(batch, channels, n, dtype=input.dtype, device=input.device)
    if samples.requires_grad and shmtensor.is_grad_enabled():
        raise RuntimeError(
            f"The function '{name}' is not differentiable with respect to argument "
            "'random_samples'. This input cannot have requires_grad True."
        )
    if tuple(samples.shape) != (batch, channels, n):
        raise RuntimeError(
            f"{name}: Expect _random_samples of shape {(batch, channels, n)}, got "
            f"{tuple(samples.shape)}"
        )
    planes, numbers = batch * channels, samples.reshape(-1, n)
    # (planes, windows, elements of a window): positions in the plane, dimension by dimension.
    at = shmtensor.zeros((planes, 1, 1), dtype=shmtensor.int64, device=input.device)
    for d in range(n):
        # Of images the first number is for the width, of volumes for the depth.
        number = numbers[:, n - 1 - d if n == 2 else d]
        starts = _window_starts(number, space[d], sizes[d], windows[d])
        lines = starts.unsqueeze(2) + shmtensor.arange(windows[d], device=input.device)
        whole = at.view(planes, at.size(1), 1, at.size(2), 1) * space[d]
        whole = whole + lines.view(planes, 1, sizes[d], 1, windows[d])
        at = whole.reshape(planes, whole.size(1) * sizes[d], whole.size(3) * windows[d])
    rows = input.reshape(planes, math.prod(space))
    values = rows.gather(1, at.flatten(1)).view(at.shape)
    maxima, chosen = values.max(2)
    indices = at.gather(2, chosen.unsqueeze(2))
    shape = [*input.shape[:-n], *sizes]
    return maxima.reshape(shape), indices.reshape(shape)


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
