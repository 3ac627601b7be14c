"""Memory that sorts and order statistics of dense and strided slices take beside their results."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from peak import peak

import shmtensor as st

_N = 1 << 18
#: Rooms of each thread, and blocks in classes an eighth apart.
_ROOM = 600 << 10


def _numbers(dtype: st.dtype, *sizes: int) -> st.Tensor:
    return (st.arange(_N) * 7919 % 100_003).sin().to(dtype).reshape(sizes)


def _results(result: object) -> int:
    parts = result if isinstance(result, tuple) else (result,)
    return sum(x.numel() * x.element_size() for x in parts)


def _check(threads: int, call: Callable[[], object], beside: int = 0) -> None:
    assert peak(call) <= (_results(call()) + beside) * 9 // 8 + threads * _ROOM


@pytest.mark.check
@pytest.mark.parametrize("dtype", [st.float16, st.float32, st.float64])
def test_slices_are_gathered_a_few_at_a_time(threads: int, dtype: st.dtype) -> None:
    x = _numbers(dtype, 512, 512)
    for t in (x, x.T):
        for dim in (0, 1):
            _check(threads, lambda t=t, d=dim: t.sort(d))  # type: ignore[misc]
            _check(threads, lambda t=t, d=dim: t.topk(5, d))  # type: ignore[misc]
            _check(threads, lambda t=t, d=dim: t.topk(300, d))  # type: ignore[misc]
            _check(threads, lambda t=t, d=dim: t.kthvalue(9, d))  # type: ignore[misc]
            _check(threads, lambda t=t, d=dim: t.mode(d))  # type: ignore[misc]


@pytest.mark.parametrize("dtype", [st.float32, st.float64])
def test_long_slices_are_read_in_place(threads: int, dtype: st.dtype) -> None:
    x = _numbers(dtype, _N)
    every_second = st.stack([x, x], 1)[:, 1]
    keys = _N * x.element_size()
    for t in (x, every_second):
        _check(threads, lambda t=t: t.topk(5))  # type: ignore[misc]
        _check(threads, lambda t=t: t.median(), keys)  # type: ignore[misc]
        _check(threads, lambda t=t: t.kthvalue(100), keys)  # type: ignore[misc]
        _check(threads, lambda t=t: t.sort(), 8 * _N if dtype == st.float64 else 0)  # type: ignore[misc]
    _check(threads, lambda: x.reshape(512, 512).T.median(), keys)


@pytest.mark.check
@pytest.mark.parametrize("dtype", [st.float16, st.float32, st.float64])
def test_search_and_membership_take_blocks(dtype: st.dtype) -> None:
    x = _numbers(dtype, 512, 512)
    edges = st.arange(50).to(dtype) / 50
    _check(1, lambda: st.bucketize(x, edges, out_int32=True))
    _check(1, lambda: st.searchsorted(edges.double(), x))
    for t in (x, x.T):
        _check(1, lambda t=t: st.isin(t, edges))  # type: ignore[misc]
    _check(1, lambda: st.unique_consecutive(x))


@pytest.mark.parametrize("dtype", [st.float32, st.float64])
def test_histograms_and_quantiles_take_blocks(dtype: st.dtype) -> None:
    x = _numbers(dtype, 512, 512)
    nbytes = x.numel() * x.element_size()
    _check(1, lambda: st.histogram(x, 20).hist)
    _check(1, lambda: st.histogram(x, st.arange(20).to(dtype) / 20, weight=x).hist)
    _check(1, lambda: st.quantile(x, 0.3, 0), nbytes + 8 * _N)
    _check(1, lambda: st.nanquantile(x, 0.3, 1), nbytes + 8 * _N)


@pytest.mark.parametrize("dtype", [st.uint8, st.int32, st.int64])
def test_counts_take_blocks(dtype: st.dtype) -> None:
    x = (st.arange(_N) % 251).to(dtype)
    weights = _numbers(st.float16, _N)
    _check(1, lambda: st.bincount(x))
    _check(1, lambda: st.bincount(x, weights))
