"""Gamma and Dirichlet draws and their derivatives, as operators."""

from __future__ import annotations

import math

import numpy as np
import pytest

import shmtensor as st

# torch 2.13's for manual_seed(0), float32, on the CPU.
_SHAPES = [0.3, 1.0, 2.5, 40.0]
_GAMMA = [5.90695163e-06, 0.118983701, 2.41141939, 35.9684296]
_DIRICHLET = [1.53431998e-07, 0.00309057906, 0.0626361594, 0.934273124]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    st.manual_seed(0)


@pytest.mark.check
def test_draws_of_a_seed_are_torchs() -> None:
    shapes = st.tensor(_SHAPES)
    assert st._standard_gamma(shapes).tolist() == pytest.approx(_GAMMA, rel=2e-6)
    st.manual_seed(0)
    assert st._sample_dirichlet(shapes).tolist() == pytest.approx(_DIRICHLET, rel=2e-6)


@pytest.mark.parametrize("shape", [0.05, 0.5, 1.0, 3.0, 50.0])
def test_draws_have_the_distribution(shape: float) -> None:
    n = 4000
    drawn = st._standard_gamma(st.full((n,), shape, dtype=st.float64))
    u = np.sort(st.special.gammainc(st.tensor(shape, dtype=st.float64), drawn).numpy())
    steps = np.arange(1, n + 1) / n
    # Kolmogorov's statistic exceeds 2 with a probability of 0.0007.
    assert max(np.abs(u - steps).max(), np.abs(u - steps + 1 / n).max()) * math.sqrt(n) < 2


def test_rows_sum_to_one_also_of_tiny_shapes() -> None:
    weights = st.tensor([1e-4, 2e-4, 1e-4], dtype=st.float64).expand(2000, 3)
    drawn = st._sample_dirichlet(weights)
    np.testing.assert_allclose(drawn.sum(-1).numpy(), 1, rtol=1e-12)
    assert (drawn > 0).all()
    assert (drawn < 1).all()
    # Nearly all of a row's weight is at one place, chosen by its share.
    largest = np.bincount(drawn.argmax(-1).numpy(), minlength=3) / 2000
    np.testing.assert_allclose(largest, [0.25, 0.5, 0.25], atol=0.05)


@pytest.mark.check
def test_draws_of_any_layout_are_those_of_the_elements_in_order() -> None:
    shapes = st.rand(6, 4).mul(5).add(0.1)
    plain = st._standard_gamma(shapes)
    for same in (shapes.t().contiguous().t(), shapes.flip(0).flip(0), shapes[:, None].squeeze(1)):
        st.manual_seed(0)
        st.rand(24)
        drawn = st._standard_gamma(same)
        assert drawn.is_contiguous()
        assert st.equal(drawn, plain)
    assert st._standard_gamma(st.ones(0, 3)).shape == (0, 3)
    assert st._standard_gamma(st.tensor(2.0)).shape == ()


def test_what_is_refused_and_what_has_no_number() -> None:
    for dtype in (st.int64, st.float16, st.complex64):
        with pytest.raises(NotImplementedError, match='"gamma_cpu" not implemented'):
            st._standard_gamma(st.ones(2, dtype=dtype))
        with pytest.raises(NotImplementedError, match='"dirichlet" not implemented'):
            st._sample_dirichlet(st.ones(2, dtype=dtype))
    with pytest.raises(RuntimeError, match="Found dtype Double but expected Float"):
        st._standard_gamma_grad(st.ones(2), st.ones(2, dtype=st.float64))
    tiny = st.finfo(st.float32).tiny
    assert st._standard_gamma(st.tensor([0.0, 1e-6])).tolist() == pytest.approx([tiny, tiny])
    odd = st.tensor([0.0, -1.0, float("nan"), float("inf")])
    assert st._standard_gamma_grad(odd, st.ones(4)).isnan().all()
    assert st._standard_gamma_grad(st.tensor(2.0), st.tensor(0.0)).item() == 0
    assert st._standard_gamma(st.ones(2, device="meta")).shape == (2,)
    assert st._sample_dirichlet(st.ones(2, device="meta")).shape == (2,)


# Calculated with mpmath in 40 digits: shape, draw, derivative.
_GAMMA_SLOPES = [
    (0.05, 1e-09, 4.045084173163175e-7),
    (0.05, 0.4, 8.821561627884233),
    (0.3, 2.0, 3.564110321246921),
    (1.0, 1.0, 1.173563027224727),
    (1.5, 0.02, 0.06207392714942539),
    (1.5, 9.0, 2.385863180399231),
    (5.0, 5.0, 1.033919352112707),
    (30.0, 22.0, 0.8576622327358906),
    (30.0, 45.0, 1.223142506370333),
    (399.0, 380.0, 0.9762109542455244),
    (500.0, 470.0, 0.9697044733150038),
    (500.0, 560.0, 1.058086897780105),
    (100000.0, 99800.0, 0.9990009976661943),
    (100000.0, 100300.0, 1.001500171411301),
    (100000000.0, 100010000.0, 1.000050000000167),
]


@pytest.mark.parametrize(("shape", "draw", "slope"), _GAMMA_SLOPES)
def test_a_draw_moves_with_its_shape_at_the_same_quantile(shape, draw, slope) -> None:
    tensors = [st.tensor(x, dtype=st.float64) for x in (shape, draw)]
    assert st._standard_gamma_grad(*tensors).item() == pytest.approx(slope, rel=1e-12)


# x, alpha and beta, and dx/dalpha / (1 - x).
_BETA_SLOPES = [
    (0.3, 2.0, 3.0, 0.19929845136599),
    (0.9, 2.0, 3.0, 0.34450756943448),
    (1e-06, 0.05, 0.3, 0.00032577482462303),
    (0.999, 0.3, 0.02, 11.530192729742),
    (0.98, 1.0, 0.01, 1.6131183245599),
    (0.01, 0.2, 9.0, 0.11923783782371),
    (0.6, 50.0, 30.0, 0.012338342761223),
    (0.2, 50.0, 300.0, 0.0033794156642392),
    (0.499, 1000.0, 1000.0, 0.00049966615781137),
    (0.51, 20000.0, 20000.0, 2.524877165296e-5),
    (0.999, 2000.0, 2.0, 0.00049962506240626),
    (0.0007, 1.5, 3000.0, 0.00043819606669121),
    (0.96, 8.0, 0.4, 0.12705445472849),
]


@pytest.mark.parametrize(("x", "alpha", "beta", "slope"), _BETA_SLOPES)
def test_a_beta_draw_moves_with_its_weight(x, alpha, beta, slope) -> None:
    tensors = [st.tensor(v, dtype=st.float64) for v in (x, alpha, alpha + beta)]
    assert st._dirichlet_grad(*tensors).item() == pytest.approx(slope, rel=1e-9)


def test_derivatives_of_draws() -> None:
    shapes = st.tensor([0.5, 2.0, 3.0], dtype=st.float64, requires_grad=True)
    drawn = st._standard_gamma(shapes)
    (slope,) = st.autograd.grad(drawn.sum(), [shapes], create_graph=True)
    assert st.equal(slope, st._standard_gamma_grad(shapes, drawn))
    with pytest.raises(RuntimeError, match="_standard_gamma_grad is not implemented"):
        st.autograd.grad(slope.sum(), [shapes])
    drawn = st._sample_dirichlet(shapes)
    jacobian = st.stack(
        [st.autograd.grad(drawn[i], [shapes], retain_graph=True)[0] for i in range(3)]
    )
    # Elements sum to 1 whatever the weights are, and each grows with its own.
    np.testing.assert_allclose(jacobian.sum(0).detach().numpy(), 0, atol=1e-12)
    assert (jacobian.diagonal() > 0).all()
