"""Every name of the package; see ``__init__``."""

from __future__ import annotations

from shmtensor.distributions import transforms
from shmtensor.distributions.bernoulli import Bernoulli as Bernoulli
from shmtensor.distributions.beta import Beta as Beta
from shmtensor.distributions.binomial import Binomial as Binomial
from shmtensor.distributions.categorical import Categorical as Categorical
from shmtensor.distributions.cauchy import Cauchy as Cauchy
from shmtensor.distributions.chi2 import Chi2 as Chi2
from shmtensor.distributions.constraint_registry import biject_to as biject_to
from shmtensor.distributions.constraint_registry import transform_to as transform_to
from shmtensor.distributions.continuous_bernoulli import ContinuousBernoulli as ContinuousBernoulli
from shmtensor.distributions.dirichlet import Dirichlet as Dirichlet
from shmtensor.distributions.distribution import Distribution as Distribution
from shmtensor.distributions.exp_family import ExponentialFamily as ExponentialFamily
from shmtensor.distributions.exponential import Exponential as Exponential
from shmtensor.distributions.fishersnedecor import FisherSnedecor as FisherSnedecor
from shmtensor.distributions.gamma import Gamma as Gamma
from shmtensor.distributions.generalized_pareto import GeneralizedPareto as GeneralizedPareto
from shmtensor.distributions.geometric import Geometric as Geometric
from shmtensor.distributions.gumbel import Gumbel as Gumbel
from shmtensor.distributions.half_cauchy import HalfCauchy as HalfCauchy
from shmtensor.distributions.half_normal import HalfNormal as HalfNormal
from shmtensor.distributions.independent import Independent as Independent
from shmtensor.distributions.inverse_gamma import InverseGamma as InverseGamma
from shmtensor.distributions.kl import kl_divergence as kl_divergence
from shmtensor.distributions.kl import register_kl as register_kl
from shmtensor.distributions.kumaraswamy import Kumaraswamy as Kumaraswamy
from shmtensor.distributions.laplace import Laplace as Laplace
from shmtensor.distributions.lkj_cholesky import LKJCholesky as LKJCholesky
from shmtensor.distributions.log_normal import LogNormal as LogNormal
from shmtensor.distributions.logistic_normal import LogisticNormal as LogisticNormal
from shmtensor.distributions.lowrank_multivariate_normal import (
    LowRankMultivariateNormal as LowRankMultivariateNormal,
)
from shmtensor.distributions.mixture_same_family import MixtureSameFamily as MixtureSameFamily
from shmtensor.distributions.multinomial import Multinomial as Multinomial
from shmtensor.distributions.multivariate_normal import MultivariateNormal as MultivariateNormal
from shmtensor.distributions.negative_binomial import NegativeBinomial as NegativeBinomial
from shmtensor.distributions.normal import Normal as Normal
from shmtensor.distributions.one_hot_categorical import OneHotCategorical as OneHotCategorical
from shmtensor.distributions.one_hot_categorical import (
    OneHotCategoricalStraightThrough as OneHotCategoricalStraightThrough,
)
from shmtensor.distributions.pareto import Pareto as Pareto
from shmtensor.distributions.poisson import Poisson as Poisson
from shmtensor.distributions.relaxed_bernoulli import RelaxedBernoulli as RelaxedBernoulli
from shmtensor.distributions.relaxed_categorical import (
    RelaxedOneHotCategorical as RelaxedOneHotCategorical,
)
from shmtensor.distributions.studentT import StudentT as StudentT
from shmtensor.distributions.transformed_distribution import (
    TransformedDistribution as TransformedDistribution,
)
from shmtensor.distributions.transforms import *  # noqa: F403
from shmtensor.distributions.uniform import Uniform as Uniform
from shmtensor.distributions.von_mises import VonMises as VonMises
from shmtensor.distributions.weibull import Weibull as Weibull
from shmtensor.distributions.wishart import Wishart as Wishart

__all__ = [
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "biject_to",
    "transform_to",
    "ContinuousBernoulli",
    "Dirichlet",
    "Distribution",
    "ExponentialFamily",
    "Exponential",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "InverseGamma",
    "kl_divergence",
    "register_kl",
    "Kumaraswamy",
    "Laplace",
    "LKJCholesky",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "StudentT",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
]
__all__ += transforms.__all__
