"""The Kumaraswamy distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions.transformed_distribution import TransformedDistribution
from shmtensor.distributions.transforms import AffineTransform, PowerTransform
from shmtensor.distributions.uniform import Uniform
from shmtensor.distributions.utils import broadcast_all, euler_constant

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Kumaraswamy"]


class Kumaraswamy(TransformedDistribution):
    """Numbers from 0 to 1 with the distribution function ``1 - (1 -
    x^concentration1)^concentration0``.

    It is like a beta distribution with simpler formulas.

    Args:
        concentration1: The inner power, often called a.
        concentration0: The outer power, often called b.
        validate_args: As of `Distribution`.
    """

    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        concentration1: Tensor | float,
        concentration0: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(
            shmtensor.full_like(self.concentration0, 0),
            shmtensor.full_like(self.concentration0, 1),
            validate_args=validate_args,
        )
        transforms = [
            PowerTransform(exponent=self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(Kumaraswamy, _instance)
        new.concentration1 = self.concentration1.expand(batch_shape)
        new.concentration0 = self.concentration0.expand(batch_shape)
        return super().expand(batch_shape, _instance=new)

    def _moment(self, n: int) -> Tensor:
        """The mean of the n-th power, ``b B(1 + n / a, b)``."""
        b, shift = self.concentration0, 1 + n / self.concentration1
        return b * (shift.lgamma() + b.lgamma() - (shift + b).lgamma()).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        """``((a - 1) / (a b - 1))^(1 / a)``; NaN where the density is highest at an end."""
        is_none = (self.concentration1 < 1) | (self.concentration0 < 1)
        a = self.concentration1.masked_fill(is_none, 2)  # keeps the slopes finite
        b = self.concentration0.masked_fill(is_none, 2)
        mode = ((a - 1) / (a * b - 1)).pow(a.reciprocal())
        return mode.masked_fill(is_none, math.nan)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1).pow(2)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()
