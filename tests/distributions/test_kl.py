"""Divergences: against integrals and sums, and how a pair finds its function."""

from __future__ import annotations

import abc
import math

import pytest

import shmtensor as sh
import shmtensor.distributions as D
from shmtensor.distributions.kl import _KL_REGISTRY, kl_divergence, register_kl


@pytest.fixture(autouse=True)
def _double_precision():
    sh.manual_seed(0)
    sh.set_default_dtype(sh.float64)
    yield
    sh.set_default_dtype(sh.float32)


# As the first of a pair, and as the second one: of wide tails, so that integrals exist.
FIRST = {
    "Bernoulli": lambda: D.Bernoulli(0.3),
    "Beta": lambda: D.Beta(2.0, 3.5),
    "Binomial": lambda: D.Binomial(5, sh.tensor(0.3)),
    "Categorical": lambda: D.Categorical(sh.tensor([0.2, 0.5, 0.3])),
    "Cauchy": lambda: D.Cauchy(0.3, 0.5),
    "ContinuousBernoulli": lambda: D.ContinuousBernoulli(0.2),
    "Exponential": lambda: D.Exponential(2.0),
    "Gamma": lambda: D.Gamma(3.0, 2.0),
    "Geometric": lambda: D.Geometric(0.4),
    "Gumbel": lambda: D.Gumbel(0.5, 0.4),
    "HalfNormal": lambda: D.HalfNormal(0.7),
    "Laplace": lambda: D.Laplace(0.5, 0.4),
    "Normal": lambda: D.Normal(0.5, 0.4),
    "Pareto": lambda: D.Pareto(2.0, 6.0),
    "Poisson": lambda: D.Poisson(3.0),
    "Uniform": lambda: D.Uniform(0.3, 0.8),
}
SECOND = {
    "Bernoulli": lambda: D.Bernoulli(0.6),
    "Beta": lambda: D.Beta(1.5, 0.8),
    "Binomial": lambda: D.Binomial(5, sh.tensor(0.6)),
    "Categorical": lambda: D.Categorical(sh.tensor([0.4, 0.1, 0.5])),
    "Cauchy": lambda: D.Cauchy(-0.2, 1.5),
    "ContinuousBernoulli": lambda: D.ContinuousBernoulli(0.7),
    "Exponential": lambda: D.Exponential(0.5),
    "Gamma": lambda: D.Gamma(1.5, 0.7),
    "Geometric": lambda: D.Geometric(0.2),
    "Gumbel": lambda: D.Gumbel(0.2, 0.9),
    "HalfNormal": lambda: D.HalfNormal(1.7),
    "Laplace": lambda: D.Laplace(0.1, 0.9),
    "Normal": lambda: D.Normal(0.1, 0.9),
    "Pareto": lambda: D.Pareto(0.2, 2.0),
    "Poisson": lambda: D.Poisson(5.0),
    "Uniform": lambda: D.Uniform(-0.5, 1.5),
}
PAIRS = sorted(
    (p.__name__, q.__name__)
    for p, q in _KL_REGISTRY
    if p.__name__ in FIRST and q.__name__ in SECOND
)


def points(p):
    """Values over the support of p, and what each of them counts."""
    name = type(p).__name__
    if name in ("Bernoulli", "Categorical"):
        values = p.enumerate_support()
        return values, sh.ones(len(values))
    if name in ("Binomial", "Geometric", "Poisson"):
        values = sh.arange(6.0 if name == "Binomial" else 150.0)
        return values, sh.ones(len(values))
    u = sh.linspace(-4.0, 4.0, 8001)
    growth, slope = u.sinh() * (math.pi / 2), u.cosh() * (math.pi / 2) * 0.001
    if name in ("Beta", "ContinuousBernoulli", "Uniform"):
        low, high = (p.low, p.high) if name == "Uniform" else (sh.tensor(0.0), sh.tensor(1.0))
        part = (2 * growth).sigmoid()
        return low + (high - low) * part, (high - low) * 2 * part * (1 - part) * slope
    if name in ("Exponential", "Gamma", "HalfNormal", "Pareto"):
        low = p.scale if name == "Pareto" else 0.0
        return low + growth.exp(), growth.exp() * slope
    return p.loc + growth.sinh(), growth.cosh() * slope


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_divergence_is_the_mean_of_the_difference_of_logarithms(pair):
    p, q = FIRST[pair[0]](), SECOND[pair[1]]()
    got = kl_divergence(p, q).item()
    p._validate_args = q._validate_args = False
    values, weights = points(p)
    logs = p.log_prob(values)
    mass = logs.exp() * weights
    outside = ~q.support.check(values)
    if (mass[outside] > 1e-12).any():
        assert got == math.inf
        return
    known = (mass > 0) & ~outside
    difference = sh.where(known, logs - q.log_prob(values), 0.0)
    expected = (sh.where(known, mass, 0.0) * difference).sum().item()
    assert got == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.check
@pytest.mark.parametrize(
    ("p", "q"),
    [
        (
            lambda: D.Dirichlet(sh.tensor([1.5, 3.0, 0.8])),
            lambda: D.Dirichlet(sh.tensor([2.0, 1.0, 1.0])),
        ),
        (
            lambda: D.MultivariateNormal(sh.zeros(2), sh.tensor([[1.0, 0.3], [0.3, 0.5]])),
            lambda: D.MultivariateNormal(sh.ones(2), sh.tensor([[2.0, -0.3], [-0.3, 1.5]])),
        ),
        (
            lambda: D.LowRankMultivariateNormal(sh.zeros(3), sh.ones(3, 1), 0.5 * sh.ones(3)),
            lambda: D.MultivariateNormal(sh.ones(3), 2 * sh.eye(3)),
        ),
        (
            lambda: D.MultivariateNormal(sh.ones(3), 0.7 * sh.eye(3)),
            lambda: D.LowRankMultivariateNormal(sh.zeros(3), sh.ones(3, 1), 0.8 * sh.ones(3)),
        ),
        (
            lambda: D.LowRankMultivariateNormal(sh.zeros(3), sh.ones(3, 1), 0.5 * sh.ones(3)),
            lambda: D.LowRankMultivariateNormal(sh.ones(3), -sh.ones(3, 2), 0.8 * sh.ones(3)),
        ),
        (
            lambda: D.Wishart(6.0, covariance_matrix=sh.tensor([[1.0, 0.3], [0.3, 0.5]])),
            lambda: D.Wishart(4.0, covariance_matrix=sh.eye(2)),
        ),
        (
            lambda: D.OneHotCategorical(sh.tensor([0.2, 0.8])),
            lambda: D.OneHotCategorical(sh.tensor([0.5, 0.5])),
        ),
        (
            lambda: D.Independent(D.Normal(sh.zeros(3), 1.0), 1),
            lambda: D.Independent(D.Normal(sh.tensor([0.5, 0.0, 1.0]), 1.5), 1),
        ),
        (lambda: D.LogNormal(0.3, 0.5), lambda: D.LogNormal(0.0, 1.0)),
        (lambda: D.Chi2(3.0), lambda: D.Chi2(5.0)),
    ],
)
def test_divergence_is_near_the_mean_over_draws(p, q):
    p, q = p(), q()
    drawn = p.sample((30000,))
    each = p.log_prob(drawn) - q.log_prob(drawn)
    error = each.std().item() / math.sqrt(30000)
    assert kl_divergence(p, q).item() == pytest.approx(each.mean().item(), abs=6 * error)
    assert kl_divergence(p, p).item() == pytest.approx(0, abs=1e-9)


def test_batches_broadcast():
    p = D.Normal(sh.zeros(3, 1), 1.0)
    q = D.Uniform(sh.zeros(4), 1.0)
    assert kl_divergence(p, q).shape == (3, 4)
    mvn = D.MultivariateNormal(sh.zeros(3, 1, 2), sh.eye(2))
    other = D.LowRankMultivariateNormal(sh.zeros(2), sh.ones(4, 2, 1), sh.ones(2))
    assert kl_divergence(mvn, other).shape == (3, 4)
    assert kl_divergence(other, mvn).shape == (3, 4)
    bernoulli = kl_divergence(D.Bernoulli(sh.tensor([0.0, 0.3])), D.Bernoulli(sh.tensor([[0.3]])))
    assert bernoulli.shape == (1, 2)
    wishart = D.Wishart(sh.tensor([4.0, 5.0]), covariance_matrix=sh.eye(2))
    apart = [D.Wishart(df, covariance_matrix=sh.eye(2)) for df in (4.0, 5.0)]
    q = D.Wishart(6.0, covariance_matrix=2 * sh.eye(2))
    expected = [kl_divergence(one, q).item() for one in apart]
    assert kl_divergence(wishart, q).tolist() == pytest.approx(expected)


def test_ends_of_intervals_that_are_the_same_are_inside():
    assert kl_divergence(D.ContinuousBernoulli(0.3), D.Uniform(0.0, 1.0)).isfinite()
    assert kl_divergence(D.Uniform(0.0, 1.0), D.ContinuousBernoulli(0.3)).isfinite()
    assert kl_divergence(D.Uniform(0.0, 1.0), D.Beta(1.0, 1.0)).item() == pytest.approx(0)
    assert kl_divergence(D.Poisson(0.0), D.Poisson(2.0)).item() == 2.0


def test_divergences_of_exponential_families_derive_both_parameters():
    df = sh.tensor(4.0, requires_grad=True)
    scale = sh.tensor([[1.0, 0.2], [0.2, 1.0]], requires_grad=True)
    p, q = (D.Wishart(d, covariance_matrix=scale) for d in (df, df + 1))
    for value in (kl_divergence(p, q), kl_divergence(q, p)):
        first, second = sh.autograd.grad(value, [df, scale], retain_graph=True)
        assert first.isfinite()
        assert second.isfinite().all()

    def divergence(d):
        other = D.Wishart(5.0, covariance_matrix=sh.eye(2))
        return kl_divergence(D.Wishart(d, covariance_matrix=2 * sh.eye(2)), other)

    (slope,) = sh.autograd.grad(divergence(df), [df])
    step = (divergence(sh.tensor(4.0 + 1e-5)) - divergence(sh.tensor(4.0 - 1e-5))) / 2e-5
    assert slope.item() == pytest.approx(step.item(), rel=1e-6)
    with sh.no_grad():
        assert not kl_divergence(p, q).requires_grad
    assert not kl_divergence(
        *(D.Wishart(d, covariance_matrix=sh.eye(2)) for d in (4.0, 5.0))
    ).requires_grad


@pytest.mark.check
def test_what_has_no_formula_is_refused():
    with pytest.raises(NotImplementedError, match=r"No KL\(p \|\| q\) .* Normal .* VonMises"):
        kl_divergence(D.Normal(0.0, 1.0), D.VonMises(0.0, 1.0))
    with pytest.raises(NotImplementedError, match="different exponential families"):
        kl_divergence(D.Normal(0.0, 1.0), D.Poisson(1.0))
    with pytest.raises(ValueError, match="different event shapes"):
        kl_divergence(
            D.MultivariateNormal(sh.zeros(2), sh.eye(2)),
            D.MultivariateNormal(sh.zeros(3), sh.eye(3)),
        )


@pytest.fixture
def registry():
    """The registry, which is as before afterwards."""
    from shmtensor.distributions.kl import _KL_MEMOIZE

    before = dict(_KL_REGISTRY)
    yield
    _KL_REGISTRY.clear()
    _KL_REGISTRY.update(before)
    _KL_MEMOIZE.clear()


@pytest.mark.usefixtures("registry")
def test_the_most_specific_pair_is_called():
    class Own(D.Normal):
        pass

    class Owner(Own):
        pass

    assert kl_divergence(Own(0.0, 1.0), D.Normal(0.0, 1.0)).item() == 0

    @register_kl(Own, D.Normal)
    def _kl_own(p, q):
        return "own"

    assert kl_divergence(Own(0.0, 1.0), D.Normal(0.0, 1.0)) == "own"
    assert kl_divergence(Owner(0.0, 1.0), Own(0.0, 1.0)) == "own"
    assert kl_divergence(D.Normal(0.0, 1.0), Own(0.0, 1.0)).item() == 0

    @register_kl(D.Normal, Own)
    def _kl_other(p, q):
        return "other"

    with pytest.warns(RuntimeWarning, match=r"\(Owner, Own\).* register_kl\(Own, Own\)"):
        assert kl_divergence(Owner(0.0, 1.0), Own(0.0, 1.0)) == "own"
    register_kl(Own, Own)(lambda p, q: "both")
    assert kl_divergence(Owner(0.0, 1.0), Own(0.0, 1.0)) == "both"


@pytest.mark.usefixtures("registry")
def test_pairs_of_abstract_classes_are_found_last():
    Known = abc.ABCMeta("Known", (), {})
    Known.register(D.Normal)
    register_kl(Known, D.Laplace)(lambda p, q: "known")
    register_kl(Known, D.VonMises)(lambda p, q: "known")
    assert kl_divergence(D.Normal(0.0, 1.0), D.VonMises(0.0, 1.0)) == "known"
    assert kl_divergence(D.Normal(0.0, 1.0), D.Laplace(0.0, 1.0)).item() > 0


def test_only_classes_are_registered():
    for pair in ((3, D.Normal), (D.Normal, "Normal")):
        with pytest.raises(TypeError, match="must be a class"):
            register_kl(*pair)


def slopes_of_kl(first, second, *values):
    """The divergence, and its slopes by the parameters of the two."""
    parameters = [sh.tensor(value, requires_grad=True) for value in values]
    divergence = kl_divergence(first(*parameters), second(*parameters))
    slopes = sh.autograd.grad(divergence, parameters)
    return divergence.item(), [slope.item() for slope in slopes]


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
@pytest.mark.parametrize(
    ("second", "moment"),
    [
        (lambda s, a, r: D.Exponential(r), 1),
        (lambda s, a, r: D.Gamma(r, r), 1),
        (lambda s, a, r: D.Normal(r, r), 2),
    ],
    ids=["Exponential", "Gamma", "Normal"],
)
def test_an_infinite_mean_of_pareto_has_no_slopes(second, moment, alpha):
    found, slopes = slopes_of_kl(lambda s, a, r: D.Pareto(s, a), second, 1.0, alpha, 2.0)
    if alpha <= moment:
        assert found == math.inf
        assert slopes == [0, 0, 0]
    else:
        assert math.isfinite(found)
        assert all(math.isfinite(slope) and slope != 0 for slope in slopes)


def test_a_rate_of_zero_has_slopes():
    for other in (0.0, 1.0):
        found, slopes = slopes_of_kl(
            lambda p, q: D.Poisson(p), lambda p, q: D.Poisson(q), 0.0, other
        )
        assert found == other
        assert slopes == [-math.inf, 1]
    assert slopes_of_kl(lambda p, q: D.Poisson(p), lambda p, q: D.Poisson(q), 2.0, 1.0) == (
        pytest.approx(2 * math.log(2) - 1),
        [pytest.approx(math.log(2)), -1],
    )


def test_inverse_gammas_of_other_batch_shapes_are_compared():
    one, other = D.InverseGamma(sh.ones(2), 1.0), D.InverseGamma(sh.ones(3, 1), 2.0)
    assert kl_divergence(one, other).shape == (3, 2)
