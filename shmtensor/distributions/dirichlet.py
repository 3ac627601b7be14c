"""The Dirichlet distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions.exp_family import ExponentialFamily
from shmtensor.nn import functional as F

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Dirichlet"]


class Dirichlet(ExponentialFamily):
    """Vectors that sum to 1: gamma draws divided by their sum.

    Args:
        concentration: ``(..., K)``, the weight of each element.
        validate_args: As of `Distribution`.

    Raises:
        ValueError: *concentration* has no dimension.
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        return self._expanded(Dirichlet, _instance, batch_shape, {"concentration": 1})  # type: ignore[no-any-return]

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        """The corner of the largest weight, the first of several, where all weights are below 1."""
        excess = (self.concentration - 1).clamp(min=0.0)
        mode = excess / excess.sum(-1, True)
        corners = F.one_hot(mode.argmax(-1), self.concentration.shape[-1]).to(mode.dtype)
        return shmtensor.where((self.concentration < 1).all(-1, True), corners, mode)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        rest = total - self.concentration
        return self.concentration * rest / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return _C._sample_dirichlet(self.concentration.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        weights = self.concentration
        return (
            shmtensor.xlogy(weights - 1.0, value).sum(-1)
            + weights.sum(-1).lgamma()
            - weights.lgamma().sum(-1)
        )

    def entropy(self) -> Tensor:
        weights = self.concentration
        total = weights.sum(-1)
        return (
            weights.lgamma().sum(-1)
            - total.lgamma()
            - (weights.size(-1) - total) * total.digamma()
            - ((weights - 1.0) * weights.digamma()).sum(-1)
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()
