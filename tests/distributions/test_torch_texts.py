"""What is refused, with which words, and how objects show themselves: each line beside torch."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest

import shmtensor

torch = pytest.importorskip("torch")

# D: distributions, C: constraints, T: transforms, t: tensor.
DISTRIBUTIONS = """
D.Normal(0.,-1.)
D.Normal(torch.zeros(2),t([1.,-1.]))
D.Normal("a",1)
D.Normal([0.,1.],1)
D.Normal(0,1)
D.Normal(0.,1.).log_prob(1.0)
D.Normal(0.,1.).log_prob(t(float('nan')))
D.Normal(torch.zeros(3),1.).log_prob(torch.zeros(2))
D.MultivariateNormal(torch.zeros(2), torch.eye(2)).log_prob(torch.zeros(3))
D.MultivariateNormal(torch.zeros(2), torch.eye(2)).log_prob(t(1.))
D.Normal(0.,1.).sample(3)
D.Normal(0.,1.).enumerate_support()
D.Normal(0.,1.).perplexity()
D.Poisson(3.).rsample()
D.Poisson(3.).entropy()
D.Poisson(3.).cdf(t(1.))
D.Distribution()
D.Distribution().mean
D.Distribution().support
D.Distribution().arg_constraints
D.Distribution().mode
D.Distribution().expand((2,))
D.Bernoulli()
D.Bernoulli(probs=.3,logits=.2)
D.Bernoulli(probs=1.5)
D.Bernoulli(logits=torch.zeros(2)).probs
D.Bernoulli("x")
D.Binomial(3)
D.Binomial(t([2,3]),probs=t(.5)).enumerate_support()
D.Binomial(-1,t(.4))
D.Binomial(3, 0.4)
D.Categorical(t(.3))
D.Categorical()
D.Categorical(t([-1.,1.]))
D.Categorical(t([1.,1.])).log_prob(t(3))
D.Categorical(t([1.,1.])).log_prob(t(.5))
D.Categorical(logits=t(.3))
D.Dirichlet(t(.3))
D.Dirichlet(.3)
D.Independent(D.Normal(torch.zeros(2),1.),2)
D.Independent(D.Normal(torch.zeros(2),1.),-1)
D.Independent(D.Normal(torch.zeros(2),1.),1)
D.Independent(D.Categorical(torch.ones(3,2)),1).enumerate_support()
D.LKJCholesky(1)
D.LKJCholesky(3).log_prob(torch.eye(3)*2)
D.LowRankMultivariateNormal(t(0.),torch.eye(2),torch.ones(2))
D.LowRankMultivariateNormal(torch.zeros(2),torch.ones(2),torch.ones(2))
D.LowRankMultivariateNormal(torch.zeros(2),torch.ones(3,1),torch.ones(2))
D.LowRankMultivariateNormal(torch.zeros(2),torch.ones(2,1),torch.ones(3))
D.MultivariateNormal(t(0.),torch.eye(2))
D.MultivariateNormal(torch.zeros(2))
D.MultivariateNormal(torch.zeros(2),torch.eye(2),torch.eye(2))
D.MultivariateNormal(torch.zeros(2),torch.ones(2))
D.MultivariateNormal(torch.zeros(2),precision_matrix=torch.ones(2))
D.MultivariateNormal(torch.zeros(2),scale_tril=torch.ones(2))
D.MultivariateNormal(torch.zeros(2),-torch.eye(2))
D.MultivariateNormal(torch.zeros(2),scale_tril=torch.ones(2,2))
D.MixtureSameFamily(D.Normal(0.,1.),D.Normal(0.,1.))
D.MixtureSameFamily(D.Categorical(torch.ones(2)),3)
D.MixtureSameFamily(D.Categorical(torch.ones(2)),D.Normal(0.,1.))
D.MixtureSameFamily(D.Categorical(torch.ones(2)),D.Normal(torch.zeros(3),1.))
D.MixtureSameFamily(D.Categorical(torch.ones(2,2)),D.Normal(torch.zeros(3,2),1.))
D.MixtureSameFamily(D.Categorical(torch.ones(2)),D.Normal(torch.zeros(2),1.))
D.Multinomial(t(3),torch.ones(2))
D.Multinomial(3,torch.ones(2))
D.Multinomial(3,torch.ones(2)).log_prob(t([1.,1.]))
D.Multinomial(3,torch.ones(2)).log_prob(t([3.,1.]))
D.NegativeBinomial(3)
D.NegativeBinomial(3, probs=t(1.))
D.Geometric(probs=0.)
D.Geometric(probs=t([0.,.5]))
D.Geometric()
D.OneHotCategorical(torch.ones(3)).log_prob(torch.ones(3))
D.Pareto(-1.,1.)
D.RelaxedBernoulli(1.,probs=.4)
D.RelaxedBernoulli(t(1.))
D.RelaxedBernoulli(t(1.),probs=.4)
D.RelaxedOneHotCategorical(t(1.),torch.ones(2))
D.RelaxedOneHotCategorical(t(1.))
D.StudentT(-1.)
D.StudentT(1.,validate_args=False)
D.TransformedDistribution(D.Normal(0.,1.),3)
D.TransformedDistribution(D.Normal(0.,1.),[3])
D.TransformedDistribution(D.Normal(0.,1.),[T.ExpTransform(),3])
D.TransformedDistribution(D.Normal(0.,1.),T.StickBreakingTransform())
D.TransformedDistribution(D.Normal(0.,1.),T.ExpTransform())
D.TransformedDistribution(D.Normal(torch.zeros(3),1.),T.StickBreakingTransform())
D.TransformedDistribution(D.Normal(torch.zeros(3),1.),[])
D.Uniform(1.,0.)
D.Uniform(1.,1.)
D.Uniform(0.,1.).log_prob(t(2.))
D.Uniform(0.,1.).log_prob(t(1.))
D.Uniform(0.,1.).cdf(t(2.))
D.Uniform(0.,1.).icdf(t(.3))
D.Uniform(0.,1.).arg_constraints
D.Uniform(0.,1.).mode
D.Uniform(0.,1.).support
D.VonMises(t(0.),t(1.))
D.VonMises(t(0.),t(1.)).rsample()
D.VonMises(0.,1.)
D.Wishart(t(1.),torch.eye(3))
D.Wishart(t(2.),torch.eye(3))
D.Wishart(t(2.5),torch.ones(3))
D.Wishart(t(2.5))
D.Wishart(t(5.),torch.eye(3)).arg_constraints
D.Wishart(t(5.),torch.eye(3))
D.Wishart(5,torch.eye(3))
D.GeneralizedPareto(0.,1.,.1)
D.GeneralizedPareto(0.,1.,.1).support
D.GeneralizedPareto(0.,1.,-.1).support
D.GeneralizedPareto(0.,1.,-.1).log_prob(t(11.))
D.GeneralizedPareto(0.,1.,t([-.1,.1])).log_prob(t(11.))
D.kl_divergence(D.Normal(0.,1.),D.VonMises(t(0.),t(1.)))
D.register_kl(3,D.Normal)
D.register_kl(D.Normal,3)
""".strip().splitlines()

CONSTRAINTS = """
D.biject_to(C.boolean)
D.biject_to(3)
D.biject_to.register(3, lambda c: c)
D.transform_to(C.nonnegative)
D.transform_to(C.greater_than_eq(2.))
D.transform_to(C.half_open_interval(0.,2.))
D.transform_to(C.half_open_interval(0.,1.))
D.transform_to(C.interval(0.,1.))
D.transform_to(C.interval(0.,t(1.)))
D.transform_to(C.simplex)
D.biject_to(C.simplex)
D.biject_to(C.real_vector)
D.biject_to(C.lower_cholesky)
D.biject_to(C.positive_definite)
D.transform_to(C.positive_semidefinite)
D.transform_to(C.corr_cholesky)
D.transform_to(C.cat([C.real,C.positive]))
D.transform_to(C.stack([C.real,C.positive]))
D.transform_to(C.real)
D.transform_to(C.less_than(2))
D.transform_to(C.independent(C.positive,1))
D.transform_to(C.symmetric)
C.dependent.check(torch.ones(2))
C.Constraint().check(torch.ones(2))
C.Constraint()
C.dependent.event_dim
C.dependent.is_discrete
C.dependent_property.event_dim
C.dependent(is_discrete=True,event_dim=1).event_dim
C.independent(C.real,2).check(torch.ones(2))
C.independent(C.real,-2)
C.independent(3,2)
C.cat([3])
C.cat([C.real,C.positive],lengths=[1])
C.cat([C.real,C.positive],lengths=[1,2]).check(torch.ones(2))
C.cat([C.real,C.positive],lengths=[1,2]).check(torch.ones(3))
C.stack([3])
C.stack([C.real,C.positive]).check(torch.ones(2))
C.cat([C.real])
C.stack([C.real])
C.multinomial(3)
C.integer_interval(0,3)
C.less_than(3)
C.half_open_interval(0,2)
C.positive_integer
C.MixtureSameFamilyConstraint(C.real)
C.simplex
C.square
C.square.check(torch.ones(3,2))
C.symmetric.check(torch.ones(3,2))
C.positive_definite.check(torch.ones(3,2))
C.positive_definite.check(torch.eye(3))
C.positive_semidefinite.check(-torch.eye(3))
C.corr_cholesky.check(torch.eye(3))
C.lower_cholesky.check(torch.eye(3))
C.lower_triangular.check(torch.ones(2,3))
C.MixtureSameFamilyConstraint(C.real).check(torch.ones(3))
""".strip().splitlines()

TRANSFORMS = """
T.Transform(2)
T.Transform()
T.Transform().sign
T.Transform()(torch.ones(2))
T.Transform().inv(torch.ones(2))
T.Transform().log_abs_det_jacobian(1,2)
T.Transform().domain
T.Transform().with_cache()
T.AffineTransform(0,1,event_dim=-1)
T.AffineTransform(0,1)
T.AffineTransform(0,1).inv
T.AffineTransform(torch.zeros(3),1).forward_shape((2,1))
T.AbsTransform().inv(t(1.))
T.ComposeTransform([T.ExpTransform(),T.AbsTransform()])
T.ComposeTransform([T.ExpTransform(),T.AbsTransform()]).inv
T.ComposeTransform([T.ExpTransform(),T.AbsTransform()]).sign
T.ComposeTransform([])
T.ComposeTransform([]).inv
T.IndependentTransform(T.ExpTransform(),1)
T.IndependentTransform(T.ExpTransform(),1).inv
T.IndependentTransform(T.ExpTransform(),1)(t(1.))
T.IndependentTransform(T.ExpTransform(),1).forward_shape(())
T.ReshapeTransform((2,),(3,))
T.ReshapeTransform((2,),(1,2))
T.ReshapeTransform((2,),(1,2)).forward_shape((3,))
T.ReshapeTransform((2,),(1,2)).forward_shape(())
T.ReshapeTransform((2,),(1,2)).inverse_shape((2,2))
T.ReshapeTransform((2,),(1,2))(torch.ones(3))
T.StickBreakingTransform().event_dim
T.StickBreakingTransform().forward_shape(())
T.SoftmaxTransform().forward_shape(())
T.StickBreakingTransform()(t(1.))
T.CorrCholeskyTransform().event_dim
T.CorrCholeskyTransform().forward_shape(())
T.CorrCholeskyTransform().forward_shape((2,))
T.CorrCholeskyTransform().inverse_shape((3,2))
T.CorrCholeskyTransform().inverse_shape((3,))
T.CorrCholeskyTransform()(torch.ones(2))
T.CorrCholeskyTransform().inverse_shape((3,3))
T.LowerCholeskyTransform().event_dim
T.CatTransform([3])
T.CatTransform([T.ExpTransform()],lengths=[1])(torch.ones(3))
T.CatTransform([T.ExpTransform()],lengths=[1,2])
T.CatTransform([T.ExpTransform()]).domain
T.StackTransform([T.ExpTransform()])(torch.ones(3))
T.StackTransform([3])
T.StackTransform([T.ExpTransform()]).event_dim
T.CumulativeDistributionTransform(D.Normal(0.,1.))
T.PowerTransform(2.)
T.PowerTransform(2.).sign
T.PowerTransform(t(2.)).forward_shape((3,))
T.ExpTransform() == T.ExpTransform()
T.AffineTransform(0,1)==T.AffineTransform(0,1)
T.AffineTransform(0,1).inv==T.AffineTransform(0,1).inv
T.PowerTransform(t(2.))==T.PowerTransform(t(2.))
T.AbsTransform()==T.AbsTransform()
T.ExpTransform()!=T.ExpTransform()
T.ExpTransform()==T.AbsTransform()
T.CorrCholeskyTransform()==T.CorrCholeskyTransform()
T.IndependentTransform(T.ExpTransform(),1)==T.IndependentTransform(T.ExpTransform(),1)
T.ReshapeTransform((2,),(1,2))==T.ReshapeTransform((2,),(1,2))
hash(T.ExpTransform())
hash(T.AbsTransform())
T.identity_transform
T.TanhTransform()
T.SigmoidTransform()
T.SoftplusTransform()
T.PositiveDefiniteTransform()
""".strip().splitlines()


def outcome(lib: Any, expression: str) -> str:
    """The repr of what an expression gives, or class and text of the error."""
    D = lib.distributions
    names = {"torch": lib, "D": D, "C": D.constraints, "T": D.transforms, "t": lib.tensor}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = repr(eval(expression, names))
        except Exception as error:
            result = f"{type(error).__name__}: {error}"
    # The default of validate_args is told in both, without a text.
    lines = [result, *(f"{w.category.__name__}: {w.message}" for w in caught)]
    return re.sub(r" at 0x[0-9a-f]+", "", "\n".join(lines).replace("shmtensor", "torch"))


@pytest.fixture(autouse=True, scope="module")
def _validated():
    """Parts of torch that other tests import turn torch's validation off."""
    before = torch.distributions.Distribution._validate_args
    torch.distributions.Distribution.set_default_validate_args(True)
    yield
    torch.distributions.Distribution.set_default_validate_args(before)


@pytest.mark.check
@pytest.mark.parametrize("expression", [*DISTRIBUTIONS, *CONSTRAINTS, *TRANSFORMS])
def test_text_is_torchs(expression):
    assert outcome(shmtensor, expression) == outcome(torch, expression)
