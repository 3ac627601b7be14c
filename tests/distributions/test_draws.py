"""Draws: shapes, streams, moments, and how they move with their parameters."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from distributions.distribution_table import EXAMPLES, IDS, make

import shmtensor as sh
import shmtensor.distributions as D
from shmtensor.autograd import gradcheck

all_examples = pytest.mark.parametrize("example", EXAMPLES, ids=IDS)


@pytest.fixture(autouse=True)
def _seeded():
    sh.manual_seed(1)
    sh.set_default_dtype(sh.float64)
    yield
    sh.set_default_dtype(sh.float32)


def quietly(example):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Low df values")
        return make(sh, example)


@pytest.mark.check
@all_examples
def test_draws_have_their_shape_and_lie_in_the_support(example):
    distribution = quietly(example)
    for shape in ((), (1,), (3, 2)):
        drawn = distribution.sample(shape)
        assert drawn.shape == sh.Size(shape) + distribution.batch_shape + distribution.event_shape
        assert distribution.support.check(drawn).all()
        assert distribution.log_prob(drawn).shape == sh.Size(shape) + distribution.batch_shape
    assert distribution.sample(sh.Size([0])).numel() == 0


@all_examples
def test_a_seed_gives_the_same_draws_and_rsample_those_of_sample(example):
    distribution = quietly(example)
    first = distribution.sample((4,))
    sh.manual_seed(1)
    assert sh.equal(distribution.sample((4,)), first)
    if distribution.has_rsample:
        sh.manual_seed(1)
        np.testing.assert_allclose(distribution.rsample((4,)).numpy(), first.numpy(), rtol=1e-12)
    else:
        with pytest.raises(NotImplementedError):
            distribution.rsample()


@all_examples
def test_means_and_variances_of_draws(example):
    distribution = quietly(example)
    try:
        mean, variance = distribution.mean, distribution.variance
    except NotImplementedError:
        pytest.skip("has no moments in closed form")
    if example[0] == "VonMises" or mean.isnan().all():
        pytest.skip("has circular moments, or none")
    n = 4000
    drawn = distribution.sample((n,))
    error = (drawn.mean(0) - mean).abs() / (variance / n).sqrt()
    known = variance.isfinite() & (variance > 0)
    # Of heavy tails, whose fourth moment is infinite, sample variances tell little.
    assert (sh.where(known, error, 0.0) < 5).all()
    spread = drawn.var(0)
    fourth = ((drawn - mean) ** 4).mean(0)
    deviation = ((fourth - spread**2) / n).abs().sqrt()
    heavy = {"Pareto", "StudentT", "FisherSnedecor", "InverseGamma", "GeneralizedPareto", "Weibull"}
    if example[0] not in heavy:
        assert (sh.where(known, (spread - variance).abs() / (deviation + 1e-9), 0.0) < 6).all()


@pytest.mark.parametrize(
    "distribution",
    [
        lambda: D.Normal(1.0, 2.0),
        lambda: D.Gamma(0.4, 2.0),
        lambda: D.Gamma(5.0, 2.0),
        lambda: D.Uniform(-1.0, 3.0),
        lambda: D.Laplace(0.5, 2.0),
        lambda: D.Cauchy(0.5, 2.0),
        lambda: D.Exponential(3.0),
        lambda: D.Gumbel(1.0, 2.0),
        lambda: D.Weibull(2.0, 1.5),
        lambda: D.Pareto(2.0, 1.5),
        lambda: D.Kumaraswamy(2.0, 0.5),
        lambda: D.HalfCauchy(2.0),
        lambda: D.GeneralizedPareto(0.0, 1.0, -0.3),
        lambda: D.ContinuousBernoulli(0.2),
        lambda: D.LogNormal(0.3, 0.8),
    ],
)
def test_distribution_functions_make_draws_uniform(distribution):
    d = distribution()
    n = 4000
    u = np.sort(d.cdf(d.sample((n,))).numpy())
    steps = np.arange(1, n + 1) / n
    # Kolmogorov's statistic exceeds 2 with a probability of 0.0007.
    assert max(np.abs(u - steps).max(), np.abs(u - steps + 1 / n).max()) * math.sqrt(n) < 2


def test_angles_of_a_von_mises_distribution_have_its_mean_resultant():
    for kappa in (1e-6, 0.5, 3.0, 200.0):
        d = D.VonMises(1.0, kappa)
        drawn = d.sample((4000,))
        assert ((drawn >= -math.pi) & (drawn < math.pi)).all()
        length = (drawn - 1.0).cos().mean().item()
        assert length == pytest.approx(1 - d.variance.item(), abs=0.05)


def test_correlations_have_the_variance_of_their_concentration():
    # Each correlation is 2 b - 1 of a beta draw with both weights eta + n / 2 - 1.
    for eta, n in ((1.0, 3), (4.0, 4)):
        factor = D.LKJCholesky(n, eta).sample((3000,))
        matrices = factor @ factor.mT
        assert sh.allclose(matrices.diagonal(dim1=-2, dim2=-1), sh.ones(3000, n))
        weight = eta + n / 2 - 1
        expected = 1 / (2 * weight + 1)
        for i in range(1, n):
            assert matrices[:, i, 0].mean().item() == pytest.approx(0, abs=0.05)
            assert matrices[:, i, 0].var().item() == pytest.approx(expected, rel=0.15)


def test_components_are_chosen_by_their_weights():
    mixture = D.MixtureSameFamily(
        D.Categorical(sh.tensor([0.2, 0.8])),
        D.Normal(sh.tensor([-10.0, 10.0]), sh.tensor([0.1, 0.1])),
    )
    drawn = mixture.sample((2000,))
    assert (drawn > 0).double().mean().item() == pytest.approx(0.8, abs=0.04)
    shared = D.MixtureSameFamily(
        D.Categorical(sh.tensor([0.5, 0.5])), D.Normal(sh.tensor([[0.0, 9.0]] * 50), 0.1)
    )
    assert 0 < (shared.sample() > 4).sum() < 50  # each of the batch has its own choice


_GAMMAS = {"Beta", "Chi2", "Dirichlet", "FisherSnedecor", "Gamma", "InverseGamma", "StudentT"}


@pytest.mark.parametrize(
    "example",
    [e for e in EXAMPLES if make(sh, e, validate_args=False).has_rsample],
    ids=[
        i
        for i, e in zip(IDS, EXAMPLES, strict=True)
        if make(sh, e, validate_args=False).has_rsample
    ],
)
def test_draws_move_with_their_parameters(example):
    """Derivatives against differences, the random numbers held fast."""
    name, parameters = example
    leaves = {
        key: sh.tensor(value, requires_grad=True)
        for key, value in parameters.items()
        if isinstance(value, list)
    }
    rest = {
        key: value(sh) if callable(value) else value
        for key, value in parameters.items()
        if not isinstance(value, list)
    }
    if not leaves:
        pytest.skip("has no parameters of its own")
    if name in _GAMMAS | {"Wishart"}:
        pytest.skip("draws anew what depends on a shape: see below")
    if name == "OneHotCategoricalStraightThrough":
        pytest.skip("has the derivative of something else")
    matrix = {"covariance_matrix", "precision_matrix", "scale_tril", "probs"}

    def draw(*values):
        sh.manual_seed(5)
        arguments = dict(zip(leaves, values, strict=True))
        for key in matrix & set(arguments):  # stay in the region when one element moves
            if key in ("covariance_matrix", "precision_matrix"):
                arguments[key] = (arguments[key] + arguments[key].mT) / 2
            elif key == "scale_tril":
                arguments[key] = arguments[key].tril()
        return getattr(D, name)(**arguments, **rest, validate_args=False).rsample((2,))

    assert gradcheck(draw, tuple(leaves.values()), eps=1e-7, atol=1e-5, rtol=1e-4)


def quantile(distribution_function, target, low, high):
    """Where a rising function has a value, by bisection."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if distribution_function(middle) < target else (low, middle)
    return (low + high) / 2


@pytest.mark.check
@pytest.mark.parametrize("shape", [0.2, 0.9, 1.7, 8.0, 60.0])
def test_gamma_draws_keep_their_quantile(shape):
    a = sh.tensor(shape, requires_grad=True)
    drawn = D.Gamma(a, 2.0).rsample()
    (slope,) = sh.autograd.grad(drawn, [a])
    gammainc = sh.special.gammainc
    x = drawn.item() * 2.0
    target = gammainc(sh.tensor(shape), sh.tensor(x)).item()
    step = 1e-5 * shape
    ends = [
        quantile(
            lambda t, s=s: gammainc(sh.tensor(shape + s), sh.tensor(t)).item(),
            target,
            0.0,
            10 * x + 10,
        )
        for s in (-step, step)
    ]
    assert slope.item() == pytest.approx((ends[1] - ends[0]) / (2 * step) / 2.0, rel=1e-5)
    rate = sh.tensor(2.0, requires_grad=True)
    sh.manual_seed(1)
    (slope,) = sh.autograd.grad(D.Gamma(shape, rate).rsample(), [rate])
    sh.manual_seed(1)
    assert slope.item() == pytest.approx(-D.Gamma(shape, 2.0).sample().item() / 2.0)


def test_derivatives_of_means_of_draws_are_those_of_means():
    n = 20000
    cases = [
        (lambda p: D.Beta(p[0], p[1]), [0.7, 2.5]),
        (lambda p: D.Beta(p[0], p[1]), [6.0, 3.0]),
        (lambda p: D.Dirichlet(p), [0.5, 1.5, 4.0]),
        (lambda p: D.Gamma(p[0], p[1]), [1.3, 0.5]),
        (lambda p: D.InverseGamma(p[0], p[1]), [6.0, 2.0]),
        (lambda p: D.StudentT(p[0], p[1], p[2]), [30.0, 1.0, 2.0]),
        (lambda p: D.FisherSnedecor(p[0], p[1]), [6.0, 30.0]),
        (lambda p: D.Chi2(p[0]), [3.0]),
    ]
    for make_one, values in cases:
        p = sh.tensor(values, requires_grad=True)
        d = make_one(p)
        weights = sh.linspace(0.5, 1.5, d.mean.numel()).reshape(d.mean.shape)
        (expected,) = sh.autograd.grad((d.mean * weights).sum(), [p], retain_graph=True)
        (got,) = sh.autograd.grad((d.rsample((n,)).mean(0) * weights).sum(), [p])
        np.testing.assert_allclose(got.numpy(), expected.numpy(), atol=0.06, rtol=0.06)


def test_wishart_draws_are_differentiable():
    root = sh.tensor([[1.0, 0.0], [0.4, 0.8]], requires_grad=True)
    df = sh.tensor(6.0, requires_grad=True)
    d = D.Wishart(df, scale_tril=root)
    mean = d.rsample((4000,)).mean(0)
    expected = sh.autograd.grad(d.mean.sum(), [df, root], retain_graph=True)
    got = sh.autograd.grad(mean.sum(), [df, root])
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=0.1, atol=0.2)


def test_straight_through_draws_have_the_derivative_of_the_probabilities():
    logits = sh.tensor([0.2, -0.4, 1.0], requires_grad=True)
    d = D.OneHotCategoricalStraightThrough(logits=logits)
    drawn = d.rsample()
    assert sorted(drawn.tolist()) == pytest.approx([0.0, 0.0, 1.0])
    weights = sh.tensor([1.0, 2.0, 3.0])
    (got,) = sh.autograd.grad((drawn * weights).sum(), [logits])
    (expected,) = sh.autograd.grad((logits.softmax(-1) * weights).sum(), [logits])
    np.testing.assert_allclose(got.numpy(), expected.numpy())


def test_draws_of_a_low_temperature_are_nearly_discrete():
    cold = D.RelaxedOneHotCategorical(sh.tensor(0.01), probs=sh.tensor([0.3, 0.7])).sample((500,))
    assert cold.max(-1)[0].min() > 0.9 or (cold.max(-1)[0] > 0.99).double().mean() > 0.9
    assert (cold[:, 1] > 0.5).double().mean().item() == pytest.approx(0.7, abs=0.1)
    bits = D.RelaxedBernoulli(sh.tensor(0.01), probs=0.3).sample((500,))
    assert (bits > 0.5).double().mean().item() == pytest.approx(0.3, abs=0.1)


def test_singular_draws_are_made_anew():
    with pytest.warns(UserWarning, match="Low df values"):
        d = D.Wishart(1.0 + 1e-9, covariance_matrix=sh.eye(2))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        again = d.sample((20,))
        once = d.rsample((20,), max_try_correction=0)
    assert again.shape == once.shape == (20, 2, 2)
    assert len([w for w in caught if "Singular sample" in str(w.message)]) in range(11)
