"""Transforms, constraints and the ways from one to the other, beside torch's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from distributions.distribution_table import tensor

import shmtensor

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _double_precision() -> Iterator[None]:
    shmtensor.set_default_dtype(shmtensor.float64)
    torch.set_default_dtype(torch.float64)
    yield
    shmtensor.set_default_dtype(shmtensor.float32)
    torch.set_default_dtype(torch.float32)


_ROWS = [[0.3, -1.2, 2.0], [0.0, 0.5, -0.7]]
_POSITIVE = [[0.3, 1.2, 2.0], [0.1, 0.5, 0.7]]
_MATRICES = [[[0.3, 5.0], [-0.4, 1.2]], [[-1.0, 0.1], [0.7, 0.0]]]


def _with(name: str, *arguments: Any, **options: Any) -> Callable[[Any], Any]:
    def make(lib: Any) -> Any:
        values = [tensor(lib, a) if isinstance(a, list) else a for a in arguments]
        values = [a(lib) if callable(a) else a for a in values]
        return getattr(lib.distributions.transforms, name)(*values, **options)

    return make


def _several(name: str, parts: list[Callable[[Any], Any]], **options: Any) -> Callable[[Any], Any]:
    return lambda lib: getattr(lib.distributions.transforms, name)(
        [part(lib) for part in parts], **options
    )


_EXP, _TANH, _STICK = _with("ExpTransform"), _with("TanhTransform"), _with("StickBreakingTransform")
_AFFINE = _with("AffineTransform", [0.5, 1.0, -1.0], [[2.0], [-3.0]])

TRANSFORMS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "abs": (_with("AbsTransform"), _ROWS),
    "affine": (_AFFINE, _ROWS),
    "affine numbers": (_with("AffineTransform", 1.0, -0.5), _ROWS),
    "affine vectors": (_with("AffineTransform", [0.5], [1.0, 2.0, -3.0], event_dim=1), _ROWS),
    "cat": (_several("CatTransform", [_EXP, _TANH], dim=-1, lengths=[1, 2]), _ROWS),
    "cat of batch": (_several("CatTransform", [_EXP, _TANH], dim=0), _ROWS),
    "cat of vectors": (
        _several("CatTransform", [_with("SoftmaxTransform"), _with("SoftmaxTransform")], dim=0),
        _ROWS,
    ),
    "compose": (_several("ComposeTransform", [_AFFINE, _TANH, _EXP]), _ROWS),
    "compose vectors": (_several("ComposeTransform", [_TANH, _STICK, _EXP]), _ROWS),
    "compose nothing": (_several("ComposeTransform", []), _ROWS),
    "corr cholesky": (_with("CorrCholeskyTransform"), _ROWS),
    "cumulative": (
        _with(
            "CumulativeDistributionTransform",
            lambda lib: lib.distributions.Normal(tensor(lib, 0.5), tensor(lib, 2.0)),
        ),
        _ROWS,
    ),
    "exp": (_EXP, _ROWS),
    "independent": (_with("IndependentTransform", _EXP, 1), _ROWS),
    "inverse": (lambda lib: _EXP(lib).inv, _POSITIVE),
    "inverse compose": (lambda lib: TRANSFORMS["compose"][0](lib).inv, _POSITIVE),
    "lower cholesky": (_with("LowerCholeskyTransform"), _MATRICES),
    "positive definite": (_with("PositiveDefiniteTransform"), _MATRICES),
    "power": (_with("PowerTransform", [2.0, -0.5, 1.0]), _POSITIVE),
    "reshape": (_with("ReshapeTransform", (3,), (3, 1)), _ROWS),
    "sigmoid": (_with("SigmoidTransform"), _ROWS),
    "softmax": (_with("SoftmaxTransform"), _ROWS),
    "softplus": (_with("SoftplusTransform"), _ROWS),
    "stack": (_several("StackTransform", [_EXP, _TANH], dim=0), _ROWS),
    "stick breaking": (_STICK, _ROWS),
    "tanh": (_TANH, _ROWS),
}


def outcome(function: Callable[[], Any]) -> Any:
    try:
        result = function()
    except Exception as error:
        return type(error)
    return result.detach().numpy() if hasattr(result, "detach") else result


def same(own: Any, other: Any) -> None:
    if isinstance(other, np.ndarray):
        assert own.shape == other.shape
        np.testing.assert_allclose(own, other, rtol=1e-9, atol=1e-12)
    else:
        assert repr(own) == repr(other)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transform_is_torchs(name):
    make, values = TRANSFORMS[name]
    results = []
    for lib in (shmtensor, torch):
        transform, x = make(lib), tensor(lib, values).requires_grad_()
        y = transform(x)
        weights = lib.linspace(0.5, 1.5, y.numel()).reshape(y.shape)
        inverse = tensor(lib, y.tolist()).requires_grad_()
        results.append(
            [
                outcome(lambda y=y: y),
                outcome(lambda t=transform, i=inverse: t.inv(i)),
                outcome(lambda t=transform, x=x, y=y: t.log_abs_det_jacobian(x, y)),
                outcome(lambda x=x, y=y, w=weights: torch_like(y, w, x)),
                outcome(
                    lambda t=transform, x=x: torch_like(t.log_abs_det_jacobian(x, t(x)), 1.0, x)
                ),
                outcome(lambda t=transform: tuple(t.forward_shape((4, 2, 3)))),
                outcome(lambda t=transform, y=y: tuple(t.inverse_shape(y.shape))),
                transform.bijective,
                outcome(lambda t=transform: t.domain),
                outcome(lambda t=transform: t.codomain),
                outcome(lambda t=transform: t.event_dim),
                outcome(lambda t=transform: t.sign),
                outcome(lambda t=transform: t.codomain.event_dim),
            ]
        )
    for own, other in zip(*results, strict=True):
        same(own, other)


def torch_like(result: Any, weights: Any, x: Any) -> Any:
    """The derivative of a weighted sum."""
    (x_grad,) = (shmtensor if isinstance(x, shmtensor.Tensor) else torch).autograd.grad(
        (result * weights).sum(), [x]
    )
    return x_grad


@pytest.mark.check
@pytest.mark.parametrize("name", ["abs", "affine", "cat", "exp", "independent", "power", "stack"])
def test_a_cache_gives_the_same_objects_back(name):
    make, values = TRANSFORMS[name]
    transform = make(shmtensor).with_cache(1)
    x = tensor(shmtensor, values if name != "abs" else _POSITIVE)
    y = transform(x)
    assert transform(x) is y
    assert transform.inv(y) is x
    assert transform.with_cache(1) is transform
    assert transform.with_cache(0).inv(y) is not x


# What lies in a region and what does not, events of any shape.
CONSTRAINTS: dict[str, Any] = {
    "C.boolean": [0.0, 1.0, 0.5, -1.0],
    "C.one_hot": [[0.0, 1.0], [1.0, 1.0], [0.0, 0.0], [0.5, 0.5]],
    "C.nonnegative_integer": [0.0, 2.0, -1.0, 0.5],
    "C.positive_integer": [0.0, 2.0, -1.0, 1.0],
    "C.integer_interval(-1, 3)": [-2.0, -1.0, 3.0, 4.0, 0.5],
    "C.real": [1.0, float("nan"), float("inf")],
    "C.real_vector": [[1.0, 2.0], [1.0, float("nan")]],
    "C.positive": [0.0, 1e-300, -1.0],
    "C.nonnegative": [0.0, 1.0, -1.0],
    "C.greater_than(2)": [2.0, 3.0],
    "C.greater_than_eq(t([1.0, 2.0]))": [[1.0, 2.0], [0.5, 3.0]],
    "C.less_than(2)": [2.0, 1.0],
    "C.multinomial(3)": [[1.0, 2.0], [3.0, 1.0], [-1.0, 2.0], [0.0, 1.0]],
    "C.unit_interval": [0.0, 1.0, 1.5, -0.5],
    "C.interval(-1, 1)": [-1.0, 1.0, 1.1],
    "C.half_open_interval(-1, 1)": [-1.0, 1.0, 1.1],
    "C.simplex": [[0.3, 0.7], [0.3, 0.6], [-0.1, 1.1]],
    "C.lower_triangular": [[[1.0, 0.0], [2.0, -1.0]], [[1.0, 0.1], [2.0, 1.0]]],
    "C.lower_cholesky": [[[1.0, 0.0], [2.0, -1.0]], [[1.0, 0.0], [2.0, 1.0]]],
    "C.corr_cholesky": [[[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.6, 0.9]]],
    "C.square": [[[1.0, 0.0], [0.6, 0.8]]],
    "C.symmetric": [[[1.0, 0.5], [0.5, 0.8]], [[1.0, 0.5], [0.4, 0.8]]],
    "C.positive_semidefinite": [[[1.0, 1.0], [1.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]]],
    "C.positive_definite": [[[1.0, 0.5], [0.5, 1.0]], [[1.0, 2.0], [2.0, 1.0]]],
    "C.independent(C.positive, 1)": [[1.0, 2.0], [1.0, -2.0]],
    "C.cat([C.positive, C.less_than(0.0)], -1, [1, 2])": [[1.0, -2.0, 1.0], [-1.0, 2.0, -1.0]],
    "C.stack([C.positive, C.less_than(0.0)], 1)": [[1.0, -2.0], [-1.0, 2.0]],
    "C.MixtureSameFamilyConstraint(C.greater_than(t([0.0, 1.0])))": [0.5, 1.5],
}


def constraint(lib: Any, expression: str) -> Any:
    return eval(expression, {"C": lib.distributions.constraints, "t": lib.tensor})


@pytest.mark.parametrize("expression", CONSTRAINTS)
def test_constraint_says_what_torchs_says(expression):
    own, other = constraint(shmtensor, expression), constraint(torch, expression)
    values = CONSTRAINTS[expression]
    checked = own.check(tensor(shmtensor, values))
    assert checked.dtype is shmtensor.bool
    assert checked.tolist() == other.check(tensor(torch, values)).tolist()
    assert repr(own) == repr(other)
    assert (own.event_dim, own.is_discrete) == (other.event_dim, other.is_discrete)


@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
@pytest.mark.parametrize("expression", CONSTRAINTS)
def test_transforms_into_constraints(registry, expression):
    results = []
    for lib in (shmtensor, torch):
        region = constraint(lib, expression)

        def lead(lib: Any = lib, region: Any = region) -> Any:
            transform = getattr(lib.distributions, registry)(region)
            x = tensor(lib, _MATRICES if region.event_dim == 2 else _ROWS)
            if "corr" in expression or "cat" in expression:
                x = tensor(lib, [_ROWS[0]])
            if "stack" in expression or "t([" in expression:
                x = x[..., :2]
            y = transform(x)
            assert region.check(y).all()
            return y

        results.append(outcome(lead))
    same(*results)
