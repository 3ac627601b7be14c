"""Reductions of many rows, which are divided among threads."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st

SHAPES = [(1000, 7), (513, 70), (777, 300), (4100, 257), (520, 4000)]


@pytest.mark.parametrize("threads", [1, 2, 3], indirect=True)
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_reduced(shape: tuple[int, int], threads: int) -> None:
    # Small whole numbers: every order of addition gives the same.
    a = np.random.default_rng(3).integers(-9, 10, size=shape)
    x = st.from_numpy(a)
    for t in (x.float(), x.double(), x.bfloat16(), x):
        np.testing.assert_array_equal(t.float().sum(0).numpy(), a.sum(0))
        np.testing.assert_array_equal(t.amax(0).long().numpy(), a.max(0))
        np.testing.assert_array_equal(t.count_nonzero(0).numpy(), (a != 0).sum(0))
        np.testing.assert_array_equal((t == 9).any(0).numpy(), (a == 9).any(0))
    y = x.double()
    np.testing.assert_allclose(y.var(0).numpy(), a.var(0, ddof=1), rtol=1e-13)
    np.testing.assert_allclose(y.mean(0).numpy(), a.mean(0), rtol=1e-15, atol=1e-15)
    np.testing.assert_allclose(y.norm(dim=0).numpy(), np.sqrt((a * a).sum(0)), rtol=1e-15)


@pytest.mark.parametrize("threads", [1, 2, 3], indirect=True)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_first_of_equal_rows_is_the_place(shape: tuple[int, int], threads: int) -> None:
    a = np.random.default_rng(4).integers(-9, 10, size=shape)
    x = st.from_numpy(a)
    for t in (x.float(), x.double(), x):
        np.testing.assert_array_equal(t.argmax(0).numpy(), a.argmax(0))
        np.testing.assert_array_equal(t.argmin(0).numpy(), a.argmin(0))
    late = x.float()
    late[-1] = st.nan
    assert (late.argmax(0) == shape[0] - 1).all()


@pytest.mark.check
@pytest.mark.parametrize("threads", [2], indirect=True)
def test_a_sum_of_rows_is_the_same_each_time(threads: int) -> None:
    x = st.randn(3000, 400, generator=st.Generator().manual_seed(0))
    first = x.sum(0)
    assert all(x.sum(0).equal(first) for _ in range(50))
    # Half a unit of the last place of what is added up, 2400 or so, is 1.2e-4.
    np.testing.assert_allclose(first.numpy(), x.double().sum(0).numpy(), rtol=1e-6, atol=5e-5)
