"""Student's t-distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor import Size
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions.chi2 import Chi2
from shmtensor.distributions.distribution import Distribution
from shmtensor.distributions.utils import _standard_normal, broadcast_all

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["StudentT"]


class StudentT(Distribution):
    """A normal draw divided by the root of a mean of *df* squared ones.

    Args:
        df: Degrees of freedom.
        loc: Median.
        scale: Factor.
        validate_args: As of `Distribution`.
    """

    arg_constraints = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True

    def __init__(
        self,
        df: Tensor | float,
        loc: Tensor | float = 0.0,
        scale: Tensor | float = 1.0,
        validate_args: bool | None = None,
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.size(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        parameters = {"df": 0, "loc": 0, "scale": 0, "_chi2": 0}
        return self._expanded(StudentT, _instance, batch_shape, parameters)  # type: ignore[no-any-return]

    @property
    def mean(self) -> Tensor:
        """The median; NaN up to one degree of freedom."""
        return self.loc.masked_fill(self.df <= 1, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """Infinite up to two degrees of freedom, NaN up to one."""
        df = self.df.masked_fill(self.df <= 2, 3)  # keeps the slopes finite
        finite = self.scale.pow(2) * df / (df - 2)
        return finite.masked_fill(self.df <= 2, math.inf).masked_fill(self.df <= 1, math.nan)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        normal = _standard_normal(shape, dtype=self.df.dtype, device=self.df.device)
        squares = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * (normal * shmtensor.rsqrt(squares / self.df))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        steps = (value - self.loc) / self.scale
        half = 0.5 * self.df
        log_norm = (
            self.scale.log()
            + 0.5 * self.df.log()
            + 0.5 * math.log(math.pi)
            + half.lgamma()
            - (half + 0.5).lgamma()
        )
        return -(half + 0.5) * shmtensor.log1p(steps**2 / self.df) - log_norm

    def entropy(self) -> Tensor:
        half = 0.5 * self.df
        log_beta = half.lgamma() + math.lgamma(0.5) - (half + 0.5).lgamma()
        spread = (half + 0.5) * ((half + 0.5).digamma() - half.digamma())
        return self.scale.log() + spread + 0.5 * self.df.log() + log_beta
