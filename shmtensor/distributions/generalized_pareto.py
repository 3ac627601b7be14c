"""The generalized Pareto distribution."""

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

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """What lies above a high threshold, of nearly any distribution.

    Its survival function is ``(1 + concentration z)^(-1 / concentration)`` of ``z = (x - loc) /
    scale``, and ``exp(-z)`` at concentration 0. Below 0 it ends at ``loc - scale / concentration``.

    Args:
        loc: The threshold.
        scale: Scale.
        concentration: Weight of the tail; within 1e-8 of 0 it counts as 0.
        validate_args: As of `Distribution`.
    """

    arg_constraints = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True

    def __init__(
        self,
        loc: Tensor | float,
        scale: Tensor | float,
        concentration: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        parameters = {"loc": 0, "scale": 0, "concentration": 0}
        return self._expanded(GeneralizedPareto, _instance, batch_shape, parameters)  # type: ignore[no-any-return]

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """From *loc* to the end, which is infinite for concentrations from 0 on."""
        end = self.loc - self.scale / self.concentration
        end = shmtensor.where(self.concentration < 0, end, math.inf * shmtensor.ones_like(end))
        return constraints.interval(self.loc, end)

    def _z(self, x: Tensor) -> Tensor:
        return (x - self.loc) / self.scale

    def _is_zero(self) -> Tensor:
        return shmtensor.isclose(self.concentration, shmtensor.zeros_like(self.concentration))

    def _safe(self) -> Tensor:
        """The concentration, with 1 for 0: formulas that are not chosen have finite slopes, too."""
        return self.concentration.masked_fill(self._is_zero(), 1.0)

    def _near_log1p_part(self, z: Tensor) -> Tensor:
        """The beginning of `_log1p_part`'s series."""
        bounded = z.clamp(max=shmtensor.finfo(z.dtype).max ** 0.25)  # 0 times infinity
        return z - 0.5 * self.concentration * bounded.pow(2)

    def _log1p_part(self, z: Tensor) -> Tensor:
        """``log(1 + c z) / c`` of the concentration c; near 0 the beginning of its series."""
        weight = self._safe()
        exact = shmtensor.log1p(weight * z) / weight
        return shmtensor.where(self._is_zero(), self._near_log1p_part(z), exact)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(shmtensor.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z, weight = self._z(value), self._safe()
        bounded = z.clamp(max=shmtensor.finfo(z.dtype).max)
        near = self._near_log1p_part(z) + self.concentration * bounded
        power = shmtensor.special.xlog1py(1 + 1 / weight, weight * z)
        return -shmtensor.where(self._is_zero(), near, power) - self.scale.log()

    def log_survival_function(self, value: Tensor) -> Tensor:
        """Logarithm of the probability of a draw above *value*."""
        if self._validate_args:
            self._validate_sample(value)
        return -self._log1p_part(self._z(value))

    def log_cdf(self, value: Tensor) -> Tensor:
        """Logarithm of `cdf`."""
        return shmtensor.log1p(-self.log_survival_function(value).exp())

    def cdf(self, value: Tensor) -> Tensor:
        return self.log_cdf(value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        depth, weight = -shmtensor.log1p(-value), self._safe()
        bounded = depth.clamp(max=shmtensor.finfo(depth.dtype).max ** 0.25)
        near = depth + 0.5 * self.concentration * bounded.pow(2)
        power = shmtensor.expm1(weight * depth) / weight
        return self.loc + self.scale * shmtensor.where(self._is_zero(), near, power)

    @property
    def mean(self) -> Tensor:
        """NaN for concentrations from 1 on."""
        is_none = self.concentration >= 1
        weight = self.concentration.masked_fill(is_none, 0)  # keeps the slopes finite
        return (self.loc + self.scale / (1 - weight)).masked_fill(is_none, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """NaN for concentrations from 1/2 on."""
        is_none = self.concentration >= 0.5
        weight = self.concentration.masked_fill(is_none, 0)  # keeps the slopes finite
        variance = self.scale**2 / ((1 - weight) ** 2 * (1 - 2 * weight))
        return variance.masked_fill(is_none, math.nan)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1
