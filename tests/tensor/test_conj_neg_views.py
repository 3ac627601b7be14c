"""Conj and neg views: tensors whose conj and neg bits operators never see.

Not covered: travelling between processes (tests/multiprocessing), each operator (tests/ops).
"""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import _C


def _z(*shape: int) -> Any:
    st.manual_seed(3)
    return st.randn(*shape, dtype=st.complex64)


def _values(tensor: Any) -> Any:
    return tensor.detach().resolve_conj().resolve_neg().numpy()


# --- views ------------------------------------------------------------------------------------


@pytest.mark.check
def test_conj_is_a_view_and_of_real_tensors_the_tensor_itself() -> None:
    z = _z(3, 2)
    y = z.conj()
    assert y.is_conj()
    assert not y.conj().is_conj()
    assert y.data_ptr() == z.data_ptr()
    assert y._base is z
    x = st.ones(2)
    assert x.conj() is x
    assert not st.is_conj(x)
    y[0, 0] = 2 - 3j
    assert z[0, 0].item() == 2 + 3j


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t[1],
        lambda t: t[:, ::2],
        lambda t: t.t(),
        lambda t: t.reshape(-1),
        lambda t: t.unsqueeze(0).expand(2, 3, 4),
        lambda t: t.diagonal(),
        lambda t: t.split(2)[0],
        lambda t: t.detach(),
    ],
)
def test_views_keep_the_bit(view: Callable[[Any], Any]) -> None:
    z = _z(3, 4)
    y = view(z.conj())
    assert y.is_conj()
    np.testing.assert_array_equal(_values(y), _values(view(z)).conj())


def test_parts_of_a_conjugate_are_views() -> None:
    z = _z(4)
    im = z.conj().imag
    assert im.is_neg()
    assert not im.is_conj()
    np.testing.assert_array_equal(_values(im), -z.numpy().imag)
    im[1] = 5.0
    assert z[1].imag.item() == -5.0
    re = z.conj().real
    assert not re.is_neg()
    re.zero_()
    assert (z.real == 0).all()


def test_adjoints_are_conjugate_views() -> None:
    z = _z(2, 3)
    for y in (z.mH, z.H, z.adjoint()):
        assert y.is_conj()
        assert y.data_ptr() == z.data_ptr()
        np.testing.assert_array_equal(_values(y), z.numpy().conj().T)


# --- operators --------------------------------------------------------------------------------


def test_operators_see_values() -> None:
    z, w = _z(3, 3), _z(3, 3) + 1
    y, a, b = z.conj(), z.numpy().conj(), w.numpy()
    np.testing.assert_allclose((y + w).numpy(), a + b, rtol=1e-6)
    np.testing.assert_allclose((y @ w).numpy(), a @ b, rtol=1e-5)
    np.testing.assert_allclose(st.cat([y, w]).numpy(), np.concatenate([a, b]))
    np.testing.assert_allclose(y.sum().item(), a.sum(), rtol=1e-5)
    np.testing.assert_allclose(y.to(st.complex128).numpy(), a)
    np.testing.assert_array_equal(y[st.tensor([2, 0])].numpy(), a[[2, 0]])
    assert not y.clone().is_conj()
    assert y.contiguous() is y
    assert y.tolist() == a.tolist()
    assert y[1, 1].item() == complex(a[1, 1])
    assert st.equal(y, st.from_numpy(a))
    assert st.asarray(y, copy=True).tolist() == a.tolist()
    assert repr(y) == repr(st.from_numpy(a.copy()))


def test_negated_tensors_in_operators() -> None:
    z = _z(5)
    im, want = z.conj().imag, -z.numpy().imag
    np.testing.assert_array_equal((im * 2).numpy(), want * 2)
    np.testing.assert_array_equal(im.clone().numpy(), want)
    assert im.tolist() == want.tolist()
    assert float(im[2]) == float(want[2])
    np.testing.assert_array_equal(_C._neg_view(z.conj()).resolve_neg().numpy(), -z.numpy().conj())


def test_in_place_and_out_go_behind_the_bits() -> None:
    z = _z(3)
    before = z.numpy().copy()
    y = z.conj()
    assert y.mul_(1j) is y
    np.testing.assert_allclose(z.numpy(), (before.conj() * 1j).conj(), rtol=1e-6)
    out = st.zeros(3, dtype=st.complex64)
    assert st.add(st.ones(3), 2j, out=out.conj()) is not None
    np.testing.assert_array_equal(out.numpy(), np.full(3, 1 - 2j, np.complex64))
    z.conj().copy_(st.tensor([1j, 2j, 3j]))
    assert z.tolist() == [-1j, -2j, -3j]
    version = z._version
    z.conj().fill_(1j)
    assert z._version == version + 1
    assert z.tolist() == [-1j] * 3


@pytest.mark.check
def test_geometry_changes_keep_the_bit() -> None:
    y = _z(2, 3).conj()
    y.t_()
    assert y.is_conj()
    assert y.shape == (3, 2)
    y.unsqueeze_(0)
    assert y.is_conj()
    assert y.shape == (1, 3, 2)


def test_meta_and_empty_tensors() -> None:
    y = st.empty(2, 3, dtype=st.complex64, device="meta").conj()
    assert y.is_conj()
    assert (y + 1).shape == (2, 3)
    assert not (y + 1).is_conj()
    assert (st.empty(0, dtype=st.complex64).conj() + 1).shape == (0,)


# --- the outside --------------------------------------------------------------------------------


def test_what_shows_memory_refuses() -> None:
    z = _z(2)
    with pytest.raises(RuntimeError, match="conjugate bit set"):
        z.conj().numpy()
    with pytest.raises(RuntimeError, match="negative bit set"):
        z.conj().imag.numpy()
    np.testing.assert_array_equal(z.conj().numpy(force=True), z.numpy().conj())
    with pytest.raises(BufferError):
        z.conj().__dlpack__()
    with pytest.raises(BufferError):
        memoryview(z.conj())
    with pytest.raises(RuntimeError, match="view_as_real doesn't work on unresolved"):
        st.view_as_real(z.conj())
    with pytest.raises(RuntimeError, match="not supported for conjugate view tensors"):
        z.conj().view(st.complex128)
    with pytest.raises(RuntimeError, match="_neg_view"):
        _C._neg_view(st.ones(2, dtype=st.int64))


def test_copies_and_files_keep_value_and_bit() -> None:
    z = _z(3)
    for y in (z.conj(), z.conj().imag):
        file = io.BytesIO()
        st.save(y, file)
        file.seek(0)
        for again in (copy.deepcopy(y), pickle.loads(pickle.dumps(y)), st.load(file)):
            assert again.resolve_conj().resolve_neg().tolist() == y.tolist()
        assert copy.deepcopy(y).is_conj() == y.is_conj()


# --- gradients ------------------------------------------------------------------------------------


def test_gradients_stay_conj_views() -> None:
    z = _z(3).requires_grad_()
    y = z.conj()
    assert y.grad_fn.name() == "ConjBackward0"
    (y * (2 + 1j)).real.sum().backward()
    assert not z.grad.is_conj()
    np.testing.assert_allclose(z.grad.numpy(), np.full(3, 2 + 1j), rtol=1e-6)
    w = _z(3).requires_grad_()
    w.conj().imag.sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), np.full(3, -1j))


@pytest.mark.parametrize(
    "change",
    [
        lambda y: y.conj().mul_(2j),
        lambda y: y.imag.mul_(3.0),
        lambda y: y.conj().imag.mul_(3.0),
        lambda y: y[1:].conj().real.zero_(),
    ],
)
def test_in_place_changes_of_conj_neg_views_are_differentiated(
    change: Callable[[Any], Any],
) -> None:
    def f(x: Any) -> Any:
        y = x * 1
        change(y)
        return (y * y.conj()).real.sum() + y.imag.sum()

    z = st.randn(3, dtype=st.complex128).requires_grad_()
    assert st.autograd.gradcheck(f, (z,))


def test_complex_view_of_pairs_changed_in_place() -> None:
    x = st.randn(3, 2, dtype=st.float64).requires_grad_()

    def f(x: Any) -> Any:
        pairs = x * 1
        st.view_as_complex(pairs).mul_(1j)
        return (pairs * pairs[:, :1]).sum()

    assert st.autograd.gradcheck(f, (x,))


def test_conj_physical_of_real_numbers_is_a_write_all_the_same():
    leaf = st.ones(3, requires_grad=True)
    for x in (leaf, st._neg_view(leaf)):
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            x.conj_physical_()
    plain = st.tensor([1.0, -2.0])
    assert plain.conj_physical_() is plain and plain.tolist() == [1.0, -2.0]
    doubled = leaf * 2
    doubled.conj_physical_().sum().backward()
    assert leaf.grad.tolist() == [2.0, 2.0, 2.0]
