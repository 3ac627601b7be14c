"""The Cauchy distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor import Size
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions.distribution import Distribution
from shmtensor.distributions.utils import broadcast_all

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Cauchy"]


class Cauchy(Distribution):
    """The Cauchy distribution: the quotient of two normal draws, without mean or variance.

    Args:
        loc: Median.
        scale: Half of the width at half of the height.
        validate_args: As of `Distribution`.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        return self._expanded(Cauchy, _instance, batch_shape, {"loc": 0, "scale": 0})  # type: ignore[no-any-return]

    def _full(self, number: float) -> Tensor:
        return shmtensor.full(
            self._extended_shape(), number, dtype=self.loc.dtype, device=self.loc.device
        )

    @property
    def mean(self) -> Tensor:
        """NaN: there is none."""
        return self._full(math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """Infinite."""
        return self._full(math.inf)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        noise = self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_()
        return self.loc + noise * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        steps = (value - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - (steps**2).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return shmtensor.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return shmtensor.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()
