"""Long slices: sorted by all threads, ranks by a sample, unique numbers by a table, modes."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st

_RNG = np.random.default_rng(3)
_DTYPES = ["bool", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"]


def _line(dtype: str, n: int, kind: str) -> np.ndarray:
    if np.dtype(dtype).kind == "f":
        a = _RNG.standard_normal(n)
        if kind == "few":
            a = np.round(a * 3)
        elif kind == "special":
            a[::7], a[1::11], a[2::11], a[3::13], a[4::17] = np.nan, 0.0, -0.0, np.inf, -np.inf
        return a.astype(dtype)
    if dtype == "bool":
        return _RNG.random(n) < 0.3
    limits = np.iinfo(dtype)
    if kind == "few":
        return _RNG.integers(0, 50, n).astype(dtype)
    a = _RNG.integers(limits.min, limits.max, n, dtype=dtype, endpoint=True)
    if kind == "special":  # one bucket has nearly all
        a //= 2
        a[[n // 3, n // 2]] = limits.max, limits.min
    return a


@pytest.mark.parametrize("kind", ["any", "few", "special"])
@pytest.mark.parametrize("dtype", _DTYPES)
def test_long_slices_are_sorted_stably(threads: int, dtype: str, kind: str) -> None:
    for n in (4096, 20_000, 70_001):
        a = _line(dtype, n, kind)
        x = st.from_numpy(a)
        order = np.argsort(a, kind="stable")
        values, indices = x.sort()
        assert np.array_equal(indices.numpy(), order)
        assert values.numpy().tobytes() == a[order].tobytes()
        values, indices = x.sort(descending=True)
        order = n - 1 - np.argsort(a[::-1], kind="stable")[::-1]
        assert np.array_equal(indices.numpy(), order)
        assert values.numpy().tobytes() == a[order].tobytes()


@pytest.mark.check
def test_some_long_slices(threads: int) -> None:
    a = _RNG.standard_normal((3, 5000)).astype("float32")
    assert np.array_equal(st.from_numpy(a).argsort(1).numpy(), np.argsort(a, 1, kind="stable"))
    turned = st.from_numpy(a).t()
    assert np.array_equal(turned.sort(0).values.numpy(), np.sort(a, 1).T)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "float32", "float64"])
@pytest.mark.parametrize("kind", ["any", "few", "special", "in order", "periodic"])
def test_ranks_of_long_slices(dtype: str, kind: str) -> None:
    for n in (2048, 9000, 40_000):
        if kind == "periodic":  # no sample is like the whole
            a = (np.arange(n) % 13 * (np.arange(n) > n // 2)).astype(dtype)
        else:
            a = _line(dtype, n, "any" if kind == "in order" else kind)
        if kind == "in order":
            a.sort()
        order = np.argsort(a, kind="stable")
        x = st.from_numpy(a)
        for k in (1, 9, n // 3, n // 2, n - 5, n):
            value, index = x.kthvalue(k)
            assert int(index) == order[k - 1]
            assert np.array_equal(value.numpy(), a[order[k - 1]], equal_nan=True)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("n", [63, 64, 100, 129, 1000])
def test_the_first_few_of_rows(n: int, largest: bool) -> None:
    a = _RNG.integers(-40, 40, (20, n))
    for dtype in ("int8", "int64", "float16", "float32"):
        x = st.from_numpy(a.astype(dtype))
        for k in (1, 5, 16, 17):
            values, indices = x.topk(k, 1, largest)
            assert st.equal(values, x.sort(1, largest).values[:, :k])
            assert st.equal(x.gather(1, indices), values)
            assert all(len(set(row)) == k for row in indices.tolist())


@pytest.mark.check
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "int64"])
@pytest.mark.parametrize("n", [1000, 5000, 80_000])
def test_unique_numbers_of_a_small_range(threads: int, dtype: str, n: int) -> None:
    a = (_RNG.integers(0, 100, n) * 2).astype(dtype).reshape(-1, 4)
    found = st.from_numpy(a).unique(return_inverse=True, return_counts=True)
    wanted = np.unique(a, return_inverse=True, return_counts=True)
    for got, want in zip(found, wanted, strict=True):
        assert np.array_equal(got.numpy(), want.reshape(got.shape))


def test_unique_numbers_far_from_zero() -> None:
    for low in (-(2**63), 2**63 - 10):
        a = low + _RNG.integers(0, 10, 5000)
        assert np.array_equal(st.from_numpy(a).unique().numpy(), np.unique(a))
    a[:2] = -(2**63), 2**63 - 1
    assert np.array_equal(st.from_numpy(a).unique().numpy(), np.unique(a))


@pytest.mark.parametrize("shape", [(7, 50, 9), (40, 300), (2, 5000), (5000, 2), (33, 1)])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "float32"])
def test_modes_along_any_dim(threads: int, shape: tuple[int, ...], dtype: str) -> None:
    a = _RNG.integers(0, 20, shape).astype(dtype)
    for x, b in ((st.from_numpy(a), a), (st.from_numpy(a).transpose(0, 1), a.swapaxes(0, 1))):
        for dim in range(b.ndim):
            values, indices = x.mode(dim, True)
            counts = np.stack([(b == v).sum(dim, keepdims=True) for v in range(20)])
            assert np.array_equal(values.numpy(), counts.argmax(0))
            assert np.array_equal(np.take_along_axis(b, indices.numpy(), dim), values.numpy())
            assert x.mode(dim).values.shape == values.squeeze(dim).shape
