"""Deformable convolution: each tap of the kernel reads the image at a place of its own.

The values at these places come from `grid_sampler`, with zeros outside of the image, and make the
columns that the weight is multiplied with. The derivatives go the same way back.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import shmtensor
from shmtensor._core._tensor import Tensor

__all__ = ["deform_conv2d", "deform_conv2d_backward"]

_BILINEAR, _ZEROS = 0, 0  # modes of grid_sampler


class _Options(NamedTuple):
    """The arguments after the tensors, in the order of the schema."""

    stride_h: int
    stride_w: int
    pad_h: int
    pad_w: int
    dilation_h: int
    dilation_w: int
    groups: int
    offset_groups: int
    use_mask: int


def _grid(input: Tensor, weight: Tensor, offset: Tensor, o: _Options) -> Tensor:
    """Return where the taps read, ``(N G, K OH, OW, 2)``, in `grid_sampler`'s unit."""
    n, _, height, width = input.shape
    rows, columns = weight.shape[2:]
    out_h, out_w = offset.shape[2:]
    places = offset.view(n * o.offset_groups, rows, columns, 2, out_h, out_w)

    def base(taps: int, dilation: int, outs: int, stride: int, pad: int) -> Tensor:
        steps = shmtensor.arange(outs, dtype=input.dtype) * stride - pad
        return shmtensor.arange(taps, dtype=input.dtype)[:, None] * dilation + steps

    y = base(rows, o.dilation_h, out_h, o.stride_h, o.pad_h)[:, None, :, None]
    x = base(columns, o.dilation_w, out_w, o.stride_w, o.pad_w)[None, :, None, :]
    y = (2 * (places[:, :, :, 0] + y) + 1) / height - 1
    x = (2 * (places[:, :, :, 1] + x) + 1) / width - 1
    return shmtensor.stack((x, y), -1).reshape(n * o.offset_groups, -1, out_w, 2)


def _by_offset_group(input: Tensor, o: _Options) -> Tensor:
    n, channels, height, width = input.shape
    return input.reshape(n * o.offset_groups, channels // o.offset_groups, height, width)


def _sampled(input: Tensor, grid: Tensor, o: _Options) -> Tensor:
    return shmtensor.grid_sampler(_by_offset_group(input, o), grid, _BILINEAR, _ZEROS, False)


def _weighted(sampled: Tensor, mask: Tensor, o: _Options) -> Tensor:
    """Return the columns ``(N G, C / G, K, OH OW)``; *mask* is ``(N, G K, OH, OW)``."""
    columns = sampled.view(*sampled.shape[:2], -1, mask.size(2) * mask.size(3))
    return columns * mask.view(sampled.size(0), 1, -1, columns.size(3))


def _columns(sampled: Tensor, mask: Tensor, input: Tensor, offset: Tensor, o: _Options) -> Tensor:
    """Return the columns for the product, ``(N, groups, C K / groups, OH OW)``."""
    columns = _weighted(sampled, mask, o) if o.use_mask else sampled
    return columns.reshape(input.size(0), o.groups, -1, offset.size(2) * offset.size(3))


def _check(input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, o: _Options) -> None:
    taps = weight.size(2) * weight.size(3)
    if input.dim() != 4:
        raise RuntimeError(f"deform_conv2d(): input should be (N, C, H, W), got {input.dim()} dims")
    if offset.size(1) != 2 * o.offset_groups * taps:
        raise RuntimeError(
            f"deform_conv2d(): offset should have {2 * o.offset_groups * taps} channels, got "
            f"{offset.size(1)}"
        )
    if o.use_mask and mask.size(1) != o.offset_groups * taps:
        raise RuntimeError(
            f"deform_conv2d(): mask should have {o.offset_groups * taps} channels, got "
            f"{mask.size(1)}"
        )
    sizes = [
        (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
        for size, pad, dilation, kernel, stride in (
            (input.size(2), o.pad_h, o.dilation_h, weight.size(2), o.stride_h),
            (input.size(3), o.pad_w, o.dilation_w, weight.size(3), o.stride_w),
        )
    ]
    if list(offset.shape[2:]) != sizes:
        raise RuntimeError(
            f"deform_conv2d(): offset should be {sizes} in size, as the output, got "
            f"{list(offset.shape[2:])}"
        )


def deform_conv2d(
    input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, *options: int
) -> Tensor:
    """Convolve *input* with *weight*, whose taps are moved by *offset* and scaled by *mask*.

    Args:
        input: ``(N, C, H, W)``.
        weight: ``(O, C / groups, KH, KW)``.
        offset: ``(N, 2 G KH KW, OH, OW)``: y and x of each tap, for each offset group.
        mask: ``(N, G KH KW, OH, OW)``; not read without *use_mask*.
        bias: ``(O,)``.
        *options: The fields of `_Options`.

    Returns:
        ``(N, O, OH, OW)``.

    Source:
        torchvision.ops.deform_conv2d; Zhu et al., "Deformable ConvNets v2", 2018.
    """
    o = _Options(*options)
    _check(input, weight, offset, mask, o)
    sampled = _sampled(input, _grid(input, weight, offset, o), o)
    columns = _columns(sampled, mask, input, offset, o)
    kernels = weight.reshape(o.groups, weight.size(0) // o.groups, -1)
    product = shmtensor.matmul(kernels, columns)
    return product.view(input.size(0), weight.size(0), *offset.shape[2:]) + bias.view(-1, 1, 1)


def deform_conv2d_backward(
    grad: Tensor,
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor,
    bias: Tensor,
    *options: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of the five tensors of `deform_conv2d`."""
    o = _Options(*options)
    n, outs = input.size(0), weight.size(0)
    taps, places = math.prod(weight.shape[2:]), math.prod(offset.shape[2:])
    grid = _grid(input, weight, offset, o)
    sampled = _sampled(input, grid, o)
    kernels = weight.reshape(o.groups, outs // o.groups, -1)
    by_group = grad.reshape(n, o.groups, outs // o.groups, places)
    columns = _columns(sampled, mask, input, offset, o)
    grad_weight = shmtensor.matmul(by_group, columns.transpose(2, 3)).sum(0).view_as(weight)

    grad_columns = shmtensor.matmul(kernels.transpose(1, 2), by_group)
    grad_columns = grad_columns.reshape(n * o.offset_groups, -1, taps, places)
    grad_mask = shmtensor.zeros_like(mask)
    if o.use_mask:
        products = grad_columns * sampled.view_as(grad_columns)
        grad_mask = products.sum(1).view_as(mask)
        grad_columns = grad_columns * mask.view(n * o.offset_groups, 1, taps, places)
    grad_input, grad_grid = shmtensor.ops.aten.grid_sampler_backward(
        grad_columns.view_as(sampled),
        _by_offset_group(input, o),
        grid,
        _BILINEAR,
        _ZEROS,
        False,
        [1, 1],
    )
    # The unit of the grid: a step of one pixel is 2 / size.
    scale = grad_grid.new_tensor([2 / input.size(3), 2 / input.size(2)])
    moved = (grad_grid * scale).view(n * o.offset_groups, taps, *offset.shape[2:], 2)
    grad_offset = moved.flip(-1).permute(0, 1, 4, 2, 3).reshape(offset.shape)
    return (
        grad_input.reshape(input.shape),
        grad_weight,
        grad_offset,
        grad_mask,
        grad.sum((0, 2, 3)),
    )
