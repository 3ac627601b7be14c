"""The F-distribution of Fisher and Snedecor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor import Size
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions.distribution import Distribution
from shmtensor.distributions.gamma import Gamma
from shmtensor.distributions.utils import broadcast_all

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["FisherSnedecor"]


class FisherSnedecor(Distribution):
    """The quotient of two means of squared standard normal draws.

    Args:
        df1: How many are in the numerator.
        df2: How many are in the denominator.
        validate_args: As of `Distribution`.
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(
        self, df1: Tensor | float, df2: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2)
        super().__init__(self.df1.size(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        parameters = {"df1": 0, "df2": 0, "_gamma1": 0, "_gamma2": 0}
        return self._expanded(FisherSnedecor, _instance, batch_shape, parameters)  # type: ignore[no-any-return]

    @property
    def mean(self) -> Tensor:
        """NaN where *df2* is 2 or less."""
        df2 = self.df2.masked_fill(self.df2 <= 2, 3)  # keeps the slopes finite
        return (df2 / (df2 - 2)).masked_fill(self.df2 <= 2, math.nan)

    @property
    def mode(self) -> Tensor:
        """NaN where *df1* is 2 or less."""
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return mode.masked_fill(self.df1 <= 2, math.nan)

    @property
    def variance(self) -> Tensor:
        """NaN where *df2* is 4 or less."""
        n, m = self.df1, self.df2.masked_fill(self.df2 <= 4, math.nan)
        return 2 * m.pow(2) * (n + m - 2) / (n * (m - 2).pow(2) * (m - 4))

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        above = self._gamma1.rsample(sample_shape).view(shape)
        below = self._gamma2.rsample(sample_shape).view(shape)
        tiny = shmtensor.finfo(below.dtype).tiny
        return (above / below.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        half1, half2, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        log_beta = half1.lgamma() + half2.lgamma() - (half1 + half2).lgamma()
        return (
            half1 * ratio.log()
            + (half1 - 1) * value.log()
            - (half1 + half2) * shmtensor.log1p(ratio * value)
            - log_beta
        )
