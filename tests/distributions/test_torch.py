"""Every class, transform and divergence beside torch's: values, shapes, draws of equal seeds,
texts."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from distributions.distribution_table import EXAMPLES, IDS, make, tensor

import shmtensor

torch = pytest.importorskip("torch")
theirs = torch.distributions

# Draws come from other numbers than torch's: how many of them are needed depends on what is drawn.
OTHER_STREAM = {"Binomial", "LKJCholesky", "Poisson", "NegativeBinomial", "Wishart"}


@pytest.fixture(autouse=True)
def _double_precision() -> Iterator[None]:
    """Numbers become float64, too."""
    shmtensor.set_default_dtype(shmtensor.float64)
    torch.set_default_dtype(torch.float64)
    with warnings.catch_warnings():
        # torch's check for singular draws of a Wishart distribution is turned round.
        warnings.filterwarnings("ignore", "Singular sample detected")
        warnings.filterwarnings("ignore", "Low df values detected")
        yield
    shmtensor.set_default_dtype(shmtensor.float32)
    torch.set_default_dtype(torch.float32)


def array(value: Any) -> np.ndarray:
    return value.detach().numpy()


def pair(example: Any) -> tuple[Any, Any]:
    """The distribution of both libraries."""
    return make(shmtensor, example), make(torch, example)


def outcome(function: Any, *arguments: Any) -> Any:
    """What a call returns, or the class of what it raises."""
    try:
        return function(*arguments)
    except Exception as error:
        return type(error)


def tolerance(example: Any, usual: float) -> float:
    """torch's Bessel functions are exact to seven digits, of which differences lose some."""
    return 1e-4 if example[0] == "VonMises" else usual


def same(own: Any, other: Any, rtol: float = 1e-9) -> None:
    if isinstance(other, type):
        assert own is other
        return
    assert tuple(own.shape) == tuple(other.shape)
    assert str(own.dtype) == str(other.dtype)
    np.testing.assert_allclose(array(own), array(other), rtol=rtol, atol=1e-12)


def draw(lib: Any, distribution: Any, shape: tuple[int, ...]) -> Any:
    lib.manual_seed(7)
    return distribution.sample(shape)


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_moments_and_entropy(example):
    own, other = pair(example)
    rtol = tolerance(example, 1e-9)
    for name in ("mean", "variance", "stddev", "mode"):
        if (name, example[0]) == ("mode", "Kumaraswamy"):
            continue  # torch's is NaN
        same(outcome(getattr, own, name), outcome(getattr, other, name), rtol)
    same(outcome(own.entropy), outcome(other.entropy), rtol)
    same(outcome(own.perplexity), outcome(other.perplexity), rtol)


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_densities_of_draws(example):
    own, other = pair(example)
    theirs_drawn = draw(torch, other, (5,))
    drawn = shmtensor.tensor(
        theirs_drawn.tolist(), dtype=getattr(shmtensor, str(theirs_drawn.dtype)[6:])
    )
    same(own.log_prob(drawn), other.log_prob(theirs_drawn), tolerance(example, 1e-9))
    same(outcome(lambda: own.cdf(drawn)), outcome(lambda: other.cdf(theirs_drawn)))
    quantiles = [0.01, 0.3, 0.5, 0.98]
    shape = (4, *[1] * (len(own.batch_shape) + len(own.event_shape)))
    same(
        outcome(lambda: own.icdf(tensor(shmtensor, quantiles).reshape(shape))),
        outcome(lambda: other.icdf(tensor(torch, quantiles).reshape(shape))),
    )


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_draws_of_equal_seeds(example, shape):
    own, other = pair(example)
    drawn, theirs_drawn = draw(shmtensor, own, shape), draw(torch, other, shape)
    assert tuple(drawn.shape) == tuple(theirs_drawn.shape)
    assert str(drawn.dtype) == str(theirs_drawn.dtype)
    assert not drawn.requires_grad
    if example[0] not in OTHER_STREAM:
        # torch draws gamma numbers with 1/3 in single precision.
        np.testing.assert_allclose(array(drawn), array(theirs_drawn), rtol=2e-6, atol=1e-9)


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_what_the_class_says(example):
    own, other = pair(example)
    assert repr(own) == repr(other)
    assert tuple(own.batch_shape) == tuple(other.batch_shape)
    assert tuple(own.event_shape) == tuple(other.event_shape)
    assert own.has_rsample == other.has_rsample
    assert own.has_enumerate_support == other.has_enumerate_support
    assert repr(own.support) == repr(other.support)
    assert repr(own.arg_constraints) == repr(other.arg_constraints)
    for kind in (own, other):
        kind.support_known = outcome(
            lambda kind=kind: (kind.support.event_dim, kind.support.is_discrete)
        )
    assert own.support_known == other.support_known
    for expand in (True, False):
        same(outcome(own.enumerate_support, expand), outcome(other.enumerate_support, expand))


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_expanded(example):
    own, other = pair(example)
    shape = (4, 2, *own.batch_shape)
    own, other = own.expand(shape), other.expand(shape)
    assert repr(own) == repr(other)
    assert tuple(own.batch_shape) == tuple(other.batch_shape) == shape
    drawn, theirs_drawn = draw(shmtensor, own, (3,)), draw(torch, other, (3,))
    assert tuple(drawn.shape) == tuple(theirs_drawn.shape)
    value = drawn if example[0] not in OTHER_STREAM else draw(shmtensor, own, ())
    theirs_value = torch.tensor(value.tolist(), dtype=getattr(torch, str(value.dtype)[6:]))
    rtol = tolerance(example, 1e-9)
    same(own.log_prob(value), other.log_prob(theirs_value), rtol)
    same(outcome(lambda: own.variance), outcome(lambda: other.variance), rtol)


def _differentiable(lib: Any, example: Any) -> Any:
    """The distribution, and its tensors that require a gradient."""
    name, parameters = example
    leaves = {
        key: tensor(lib, value).requires_grad_()
        for key, value in parameters.items()
        if isinstance(value, list)
    }
    rest = {
        key: value(lib) if callable(value) else value
        for key, value in parameters.items()
        if not isinstance(value, list)
    }
    return getattr(lib.distributions, name)(**leaves, **rest), list(leaves.values())


def _is_at_zero(example: Any) -> bool:
    """torch derives no formula that holds on both sides of 0 there."""
    return example[1].get("concentration") == [0.0]


def _gradients(lib: Any, result: Any, leaves: list[Any]) -> list[Any]:
    weights = lib.linspace(0.5, 1.5, result.numel(), dtype=result.dtype).reshape(result.shape)
    return lib.autograd.grad((result * weights).sum(), leaves, retain_graph=True, allow_unused=True)


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_derivatives_of_draws(example):
    own, leaves = _differentiable(shmtensor, example)
    other, their_leaves = _differentiable(torch, example)
    if not own.has_rsample or not leaves or example[0] == "Wishart" or _is_at_zero(example):
        pytest.skip("has no differentiable draws")  # torch's Wishart raises
    shmtensor.manual_seed(7)
    drawn = own.rsample((3,))
    torch.manual_seed(7)
    theirs_drawn = other.rsample((3,))
    # torch's derivatives of gamma and beta draws are approximations.
    gammas = {
        "Beta",
        "Chi2",
        "Dirichlet",
        "FisherSnedecor",
        "Gamma",
        "InverseGamma",
        "StudentT",
        "Wishart",
    }
    rtol = 5e-3 if example[0] in gammas else 1e-9
    for a, b in zip(
        _gradients(shmtensor, drawn, leaves),
        _gradients(torch, theirs_drawn, their_leaves),
        strict=True,
    ):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_derivatives_of_densities_and_entropies(example):
    own, leaves = _differentiable(shmtensor, example)
    other, their_leaves = _differentiable(torch, example)
    if not leaves or _is_at_zero(example):
        pytest.skip("has no parameters of its own")
    theirs_drawn = draw(torch, other, (3,))
    drawn = shmtensor.tensor(
        theirs_drawn.tolist(), dtype=getattr(shmtensor, str(theirs_drawn.dtype)[6:])
    )
    rtol = tolerance(example, 1e-8)

    def gradients(lib, distribution, value, leaves):
        found = [_gradients(lib, distribution.log_prob(value), leaves)]
        entropy = outcome(distribution.entropy)
        if not isinstance(entropy, type) and entropy.requires_grad:
            found.append(_gradients(lib, entropy, leaves))
        return [g for gs in found for g in gs]

    for a, b in zip(
        gradients(shmtensor, own, drawn, leaves),
        gradients(torch, other, theirs_drawn, their_leaves),
        strict=True,
    ):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=rtol, atol=rtol)
