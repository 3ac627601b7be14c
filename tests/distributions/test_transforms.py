"""Transforms: inverses, Jacobians, caches, what they say about themselves, pickles."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import pytest

import shmtensor as sh
import shmtensor.distributions as D
from shmtensor.distributions import constraints as C
from shmtensor.distributions import transforms as T


@pytest.fixture(autouse=True)
def _double_precision():
    sh.manual_seed(0)
    sh.set_default_dtype(sh.float64)
    yield
    sh.set_default_dtype(sh.float32)


def t(*values):
    """A vector, or a number alone."""
    return sh.tensor(values[0] if len(values) == 1 else list(values), dtype=sh.float64)


_VECTORS = T.IndependentTransform(T.ExpTransform(), 1)

# A transform, and one event of its domain.
CASES = {
    "abs": (T.AbsTransform(), t(0.3)),
    "affine": (T.AffineTransform(t(1.0), t(-2.0)), t(0.3)),
    "affine vector": (T.AffineTransform(1.0, -2.0, event_dim=1), t(0.3, 0.5, -1.0)),
    "affine vector by one scale": (
        T.AffineTransform(0.0, t(2.0), event_dim=1),
        t(0.3, 0.5, -1.0),
    ),
    "cat": (T.CatTransform([T.ExpTransform(), T.TanhTransform()], -1, [1, 2]), t(0.3, 0.5, -1.0)),
    "compose": (
        T.ComposeTransform([T.TanhTransform(), T.AffineTransform(1.0, 0.3), T.ExpTransform()]),
        t(0.3),
    ),
    "compose vector": (
        T.ComposeTransform([T.TanhTransform(), T.StickBreakingTransform()]),
        t(0.3, 0.5, -1.0),
    ),
    "corr cholesky": (T.CorrCholeskyTransform(), t(0.3, 0.5, -1.0)),
    "cumulative": (T.CumulativeDistributionTransform(D.Laplace(t(0.3), 2.0)), t(0.7)),
    "exp": (T.ExpTransform(), t(0.3)),
    "identity": (T.identity_transform, t(0.3)),
    "independent": (T.IndependentTransform(T.ExpTransform(), 1), t(0.3, 0.5, -1.0)),
    "inverse": (T.ExpTransform().inv, t(0.3)),
    "lower cholesky": (T.LowerCholeskyTransform(), t([0.3, 0.0], [0.5, -1.0])),
    "positive definite": (T.PositiveDefiniteTransform(), t([0.3, 0.0], [0.5, -1.0])),
    "power": (T.PowerTransform(t(-0.5)), t(0.3)),
    "reshape": (T.ReshapeTransform((4,), (2, 2)), t(0.3, 0.5, -1.0, 2.0)),
    "sigmoid": (T.SigmoidTransform(), t(0.3)),
    "softmax": (T.SoftmaxTransform(), t(0.3, 0.5, -1.0)),
    "softplus": (T.SoftplusTransform(), t(0.3)),
    "stack": (T.StackTransform([T.ExpTransform(), T.TanhTransform()], -1), t(0.3, -1.0)),
    "stack of vectors": (
        T.StackTransform([_VECTORS, T.AffineTransform(0.0, 2.0, event_dim=1)], -2),
        t([0.3, 0.5], [-1.0, 0.2]),
    ),
    "stick breaking": (T.StickBreakingTransform(), t(0.3, 0.5, -1.0)),
    "tanh": (T.TanhTransform(), t(0.3)),
}
all_cases = pytest.mark.parametrize("name", CASES)


@pytest.mark.check
@all_cases
def test_the_inverse_leads_back(name):
    transform, x = CASES[name]
    y = transform(x)
    assert transform.domain.check(x).all()
    assert transform.codomain.check(y).all()
    back = transform.inv(y)
    if name == "softmax":
        back = back - back[..., :1] + x[..., :1]
    assert sh.allclose(back, x)
    assert sh.allclose(transform.inv.inv(x), y)
    assert transform.inv.domain is transform.codomain or repr(transform.inv.domain) == repr(
        transform.codomain
    )


@all_cases
def test_shapes_are_foretold(name):
    transform, x = CASES[name]
    batch = x.expand(5, *x.shape)
    y = transform(batch)
    assert tuple(transform.forward_shape(batch.shape)) == tuple(y.shape)
    assert tuple(transform.inverse_shape(y.shape)) == tuple(batch.shape)


@all_cases
def test_the_jacobian_is_the_determinant(name):
    transform, x = CASES[name]
    if not transform.bijective:
        with pytest.raises(NotImplementedError):
            transform.log_abs_det_jacobian(x, transform(x))
        return
    jacobian = sh.autograd.functional.jacobian(transform, x)
    y = transform(x)
    rows = jacobian.reshape(y.numel(), x.numel())
    if name == "corr cholesky":
        rows = rows.reshape(3, 3, 3)[sh.tril_indices(3, 3, -1).unbind()]
    elif name in ("stick breaking", "compose vector"):
        rows = rows[:-1]  # the last part is what the others leave
    expected = sh.linalg.slogdet(rows).logabsdet if rows.numel() > 1 else rows.abs().log().sum()
    got = transform.log_abs_det_jacobian(x, y)
    assert got.sum().item() == pytest.approx(expected.item(), rel=1e-9, abs=1e-12)
    inverse = transform.inv.log_abs_det_jacobian(y, x)
    assert sh.allclose(inverse, -got)
    dims = x.dim() - transform.domain.event_dim
    assert got.dim() == dims


@all_cases
def test_pickles_and_copies_do_the_same(name):
    transform, x = CASES[name]
    kept = transform.inv  # must not come along
    for other in (pickle.loads(pickle.dumps(transform)), copy.deepcopy(transform)):
        assert sh.equal(other(x), transform(x))
        assert sh.allclose(other.inv(other(x)), kept(transform(x)))
    assert type(transform).__module__ == "shmtensor.distributions.transforms"


def test_the_sign_tells_rising_from_falling():
    assert T.ExpTransform().sign == 1
    assert T.AffineTransform(0.0, -2.0).sign == -1
    assert T.AffineTransform(0.0, t(-2.0, 3.0)).sign.tolist() == [-1.0, 1.0]
    assert T.PowerTransform(t(-2.0)).sign.item() == -1.0
    falling = T.ComposeTransform([T.ExpTransform(), T.AffineTransform(1.0, -1.0)])
    assert falling.sign == -1
    assert falling.inv.sign == -1
    with pytest.raises(NotImplementedError):
        T.ComposeTransform([T.AbsTransform()]).sign


def test_equal_transforms():
    same = [
        (T.ExpTransform(), T.ExpTransform()),
        (T.AffineTransform(1.0, 2.0), T.AffineTransform(1.0, 2.0)),
        (T.AffineTransform(t(1.0), 2.0), T.AffineTransform(t(1.0), 2.0)),
        (T.PowerTransform(t(2.0)), T.PowerTransform(t(2.0))),
        (T.ComposeTransform([T.ExpTransform()]), T.ComposeTransform([T.ExpTransform()])),
        (T.ExpTransform().inv, T.ExpTransform().inv),
    ]
    for one, other in same:
        assert one == other
        assert not (one != other)  # noqa: SIM202 - another method
    different = [
        (T.ExpTransform(), T.AbsTransform()),
        (T.AffineTransform(1.0, 2.0), T.AffineTransform(1.0, 3.0)),
        (T.ExpTransform(), T.ExpTransform().inv),
        (T.ComposeTransform([]), T.ComposeTransform([T.ExpTransform()])),
    ]
    for one, other in different:
        assert one != other
    with pytest.raises(TypeError):
        hash(T.ExpTransform())


@pytest.mark.check
def test_a_cache_holds_the_last_pair():
    transform = T.ExpTransform(cache_size=1)
    x = sh.randn(3)
    y = transform(x)
    assert transform(x) is y
    assert transform.inv(y) is x
    other = sh.randn(3)
    assert transform(other) is not y
    assert transform.inv(y) is not x
    composed = T.ComposeTransform([T.ExpTransform(), T.TanhTransform()], cache_size=1)
    assert composed.inv(composed(x)) is x


def test_a_transform_and_its_inverse_hold_each_other_weakly():
    transform = T.ExpTransform()
    inverse = transform.inv
    assert transform.inv is inverse
    assert inverse.inv is transform
    gone = weakref.ref(transform)
    del transform, inverse
    gc.collect()
    assert gone() is None


def test_a_subclass_needs_only_its_calculation():
    class Cube(T.Transform):
        domain = C.real
        codomain = C.real
        bijective = True
        sign = 1

        def _call(self, x):
            return x**3

        def _inverse(self, y):
            return y.sign() * y.abs() ** (1 / 3)

        def log_abs_det_jacobian(self, x, y):
            return (3 * x**2).log()

    d = D.TransformedDistribution(D.Normal(0.5, 1.0), [Cube()])
    y = d.sample((2000,))
    assert d.cdf(sh.tensor(0.5**3)).item() == pytest.approx(0.5)
    assert d.log_prob(y).isfinite().all()
    assert Cube().with_cache()._cache_size == 1
    assert Cube() != Cube()


def test_transforms_into_regions_are_found_by_class():
    class Even(C.Constraint):
        pass

    with pytest.raises(NotImplementedError, match="Cannot transform Even constraints"):
        D.transform_to(Even())

    @D.transform_to.register(Even)
    def _to_even(constraint):
        return T.AffineTransform(0.0, 2.0)

    assert D.transform_to(Even())(t(3.0)).item() == 6.0
    D.biject_to.register(Even(), lambda constraint: T.identity_transform)
    assert D.biject_to(Even()) is T.identity_transform
    with pytest.raises(TypeError, match="Expected constraint to be either"):
        D.biject_to.register(int, lambda constraint: None)


def test_parameters_can_be_learned_through_their_constraints():
    sh.manual_seed(3)
    data = D.Gamma(3.0, 2.0).sample((500,))
    names = D.Gamma.arg_constraints
    free = {name: sh.zeros((), requires_grad=True) for name in names}
    for _ in range(400):
        values = {name: D.transform_to(names[name])(value) for name, value in free.items()}
        loss = -D.Gamma(**values).log_prob(data).mean()
        gradients = sh.autograd.grad(loss, list(free.values()))
        with sh.no_grad():
            for value, gradient in zip(free.values(), gradients, strict=True):
                value -= 0.3 * gradient
    assert values["concentration"].item() == pytest.approx(3.0, rel=0.2)
    assert values["rate"].item() == pytest.approx(2.0, rel=0.2)


def test_triangles_become_vectors_and_back():
    from shmtensor.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix

    matrix = sh.arange(1.0, 17.0).reshape(4, 4)
    for diagonal in range(-4, 4):
        vector = tril_matrix_to_vec(matrix, diagonal)
        assert vector.tolist() == [
            matrix[i, j].item() for i in range(4) for j in range(4) if j <= i + diagonal
        ]
        if vector.numel():
            assert sh.equal(vec_to_tril_matrix(vector, diagonal), matrix.tril(diagonal))
    batch = sh.randn(2, 3, 6)
    assert vec_to_tril_matrix(batch).shape == (2, 3, 3, 3)
    with pytest.raises(ValueError, match="size of last dimension is 5"):
        vec_to_tril_matrix(sh.randn(5))
    with pytest.raises(ValueError, match="provided is outside"):
        tril_matrix_to_vec(matrix, 4)


def test_triangles_are_of_matrices():
    for call in (
        C.lower_cholesky.check,
        C.corr_cholesky.check,
        T.LowerCholeskyTransform(),
        T.LowerCholeskyTransform().inv,
        T.PositiveDefiniteTransform(),
    ):
        with pytest.raises(RuntimeError, match="tril: input tensor must have at least 2 dim"):
            call(sh.ones(2))
