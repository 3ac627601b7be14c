"""The Bernoulli distribution, relaxed so that draws can be derived."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor import Size
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions._parameters import BINARY, BinaryParameters
from shmtensor.distributions.distribution import Distribution
from shmtensor.distributions.transformed_distribution import TransformedDistribution
from shmtensor.distributions.transforms import SigmoidTransform
from shmtensor.distributions.utils import broadcast_all, clamp_probs
from shmtensor.nn import functional as F

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(BinaryParameters, Distribution):
    """The log-odds of a draw of `RelaxedBernoulli`, which has the sigmoid of them.

    Args:
        temperature: How far draws are from 0 and 1.
        probs: Probability of 1, or
        logits: its log-odds.
        validate_args: As of `Distribution`.

    Raises:
        ValueError: *probs* and *logits* are both given, or neither.

    Source:
        Maddison and others, "The concrete distribution: a continuous relaxation of discrete
        random variables", 2017.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        self._take(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        return self._expanded(  # type: ignore[no-any-return]
            LogitRelaxedBernoulli, _instance, batch_shape, BINARY, kept=["temperature"]
        )

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        uniform = clamp_probs(shmtensor.rand(shape, dtype=probs.dtype, device=probs.device))
        log_odds = uniform.log() - (-uniform).log1p() + probs.log() - (-probs).log1p()
        return log_odds / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        offset = logits - value.mul(self.temperature)
        log_temperature = shmtensor.as_tensor(self.temperature).log()
        return log_temperature + F.logsigmoid(offset) + F.logsigmoid(-offset)


class RelaxedBernoulli(TransformedDistribution):
    """Numbers between 0 and 1, the closer to the ends the lower the temperature.

    Args:
        temperature: Near 0 draws are nearly those of `Bernoulli`.
        probs: Probability of 1, or
        logits: its log-odds.
        validate_args: As of `Distribution`.

    Raises:
        ValueError: *probs* and *logits* are both given, or neither.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    base_dist: LogitRelaxedBernoulli

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(RelaxedBernoulli, _instance)
        return super().expand(batch_shape, _instance=new)

    @property
    def temperature(self) -> Tensor:
        """How far draws are from 0 and 1."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Log-odds of 1."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Probability of 1."""
        return self.base_dist.probs
