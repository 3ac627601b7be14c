"""Operators that work block by block give the result of the whole tensor, with less memory.

Values of small operands: the families' own tests. Packed operands: test_packed_operands.py.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from peak import peak
from roundings import assert_summed

import shmtensor as st
from shmtensor.nn import functional as F

ROWS, COLUMNS = 700, 400
NBYTES = ROWS * COLUMNS * 4


def numbers(*shape: int) -> st.Tensor:
    return (st.arange(st.Size(shape).numel()) * 0.37).sin().reshape(shape)


@pytest.mark.check
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("place", [None, 0, ROWS * COLUMNS // 2, ROWS * COLUMNS - 1])
def test_comparisons_find_a_difference_anywhere(
    place: int | None, transposed: bool, threads: int
) -> None:
    x = numbers(ROWS, COLUMNS)
    y = x.clone()
    if place is not None:
        y.view(-1)[place] = st.nan
    if transposed:
        x = x.t().contiguous().t()
    assert x.equal(y) == (place is None)
    assert st.allclose(x, y) == (place is None)
    assert st.allclose(y, y, equal_nan=True)
    assert not x.equal(y[:, :-1])
    with pytest.raises(RuntimeError, match=r"size of tensor a"):
        st.allclose(x, y[:, :-1])
    assert st.allclose(x[:1].expand(ROWS, COLUMNS), x[:1])


@pytest.mark.parametrize("dtype", [st.float16, st.bfloat16, st.float32, st.float64, st.complex64])
@pytest.mark.parametrize("dim", [0, (0, 1), (0, 2), (1,), (0, 1, 2)])
def test_logsumexp_of_many(dim: int | tuple[int, ...], dtype: st.dtype, threads: int) -> None:
    x = numbers(70, 90, 50).to(dtype)
    x[3, 4, 5] = 9 if dtype.is_complex else -st.inf
    wide = x.to(st.complex128 if dtype.is_complex else st.float64)
    want = wide.exp().sum(dim).log()
    limits = {st.float16: 2e-3, st.bfloat16: 1e-2}
    for y in (x, x.permute(2, 0, 1).contiguous().permute(1, 2, 0)):
        got = y.logsumexp(dim)
        assert got.dtype == dtype
        assert st.allclose(got.to(want.dtype), want, rtol=limits.get(dtype, 1e-5), atol=1e-5)
        kept = y.logsumexp(dim, keepdim=True)
        assert kept.reshape(got.shape).equal(got)


@pytest.mark.parametrize("order", [0.5, 1, 2, 3, -1.5, st.inf])
@pytest.mark.parametrize("dim", [None, 0, 1])
def test_slopes_of_norms_of_many(dim: int | None, order: float) -> None:
    x = numbers(ROWS, COLUMNS)
    x[5, 7] = 0
    rows = x[:, :20] if dim == 0 else x[:20]  # few enough to be done at once

    def slopes(t: st.Tensor) -> st.Tensor:
        leaf = t.detach().clone().requires_grad_()
        norm = st.linalg.vector_norm(leaf, order, dim)
        (grad,) = st.autograd.grad(norm, leaf, st.full_like(norm, 0.5))
        return grad

    whole = slopes(x)
    if dim is not None:
        assert st.allclose(slopes(rows), whole[:, :20] if dim == 0 else whole[:20])
    leaf = x.clone().requires_grad_()
    norm = st.linalg.vector_norm(leaf, order, dim)
    (recorded,) = st.autograd.grad(norm, leaf, st.full_like(norm, 0.5), create_graph=True)
    assert recorded.detach().equal(whole)


@pytest.mark.parametrize("dtype", [st.float16, st.bfloat16, st.float32, st.float64, st.int32])
def test_products_of_batches_that_are_copied_in_parts(dtype: st.dtype, threads: int) -> None:
    x = (numbers(40, 64, 64) * 5).to(dtype)
    left, right = x[:, :, ::2], x[:, ::2].mT.contiguous()[:, ::2].mT
    start = (numbers(40, 64, 32) * 3).to(dtype)
    a, b, c = (t.double() for t in (left, right, start))
    plain, terms = a @ b, a.abs() @ b.abs()
    assert_summed(st.bmm(left, right), plain, terms)
    added = st.baddbmm(start, left, right, beta=2, alpha=3)
    assert_summed(added, 2 * c + 3 * plain, 2 * c.abs() + 3 * terms)
    total = st.addbmm(start[0], left, right, beta=2)
    assert_summed(total, 2 * c[0] + plain.sum(0), 2 * c[0].abs() + terms.sum(0))
    assert st.bmm(left[:0], right[:0]).shape == (0, 64, 32)


@pytest.mark.parametrize("bias", [False, True])
def test_matrices_whose_rows_lie_apart_are_not_copied(bias: bool) -> None:
    x, w, b = numbers(32, 64, 64).mT, numbers(48, 64), numbers(48) if bias else None
    added = st.zeros(48).double() if b is None else b.double()
    want = x.double() @ w.double().T + added
    terms = x.abs().double() @ w.abs().double().T + added.abs()
    assert_summed(F.linear(x, w, b), want, terms)
    assert_summed(x @ w[0], x.double() @ w[0].double(), x.abs().double() @ w[0].abs().double())
    assert peak(lambda: F.linear(x, w, b)) <= want.numel() * 4 * 9 // 8 + (32 << 10)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        F.linear(x, w[:, 1:], b)
    leaf, weight = x.clone().requires_grad_(), w.clone().requires_grad_()
    grads = st.autograd.grad(F.linear(leaf, weight, b), (leaf, weight), st.ones_like(want))
    for grad, factor, dims in ((grads[0], w, 0), (grads[1], x, (0, 1))):
        wide = factor.double()
        assert_summed(grad, wide.sum(dims).expand_as(grad), wide.abs().sum(dims).expand_as(grad))


@pytest.mark.check
def test_bilinear_of_many_outputs() -> None:
    x, y, w = numbers(300, 20), numbers(300, 30).cos(), numbers(12, 20, 30)
    want = st.stack([((x @ w[k]) * y).sum(1) for k in range(12)], 1)
    assert st.allclose(F.bilinear(x, y, w), want, rtol=1e-4, atol=1e-5)
    assert F.bilinear(x[:0], y[:0], w).shape == (0, 12)
    leaf = w.clone().requires_grad_()
    (grad,) = st.autograd.grad(F.bilinear(x, y, leaf).sum(), leaf)
    assert st.allclose(grad, (x.T @ y).expand(12, 20, 30), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("lead", [(), (3,)])
@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_gradient_of_half_a_spectrum(n: int, lead: tuple[int, ...]) -> None:
    x = numbers(*lead, 4, n).double().requires_grad_()
    for transform, whole in ((st.fft.rfft, st.fft.fft), (st.fft.rfft2, st.fft.fft2)):
        half = transform(x)
        weights = st.complex(numbers(*half.shape).double(), numbers(*half.shape).cos().double())
        (grad,) = st.autograd.grad(half, x, weights)
        spectrum = whole(x.to(st.complex128))[..., : n // 2 + 1]
        (want,) = st.autograd.grad(spectrum, x, weights)
        assert st.allclose(grad, want, rtol=1e-10, atol=1e-12)
    assert st.autograd.gradcheck(st.fft.rfft, x)
    assert st.autograd.gradgradcheck(st.fft.rfft, x)


@pytest.mark.parametrize("dtype", [st.float16, st.float32, st.float64])
@pytest.mark.parametrize("replacement", [False, True])
def test_draws_from_rows_of_any_layout(replacement: bool, dtype: st.dtype) -> None:
    p = numbers(9, 60).abs().to(dtype)
    p[:, ::3] = 0
    drawn = []
    for weights in (p, p.t().contiguous().t(), st.cat([p, p], 1)[:, :60]):
        st.manual_seed(3)
        drawn.append(st.multinomial(weights, 40, replacement))
    assert drawn[0].equal(drawn[1])
    assert drawn[0].equal(drawn[2])
    assert p.gather(1, drawn[0]).min() > 0
    if not replacement:
        assert all(len(set(row)) == 40 for row in drawn[0].tolist())
        everything = st.multinomial(p, 60)  # those without weight come last
        assert everything.sort(1)[0].equal(st.arange(60).expand(9, 60))
        assert (p.gather(1, everything[:, 40:]) == 0).all()


def test_counts_of_any_layout() -> None:
    p = numbers(70, 30).abs()
    results = []
    for rates in (p, p.t().contiguous().t()):
        st.manual_seed(4)
        results.append((st.poisson(rates * 20), st.binomial(rates * 0 + 9, rates)))
    for first, second in zip(*results, strict=True):
        assert first.equal(second)
        assert second.is_contiguous()
    st.manual_seed(4)
    with pytest.raises(RuntimeError, match="expected rate to be non-negative, got -1"):
        st.poisson(st.full((700,), -1.0))
    st.manual_seed(4)
    assert st.binomial(st.full((70, 1), 9.0), p[:1]).shape == (70, 30)


#: Calls, and how many matrices of float32 they may take.
PEAKS: dict[str, tuple[Callable[[st.Tensor], object], float]] = {
    "equal": (lambda x: x.equal(x.t().t()), 0),
    "allclose": (lambda x: st.allclose(x, x), 0),
    "poisson": (lambda x: st.poisson(x.abs_()), 1),
    "multinomial": (lambda x: st.multinomial(x.abs_(), 2), 0),
    "randperm": (lambda x: st.randperm(x.numel(), dtype=st.int32), 1),
    "normal": (lambda x: st.normal(x, x.abs_()), 1),
    "logsumexp": (lambda x: st.logsumexp(x, 0), 0),
    "diag_embed": (lambda x: st.diag_embed(x[: ROWS * 7 // COLUMNS]), 7),
    "scatter_reduce mean": (
        lambda x: x.scatter_reduce(0, st.zeros(1, COLUMNS, dtype=st.int64), x[:1], "mean"),
        3,
    ),
    "index_reduce_": (lambda x: x.index_reduce_(0, st.arange(9), x[:9].clone(), "amax"), 0),
    "ifft": (st.fft.ifft, 2),
    "conj_physical_": (lambda x: st.view_as_complex(x.view(ROWS, -1, 2)).conj_physical_(), 0),
}


@pytest.mark.parametrize("name", PEAKS)
def test_memory_of_pieces(name: str) -> None:
    call, matrices = PEAKS[name]
    x = numbers(ROWS, COLUMNS)
    assert peak(lambda: call(x)) <= matrices * NBYTES * 9 // 8 + (420 << 10)
