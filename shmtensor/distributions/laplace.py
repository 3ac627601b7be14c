"""The Laplace distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor import Size
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions.distribution import Distribution
from shmtensor.distributions.utils import broadcast_all

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Laplace"]


class Laplace(Distribution):
    """Two exponential distributions back to back.

    Args:
        loc: Mean.
        scale: Mean distance from it.
        validate_args: As of `Distribution`.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        return self._expanded(Laplace, _instance, batch_shape, {"loc": 0, "scale": 0})  # type: ignore[no-any-return]

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Tensor:
        return (2**0.5) * self.scale

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        # From above -1, whose logarithm below would be infinite.
        low = shmtensor.finfo(self.loc.dtype).eps - 1
        uniform = self.loc.new_empty(shape).uniform_(low, 1)
        return self._at(uniform, uniform.abs())

    def _at(self, side: Tensor, share: Tensor) -> Tensor:
        """The point that a *share* of the draws on the same side is nearer than."""
        return self.loc - self.scale * side.sign() * shmtensor.log1p(-share)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -shmtensor.log(2 * self.scale) - (value - self.loc).abs() / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        offset = value - self.loc
        return 0.5 - 0.5 * offset.sign() * shmtensor.expm1(-offset.abs() / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        offset = value - 0.5
        return self._at(offset, 2 * offset.abs())

    def entropy(self) -> Tensor:
        return 1 + shmtensor.log(2 * self.scale)
