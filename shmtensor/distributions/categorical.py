"""The categorical distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor import Size
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions._parameters import check_one_given
from shmtensor.distributions.distribution import Distribution
from shmtensor.distributions.utils import lazy_property, logits_to_probs, probs_to_logits

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Categorical"]


class Categorical(Distribution):
    """One of K classes, as its index.

    Args:
        probs: ``(..., K)``, from 0 on; divided by their sum. Or
        logits: ``(..., K)``, logarithms of such; kept as logarithms of probabilities.
        validate_args: As of `Distribution`.

    Raises:
        ValueError: *probs* and *logits* are both given, or neither; the parameter has no dimension.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        check_one_given(probs, logits)
        if probs is not None:
            _check_dims("probs", probs)
            self._param = self.probs = probs / probs.sum(-1, keepdim=True)
        elif logits is not None:
            _check_dims("logits", logits)
            self._param = self.logits = logits - logits.logsumexp(dim=-1, keepdim=True)
        self._num_events = self._param.size()[-1]
        super().__init__(self._param.size()[:-1], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        parameters = {"probs": 1, "logits": 1, "_param": 1}
        return self._expanded(  # type: ignore[no-any-return]
            Categorical, _instance, batch_shape, parameters, kept=["_num_events"]
        )

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        """Make a tensor of the parameter's dtype and device."""
        return self._param.new(*args, **kwargs)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """Indices from 0 to K - 1."""
        return constraints.integer_interval(0, self._num_events - 1)

    if TYPE_CHECKING:
        probs: Tensor
        logits: Tensor
    else:

        @lazy_property
        def logits(self) -> Tensor:
            """Logarithms of the probabilities."""
            return probs_to_logits(self.probs)

        @lazy_property
        def probs(self) -> Tensor:
            """Probabilities of the classes."""
            return logits_to_probs(self.logits)

    @property
    def param_shape(self) -> Size:
        """Shape of the parameter that was given."""
        return self._param.size()

    def _nan(self) -> Tensor:
        like = self.probs
        return shmtensor.full(
            self._extended_shape(), math.nan, dtype=like.dtype, device=like.device
        )

    @property
    def mean(self) -> Tensor:
        """NaN: indices are names."""
        return self._nan()

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Tensor:
        """NaN: indices are names."""
        return self._nan()

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        sample_shape = Size(sample_shape)
        if sample_shape.numel() == 0:
            shape = self._extended_shape(sample_shape)
            return shmtensor.empty(shape, dtype=shmtensor.int64, device=self._param.device)
        rows = self.probs.reshape(-1, self._num_events)
        with shmtensor.no_grad():
            drawn = shmtensor.multinomial(rows, sample_shape.numel(), True)
        return drawn.T.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        index = value.long().unsqueeze(-1)
        index, log_probs = shmtensor.broadcast_tensors(index, self.logits)
        return log_probs.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        # What never happens has -inf as logarithm, and 0 * -inf would be NaN.
        logits = self.logits.clamp(min=shmtensor.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = shmtensor.arange(
            self._num_events, dtype=shmtensor.int64, device=self._param.device
        )
        values = values.reshape((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values


def _check_dims(name: str, value: Tensor) -> None:
    if value.dim() < 1:
        raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
