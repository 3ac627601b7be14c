"""Distances to so many rows that these are transposed a block at a time."""

from __future__ import annotations

import pytest
from peak import peak

import shmtensor as sh
from shmtensor.nn import functional as F

NORMS = [0.0, 1.0, 2.0, float("inf")]


def differences(x: sh.Tensor, y: sh.Tensor, p: float) -> sh.Tensor:
    pairs = (x.double().unsqueeze(-2) - y.double().unsqueeze(-3)).abs()
    if p == 0:
        return (pairs != 0).sum(-1).double()
    return pairs.amax(-1) if p == float("inf") else pairs.pow(p).sum(-1).pow(1 / p)


@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(sh.float64, 1e-13), (sh.float32, 1e-6)])
def test_distances_of_many_rows(threads, dtype, tolerance, p):
    x, y = sh.randn(2, 9, 210).to(dtype), sh.randn(301, 210).to(dtype)
    y[5] = x[0, 3]
    expected = differences(x, y, p)
    for left, right in ((x, y), (x.mT.contiguous().mT, y.T.contiguous().T)):
        found = sh.cdist(left, right, p, compute_mode="donot_use_mm_for_euclid_dist")
        assert found.shape == (2, 9, 301)
        assert ((found.double() - expected).abs() <= tolerance * (1 + expected)).all()


@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("rows", [2, 63, 64, 65, 300])
def test_distances_of_pairs_of_many_rows(threads, rows, p):
    for dtype, tolerance in ((sh.float64, 1e-13), (sh.float32, 1e-6)):
        x = sh.randn(rows, 170).to(dtype)
        i, j = sh.triu_indices(rows, rows, 1)
        expected = differences(x, x, p)[i, j]
        assert ((F.pdist(x, p).double() - expected).abs() <= tolerance * (1 + expected)).all()


@pytest.mark.check
def test_memory_of_distances(threads):
    x = sh.randn(256, 512, dtype=sh.float64)
    assert peak(lambda: sh.cdist(x, x, 1)) <= (256 * 256 * 8 + (260 << 10)) * 9 // 8
    assert peak(lambda: F.pdist(x, 1)) <= (128 * 255 * 8 + (260 << 10)) * 9 // 8


def slopes(x: sh.Tensor, y: sh.Tensor, p: float, weights: sh.Tensor) -> list[sh.Tensor]:
    """Return the gradients of both by the differences of all pairs, in double precision."""
    wide = [x.double().requires_grad_(), y.double().requires_grad_()]
    sh.norm(wide[0].unsqueeze(-2) - wide[1].unsqueeze(-3), p, -1).backward(weights.double())
    return [w.grad for w in wide]


@pytest.mark.parametrize("p", [1.0, 2.0, float("inf")])
@pytest.mark.parametrize("length", [1, 7, 16, 17, 40, 63, 100, 131])
@pytest.mark.parametrize(("dtype", "tolerance"), [(sh.float64, 1e-12), (sh.float32, 2e-4)])
def test_gradients_of_many_distances(threads, dtype, tolerance, length, p):
    x, y = sh.randn(2, 7, length).to(dtype), sh.randn(2, 1031, length).to(dtype)
    weights = sh.randn(2, 1031, 7).to(dtype).mT
    expected = slopes(x, y, p, weights)
    x.requires_grad_()
    y.requires_grad_()
    sh.cdist(x, y, p, compute_mode="donot_use_mm_for_euclid_dist").backward(weights)
    for found, right in zip((x.grad, y.grad), expected, strict=True):
        assert ((found.double() - right).abs() <= tolerance * (1 + right.abs())).all()


@pytest.mark.parametrize("length", [3, 40])
def test_equal_rows_and_rows_that_are_not_finite_have_the_gradients_of_their_differences(length):
    x = sh.randn(9, length)
    y = sh.randn(11, length)
    y[2] = x[3]
    x[8, 2] = float("inf")
    weights = sh.ones(9, 11)
    weights[5, 4] = float("nan")
    x.requires_grad_()
    y.requires_grad_()
    sh.cdist(x, y).backward(weights)
    assert x.grad.isnan().sum(1).tolist() == [0, 0, 0, 0, 0, length, 0, 0, 1]
    assert y.grad.isnan().sum(1).tolist() == [length if j == 4 else 1 for j in range(11)]
