"""The inverse gamma distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions.gamma import Gamma
from shmtensor.distributions.transformed_distribution import TransformedDistribution
from shmtensor.distributions.transforms import PowerTransform

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """1 divided by a gamma draw.

    Args:
        concentration: The gamma distribution's shape.
        rate: The gamma distribution's rate.
        validate_args: As of `Distribution`.
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    base_dist: Gamma

    def __init__(
        self,
        concentration: Tensor | float,
        rate: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        inversion = PowerTransform(-base.rate.new_ones(()))
        super().__init__(base, inversion, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(InverseGamma, _instance)
        return super().expand(batch_shape, _instance=new)

    @property
    def concentration(self) -> Tensor:
        """The gamma distribution's shape."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """The gamma distribution's rate."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        """Infinite where *concentration* is 1 or less."""
        mean = self.rate / (self.concentration - 1)
        return shmtensor.where(self.concentration > 1, mean, math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        """Infinite where *concentration* is 2 or less."""
        a = self.concentration
        variance = self.rate.square() / ((a - 1).square() * (a - 2))
        return shmtensor.where(a > 2, variance, math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()
