"""Moving elements between channels and space. Source: torch.nn.functional."""

from __future__ import annotations

import math

import shmtensor
from shmtensor._core._arguments import checked
from shmtensor._core._overridable import overridable
from shmtensor._core._tensor import Tensor

__all__ = ["channel_shuffle", "native_channel_shuffle", "pixel_shuffle", "pixel_unshuffle"]


def _has_channels_last(input: Tensor) -> bool:
    """Do channels come last in memory, as they then do in results?"""
    return (
        input.dim() == 4
        and input.is_contiguous(memory_format=shmtensor.channels_last)
        and not input.is_contiguous()
    )


def _copied(permuted: Tensor, shape: list[int]) -> Tensor:
    """A contiguous copy, of another shape: never a view of the input, as where nothing moves."""
    return permuted.clone(memory_format=shmtensor.contiguous_format).view(shape)


@overridable(as_given=True)
@checked
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Spread groups of channels over squares of pixels.

    Args:
        input: ``(*, C * r * r, H, W)``.
        upscale_factor: r.

    Returns:
        ``(*, C, H * r, W * r)``.

    Raises:
        RuntimeError: Fewer than three dimensions, r is not positive, or r^2 divides no channels.

    Source:
        Shi et al., "Real-time single image and video super-resolution", 2016.
    """
    if input.dim() < 3:
        raise RuntimeError(
            "pixel_shuffle expects input to have at least 3 dimensions, but got input with "
            f"{input.dim()} dimension(s)"
        )
    r = upscale_factor
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    channels, height, width = input.shape[-3:]
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
            f"of upscale_factor, but input.size(-3)={channels} is not divisible by {r * r}"
        )
    outer = input.shape[:-3]
    n, c = math.prod(outer), channels // (r * r)
    if _has_channels_last(input):
        pixels = input.permute(0, 2, 3, 1).reshape(n, height, width, c, r, r)
        spread = _copied(pixels.permute(0, 1, 4, 2, 5, 3), [n, height * r, width * r, c])
        return spread.permute(0, 3, 1, 2)
    squares = input.reshape(n, c, r, r, height, width).permute(0, 1, 4, 2, 5, 3)
    return _copied(squares, [*outer, c, height * r, width * r])


@overridable(as_given=True)
@checked
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """The inverse of ``pixel_shuffle``.

    Args:
        input: ``(*, C, H * r, W * r)``.
        downscale_factor: r.

    Returns:
        ``(*, C * r * r, H, W)``.

    Raises:
        RuntimeError: Fewer than three dimensions, r is not positive, or divides no size.
    """
    if input.dim() < 3:
        raise RuntimeError(
            "pixel_unshuffle expects input to have at least 3 dimensions, but got input with "
            f"{input.dim()} dimension(s)"
        )
    r = downscale_factor
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    channels, height, width = input.shape[-3:]
    for name, size, dim in (("height", height, -2), ("width", width, -1)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but "
                f"input.size({dim})={size} is not divisible by {r}"
            )
    outer = input.shape[:-3]
    n = math.prod(outer)
    if _has_channels_last(input):
        pixels = input.permute(0, 2, 3, 1).reshape(n, height // r, r, width // r, r, channels)
        gathered = pixels.permute(0, 1, 3, 5, 2, 4)
        space = [n, height // r, width // r, channels * r * r]
        return _copied(gathered, space).permute(0, 3, 1, 2)
    squares = input.reshape(n, channels, height // r, r, width // r, r).permute(0, 1, 3, 5, 2, 4)
    return _copied(squares, [*outer, channels * r * r, height // r, width // r])


@overridable(as_given=True)
@checked
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Interleave groups of channels of ``(N, C, *)``.

    Raises:
        RuntimeError: Fewer than three dimensions, or *groups* does not divide C.

    Source:
        Zhang et al., "ShuffleNet", 2017.
    """
    if input.dim() <= 2:
        raise RuntimeError(
            "channel_shuffle expects input with > 2 dims, but got input with sizes "
            f"{list(input.shape)}"
        )
    if groups <= 0:
        raise RuntimeError(
            f"Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    channels = input.size(1)
    if channels % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {channels} channels and "
            f"{groups} groups."
        )
    if input.numel() == 0:
        return input.reshape(input.shape)
    n, *space = input.size(0), *input.shape[2:]
    if _has_channels_last(input):
        pixels = input.permute(0, 2, 3, 1)
        parts = pixels.reshape([n, *space, groups, channels // groups]).transpose(3, 4)
        return _copied(parts, list(pixels.shape)).permute(0, 3, 1, 2)
    parts = input.reshape([n, groups, channels // groups, *space]).transpose(1, 2)
    return _copied(parts, list(input.shape))


@overridable(as_given=True)
def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """`channel_shuffle`, which torch has twice."""
    return channel_shuffle(input, groups)
