"""Mixtures of distributions of one class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor import Size
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions.categorical import Categorical
from shmtensor.distributions.distribution import Distribution
from shmtensor.nn import functional as F

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """Draws from one of K components, chosen again for each draw.

    Args:
        mixture_distribution: Chooses: of batch shape B, with K classes.
        component_distribution: The components, of batch shape ``B + (K,)``.
        validate_args: As of `Distribution`.

    Raises:
        ValueError: The arguments are other things, or their shapes do not fit together.
    """

    arg_constraints: dict[str, constraints.Constraint] = {}
    has_rsample = False

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an  instance of "
                "torch.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution needs to be an instance of "
                "torch.distributions.Distribution"
            )
        choices, components = mixture_distribution.batch_shape, component_distribution.batch_shape
        for one, other in zip(reversed(choices), reversed(components[:-1]), strict=False):
            if one != other and 1 not in (one, other):
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({choices}) is not compatible with "
                    f"`component_distribution.batch_shape`({components[:-1]})"
                )
        k, n_components = mixture_distribution.logits.shape[-1], components[-1]
        if n_components != k:
            raise ValueError(
                f"`mixture_distribution component` ({k}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({n_components})"
            )
        self._num_component = k
        self._event_ndims = len(component_distribution.event_shape)
        super().__init__(
            components[:-1], component_distribution.event_shape, validate_args=validate_args
        )

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        components = Size((*batch_shape, self._num_component))
        return self._expanded(  # type: ignore[no-any-return]
            MixtureSameFamily,
            _instance,
            batch_shape,
            {"_mixture_distribution": 0},
            kept=["_num_component", "_event_ndims"],
            made={"_component_distribution": self._component_distribution.expand(components)},
        )

    @constraints.dependent_property()
    def support(self) -> Any:
        """The components'."""
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """What chooses the component."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components, along the last batch dimension."""
        return self._component_distribution

    def _weights(self) -> Tensor:
        return self._pad_mixture_dimensions(self.mixture_distribution.probs)

    @property
    def mean(self) -> Tensor:
        weighted = self._weights() * self.component_distribution.mean
        return weighted.sum(-1 - self._event_ndims)

    @property
    def variance(self) -> Tensor:
        """The mean of the components' variances and the variance of their means."""
        weights, dim = self._weights(), -1 - self._event_ndims
        offsets = self.component_distribution.mean - self._pad(self.mean)
        within = (weights * self.component_distribution.variance).sum(dim)
        return within + (weights * offsets.pow(2.0)).sum(dim)

    def cdf(self, x: Tensor) -> Tensor:
        each = self.component_distribution.cdf(self._pad(x))
        return (each * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(x)
        each = self.component_distribution.log_prob(self._pad(x))
        log_weights = F.log_softmax(self.mixture_distribution.logits, dim=-1)
        return shmtensor.logsumexp(each + log_weights, dim=-1)

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        chooser = self.mixture_distribution
        if chooser.batch_shape != self.batch_shape:
            chooser = chooser.expand(self.batch_shape)
        with shmtensor.no_grad():
            index = chooser.sample(sample_shape)
            drawn = self.component_distribution.sample(sample_shape)
            dim = index.dim()
            index = index.reshape(index.shape + (1,) * (self._event_ndims + 1))
            return drawn.gather(
                dim, index.expand((*drawn.shape[:dim], 1, *self.event_shape))
            ).squeeze(dim)

    def _pad(self, x: Tensor) -> Tensor:
        """Give *x* a dimension for the components."""
        return x.unsqueeze(-1 - self._event_ndims)

    def _pad_mixture_dimensions(self, x: Tensor) -> Tensor:
        """Give weights of components the events' dimensions."""
        return x.reshape(x.shape + (1,) * self._event_ndims)

    def __repr__(self) -> str:
        return (
            f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
        )
