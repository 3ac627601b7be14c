"""Pooling of regions of interest: each region of an image becomes a small grid of bins.

A region is a row of *rois*: the index of its image, and its corners ``x1, y1, x2, y2``, which are
multiplied by *spatial_scale*. Bilinear sampling is separable, and so is its mean over a bin. So
`roi_align` multiplies an image with one matrix of weights from each side, and its derivative is the
product with the transposed matrices. The position-sensitive kinds (``ps_``) read every bin from a
channel of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import shmtensor
from shmtensor._core._tensor import Tensor

__all__ = [
    "ps_roi_align",
    "ps_roi_align_backward",
    "ps_roi_pool",
    "ps_roi_pool_backward",
    "roi_align",
    "roi_align_backward",
    "roi_pool",
    "roi_pool_backward",
]


def _check(name: str, input: Tensor, rois: Tensor) -> None:
    if rois.dim() != 2 or rois.size(1) != 5:
        raise RuntimeError(f"{name}(): rois must be (K, 5), got {tuple(rois.shape)}")
    if input.dtype != rois.dtype:
        raise RuntimeError(f"{name}(): input is {input.dtype} but rois is {rois.dtype}")


def _images(rois: Tensor) -> Tensor:
    return rois[:, 0].long()


# --- bilinear sampling --------------------------------------------------------------------------


def _weights(start: Tensor, length: Tensor, bins: int, size: int, ratio: int) -> Tensor:
    """Return ``(K, bins, size)``: what each element along a dimension gives to each bin.

    Args:
        start: ``(K,)``, where the regions begin, in elements.
        length: ``(K,)``, their lengths.
        bins: Bins a region.
        size: Elements along the dimension.
        ratio: Samples a bin; 0 or less: one for every element that a bin has, rounded up.
    """
    step = length / bins
    counts = shmtensor.full_like(length, ratio) if ratio > 0 else step.ceil()
    most = int(counts.max().clamp(min=1)) if len(counts) else 1
    index = shmtensor.arange(most, dtype=start.dtype)
    inside = (index + 0.5) * (step / counts.clamp(min=1))[:, None]
    edges = start[:, None] + shmtensor.arange(bins, dtype=start.dtype) * step[:, None]
    places = edges[:, :, None] + inside[:, None, :]
    # A sample more than an element outside is 0; one nearer by takes the outermost element.
    counted = (places >= -1) & (places <= size) & (index < counts[:, None])[:, None, :]
    places = places.clamp(0, size - 1)
    low = places.floor().clamp(max=max(size - 2, 0))
    upper = places - low
    share = counted.to(start.dtype) / counts.clamp(min=1)[:, None, None]
    weights = start.new_zeros((*edges.shape, size))
    weights.scatter_add_(2, low.long(), (1 - upper) * share)
    weights.scatter_add_(2, (low.long() + 1).clamp(max=size - 1), upper * share)
    return weights


def _both_weights(
    rois: Tensor,
    scale: float,
    bins: tuple[int, int],
    sizes: tuple[int, int],
    ratio: int,
    shift: float,
    least: float | None,
) -> tuple[Tensor, Tensor]:
    """Return the weights along y and x; regions are moved by *shift* and at least *least* long."""
    corners = rois[:, 1:] * scale - shift
    found = []
    for axis, count, size in ((1, bins[0], sizes[0]), (0, bins[1], sizes[1])):
        length = corners[:, axis + 2] - corners[:, axis]
        if least is not None:
            length = length.clamp(min=least)
        found.append(_weights(corners[:, axis], length, count, size, ratio))
    return found[0], found[1]


def _align_weights(
    rois: Tensor,
    scale: float,
    bins: tuple[int, int],
    sizes: tuple[int, int],
    ratio: int,
    aligned: bool,
) -> tuple[Tensor, Tensor]:
    shift, least = (0.5, None) if aligned else (0.0, 1.0)
    return _both_weights(rois, scale, bins, sizes, ratio, shift, least)


def roi_align(
    input: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """Return the means of bilinear samples in the bins of each region.

    Args:
        input: ``(N, C, H, W)``, floating point.
        rois: ``(K, 5)``, same dtype.
        spatial_scale: Multiplies the corners.
        pooled_height: Bins along y.
        pooled_width: Bins along x.
        sampling_ratio: Samples a bin and dimension; 0 or less: as many as it has elements.
        aligned: Elements lie at half numbers; else regions have a side of at least one element.

    Returns:
        ``(K, C, pooled_height, pooled_width)``.

    Source:
        torchvision.ops.roi_align; He et al., "Mask R-CNN", 2017.
    """
    _check("roi_align", input, rois)
    bins, sizes = (pooled_height, pooled_width), (input.size(2), input.size(3))
    along_y, along_x = _align_weights(rois, spatial_scale, bins, sizes, sampling_ratio, aligned)
    images = _images(rois)
    result = input.new_empty((rois.size(0), input.size(1), *bins))
    for k in range(rois.size(0)):
        result[k] = along_y[k] @ input[images[k]] @ along_x[k].mT
    return result


def roi_align_backward(
    grad: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    batch_size: int,
    channels: int,
    height: int,
    width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """Return the gradient of `roi_align` for its input."""
    bins, sizes = (pooled_height, pooled_width), (height, width)
    along_y, along_x = _align_weights(rois, spatial_scale, bins, sizes, sampling_ratio, aligned)
    images = _images(rois)
    result = grad.new_zeros((batch_size, channels, height, width))
    for k in range(rois.size(0)):
        result[images[k]] += along_y[k].mT @ grad[k] @ along_x[k]
    return result


def _mapping(rois: Tensor, channels: int, bins: tuple[int, int]) -> Tensor:
    """Return the channel that each bin of the result comes from, int32."""
    shape = (channels // (bins[0] * bins[1]), *bins)
    own = shmtensor.arange(channels, dtype=shmtensor.int32).view(shape)
    return own.expand(rois.size(0), *shape).contiguous()


def _check_channels(name: str, channels: int, bins: tuple[int, int]) -> None:
    if channels % (bins[0] * bins[1]):
        raise RuntimeError(
            f"{name}(): {channels} input channels are not a multiple of the {bins[0]} x {bins[1]} "
            "bins"
        )


def ps_roi_align(
    input: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
) -> tuple[Tensor, Tensor]:
    """Return `roi_align` with a channel of its own for every bin, and which channel that was.

    Args:
        input: ``(N, C PH PW, H, W)``.
        rois: As in `roi_align`, and so the others; elements lie at half numbers.
        spatial_scale: Multiplies the corners.
        pooled_height: PH.
        pooled_width: PW.
        sampling_ratio: Samples a bin and dimension.

    Returns:
        ``(K, C, PH, PW)``, and int32 of this shape.

    Source:
        torchvision.ops.ps_roi_align; Li et al., "Light-Head R-CNN", 2017.
    """
    _check("ps_roi_align", input, rois)
    bins, sizes = (pooled_height, pooled_width), (input.size(2), input.size(3))
    _check_channels("ps_roi_align", input.size(1), bins)
    along_y, along_x = _both_weights(rois, spatial_scale, bins, sizes, sampling_ratio, 0.5, None)
    images = _images(rois)
    result = input.new_empty((rois.size(0), input.size(1) // (bins[0] * bins[1]), *bins))
    for k in range(rois.size(0)):
        maps = input[images[k]].view(-1, *bins, *sizes)
        rows = (maps * along_y[k][:, None, :, None]).sum(-2)
        result[k] = (rows * along_x[k]).sum(-1)
    return result, _mapping(rois, input.size(1), bins)


def ps_roi_align_backward(
    grad: Tensor,
    rois: Tensor,
    channel_mapping: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    batch_size: int,
    channels: int,
    height: int,
    width: int,
) -> Tensor:
    """Return the gradient of `ps_roi_align` for its input."""
    bins, sizes = (pooled_height, pooled_width), (height, width)
    along_y, along_x = _both_weights(rois, spatial_scale, bins, sizes, sampling_ratio, 0.5, None)
    images = _images(rois)
    result = grad.new_zeros((batch_size, channels, height, width))
    for k in range(rois.size(0)):
        weights = along_y[k][:, None, :, None] * along_x[k][None, :, None, :]
        result[images[k]] += (grad[k][..., None, None] * weights).view(channels, height, width)
    return result


# --- whole elements -----------------------------------------------------------------------------


def _rounded(rois: Tensor, scale: float) -> list[list[int]]:
    """Return the corners as whole numbers; halves go away from zero, as in C."""
    corners = rois[:, 1:] * scale
    away = (corners.abs() + 0.5).floor().copysign(corners)
    return [[int(value) for value in row] for row in away.tolist()]


def _bins(start: int, length: int, bins: int, last: int) -> list[tuple[int, int]]:
    """Return where each bin begins and ends; bins overlap where they share an element."""
    edges = []
    step = length / bins
    for i in range(bins):
        low, high = int(i * step // 1), -int(-(i + 1) * step // 1)
        edges.append((min(max(low + start, 0), last), min(max(high + start, 0), last)))
    return edges


def _cells(
    rois: Tensor, scale: float, bins: tuple[int, int], last: tuple[int, int], more: int
) -> Iterator[tuple[int, int, int, slice, slice]]:
    """Yield region, bin and the elements of every bin that is not empty."""
    for k, (x1, y1, x2, y2) in enumerate(_rounded(rois, scale)):
        rows = _bins(y1, max(y2 - y1 + more, 1), bins[0], last[0])
        columns = _bins(x1, max(x2 - x1 + more, 1), bins[1], last[1])
        for i, (top, bottom) in enumerate(rows):
            for j, (left, right) in enumerate(columns):
                if bottom > top and right > left:
                    yield k, i, j, slice(top, bottom), slice(left, right)


def roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """Return the largest element of every bin, and where it is.

    Args:
        input: ``(N, C, H, W)``.
        rois: ``(K, 5)``; corners are rounded, and belong to the region.
        spatial_scale: Multiplies the corners.
        pooled_height: PH.
        pooled_width: PW.

    Returns:
        ``(K, C, PH, PW)``, 0 where a bin is empty, and int32 positions ``y W + x``, -1 there.

    Source:
        torchvision.ops.roi_pool; Girshick, "Fast R-CNN", 2015.
    """
    _check("roi_pool", input, rois)
    height, width = input.shape[2:]
    bins = (pooled_height, pooled_width)
    images = _images(rois).tolist()
    result = input.new_zeros((rois.size(0), input.size(1), *bins))
    places = shmtensor.full(result.shape, -1, dtype=shmtensor.int32)
    for k, i, j, rows, columns in _cells(rois, spatial_scale, bins, (height, width), 1):
        values, index = input[images[k], :, rows, columns].flatten(1).max(1)
        wide = columns.stop - columns.start
        result[k, :, i, j] = values
        places[k, :, i, j] = (rows.start + index // wide) * width + columns.start + index % wide
    return result, places


def roi_pool_backward(
    grad: Tensor,
    rois: Tensor,
    argmax: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    batch_size: int,
    channels: int,
    height: int,
    width: int,
) -> Tensor:
    """Return the gradient of `roi_pool` for its input."""
    result = grad.new_zeros((batch_size, channels, height * width))
    images = _images(rois)
    filled = argmax >= 0
    index = shmtensor.where(filled, argmax, 0).long().flatten(2)
    values = shmtensor.where(filled, grad, 0).flatten(2)
    for k in range(rois.size(0)):
        result[images[k]].scatter_add_(1, index[k], values[k])
    return result.view(batch_size, channels, height, width)


def ps_roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """Return the mean of every bin from a channel of its own, and which channel that was.

    Args:
        input: ``(N, C PH PW, H, W)``.
        rois: ``(K, 5)``; corners are rounded.
        spatial_scale: Multiplies the corners.
        pooled_height: PH.
        pooled_width: PW.

    Returns:
        ``(K, C, PH, PW)``, 0 where a bin is empty, and int32 of this shape.

    Source:
        torchvision.ops.ps_roi_pool; Dai et al., "R-FCN", 2016.
    """
    _check("ps_roi_pool", input, rois)
    height, width = input.shape[2:]
    bins = (pooled_height, pooled_width)
    _check_channels("ps_roi_pool", input.size(1), bins)
    images = _images(rois).tolist()
    maps = input.view(input.size(0), -1, *bins, height, width)
    result = input.new_zeros((rois.size(0), maps.size(1), *bins))
    for k, i, j, rows, columns in _cells(rois, spatial_scale, bins, (height - 1, width - 1), 0):
        result[k, :, i, j] = maps[images[k], :, i, j, rows, columns].mean((1, 2))
    return result, _mapping(rois, input.size(1), bins)


def ps_roi_pool_backward(
    grad: Tensor,
    rois: Tensor,
    channel_mapping: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    batch_size: int,
    channels: int,
    height: int,
    width: int,
) -> Tensor:
    """Return the gradient of `ps_roi_pool` for its input."""
    bins = (pooled_height, pooled_width)
    images = _images(rois).tolist()
    result = grad.new_zeros((batch_size, channels, height, width))
    maps = result.view(batch_size, -1, *bins, height, width)
    for k, i, j, rows, columns in _cells(rois, spatial_scale, bins, (height - 1, width - 1), 0):
        count = (rows.stop - rows.start) * (columns.stop - columns.start)
        maps[images[k], :, i, j, rows, columns] += (grad[k, :, i, j] / count)[:, None, None]
    return result
