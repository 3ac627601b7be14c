"""The geometric distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor import Size
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions._parameters import BINARY, BinaryParameters
from shmtensor.distributions.distribution import Distribution
from shmtensor.distributions.utils import all_true
from shmtensor.nn.functional import binary_cross_entropy_with_logits

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Geometric"]


class Geometric(BinaryParameters, Distribution):
    """How many trials fail before the first that succeeds: 0, 1, 2 and so on.

    `Tensor.geometric_` counts the one that succeeds, too.

    Args:
        probs: Probability that a trial succeeds, above 0, or
        logits: its log-odds.
        validate_args: As of `Distribution`.

    Raises:
        ValueError: *probs* and *logits* are both given, or neither; a trial can never succeed.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._take(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)
        if self._validate_args and probs is not None:
            value = self.probs
            if not all_true(value > 0):
                raise ValueError(
                    f"Expected parameter probs ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to be positive but found "
                    f"invalid values:\n{value.detach()[~(value > 0)]}"
                )

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        return self._expanded(Geometric, _instance, batch_shape, BINARY)  # type: ignore[no-any-return]

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return shmtensor.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with shmtensor.no_grad():
            tiny = shmtensor.finfo(self.probs.dtype).tiny  # log(0) is not a number of trials
            uniform = self.probs.new_empty(shape).uniform_(tiny, 1)
            return (uniform.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = shmtensor.broadcast_tensors(value, self.probs)
        # No failure before a certain success: the derivative by its probability is that of the log.
        is_certain = (probs == 1) & (value == 0)
        failures = value * (-probs.masked_fill(is_certain, 0)).log1p()
        return failures + self.probs.log()

    def entropy(self) -> Tensor:
        each = binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
        return each / self.probs
