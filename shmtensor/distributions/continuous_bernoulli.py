"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor import Size
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions._parameters import BINARY, BinaryParameters, check_one_given
from shmtensor.distributions.exp_family import ExponentialFamily
from shmtensor.distributions.utils import all_true, broadcast_all, clamp_probs
from shmtensor.nn.functional import binary_cross_entropy_with_logits

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(BinaryParameters, ExponentialFamily):
    """Numbers from 0 to 1 with the density ``C probs^x (1 - probs)^(1 - x)``.

    It is what a Bernoulli likelihood of grey pixels, which sums to no density, wants to be.
    Formulas divide by ``1 - 2 probs``; near 1/2 their Taylor polynomials are taken.

    Args:
        probs: From 0 to 1, not the mean, or
        logits: its log-odds.
        lims: From where to where polynomials are taken, as probabilities.
        validate_args: As of `Distribution`.

    Raises:
        ValueError: *probs* and *logits* are both given, or neither.

    Source:
        Loaiza-Ganem and Cunningham, "The continuous Bernoulli: fixing a pervasive error in
        variational autoencoders", 2019.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        check_one_given(probs, logits)
        if probs is not None:
            (given,) = broadcast_all(probs)
            # Before they are clamped; what validates by default looks at clamped ones.
            if validate_args is not None and not all_true(constraints.unit_interval.check(given)):
                raise ValueError("The parameter probs has invalid values")
            probs = clamp_probs(given)
        self._take(probs, logits)
        self._lims = lims
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        return self._expanded(  # type: ignore[no-any-return]
            ContinuousBernoulli, _instance, batch_shape, BINARY, kept=["_lims"]
        )

    def _probs_of(self, logits: Tensor) -> Tensor:
        return clamp_probs(super()._probs_of(logits))  # as far from 0 and 1 as given ones

    def _outside_unstable_region(self) -> Tensor:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self) -> Tensor:
        """The probabilities; one that does no harm where polynomials are taken."""
        low = self._lims[0] * shmtensor.ones_like(self.probs)
        return shmtensor.where(self._outside_unstable_region(), self.probs, low)

    def _choose(self, exact: Tensor, polynomial: Tensor) -> Tensor:
        return shmtensor.where(self._outside_unstable_region(), exact, polynomial)

    def _cont_bern_log_norm(self) -> Tensor:
        """Logarithm of C, which is 2 artanh(1 - 2 probs) / (1 - 2 probs), and 2 at 1/2."""
        cut = self._cut_probs()
        # Each side of 1/2 for itself, so that the logarithm has positive arguments.
        low = shmtensor.where(cut <= 0.5, cut, shmtensor.zeros_like(cut))
        high = shmtensor.where(cut >= 0.5, cut, shmtensor.ones_like(cut))
        slope = (shmtensor.log1p(-cut) - shmtensor.log(cut)).abs().log()
        width = shmtensor.where(cut <= 0.5, (-2.0 * low).log1p(), (2.0 * high - 1.0).log())
        square = (self.probs - 0.5).pow(2)
        return self._choose(
            slope - width, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * square) * square
        )

    @property
    def mean(self) -> Tensor:
        cut = self._cut_probs()
        exact = cut / (2.0 * cut - 1.0) + 1.0 / (shmtensor.log1p(-cut) - shmtensor.log(cut))
        offset = self.probs - 0.5
        return self._choose(exact, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * offset.pow(2)) * offset)

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    @property
    def variance(self) -> Tensor:
        cut = self._cut_probs()
        log_odds = shmtensor.log1p(-cut) - shmtensor.log(cut)
        exact = cut * (cut - 1.0) / (1.0 - 2.0 * cut).pow(2) + 1.0 / log_odds.pow(2)
        square = (self.probs - 0.5).pow(2)
        return self._choose(exact, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * square) * square)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        with shmtensor.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(shmtensor.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        entropy = binary_cross_entropy_with_logits(logits, value, reduction="none")
        return self._cont_bern_log_norm() - entropy

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        cut = self._cut_probs()
        powers = cut.pow(value) * (1.0 - cut).pow(1.0 - value)
        inner = self._choose((powers + cut - 1.0) / (2.0 * cut - 1.0), value)
        ones = shmtensor.ones_like(inner)
        inner = shmtensor.where(value <= 0.0, 0.0 * ones, inner)
        return shmtensor.where(value >= 1.0, ones, inner)

    def icdf(self, value: Tensor) -> Tensor:
        cut = self._cut_probs()
        reached = (-cut + value * (2.0 * cut - 1.0)).log1p() - (-cut).log1p()
        return self._choose(reached / (cut.log() - (-cut).log1p()), value)

    def entropy(self) -> Tensor:
        log_other = (-self.probs).log1p()
        mean_logit = self.mean * (log_other - self.probs.log())
        return mean_logit - self._cont_bern_log_norm() - log_other

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        """log((exp(x) - 1) / x), and its Taylor polynomial near 0."""
        outside = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = shmtensor.where(outside, x, (self._lims[0] - 0.5) * shmtensor.ones_like(x))
        exact = (cut.exp() - 1.0).abs().log() - cut.abs().log()
        square = x.pow(2)
        return shmtensor.where(outside, exact, 0.5 * x + square / 24.0 - square.pow(2) / 2880.0)
