"""The negative binomial distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor import Size
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions._parameters import BINARY, BinaryParameters
from shmtensor.distributions.distribution import Distribution
from shmtensor.distributions.gamma import Gamma
from shmtensor.distributions.utils import lazy_property
from shmtensor.nn import functional as F

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["NegativeBinomial"]


class NegativeBinomial(BinaryParameters, Distribution):
    """How many trials succeed before *total_count* have failed.

    It is a Poisson distribution whose rate is drawn from a gamma distribution, so that the number
    need not be whole.

    Args:
        total_count: Number of failures, from 0 on.
        probs: Probability that a trial succeeds, below 1, or
        logits: its log-odds.
        validate_args: As of `Distribution`.

    Raises:
        ValueError: *probs* and *logits* are both given, or neither.
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self,
        total_count: Tensor | float,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        (total_count_,) = self._take(probs, logits, total_count)
        self.total_count: Tensor = total_count_.type_as(self._param)
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        parameters = {"total_count": 0, **BINARY}
        return self._expanded(  # type: ignore[no-any-return]
            NegativeBinomial, _instance, batch_shape, parameters
        )

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    @lazy_property
    def _gamma(self) -> Gamma:
        """Where the rates come from; not validated, for it refuses *total_count* 0."""
        return Gamma(self.total_count, (-self.logits).exp(), validate_args=False)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        with shmtensor.no_grad():
            return shmtensor.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        log_weight = n * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        log_choose = (n + value).lgamma() - (1.0 + value).lgamma() - n.lgamma()
        # Without a failure to wait for there is no success: one way.
        return log_weight + log_choose.masked_fill(n + value == 0, 0.0)
