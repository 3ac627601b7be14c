"""Distributions of what transforms make of draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor import Size
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions.distribution import Distribution
from shmtensor.distributions.independent import Independent
from shmtensor.distributions.transforms import ComposeTransform, Transform
from shmtensor.distributions.utils import _sum_rightmost

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The images of a distribution's draws under one transform after the other.

    The density at y is that of the draw x, divided by the absolute determinant of dy/dx.

    Args:
        base_distribution: The distribution of x. Batch dimensions that a transform takes as part of
            its event become part of the event; those that a transform adds by broadcasting become
            batch dimensions.
        transforms: A transform, or a list of them, the first applied first.
        validate_args: As of `Distribution`.

    Raises:
        ValueError: *transforms* has other things than transforms, or draws have too few dimensions.
    """

    arg_constraints: dict[str, constraints.Constraint] = {}

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | list[Transform],
        validate_args: bool | None = None,
    ) -> None:
        if isinstance(transforms, Transform):
            self.transforms = [transforms]
        elif not isinstance(transforms, list):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        elif not all(isinstance(t, Transform) for t in transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        else:
            self.transforms = transforms
        transform = ComposeTransform(self.transforms)
        domain_dim, codomain_dim = transform.domain.event_dim, transform.codomain.event_dim

        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        if len(base_shape) < domain_dim:
            raise ValueError(
                "base_distribution needs to have shape with size at least "
                f"{domain_dim}, but got {base_shape}."
            )
        shape = transform.forward_shape(base_shape)
        wanted_base_shape = transform.inverse_shape(shape)
        n_event = len(base_distribution.event_shape)
        if base_shape != wanted_base_shape:  # a parameter of a transform is larger
            cut = len(wanted_base_shape) - n_event
            base_distribution = base_distribution.expand(wanted_base_shape[:cut])
        missing = domain_dim - n_event
        if missing > 0:
            base_distribution = Independent(base_distribution, missing)
        self.base_dist: Any = base_distribution

        cut = len(shape) - codomain_dim - max(n_event - domain_dim, 0)
        super().__init__(Size(shape[:cut]), Size(shape[cut:]), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        shape = ComposeTransform(self.transforms).inverse_shape(
            Size(batch_shape) + self.event_shape
        )
        base_batch_shape = shape[: len(shape) - len(self.base_dist.event_shape)]
        return self._expanded(  # type: ignore[no-any-return]
            TransformedDistribution,
            _instance,
            batch_shape,
            {},
            kept=["transforms"],
            made={"base_dist": self.base_dist.expand(base_batch_shape)},
        )

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """That of the base distribution."""
        return self.base_dist.has_rsample  # type: ignore[no-any-return]

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        """The last transform's codomain, for the events of this distribution."""
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self.event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        """Draw outside the graph; the base distribution need not have ``rsample``."""
        with shmtensor.no_grad():
            return self._image(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        return self._image(self.base_dist.rsample(sample_shape))

    def _image(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        event_dim = len(self.event_shape)
        change: Any = 0.0
        y = value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            domain_dim = transform.domain.event_dim
            event_dim += domain_dim - transform.codomain.event_dim
            each = transform.log_abs_det_jacobian(x, y)
            change = change - _sum_rightmost(each, event_dim - domain_dim)
            y = x
        base = self.base_dist.log_prob(y)
        result: Tensor = change + _sum_rightmost(base, event_dim - len(self.base_dist.event_shape))
        return result

    def _monotonize_cdf(self, value: Tensor) -> Tensor:
        """Turn probabilities round where the transforms together fall."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int) and sign == 1:
            return value
        result: Tensor = sign * (value - 0.5) + 0.5
        return result

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of a draw up to *value*, for transforms of numbers that rise or fall."""
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._image(self.base_dist.icdf(self._monotonize_cdf(value)))
