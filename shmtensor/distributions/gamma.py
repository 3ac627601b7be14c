"""The gamma distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor import _C, Size
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions.exp_family import ExponentialFamily
from shmtensor.distributions.utils import broadcast_all

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Gamma"]


class Gamma(ExponentialFamily):
    """The gamma distribution.

    Draws are derived by *concentration* as what moves a draw along with its quantile.

    Args:
        concentration: Shape, often called alpha.
        rate: One divided by the scale, often called beta.
        validate_args: As of `Distribution`.
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        concentration: Tensor | float,
        rate: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.size(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        parameters = {"concentration": 0, "rate": 0}
        return self._expanded(Gamma, _instance, batch_shape, parameters)  # type: ignore[no-any-return]

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        value = _C._standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        # A density of 0 helps nobody. The bound is no part of the graph.
        value.detach().clamp_(min=shmtensor.finfo(value.dtype).tiny)
        return value

    def log_prob(self, value: Tensor) -> Tensor:
        value = shmtensor.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        shape, rate = self.concentration, self.rate
        logs = shmtensor.xlogy(shape, rate) + shmtensor.xlogy(shape - 1, value)
        return logs - rate * value - shape.lgamma()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return shmtensor.special.gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        shape = self.concentration
        return shape - self.rate.log() + shape.lgamma() + (1.0 - shape) * shape.digamma()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration - 1, -self.rate)

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return (x + 1).lgamma() - (x + 1) * (-y).log()
