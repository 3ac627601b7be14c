"""The binomial distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor import Size
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions._parameters import BINARY, BinaryParameters
from shmtensor.distributions.distribution import Distribution
from shmtensor.nn import functional as F

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Binomial"]


class Binomial(BinaryParameters, Distribution):
    """How many of *total_count* independent trials succeed.

    Args:
        total_count: Number of trials, from 0 on.
        probs: Probability that a trial succeeds, or
        logits: its log-odds.
        validate_args: As of `Distribution`.

    Raises:
        ValueError: *probs* and *logits* are both given, or neither.
        NotImplementedError: `entropy` and `enumerate_support` when numbers of trials differ.
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self,
        total_count: Tensor | int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        (total_count_,) = self._take(probs, logits, total_count)
        self.total_count: Tensor = total_count_.type_as(self._param)
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        parameters = {"total_count": 0, **BINARY}
        return self._expanded(Binomial, _instance, batch_shape, parameters)  # type: ignore[no-any-return]

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """Whole numbers up to *total_count*."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with shmtensor.no_grad():
            return shmtensor.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        # k log(p) + (n - k) log(1 - p) = k logits + n log(1 - p)
        log_choose = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        logits = self.logits
        if not logits.is_floating_point():
            logits = logits.to(shmtensor.get_default_dtype())
        return log_choose + value * logits + n * F.logsigmoid(-logits)

    def entropy(self) -> Tensor:
        self._trials("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._trials("enumerate_support")
        values = shmtensor.arange(1 + n, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values

    def _trials(self, method: str) -> int:
        """The one number of trials."""
        n = int(self.total_count.max())
        if not self.total_count.min() == n:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{method}`.")
        return n
