"""The one-hot categorical distribution, relaxed so that draws can be derived."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor import Size
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions.categorical import Categorical
from shmtensor.distributions.distribution import Distribution
from shmtensor.distributions.transformed_distribution import TransformedDistribution
from shmtensor.distributions.transforms import ExpTransform
from shmtensor.distributions.utils import broadcast_all, clamp_probs

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


class ExpRelaxedCategorical(Distribution):
    """The logarithms of a draw of `RelaxedOneHotCategorical`.

    Args:
        temperature: How far draws are from one-hot vectors.
        probs: ``(..., K)``, from 0 on; divided by their sum. Or
        logits: ``(..., K)``, logarithms of such.
        validate_args: As of `Distribution`.

    Raises:
        ValueError: *probs* and *logits* are both given, or neither.

    Source:
        Maddison and others, "The concrete distribution: a continuous relaxation of discrete
        random variables", 2017; Jang, Gu and Poole, "Categorical reparameterization with
        Gumbel-softmax", 2017.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    # Vectors whose exponentials sum to 1, which no constraint here is.
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        return self._expanded(  # type: ignore[no-any-return]
            ExpRelaxedCategorical,
            _instance,
            batch_shape,
            {"_categorical": 0},
            kept=["temperature"],
        )

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        """Make a tensor of the parameter's dtype and device."""
        return self._categorical._new(*args, **kwargs)

    @property
    def param_shape(self) -> Size:
        """Shape of the parameter that was given."""
        return self._categorical.param_shape

    @property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities of the classes."""
        return self._categorical.probs

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        like = self.logits
        uniform = clamp_probs(shmtensor.rand(shape, dtype=like.dtype, device=like.device))
        gumbel = -((-(uniform.log())).log())
        scores = (like + gumbel) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        n = self._categorical._num_events
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        temperature = shmtensor.as_tensor(self.temperature)
        scale = shmtensor.full_like(temperature, float(n)).lgamma() + (n - 1) * temperature.log()
        scores = logits - value.mul(self.temperature)
        return (scores - scores.logsumexp(dim=-1, keepdim=True)).sum(-1) + scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """Vectors that sum to 1, the closer to one-hot vectors the lower the temperature.

    Args:
        temperature: Near 0 draws are nearly those of `OneHotCategorical`.
        probs: ``(..., K)``, from 0 on; divided by their sum. Or
        logits: ``(..., K)``, logarithms of such.
        validate_args: As of `Distribution`.

    Raises:
        ValueError: *probs* and *logits* are both given, or neither.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True
    base_dist: ExpRelaxedCategorical

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(RelaxedOneHotCategorical, _instance)
        return super().expand(batch_shape, _instance=new)

    @property
    def temperature(self) -> Tensor:
        """How far draws are from one-hot vectors."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities of the classes."""
        return self.base_dist.probs
