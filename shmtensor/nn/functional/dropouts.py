"""Dropout in all its forms. Source: torch.nn.functional."""

from __future__ import annotations

import math
import warnings

import shmtensor
from shmtensor import _C
from shmtensor._core._arguments import checked
from shmtensor._core._overridable import overridable
from shmtensor._core._tensor import Tensor

__all__ = [
    "alpha_dropout",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "dropout_",
    "feature_alpha_dropout",
]

_ALPHA = 1.7580993408473766  # -scale * alpha of selu: what a unit saturates at


def _check_probability(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


@overridable(straight=_C.dropout, counts=(3, 3))
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero elements with probability *p*, and scale the others by 1 / (1 - p).

    Args:
        input: Any shape, floating point.
        p: Probability, from 0 to 1.
        training: Whether to do anything at all.
        inplace: Write the result into *input*.

    Raises:
        ValueError: *p* is outside [0, 1].
    """
    _check_probability(p)
    if inplace:
        return shmtensor.dropout_(input, p, training)
    return shmtensor.dropout(input, p, training)


def dropout_(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """``dropout`` in place."""
    return dropout(input, p, training, inplace=True)


def drop_to_saturation(
    input: Tensor, p: float, training: bool, inplace: bool, per_channel: bool
) -> Tensor:
    """Set to selu's lower limit with probability *p*, then restore mean 0 and variance 1."""
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")
    if p == 0 or not training or input.numel() == 0:
        return input
    if p == 1:
        return input.mul_(0.0) if inplace else input * 0.0
    if per_channel and input.dim() < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    shape = list(input.shape[:2]) + [1] * (input.dim() - 2) if per_channel else None
    with shmtensor.no_grad():
        keep = input.new_empty(shape) if shape is not None else shmtensor.empty_like(input)
        keep.bernoulli_(1 - p)
        slope = 1.0 / math.sqrt((_ALPHA * _ALPHA * p + 1) * (1 - p))
        shift = (keep - 1).mul_(_ALPHA * slope).add_(_ALPHA * slope * p)
        keep.mul_(slope)
    return input.mul_(keep).add_(shift) if inplace else (input * keep).add_(shift)


@overridable
@checked
def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout for self-normalising networks; arguments as ``dropout``.

    Source:
        Klambauer et al., "Self-normalizing neural networks", 2017.
    """
    _check_probability(p)
    return drop_to_saturation(input, p, training, inplace, per_channel=False)


@overridable
@checked
def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """``alpha_dropout`` of whole channels of ``(N, C, *)``."""
    _check_probability(p)
    return drop_to_saturation(input, p, training, inplace, per_channel=True)


def _drop_channels(
    input: Tensor, p: float, training: bool, inplace: bool, unbatched: bool
) -> Tensor:
    batch = input.unsqueeze(0) if unbatched else input
    function = shmtensor.feature_dropout_ if inplace else shmtensor.feature_dropout
    result = function(batch, p, training)
    if not unbatched:
        return result
    return input if inplace else result.squeeze(0)


def _warn_about_dims(name: str, n: int, n_dims: int) -> None:
    warnings.warn(
        f"{name}: Expected {n + 1}-D or {n + 2}-D input, but received a {n_dims}-D input: whole "
        f"channels with {n} spatial dimensions are dropped.",
        stacklevel=3,
    )


@overridable
def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zero whole channels of ``(N, C, L)`` or ``(C, L)``; arguments as ``dropout``."""
    _check_probability(p)
    n_dims = input.dim()
    if n_dims not in (2, 3):
        raise RuntimeError(f"dropout1d: Expected 2D or 3D input, but received a {n_dims}D input.")
    return _drop_channels(input, p, training, inplace, n_dims == 2)


@overridable
def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zero whole channels of ``(N, C, H, W)``; arguments as ``dropout``.

    Three dimensions are taken as ``(N, C, L)``, with a warning.
    """
    _check_probability(p)
    if input.dim() not in (3, 4):
        _warn_about_dims("dropout2d", 2, input.dim())
    if input.dim() == 3:
        warnings.warn(
            "dropout2d: Received a 3-D input, which is taken as (N, C, L): use dropout1d for 1-D "
            "channels, and unsqueeze a batch dimension for 2-D ones.",
            stacklevel=2,
        )
    return _drop_channels(input, p, training, inplace, False)


@overridable
def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zero whole channels of ``(N, C, D, H, W)`` or ``(C, D, H, W)``; arguments as ``dropout``.

    Of other numbers of dimensions, the first one counts as channels, with a warning.
    """
    _check_probability(p)
    if input.dim() not in (4, 5):
        _warn_about_dims("dropout3d", 3, input.dim())
    return _drop_channels(input, p, training, inplace, input.dim() != 5)
