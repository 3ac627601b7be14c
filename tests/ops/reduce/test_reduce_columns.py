"""Reductions of columns: few rows, many rows of few columns, NaNs anywhere."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st

DTYPES = ["float32", "float64", "float16", "bfloat16", "int32", "uint8", "int64"]
# Rows and columns: fewer than a block of lanes and more, several tiles, groups of rows with a rest.
SHAPES = [(1, 40), (2, 31), (2, 32), (3, 33), (5, 300), (64, 100), (65, 1000), (40, 9)]
SHAPES += [(1000, 2), (4099, 3), (130, 129)]


def table(shape: tuple[int, int], dtype: str) -> np.ndarray:
    """Small whole numbers, which every order of addition gives the same sum of."""
    low = 0 if dtype == "uint8" else -9
    return np.random.default_rng(5).integers(low, 10, size=shape)


def layouts(a: np.ndarray, dtype: str) -> list[st.Tensor]:
    """The table as it is, with gaps between rows, with gaps between elements, by columns."""
    x = st.from_numpy(a).to(getattr(st, dtype))
    wide = st.cat([x, x], 1)
    return [x, wide[:, : a.shape[1]], st.stack([x, x], 2)[:, :, 1], x.t().contiguous().t()]


@pytest.mark.parametrize("threads", [1, 2], indirect=True)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_columns(shape: tuple[int, int], dtype: str, threads: int) -> None:
    a = table(shape, dtype)
    for x in layouts(a, dtype):
        np.testing.assert_array_equal(x.long().sum(0).numpy(), a.sum(0))
        if dtype not in ("float16", "bfloat16"):
            np.testing.assert_array_equal(x.sum(0).long().numpy(), a.sum(0))
        np.testing.assert_array_equal(x.amax(0).long().numpy(), a.max(0))
        np.testing.assert_array_equal(x.amin(0).long().numpy(), a.min(0))
        np.testing.assert_array_equal(x.count_nonzero(0).numpy(), (a != 0).sum(0))
        np.testing.assert_array_equal((x == 3).all(0).numpy(), (a == 3).all(0))
        for name in ("max", "min"):
            values, places = getattr(x, name)(0)
            np.testing.assert_array_equal(values.long().numpy(), getattr(a, name)(0))
            np.testing.assert_array_equal(places.numpy(), getattr(a, f"arg{name}")(0))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_products(shape: tuple[int, int], dtype: str) -> None:
    a = np.random.default_rng(6).choice([-1, 1, 2], size=shape, p=[0.3, 0.69, 0.01])
    for x in layouts(a, dtype):
        product = x.prod(0)
        found = product.real if product.is_complex() else product
        np.testing.assert_array_equal(found.double().numpy(), a.prod(0))


@pytest.mark.check
def test_factors_of_one_column_may_leave_the_range_in_between() -> None:
    x = st.full((1024, 10), 2.0)
    x[512:] = 0.5
    assert x.prod(0).tolist() == [1.0] * 10


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_nan_wins_from_wherever_it_stands(shape: tuple[int, int], dtype: str) -> None:
    rows = shape[0]
    a = table(shape, dtype)
    for row in {0, 1 % rows, 2 % rows, 3 % rows, rows // 2, rows - 1}:
        x = st.from_numpy(a).to(getattr(st, dtype))
        x[row, ::2] = st.nan
        x[row, 1::2] = st.inf
        x[rows - 1, :: 4 if row < rows - 1 else 2] = st.nan
        for y, dim in ((x, 0), (x.t().contiguous(), 1)):
            for name in ("max", "min"):
                values, places = getattr(y, name)(dim)
                assert values[::2].isnan().all() and (places[::2] == row).all()
                assert getattr(y, f"a{name}")(dim)[::2].isnan().all()
                assert not getattr(y, f"a{name}")(dim)[1::2].isnan().any()
            assert (y.amax(dim)[1::2] == st.inf).all()


@pytest.mark.parametrize("n", [300, 2047, 2048, 2049, 8192, 8193, 20000])
@pytest.mark.parametrize("dtype", DTYPES)
def test_long_rows(n: int, dtype: str) -> None:
    a = table((3, n), dtype)
    x = st.from_numpy(a).to(getattr(st, dtype))
    np.testing.assert_array_equal(x.amax(1).long().numpy(), a.max(1))
    np.testing.assert_array_equal(x.count_nonzero(1).numpy(), (a != 0).sum(1))
    np.testing.assert_array_equal(x.double().sum(1).numpy(), a.sum(1))
    if not x.is_floating_point():
        return
    for place in (0, 1, n // 2, n - 1):
        y = x.clone()
        y[1, place] = st.nan
        assert y.amax(1).isnan().tolist() == y.amin(1).isnan().tolist() == [False, True, False]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "complex64"])
@pytest.mark.parametrize("p", [1, 2, float("inf"), float("-inf")])
def test_norms_of_single_elements(p: float, dtype: str) -> None:
    x = (st.arange(200.0) - 100).to(getattr(st, dtype))
    for y, dim in ((x.reshape(200, 1), 1), (x.reshape(1, 200), 0), (x.reshape(100, 1, 2), 1)):
        norm = st.linalg.vector_norm(y, p, dim)
        assert norm.dtype == x.abs().dtype
        assert norm.flatten().tolist() == x.abs().tolist()
        kept = st.linalg.vector_norm(y, p, dim, keepdim=True)
        assert kept.tolist() == y.abs().tolist()
        out = st.empty(0, dtype=norm.dtype)
        st.linalg.vector_norm(y, p, dim, out=out)
        assert out.tolist() == norm.tolist()
