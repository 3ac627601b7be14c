"""The multinomial distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor import Size
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions.binomial import Binomial
from shmtensor.distributions.categorical import Categorical
from shmtensor.distributions.distribution import Distribution
from shmtensor.distributions.utils import broadcast_all

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Multinomial"]


class Multinomial(Distribution):
    """How often each of K classes comes, of *total_count* draws.

    `log_prob` takes counts of any sum: the number of draws is theirs.

    Args:
        total_count: Number of draws, one for the whole batch.
        probs: ``(..., K)``, from 0 on; divided by their sum. Or
        logits: ``(..., K)``, logarithms of such.
        validate_args: As of `Distribution`.

    Raises:
        NotImplementedError: *total_count* is not an int.
        ValueError: *probs* and *logits* are both given, or neither; the parameter has no dimension.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    total_count: int

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)
        super().__init__(
            self._categorical.batch_shape,
            self._categorical.param_shape[-1:],
            validate_args=validate_args,
        )

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        return self._expanded(  # type: ignore[no-any-return]
            Multinomial,
            _instance,
            batch_shape,
            {"_categorical": 0},
            kept=["total_count"],
            made={"_binomial": self._binomial.expand((*batch_shape, *self._event_shape))},
        )

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        """Make a tensor of the parameter's dtype and device."""
        return self._categorical._new(*args, **kwargs)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        """Counts that sum to *total_count* or less."""
        return constraints.multinomial(self.total_count)

    @property
    def probs(self) -> Tensor:
        """Probabilities of the classes."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        """Shape of the parameter that was given."""
        return self._categorical.param_shape

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        sample_shape = Size(sample_shape)
        drawn = self._categorical.sample(Size((self.total_count,)) + sample_shape)
        index = drawn.movedim(0, -1)
        counts = shmtensor.zeros(
            self._extended_shape(sample_shape), dtype=index.dtype, device=index.device
        )
        counts.scatter_add_(-1, index, shmtensor.ones_like(index))
        return counts.type_as(self.probs)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        log_coefficient = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        # What never happens, and did not, has the probability 1.
        logits = logits.masked_fill((value == 0) & (logits == -shmtensor.inf), 0)
        return log_coefficient + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        n = shmtensor.tensor(self.total_count)
        counts = self._binomial.enumerate_support(expand=False)[1:]
        likely = self._binomial.log_prob(counts).exp()
        mean_log_factorials = (likely * (counts + 1).lgamma()).sum((0, -1))
        return n * self._categorical.entropy() - (n + 1).lgamma() + mean_log_factorials
