"""Scalar operands that do not fit the dtype raise an error; they are never truncated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.nn import functional as F

x = st.ones(2, 2)
whole = st.ones(2, 2, dtype=st.int32)


@pytest.mark.parametrize(
    ("call", "type_name"),
    [
        (lambda: F.elu(x, 1j), "float"),
        (lambda: F.elu(x, 1e40), "float"),
        (lambda: F.leaky_relu(x, 1j), "float"),
        (lambda: F.softplus(x, 1j), "float"),
        (lambda: F.hardshrink(x.double(), 1j), "double"),
        (lambda: F.threshold(x, 1j, 0), "float"),
        (lambda: F.threshold(whole, float("nan"), 0), "int"),
        (lambda: F.threshold(whole, 0, 3e10), "int"),
        (lambda: F.hardtanh(whole, 0, 3e10), "int"),
        (lambda: st.lerp(x, x, 1j), "float"),
        (lambda: st.add(whole, whole, alpha=2**40), "int"),
        (lambda: st.addmm(x, x, x, beta=1j), "float"),
        (lambda: st.addmm(whole, whole, whole, alpha=3e10), "int"),
        (lambda: st.addmv(x[0], x, x[0], alpha=1j), "float"),
        (lambda: st.baddbmm(x[None], x[None], x[None], beta=1e40), "float"),
        (lambda: st.addbmm(x, x[None], x[None], alpha=1j), "float"),
        (lambda: st.addr(x, x[0], x[0], beta=1j), "float"),
        (lambda: x.half().fill_(3e10), "c10::Half"),
        (lambda: x.half().masked_fill(x > 0, -1e9), "c10::Half"),
        (lambda: x.bfloat16().fill_(3.4e38), "c10::BFloat16"),
        (lambda: st.add(x.half(), x.half(), alpha=1e5), "c10::Half"),
        (lambda: st.sub(x.half(), 1, alpha=70000), "c10::Half"),
        (lambda: x.half().add_(x.half(), alpha=1e5), "c10::Half"),
        (lambda: st.add(x.bfloat16(), x.bfloat16(), alpha=3.4e38), "c10::BFloat16"),
        (lambda: x.half().index_fill(0, st.tensor([0]), 1e5), "c10::Half"),
        (lambda: x.bfloat16().index_fill_(0, st.tensor([0]), 1e300), "c10::BFloat16"),
        (lambda: x.half().index_fill_(0, st.tensor([0]), st.tensor(1e5)), "c10::Half"),
        (lambda: st.full((2,), 70000, dtype=st.float16), "c10::Half"),
        (lambda: st.arange(1j, 2), "double"),
        (lambda: st.arange(0, 2, 1j), "double"),
        (lambda: st.linspace(1j, 2, 3, out=st.empty(3)), "float"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(call: Callable[[], Any], type_name: str) -> None:
    with pytest.raises(RuntimeError, match=f"cannot be converted to type {type_name} without"):
        call()


@pytest.mark.check
def test_limits_of_halves_fit() -> None:
    assert st.full((1,), 65504.0, dtype=st.float16).item() == 65504.0
    assert st.full((1,), -float("inf"), dtype=st.float16).item() == -float("inf")
    assert F.elu(x.half(), 1e5).tolist() == x.tolist()  # halves are calculated in float32
    assert st.add(x.half(), x, alpha=1e5).dtype is st.float32


def test_hardtanh_of_unsigned_numbers_has_no_negative_limit() -> None:
    with pytest.raises(RuntimeError, match="unsigned type with negative limits"):
        F.hardtanh(x.to(st.uint8), -1, 1)


def test_addr_of_bools_takes_whole_factors_only() -> None:
    yes = st.ones(2, dtype=st.bool)
    assert st.addr(x > 2, yes, yes, alpha=2).tolist() == [[True, True], [True, True]]
    with pytest.raises(RuntimeError, match="argument beta must not be a floating point number"):
        st.addr(x > 2, yes, yes, beta=0.5)
    with pytest.raises(RuntimeError, match="Boolean beta only supported"):
        st.addr(x, x[0], x[0], beta=True)


@pytest.mark.parametrize(("start", "end"), [(1j, 3), (0, 2 + 1j), (1 + 1j, 1 + 1j), (0j, 3)])
@pytest.mark.parametrize("steps", [0, 1, 2, 5, 1001])
def test_linspace_between_complex_numbers(start: complex, end: complex, steps: int) -> None:
    got = st.linspace(start, end, steps)
    assert got.dtype is st.complex64
    np.testing.assert_allclose(got.numpy(), np.linspace(start, end, steps), rtol=1e-6)


def test_linspace_between_complex_numbers_has_a_complex_dtype() -> None:
    assert st.linspace(1j, 3, 2, dtype=st.complex128).tolist() == [1j, 3 + 0j]
    assert st.linspace(st.tensor(1j), 3, 2).tolist() == [1j, 3 + 0j]
    with pytest.raises(RuntimeError, match="c10::complex<float> can't be safely cast"):
        st.linspace(1j, 3, 2, dtype=st.float32)


def test_logspace_of_any_base() -> None:
    powers = st.logspace(1j, 2, 7, dtype=st.complex128)
    np.testing.assert_allclose(powers.numpy(), np.power(10, np.linspace(1j, 2, 7)), rtol=1e-13)
    assert st.logspace(1, 2, 3, base=0).tolist() == [0.0, 0.0, 0.0]
    assert st.logspace(0, 2, 3, base=-2, dtype=st.float64).tolist()[::2] == [1.0, 4.0]


def test_losses_of_whole_distances_are_whole() -> None:
    loss = F.hinge_embedding_loss(
        st.tensor([1, 0, 3]), st.tensor([1, -1, 1]), margin=1.5, reduction="none"
    )
    assert loss.dtype is st.int64
    assert loss.tolist() == [1, 1, 3]


@pytest.mark.check
def test_masked_median_of_whole_numbers() -> None:
    values = st.tensor([[1, 2, 3], [4, 5, 6]])
    mask = st.tensor([[True, False, True], [False, False, True]])
    assert st.masked.median(values, 1, mask=mask).tolist() == [1, 6]
    with pytest.raises(ValueError, match="no fully masked out rows"):
        st.masked.median(values, 1, mask=mask & (values < 4))


@pytest.mark.parametrize(
    "call",
    [
        lambda a: st.linalg.eigh(a),
        lambda a: st.linalg.lu_factor(a),
        lambda a: st.geqrf(a),
        lambda a: st.cholesky_inverse(a),
        lambda a: st.linalg.solve_triangular(a, a, upper=True),
        lambda a: st.linalg.householder_product(a, a[0]),
    ],
)
@pytest.mark.parametrize("dtype", [st.int32, st.float16])
def test_factors_of_dtypes_without_a_routine(call: Callable[[Any], Any], dtype: Any) -> None:
    with pytest.raises(NotImplementedError, match=r"not implemented for '(Int|Half)'"):
        call(st.ones(2, 2, dtype=dtype))


@pytest.mark.parametrize("name", ["median", "nanmedian", "mode"])
def test_complex_numbers_have_no_middle(name: str) -> None:
    with pytest.raises(NotImplementedError, match="not implemented for 'ComplexFloat'"):
        getattr(st, name)(st.ones(3, dtype=st.complex64))


def test_powers_of_bools_are_themselves_or_true() -> None:
    a = st.tensor([True, False])
    assert a.pow(True).tolist() == [True, False]
    assert a.pow(False).tolist() == [True, True]
    assert a.clone().pow_(False).tolist() == [True, True]
    with pytest.raises(NotImplementedError):
        a.pow(a)


def test_exponents_beyond_the_dtype_are_refused() -> None:
    for dtype, exponent in ((st.int32, 2**40), (st.uint8, 300), (st.float16, 1e30)):
        with pytest.raises(RuntimeError, match="without overflow"):
            st.ones(2, dtype=dtype).pow(exponent)


INF = float("inf")


@pytest.mark.parametrize(
    ("call", "want"),
    [
        (lambda t: t + 1e300, INF),
        (lambda t: t - 1e300, -INF),
        (lambda t: t * 1e300, INF),
        (lambda t: t / 1e300, 0.0),
        (lambda t: t // 1e300, 0.0),
        (lambda t: t % 1e300, 1.0),
        (lambda t: 1e300 - t, INF),
        (lambda t: 1e300 / t, INF),
        (lambda t: st.add(t, 1e300), INF),
        (lambda t: t.clone().add_(1e300), INF),
        (lambda t: t.clone().mul_(-1e300), -INF),
        (lambda t: t == 1e300, False),
        (lambda t: t < 1e300, True),
        (lambda t: t > 1e300, False),
        (lambda t: t != 1e300, True),
        (lambda t: (2 * t) ** 1e300, INF),
        (lambda t: (2 * t).pow_(1e300), INF),
        (lambda t: st.isin(t, 1e300), False),
        (lambda t: st.nan_to_num(t * float("nan"), nan=1e300), INF),
        (lambda t: st.nan_to_num(t * INF, posinf=1e300), INF),
    ],
)
def test_numbers_beyond_float32_are_infinite(call: Callable[[Any], Any], want: float) -> None:
    assert call(st.ones(2)).tolist() == [want] * 2
    assert call(st.ones(17)[::2]).tolist() == [want] * 9


def test_numbers_beyond_float32_are_whole_in_float64() -> None:
    t = st.ones(2, dtype=st.float64)
    assert (t * 1e300).tolist() == [1e300] * 2
    assert (st.ones(2, dtype=st.int64) * 1e300).tolist() == [INF] * 2
