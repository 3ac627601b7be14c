"""Divergences of distributions of different classes.

A divergence is the cross entropy, the mean of ``-log q`` under p, less the entropy of p. So each q
needs only a few means under p: of x and x^2 for a normal q, of x for an exponential one, of x and
log(x) for a gamma one, and so on; each p that has these means goes with it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.distributions.bernoulli import Bernoulli
from shmtensor.distributions.beta import Beta
from shmtensor.distributions.binomial import Binomial
from shmtensor.distributions.continuous_bernoulli import ContinuousBernoulli
from shmtensor.distributions.exponential import Exponential
from shmtensor.distributions.gamma import Gamma
from shmtensor.distributions.gumbel import Gumbel
from shmtensor.distributions.kl.registry import register_kl
from shmtensor.distributions.laplace import Laplace
from shmtensor.distributions.normal import Normal
from shmtensor.distributions.pareto import Pareto
from shmtensor.distributions.poisson import Poisson
from shmtensor.distributions.uniform import Uniform
from shmtensor.distributions.utils import euler_constant


def _mean_log(p: Any) -> Any:
    """The mean of log(x)."""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Exponential):
        return -euler_constant - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    ends = shmtensor.xlogy(p.high, p.high) - shmtensor.xlogy(p.low, p.low)  # uniform
    return ends / (p.high - p.low) - 1


def _mean_exponential(p: Any, rate: Tensor, shift: Tensor) -> Any:
    """The mean of exp(shift - rate x)."""
    if isinstance(p, Exponential):
        return shift.exp() * p.rate / (p.rate + rate)
    if isinstance(p, Gamma):
        return shift.exp() * (1 + rate / p.rate).pow(-p.concentration)
    if isinstance(p, Normal):
        return (shift - rate * p.loc + (rate * p.scale).pow(2) / 2).exp()
    ends = (shift - rate * p.low).exp() - (shift - rate * p.high).exp()  # uniform
    return ends / (rate * (p.high - p.low))


# --- cross entropies, by the class of q ---------------------------------------------------------


def _from_normal(p: Any, q: Normal) -> Any:
    square = p.variance + (p.mean - q.loc).pow(2)
    return 0.5 * math.log(2 * math.pi) + q.scale.log() + square / (2 * q.scale.pow(2))


def _from_exponential(p: Any, q: Exponential) -> Any:
    return q.rate * p.mean - q.rate.log()


def _from_gamma(p: Any, q: Gamma) -> Any:
    norm = q.concentration.lgamma() - q.concentration * q.rate.log()
    return norm - (q.concentration - 1) * _mean_log(p) + q.rate * p.mean


def _from_gumbel(p: Any, q: Gumbel) -> Any:
    steps = (p.mean - q.loc) / q.scale
    return q.scale.log() + steps + _mean_exponential(p, q.scale.reciprocal(), q.loc / q.scale)


def _from_uniform(p: Any, q: Uniform) -> Any:
    return (q.high - q.low).log()


def _from_continuous_bernoulli(p: Any, q: ContinuousBernoulli) -> Any:
    return -p.mean * q.logits - (-q.probs).log1p() - q._cont_bern_log_norm()


def _register(
    cross_entropy: Callable[[Any, Any], Tensor],
    kind_q: type,
    *kinds_p: type,
    outside: Callable[[Any, Any], Tensor] | None = None,
) -> None:
    """Register pairs whose divergence is the cross entropy less the entropy.

    Args:
        cross_entropy: Of p and q.
        kind_q: The class of q.
        *kinds_p: The classes of p.
        outside: Where p draws what q never does.
    """

    def divergence(p: Any, q: Any) -> Tensor:
        finite: Tensor = cross_entropy(p, q) - p.entropy()
        return finite if outside is None else finite.masked_fill(outside(p, q), math.inf)

    for kind_p in kinds_p:
        register_kl(kind_p, kind_q)(divergence)


def _register_pareto(
    cross_entropy: Callable[[Any, Any], Tensor], kind_q: type, moment: int
) -> None:
    """Register Pareto as the class of p.

    Up to the alpha *moment* that mean does not exist, and the divergence is infinite. Another alpha
    is calculated with there, so that slopes are 0.
    """

    def divergence(p: Pareto, q: Any) -> Tensor:
        is_infinite = p.alpha <= moment
        alpha = p.alpha.masked_fill(is_infinite, moment + 1)
        other = Pareto(p.scale, alpha, validate_args=False)
        return (cross_entropy(other, q) - other.entropy()).masked_fill(is_infinite, math.inf)

    register_kl(Pareto, kind_q)(divergence)


def _has_negative(p: Uniform, q: Any) -> Any:
    return p.low < 0


def _leaves_unit_interval(p: Uniform, q: Any) -> Any:
    return (p.low < 0) | (p.high > 1)


def _unit_interval_leaves(p: Any, q: Uniform) -> Any:
    return (q.low > 0) | (q.high < 1)


_register(
    _from_normal,
    Normal,
    Beta,
    ContinuousBernoulli,
    Exponential,
    Gamma,
    Gumbel,
    Laplace,
    Uniform,
)
_register_pareto(_from_normal, Normal, 2)
_register(_from_exponential, Exponential, Beta, ContinuousBernoulli, Gamma)
_register_pareto(_from_exponential, Exponential, 1)
_register(_from_exponential, Exponential, Uniform, outside=_has_negative)
_register(_from_gamma, Gamma, Beta, Exponential)
_register_pareto(_from_gamma, Gamma, 1)
_register(_from_gamma, Gamma, Uniform, outside=_has_negative)
_register(_from_gumbel, Gumbel, Exponential, Gamma, Normal, Uniform)
_register(_from_uniform, Uniform, Beta, ContinuousBernoulli, outside=_unit_interval_leaves)
_register(_from_continuous_bernoulli, ContinuousBernoulli, Beta)
_register(_from_continuous_bernoulli, ContinuousBernoulli, Uniform, outside=_leaves_unit_interval)


# --- single pairs --------------------------------------------------------------------------------


@register_kl(Bernoulli, Poisson)
def _kl_bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return q.rate - shmtensor.xlogy(p.probs, q.rate) - p.entropy()  # log(k!) is 0 of 0 and of 1


@register_kl(Normal, Laplace)
def _kl_normal_laplace(p: Normal, q: Laplace) -> Tensor:
    """The mean distance from q.loc is the mean of a folded normal distribution."""
    offset = p.loc - q.loc
    steps = offset / p.scale
    near = p.scale * math.sqrt(2 / math.pi) * (-0.5 * steps.pow(2)).exp()
    distance = near + offset * shmtensor.erf(math.sqrt(0.5) * steps)
    return (2 * q.scale).log() + distance / q.scale - p.entropy()


@register_kl(Uniform, Beta)
def _kl_uniform_beta(p: Uniform, q: Beta) -> Tensor:
    mirrored = Uniform(1 - p.high, 1 - p.low, validate_args=False)
    powers = (q.concentration1 - 1) * _mean_log(p) + (q.concentration0 - 1) * _mean_log(mirrored)
    log_norm = q._log_normalizer(q.concentration1, q.concentration0)
    result: Tensor = log_norm - powers - p.entropy()
    return result.masked_fill(_leaves_unit_interval(p, q), math.inf)


@register_kl(Uniform, Pareto)
def _kl_uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    log_norm = q.alpha.log() + q.alpha * q.scale.log()
    result: Tensor = (q.alpha + 1) * _mean_log(p) - log_norm - p.entropy()
    return result.masked_fill(p.low < q.scale, math.inf)


def _infinite(p: Any, q: Any) -> Any:
    """Infinite: some draws of p are none of q."""
    shape = shmtensor.broadcast_shapes(p.batch_shape, q.batch_shape)
    mean = p.mean
    return shmtensor.full(shape, math.inf, dtype=mean.dtype, device=mean.device)


_UNIT = (Beta, ContinuousBernoulli)
_BEYOND: dict[type, tuple[type, ...]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Uniform, Pareto, *_UNIT),
    Gamma: (Uniform, Pareto, *_UNIT),
    Gumbel: (Uniform, Pareto, Gamma, Exponential, *_UNIT),
    Laplace: (Uniform, Pareto, Gamma, Exponential, *_UNIT),
    Normal: (Uniform, Pareto, Gamma, Exponential, *_UNIT),
    Pareto: (Uniform, *_UNIT),
    Poisson: (Binomial, Bernoulli),
}
for _kind_p, _kinds_q in _BEYOND.items():
    functools.reduce(lambda f, kind, p=_kind_p: register_kl(p, kind)(f), _kinds_q, _infinite)  # type: ignore[misc]
