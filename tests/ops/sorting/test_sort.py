"""Order, counting and search: values against NumPy, stability, errors, gradients."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st

_RNG = np.random.default_rng(0)
_DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize(
    "n",
    [
        1,
        2,
        4,
        5,
        7,
        8,
        9,
        12,
        13,
        15,
        16,
        17,
        32,
        33,
        48,
        49,
        96,
        97,
        128,
        129,
        192,
        193,
        300,
        5000,
    ],
)
def test_sort_is_stable_both_ways(dtype: str, n: int) -> None:
    low = 0 if dtype in ("bool", "uint8") else -100
    a = _RNG.integers(low, 100, n).astype(dtype)
    order = np.argsort(a, kind="stable")
    values, indices = st.from_numpy(a).sort()
    assert np.array_equal(indices.numpy(), order)
    assert np.array_equal(values.numpy(), a[order])
    order = np.argsort(-a.astype("float64"), kind="stable")
    values, indices = st.from_numpy(a).sort(descending=True)
    assert np.array_equal(indices.numpy(), order)
    assert np.array_equal(values.numpy(), a[order])


@pytest.mark.check
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_sort_along_any_dim(dim: int) -> None:
    a = _RNG.standard_normal((4, 5, 6))
    turned = st.from_numpy(a.transpose(2, 0, 1).copy()).permute(1, 2, 0)
    for t in (st.from_numpy(a), turned):
        values, indices = t.sort(dim)
        assert np.array_equal(values.numpy(), np.sort(a, dim))
        assert np.array_equal(indices.numpy(), np.argsort(a, dim))


def test_special_numbers_have_their_place() -> None:
    a = st.tensor([3.0, float("nan"), -0.0, float("inf"), 0.0, -float("inf")])
    values, indices = a.sort()
    assert values.tolist()[:-1] == [-float("inf"), 0.0, 0.0, 3.0, float("inf")]
    assert indices.tolist() == [5, 2, 4, 0, 3, 1]
    assert a.sort(descending=True).indices.tolist() == [1, 3, 0, 2, 4, 5]
    big = st.tensor([2**63 - 1, -(2**63), 0])
    assert big.sort().values.tolist() == [-(2**63), 0, 2**63 - 1]


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k", [0, 1, 5, 30, 200])
def test_topk_is_the_head_of_a_sort(largest: bool, k: int) -> None:
    a = st.from_numpy(_RNG.standard_normal((3, 200)).astype("float32"))
    values, indices = a.topk(k, largest=largest)
    assert st.equal(values, a.sort(descending=largest).values[:, :k])
    assert st.equal(a.gather(1, indices), values)


def test_topk_of_long_slices_finds_what_is_rare() -> None:
    a = _RNG.standard_normal(20_000).astype("float32")
    a[[5, 19_999]] = [9.0, np.nan]
    values, indices = st.from_numpy(a).topk(3)
    assert indices.tolist()[:2] == [19_999, 5]
    assert values[2].item() == np.sort(a[:-1])[-2]


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("n", [1, 64, 65, 1000, 70_000])
def test_ranks_are_those_of_a_stable_sort(dtype: str, n: int) -> None:
    low = 0 if dtype in ("bool", "uint8") else -100
    t = st.from_numpy(_RNG.integers(low, 100, n).astype(dtype))
    values, indices = t.sort()
    if dtype == "bool":
        for refused in (lambda: t.kthvalue(1), t.median, lambda: t.median(0)):
            with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
                refused()
        return
    for k in {1, (n + 1) // 2, n}:
        value, index = t.kthvalue(k)
        assert (value.item(), index.item()) == (values[k - 1].item(), indices[k - 1].item())
    assert t.median().item() == values[(n - 1) // 2].item()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int16", "int64"])
@pytest.mark.parametrize("n", [33, 129, 2000])
def test_ranks_of_slices_that_differ_in_some_digits_only(dtype: str, n: int) -> None:
    lines = np.stack(
        [
            _RNG.standard_normal(n) * 50,
            _RNG.integers(0, 3, n) - 1,
            np.full(n, 7),
            np.where(np.arange(n) == n // 2, 3e4, 0.0),
        ]
    ).astype(dtype)
    order = np.argsort(lines, axis=1, kind="stable")
    for k in (1, n // 3, n):
        values, indices = st.from_numpy(lines).kthvalue(k, 1)
        assert indices.tolist() == order[:, k - 1].tolist()
        assert values.tolist() == np.take_along_axis(lines, order, 1)[:, k - 1].tolist()


def test_medians_of_long_slices_with_nan() -> None:
    a = _RNG.standard_normal((3, 900)).astype("float32")
    a[1, [7, 500]] = np.nan
    values, indices = st.from_numpy(a).median(1)
    assert values.isnan().tolist() == [False, True, False]
    assert indices[1].item() == 7
    assert values[0].item() == np.sort(a[0])[449]
    assert st.from_numpy(a).nanmedian(1).values[1].item() == np.sort(a[1])[448]


def test_order_statistics() -> None:
    a = np.array([[3.0, 1.0, 2.0, 4.0], [0.0, 5.0, 5.0, 1.0]])
    t = st.from_numpy(a)
    assert t.kthvalue(2).values.tolist() == [2.0, 1.0]
    assert t.kthvalue(2, keepdim=True).indices.tolist() == [[2], [3]]
    assert t.median(1).values.tolist() == [2.0, 1.0]
    assert t.median().item() == 2.0
    assert st.tensor([1, 2, 2, 1]).mode().values.item() == 1
    assert t.mode().values.tolist() == [1.0, 5.0]
    nans = st.tensor([1.0, float("nan"), 3.0])
    assert nans.median().isnan().item()
    assert nans.nanmedian().item() == 1.0
    whole = [st.empty(0, dtype=dtype).median().item() for dtype in (st.int8, st.int32, st.int64)]
    assert whole == [0, -(2**31), -(2**63)]
    assert st.msort(t).tolist() == np.sort(a, 0).tolist()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float32"])
def test_unique_as_numpy(dtype: str) -> None:
    a = _RNG.integers(0, 5, (6, 7)).astype(dtype)
    expected = np.unique(a, return_inverse=True, return_counts=True)
    values, inverse, counts = st.from_numpy(a).unique(return_inverse=True, return_counts=True)
    assert np.array_equal(values.numpy(), expected[0])
    assert np.array_equal(inverse.numpy(), expected[1].reshape(a.shape))
    assert np.array_equal(counts.numpy(), expected[2])
    assert np.array_equal(st.unique(st.from_numpy(a)).numpy(), expected[0])


def test_unique_bools_of_one_kind_and_of_any_byte() -> None:
    assert st.unique(st.ones(3, dtype=st.bool)).tolist() == [True]
    values, inverse = st.unique(st.zeros(2, 2, dtype=st.bool), return_inverse=True)
    assert (values.tolist(), inverse.tolist()) == ([False], [[0, 0], [0, 0]])
    assert st.unique(st.empty(0, dtype=st.bool)).tolist() == []
    odd = st.tensor([3, 0, 1], dtype=st.uint8).view(st.bool)
    values, inverse, counts = st.unique(odd, return_inverse=True, return_counts=True)
    assert (values.tolist(), inverse.tolist(), counts.tolist()) == (
        [False, True],
        [1, 0, 1],
        [1, 2],
    )


def test_unique_slices_and_runs() -> None:
    a = st.tensor([[1, 2], [0, 5], [1, 2]])
    values, inverse, counts = st.unique(a, return_inverse=True, return_counts=True, dim=0)
    assert values.tolist() == [[0, 5], [1, 2]]
    assert inverse.tolist() == [1, 0, 1]
    assert counts.tolist() == [1, 2]
    runs = st.unique_consecutive(st.tensor([1, 1, 2, 1]), return_counts=True)
    assert [t.tolist() for t in runs] == [[1, 2, 1], [2, 1, 1]]


def test_counting() -> None:
    assert st.bincount(st.tensor([1, 1, 4])).tolist() == [0, 2, 0, 0, 1]
    assert st.bincount(st.tensor([1]), minlength=3).tolist() == [0, 1, 0]
    weighted = st.bincount(st.tensor([0, 2, 2]), st.tensor([0.5, 1.0, 2.0]))
    assert weighted.tolist() == [0.5, 0.0, 3.0]
    a = _RNG.standard_normal(100)
    expected, _ = np.histogram(a, 7, (-1, 1))
    assert st.histc(st.from_numpy(a), 7, -1, 1).tolist() == expected.tolist()


@pytest.mark.parametrize("at", [0, 1, 2000])
def test_a_range_with_nan_is_refused(at: int) -> None:
    x = st.arange(2001.0)
    x[at] = float("nan")
    with pytest.raises(RuntimeError, match="is not finite"):
        st.histc(x, 3)
    assert st.histc(x, 2, 0, 2000).sum().item() == 2000


@pytest.mark.parametrize("n", [1000, 150_001])
@pytest.mark.parametrize("bins", [1, 10, 140_000])
@pytest.mark.parametrize("step", [1, -2])
def test_histograms_of_shares(threads: int, n: int, bins: int, step: int) -> None:
    a = _RNG.uniform(-4, 4, (n, 2))
    x = st.from_numpy(a).t()[0] if step > 0 else st.from_numpy(a[::step].copy()).t()[1]
    own = x.numpy()
    for low, high in ((0, 0), (-2, 3)):
        given = (own.min(), own.max()) if low == high else (low, high)
        want, _ = np.histogram(own, bins, given)
        result = st.histc(x, bins, low, high)
        assert result.sum().item() == want.sum()
        # An element on an edge, to rounding, may be in the bin beside.
        assert np.abs(result.numpy() - want).sum() <= 2 * (bins > 10)


@pytest.mark.check
def test_histogram_of_all_numbers_there_are() -> None:
    most = st.finfo(st.float64).max
    x = st.tensor([-most, -most / 4, most / 4, most], dtype=st.float64)
    assert st.histc(x, 4).tolist() == [1, 1, 1, 1] == st.histc(x, 4, -most, most).tolist()


@pytest.mark.parametrize("dtype", ["int16", "int32", "int64"])
@pytest.mark.parametrize("limits", [(1,), (60, 1000), (1024,), (1023, 1025, 5), (10, 3000, 8192)])
def test_counting_of_numbers_that_grow(threads: int, dtype: str, limits: tuple[int, ...]) -> None:
    a = np.concatenate([_RNG.integers(0, n, 5001) for n in limits]).astype(dtype)
    assert np.array_equal(st.bincount(st.from_numpy(a)).numpy(), np.bincount(a))
    a = np.tile(a, 30)
    assert np.array_equal(st.bincount(st.from_numpy(a)).numpy(), np.bincount(a))


@pytest.mark.parametrize("right", [False, True])
def test_sorted_search_as_numpy(right: bool) -> None:
    bounds = np.array([1.0, 2.0, 2.0, 5.0])
    values = np.array([[0.0, 1.0, 2.0], [3.0, 5.0, 9.0]])
    expected = np.searchsorted(bounds, values, "right" if right else "left")
    got = st.searchsorted(st.from_numpy(bounds), st.from_numpy(values), right=right)
    assert np.array_equal(got.numpy(), expected)
    got = st.bucketize(st.from_numpy(values), st.from_numpy(bounds), right=right, out_int32=True)
    assert got.dtype is st.int32
    assert np.array_equal(got.numpy(), expected)
    shuffled = st.tensor([2.0, 5.0, 1.0, 2.0])
    got = st.searchsorted(shuffled, 2.0, right=right, sorter=shuffled.argsort())
    assert got.item() == (3 if right else 1)
    rows = st.from_numpy(np.stack([bounds, bounds + 1]))
    assert st.searchsorted(rows, st.from_numpy(values)).shape == (2, 3)


@pytest.mark.parametrize("place", [4, 10**12, -1])
def test_a_sorter_that_leads_elsewhere_is_refused(place: int) -> None:
    sorter = st.tensor([0, 1, place, 3])
    with pytest.raises(RuntimeError, match=f"sorter index out of range: {place} of 4"):
        st.searchsorted(st.arange(4.0), st.tensor([2.5]), sorter=sorter)


def test_membership() -> None:
    a = st.tensor([[1, 2], [3, 4]])
    assert st.isin(a, st.tensor([4, 1])).tolist() == [[True, False], [False, True]]
    assert st.isin(a, 2, invert=True).tolist() == [[True, False], [True, True]]
    assert st.isin(a, st.tensor([])).any().item() is False


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: st.topk(st.zeros(3), 5), RuntimeError, "selected index k out of range"),
        (lambda: st.sort(st.zeros(3), 2), IndexError, "Dimension out of range"),
        (lambda: st.sort(st.tensor([1j])), RuntimeError, "Sort does not support complex dtypes"),
        (
            lambda: st.kthvalue(st.zeros(3), 5),
            RuntimeError,
            "kthvalue(): selected number k out of range for dimension 0",
        ),
        (
            lambda: st.mode(st.zeros(0)),
            IndexError,
            "mode(): Expected reduction dim 0 to have non-zero size.",
        ),
        (
            lambda: st.bincount(st.tensor([-1])),
            RuntimeError,
            "bincount only supports 1-d non-negative integral inputs.",
        ),
        (
            lambda: st.searchsorted(st.zeros(2, 3), st.zeros(3, 3)),
            RuntimeError,
            "but we got boundaries tensor [2, 3] and input value tensor [3, 3]",
        ),
    ],
)
def test_impossible_requests_are_named(call: object, error: type, message: str) -> None:
    with pytest.raises(error) as caught:
        call()  # type: ignore[operator]
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "function",
    [
        lambda a: a.sort(1).values,
        lambda a: a.sort(0, descending=True).values,
        lambda a: a.topk(2).values,
        lambda a: a.kthvalue(2).values,
        lambda a: a.median(1).values,
        lambda a: a.median(),
        lambda a: a.mode().values,
    ],
)
def test_gradients(function: object) -> None:
    leaf = st.from_numpy(np.random.default_rng(1).random((3, 4))).requires_grad_()
    assert st.autograd.gradcheck(function, (leaf,))


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int16", "int32", "int64", "float16", "float64"]
)
@pytest.mark.parametrize("n", [0, 1, 4095, 4096, 4097, 20_000])
def test_runs_across_blocks(dtype: str, n: int) -> None:
    steps = np.arange(n)
    for longest in (1, 3, 500, 30_000):
        a = (steps // longest % 2).astype(dtype)
        begins = np.flatnonzero(np.r_[True, a[1:] != a[:-1]][:n])
        values, inverse, counts = st.unique_consecutive(st.from_numpy(a), True, True)
        assert np.array_equal(values.numpy(), a[begins])
        assert np.array_equal(counts.numpy(), np.diff(np.r_[begins, n]))
        assert np.array_equal(inverse.numpy(), np.repeat(np.arange(len(begins)), counts.numpy()))
        assert np.array_equal(st.unique_consecutive(st.from_numpy(a)).numpy(), a[begins])


@pytest.mark.parametrize("bounds", ["float16", "float32", "int64", "uint8"])
@pytest.mark.parametrize("values", ["float16", "float32", "float64", "int32", "bool"])
def test_positions_of_other_dtypes_and_as_int32(threads: int, bounds: str, values: str) -> None:
    edges = np.sort(_RNG.integers(0, 100, 60)).astype(bounds)
    a = _RNG.integers(0, 110, (30, 100)).astype(values)
    if values.startswith("float"):
        a[3, 5] = np.nan
    wide = np.result_type(edges.dtype, a.dtype)
    for side in ("left", "right"):
        expected = np.searchsorted(edges.astype(wide), a.astype(wide), side)
        for t in (st.from_numpy(a), st.from_numpy(a.T.copy()).T):
            for out_int32 in (False, True):
                found = st.searchsorted(st.from_numpy(edges), t, side=side, out_int32=out_int32)
                assert found.dtype == (st.int32 if out_int32 else st.int64)
                assert np.array_equal(found.numpy(), expected)
                assert st.equal(found, st.bucketize(t, st.from_numpy(edges), right=side == "right"))


@pytest.mark.parametrize("n", [511, 512, 519, 200_003])
def test_bincount_of_signed_bytes(threads: int, n: int) -> None:
    a = _RNG.integers(0, 128, n).astype(np.int8)
    counts = st.bincount(st.from_numpy(a), minlength=140)
    assert np.array_equal(counts.numpy(), np.bincount(a, minlength=140))
    a[n // 2] = -1
    with pytest.raises(RuntimeError, match="non-negative"):
        st.bincount(st.from_numpy(a))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64"])
@pytest.mark.parametrize("high", [100, 250, 30_000])
def test_bincount_of_every_integer(threads: int, dtype: str, high: int) -> None:
    a = (_RNG.integers(0, high, 150_001) & np.iinfo(dtype).max).astype(dtype)
    weights = _RNG.integers(0, 8, len(a)).astype("float32")
    for t in (st.from_numpy(a), st.from_numpy(np.repeat(a, 2))[::2]):
        assert np.array_equal(st.bincount(t).numpy(), np.bincount(a))
        sums = np.bincount(a, weights)
        for w in (
            st.from_numpy(weights),
            st.from_numpy(weights).int(),
            st.from_numpy(weights).half(),
        ):
            assert np.array_equal(st.bincount(t, w).numpy(), sums)


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float16", "float64"])
def test_membership_of_many(threads: int, dtype: str) -> None:
    a = _RNG.integers(0, 200, (70, 501)).astype(dtype)
    for few in (a[0, :1], a[1, :50], a[:40].ravel()):
        expected = np.isin(a, few)
        for x in (st.from_numpy(a), st.from_numpy(a.T.copy()).T, st.from_numpy(a[:, None])[:, 0]):
            assert np.array_equal(st.isin(x, st.from_numpy(few)).numpy(), expected)
            assert np.array_equal(st.isin(x, st.from_numpy(few), invert=True).numpy(), ~expected)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_sorted_tensors_lie_as_their_input_does(dim: int) -> None:
    a = st.rand(4, 5, 6)
    for x in (a, a.permute(2, 0, 1), a.permute(1, 2, 0), a[:, ::2], a[:1].expand(3, 5, 6)):
        values, indices = x.sort(dim)
        assert values.stride() == indices.stride() == st.empty_like(x).stride()
        assert np.array_equal(values.numpy(), np.sort(x.numpy(), dim))
        assert st.equal(x.gather(dim, indices), values)
        assert x.argsort(dim, descending=True).stride() == values.stride()


def test_kthvalue_along_an_empty_dim_is_an_index_error() -> None:
    with pytest.raises(IndexError, match="dim 1 to have non-zero size"):
        st.kthvalue(st.ones(3, 0), 1)


@pytest.mark.parametrize(
    "dtype", ["uint8", "int8", "int32", "int64", "float16", "float32", "float64"]
)
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
def test_elements_of_a_rank_in_short_slices(length: int, dtype: str) -> None:
    lines = np.random.default_rng(length).integers(0, 4, size=(200, length)).astype(dtype)
    if dtype.startswith("float"):
        lines[::7, 0] = np.nan
        lines[::5, -1] = -0.0
    if dtype.startswith("i"):
        lines -= 2
    places = np.argsort(lines, 1, kind="stable")
    for t in (st.from_numpy(lines), st.from_numpy(lines.T.copy()).T):
        for k in range(1, length + 1):
            got = t.kthvalue(k, 1)
            np.testing.assert_array_equal(got.indices.numpy(), places[:, k - 1])
            np.testing.assert_array_equal(
                got.values.numpy(), np.take_along_axis(lines, places[:, k - 1 : k], 1)[:, 0]
            )
        with_nan = np.isnan(lines.astype("float64")).any(1)
        middle = np.take_along_axis(lines, places[:, (length - 1) // 2, None], 1)[:, 0]
        middle = np.where(with_nan, np.array(0).astype(dtype), middle)
        got = t.median(1).values
        assert not dtype.startswith("float") or (got.isnan().numpy() == with_nan).all()
        np.testing.assert_array_equal(np.where(with_nan, middle, got.numpy()), middle)


def test_unique_rows_with_nan_come_in_torchs_order() -> None:
    nan = float("nan")
    values, inverse, counts = st.unique(
        st.tensor([nan, 0.0, 0.0, nan, nan, 1.0]), dim=0, return_inverse=True, return_counts=True
    )
    assert str(values.tolist()) == "[nan, 0.0, nan, nan, 1.0]"
    assert (inverse.tolist(), counts.tolist()) == ([0, 1, 1, 2, 3, 4], [1, 2, 1, 1, 1])
    rows = st.tensor([[3.0, 1.0], [nan, 2.0], [0.0, 3.0], [nan, 1.0], [2.0, 2.0]])
    for dtype in (st.float64, st.float16, st.bfloat16):
        found = st.unique(rows.to(dtype), dim=0).tolist()
        assert str(found) == "[[nan, 1.0], [0.0, 3.0], [3.0, 1.0], [nan, 2.0], [2.0, 2.0]]"
    assert str(st.unique(rows.repeat(4, 1), dim=0)[:2].tolist()) == "[[0.0, 3.0], [2.0, 2.0]]"
