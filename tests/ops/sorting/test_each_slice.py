"""Order statistics of strided slices are those of a dense copy.

Dense slices are in test_sort.py and test_sort_parallel.py, memory in test_peak_sorting.py.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import shmtensor as st

_DTYPES = [st.uint8, st.bfloat16, st.float16, st.int64, st.float32, st.float64, st.bool]
_CALLS: dict[str, Callable[..., object]] = {
    "sort": lambda x, d: x.sort(d),
    "sort descending": lambda x, d: x.sort(d, descending=True),
    "argsort": lambda x, d: (x.argsort(d),),
    "topk": lambda x, d: x.topk(min(2, x.shape[d]), d),
    "topk of many": lambda x, d: x.topk(x.shape[d] * 3 // 4, d),
    "kthvalue": lambda x, d: x.kthvalue((x.shape[d] + 1) // 2, d),
    "median": lambda x, d: x.median(d, keepdim=True),
    "nanmedian": lambda x, d: x.nanmedian(d),
    "mode": lambda x, d: x.mode(d),
}
_NO_BOOL = ("topk", "topk of many", "kthvalue", "median", "nanmedian")


def _numbers(dtype: st.dtype, *sizes: int) -> st.Tensor:
    n = 1
    for size in sizes:
        n *= size
    x = st.arange(n) * 7919 % 10007 % 251
    if dtype == st.int64:
        x = (x - 100) << 35
    if dtype in (st.float32, st.float64):
        x = st.where(x == 3, float("nan"), (x - 100).to(dtype) * 1.37)
    return x.to(dtype).reshape(sizes)


def _same(x: st.Tensor, dim: int) -> None:
    dense = x.contiguous()
    if dense is x:
        dense = x.clone()
    for name, call in _CALLS.items():
        if x.dtype == st.bool and name in _NO_BOOL:
            continue
        for a, b in zip(call(x, dim), call(dense, dim), strict=True):  # type: ignore[call-overload]
            assert a.shape == b.shape, name
            assert st.allclose(a.double(), b.double(), rtol=0, atol=0, equal_nan=True), name


def _strided(dtype: st.dtype, n: int) -> dict[str, tuple[st.Tensor, int]]:
    """Lines of n elements, and the dim they are along."""
    return {
        "every third": (_numbers(dtype, 3 * n)[::3], 0),
        "columns": (_numbers(dtype, n, 5).T, 1),
        "rows in columns": (_numbers(dtype, 5, n).T, 0),
        "middle": (_numbers(dtype, 2, n, 3), 1),
        "turned": (_numbers(dtype, 3, n, 2).permute(2, 0, 1), 2),
        "turned twice": (_numbers(dtype, 2, 3, n).permute(1, 2, 0), 1),
        "part": (_numbers(dtype, 4, n, 6)[1:3, :, 1::2], 1),
        "repeated lines": (_numbers(dtype, n, 1, 2).expand(n, 3, 2), 0),
        "repeated elements": (_numbers(dtype, 3, 1).expand(3, n), 1),
    }


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("n", [1, 2, 30, 700])
def test_strided_slices(threads: int, dtype: st.dtype, n: int) -> None:
    for x, dim in _strided(dtype, n).values():
        _same(x, dim)


@pytest.mark.check
@pytest.mark.parametrize("dtype", [st.uint8, st.int64, st.float32, st.float64])
def test_slices_too_long_to_be_gathered(threads: int, dtype: st.dtype) -> None:
    for n in (4096, 70_000):
        _same(_numbers(dtype, 2 * n)[::2], 0)
        _same(_numbers(dtype, n, 2), 0)


def test_more_neighbours_than_one_group_holds(threads: int) -> None:
    _same(_numbers(st.float32, 3, 40, 999), 1)
    _same(_numbers(st.float32, 999, 40, 3), 1)
    _same(_numbers(st.float64, 37, 1500).T, 1)
    _same(_numbers(st.int64, 700, 1000), 0)


@pytest.mark.check
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_results_lie_as_the_tensor_are_dense_or_where_they_are_wanted(dim: int) -> None:
    x = _numbers(st.float32, 4, 5, 6).permute(2, 0, 1)
    for call in (st.sort, lambda x, d, **out: st.topk(x, 2, d, **out)):
        values, indices = call(x, dim)
        assert values.stride() == x.stride() if call is st.sort else values.is_contiguous()
        assert indices.stride() == values.stride()
        shape = tuple(reversed(values.shape))
        out = (st.empty(shape).permute(2, 1, 0), st.empty(shape, dtype=st.int64).permute(2, 1, 0))
        call(x, dim, out=out)
        assert st.equal(out[1], indices)
        assert not out[0].is_contiguous()


def test_medians_of_all_do_not_depend_on_the_order(threads: int) -> None:
    x = _numbers(st.float32, 12, 50, 14).nan_to_num()
    expected = x.reshape(-1).sort().values[(x.numel() - 1) // 2]
    for turned in (x, x.permute(2, 0, 1), x.permute(1, 2, 0)):
        assert turned.median() == expected
    assert x[:, ::2].median() == x[:, ::2].contiguous().median()
    assert st.stack([x, -x], 3)[..., 0].median() == expected
    assert x[0, 0, 0].median() == x[0, 0, 0]
    repeated = st.tensor([[1.0], [2.0], [7.0]]).expand(3, 2)
    assert repeated.median() == 2
    assert st.tensor([1.0, 5.0]).expand(2, 2).nanmedian() == 1
    assert st.tensor(4.0).expand(2, 4).median() == 4
