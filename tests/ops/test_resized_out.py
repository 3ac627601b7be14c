"""The strides of ``out=`` after an operator has resized it: as in torch.

test_out_and_inplace.py tests that it is resized with a warning, test_out_dtypes.py its dtypes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as st

Call = Callable[[st.Tensor, st.Tensor], Any]

#: What comes to lie as a new result would.
KEEPING: dict[str, tuple[Call, st.dtype]] = {
    "add": (lambda x, out: st.add(x, x, out=out), st.float32),
    "mul by a number": (lambda x, out: st.mul(x, 2.0, out=out), st.float32),
    "exp": (lambda x, out: st.exp(x, out=out), st.float32),
    "gt": (lambda x, out: st.gt(x, 0.5, out=out), st.bool),
    "where": (lambda x, out: st.where(x > 0.5, x, x, out=out), st.float32),
    "clamp": (lambda x, out: st.clamp(x, 0, 1, out=out), st.float32),
    "lerp": (lambda x, out: st.lerp(x, x, 0.5, out=out), st.float32),
    "addcmul": (lambda x, out: st.addcmul(x, x, x, out=out), st.float32),
    "another dtype": (lambda x, out: st.add(x, x, out=out), st.float64),
    "broadcast": (lambda x, out: st.add(x, st.ones(8), out=out), st.float32),
    "sort": (
        lambda x, out: st.sort(x, 1, out=(out, st.empty(0, dtype=st.int64, device=out.device))),
        st.float32,
    ),
}


def _outs(dtype: st.dtype) -> list[st.Tensor]:
    """Empty, with elements, and in another place of a storage."""
    base = st.zeros(40, dtype=dtype)
    return [st.empty(0, dtype=dtype), st.empty(3, 5, dtype=dtype), base[7:11]]


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", KEEPING)
def test_a_resized_out_lies_as_a_new_result(name: str) -> None:
    f, dtype = KEEPING[name]
    plain = st.arange(384.0).view(2, 4, 6, 8)
    for order, strides in (
        ((0, 1, 2, 3), (192, 48, 8, 1)),
        ((0, 2, 3, 1), (192, 1, 32, 4)),
        ((3, 2, 1, 0), (1, 2, 8, 48)),
        ((1, 2, 3, 0), (1, 96, 16, 2)),
    ):
        back = [order.index(d) for d in range(4)]
        x = plain.permute(order).contiguous().permute(back)
        assert x.stride() == strides
        for out in _outs(dtype):
            want = st.empty(plain.shape, dtype=dtype)
            f(plain, want)
            offset = out.storage_offset()
            f(x, out)
            assert out.stride() == strides
            assert out.storage_offset() == offset
            assert st.equal(out, want)
        there = st.empty(0, dtype=dtype, device="meta")
        if name not in ("broadcast", "where"):
            f(st.empty_strided(x.shape, strides, device="meta"), there)
            assert there.stride() == strides


@pytest.mark.check
def test_an_out_of_the_right_size_keeps_its_strides() -> None:
    x, out = st.ones(2, 3, 4, 5).to(memory_format=st.channels_last), st.empty(2, 3, 4, 5)
    st.exp(x, out=out)
    assert out.is_contiguous()


def test_two_results_lie_alike() -> None:
    x = st.rand(5, 4).T
    mantissa, exponent = st.empty(0), st.empty(0, dtype=st.int32)
    st.frexp(x, out=(mantissa, exponent))
    assert mantissa.stride() == exponent.stride() == (1, 4)
    assert st.equal(mantissa, st.frexp(x)[0])


@pytest.mark.parametrize(
    ("f", "strides"),
    [
        (lambda x, out: st.cat([x, x], out=out), (192, 1, 32, 4)),
        (lambda x, out: st.diff(x, out=out), (168, 1, 28, 4)),
        (lambda x, out: st.sum(x, 1, out=out), (48, 8, 1)),
        (lambda x, out: st.cumsum(x, 1, out=out), (192, 48, 8, 1)),
        (lambda x, out: st.softmax(x, 1, out=out), (192, 48, 8, 1)),
        (lambda x, out: st.index_select(x, 0, st.tensor([0, 0]), out=out), (192, 48, 8, 1)),
        (lambda x, out: st.tril(x, out=out), (192, 48, 8, 1)),
        (lambda x, out: st.stack([x, x], out=out), (384, 192, 48, 8, 1)),
    ],
)
def test_others_lie_as_they_do_in_torch(f: Call, strides: tuple[int, ...]) -> None:
    x = st.rand(2, 4, 6, 8).to(memory_format=st.channels_last)
    for out in _outs(st.float32):
        f(x, out)
        assert out.stride() == strides


@pytest.mark.check
def test_matrices_by_columns() -> None:
    a = st.eye(5).expand(2, 5, 5) * 3
    for f, strides in (
        (st.linalg.inv, (25, 1, 5)),
        (st.linalg.cholesky, (25, 1, 5)),
        (lambda a, out: st.linalg.matrix_power(a, -1, out=out), (25, 5, 1)),
        (lambda a, out: st.cholesky_solve(a, a, out=out), (25, 5, 1)),
    ):
        out = st.empty(0)
        f(a, out=out)
        assert out.stride() == strides


def test_quantiles_and_copied_matrices_become_contiguous() -> None:
    x = st.rand(5, 4, 6).permute(2, 0, 1)
    for f in (st.quantile, st.nanquantile):
        for q in (0.25, st.tensor([0.25, 0.5])):
            for dim in (0, 2, -1):
                for out in _outs(st.float32):
                    f(x, q, dim, out=out)
                    assert out.is_contiguous()
                    assert st.equal(out, f(x, q, dim))
        with pytest.raises(RuntimeError, match="dtype"):
            f(x, 0.5, 1, out=st.empty(0, dtype=st.float64))
    a = st.eye(4).expand(3, 4, 4) * 2 + 0.25
    for dtype in (st.float32, st.float64):
        for g in (
            lambda out: st.cholesky(a, out=out),
            lambda out: st.cholesky(a, upper=True, out=out),
            lambda out: st.linalg.tensorinv(a[0].reshape(2, 2, 2, 2).permute(1, 0, 3, 2), out=out),
            lambda out: st.kron(a[0].T, a[1].T, out=out),
        ):
            out = st.empty(0, dtype=dtype)
            g(out)
            assert out.is_contiguous()


def test_transforms_become_contiguous() -> None:
    x = st.rand(2, 5, 5)
    for f in (st.fft.fft, st.fft.rfft):
        out = st.empty(0, dtype=st.complex64)
        f(x, dim=1, out=out)
        assert out.is_contiguous()
        assert st.equal(out, f(x, dim=1))
    out = st.empty(0)
    st.fft.irfft(st.complex(x, x), dim=1, out=out)
    assert out.is_contiguous()
