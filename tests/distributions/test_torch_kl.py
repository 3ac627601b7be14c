"""Divergences of all pairs that torch knows, beside torch's: values and derivatives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from distributions.distribution_table import tensor

import shmtensor
from shmtensor.distributions.kl import _KL_REGISTRY, kl_divergence

torch = pytest.importorskip("torch")

# For each class as the first of a pair and as the second; in the same order, they fit together.
PARAMETERS: dict[str, list[dict[str, Any]]] = {
    "Bernoulli": [{"probs": [0.3, 0.0, 1.0]}, {"probs": [0.5, 0.2, 0.0]}],
    "Beta": [
        {"concentration1": [0.5, 2.0, 3.0], "concentration0": [1.5, 4.0, 0.7]},
        {"concentration1": [1.5, 1.0, 3.0], "concentration0": [0.5, 0.3, 2.7]},
    ],
    "Binomial": [
        {"total_count": 5, "probs": [0.3, 0.9, 0.5]},
        {"total_count": 5, "probs": [0.6, 0.8, 0.2]},
    ],
    "Categorical": [{"probs": [[0.2, 0.0, 0.8]]}, {"probs": [[0.5, 0.2, 0.3], [0.0, 0.5, 0.5]]}],
    "Cauchy": [
        {"loc": [0.0, 1.0], "scale": [1.0, 0.3]},
        {"loc": [1.0, -1.0], "scale": [0.5, 2.0]},
    ],
    "ContinuousBernoulli": [{"probs": [0.1, 0.5, 0.9]}, {"probs": [0.4, 0.6, 0.4999]}],
    "Dirichlet": [{"concentration": [0.5, 1.5, 3.0]}, {"concentration": [[1.0, 2.0, 0.4]]}],
    "Exponential": [{"rate": [0.5, 1.0, 3.0]}, {"rate": [1.5, 0.2, 2.0]}],
    "ExponentialFamily": [],
    "Gamma": [
        {"concentration": [0.5, 2.0, 5.0], "rate": [1.0, 0.5, 2.0]},
        {"concentration": [1.5, 1.0, 4.0], "rate": [0.4, 2.0, 1.0]},
    ],
    "Geometric": [{"probs": [0.3, 0.9]}, {"probs": [0.5, 0.2]}],
    "Gumbel": [
        {"loc": [0.0, 1.0, -2.0], "scale": [1.0, 0.5, 2.0]},
        {"loc": [1.0, -1.0, 0.0], "scale": [0.5, 2.0, 1.0]},
    ],
    "HalfNormal": [{"scale": [0.5, 2.0]}, {"scale": [1.5, 1.0]}],
    "Independent": [],
    "Laplace": [
        {"loc": [0.0, 1.0, -2.0], "scale": [1.0, 0.5, 2.0]},
        {"loc": [1.0, -1.0, 0.0], "scale": [0.5, 2.0, 1.0]},
    ],
    "LowRankMultivariateNormal": [
        {"loc": [0.1, 1.0], "cov_factor": [[0.5], [-1.0]], "cov_diag": [0.4, 1.0]},
        {
            "loc": [[1.0, 0.0], [0.0, 0.5]],
            "cov_factor": [[[0.2], [1.0]], [[0.0], [2.0]]],
            "cov_diag": [0.3, 0.8],
        },
    ],
    "MultivariateNormal": [
        {"loc": [0.5, 0.0], "covariance_matrix": [[2.0, 0.4], [0.4, 1.0]]},
        {
            "loc": [[1.0, 0.0], [0.0, 0.5]],
            "scale_tril": [[[1.0, 0.0], [0.5, 2.0]], [[0.3, 0.0], [0.1, 0.4]]],
        },
    ],
    "Normal": [
        {"loc": [0.0, 1.0, -2.0], "scale": [1.0, 0.5, 2.0]},
        {"loc": [1.0, -1.0, 0.0], "scale": [0.5, 2.0, 1.0]},
    ],
    "OneHotCategorical": [{"probs": [[0.2, 0.0, 0.8]]}, {"probs": [[0.5, 0.2, 0.3]]}],
    "Pareto": [
        {"scale": [1.0, 0.5, 2.0], "alpha": [2.5, 3.5, 4.0]},
        {"scale": [0.2, 0.5, 2.5], "alpha": [1.5, 0.5, 2.0]},
    ],
    "Poisson": [{"rate": [0.5, 3.0, 7.0]}, {"rate": [0.7, 2.0, 7.0]}],
    "TransformedDistribution": [],
    "Uniform": [
        {"low": [0.1, 0.3, 0.5], "high": [0.4, 0.9, 0.8]},
        {"low": [-0.5, 0.2, -0.1], "high": [1.5, 1.2, 3.0]},
    ],
}
PAIRS = sorted((p.__name__, q.__name__) for p, q in _KL_REGISTRY)


@pytest.fixture(autouse=True)
def _double_precision() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def make(lib: Any, name: str, place: int) -> tuple[Any, list[Any]]:
    """The first or the second of a pair, and its tensors."""
    arguments = {
        key: tensor(lib, value).requires_grad_() if isinstance(value, list) else value
        for key, value in PARAMETERS[name][place].items()
    }
    leaves = [value for value in arguments.values() if not isinstance(value, int)]
    return getattr(lib.distributions, name)(**arguments), leaves


def both(lib: Any, pair: tuple[str, str]) -> tuple[Any, list[Any]]:
    """The divergence and its derivatives."""
    (p, p_leaves), (q, q_leaves) = make(lib, pair[0], 0), make(lib, pair[1], 1)
    value = lib.distributions.kl_divergence(p, q)
    if not value.requires_grad:
        return value, []
    weights = lib.linspace(0.5, 1.5, value.numel(), dtype=lib.float64).reshape(value.shape)
    finite = lib.where(value.isfinite(), value, lib.zeros_like(value))
    return value, lib.autograd.grad(
        (finite * weights).sum(), p_leaves + q_leaves, allow_unused=True
    )


@pytest.mark.check
def test_the_registries_have_the_same_pairs():
    theirs = sorted((p.__name__, q.__name__) for p, q in torch.distributions.kl._KL_REGISTRY)
    assert theirs == PAIRS


@pytest.mark.parametrize("pair", [p for p in PAIRS if PARAMETERS[p[0]]], ids="-".join)
def test_divergence_is_torchs(pair):
    value, gradients = both(shmtensor, pair)
    expected, expected_gradients = both(torch, pair)
    np.testing.assert_allclose(
        value.detach().numpy(), expected.detach().numpy(), rtol=1e-9, atol=1e-12
    )
    if pair in {("Bernoulli", "Bernoulli"), ("Categorical", "Categorical")} or "OneHot" in pair[0]:
        return  # torch's derivatives are NaN where probabilities are 0
    for own, other in zip(gradients, expected_gradients, strict=bool(expected_gradients)):
        if other is not None:
            np.testing.assert_allclose(own.numpy(), other.numpy(), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    "names", [("Normal", "Normal"), ("Exponential", "Gamma"), ("Beta", "Beta")]
)
def test_divergence_of_independent_ones_is_a_sum(names):
    def divergence(lib: Any) -> Any:
        p, q = (make(lib, name, i)[0] for i, name in enumerate(names))
        D = lib.distributions
        return D.kl_divergence(D.Independent(p, 1), D.Independent(q, 1)).detach().numpy()

    np.testing.assert_allclose(divergence(shmtensor), divergence(torch), rtol=1e-9)


@pytest.mark.check
def test_divergence_of_equal_transforms_is_that_of_their_bases():
    def divergence(lib: Any) -> Any:
        D = lib.distributions
        p = D.LogNormal(tensor(lib, [0.0, 1.0]), tensor(lib, [1.0, 2.0]))
        q = D.LogNormal(tensor(lib, [0.5, 0.0]), tensor(lib, [1.5, 1.0]))
        return D.kl_divergence(p, q).numpy()

    np.testing.assert_allclose(divergence(shmtensor), divergence(torch), rtol=1e-9)


def test_exponential_families_have_a_divergence_of_their_own():
    D, T = shmtensor.distributions, torch.distributions
    p = D.Wishart(tensor(shmtensor, 5.0), tensor(shmtensor, [[2.0, 0.3], [0.3, 1.0]]))
    q = D.Wishart(tensor(shmtensor, 3.0), tensor(shmtensor, [[1.0, 0.0], [0.0, 1.5]]))
    their_p = T.Wishart(tensor(torch, 5.0), tensor(torch, [[2.0, 0.3], [0.3, 1.0]]))
    their_q = T.Wishart(tensor(torch, 3.0), tensor(torch, [[1.0, 0.0], [0.0, 1.5]]))
    expected = T.kl_divergence(their_p, their_q).item()
    assert kl_divergence(p, q).item() == pytest.approx(expected, rel=1e-9)
