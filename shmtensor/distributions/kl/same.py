"""Divergences of two distributions of one class."""

from __future__ import annotations

import math

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.distributions.bernoulli import Bernoulli
from shmtensor.distributions.beta import Beta
from shmtensor.distributions.binomial import Binomial
from shmtensor.distributions.categorical import Categorical
from shmtensor.distributions.cauchy import Cauchy
from shmtensor.distributions.continuous_bernoulli import ContinuousBernoulli
from shmtensor.distributions.dirichlet import Dirichlet
from shmtensor.distributions.exp_family import ExponentialFamily, _sum_to
from shmtensor.distributions.exponential import Exponential
from shmtensor.distributions.gamma import Gamma
from shmtensor.distributions.geometric import Geometric
from shmtensor.distributions.gumbel import Gumbel
from shmtensor.distributions.half_normal import HalfNormal
from shmtensor.distributions.independent import Independent
from shmtensor.distributions.kl.registry import kl_divergence, register_kl
from shmtensor.distributions.laplace import Laplace
from shmtensor.distributions.normal import Normal
from shmtensor.distributions.one_hot_categorical import OneHotCategorical
from shmtensor.distributions.pareto import Pareto
from shmtensor.distributions.poisson import Poisson
from shmtensor.distributions.transformed_distribution import TransformedDistribution
from shmtensor.distributions.uniform import Uniform
from shmtensor.distributions.utils import _sum_rightmost, euler_constant
from shmtensor.nn import functional as F


@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    """The Bregman divergence of the log-normaliser, derived automatically."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed "
            "using Bregman divergences"
        )
    normalizer, theta, slopes = p._normalizer_and_slopes()
    result = q._log_normalizer(*q._natural_params) - normalizer
    n_batch = max(len(p.batch_shape), len(q.batch_shape))
    for own, other, slope in zip(theta, q._natural_params, slopes, strict=True):
        result = result - _sum_to((other - own) * slope, n_batch)
    return result


def _never(result: Tensor, p: Tensor, q: Tensor) -> Tensor:
    """A term ``p log(p / q)`` where probabilities are 0: of p it is 0, of q alone infinite."""
    return result.masked_fill(q == 0, math.inf).masked_fill(p == 0, 0)


@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli_bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    one = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
    zero = (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    return _never(one, p.probs, q.probs) + _never(zero, 1 - p.probs, 1 - q.probs)


@register_kl(Beta, Beta)
def _kl_beta_beta(p: Beta, q: Beta) -> Tensor:
    return _kl_dirichlet_dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Binomial, Binomial)
def _kl_binomial_binomial(p: Binomial, q: Binomial) -> Tensor:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    per_trial = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return (p.total_count * per_trial).masked_fill(p.total_count > q.total_count, math.inf)


@register_kl(Categorical, Categorical)
def _kl_categorical_categorical(p: Categorical, q: Categorical) -> Tensor:
    return _never(p.probs * (p.logits - q.logits), p.probs, q.probs).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_onehotcategorical_onehotcategorical(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _kl_categorical_categorical(p._categorical, q._categorical)


@register_kl(Cauchy, Cauchy)
def _kl_cauchy_cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    # Chyzak and Nielsen, "A closed-form formula for the Kullback-Leibler divergence between Cauchy
    # distributions", 2019.
    square = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return (square / (4 * p.scale * q.scale)).log()


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _kl_continuous_bernoulli_continuous_bernoulli(
    p: ContinuousBernoulli, q: ContinuousBernoulli
) -> Tensor:
    norms = p._cont_bern_log_norm() - q._cont_bern_log_norm()
    return norms + p.mean * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()


@register_kl(Dirichlet, Dirichlet)
def _kl_dirichlet_dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    own, other = p.concentration, q.concentration
    sum_own, sum_other = own.sum(-1), other.sum(-1)
    norms = sum_own.lgamma() - sum_other.lgamma() + (other.lgamma() - own.lgamma()).sum(-1)
    mean_logs = own.digamma() - sum_own.digamma().unsqueeze(-1)
    return norms + ((own - other) * mean_logs).sum(-1)


@register_kl(Exponential, Exponential)
def _kl_exponential_exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(Gamma, Gamma)
def _kl_gamma_gamma(p: Gamma, q: Gamma) -> Tensor:
    own, other = p.concentration, q.concentration
    norms = other * (p.rate / q.rate).log() + other.lgamma() - own.lgamma()
    return norms + (own - other) * own.digamma() + (q.rate - p.rate) * (own / p.rate)


@register_kl(Geometric, Geometric)
def _kl_geometric_geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Gumbel, Gumbel)
def _kl_gumbel_gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, offset = p.scale / q.scale, (p.loc - q.loc) / q.scale
    mean_exponential = (ratio + 1).lgamma().exp() * (-offset).exp()
    return offset - ratio.log() + ratio * euler_constant + mean_exponential - (1 + euler_constant)


@register_kl(HalfNormal, HalfNormal)
def _kl_halfnormal_halfnormal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _kl_normal_normal(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _kl_independent_independent(p: Independent[Normal], q: Independent[Normal]) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "KL between Independents of different reinterpreted_batch_ndims, "
            f"{p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims}"
        )
    each = kl_divergence(p.base_dist, q.base_dist)
    return _sum_rightmost(each, p.reinterpreted_batch_ndims)


@register_kl(Laplace, Laplace)
def _kl_laplace_laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return distance / q.scale + ratio * (-distance / p.scale).exp() - ratio.log() - 1


@register_kl(Normal, Normal)
def _kl_normal_normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _kl_pareto_pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    finite = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return finite.masked_fill(p.scale < q.scale, math.inf)


@register_kl(Poisson, Poisson)
def _kl_poisson_poisson(p: Poisson, q: Poisson) -> Tensor:
    # Where p has no rate, the slope by that of q is 1, and by its own infinite.
    other = q.rate.masked_fill(p.rate == 0, 1)
    entropy = shmtensor.special.entr(p.rate) + shmtensor.xlogy(p.rate, other)
    return q.rate - p.rate - entropy


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed_transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    """A bijection of both changes nothing."""
    if p.transforms != q.transforms:
        raise NotImplementedError(
            f"KL between different transforms, {p.transforms} and {q.transforms}"
        )
    if p.event_shape != q.event_shape:
        raise NotImplementedError(
            f"KL between different event shapes, {p.event_shape} and {q.event_shape}"
        )
    each = kl_divergence(p.base_dist, q.base_dist)
    return _sum_rightmost(each, len(p.event_shape) - len(p.base_dist.event_shape))


@register_kl(Uniform, Uniform)
def _kl_uniform_uniform(p: Uniform, q: Uniform) -> Tensor:
    finite = ((q.high - q.low) / (p.high - p.low)).log()
    return finite.masked_fill((q.low > p.low) | (q.high < p.high), math.inf)
