"""LU factors with row pivoting: residuals, pivots, matrices that are singular."""

from __future__ import annotations

import numpy as np
import pytest
from levels import LEVELS, found_at
from ops.linalg import lu_factors

import shmtensor

DTYPES = ["float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(500, 500), (300, 700), (90, 2, 2), (3, 0, 0)])
def test_residual_is_as_small_as_rounding(threads: int, dtype: str, shape: tuple[int, ...]) -> None:
    if 0 in shape:
        lu, pivots = shmtensor.linalg.lu_factor(shmtensor.ones(shape))
        assert lu.shape == shape
        assert pivots.shape == shape[:-1]
        return
    assert lu_factors.residual(dtype, *shape) <= (4 if dtype.startswith("c") else 1)


@pytest.mark.parametrize("level", LEVELS)
def test_every_level(level: str) -> None:
    for dtype, largest in found_at(level, lu_factors).items():
        assert largest <= (4 if dtype.startswith("c") else 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [4, 40])
@pytest.mark.parametrize("zero", [0, 2, 35])
def test_first_zero_pivot_is_told(dtype: str, n: int, zero: int) -> None:
    if zero >= n:
        zero = n - 1
    a = np.triu(np.random.default_rng(0).normal(size=(n, n))).astype(dtype)
    a[zero, zero] = 0
    a[n - 1, n - 1] = 0
    lu, pivots, info = shmtensor.linalg.lu_factor_ex(shmtensor.from_numpy(a))
    assert info.item() == zero + 1
    assert (lu.numpy() == a).all()
    assert pivots.tolist() == list(range(1, n + 1))


@pytest.mark.check
def test_first_of_equal_pivots_is_taken() -> None:
    a = shmtensor.tensor([[1.0, 2], [-1, 3], [1, 8]])
    assert shmtensor.linalg.lu_factor(a)[1].tolist() == [1, 3]


def test_tiny_pivots_divide() -> None:
    a = shmtensor.tensor([[2e-41, 1], [1e-41, 1]])  # the reciprocal of the first is infinite
    lu, _ = shmtensor.linalg.lu_factor(a)
    assert abs(lu[1, 0].item() - 0.5) < 1e-3
