"""Densities, distribution functions, moments and entropies: against sums, integrals and SciPy."""

from __future__ import annotations

import contextlib
import math
import warnings

import numpy as np
import pytest
from distributions.distribution_table import EXAMPLES, IDS, make

import shmtensor as sh
from shmtensor.distributions import constraints

# Those of numbers, but for transforms whose images are less than their codomain.
UNIVARIATE = [
    (name, example)
    for name, example in zip(IDS, EXAMPLES, strict=True)
    if example[0] != "TransformedDistribution"
    and not make(sh, example, validate_args=False).event_shape
]
CONTINUOUS = [row for row in UNIVARIATE if not make(sh, row[1]).support.is_discrete]
DISCRETE = [row for row in UNIVARIATE if make(sh, row[1]).support.is_discrete]


@pytest.fixture(autouse=True)
def _double_precision():
    sh.set_default_dtype(sh.float64)
    yield
    sh.set_default_dtype(sh.float32)


def by_name(rows):
    return pytest.mark.parametrize("example", [e for _, e in rows], ids=[n for n, _ in rows])


def grid(distribution):
    """Points that cover the support, and weights with which values there sum to the integral.

    The substitutions make integrands fall doubly exponentially at both ends (Takahasi and Mori).
    """
    u = sh.linspace(-4.2, 4.2, 16001, dtype=sh.float64)
    step, growth = 8.4 / 16000, u.sinh() * (math.pi / 2)
    slope = u.cosh() * (math.pi / 2)
    support = distribution.support
    if isinstance(support, constraints.MixtureSameFamilyConstraint | constraints.independent):
        support = support.base_constraint
    low, high = (getattr(support, name, None) for name in ("lower_bound", "upper_bound"))
    shape = (-1,) + (1,) * len(distribution.batch_shape)
    u, growth, slope = (t.reshape(shape) for t in (u, growth, slope))
    if isinstance(support, type(constraints.real)):
        if type(distribution).__name__ == "VonMises":  # angles
            return math.pi * growth.tanh(), math.pi * slope / growth.cosh() ** 2 * step
        middle = getattr(distribution, "loc", 0.0)  # where Laplace's density has a kink
        return growth.sinh() + middle, growth.cosh() * slope * step
    bounded = high is not None and bool(sh.as_tensor(high).isfinite().all())
    if bounded:
        part = (2 * growth).sigmoid()
        return low + (high - low) * part, (high - low) * 2 * part * (1 - part) * slope * step
    return low + growth.exp(), growth.exp() * slope * step


def density(distribution, x):
    distribution._validate_args = False
    values = distribution.log_prob(x).exp()
    return sh.where(values.isfinite(), values, 0.0)


def close(actual, expected, rtol=1e-7):
    np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=rtol, atol=1e-9)


@pytest.mark.check
@by_name(CONTINUOUS)
def test_a_density_integrates_to_one(example):
    distribution = make(sh, example)
    if distribution.support is not None and not isinstance(
        getattr(distribution.support, "upper_bound", 0.0), float
    ):
        # Support of a bounded and an unbounded distribution together: one by one.
        pytest.skip("has ends of two kinds")
    x, weights = grid(distribution)
    total = (density(distribution, x) * weights).sum(0)
    # Numbers next to 1 are 1e-16 apart, where a beta distribution may have much of its mass.
    close(total, sh.ones_like(total), 1e-4 if example[0] == "Beta" else 1e-6)


@by_name(CONTINUOUS)
def test_mean_variance_and_entropy_are_integrals(example):
    distribution = make(sh, example)
    if not isinstance(getattr(distribution.support, "upper_bound", 0.0), float):
        pytest.skip("has ends of two kinds")
    if example[0] == "VonMises":
        pytest.skip("has circular moments")
    x, weights = grid(distribution)
    mass = density(distribution, x) * weights
    for name, power in (("mean", 1), ("variance", 2)):
        try:
            value = getattr(distribution, name)
        except NotImplementedError:
            continue
        center = distribution.mean if power == 2 else 0.0
        exact = (mass * (x - center) ** power).sum(0)
        known = value.isfinite() & (exact.abs() < 1e6)
        # Tails that fall slowly end at the last point.
        heavy = {"Pareto", "StudentT", "FisherSnedecor", "InverseGamma", "GeneralizedPareto"}
        close(
            sh.where(known, value, 0.0),
            sh.where(known, exact, 0.0),
            0.05 if example[0] in heavy else 1e-4,
        )
    try:
        entropy = distribution.entropy()
    except NotImplementedError:
        return
    log_density = distribution.log_prob(x)
    logs = sh.where(mass > 0, log_density, 0.0)
    close(entropy, -(mass * logs).sum(0), 1e-3 if example[0] == "Beta" else 1e-4)


@by_name(CONTINUOUS)
def test_a_distribution_function_is_the_integral_of_its_density(example):
    distribution = make(sh, example, validate_args=False)
    probabilities = sh.tensor([0.05, 0.4, 0.9], dtype=sh.float64)
    probabilities = probabilities.reshape((-1,) + (1,) * len(distribution.batch_shape))
    try:
        points = distribution.icdf(probabilities)
        values = distribution.cdf(points)
    except NotImplementedError:
        pytest.skip("has no distribution function that can be inverted")
    close(values, probabilities.expand(values.shape))
    points = points.detach().requires_grad_()
    (slope,) = sh.autograd.grad(distribution.cdf(points).sum(), [points])
    # Near 1/2 the distribution function is taken to be that of uniform numbers.
    rtol = 1e-3 if example[0] == "ContinuousBernoulli" else 1e-6
    close(slope, distribution.log_prob(points).exp().detach(), rtol)


@by_name(CONTINUOUS)
def test_a_density_is_highest_at_the_mode(example):
    distribution = make(sh, example, validate_args=False)
    try:
        mode = distribution.mode
    except NotImplementedError:
        pytest.skip("has no mode")
    highest = distribution.log_prob(mode)
    for factor in (-1e-3, 1e-3):
        near = distribution.log_prob(mode + factor)
        outside = ~distribution.support.check(mode + factor)
        fine = outside | ~near.isfinite() | ~highest.isfinite() | (near <= highest + 1e-12)
        assert fine.all()


def counts(distribution):
    values = sh.arange(0, 400, dtype=sh.float64)
    return values.reshape((-1,) + (1,) * len(distribution.batch_shape))


@by_name(DISCRETE)
def test_probabilities_sum_to_one_and_moments_are_sums(example):
    distribution = make(sh, example, validate_args=False)
    if distribution.has_enumerate_support and example[0] != "Binomial":
        values = distribution.enumerate_support()
    else:
        values = counts(distribution)
    mass = distribution.log_prob(values).exp()
    mass = sh.where(mass.isfinite(), mass, 0.0)
    if example[0] == "Binomial":
        mass = sh.where(values <= distribution.total_count, mass, 0.0)
    close(mass.sum(0), sh.ones_like(mass.sum(0)))
    if example[0] in ("Categorical", "Independent"):
        assert distribution.mean.isnan().all()
        return
    mean = (mass * values).sum(0)
    close(distribution.mean, mean)
    close(distribution.variance, (mass * (values - mean) ** 2).sum(0), 1e-6)
    mode = distribution.mode
    if example[0] == "Bernoulli":
        mode = sh.where(mode.isnan(), 1.0, mode)
    assert (distribution.log_prob(mode) >= distribution.log_prob(values) - 1e-9).all() or (
        example[0] == "Binomial"
    )
    try:
        entropy = distribution.entropy()
    except NotImplementedError:
        return
    logs = sh.where(mass > 0, distribution.log_prob(values), 0.0)
    close(entropy, -(mass * logs).sum(0), 1e-6)


# Arguments of SciPy's distribution for each of ours, and where it is asked.
SCIPY = {
    "Bernoulli": (lambda s, d: s.bernoulli(d.probs.numpy()), [0.0, 1.0]),
    "Beta": (lambda s, d: s.beta(d.concentration1.numpy(), d.concentration0.numpy()), [0.1, 0.7]),
    "Binomial": (lambda s, d: s.binom(d.total_count.numpy(), d.probs.numpy()), [0.0, 2.0, 3.0]),
    "Cauchy": (lambda s, d: s.cauchy(d.loc.numpy(), d.scale.numpy()), [-3.0, 0.0, 0.4]),
    "Chi2": (lambda s, d: s.chi2(d.df.numpy()), [0.1, 3.0]),
    "Exponential": (lambda s, d: s.expon(scale=1 / d.rate.numpy()), [0.1, 3.0]),
    "FisherSnedecor": (lambda s, d: s.f(d.df1.numpy(), d.df2.numpy()), [0.1, 3.0]),
    "Gamma": (lambda s, d: s.gamma(d.concentration.numpy(), scale=1 / d.rate.numpy()), [0.1, 3.0]),
    "GeneralizedPareto": (
        lambda s, d: s.genpareto(d.concentration.numpy(), d.loc.numpy(), d.scale.numpy()),
        [1.0, 1.5, 4.0],
    ),
    "Geometric": (lambda s, d: s.geom(d.probs.numpy(), loc=-1), [0.0, 4.0]),
    "Gumbel": (lambda s, d: s.gumbel_r(d.loc.numpy(), d.scale.numpy()), [-1.0, 0.0, 3.0]),
    "HalfCauchy": (lambda s, d: s.halfcauchy(scale=d.scale.numpy()), [0.0, 0.3, 4.0]),
    "HalfNormal": (lambda s, d: s.halfnorm(scale=d.scale.numpy()), [0.0, 0.3, 4.0]),
    "InverseGamma": (
        lambda s, d: s.invgamma(d.concentration.numpy(), scale=d.rate.numpy()),
        [0.1, 3.0],
    ),
    "Laplace": (lambda s, d: s.laplace(d.loc.numpy(), d.scale.numpy()), [-1.0, 0.0, 3.0]),
    "LogNormal": (lambda s, d: s.lognorm(d.scale.numpy(), scale=np.exp(d.loc.numpy())), [0.1, 3.0]),
    "NegativeBinomial": (
        lambda s, d: s.nbinom(d.total_count.numpy(), 1 - d.probs.numpy()),
        [0.0, 4.0],
    ),
    "Normal": (lambda s, d: s.norm(d.loc.numpy(), d.scale.numpy()), [-3.0, 0.5]),
    "Pareto": (lambda s, d: s.pareto(d.alpha.numpy(), scale=d.scale.numpy()), [2.0, 7.0]),
    "Poisson": (lambda s, d: s.poisson(d.rate.numpy()), [0.0, 4.0, 30.0]),
    "StudentT": (lambda s, d: s.t(d.df.numpy(), d.loc.numpy(), d.scale.numpy()), [-1.0, 0.5]),
    "Uniform": (
        lambda s, d: s.uniform(d.low.numpy(), d.high.numpy() - d.low.numpy()),
        [0.1, 0.9],
    ),
    "VonMises": (lambda s, d: s.vonmises(d.concentration.numpy(), d.loc.numpy()), [-1.0, 2.0]),
    "Weibull": (
        lambda s, d: s.weibull_min(d.concentration.numpy(), scale=d.scale.numpy()),
        [0.1, 3.0],
    ),
}


@by_name([row for row in UNIVARIATE if row[1][0] in SCIPY])
def test_values_are_scipys(example):
    stats = pytest.importorskip("scipy.stats")
    distribution = make(sh, example, validate_args=False)
    twin, points = SCIPY[example[0]][0](stats, distribution), SCIPY[example[0]][1]
    for point in points:
        value = sh.full(distribution.batch_shape, point)
        discrete = distribution.support.is_discrete
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            logs = (twin.logpmf if discrete else twin.logpdf)(point)
            below = twin.cdf(point)
            moments = {"mean": twin.mean(), "stddev": twin.std(), "entropy": twin.entropy()}
        if example[0] == "Bernoulli":
            logs = np.maximum(logs, -40.0)  # 1 less the probability has no digits left
        np.testing.assert_allclose(distribution.log_prob(value).numpy(), logs, 1e-9, 1e-9)
        with contextlib.suppress(NotImplementedError):
            np.testing.assert_allclose(distribution.cdf(value).numpy(), below, 1e-9, 1e-9)
        if example[0] == "VonMises":
            continue
        for name, expected in moments.items():
            try:
                got = getattr(distribution, name)
                got = (got() if callable(got) else got).numpy()
            except NotImplementedError:
                continue
            fine = np.isfinite(got) & np.isfinite(expected)
            np.testing.assert_allclose(
                np.where(fine, got, 0), np.where(fine, expected, 0), 1e-8, 1e-9
            )


@pytest.mark.check
def test_multivariate_normal_values_are_those_of_the_formula():
    rng = np.random.default_rng(3)
    root = rng.normal(size=(4, 4))
    covariance, loc, x = root @ root.T + np.eye(4), rng.normal(size=4), rng.normal(size=(5, 4))
    offset = x - loc
    expected = -0.5 * (
        np.einsum("bi,ij,bj->b", offset, np.linalg.inv(covariance), offset)
        + np.linalg.slogdet(covariance)[1]
        + 4 * np.log(2 * np.pi)
    )
    t = sh.from_numpy
    for form, matrix in (
        ("covariance_matrix", covariance),
        ("precision_matrix", np.linalg.inv(covariance)),
        ("scale_tril", np.linalg.cholesky(covariance)),
    ):
        d = sh.distributions.MultivariateNormal(t(loc), **{form: t(matrix)})
        np.testing.assert_allclose(d.log_prob(t(x)).numpy(), expected, 1e-10)
        np.testing.assert_allclose(d.covariance_matrix.numpy(), covariance, 1e-9, 1e-10)
        np.testing.assert_allclose(d.precision_matrix.numpy() @ covariance, np.eye(4), 0, 1e-9)
        factor = np.linalg.cholesky(covariance)
        np.testing.assert_allclose(d.scale_tril.numpy(), factor, 1e-9, 1e-10)
        np.testing.assert_allclose(d.variance.numpy(), np.diag(covariance), 1e-10)
    factor, diagonal = rng.normal(size=(4, 2)), rng.uniform(0.5, 2.0, size=4)
    low = sh.distributions.LowRankMultivariateNormal(t(loc), t(factor), t(diagonal))
    full = sh.distributions.MultivariateNormal(t(loc), t(factor @ factor.T + np.diag(diagonal)))
    for name in ("covariance_matrix", "precision_matrix", "scale_tril", "variance", "mean"):
        np.testing.assert_allclose(
            getattr(low, name).numpy(), getattr(full, name).numpy(), 1e-9, 1e-10
        )
    np.testing.assert_allclose(low.log_prob(t(x)).numpy(), full.log_prob(t(x)).numpy(), 1e-10)
    np.testing.assert_allclose(low.entropy().numpy(), full.entropy().numpy(), 1e-10)


@pytest.mark.parametrize("factor_batch", [(), (3,), (1, 3), (2, 1), (2, 3)])
@pytest.mark.parametrize("value_batch", [(), (3,), (2, 3), (5, 1, 1), (5, 2, 3), (5, 2, 1)])
def test_vectors_that_share_a_factor_broadcast_with_it(factor_batch, value_batch):
    from shmtensor.distributions.multivariate_normal import _batch_mahalanobis

    factor = sh.randn(*factor_batch, 4, 4, dtype=sh.float64).tril() + 4 * sh.eye(4)
    x = sh.randn(*value_batch, 4, dtype=sh.float64)
    batch = sh.broadcast_shapes(factor_batch, value_batch)
    solved = sh.linalg.solve(
        factor.expand(*batch, 4, 4), x.expand(*batch, 4).unsqueeze(-1)
    ).squeeze(-1)
    result = _batch_mahalanobis(factor, x)
    assert result.shape == batch
    close(result, solved.pow(2).sum(-1), 1e-9)


def test_dirichlet_multinomial_and_categorical_densities():
    D = sh.distributions
    concentration = sh.tensor([2.0, 3.0, 0.5], dtype=sh.float64)
    x = sh.tensor([0.2, 0.7, 0.1], dtype=sh.float64)
    expected = (
        math.lgamma(5.5)
        - math.lgamma(2.0)
        - math.lgamma(3.0)
        - math.lgamma(0.5)
        + math.log(0.2)
        + 2 * math.log(0.7)
        - 0.5 * math.log(0.1)
    )
    assert D.Dirichlet(concentration).log_prob(x).item() == pytest.approx(expected, rel=1e-12)
    multinomial = D.Multinomial(4, probs=sh.tensor([1.0, 2.0, 1.0], dtype=sh.float64))
    value = sh.tensor([1.0, 3.0, 0.0], dtype=sh.float64)
    assert multinomial.log_prob(value).exp().item() == pytest.approx(4 * 0.25 * 0.125)
    all_counts = [
        sh.tensor([a, b, 4 - a - b], dtype=sh.float64) for a in range(5) for b in range(5 - a)
    ]
    logs = sh.stack([multinomial.log_prob(v) for v in all_counts])
    assert logs.exp().sum().item() == pytest.approx(1)
    assert multinomial.entropy().item() == pytest.approx(-(logs.exp() * logs).sum().item())
    one_hot = D.OneHotCategorical(logits=sh.tensor([0.0, math.log(3.0)], dtype=sh.float64))
    assert one_hot.log_prob(sh.tensor([0.0, 1.0])).exp().item() == pytest.approx(0.75)


def test_lkj_densities_sum_to_one_over_correlations():
    # In two dimensions the factor is known by its correlation r: (r, sqrt(1 - r^2)).
    r = sh.linspace(-1, 1, 20003, dtype=sh.float64)[1:-1]
    zeros, ones = sh.zeros_like(r), sh.ones_like(r)
    factors = sh.stack([sh.stack([ones, zeros], -1), sh.stack([r, (1 - r * r).sqrt()], -1)], -2)
    for concentration in (1.0, 2.5):
        d = sh.distributions.LKJCholesky(2, sh.tensor(concentration, dtype=sh.float64))
        total = d.log_prob(factors).exp().sum() * (r[1] - r[0])
        assert total.item() == pytest.approx(1, abs=1e-3)


def test_wishart_of_one_dimension_is_a_gamma_distribution():
    D = sh.distributions
    df, v = sh.tensor(3.4, dtype=sh.float64), sh.tensor([[0.7]], dtype=sh.float64)
    wishart = D.Wishart(df, covariance_matrix=v)
    gamma = D.Gamma(df / 2, 1 / (2 * v[0, 0]))
    x = sh.tensor([0.3, 1.0, 4.0], dtype=sh.float64)
    close(wishart.log_prob(x[:, None, None]), gamma.log_prob(x))
    close(wishart.entropy(), gamma.entropy())
    close(wishart.mean[0, 0], gamma.mean)
    close(wishart.variance[0, 0], gamma.variance)


def test_no_digits_are_lost_where_probabilities_end():
    D = sh.distributions
    t = sh.tensor
    # log(1 + exp(-800)) and its like neither overflow nor vanish.
    assert D.Bernoulli(logits=t(800.0)).log_prob(t(0.0)).item() == -800.0
    assert D.Binomial(3, logits=t(-800.0)).log_prob(t(0.0)).item() == 0.0
    assert D.NegativeBinomial(0.0, probs=t(0.5)).log_prob(t(0.0)).item() == 0.0
    assert D.Geometric(probs=t(1.0)).log_prob(t(0.0)).item() == 0.0
    assert D.Poisson(0.0).log_prob(t(0.0)).item() == 0.0
    assert D.Categorical(probs=t([0.0, 1.0])).entropy().item() == pytest.approx(0)
    assert D.Multinomial(2, probs=t([0.0, 1.0])).log_prob(t([0.0, 2.0])).item() == pytest.approx(0)
    assert D.Gumbel(0.0, 1.0).log_prob(t(-10.0)).isfinite()
    relaxed = D.RelaxedBernoulli(t(0.01), logits=t(5.0)).base_dist
    assert relaxed.log_prob(t(-90000.0)).isfinite()


def test_certain_success_has_a_derivative() -> None:
    probs = sh.tensor([1.0, 0.5], requires_grad=True)
    geometric = sh.distributions.Geometric(probs)
    density = geometric.log_prob(sh.zeros(2))
    assert density.tolist() == pytest.approx([0.0, -0.6931472])
    density.sum().backward()
    assert probs.grad.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("make_value", "want"),
    [
        (lambda a: sh.distributions.StudentT(a).variance, math.inf),
        (lambda a: sh.distributions.FisherSnedecor(3.0, a).mean, math.nan),
        (lambda a: sh.distributions.GeneralizedPareto(0.0, 1.0, a / 2).mean, math.nan),
        (lambda a: sh.distributions.GeneralizedPareto(0.0, 1.0, a / 4).variance, math.nan),
        (lambda a: sh.distributions.Kumaraswamy(0.5, a / 2).mode, math.nan),
    ],
)
def test_a_moment_that_does_not_exist_has_no_slope(make_value, want) -> None:
    parameter = sh.tensor([2.0], requires_grad=True)
    value = make_value(parameter)
    assert value.tolist() == pytest.approx([want], nan_ok=True)
    value.sum().backward()
    assert parameter.grad.tolist() == [0.0]


def test_a_density_is_steep_at_the_end_of_a_support() -> None:
    value = sh.tensor(2.0, requires_grad=True)
    density = sh.distributions.GeneralizedPareto(0.0, 1.0, -0.5).log_prob(value)
    assert density.item() == -math.inf
    assert sh.autograd.grad(density, value)[0].item() == -math.inf


def test_logits_of_a_binomial_may_be_whole_numbers() -> None:
    binomial = sh.distributions.Binomial(3, logits=sh.tensor([1, 2]))
    density = binomial.log_prob(sh.tensor([1.0, 2.0]))
    assert density.tolist() == pytest.approx([-1.8411726, -1.2821717])
    assert binomial.entropy().tolist() == pytest.approx([1.0986085, 0.7499599])


def test_normal_vectors_take_values_of_another_dtype() -> None:
    loc, factor = sh.zeros(2, dtype=sh.float32), sh.eye(2, dtype=sh.float32)
    normal = sh.distributions.MultivariateNormal(loc, factor)
    for dtype in (sh.float64, sh.int64):
        density = normal.log_prob(sh.tensor([1, 2], dtype=dtype))
        assert density.dtype is sh.float32
        assert density.item() == pytest.approx(-4.3378771)


def test_normal_vectors_may_be_none_or_have_no_elements() -> None:
    D = sh.distributions
    for batch in ((0,), (3, 0), (0, 3)):
        normal = D.MultivariateNormal(sh.zeros(2), sh.eye(2).expand((*batch, 2, 2)))
        assert normal.log_prob(sh.zeros(2)).shape == batch
        assert D.kl_divergence(normal, normal).shape == batch
    assert D.MultivariateNormal(sh.zeros(0), sh.eye(0)).log_prob(sh.zeros(0)).item() == 0
    diagonal = D.LowRankMultivariateNormal(sh.zeros(2), sh.zeros(2, 0), sh.ones(2))
    assert diagonal.log_prob(sh.zeros(2)).item() == pytest.approx(-math.log(2 * math.pi))


@pytest.mark.parametrize("logit", [-1000.0, -40.0, 40.0, 1000.0])
def test_grey_pixels_of_extreme_log_odds_are_those_of_extreme_probabilities(logit) -> None:
    logits = sh.tensor(logit, dtype=sh.float32, requires_grad=True)
    grey = sh.distributions.ContinuousBernoulli(logits=logits)
    same = sh.distributions.ContinuousBernoulli(sh.tensor(float(logit > 0), dtype=sh.float32))
    assert grey.probs.item() == same.probs.item()
    for name in ("mean", "variance"):
        assert getattr(grey, name).item() == pytest.approx(getattr(same, name).item())
    assert grey.entropy().item() == pytest.approx(-1.769, abs=1e-3)
    ends = sh.tensor([0.0, 1.0], dtype=sh.float32)
    assert grey.icdf(ends).tolist() == [0.0, 1.0]
    assert grey.cdf(ends).tolist() == [0.0, 1.0]
    density = grey.log_prob(sh.tensor(0.5, dtype=sh.float32))
    assert sh.autograd.grad(density, logits)[0].item() == -math.copysign(0.5, logit)
