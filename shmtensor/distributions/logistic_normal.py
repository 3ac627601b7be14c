"""The logistic-normal distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions.independent import Independent
from shmtensor.distributions.normal import Normal
from shmtensor.distributions.transformed_distribution import TransformedDistribution
from shmtensor.distributions.transforms import StickBreakingTransform

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["LogisticNormal"]


class LogisticNormal(TransformedDistribution):
    """Vectors of K elements that sum to 1, made by `StickBreakingTransform` of K - 1 normal draws.

    Args:
        loc: ``(..., K - 1)``, means.
        scale: ``(..., K - 1)``, standard deviations.
        validate_args: As of `Distribution`.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True
    base_dist: Independent[Normal]

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(LogisticNormal, _instance)
        return super().expand(batch_shape, _instance=new)

    @property
    def loc(self) -> Tensor:
        """Means of the normal draws."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """Standard deviations of the normal draws."""
        return self.base_dist.base_dist.scale
