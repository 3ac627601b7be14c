"""The Weibull distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions.exponential import Exponential
from shmtensor.distributions.transformed_distribution import TransformedDistribution
from shmtensor.distributions.transforms import AffineTransform, PowerTransform
from shmtensor.distributions.utils import broadcast_all, euler_constant

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Weibull"]


class Weibull(TransformedDistribution):
    """Times to failure whose rate changes as a power of the age: a power of an exponential draw.

    Args:
        scale: Scale, often called lambda.
        concentration: Shape, often called k; above 1 what is older fails sooner.
        validate_args: As of `Distribution`.
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(
        self,
        scale: Tensor | float,
        concentration: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(shmtensor.ones_like(self.scale), validate_args=validate_args)
        transforms = [
            PowerTransform(exponent=self.concentration_reciprocal),
            AffineTransform(loc=0, scale=self.scale),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(Weibull, _instance)
        new.scale = self.scale.expand(batch_shape)
        new.concentration = self.concentration.expand(batch_shape)
        new.concentration_reciprocal = new.concentration.reciprocal()
        return super().expand(batch_shape, _instance=new)

    def _moment(self, n: int) -> Tensor:
        """The mean of the n-th power of the draw divided by *scale*."""
        return (1 + n * self.concentration_reciprocal).lgamma().exp()

    @property
    def mean(self) -> Tensor:
        return self.scale * self._moment(1)

    @property
    def mode(self) -> Tensor:
        early = (self.concentration - 1) / self.concentration
        return self.scale * early**self.concentration_reciprocal

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (self._moment(2) - self._moment(1).pow(2))

    def entropy(self) -> Tensor:
        inverse = self.concentration_reciprocal
        return euler_constant * (1 - inverse) + (self.scale * inverse).log() + 1
