"""Memory beside the results of sorts and order statistics, of lines that lie together or not."""

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


@pytest.mark.parametrize("dtype", [st.float16, st.float32, st.float64])
def test_lines_are_gathered_a_few_at_a_time(threads: int, dtype: st.dtype) -> None:
    x = _numbers(dtype, 512, 512)
    for t in (x, x.T):
        for dim in (0, 1):
            _check(threads, lambda t=t, d=dim: t.sort(d))  # type: ignore[misc]
            _check(threads, lambda t=t, d=dim: t.topk(5, d))  # type: ignore[misc]
            _check(threads, lambda t=t, d=dim: t.topk(300, d))  # type: ignore[misc]
            _check(threads, lambda t=t, d=dim: t.kthvalue(9, d))  # type: ignore[misc]
            _check(threads, lambda t=t, d=dim: t.mode(d))  # type: ignore[misc]


@pytest.mark.parametrize("dtype", [st.float32, st.float64])
def test_long_lines_are_read_where_they_lie(threads: int, dtype: st.dtype) -> None:
    x = _numbers(dtype, _N)
    every_second = st.stack([x, x], 1)[:, 1]
    keys = _N * x.element_size()
    for t in (x, every_second):
        _check(threads, lambda t=t: t.topk(5))  # type: ignore[misc]
        _check(threads, lambda t=t: t.median(), keys)  # type: ignore[misc]
        _check(threads, lambda t=t: t.kthvalue(100), keys)  # type: ignore[misc]
        _check(threads, lambda t=t: t.sort(), 8 * _N if dtype == st.float64 else 0)  # type: ignore[misc]
    _check(threads, lambda: x.reshape(512, 512).T.median(), keys)
