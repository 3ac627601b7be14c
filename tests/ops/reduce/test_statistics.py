"""diff, trapezoid, quantile and cov against NumPy; gradients and errors."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import shmtensor as st

RNG = np.random.default_rng(5)
MATRIX = RNG.normal(size=(4, 6))
HOLED = np.where(MATRIX > 1, np.nan, MATRIX)


def tensor(a: Any) -> Any:
    return st.from_numpy(np.array(a))


def leaf(*sizes: int) -> Any:
    return st.randn(*sizes, dtype=st.float64).requires_grad_()


@pytest.mark.check
@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("dim", [0, 1])
def test_diff_equals_numpy(n: int, dim: int) -> None:
    got = st.diff(tensor(MATRIX), n, dim)
    want = np.diff(MATRIX, n, axis=dim)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


def test_diff_joins_and_tells_bools_apart() -> None:
    row = st.tensor([1, 4, 9])
    assert st.diff(row, prepend=row[:1], append=st.tensor([16, 25])).tolist() == [0, 3, 5, 7, 9]
    assert st.diff(st.tensor([True, True, False])).tolist() == [False, True]
    with pytest.raises(RuntimeError, match="same dimension"):
        st.diff(row, prepend=st.zeros(1, 1))
    with pytest.raises(RuntimeError, match="at least one-dimensional"):
        st.diff(st.tensor(1.0))


def test_trapezoid_integrates_over_points_and_steps() -> None:
    x = np.array([0.0, 1.0, 3.0, 3.5, 5.0, 9.0])
    want = ((MATRIX[:, 1:] + MATRIX[:, :-1]) * np.diff(x) / 2).cumsum(1)
    y = tensor(MATRIX)
    np.testing.assert_allclose(st.cumulative_trapezoid(y, tensor(x)).numpy(), want, rtol=1e-12)
    np.testing.assert_allclose(st.trapezoid(y, tensor(x)).numpy(), want[:, -1], rtol=1e-12)
    assert st.trapz(st.tensor([1.0, 2.0, 3.0]), dx=2.0).item() == 8
    assert st.trapezoid(st.zeros(2, 0)).tolist() == [0.0, 0.0]
    with pytest.raises(RuntimeError, match="one `x` value for each sample"):
        st.trapezoid(y, st.arange(3.0))
    with pytest.raises(RuntimeError, match="bool"):
        st.trapezoid(st.tensor([True, False]))


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "nearest", "midpoint"])
@pytest.mark.parametrize("dim", [None, 0, 1])
def test_quantile_equals_numpy(interpolation: Any, dim: int | None) -> None:
    q = [0.0, 0.17, 0.5, 0.93, 1.0]
    got = st.quantile(tensor(MATRIX), tensor(q), dim=dim, interpolation=interpolation)
    want = np.quantile(MATRIX, q, axis=dim, method=interpolation)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)
    one = st.quantile(tensor(MATRIX), 0.17, dim=dim, keepdim=True, interpolation=interpolation)
    want = np.quantile(MATRIX, 0.17, axis=dim, keepdims=True, method=interpolation)
    np.testing.assert_allclose(one.numpy(), want, rtol=1e-12)


def test_quantile_and_nanquantile_of_nan() -> None:
    got = st.quantile(tensor(HOLED), 0.5, dim=1)
    np.testing.assert_array_equal(np.isnan(got.numpy()), np.isnan(HOLED).any(1))
    got = tensor(HOLED).nanquantile(0.3, dim=1)
    np.testing.assert_allclose(got.numpy(), np.nanquantile(HOLED, 0.3, axis=1), rtol=1e-12)
    assert math.isnan(st.nanquantile(st.full((3,), math.nan), 0.5).item())


@pytest.mark.parametrize(
    ("q", "kwargs", "message"),
    [
        (1.5, {}, "in the range"),
        (0.5, {"interpolation": "cubic"}, "must be one of"),
        (st.tensor([2.0], dtype=st.float64), {}, "in the range"),
        (st.tensor([0.5]), {}, "same dtype"),
        (st.zeros(1, 1, dtype=st.float64), {}, "scalar or 1D"),
    ],
)
def test_quantile_refuses(q: Any, kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        st.quantile(tensor(MATRIX), q, **kwargs)


def test_cov_equals_numpy() -> None:
    fweights, aweights = np.array([1, 0, 3, 2, 1, 1]), np.array([0.5, 1, 2, 0.1, 0.3, 1])
    x, f, a = tensor(MATRIX), tensor(fweights), tensor(aweights)
    cases: list[dict[str, Any]] = [{}, {"correction": 0}, {"fweights": f}, {"aweights": a}]
    cases.append({"fweights": f, "aweights": a, "correction": 2})
    for case in cases:
        plain = {k: v.numpy() if isinstance(v, st.Tensor) else v for k, v in case.items()}
        want = np.cov(MATRIX, ddof=plain.pop("correction", 1), **plain)
        np.testing.assert_allclose(st.cov(x, **case).numpy(), want, rtol=1e-10)
    np.testing.assert_allclose(st.corrcoef(x).numpy(), np.corrcoef(MATRIX), rtol=1e-10)
    pair = tensor(MATRIX[:2] + 1j * MATRIX[2:])
    np.testing.assert_allclose(st.corrcoef(pair).numpy(), np.corrcoef(pair.numpy()), rtol=1e-10)


def test_cov_warns_and_refuses() -> None:
    with pytest.warns(UserWarning, match="degrees of freedom"):
        assert math.isinf(st.cov(st.tensor([1.0, 2.0]), correction=2).item())
    with pytest.raises(RuntimeError, match="two or fewer dimensions"):
        st.cov(st.zeros(1, 1, 1))
    with pytest.raises(RuntimeError, match="cannot be negative"):
        st.cov(st.zeros(2, 2), fweights=st.tensor([1, -1]))
    with pytest.raises(RuntimeError, match="integral dtype"):
        st.cov(st.zeros(2, 2), fweights=st.ones(2))


def test_renorm_scales_only_what_is_too_long() -> None:
    x = st.tensor([[3.0, 4.0], [0.3, 0.4]])
    got = st.renorm(x, 2, 0, 1.0)
    assert got[1].tolist() == x[1].tolist()
    assert got[0].norm().item() == pytest.approx(1, rel=1e-6)
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        st.renorm(x[0], 2, 0, 1.0)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: st.diff(x, 2, prepend=x[:, :1]),
        lambda x: st.trapezoid(x, x, dim=0),
        lambda x: st.cumulative_trapezoid(x, dx=0.3),
        lambda x: st.quantile(x, 0.3, dim=1),
        lambda x: st.nanquantile(x, 0.3),
        st.cov,
        st.corrcoef,
        lambda x: st.dist(x, 2 * x, 3),
        lambda x: st.renorm(x, 2, 0, 0.4),
        lambda x: st.trace(x),
    ],
)
def test_gradient(function: Any) -> None:
    st.manual_seed(1)
    assert st.autograd.gradcheck(function, (leaf(3, 4),))


@pytest.mark.check
@pytest.mark.parametrize("edge_order", [1, 2])
def test_gradient_of_samples_equals_numpy(edge_order: Any) -> None:
    x = tensor(MATRIX)
    for got, want in zip(
        st.gradient(x, edge_order=edge_order),
        np.gradient(MATRIX, edge_order=edge_order),
        strict=True,
    ):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)
    at = np.array([0.0, 1.0, 3.0, 3.5, 5.0, 9.0])
    (got,) = st.gradient(x, spacing=(tensor(at),), dim=1, edge_order=edge_order)
    want = np.gradient(MATRIX, at, axis=1, edge_order=edge_order)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-10)
    assert st.gradient(x, dim=()) == ()
    with pytest.raises(RuntimeError, match="list of length 1"):
        st.gradient(x, spacing=[1.0])
    with pytest.raises(RuntimeError, match=r"at least edge_order\+1"):
        st.gradient(x[:1])


def test_histogram_equals_numpy() -> None:
    x = tensor(MATRIX)
    for kwargs in ({"bins": 5}, {"bins": 4, "range": (-1.0, 1.0)}):
        hist, edges = st.histogram(x, **kwargs)
        want, want_edges = np.histogram(MATRIX, **kwargs)  # type: ignore[call-overload]
        assert hist.tolist() == want.tolist()
        np.testing.assert_allclose(edges.numpy(), want_edges, rtol=1e-12)
    bins, weights = np.array([-1.0, -0.2, 0.5, 2.0]), np.abs(MATRIX)
    got = x.histogram(tensor(bins), weight=tensor(weights), density=True).hist
    want, _ = np.histogram(MATRIX, bins, weights=weights, density=True)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


def test_histogram_edges_and_refusals() -> None:
    assert st.histogram(st.ones(3), 2).bin_edges.tolist() == [0.5, 1.0, 1.5]
    assert st.histogram(st.zeros(0), 2).bin_edges.tolist() == [0.0, 0.5, 1.0]
    edges = st.tensor([0.0, 1.0, 2.0])
    assert st.histogram(st.tensor([2.0, math.nan, -1.0]), edges).hist.tolist() == [0.0, 1.0]
    with pytest.raises(RuntimeError, match="not finite"):
        st.histogram(st.tensor([math.inf]), 2)
    with pytest.raises(RuntimeError, match="bins must be > 0"):
        st.histogram(st.ones(3), 0)
    with pytest.raises(NotImplementedError, match="Long"):
        st.histogram(st.arange(3), 2)


def test_histogramdd_equals_numpy() -> None:
    cloud = np.random.default_rng(1).normal(size=(50, 3))
    hist, edges = st.histogramdd(tensor(cloud), [2, 3, 4])
    want, want_edges = np.histogramdd(cloud, [2, 3, 4])
    assert hist.tolist() == want.tolist()
    for got, expected in zip(edges, want_edges, strict=True):
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12)
    dense = st.histogramdd(tensor(cloud), 3, range=[-2, 2] * 3, density=True).hist
    want, _ = np.histogramdd(cloud, 3, range=[(-2, 2)] * 3, density=True)
    np.testing.assert_allclose(dense.numpy(), want, rtol=1e-12)


def test_histogramdd_of_edges_that_fall_counts_by_bisection() -> None:
    # The middle of -8, -2, -4, -3 is -4: -3.5 is above it and below -3, so in bin 2; -5 is below
    # it and below -2, so in bin 0.
    edges = tensor([-8.0, -2.0, -4.0, -3.0])
    points = tensor([[-3.5], [-5.0], [-2.5], [-8.0], [-3.0], [-9.0], [math.nan]])
    assert st.histogramdd(points, [edges]).hist.tolist() == [2.0, 0.0, 2.0]
    falling = tensor([1.0, 0.0])
    assert st.histogramdd(tensor([[0.5], [0.0]]), [falling]).hist.tolist() == [0.0]


def test_combinations_and_unravel_index() -> None:
    x = st.tensor([4, 7, 9, 2])
    for r, again in itertools.product(range(1, 6), [False, True]):
        pick = itertools.combinations_with_replacement if again else itertools.combinations
        want = [list(c) for c in pick(x.tolist(), r)]
        assert st.combinations(x, r, again).tolist() == want
    assert st.combinations(x, 0).shape == (0,)
    at = st.unravel_index(st.tensor([[5], [22]]), (2, 3, 4))
    assert [t.tolist() for t in at] == [[[0], [1]], [[1], [2]], [[1], [2]]]
    with pytest.raises(TypeError, match="integer dtype"):
        st.unravel_index(st.ones(1), 3)
    with pytest.raises(ValueError, match="negative"):
        st.unravel_index(x, (2, -1))


@pytest.mark.parametrize("edges", [[0.0, 1.0, 5.0, 7.0, 50.0], [0.0, 5.0, 3.0, 7.0]])
def test_histogram_of_several_blocks(edges: list[float]) -> None:
    rng = np.random.default_rng(3)
    a, w = rng.integers(-3, 60, (3, 7001)).astype("float64"), rng.integers(0, 9, (3, 7001))
    for x, weight in ((a, w.astype("float64")), (a.T, w.T.astype("float64"))):
        whole = st.histogram(
            st.from_numpy(x), st.tensor(edges, dtype=st.float64), weight=st.from_numpy(weight)
        )
        parts = sum(
            st.histogram(
                st.from_numpy(x[i : i + 1]),
                st.tensor(edges, dtype=st.float64),
                weight=st.from_numpy(weight[i : i + 1]),
            ).hist.numpy()
            for i in range(len(x))
        )
        assert np.array_equal(whole.hist.numpy(), parts)
    pairs = a[:2].T.copy()
    hist, _ = st.histogramdd(st.from_numpy(pairs), [4, 5], range=[0, 20, 0, 50])
    expected, _ = np.histogramdd(pairs, [4, 5], range=[(0, 20), (0, 50)])
    assert np.array_equal(hist.numpy(), expected)


def test_counts_of_nothing() -> None:
    nothing = st.empty(0, dtype=st.int64)
    assert st.bincount(nothing, st.ones(0)).dtype is st.int64
    assert st.bincount(nothing, st.ones(3), 2).tolist() == [0, 0]
    assert st.hash_tensor(st.empty(0, 3), 1).shape == (0,)
    with pytest.raises(RuntimeError, match="Specify the reduction dim"):
        st.hash_tensor(st.empty(0, 3))
    with pytest.raises(IndexError, match="dim 0 to have non-zero size"):
        st.hash_tensor(st.empty(0, 3), 0)


def test_renorm_is_contiguous() -> None:
    assert st.ones(3, 4).t().renorm(2, 0, 1.0).stride() == (3, 1)
