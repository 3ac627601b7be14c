"""The Gumbel distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions.transformed_distribution import TransformedDistribution
from shmtensor.distributions.transforms import AffineTransform, ExpTransform
from shmtensor.distributions.uniform import Uniform
from shmtensor.distributions.utils import broadcast_all, euler_constant

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Gumbel"]


class Gumbel(TransformedDistribution):
    """The largest of many draws, of nearly any distribution: ``loc - scale log(-log(u))`` of
    uniform u.

    Args:
        loc: Mode.
        scale: Scale.
        validate_args: As of `Distribution`.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        limits = shmtensor.finfo(self.loc.dtype)
        base = Uniform(
            shmtensor.full_like(self.loc, limits.tiny),
            shmtensor.full_like(self.loc, 1 - limits.eps),
            validate_args=validate_args,
        )
        transforms = [
            ExpTransform().inv,
            AffineTransform(loc=0, scale=-shmtensor.ones_like(self.scale)),
            ExpTransform().inv,
            AffineTransform(loc=self.loc, scale=-self.scale),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(Gumbel, _instance)
        new.loc = self.loc.expand(batch_shape)
        new.scale = self.scale.expand(batch_shape)
        return super().expand(batch_shape, _instance=new)

    def log_prob(self, value: Tensor) -> Tensor:
        """Logarithm of the density, where the transforms' own would overflow."""
        if self._validate_args:
            self._validate_sample(value)
        steps = (self.loc - value) / self.scale
        return (steps - steps.exp()) - self.scale.log()

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.pow(2)

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)
