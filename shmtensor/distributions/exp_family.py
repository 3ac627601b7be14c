"""Exponential families: their entropy follows from the logarithm of their normaliser."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import shmtensor
from shmtensor import autograd
from shmtensor._core._tensor import Tensor
from shmtensor.distributions.distribution import Distribution
from shmtensor.distributions.utils import _sum_rightmost

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """A distribution with the density ``exp(<t(x), theta> - F(theta) + k(x))``.

    Subclasses give the natural parameters theta, the log-normaliser F and the mean of the carrier
    measure k; then `entropy` and the divergence of two members of one class come from a Bregman
    divergence of F.

    Source:
        Nielsen and Nock, "Entropies and cross-entropies of exponential families", 2010.
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        """theta, one tensor for each sufficient statistic."""
        raise NotImplementedError

    if TYPE_CHECKING:
        _log_normalizer: Callable[..., Tensor]
        _mean_carrier_measure: float
    else:

        def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
            """F of the natural parameters."""
            raise NotImplementedError

        @property
        def _mean_carrier_measure(self) -> float:
            """Expectation of k."""
            raise NotImplementedError

    def _normalizer_and_slopes(self) -> tuple[Tensor, list[Tensor], Sequence[Tensor]]:
        """F, theta and dF/dtheta, with derivatives if a parameter wants them."""
        theta = list(self._natural_params)
        wanted = shmtensor.is_grad_enabled() and any(t.requires_grad for t in theta)
        with shmtensor.enable_grad():
            theta = [
                t if wanted and t.requires_grad else t.detach().requires_grad_() for t in theta
            ]
            normalizer = self._log_normalizer(*theta)
            slopes = autograd.grad(normalizer.sum(), theta, create_graph=wanted)
        if not wanted:
            normalizer, theta = normalizer.detach(), [t.detach() for t in theta]
        return normalizer, theta, slopes

    def entropy(self) -> Tensor:
        """Entropy in nats, by automatic derivation of the log-normaliser."""
        normalizer, theta, slopes = self._normalizer_and_slopes()
        result = normalizer - self._mean_carrier_measure
        for parameter, slope in zip(theta, slopes, strict=True):
            result = result - _sum_to(parameter * slope, len(self._batch_shape))
        return result


def _sum_to(value: Tensor, n_dims: int) -> Tensor:
    """Sum all but the first *n_dims* dimensions."""
    return _sum_rightmost(value, max(value.dim() - n_dims, 0))
