"""Normalisation by statistics of the batch, the sample or the vector.

Source: torch.nn.functional.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import shmtensor
from shmtensor import _C
from shmtensor._core._overridable import overridable
from shmtensor._core._tensor import Tensor
from shmtensor.nn._padding import pad

__all__ = [
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "local_response_norm",
    "normalize",
    "rms_norm",
]


def _verify_batch_size(size: Sequence[int]) -> None:
    if size[0] * math.prod(size[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {size}"
        )


@overridable
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Shift and scale every channel to mean 0 and variance 1.

    Args:
        input: ``(N, C, *)``.
        running_mean: ``(C,)``: updated in training, used otherwise.
        running_var: ``(C,)``, likewise.
        weight: ``(C,)``, a factor afterwards.
        bias: ``(C,)``, a term afterwards.
        training: Use the batch's statistics.
        momentum: Share of the batch in the updated statistics.
        eps: Added to the variance.

    Raises:
        ValueError: One value per channel in training; an *eps* that does not keep from 0.

    Source:
        Ioffe and Szegedy, "Batch normalization", 2015.
    """
    if training:
        size = input.shape
        if len(size) > 1 and input.numel() == size[1]:
            _verify_batch_size(size)
    if training and eps <= 0:
        raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    if eps < 0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    return shmtensor.batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps, True
    )


@overridable
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Shift and scale every channel of every sample; arguments as ``batch_norm``.

    Raises:
        ValueError: One spatial element with *use_input_stats*.
    """
    if use_input_stats and math.prod(input.size()[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {input.size()}"
        )
    return shmtensor.instance_norm(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True
    )


@overridable(straight=_C.layer_norm, counts=(2, 5))
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Shift and scale the last dimensions to mean 0 and variance 1.

    Args:
        input: ``(*, normalized_shape)``.
        normalized_shape: The last sizes, which are normalised together.
        weight: Of that shape, a factor afterwards.
        bias: Of that shape, a term afterwards.
        eps: Added to the variance.

    Source:
        Ba et al., "Layer normalization", 2016.
    """
    return shmtensor.layer_norm(input, normalized_shape, weight, bias, eps, True)


@overridable(straight=_C.rms_norm, counts=(2, 4))
def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Divide the last dimensions by the root of their mean square.

    Args:
        input: ``(*, normalized_shape)``.
        normalized_shape: The last sizes, which are normalised together.
        weight: Of that shape, a factor afterwards.
        eps: Added to the mean square; the dtype's epsilon if absent.

    Raises:
        RuntimeError: The shapes do not fit together.

    Source:
        Zhang and Sennrich, "Root mean square layer normalization", 2019.
    """
    return shmtensor.rms_norm(input, normalized_shape, weight, eps)


@overridable
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Shift and scale groups of channels of every sample.

    Args:
        input: ``(N, C, *)``.
        num_groups: Number of groups, a divisor of C.
        weight: ``(C,)``, a factor afterwards.
        bias: ``(C,)``, a term afterwards.
        eps: Added to the variance.

    Raises:
        RuntimeError: Shapes do not fit together.
        ValueError: One value per group.

    Source:
        Wu and He, "Group normalization", 2018.
    """
    if num_groups > 0 and input.numel() // num_groups == 1:
        size = input.size()
        if len(size) < 2:
            raise RuntimeError(
                f"Expected at least 2 dimensions for input tensor but received {len(size)}"
            )
        _verify_batch_size([size[0] * size[1] // num_groups, num_groups, *size[2:]])
    return shmtensor.group_norm(input, num_groups, weight, bias, eps, True)


@overridable
def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Divide by a power of the mean square of neighbouring channels.

    Args:
        input: ``(N, C, *)`` with at least one spatial dimension.
        size: Number of neighbouring channels.
        alpha: Factor of the mean square.
        beta: Exponent.
        k: Term added to it.

    Raises:
        ValueError: Fewer than three dimensions.

    Source:
        Krizhevsky et al., "ImageNet classification with deep convolutional neural networks",
        2012.
    """
    n_dims = input.dim()
    if n_dims < 3:
        raise ValueError(
            "Expected 3D or higher dimensionality "
            f"                         input (got {n_dims} dimensions)"
        )
    if input.numel() == 0:
        return input
    # (N, 1, C, L): neighbours are above and below. One name for all, so that little is kept.
    around = (input * input).flatten(2).unsqueeze(1)
    around = pad(around, (0, 0, size // 2, (size - 1) // 2))
    around = _C._nn.avg_pool2d(around, (size, 1), 1).reshape(input.shape)
    around = around * alpha + k
    return input / around**beta


@overridable
def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """Divide by the p-norm along *dim*.

    Args:
        input: Any shape.
        p: Exponent of the norm.
        dim: The dimension, or several.
        eps: The smallest divisor.
        out: Where the result goes.
    """
    if out is None and isinstance(dim, int):
        return _C._nn._normalize(input, p, dim, eps)
    norm = _C._nn.linalg_vector_norm(input, p, dim, True).clamp_min(eps)
    return shmtensor.div(input, norm, out=out)
