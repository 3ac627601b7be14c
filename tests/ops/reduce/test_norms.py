"""Vector and matrix norms of every order, and nanmean."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import shmtensor as st

A = np.random.default_rng(11).normal(size=(4, 3))


def tensor(a: np.ndarray) -> Any:
    return st.from_numpy(a.copy())


@pytest.mark.check
def test_norm_takes_orders_and_names() -> None:
    x = tensor(A)
    assert st.norm(x).item() == pytest.approx(np.linalg.norm(A))
    assert st.norm(x, "nuc").item() == pytest.approx(np.linalg.norm(A, "nuc"))
    np.testing.assert_allclose(x.norm(3, dim=1).numpy(), (np.abs(A) ** 3).sum(1) ** (1 / 3))
    assert x.norm(p="fro", dim=(0, 1), keepdim=True).shape == (1, 1)
    assert st.norm(x.float(), dtype=st.float64).dtype == st.float64
    out = st.empty(0, dtype=st.float64)
    assert st.norm(x, 1, 0, out=out) is out
    np.testing.assert_allclose(out.numpy(), np.abs(A).sum(0))
    with pytest.raises(RuntimeError, match="'fro' and 'nuc'"):
        st.norm(x, "max")
    with pytest.raises(ValueError, match="nuclear"):
        st.norm(x, "nuc", dtype=st.float64)


def test_nanmean_averages_numbers_only() -> None:
    x = st.tensor([[1.0, math.nan, 3.0], [math.nan, math.nan, math.nan]])
    got = st.nanmean(x, 1).tolist()
    assert got[0] == 2
    assert math.isnan(got[1])
    with pytest.raises(RuntimeError, match="floating point or complex"):
        st.nanmean(st.arange(3))
