"""Resizing images, sampling them at positions, and sliding blocks.

Source: torch.nn.functional.
"""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Sequence
from typing import Any

import shmtensor
from shmtensor import _C
from shmtensor._core._arguments import is_int
from shmtensor._core._overridable import overridable
from shmtensor._core._tensor import Tensor
from shmtensor.nn.functional.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)

_nn = _C._nn

__all__ = [
    "affine_grid",
    "fold",
    "grid_sample",
    "interpolate",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]

Ints = int | Sequence[int]
Numbers = float | Sequence[float]

_WITHOUT_CORNERS = ("nearest", "nearest-exact", "area")
_MODES = {
    3: ("nearest", "nearest-exact", "linear", "area"),
    4: ("nearest", "nearest-exact", "bilinear", "bicubic", "area"),
    5: ("nearest", "nearest-exact", "trilinear", "area"),
}
_DIMS_OF_MODE = {"linear": 3, "bilinear": 4, "bicubic": 4, "trilinear": 5}
_AREA = {3: adaptive_avg_pool1d, 4: adaptive_avg_pool2d, 5: adaptive_avg_pool3d}


def _list(value: Any, n: int, input: Tensor, what: str) -> list[Any]:
    """One value for each spatial dimension."""
    if not isinstance(value, (list, tuple)):
        return [value] * n
    if len(value) != n:
        order = "(o1, o2, ...,oK)" if what == "output size" else "(s1, s2, ...,sK)"
        raise ValueError(
            "Input and output must have the same number of spatial dimensions, but got input "
            f"with spatial dimensions of {list(input.shape[2:])} and {what} of {value}. Please "
            "provide input tensor in (N, C, d1, d2, ...,dK) format and "
            f"{what} in {order} format."
        )
    return list(value)


def _sizes_and_scales(
    input: Tensor, size: Any, scale_factor: Any, recompute: bool
) -> tuple[list[int], list[float | None]]:
    """The output's spatial sizes, and the scales that were given (None where sizes decide)."""
    n = input.dim() - 2
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is not None:
        listed = _list(size, n, input, "output size")
        if not all(is_int(s) for s in listed):
            raise TypeError(f"interpolate(): expected size to be of ints, but got {size}")
        return [int(s) for s in listed], [None] * n
    if scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    listed = _list(scale_factor, n, input, "scale_factor")
    if not all(isinstance(s, numbers.Real) for s in listed):
        raise TypeError(f"interpolate(): expected scale_factor to be of floats, got {scale_factor}")
    scales = [float(s) for s in listed]
    if not all(math.isfinite(float(i) * s) for i, s in zip(input.shape[2:], scales, strict=True)):
        raise RuntimeError("value cannot be converted to type int64_t without overflow")
    sizes = [math.floor(float(i) * s) for i, s in zip(input.shape[2:], scales, strict=True)]
    return sizes, [None] * n if recompute else list(scales)


def _check_mode(input: Tensor, mode: str) -> None:
    n_dims = input.dim()
    if n_dims in _MODES and mode in _MODES[n_dims]:
        return
    if n_dims in _MODES and mode in _DIMS_OF_MODE:
        raise NotImplementedError(
            f"Got {n_dims}D input, but {mode} mode needs {_DIMS_OF_MODE[mode]}D input"
        )
    raise NotImplementedError(
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {n_dims}D) for the modes: "
        f"nearest | linear | bilinear | bicubic | trilinear | area | nearest-exact (got {mode})"
    )


def _smooth(
    input: Tensor,
    sizes: list[int],
    scales: list[float | None],
    kind: str,
    align_corners: bool,
    antialias: bool,
) -> Tensor:
    """Resize one dimension after the other; images of bytes have weights in fixed point."""
    steps = [scale or 0.0 for scale in scales]
    size = [*input.shape[:2], *sizes]
    result: Tensor = _nn._resample(input, size, kind, align_corners, steps, antialias)
    return result


def _in_format_of(input: Tensor, result: Tensor) -> Tensor:
    formats = {4: shmtensor.channels_last, 5: shmtensor.channels_last_3d}
    wanted = formats.get(input.dim())
    if wanted is None or input.is_contiguous() or not input.is_contiguous(memory_format=wanted):
        return result
    return result.contiguous(memory_format=wanted)


@overridable
def interpolate(
    input: Tensor,
    size: Ints | None = None,
    scale_factor: Numbers | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resize the spatial dimensions.

    Args:
        input: ``(N, C, L)``, ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
        size: The spatial sizes of the output, one for all or one each.
        scale_factor: Or their quotient by the input's.
        mode: ``'nearest'``, ``'nearest-exact'``, ``'area'`` or, for one, two and three spatial
            dimensions, ``'linear'``, ``'bilinear'`` and ``'bicubic'``, ``'trilinear'``.
        align_corners: The middles of the corner elements stay in place, instead of their outer
            corners. For the modes of the second kind only; false if absent.
        recompute_scale_factor: Calculate with the quotient of the sizes, not the given scale.
        antialias: Widen the filter when shrinking; for ``'bilinear'`` and ``'bicubic'``.

    Raises:
        ValueError: Options that do not fit together.
        NotImplementedError: A mode that does not fit the number of dimensions.
        RuntimeError: A size is not positive.
    """
    if mode in _WITHOUT_CORNERS and align_corners is not None:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear "
            "| bicubic | trilinear"
        )
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    recompute = bool(recompute_scale_factor) or mode == "area"
    sizes, scales = _sizes_and_scales(input, size, scale_factor, recompute)
    if antialias and not (mode in ("bilinear", "bicubic") and input.dim() == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D "
            "tensor as input"
        )
    _check_mode(input, mode)
    if align_corners is not None and not isinstance(align_corners, bool):
        raise TypeError(f"interpolate(): align_corners must be bool, not {align_corners!r}")
    if mode == "area":
        result: Tensor = _AREA[input.dim()](input, sizes)
        return result
    if min(*sizes, *input.shape[1:]) <= 0:
        raise RuntimeError(
            "Input and output sizes should be greater than 0, but got input "
            f"{list(input.shape)} and output sizes {sizes}"
        )
    if mode in ("nearest", "nearest-exact"):
        size = [*input.shape[:2], *sizes]
        result = _nn._resample(input, size, mode, False, [scale or 0.0 for scale in scales], False)
    else:
        kind = "cubic" if mode == "bicubic" else "linear"
        result = _smooth(input, sizes, scales, kind, bool(align_corners), antialias)
    return _in_format_of(input, result)


def upsample(
    input: Tensor,
    size: Ints | None = None,
    scale_factor: Numbers | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """The old name of ``interpolate``."""
    warnings.warn(
        "`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(
    input: Tensor, size: Ints | None = None, scale_factor: Numbers | None = None
) -> Tensor:
    """``interpolate`` with mode ``'nearest'``, under its old name."""
    warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(
    input: Tensor, size: Ints | None = None, scale_factor: Numbers | None = None
) -> Tensor:
    """``interpolate`` with mode ``'bilinear'`` and aligned corners, under its old name."""
    warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


# --- positions ------------------------------------------------------------------------------

_SAMPLING = {"bilinear": 0, "nearest": 1, "bicubic": 2}
_OUTSIDE = {"zeros": 0, "border": 1, "reflection": 2}


def _warn_about_corners(name: str) -> None:
    warnings.warn(
        "Default grid_sample and affine_grid behavior has changed to align_corners=False since "
        "1.3.0. Please specify align_corners=True if the old behavior is desired. See the "
        f"documentation of {name} for details.",
        stacklevel=3,
    )


@overridable
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """The values of images or volumes at given positions.

    Args:
        input: ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
        grid: ``(N, H', W', 2)`` or ``(N, D', H', W', 3)``: positions (x, y) or (x, y, z), from
            -1 at the first end to 1 at the last.
        mode: ``'bilinear'`` (of any number of dimensions), ``'nearest'`` or ``'bicubic'``.
        padding_mode: What is outside: ``'zeros'``, ``'border'`` or ``'reflection'``.
        align_corners: The ends are the middles of the outermost elements, not their edges.

    Returns:
        ``(N, C, H', W')`` or ``(N, C, D', H', W')``.

    Raises:
        ValueError: An unknown mode.
        RuntimeError: Shapes or dtypes that do not fit together.
    """
    if mode not in _SAMPLING:
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or "
            f"'bicubic', but got: '{mode}'"
        )
    if padding_mode not in _OUTSIDE:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )
    if align_corners is None:
        _warn_about_corners("grid_sample")
    return _C.grid_sampler(
        input, grid, _SAMPLING[mode], _OUTSIDE[padding_mode], bool(align_corners)
    )


@overridable
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Positions for ``grid_sample`` under affine maps.

    Args:
        theta: ``(N, 2, 3)`` or ``(N, 3, 4)``.
        size: The output's shape, ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
        align_corners: As in ``grid_sample``.

    Returns:
        ``(N, H, W, 2)`` or ``(N, D, H, W, 3)``.

    Raises:
        ValueError: Shapes that do not fit together, or *theta* is not floating point.
    """
    if align_corners is None:
        _warn_about_corners("affine_grid")
        align_corners = False
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    n = len(size) - 2
    if n not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {tuple(size)}"
        )
    if theta.dim() != 3 or theta.size(-2) != n or theta.size(-1) != n + 1:
        raise ValueError(
            f"Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for size "
            f"{tuple(size)}. Got {tuple(theta.shape)}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {tuple(size)}")
    if theta.size(0) != size[0]:
        raise RuntimeError(
            f"Expected a batch of {size[0]} affine matrices, got {tuple(theta.shape)}"
        )
    space = list(size[2:])
    base = theta.new_ones([*space, n + 1])
    for k in range(n):  # x is the last dimension
        length = space[n - 1 - k]
        line = shmtensor.linspace(-1, 1, length, dtype=theta.dtype) if length > 1 else None
        line = theta.new_zeros(1) if line is None else line
        if not align_corners:
            line = line * (length - 1) / length
        shape = [1] * n
        shape[n - 1 - k] = length
        base[..., k] = line.view(shape)
    points = math.prod(space)
    grid = base.view(1, points, n + 1).expand(size[0], -1, -1).bmm(theta.transpose(1, 2))
    return grid.view([size[0], *space, n])


# --- blocks ----------------------------------------------------------------------------------


@overridable
def unfold(
    input: Tensor, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1
) -> Tensor:
    """The blocks that slide over images, as columns.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        kernel_size: Size of a block.
        dilation: Distance of its elements.
        padding: Zeros on each side.
        stride: Step of the blocks.

    Returns:
        ``(N, C * kH * kW, L)`` for L blocks.
    """
    return _nn.im2col(input, kernel_size, dilation, padding, stride)


@overridable
def fold(
    input: Tensor,
    output_size: Ints,
    kernel_size: Ints,
    dilation: Ints = 1,
    padding: Ints = 0,
    stride: Ints = 1,
) -> Tensor:
    """The sum of blocks put where ``unfold`` takes them from.

    Args:
        input: ``(N, C * kH * kW, L)`` or without N.
        output_size: ``(H, W)``.
        kernel_size: Size of a block.
        dilation: Distance of its elements.
        padding: Zeros on each side, which are left out.
        stride: Step of the blocks.

    Returns:
        ``(N, C, H, W)``.
    """
    return _nn.col2im(input, output_size, kernel_size, dilation, padding, stride)
