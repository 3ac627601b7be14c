"""Gradients of some results of a factorisation, of single matrices and of batches."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from peak import peak

import shmtensor as sh
from shmtensor.autograd import gradcheck, gradgradcheck

linalg = sh.linalg


def matrix(*shape: int) -> sh.Tensor:
    return sh.randn(*shape, dtype=sh.float64).requires_grad_()


@pytest.mark.check
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (4, 3), (3, 5), (1, 1)])
@pytest.mark.parametrize("dtype", [sh.float64, sh.complex128])
def test_gradients_of_either_lu_factor_and_of_both(shape, dtype):
    x = sh.randn(*shape, dtype=dtype).requires_grad_()
    for wanted in (slice(1, 2), slice(2, 3), slice(1, 3)):
        assert gradcheck(lambda a, wanted=wanted: linalg.lu(a)[wanted], (x,))
    assert gradgradcheck(lambda a: linalg.lu(a)[1:], (x,))
    assert linalg.lu(x)[1].grad_fn.name() == "LinalgLuBackward0"


@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 3), (3, 5)])
@pytest.mark.parametrize("full", [False, True])
def test_gradients_of_singular_values_with_vectors(shape, full):
    x = matrix(*shape)
    assert gradcheck(lambda a: linalg.svd(a, full)[1], (x,))
    assert gradgradcheck(lambda a: linalg.svd(a, full)[1], (x,))


def test_exponentials_of_a_batch_are_those_of_its_matrices(threads):
    for dtype in (sh.float32, sh.float64, sh.bfloat16, sh.complex64):
        x = sh.randn(7, 3, 50, 50).to(dtype) * sh.rand(7, 3, 1, 1)
        for given in (x, x.mT.contiguous().mT, x.transpose(0, 1)):
            found = linalg.matrix_exp(given)
            alone = sh.stack([linalg.matrix_exp(m) for m in given.reshape(-1, 50, 50)])
            difference = (found.reshape(-1, 50, 50) - alone).abs().amax((-1, -2))
            assert (difference <= 1e-6 * alone.abs().amax((-1, -2))).all()
    assert linalg.matrix_exp(sh.ones(9, 80, 80, device="meta")).shape == (9, 80, 80)


@pytest.mark.check
def test_gradient_of_a_real_transform_is_conjugated_without_a_copy():
    z = sh.randn(400, 300, dtype=sh.complex64)
    grad = sh.ones(400, 598)

    def run() -> sh.Tensor:
        leaf = z.detach().requires_grad_()
        return sh.autograd.grad(sh.fft.hfft(leaf), leaf, grad)[0]

    # The transform and the gradient, one after the other.
    assert peak(run) <= 2.3 * 400 * 300 * 8 * 9 // 8
    small = sh.randn(3, 5, dtype=sh.complex128).requires_grad_()
    assert gradcheck(sh.fft.hfft, (small,))
    assert gradcheck(lambda a: sh.fft.hfft(a, 12), (small,))
    assert gradgradcheck(sh.fft.hfft, (small,))


@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 3), (3, 5)])
@pytest.mark.parametrize("dtype", [sh.float64, sh.complex128])
def test_gradients_of_either_qr_factor(shape, dtype):
    x = sh.randn(*shape, dtype=dtype).requires_grad_()
    assert gradcheck(lambda a: linalg.qr(a)[0], (x,))
    # The phase of a row of R is Q's.
    assert gradcheck(lambda a: linalg.qr(a)[1].abs(), (x,))
    assert gradgradcheck(lambda a: linalg.qr(a)[0], (x,))


#: A factor or values, and how many matrices exist at once.
ONE: dict[str, tuple[Callable[[sh.Tensor], sh.Tensor], float]] = {
    "lu": (lambda a: linalg.lu(a)[1], 6),
    "svd": (lambda a: linalg.svd(a)[1], 4.2),
    "eigvalsh": (linalg.eigvalsh, 3.2),
    "qr": (lambda a: linalg.qr(a)[0], 6),
}


@pytest.mark.parametrize("name", ONE)
def test_memory_of_gradients_of_one_result(name):
    call, matrices = ONE[name]
    x = sh.randn(256, 256)
    grad = sh.ones_like(call(x))

    def run() -> sh.Tensor:
        leaf = x.detach().requires_grad_()
        return sh.autograd.grad(call(leaf), leaf, grad)[0]

    assert peak(run) <= matrices * 256 * 256 * 4 * 9 // 8


def test_memory_of_exponentials_of_a_batch():
    x = sh.randn(64, 64, 64)
    assert peak(lambda: linalg.matrix_exp(x)) <= 64 * 64 * 64 * 4 * 9 // 8 + (3 << 20)


def test_permutation_of_lu_is_a_constant() -> None:
    p, lower, upper = sh.linalg.lu(sh.rand(3, 3, requires_grad=True))
    assert (p.requires_grad, lower.requires_grad, upper.requires_grad) == (False, True, True)
    none = sh.ops.aten._lu_square_backward(None, None, p, lower.detach(), upper.detach())
    assert sh.equal(none, sh.zeros(3, 3))
