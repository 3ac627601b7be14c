"""Batches of distributions taken together as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic

from shmtensor import Size
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions.distribution import D, Distribution
from shmtensor.distributions.utils import _sum_rightmost

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Independent"]


class Independent(Distribution, Generic[D]):
    """A distribution that counts some of its batch dimensions as part of the event.

    `log_prob` and `entropy` are summed over them: a batch of normal distributions becomes one of
    vectors with a diagonal covariance.

    Args:
        base_distribution: The distribution.
        reinterpreted_batch_ndims: How many of its last batch dimensions are meant.
        validate_args: As of `Distribution`.

    Raises:
        ValueError: The distribution has fewer batch dimensions.
    """

    arg_constraints: dict[str, constraints.Constraint] = {}
    base_dist: D

    def __init__(
        self,
        base_distribution: D,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        n_batch = len(base_distribution.batch_shape)
        if reinterpreted_batch_ndims > n_batch:
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {reinterpreted_batch_ndims} vs {n_batch}"
            )
        shape = base_distribution.batch_shape + base_distribution.event_shape
        cut = len(shape) - reinterpreted_batch_ndims - len(base_distribution.event_shape)
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        joined = self.event_shape[: self.reinterpreted_batch_ndims]
        return self._expanded(  # type: ignore[no-any-return]
            Independent,
            _instance,
            batch_shape,
            {},
            kept=["reinterpreted_batch_ndims"],
            made={"base_dist": self.base_dist.expand(Size(batch_shape) + joined)},
        )

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """That of the distribution."""
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        """False where several elements would have to be combined."""
        if self.reinterpreted_batch_ndims > 0:
            return False
        return self.base_dist.has_enumerate_support

    @constraints.dependent_property()
    def support(self) -> Any:
        """The distribution's, for the larger events."""
        support = self.base_dist.support
        if self.reinterpreted_batch_ndims:
            return constraints.independent(support, self.reinterpreted_batch_ndims)
        return support

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        name = self.__class__.__name__
        return f"{name}({self.base_dist}, {self.reinterpreted_batch_ndims})"
