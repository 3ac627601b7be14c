"""The von Mises distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor import Size
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions.distribution import Distribution
from shmtensor.distributions.utils import broadcast_all, lazy_property

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["VonMises"]


class VonMises(Distribution):
    """Angles around *loc*: what the normal distribution is on a circle.

    Args:
        loc: Middle, in radians.
        concentration: How close angles are to it.
        validate_args: As of `Distribution`.

    Source:
        Best and Fisher, "Efficient simulation of the von Mises distribution", 1979 (sampling).
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False

    def __init__(
        self, loc: Tensor | float, concentration: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        parameters = {"loc": 0, "concentration": 0}
        return self._expanded(VonMises, _instance, batch_shape, parameters)  # type: ignore[no-any-return]

    @property
    def mean(self) -> Tensor:
        """The mean direction."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:  # type: ignore[override]
        """The circular variance: 1 minus the length of the mean of unit vectors."""
        special = shmtensor.special
        return 1 - special.i1e(self.concentration) / special.i0e(self.concentration)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        # i0e(k) is exp(-k) I0(k), which does not overflow.
        excess = self.concentration * ((value - self.loc).cos() - 1)
        return excess - math.log(2 * math.pi) - shmtensor.special.i0e(self.concentration).log()

    @lazy_property
    def _loc(self) -> Tensor:
        return self.loc.to(shmtensor.float64)

    @lazy_property
    def _concentration(self) -> Tensor:
        return self.concentration.to(shmtensor.float64)

    @lazy_property
    def _proposal_r(self) -> Tensor:
        """Width of the wrapped Cauchy distribution that angles are proposed from."""
        kappa = self._concentration
        tau = 1 + (1 + 4 * kappa**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        exact = (1 + rho**2) / (2 * rho)
        return shmtensor.where(kappa < 1e-5, 1 / kappa + kappa, exact)  # digits would cancel

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        """Draw angles from -pi to below pi; calculated in float64."""
        shape = self._extended_shape(sample_shape)
        with shmtensor.no_grad():
            kappa, r = self._concentration.expand(shape), self._proposal_r.expand(shape)
            angle = shmtensor.empty(shape, dtype=shmtensor.float64, device=self.loc.device)
            done = shmtensor.zeros(shape, dtype=shmtensor.bool, device=self.loc.device)
            while not done.all():
                draws = shmtensor.rand((3, *shape), dtype=kappa.dtype, device=kappa.device)
                first, second, third = draws.unbind()
                z = (math.pi * first).cos()
                proposed = (1 + r * z) / (r + z)
                c = kappa * (r - proposed)
                accepted = (c * (2 - c) - second > 0) | ((c / second).log() + 1 - c >= 0)
                angle = shmtensor.where(accepted, (third - 0.5).sign() * proposed.acos(), angle)
                done = done | accepted
            wrapped = (angle + math.pi + self._loc) % (2 * math.pi) - math.pi
            return wrapped.to(self.loc.dtype)
