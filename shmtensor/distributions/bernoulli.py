"""The Bernoulli distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor import Size
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions._parameters import BINARY, BinaryParameters
from shmtensor.distributions.exp_family import ExponentialFamily
from shmtensor.nn.functional import binary_cross_entropy_with_logits

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Bernoulli"]


class Bernoulli(BinaryParameters, ExponentialFamily):
    """1 with probability *probs*, else 0.

    Args:
        probs: Probability of 1, or
        logits: its log-odds.
        validate_args: As of `Distribution`.

    Raises:
        ValueError: *probs* and *logits* are both given, or neither.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._take(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        return self._expanded(Bernoulli, _instance, batch_shape, BINARY)  # type: ignore[no-any-return]

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The likelier value; NaN for a fair coin."""
        likelier = (self.probs >= 0.5).to(self.probs.dtype)
        return likelier.masked_fill(self.probs == 0.5, math.nan)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        with shmtensor.no_grad():
            return shmtensor.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = shmtensor.broadcast_tensors(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        both = self._param.new([0.0, 1.0]).reshape((2,) + (1,) * len(self._batch_shape))
        return both.expand((2, *self._batch_shape)) if expand else both

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (shmtensor.logit(self.probs),)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return shmtensor.log1p(shmtensor.exp(x))
