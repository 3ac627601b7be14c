"""Every class of distributions with arguments, to be made with this package or with torch.

Arguments are nested lists (tensors of float64), numbers (kept), or functions of the library.
"""

from __future__ import annotations

from typing import Any

Parameters = dict[str, Any]

_COVARIANCE = [[2.0, 0.6, 0.1], [0.6, 1.5, -0.2], [0.1, -0.2, 0.8]]
_FACTOR = [[1.2, 0.0, 0.0], [0.4, 0.9, 0.0], [-0.3, 0.2, 0.7]]
_PROBS = [[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]]
_LOGITS = [[0.2, -0.5, 1.3], [2.0, 0.1, -0.8]]


def _normals(lib: Any) -> Any:
    D = lib.distributions
    return D.Normal(tensor(lib, [[-1.0, 0.5, 2.0], [0.0, 1.0, 3.0]]), tensor(lib, [0.5, 1.0, 2.0]))


def _choices(lib: Any) -> Any:
    return lib.distributions.Categorical(tensor(lib, _PROBS))


def _vectors(lib: Any) -> Any:
    D = lib.distributions
    loc = tensor(lib, [[[0.0, 1.0], [2.0, -1.0], [0.5, 0.5]]]).expand(2, 3, 2)
    return D.Independent(D.Normal(loc, tensor(lib, 0.7)), 1)


def _transforms(lib: Any, *names: str) -> list[Any]:
    T = lib.distributions.transforms
    made = {
        "exp": T.ExpTransform,
        "affine": lambda: T.AffineTransform(1.0, tensor(lib, [-2.0, 0.5])),
        "sigmoid": T.SigmoidTransform,
        "tanh": T.TanhTransform,
        "stick": T.StickBreakingTransform,
    }
    return [made[name]() for name in names]


def _base(lib: Any) -> Any:
    return lib.distributions.Normal(tensor(lib, [0.3, -0.2]), tensor(lib, [0.8, 1.1]))


EXAMPLES: list[tuple[str, Parameters]] = [
    ("Bernoulli", {"probs": [0.3, 0.7, 0.5]}),
    ("Bernoulli", {"logits": [[-2.0, 0.0, 40.0]]}),
    ("Bernoulli", {"probs": 0.2}),
    ("Beta", {"concentration1": [0.5, 2.0, 7.0], "concentration0": [[1.5], [0.3]]}),
    ("Beta", {"concentration1": 2.0, "concentration0": 3.0}),
    ("Binomial", {"total_count": 5, "probs": [0.3, 0.9]}),
    ("Binomial", {"total_count": [3.0, 40.0], "logits": [0.4, -1.0]}),
    ("Categorical", {"probs": _PROBS}),
    ("Categorical", {"logits": _LOGITS}),
    ("Categorical", {"probs": [0.0, 1.0, 3.0]}),
    ("Cauchy", {"loc": [0.0, 1.0], "scale": [[0.5], [2.0]]}),
    ("Chi2", {"df": [0.8, 3.0, 9.0]}),
    ("ContinuousBernoulli", {"probs": [0.1, 0.4995, 0.5, 0.9]}),
    ("ContinuousBernoulli", {"logits": [-1.0, 0.001, 3.0]}),
    ("Dirichlet", {"concentration": [0.5, 1.5, 3.0]}),
    ("Dirichlet", {"concentration": [[0.2, 0.9], [4.0, 1.0]]}),
    ("Exponential", {"rate": [0.5, 3.0]}),
    ("FisherSnedecor", {"df1": [1.0, 5.0, 9.0], "df2": [3.0, 5.0, 12.0]}),
    ("Gamma", {"concentration": [0.3, 1.0, 8.0], "rate": [[0.5], [2.0]]}),
    ("GeneralizedPareto", {"loc": 1.0, "scale": 2.0, "concentration": [0.3, -0.4, 1.5]}),
    ("GeneralizedPareto", {"loc": [1.0], "scale": [2.0], "concentration": [0.0]}),
    ("Geometric", {"probs": [0.3, 0.9]}),
    ("Geometric", {"logits": [-1.0, 2.0]}),
    ("Gumbel", {"loc": [0.0, 2.0], "scale": [1.0, 0.4]}),
    ("HalfCauchy", {"scale": [0.5, 2.0]}),
    ("HalfNormal", {"scale": [0.5, 2.0]}),
    ("Independent", {"base_distribution": _normals, "reinterpreted_batch_ndims": 1}),
    ("Independent", {"base_distribution": _normals, "reinterpreted_batch_ndims": 2}),
    ("Independent", {"base_distribution": _choices, "reinterpreted_batch_ndims": 0}),
    ("InverseGamma", {"concentration": [0.8, 1.5, 4.0], "rate": [1.0, 2.0, 0.5]}),
    ("Kumaraswamy", {"concentration1": [0.6, 2.0, 3.0], "concentration0": [1.5, 0.7, 4.0]}),
    ("LKJCholesky", {"dim": 3, "concentration": [0.7, 2.5]}),
    ("LKJCholesky", {"dim": 2}),
    ("Laplace", {"loc": [0.0, 2.0], "scale": [1.0, 0.4]}),
    ("LogNormal", {"loc": [0.0, 0.5], "scale": [1.0, 0.4]}),
    ("LogisticNormal", {"loc": [[0.2, -0.4], [1.0, 0.1]], "scale": [0.5, 1.2]}),
    (
        "LowRankMultivariateNormal",
        {
            "loc": [[0.1, 1.0, -1.0], [0.0, 0.0, 2.0]],
            "cov_factor": [[0.5, 0.1], [-0.2, 1.0], [0.3, 0.7]],
            "cov_diag": [0.4, 1.0, 2.0],
        },
    ),
    (
        "MixtureSameFamily",
        {"mixture_distribution": _choices, "component_distribution": _normals},
    ),
    (
        "MixtureSameFamily",
        {"mixture_distribution": _choices, "component_distribution": _vectors},
    ),
    ("Multinomial", {"total_count": 6, "probs": _PROBS}),
    ("Multinomial", {"total_count": 3, "logits": [0.5, -0.5]}),
    ("MultivariateNormal", {"loc": [0.1, 1.0, -1.0], "covariance_matrix": _COVARIANCE}),
    ("MultivariateNormal", {"loc": [[0.1, 1.0, -1.0]] * 2, "precision_matrix": _COVARIANCE}),
    ("MultivariateNormal", {"loc": [0.0, 0.5, 1.0], "scale_tril": [_FACTOR, _FACTOR]}),
    ("NegativeBinomial", {"total_count": [2.0, 5.5], "probs": [0.3, 0.6]}),
    ("NegativeBinomial", {"total_count": 3.0, "logits": [0.4, -1.0]}),
    ("Normal", {"loc": [0.0, 2.0], "scale": [[1.0], [0.4], [3.0]]}),
    ("Normal", {"loc": 0.5, "scale": 2.0}),
    ("OneHotCategorical", {"probs": _PROBS}),
    ("OneHotCategorical", {"logits": _LOGITS}),
    ("OneHotCategoricalStraightThrough", {"probs": _PROBS}),
    ("Pareto", {"scale": [1.0, 0.5, 2.0], "alpha": [0.8, 1.5, 4.0]}),
    ("Poisson", {"rate": [0.3, 4.0, 30.0]}),
    ("RelaxedBernoulli", {"temperature": [0.7], "probs": [0.3, 0.9]}),
    ("RelaxedBernoulli", {"temperature": [2.0], "logits": [0.3, -0.9]}),
    ("RelaxedOneHotCategorical", {"temperature": [0.7], "probs": _PROBS}),
    ("RelaxedOneHotCategorical", {"temperature": [2.0], "logits": _LOGITS}),
    ("StudentT", {"df": [0.8, 1.5, 5.0], "loc": [0.0, 1.0, 2.0], "scale": [1.0, 0.4, 2.0]}),
    ("StudentT", {"df": 3.0}),
    (
        "TransformedDistribution",
        {
            "base_distribution": _base,
            "transforms": lambda lib: _transforms(lib, "affine", "sigmoid"),
        },
    ),
    (
        "TransformedDistribution",
        {"base_distribution": _base, "transforms": lambda lib: _transforms(lib, "tanh", "exp")},
    ),
    (
        "TransformedDistribution",
        {"base_distribution": _base, "transforms": lambda lib: _transforms(lib, "stick")},
    ),
    ("Uniform", {"low": [0.0, -1.0], "high": [[1.0], [2.5]]}),
    ("VonMises", {"loc": [0.0, 1.0, 3.0], "concentration": [0.5, 20.0, 1e-6]}),
    ("Weibull", {"scale": [1.0, 0.5], "concentration": [0.8, 3.0]}),
    ("Wishart", {"df": [4.0, 7.5], "covariance_matrix": _COVARIANCE}),
    ("Wishart", {"df": 5.0, "precision_matrix": _COVARIANCE}),
    ("Wishart", {"df": [3.5, 9.0], "scale_tril": [_FACTOR, _FACTOR]}),
]
IDS = [f"{name}-{i}" for i, (name, _) in enumerate(EXAMPLES)]


def tensor(lib: Any, values: Any) -> Any:
    """A tensor of the library, in double precision."""
    return lib.tensor(values, dtype=lib.float64)


def argument(lib: Any, value: Any) -> Any:
    """An argument of the table, for a library."""
    if isinstance(value, list):
        return tensor(lib, value)
    return value(lib) if callable(value) else value


def make(lib: Any, example: tuple[str, Parameters], **options: Any) -> Any:
    """The distribution of a row, made with a library."""
    name, parameters = example
    arguments = {key: argument(lib, value) for key, value in parameters.items()}
    return getattr(lib.distributions, name)(**arguments, **options)
