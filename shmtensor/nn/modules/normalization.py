"""Normalisation without running statistics. Source: torch.nn."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.nn import functional as F
from shmtensor.nn import init
from shmtensor.nn.modules.module import Module
from shmtensor.nn.parameter import Parameter


def _shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    if isinstance(normalized_shape, numbers.Integral):
        return (int(normalized_shape),)
    return tuple(normalized_shape)  # type: ignore[arg-type]


class LayerNorm(Module):
    """Shifts and scales the last dimensions to mean 0 and variance 1.

    Args:
        normalized_shape: The last sizes.
        eps: Added to the variance.
        elementwise_affine: Whether there are a weight and a bias.
        bias: Whether there is a bias besides the weight.
        device: Where the parameters are.
        dtype: Their type.
    """

    weight: Parameter  # None when there is none; typed for those that have it
    bias: Parameter  # None when there is none; typed for those that have it

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, there in (("weight", True), ("bias", bias)):
            made = None
            if elementwise_affine and there:
                made = Parameter(shmtensor.empty(self.normalized_shape, device=device, dtype=dtype))
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """``(*, normalized_shape)`` to the same shape."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The options."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divides the last dimensions by the root of their mean square.

    Args:
        normalized_shape: The last sizes.
        eps: Added to the mean square; the dtype's epsilon if absent.
        elementwise_affine: Whether there is a weight.
        device: Where the parameter is.
        dtype: Its type.
    """

    weight: Parameter  # None when there is none; typed for those that have it

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        made = None
        if elementwise_affine:
            made = Parameter(shmtensor.empty(self.normalized_shape, device=device, dtype=dtype))
        self.register_parameter("weight", made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """``(*, normalized_shape)`` to the same shape."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """The options."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(Module):
    """Shifts and scales groups of channels of every sample.

    Args:
        num_groups: Number of groups, a divisor of *num_channels*.
        num_channels: Number of channels.
        eps: Added to the variance.
        affine: Whether there are a weight and a bias for every channel.
        device: Where the parameters are.
        dtype: Their type.
        bias: Whether there is a bias besides the weight.
    """

    weight: Parameter  # None when there is none; typed for those that have it
    bias: Parameter  # None when there is none; typed for those that have it

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        for name, there in (("weight", True), ("bias", bias)):
            made = None
            if affine and there:
                made = Parameter(shmtensor.empty((num_channels,), device=device, dtype=dtype))
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """``(N, C, *)`` to the same shape."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The options."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(Module):
    """Divides by a power of the mean square of neighbouring channels."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """``(N, C, *)`` to the same shape."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """The options."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """Divides by a power of the mean square of neighbouring channels, an older form.

    Computes ``x * (k + alpha / size * sums) ** -beta``, where the sums of squares are over channels
    ``c - r .. c + r`` with ``r = (size - 1) // 2``. From channel ``r + 1`` on, the first channel
    counts always: torch has it so, and layers trained with it would give other values without.

    Args:
        size: How many channels, when it is odd.
        alpha: Weighs the squares.
        beta: The power.
        k: Added to them.

    Source:
        torch.nn.CrossMapLRN2d; its gradient is that of another formula, here it is of this one.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """``(N, C, H, W)`` to the same shape.

        Raises:
            ValueError: *input* has another number of dims.
        """
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        reach = (self.size - 1) // 2
        squares = input * input
        padded = F.pad(squares, (0, 0, 0, 0, reach, reach))
        sums = padded.unfold(1, 2 * reach + 1, 1).sum(-1)
        first = squares[:, :1].expand_as(squares[:, reach + 1 :])
        sums = shmtensor.cat((sums[:, : reach + 1], sums[:, reach + 1 :] + first), 1)
        return input * (sums * (self.alpha / self.size) + self.k) ** -self.beta

    def extra_repr(self) -> str:
        """The options."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
