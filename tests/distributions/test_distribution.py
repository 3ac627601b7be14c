"""What all distributions share: shapes, validation, expansion, subclasses, pickles, loading."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings

import pytest
from distributions.distribution_table import EXAMPLES, IDS, make

import shmtensor as sh
import shmtensor.distributions as D
from shmtensor.distributions import constraints
from shmtensor.distributions.utils import broadcast_all, lazy_property, probs_to_logits

all_examples = pytest.mark.parametrize("example", EXAMPLES, ids=IDS)


def quietly(example, **options):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Low df values")
        return make(sh, example, **options)


@pytest.mark.check
@all_examples
def test_pickles_and_copies_are_the_same(example):
    distribution = quietly(example)
    sh.manual_seed(0)
    drawn = distribution.sample((2,))
    logs = distribution.log_prob(drawn)
    for other in (pickle.loads(pickle.dumps(distribution)), copy.deepcopy(distribution)):
        assert repr(other) == repr(distribution)
        assert sh.equal(other.log_prob(drawn), logs)
        sh.manual_seed(0)
        assert sh.equal(other.sample((2,)), drawn)


@all_examples
def test_expansion_repeats_the_batch(example):
    distribution = quietly(example)
    shape = (3, *distribution.batch_shape)
    expanded = distribution.expand(shape)
    assert type(expanded) is type(distribution)
    assert expanded.batch_shape == sh.Size(shape)
    assert expanded.event_shape == distribution.event_shape
    assert expanded._validate_args == distribution._validate_args
    drawn = expanded.sample()
    assert drawn.shape == expanded.batch_shape + expanded.event_shape
    assert sh.allclose(expanded.log_prob(drawn), distribution.log_prob(drawn), equal_nan=True)
    again = expanded.expand(sh.Size((2, *shape)))
    assert again.sample((2,)).shape == sh.Size((2, 2, *shape)) + expanded.event_shape
    for name in ("mean", "variance", "mode"):
        try:
            value = getattr(distribution, name)
        except NotImplementedError:
            continue
        assert sh.allclose(
            getattr(expanded, name), value.expand(drawn.shape), equal_nan=True, rtol=1e-4
        )


@all_examples
def test_a_subclass_with_its_own_arguments_has_to_expand_itself(example):
    distribution = quietly(example)
    kind = type(distribution)
    if example[0] == "OneHotCategoricalStraightThrough":
        kind = D.OneHotCategorical

    class Named(type(distribution)):
        def __init__(self, name, **arguments):
            self.name = name
            super().__init__(**arguments)

    arguments = _arguments(example)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Low df values")
        named = Named("one", **arguments)
    shape = (2, *named.batch_shape)
    with pytest.raises(NotImplementedError, match=f"Subclass Named of {kind.__name__} "):
        named.expand(shape)

    def expand(self, batch_shape, _instance=None):
        new = self.__new__(type(self)) if _instance is None else _instance
        new.name = self.name
        return super(Named, self).expand(batch_shape, _instance=new)

    Named.expand = expand
    expanded = named.expand(shape)
    assert type(expanded) is Named
    assert expanded.name == "one"
    assert expanded.sample().shape == expanded.batch_shape + expanded.event_shape


def _arguments(example):
    from distributions.distribution_table import argument

    return {key: argument(sh, value) for key, value in example[1].items()}


@all_examples
def test_what_is_outside_of_the_support_is_refused(example):
    distribution = quietly(example)
    if example[0] not in ("Chi2", "Gamma"):  # which take numbers
        with pytest.raises(ValueError, match="value argument to log_prob must be a Tensor"):
            distribution.log_prob(0.5)
    drawn = distribution.sample()
    wrong = sh.full_like(drawn, 7.77 if drawn.dtype.is_floating_point else -3)
    if distribution.support.check(wrong).all():
        wrong = sh.full_like(drawn, float("nan"))
    if wrong.isnan().any() or not distribution.support.check(wrong).any():
        with pytest.raises(ValueError, match="to be within the support"):
            distribution.log_prob(wrong)
    shape = (9, *drawn.shape)
    if drawn.dim() and drawn.shape[-1] != 1:
        with pytest.raises(ValueError, match=r"must match event_shape|not broadcastable"):
            distribution.log_prob(sh.zeros(*shape[:-1], 17))
    quiet = quietly(example, validate_args=False)
    if example[0] not in ("Independent", "MixtureSameFamily", "TransformedDistribution"):
        assert quiet._validate_args is False


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Bernoulli", {"probs": 1.5}),
        ("Beta", {"concentration1": -1.0, "concentration0": 1.0}),
        ("Binomial", {"total_count": -1, "probs": sh.tensor(0.5)}),
        ("Categorical", {"probs": sh.tensor([-1.0, 2.0])}),
        ("Cauchy", {"loc": 0.0, "scale": 0.0}),
        ("Chi2", {"df": 0.0}),
        ("ContinuousBernoulli", {"probs": 1.5, "validate_args": True}),
        ("Dirichlet", {"concentration": sh.tensor([1.0, 0.0])}),
        ("Exponential", {"rate": 0.0}),
        ("FisherSnedecor", {"df1": 0.0, "df2": 1.0}),
        ("Gamma", {"concentration": 1.0, "rate": -1.0}),
        ("GeneralizedPareto", {"loc": 0.0, "scale": -1.0, "concentration": 0.0}),
        ("Geometric", {"probs": 0.0}),
        ("Gumbel", {"loc": 0.0, "scale": -1.0}),
        ("HalfCauchy", {"scale": -1.0}),
        ("HalfNormal", {"scale": -1.0}),
        ("InverseGamma", {"concentration": -1.0, "rate": 1.0}),
        ("Kumaraswamy", {"concentration1": 1.0, "concentration0": 0.0}),
        ("LKJCholesky", {"dim": 3, "concentration": 0.0}),
        ("Laplace", {"loc": float("nan"), "scale": 1.0}),
        ("LogNormal", {"loc": 0.0, "scale": 0.0}),
        ("LogisticNormal", {"loc": sh.zeros(2), "scale": sh.zeros(2)}),
        (
            "LowRankMultivariateNormal",
            {"loc": sh.zeros(2), "cov_factor": sh.ones(2, 1), "cov_diag": -0.1 * sh.ones(2)},
        ),
        ("Multinomial", {"total_count": 2, "probs": sh.tensor([-1.0, 2.0])}),
        ("MultivariateNormal", {"loc": sh.zeros(2), "covariance_matrix": -sh.eye(2)}),
        ("NegativeBinomial", {"total_count": 2.0, "probs": sh.tensor(1.0)}),
        ("Normal", {"loc": 0.0, "scale": -1.0}),
        ("OneHotCategorical", {"probs": sh.tensor([-1.0, 2.0])}),
        ("Pareto", {"scale": 1.0, "alpha": 0.0}),
        ("Poisson", {"rate": -1.0}),
        ("StudentT", {"df": 0.0}),
        ("Uniform", {"low": 1.0, "high": 1.0}),
        ("VonMises", {"loc": 0.0, "concentration": 0.0}),
        ("Weibull", {"scale": 1.0, "concentration": 0.0}),
        ("Wishart", {"df": 1.0, "covariance_matrix": sh.eye(3)}),
    ],
)
def test_parameters_outside_of_their_region_are_refused(name, arguments):
    with pytest.raises(ValueError, match=r"Expected|expected|invalid values"):
        getattr(D, name)(**arguments)


def test_the_message_names_parameter_constraint_and_values():
    with pytest.raises(ValueError) as caught:
        D.Normal(sh.zeros(2), sh.tensor([1.0, -1.0]))
    text = str(caught.value)
    assert "Expected parameter scale (Tensor of shape (2,))" in text
    assert "constraint GreaterThan(lower_bound=0.0)" in text
    assert "tensor([ 1., -1.])" in text


def test_validation_has_a_default():
    assert D.Distribution._validate_args == __debug__
    try:
        D.Distribution.set_default_validate_args(False)
        D.Normal(0.0, -1.0)
        with pytest.raises(ValueError):
            D.Normal(0.0, -1.0, validate_args=True)
    finally:
        D.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError):
        D.Normal(0.0, -1.0)
    with pytest.raises(ValueError):
        D.Distribution.set_default_validate_args(3)


def test_a_class_without_constraints_is_told_so():
    class Odd(D.Distribution):
        pass

    with pytest.warns(UserWarning, match="does not define `arg_constraints`"):
        odd = Odd()
    for name in ("mean", "mode", "variance", "support"):
        with pytest.raises(NotImplementedError):
            getattr(odd, name)
    for call in (odd.sample, odd.rsample, odd.entropy, odd.perplexity, odd.enumerate_support):
        with pytest.raises(NotImplementedError):
            call()
    for call in (odd.log_prob, odd.cdf, odd.icdf, odd.expand):
        with pytest.raises(NotImplementedError):
            call(sh.ones(()))
    with pytest.warns(UserWarning, match="does not define `support`"):
        odd._validate_sample(sh.zeros(()))


def test_numbers_take_the_default_dtype_and_tensors_keep_theirs():
    assert D.Normal(0, 1).loc.dtype is sh.float32
    assert D.Normal(0, sh.tensor(1.0, dtype=sh.float64)).loc.dtype is sh.float64
    sh.set_default_dtype(sh.float64)
    try:
        assert D.Beta(1, 2).sample().dtype is sh.float64
    finally:
        sh.set_default_dtype(sh.float32)
    assert [t.tolist() for t in broadcast_all(1, sh.tensor([2.0, 3.0]))] == [[1, 1], [2, 3]]
    with pytest.raises(ValueError, match="instances of Number"):
        broadcast_all("1", 2)


def test_halves_and_meta_tensors():
    half = D.Normal(sh.zeros(3, dtype=sh.float16), sh.ones(3, dtype=sh.float16))
    assert half.sample().dtype is sh.float16
    assert half.log_prob(half.sample()).dtype is sh.float16
    meta = D.Gamma(sh.ones(3, device="meta"), 1.0, validate_args=False)
    assert meta.sample((2,)).shape == (2, 3)
    assert meta.sample((2,)).device.type == "meta"


@pytest.mark.check
def test_either_probabilities_or_log_odds():
    binary = (D.Bernoulli, D.Geometric, D.ContinuousBernoulli)
    for kind in (*binary, D.Categorical, D.OneHotCategorical, D.OneHotCategoricalStraightThrough):
        with pytest.raises(ValueError, match="Either `probs` or `logits`"):
            kind()
        with pytest.raises(ValueError, match="Either `probs` or `logits`"):
            kind(probs=sh.tensor([0.5, 0.5]), logits=sh.tensor([0.5, 0.5]))
    probs = sh.tensor([0.2, 0.9])
    d = D.Bernoulli(probs=probs)
    assert "logits" not in d.__dict__
    assert sh.allclose(d.logits, probs_to_logits(probs, is_binary=True))
    assert "logits" in d.__dict__
    assert d.logits is d.logits
    assert d.param_shape == (2,)
    assert sh.allclose(D.Bernoulli(logits=d.logits).probs, probs)
    assert D.Bernoulli(0.0).logits.isfinite()


def test_lazy_attributes_are_differentiable_wherever_they_are_first_asked_for():
    probs = sh.tensor([0.2, 0.9], requires_grad=True)
    d = D.Bernoulli(probs=probs)
    with sh.no_grad():
        d.logits
    assert d.logits.requires_grad
    assert isinstance(D.Bernoulli.logits, property)
    assert isinstance(D.Bernoulli.logits, lazy_property)


def test_dependent_constraints_are_known_of_objects():
    assert constraints.is_dependent(D.Binomial.support)
    assert D.Binomial.support.is_discrete
    with pytest.raises(ValueError, match="Cannot determine validity"):
        D.Uniform.support.check(sh.zeros(2))
    assert not constraints.is_dependent(D.Uniform(0.0, 1.0).support)
    said = constraints.dependent(is_discrete=True)
    assert said.is_discrete
    with pytest.raises(NotImplementedError, match="event_dim cannot be determined"):
        said.event_dim


def test_events_made_of_parts_are_checked_as_one():
    two = constraints.cat([constraints.simplex, constraints.simplex], -1, [2, 3])
    good = sh.tensor([0.5, 0.5, 0.2, 0.3, 0.5])
    assert two.check(good).item() is True
    assert two.check(good.expand(4, 5)).shape == (4,)
    assert two.check(good * 2).item() is False
    pairs = constraints.stack([constraints.positive, constraints.less_than(0.0)], -1)
    assert pairs.check(sh.tensor([[1.0, -1.0], [1.0, 1.0]])).tolist() == [True, False]
    along = constraints.cat([constraints.simplex, constraints.real_vector], 0, [1, 2])
    assert along.check(sh.tensor([[0.5, 0.5], [1.0, 2.0], [0.0, 1.0]])).tolist() == [True] * 3
    rows = constraints.stack([constraints.simplex, constraints.real_vector], 0)
    assert rows.check(sh.tensor([[0.5, 0.6], [1.0, 2.0]])).tolist() == [False, True]
    nothing = constraints.independent(constraints.positive, 1)
    assert nothing.check(sh.zeros(0, 3)).shape == (0,)


def test_counts_of_the_older_form_of_sample():
    with pytest.warns(FutureWarning, match="sample_n"):
        assert D.Normal(0.0, 1.0).sample_n(3).shape == (3,)


def test_enumeration_lists_the_support():
    d = D.Binomial(2, probs=sh.tensor([0.3, 0.4]))
    assert d.enumerate_support().tolist() == [[0, 0], [1, 1], [2, 2]]
    assert d.enumerate_support(expand=False).tolist() == [[0], [1], [2]]
    with pytest.raises(NotImplementedError, match="Inhomogeneous total count"):
        D.Binomial(sh.tensor([1, 2]), probs=sh.tensor(0.5)).enumerate_support()
    assert D.Categorical(sh.ones(3)).enumerate_support().dtype is sh.int64
    assert sh.equal(D.OneHotCategorical(sh.ones(3)).enumerate_support(), sh.eye(3))
    with pytest.raises(NotImplementedError, match="cartesian product"):
        D.Independent(D.Bernoulli(sh.ones(3) / 2), 1).enumerate_support()


def test_transforms_widen_events_and_batches():
    base = D.Normal(sh.zeros(4, 3), 1.0)
    stick = D.TransformedDistribution(base, D.StickBreakingTransform())
    assert (stick.batch_shape, stick.event_shape) == ((4,), (4,))
    assert stick.log_prob(stick.sample((2,))).shape == (2, 4)
    scaled = D.TransformedDistribution(
        D.Normal(0.0, 1.0), D.AffineTransform(sh.zeros(5), sh.ones(5))
    )
    assert scaled.batch_shape == (5,)
    assert scaled.sample().shape == (5,)
    reshaped = D.TransformedDistribution(
        D.Independent(D.Normal(sh.zeros(6), 1.0), 1), D.ReshapeTransform((6,), (2, 3))
    )
    assert reshaped.event_shape == (2, 3)
    assert reshaped.log_prob(sh.zeros(7, 2, 3)).shape == (7,)


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()


def test_the_package_is_loaded_when_it_is_needed():
    loaded = "print(sum(name.startswith('shmtensor.distributions') for name in sys.modules))"
    assert run(f"import sys, shmtensor; shmtensor.randn(3); {loaded}") == ["0"]
    assert run(f"import sys, shmtensor.distributions; {loaded}") == ["1"]
    for statement in (
        "import shmtensor.distributions.normal as n; print(n.Normal.__name__)",
        "from shmtensor.distributions import Normal; print(Normal.__name__)",
        "from shmtensor.distributions import *; print(Normal.__name__)",
        "import shmtensor; print(shmtensor.distributions.Normal.__name__)",
        "from shmtensor.distributions.normal import Normal; print(Normal.__name__)",
        "from shmtensor.distributions import constraints, kl, Normal; print(Normal.__name__)",
        "import shmtensor.distributions.kl as kl; print(kl.Normal if 0 else 'Normal')",
        "from shmtensor.distributions.constraint_registry import biject_to; print('Normal')",
    ):
        assert run(statement) == ["Normal"]


def test_the_package_lists_its_names():
    assert {"Normal", "kl_divergence", "transforms", "constraints"} <= set(dir(D))
    assert set(D.__all__) <= set(dir(D))
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        D.Nothing
    for name in D.__all__:
        kind = getattr(D, name)
        if isinstance(kind, type):
            module = sys.modules[kind.__module__]
            assert getattr(module, name) is kind


def test_parameters_of_the_common_shape_are_the_given_leaves() -> None:
    loc = sh.zeros(3, requires_grad=True)
    normal = sh.distributions.Normal(loc, 1.0)
    assert normal.loc is loc
    normal.log_prob(sh.ones(3)).sum().backward()
    assert normal.loc.grad.tolist() == [1.0, 1.0, 1.0]
    wide = sh.distributions.Normal(loc, sh.ones(2, 1))
    assert wide.loc is not loc
    assert wide.loc.shape == (2, 3)


def test_expand_has_every_attribute_before_init():
    """A class of the user's may look at them in its ``__init__``, which ends in the base's."""
    seen = []
    before = D.Distribution.__init__

    def noting(self, *args, **kwargs):
        seen.append(dict(vars(self)))
        before(self, *args, **kwargs)

    cases = [
        (D.Independent(D.Normal(sh.zeros(3), 1.0), 1), "base_dist"),
        (D.TransformedDistribution(D.Normal(0.0, 1.0), [D.ExpTransform()]), "base_dist"),
        (D.LKJCholesky(3), "_beta"),
        (D.Multinomial(2, sh.ones(3)), "_binomial"),
    ]
    for made, name in cases:
        D.Distribution.__init__ = noting  # type: ignore[method-assign]
        try:
            expanded = made.expand((2,))
        finally:
            D.Distribution.__init__ = before  # type: ignore[method-assign]
        assert name in seen[-1]
        assert expanded.batch_shape == (2,)
        assert expanded.sample().shape[0] == 2


def test_inverse_gammas_expand_only_to_larger_shapes():
    made = D.InverseGamma(sh.ones(2, 1), 1.0)
    assert made.expand((4, 2, 3)).sample((5,)).shape == (5, 4, 2, 3)
    for shape in ((3,), (), (3, 1)):
        with pytest.raises(RuntimeError):
            made.expand(shape)


def test_parameters_are_shown_as_given_and_without_their_graph():
    with pytest.raises(ValueError, match=r"Value of df=1 expected to be greater than ndim - 1 = 1"):
        D.Wishart(1, sh.eye(2))
    with pytest.raises(ValueError, match=r"positive but found invalid values:\ntensor\(\[0.\]\)$"):
        D.Geometric(sh.tensor([0.0, 1.0], requires_grad=True))
    text = r"index 1 had \w+\.Size\(\[4\]\); but expected shape should be broadcastable to \[3\]"
    with pytest.raises(RuntimeError, match=text):
        D.MultivariateNormal(sh.zeros(4, 2), sh.eye(2).expand(3, 2, 2))
    with pytest.raises(RuntimeError, match=r"at index 1 had \(4,\); but"):
        sh.broadcast_shapes(3, 4)


@pytest.mark.parametrize(
    ("make_one", "value"),
    [
        (lambda p: D.Normal(p, p), 1.0),
        (lambda p: D.Gamma(p, 2.0), 1.0),
        (lambda p: D.Geometric(p / 4), 1.0),
        (lambda p: D.ContinuousBernoulli(p / 4, validate_args=True), 0.3),
        (lambda p: D.Uniform(p - 1, p), 1.0),
        (lambda p: D.LogNormal(p, p), 1.0),
        (lambda p: D.Categorical(sh.stack([p, p * 2])), 1),
        (lambda p: D.Dirichlet(sh.stack([p, p * 2])), [0.3, 0.7]),
        (lambda p: D.MultivariateNormal(sh.ones(2) * p, sh.eye(2) * p), [0.3, 0.7]),
        (lambda p: D.Wishart(p + 2, sh.eye(2)), [[1.0, 0.2], [0.2, 1.0]]),
    ],
)
def test_vmap_validates_all_examples_at_once(make_one, value):
    value, parameters = sh.tensor(value), sh.tensor([1.5, 1.75])
    densities = sh.func.vmap(lambda p: make_one(p).log_prob(value))(parameters)
    for p, density in zip(parameters, densities, strict=True):
        assert density.item() == pytest.approx(make_one(p).log_prob(value).item())


def test_vmap_refuses_what_one_example_makes_invalid():
    good, bad = sh.tensor([1.0, 2.0]), sh.tensor([1.0, -2.0])
    value = sh.tensor(1.0)
    sh.func.vmap(lambda s: D.Normal(0.0, s).log_prob(value))(good)
    with pytest.raises((ValueError, RuntimeError)):
        sh.func.vmap(lambda s: D.Normal(0.0, s).log_prob(value))(bad)
    with pytest.raises((ValueError, RuntimeError)):
        sh.func.vmap(lambda v: D.Exponential(1.0).log_prob(v))(bad)
    nested = sh.func.vmap(lambda m: sh.func.vmap(lambda s: D.Normal(m, s).log_prob(value))(good))
    assert nested(bad).shape == (2, 2)
