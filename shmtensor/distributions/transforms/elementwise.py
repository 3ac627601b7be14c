"""Transforms of numbers, element by element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions.transforms.base import Transform
from shmtensor.distributions.utils import _sum_rightmost, broadcast_all
from shmtensor.nn import functional as F

if TYPE_CHECKING:
    from shmtensor.distributions.distribution import Distribution


class _Plain(Transform):
    """A transform without options: all objects of its class are equal."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) or (
            isinstance(other, _Plain) and isinstance(self, type(other))
        )

    __hash__ = None  # type: ignore[assignment]


class ExpTransform(_Plain):
    """The exponential function: y = exp(x), from all numbers to the positive ones."""

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """y = x ** exponent, for positive x.

    Args:
        exponent: A number, or a tensor that broadcasts with arguments; not 0.
        cache_size: As of `Transform`.
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Tensor, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return PowerTransform(self.exponent, cache_size=cache_size)

    @property
    def sign(self) -> Any:
        """That of the exponent, as a tensor."""
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PowerTransform):
            return False
        return bool(self.exponent.eq(other.exponent).all().item())

    __hash__ = None  # type: ignore[assignment]

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Sequence[int]) -> Any:
        return shmtensor.broadcast_shapes(shape, self.exponent.shape)

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        return shmtensor.broadcast_shapes(shape, self.exponent.shape)


def _inside_unit_interval(y: Tensor) -> Tensor:
    limits = shmtensor.finfo(y.dtype)
    return y.clamp(min=limits.tiny, max=1.0 - limits.eps)


class SigmoidTransform(_Plain):
    """y = 1 / (1 + exp(-x)), kept off 0 and 1 by rounding; the inverse is the log-odds."""

    domain = constraints.real
    codomain = constraints.unit_interval
    bijective = True
    sign = 1

    def _call(self, x: Tensor) -> Tensor:
        return _inside_unit_interval(x.sigmoid())

    def _inverse(self, y: Tensor) -> Tensor:
        inner = _inside_unit_interval(y)
        return inner.log() - (-inner).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x) - F.softplus(x)


class SoftplusTransform(_Plain):
    """y = log(1 + exp(x)), which is x to rounding from 20 on."""

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1

    def _call(self, x: Tensor) -> Tensor:
        return F.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return y + (-(-y).expm1()).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x)


class TanhTransform(_Plain):
    """The hyperbolic tangent: y = tanh(x), from all numbers to those between -1 and 1."""

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = 1

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # 1 - tanh(x)^2 is 4 / (exp(x) + exp(-x))^2, which stays above 0.
        return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))


class AbsTransform(_Plain):
    """y = abs(x); the inverse gives the argument that is not negative."""

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


class AffineTransform(Transform):
    """y = loc + scale * x.

    Args:
        loc: A number or a tensor.
        scale: A number or a tensor, not 0.
        event_dim: Dimensions of an event: 0 for numbers, 1 for vectors.
        cache_size: As of `Transform`.
    """

    bijective = True

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, event_dim: int = 0, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.loc: Any = loc
        self.scale: Any = scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        """All numbers, or vectors and so on."""
        if self.event_dim == 0:
            return constraints.real
        return constraints.independent(constraints.real, self.event_dim)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        """That of the arguments."""
        return self.domain

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        pairs = ((self.loc, other.loc), (self.scale, other.scale))
        return all(
            a == b if _is_number(a) and _is_number(b) else bool((a == b).all().item())
            for a, b in pairs
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def sign(self) -> Any:
        """That of *scale*."""
        if _is_number(self.scale):
            return (self.scale > 0) - (self.scale < 0)
        return self.scale.sign()

    def _call(self, x: Tensor) -> Tensor:
        y: Tensor = x * self.scale + self.loc
        return y

    def _inverse(self, y: Tensor) -> Tensor:
        x: Tensor = (y - self.loc) / self.scale
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if _is_number(self.scale):
            each: Tensor = shmtensor.full_like(
                x, math.log(abs(self.scale)) if self.scale else -math.inf
            )
        else:
            # Neither x nor y need have been broadcast with it.
            shape = shmtensor.broadcast_shapes(x.shape, y.shape, self.scale.shape)
            each = self.scale.abs().log().expand(shape)
        return _sum_rightmost(each, self.event_dim)

    def _broadcast(self, shape: Sequence[int]) -> Any:
        others = [getattr(value, "shape", ()) for value in (self.loc, self.scale)]
        return shmtensor.broadcast_shapes(shape, *others)

    def forward_shape(self, shape: Sequence[int]) -> Any:
        return self._broadcast(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        return self._broadcast(shape)


class CumulativeDistributionTransform(Transform):
    """y = cdf(x) of a distribution, so that its draws become uniform.

    Args:
        distribution: One with ``cdf``, and ``icdf`` for the inverse.
        cache_size: As of `Transform`.
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = 1

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> constraints.Constraint:  # type: ignore[override]
        """The distribution's support."""
        return self.distribution.support  # type: ignore[no-any-return]

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)
