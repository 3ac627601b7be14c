"""Reductions: dims, dtypes, strides, accuracy, NaN, empty tensors, ties, errors, gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ops.samples import ALL, FLOATS, INTS, array, check, layouts, tensor, values

import shmtensor

DIMS: list[Any] = [None, 0, 1, -1, (0, 2), (0, 1, 2)]
NUMPY = {
    "sum": np.sum,
    "mean": np.mean,
    "prod": np.prod,
    "amax": np.max,
    "amin": np.min,
    "any": np.any,
    "all": np.all,
    "nansum": np.nansum,
    "count_nonzero": np.count_nonzero,
}


def reduce(name: str, t: Any, dim: Any, keepdim: bool = False) -> Any:
    function = getattr(shmtensor, name)
    if name == "prod" and isinstance(dim, tuple):
        pytest.skip("prod takes one dim")
    if dim is None:
        return function(t)
    return function(t, dim) if name == "count_nonzero" else function(t, dim, keepdim)


@pytest.mark.parametrize("dim", DIMS, ids=str)
@pytest.mark.parametrize("name", sorted(NUMPY))
def test_reduction_over_dims_equals_numpy(name: str, dim: Any) -> None:
    a = values("float64", 3 * 5 * 7).reshape(3, 5, 7)
    want = np.asarray(NUMPY[name](a, axis=dim))
    check(reduce(name, tensor(a), dim), want, rtol=1e-12 if want.dtype == np.float64 else 0.0)


@pytest.mark.parametrize("dtype", ALL)
def test_sum_of_every_dtype(dtype: str) -> None:
    a = values(dtype, 300)
    with np.errstate(all="ignore"):
        if dtype in FLOATS or dtype.startswith("complex"):
            wide = a.sum(dtype=np.complex128 if dtype.startswith("complex") else np.float64)
            want = np.asarray(wide).astype(a.dtype)
            check(
                tensor(a, dtype).sum(),
                want,
                dtype,
                rtol=8e-3 if dtype in ("float16", "bfloat16") else 1e-5,
            )
        else:
            check(tensor(a).sum(), np.asarray(a.astype(np.int64).sum()), "int64")


@pytest.mark.parametrize("dtype", ["bool", *INTS, "float32", "float64", "float16"])
@pytest.mark.parametrize("name", ["amax", "amin", "any", "all", "count_nonzero", "prod"])
def test_reduction_of_every_dtype(name: str, dtype: str) -> None:
    a = values(dtype, 96).reshape(4, 24)
    if name == "prod":
        a = (np.abs(a) % 3 + (1 if dtype != "bool" else 0)).astype(dtype)[:, :9]
    with np.errstate(all="ignore"):
        want = np.asarray(NUMPY[name](a, axis=1))
    if name == "prod" and dtype not in FLOATS:
        want = np.prod(a.astype(np.int64), axis=1)
    if name in ("any", "all") and dtype == "uint8":
        want = want.astype(np.uint8)
    check(
        reduce(name, tensor(a), 1),
        want,
        rtol=2e-3 if dtype == "float16" else 1e-6 if dtype in FLOATS else 0.0,
    )


@pytest.mark.parametrize(
    "shape", [(3, 1000), (1000, 3), (257, 129), (2, 5000), (5000, 2), (1, 77), (77, 1)]
)
@pytest.mark.parametrize("name", ["sum", "amax", "argmax", "var", "all"])
def test_reduction_of_any_stride(name: str, shape: tuple[int, int]) -> None:
    a = np.random.default_rng(5).normal(size=shape).astype(np.float32)
    for kind, t in layouts(a):
        for axis in (0, 1):
            if name == "var":
                got, want = (
                    shmtensor.var(t, axis, correction=0),
                    np.var(a.astype(np.float64), axis=axis),
                )
            else:
                got = getattr(shmtensor, name)(t, axis)
                want = np.asarray({"argmax": np.argmax, **NUMPY}[name](a, axis=axis))
            if name in ("sum", "var"):
                np.testing.assert_allclose(array(got), want, rtol=2e-5, atol=2e-5, err_msg=kind)
            else:
                np.testing.assert_array_equal(array(got), want, err_msg=kind)


@pytest.mark.check
def test_float32_sums_do_not_drift() -> None:
    a = np.full(3_000_001, 0.1, np.float32)
    want = float(a.sum(dtype=np.float64))
    assert shmtensor.from_numpy(a).sum().item() == pytest.approx(want, rel=1e-6)
    tall = shmtensor.from_numpy(a[:3_000_000].reshape(-1, 3)).sum(0)
    np.testing.assert_allclose(
        array(tall), a[:3_000_000].reshape(-1, 3).sum(0, dtype=np.float64), rtol=1e-6
    )


def test_short_floats_are_summed_in_float32() -> None:
    a = shmtensor.ones(5000, dtype=shmtensor.float16)
    assert a.sum().item() == 5000
    assert shmtensor.ones(1000, dtype=shmtensor.bfloat16).mean().item() == 1


def test_variance_of_far_away_values_is_right() -> None:
    a = np.random.default_rng(0).normal(size=100_000) + 1e6
    got = shmtensor.var(shmtensor.from_numpy(a)).item()
    assert got == pytest.approx(np.var(a, ddof=1), rel=1e-9)


@pytest.mark.parametrize("correction", [0, 1, 2.5])
def test_variance_and_deviation_equal_numpy(correction: float) -> None:
    a = values("float64", 60).reshape(6, 10)
    want = ((a - a.mean(1, keepdims=True)) ** 2).sum(1) / (10 - correction)
    check(shmtensor.var(tensor(a), 1, correction=correction), want, rtol=1e-12)
    check(shmtensor.std(tensor(a), 1, correction=correction), np.sqrt(want), rtol=1e-12)
    var, mean = shmtensor.var_mean(tensor(a), dim=1, correction=correction)
    check(var, want, rtol=1e-12)
    check(mean, a.mean(1), rtol=1e-12)


@pytest.mark.parametrize("n", [2, 3, 7, 65, 5000])
def test_deviation_of_elements_that_are_alike_is_nothing(n: int) -> None:
    for number in values("float32", 40) * 3:
        got = shmtensor.std(shmtensor.full((n,), float(number))).item()
        assert 0 <= got <= 1e-5 * abs(number)


@pytest.mark.parametrize(
    ("numbers", "want"),
    [
        ([1e300, 1, 2, 3], np.inf),  # squares beyond doubles
        ([1e308, 1e308, -1e308, -1e308], np.inf),
        ([1, 2, np.inf], np.nan),
        ([np.inf, 1, 2], np.nan),
        ([1, np.nan, 2, 1e300], np.nan),
    ],
)
def test_variance_that_overflows_is_the_same_wherever_elements_lie(
    numbers: list[float], want: float
) -> None:
    rows = tensor(np.array([numbers] * 3))
    wide = shmtensor.zeros(3, 2 * len(numbers), dtype=shmtensor.float64)
    wide[:, ::2] = rows
    for x in (rows, rows.t().contiguous().t(), wide[:, ::2]):
        np.testing.assert_array_equal(shmtensor.std(x, 1), [want] * 3)
    np.testing.assert_equal(shmtensor.var(rows[0].repeat(3000)).item(), want)


def test_variance_of_floats_whose_squares_overflow_is_taken_in_doubles() -> None:
    x = shmtensor.tensor([[3e38, 1, 2, 3]] * 2)
    np.testing.assert_allclose(shmtensor.std(x, 1), [1.5e38] * 2, rtol=1e-6)
    np.testing.assert_allclose(shmtensor.std(x.t().contiguous(), 0), [1.5e38] * 2, rtol=1e-6)


def test_variance_of_one_element_is_nan() -> None:
    assert np.isnan(shmtensor.var(shmtensor.ones(1)).item())
    assert shmtensor.var(shmtensor.ones(1), unbiased=False).item() == 0


def test_variance_of_complex_numbers() -> None:
    a = values("complex128")
    assert shmtensor.var(tensor(a), correction=0).item() == pytest.approx(np.var(a), rel=1e-12)


def test_max_and_min_of_nan_are_nan_and_its_index() -> None:
    a = shmtensor.tensor([[1.0, float("nan"), 3.0], [4.0, 5.0, 5.0]])
    top = a.max(1)
    assert np.isnan(top.values[0].item())
    assert top.values[1].item() == 5.0
    assert top.indices.tolist() == [1, 1]
    assert np.isnan(a.amax().item())
    assert a.argmin().item() == 1


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_ties_give_the_first_index(name: str) -> None:
    a = np.zeros((40, 300), np.float32)
    for _, t in layouts(a):
        assert getattr(t, name)(0).tolist() == [0] * 300
        assert getattr(t, name)(1).tolist() == [0] * 40
        assert getattr(t, name)().item() == 0


def test_index_of_a_transposed_tensor_counts_row_major() -> None:
    a = np.arange(12).reshape(3, 4)
    a[1, 2] = 99
    assert tensor(a).argmax().item() == 6
    assert tensor(a).t().argmax().item() == 7


def test_large_argmax_is_right_when_split() -> None:
    a = np.random.default_rng(1).normal(size=500_000).astype(np.float32)
    a[123_457] = a[400_001] = 9
    assert shmtensor.from_numpy(a).argmax().item() == 123_457


@pytest.mark.check
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "any", "all"])
def test_empty_reductions_give_the_neutral_value(name: str) -> None:
    a = np.zeros((0, 3), np.float32)
    with (
        np.errstate(all="ignore"),
        pytest.warns(RuntimeWarning) if name == "mean" else np.errstate(),
    ):
        want = NUMPY[name](a, axis=0)
    check(reduce(name, tensor(a), 0), want)


def test_max_and_min_of_nothing_are_errors() -> None:
    empty = shmtensor.zeros(0, 3)
    with pytest.raises(
        RuntimeError,
        match=r"max\(\): Expected reduction dim to be specified for input.numel\(\) == 0",
    ):
        empty.max()
    with pytest.raises(
        IndexError, match=r"max\(\): Expected reduction dim 0 to have non-zero size"
    ):
        empty.max(0)
    with pytest.raises(IndexError, match=r"argmax\(\): Expected reduction dim to be specified"):
        empty.argmax()
    assert empty.amax(1).shape == (0,)


def test_bad_dims_are_index_errors() -> None:
    a = shmtensor.ones(2, 3)
    with pytest.raises(IndexError, match=r"expected to be in range of \[-2, 1\], but got 2"):
        a.sum(2)
    with pytest.raises(RuntimeError, match="dim 0 appears multiple times in the list of dims"):
        a.sum((0, -2))


def test_means_of_integers_need_a_dtype() -> None:
    a = shmtensor.tensor([1, 2, 4])
    with pytest.raises(RuntimeError, match=r"mean\(\): could not infer output dtype.*Got: Long"):
        a.mean()
    assert a.mean(dtype=shmtensor.float32).item() == pytest.approx(7 / 3)


def test_dtype_is_what_is_calculated_in() -> None:
    a = shmtensor.tensor([100, 100, 100], dtype=shmtensor.uint8)
    assert a.sum().item() == 300
    assert a.sum(dtype=shmtensor.uint8).item() == 44
    assert a.sum(dtype=shmtensor.float64).dtype == shmtensor.float64
    assert shmtensor.ones(3).sum(dtype=shmtensor.int32).dtype == shmtensor.int32


def test_keepdim_and_zero_dim() -> None:
    a = shmtensor.ones(2, 3)
    assert a.sum(1, keepdim=True).shape == (2, 1)
    assert a.sum((0, 1), keepdim=True).shape == (1, 1)
    assert shmtensor.tensor(3.0).sum(0).item() == 3
    assert shmtensor.tensor(3.0).max(0).values.item() == 3


def test_out_is_resized_cast_and_written() -> None:
    a = shmtensor.ones(2, 3)
    out = shmtensor.empty(0)
    assert shmtensor.sum(a, 0, out=out) is out
    assert out.tolist() == [2, 2, 2]
    wide = shmtensor.zeros(3, 4)[:, ::2]
    shmtensor.sum(shmtensor.ones(5, 3, 2), 0, out=wide)
    assert wide.tolist() == [[5, 5]] * 3
    values_, indices = shmtensor.empty(0), shmtensor.empty(0, dtype=shmtensor.int64)
    shmtensor.max(a, 1, out=(values_, indices))
    assert indices.tolist() == [0, 0]


@pytest.mark.parametrize("p", [0, 1, 2, 3, 0.5, float("inf"), -float("inf")])
def test_norms_equal_numpy(p: float) -> None:
    a = values("float64", 60).reshape(6, 10) + 0.01
    want = np.array([np.linalg.norm(row, p) for row in a])
    check(shmtensor.norm(tensor(a), p, 1), want, rtol=1e-12)
    assert shmtensor.norm(tensor(a), p).item() == pytest.approx(
        np.linalg.norm(a.ravel(), p), rel=1e-12
    )


def test_logsumexp_does_not_overflow() -> None:
    a = shmtensor.tensor([[1000.0, 1000.0], [-1000.0, -float("inf")], [float("inf"), 0.0]])
    want = [1000 + np.log(2), -1000, np.inf]
    np.testing.assert_allclose(array(shmtensor.logsumexp(a, 1)), want, rtol=1e-6)
    assert shmtensor.logsumexp(shmtensor.zeros(0, 2), 0).tolist() == [-np.inf, -np.inf]
    many = shmtensor.ones(100_000, dtype=shmtensor.float16)  # whose sum is beyond 65504
    assert shmtensor.logsumexp(many, 0).item() == pytest.approx(1 + np.log(100_000), abs=0.01)


@pytest.mark.parametrize("dtype", ["bool", *INTS, "float32", "float64", "complex64"])
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_running_results_equal_numpy(name: str, dtype: str) -> None:
    a = values(dtype, 60).reshape(5, 12)
    whole = dtype in INTS or dtype == "bool"
    with np.errstate(all="ignore"):
        for axis in (0, 1):
            want = getattr(np, name)(a.astype(np.int64) if whole else a, axis=axis)
            for _, t in layouts(a):
                check(getattr(shmtensor, name)(t, axis), want, rtol=0.0 if whole else 1e-4)


def test_cummax_gives_the_last_of_equal_ones() -> None:
    got = shmtensor.cummax(shmtensor.tensor([1.0, 3.0, 2.0, 3.0, float("nan"), 5.0]), 0)
    assert got.indices.tolist() == [0, 1, 1, 3, 4, 4]
    assert got.values[3].item() == 3
    assert np.isnan(got.values[5].item())


def test_running_logsumexp_equals_numpy() -> None:
    a = values("float64")
    check(shmtensor.logcumsumexp(tensor(a), 0), np.logaddexp.accumulate(a), rtol=1e-12)


def gradient(function: Any, x: np.ndarray) -> np.ndarray:
    t = tensor(x).requires_grad_(True)
    function(t).backward()
    return array(t.grad)


def numeric(function: Any, x: np.ndarray) -> np.ndarray:
    """Central differences."""
    grad = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        for sign in (1, -1):
            moved = x.copy()
            moved[i] += sign * 1e-6
            grad[i] += sign * function(tensor(moved)).item() / 2e-6
    return grad


@pytest.mark.parametrize(
    "function",
    [
        lambda t: (t.sum(1) ** 2).sum(),
        lambda t: (t.mean((0, 1)) ** 2).sum(),
        lambda t: t.prod(),
        lambda t: (t.prod(1) ** 2).sum(),
        lambda t: t.amax(1).sum(),
        lambda t: t.max(),
        lambda t: (t.max(1).values ** 2).sum(),
        lambda t: (t.var(1) ** 2).sum(),
        lambda t: t.std(),
        lambda t: t.norm(),
        lambda t: (t.norm(3, 1) ** 2).sum(),
        lambda t: (t.norm(1, 1) ** 2).sum(),
        lambda t: t.norm(float("inf"), 1).sum(),
        lambda t: (t.logsumexp(1) ** 2).sum(),
        lambda t: (t.cumsum(1) ** 2).sum(),
        lambda t: (t.cumprod(1) ** 2).sum(),
        lambda t: (t.logcumsumexp(0) ** 2).sum(),
        lambda t: (shmtensor.cummax(t, 1).values ** 2).sum(),
    ],
)
def test_gradient_equals_central_differences(function: Any) -> None:
    x = np.random.default_rng(3).normal(size=(3, 4))
    np.testing.assert_allclose(gradient(function, x), numeric(function, x), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("zeros", [[(0, 1)], [(0, 1), (0, 3)], [(0, 0), (1, 2), (2, 1)]])
def test_product_gradients_are_right_at_zeros(zeros: list[tuple[int, int]]) -> None:
    x = np.random.default_rng(4).normal(size=(3, 4))
    for i in zeros:
        x[i] = 0
    for function in (lambda t: t.prod(1).sum(), lambda t: (t.cumprod(1) * 2).sum()):
        np.testing.assert_allclose(
            gradient(function, x), numeric(function, x), rtol=1e-5, atol=1e-7
        )


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int8", "int64", "bool"])
@pytest.mark.parametrize("n", [16, 31, 100, 1000, 2047, 2049, 5000])
def test_argmax_in_rows_of_one_run_and_of_several(dtype: str, n: int) -> None:
    """Equal extremes stand on both sides of where stretches meet; a NaN comes before everything."""
    kind = getattr(shmtensor, dtype)
    high = 1 if dtype == "bool" else 9
    x = np.full((70, n), high // 2 if high > 1 else 0)
    for row in range(70):
        x[row, (row * 37) % n :: 61] = high
    wide = shmtensor.tensor(np.concatenate([x, x], 1), dtype=kind)[:, :n]
    for t in (shmtensor.tensor(x, dtype=kind), wide):
        values, places = t.max(1)
        assert values.tolist() == [high] * 70
        assert places.tolist() == x.argmax(1).tolist()
        assert t.min(1).indices.tolist() == x.argmin(1).tolist()
        if dtype != "bool":
            assert t.argmax(1).tolist() == x.argmax(1).tolist()
    if kind.is_floating_point:
        t = shmtensor.tensor(x, dtype=kind)
        t[3, n - 1] = t[4, 0] = t[4, n - 1] = t[69, n // 2] = float("nan")
        for places in (t.argmax(1), t.argmin(1)):
            assert places[[3, 4, 69]].tolist() == [n - 1, 0, n // 2]
        assert t.max(1).values.isnan().sum().item() == 3
        assert t.argmax(1)[5:69].tolist() == x.argmax(1)[5:69].tolist()


@pytest.mark.parametrize("correction", [-5, -0.5, 0, 1])
def test_the_variance_of_nothing_is_nan(correction: float) -> None:
    nothing = shmtensor.zeros(0, 3)
    for name in ("var", "std", "var_mean", "std_mean"):
        for dim in (None, 0, (0, 1)):
            results = getattr(shmtensor, name)(nothing, dim=dim, correction=correction)
            for result in results if isinstance(results, tuple) else (results,):
                assert result.isnan().all(), (name, dim)
    assert shmtensor.var(nothing, dim=1, correction=correction).shape == (0,)
