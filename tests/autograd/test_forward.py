"""Forward mode: levels, dual tensors, views, changes in place, recording, errors.

What each operator's tangents are is in tests/ops/spec/test_tangents.py; Functions are in
test_forward_function.py.
"""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import shmtensor as st
from shmtensor import _C
from shmtensor.autograd import forward_ad as fwAD
from shmtensor.autograd import functional, gradcheck, gradgradcheck


@pytest.fixture
def level() -> Iterator[None]:
    with fwAD.dual_level():
        yield


def dual(values: list[Any], tangent: list[Any]) -> st.Tensor:
    return fwAD.make_dual(st.tensor(values), st.tensor(tangent))


def tangent(t: st.Tensor) -> Any:
    found = fwAD.unpack_dual(t).tangent
    return None if found is None else found.tolist()


# --- levels --------------------------------------------------------------------------------------


@pytest.mark.check
def test_tangents_end_with_their_level() -> None:
    with fwAD.dual_level():
        x = dual([1.0, 2.0], [1.0, 0.0])
        y = x * 3
        kept = fwAD.unpack_dual(y).tangent
        assert tangent(y) == [3.0, 0.0]
    with fwAD.dual_level():
        assert tangent(x) is None
        assert tangent(y) is None
        assert tangent(y * x) is None
    assert kept is not None
    assert kept.tolist() == [3.0, 0.0]
    assert y.tolist() == [3.0, 6.0]


def test_level_ends_with_an_error() -> None:
    with pytest.raises(ZeroDivisionError), fwAD.dual_level():
        raise ZeroDivisionError
    assert fwAD.enter_dual_level() == 0
    fwAD.exit_dual_level()


def test_levels_do_not_nest(level: None) -> None:
    with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported"):
        fwAD.enter_dual_level()


def test_levels_that_are_not_there() -> None:
    with pytest.raises(RuntimeError, match="Dual level must be a positive number"):
        fwAD.exit_dual_level()
    with pytest.raises(RuntimeError, match="was not the last one that was created"):
        fwAD.exit_dual_level(level=3)
    with pytest.raises(RuntimeError, match="no level exists, make sure to enter_dual_level"):
        fwAD.make_dual(st.ones(2), st.ones(2))
    x = st.ones(2)
    assert fwAD.unpack_dual(x) == (x, None)


def test_dual_level_decorates() -> None:
    @fwAD.dual_level()
    def slope(x: float) -> float:
        y = fwAD.make_dual(st.tensor(x), st.tensor(1.0)) ** 2
        return float(fwAD.unpack_dual(y).tangent)

    assert slope(3.0) == 6.0


def test_tangents_are_freed(level: None) -> None:
    x, t = st.ones(3), st.ones(3)
    seen = weakref.ref(t)
    y = fwAD.make_dual(x, t)
    del t
    gc.collect()
    assert seen() is not None
    del y
    gc.collect()
    assert seen() is None


def test_tangents_are_freed_at_the_end_of_the_level() -> None:
    with fwAD.dual_level():
        t = st.ones(3)
        seen = weakref.ref(t)
        x = fwAD.make_dual(st.ones(3), t)
        y = [x * i for i in range(5)]
        del t
    gc.collect()
    assert seen() is None
    assert len(y) == 5


def test_nested_levels_of_the_core() -> None:
    """What torch.func builds on: d/da d/db of a * b * b."""
    outer = _C._enter_dual_level()
    a = _C._make_dual(st.tensor(2.0), st.tensor(1.0), outer)
    inner = _C._enter_dual_level(True)
    b = _C._make_dual(st.tensor(5.0), st.tensor(1.0), inner)
    y = a * b * b
    first, by_b = _C._unpack_dual(y, inner)
    assert by_b.item() == 20.0
    assert _C._unpack_dual(first, outer)[1].item() == 25.0
    assert _C._unpack_dual(by_b, outer)[1].item() == 10.0
    a.mul_(b)  # in place at both levels: a becomes a * b
    assert _C._unpack_dual(a, inner)[1].item() == 2.0
    assert _C._unpack_dual(_C._unpack_dual(a, inner)[0], outer)[1].item() == 5.0
    _C._exit_dual_level(inner, True)
    assert _C._unpack_dual(y, outer)[1].item() == 25.0
    with pytest.raises(RuntimeError, match="not the last one"):
        _C._exit_dual_level(inner, True)
    _C._exit_dual_level(outer)


def test_nested_levels_through_two_vjps() -> None:
    """d/ds d/dt of sum(cumprod(x + s a + t b)): cumprod has no formula."""
    x = st.tensor([1.0, 2.0, 3.0], dtype=st.float64)
    a = st.tensor([1.0, 0.5, -1.0], dtype=st.float64)
    b = st.tensor([0.5, 2.0, 1.0], dtype=st.float64)
    outer = _C._enter_dual_level()
    s = _C._make_dual(x, a, outer)
    inner = _C._enter_dual_level(True)
    y = st.cumprod(_C._make_dual(s, b, inner), 0).sum()
    by_t = _C._unpack_dual(y, inner)[1]
    both = _C._unpack_dual(by_t, outer)[1].item()
    _C._exit_dual_level(inner, True)
    _C._exit_dual_level(outer)
    hessian = functional.hessian(lambda v: st.cumprod(v, 0).sum(), x)
    assert both == pytest.approx((a @ hessian @ b).item())


def test_nested_levels_reach_saved_results() -> None:
    """The gradient of exp is its result, which the node saves; so are old values in place."""
    x = st.tensor(0.5, dtype=st.float64, requires_grad=True)
    one = st.tensor(1.0, dtype=st.float64)
    for function in (st.exp, lambda v: (v * 1).exp_(), lambda v: (v * 1).sin_()):
        outer = _C._enter_dual_level()
        a = _C._make_dual(x, one, outer)
        inner = _C._enter_dual_level(True)
        (g,) = st.autograd.grad(function(_C._make_dual(a, one, inner)), x)
        second = _C._unpack_dual(g, inner)[1]
        third = _C._unpack_dual(second, outer)[1].item()
        _C._exit_dual_level(inner, True)
        _C._exit_dual_level(outer)
        is_sine = function(st.zeros(())).item() == 0
        assert third == pytest.approx((-x.cos() if is_sine else x.exp()).item())


def test_threads_share_the_level(level: None) -> None:
    x = dual([1.0, 2.0], [1.0, 1.0])
    found: list[Any] = []

    def work() -> None:
        for _ in range(50):
            y = (x * x).sum()
        found.append(tangent(y))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [6.0] * 4


def test_forked_child_goes_on(level: None) -> None:
    x = dual([2.0], [1.0])
    pid = os.fork()
    if pid == 0:
        os._exit(0 if tangent(x * x) == [4.0] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


# --- dual tensors --------------------------------------------------------------------------------


def test_make_dual_makes_a_view(level: None) -> None:
    x, t = st.tensor([1.0, 2.0]), st.tensor([3.0, 4.0])
    y = fwAD.make_dual(x, t)
    assert y._is_view()
    assert y.data_ptr() == x.data_ptr()
    assert fwAD.unpack_dual(y).tangent is t
    assert tangent(x) is None
    plain = fwAD.unpack_dual(y).primal
    assert plain.data_ptr() == x.data_ptr()
    assert tangent(plain) is None
    assert tangent(plain * 2) is None
    assert tangent(plain.view(2, 1)) is None


def test_make_dual_copies_to_the_layout(level: None) -> None:
    x, t = st.arange(6.0).view(2, 3).t(), st.arange(6.0).view(3, 2)
    y = fwAD.make_dual(x, t)
    found = fwAD.unpack_dual(y).tangent
    assert found is not None
    assert found.stride() == x.stride()
    assert st.equal(found, t)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: (st.ones(2), st.ones(3)), RuntimeError, r"Tensor is of size \[2\] while .* \[3\]"),
        (lambda: (st.arange(2), st.ones(2)), ValueError, "Expected primal to be floating point"),
        (lambda: (st.ones(2), st.arange(2)), ValueError, "Expected tangent to be floating point"),
        (lambda: (dual([1.0], [1.0]), st.ones(1)), RuntimeError, "at the same level 0"),
        (lambda: (st.ones(1), dual([1.0], [1.0])), RuntimeError, "itself has a forward gradient"),
        (
            lambda: (st.ones(3, 1).expand(3, 3), st.rand(3, 3)),
            RuntimeError,
            "more than one element of the written-to tensor",
        ),
    ],
)
def test_make_dual_refuses(
    level: None, make: Callable[[], Any], error: type[Exception], text: str
) -> None:
    x, t = make()
    with pytest.raises(error, match=text):
        fwAD.make_dual(x, t)


def test_repr_shows_the_tangent(level: None) -> None:
    x = dual([1.0, 2.0], [3.0, 4.0])
    assert repr(x) == "tensor([1., 2.], tangent=tensor([3., 4.]))"
    assert repr(x.detach()) == "tensor([1., 2.])"


def test_detach_in_place(level: None) -> None:
    y = dual([1.0], [1.0]) * 2
    y.detach_()
    assert tangent(y) is None
    assert tangent(y * 2) is None


def test_numbers_with_tangents(level: None) -> None:
    n = fwAD.make_dual(st.tensor(2.0), st.tensor(1.0))
    assert tangent(st.ones(2) + n) == [1.0, 1.0]
    assert tangent(st.ones(2) * 3 * n) == [3.0, 3.0]
    assert tangent(n**2) == 4.0
    base = st.ones(3)
    base[1:] = n
    assert tangent(base) == [0.0, 1.0, 1.0]


def test_unpack_refuses_other_objects(level: None) -> None:
    with pytest.raises(TypeError, match=r"argument 'dual' \(position 1\) must be Tensor, not int"):
        fwAD.unpack_dual(3)


def test_results_without_tangents(level: None) -> None:
    x = dual([1.0, 2.0], [3.0, 4.0])
    assert tangent(x.detach()) is None
    assert tangent(x.data) is None
    assert tangent(x > 1) is None
    assert tangent(x.argmax()) is None
    assert tangent(x.long().float()) is None
    assert tangent(x.floor()) == [0.0, 0.0]


@pytest.mark.check
def test_modes(level: None) -> None:
    x = dual([1.0, 2.0], [3.0, 4.0])
    with st.no_grad():
        assert tangent(x * 2) == [6.0, 8.0]
    with st.inference_mode():
        assert tangent(x * 2) is None
    with fwAD._set_fwd_grad_enabled(False):
        assert not fwAD._is_fwd_grad_enabled()
        assert tangent(x) is None
        assert tangent(x * 2) is None
        assert tangent(fwAD.make_dual(st.ones(1), st.ones(1))) is None
    assert fwAD._is_fwd_grad_enabled()
    assert tangent(x * 2) == [6.0, 8.0]


def test_promotion(level: None) -> None:
    x = dual([1.0, 2.0], [3.0, 4.0])
    y = x * st.tensor([1j, 2.0])
    assert tangent(y) == [3j, 8.0]
    z = x.double() + 1
    assert z.dtype == fwAD.unpack_dual(z).tangent.dtype == st.float64


# --- views and changes in place ------------------------------------------------------------------


def test_views(level: None) -> None:
    x = dual([[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]])
    assert tangent(x[0]) == [5.0, 6.0]
    assert tangent(x.t()) == [[5.0, 7.0], [6.0, 8.0]]
    assert [tangent(row) for row in x.unbind()] == [[5.0, 6.0], [7.0, 8.0]]
    x[0].mul_(10)
    assert x.tolist() == [[10.0, 20.0], [3.0, 4.0]]
    assert tangent(x) == [[50.0, 60.0], [7.0, 8.0]]
    view = x[1]
    x.mul_(2)
    assert tangent(view) == [14.0, 16.0]


def test_writing_a_dual_makes_the_base_dual(level: None) -> None:
    base = st.zeros(2, 2)
    before = base.view(-1)
    base[1].copy_(dual([1.0, 2.0], [3.0, 4.0]))
    assert tangent(base) == [[0.0, 0.0], [3.0, 4.0]]
    assert tangent(before) == [0.0, 0.0, 3.0, 4.0]
    before[0] = 5
    assert tangent(base) == [[0.0, 0.0], [3.0, 4.0]]
    before.mul_(2)
    assert tangent(base) == [[0.0, 0.0], [6.0, 8.0]]
    base.zero_()
    assert tangent(before) == [0.0, 0.0, 0.0, 0.0]


def test_in_place(level: None) -> None:
    x = dual([1.0, 2.0], [3.0, 4.0]).clone()
    x.add_(st.ones(2))
    assert tangent(x) == [3.0, 4.0]
    x.mul_(x)
    assert x.tolist() == [4.0, 9.0]
    assert tangent(x) == [12.0, 24.0]
    x.sqrt_()
    assert tangent(x) == [3.0, 4.0]
    x.masked_fill_(st.tensor([True, False]), 7.0)
    assert tangent(x) == [0.0, 4.0]
    x[0] = dual([1.0], [9.0])[0]
    assert tangent(x) == [9.0, 4.0]
    x.uniform_()
    assert tangent(x) == [0.0, 0.0]


def test_integers_take_dual_values(level: None) -> None:
    counts = st.zeros(2, dtype=st.int64)
    counts.copy_(dual([1.0, 2.0], [3.0, 4.0]))
    assert counts.tolist() == [1, 2]
    assert tangent(counts) is None


def test_in_place_geometry_keeps_the_given_tangent(level: None) -> None:
    t = st.arange(6.0).view(2, 3)
    x = fwAD.make_dual(st.zeros(2, 3), t)
    x.t_()
    assert t.shape == (2, 3)
    assert tangent(x) == t.t().tolist()


def test_results_do_not_share_a_tangent(level: None) -> None:
    x = dual([1.0, 2.0], [3.0, 4.0])
    y = x + 1
    y.mul_(2)
    assert tangent(x) == [3.0, 4.0]
    assert tangent(y) == [6.0, 8.0]


def test_complex_views(level: None) -> None:
    z = fwAD.make_dual(st.tensor([1 + 2j]), st.tensor([3 + 4j]))
    assert tangent(z.conj()) == [3 - 4j]
    assert tangent(z.imag) == [4.0]
    assert tangent(z * z) == [2 * (1 + 2j) * (3 + 4j)]
    assert tangent(z.abs())[0] == pytest.approx((1 * 3 + 2 * 4) / 5**0.5)
    base = st.zeros(2, dtype=st.complex64)
    base.real.copy_(dual([1.0, 2.0], [3.0, 4.0]))
    assert tangent(base) == [3.0, 4.0]


# --- recording -----------------------------------------------------------------------------------


def test_forward_over_reverse(level: None) -> None:
    x = st.tensor([1.0, 2.0], requires_grad=True)
    d = fwAD.make_dual(x, st.tensor([1.0, 0.0]))
    (g,) = st.autograd.grad((d**3).sum(), d)
    assert tangent(g) == [6.0, 0.0]
    saved = st.tensor([0.5], requires_grad=True)  # exp saves its result
    (g,) = st.autograd.grad(fwAD.make_dual(saved, st.tensor([2.0])).exp().sum(), saved)
    assert tangent(g)[0] == pytest.approx(2 * 1.6487213)


def test_gradients_of_leaves_have_tangents(level: None) -> None:
    w = st.tensor([2.0], requires_grad=True)
    (w * dual([3.0], [5.0])).sum().backward()
    assert w.grad.tolist() == [3.0]
    assert tangent(w.grad) == [5.0]
    (w * dual([3.0], [5.0])).sum().backward()
    assert tangent(w.grad) == [10.0]


def test_reverse_over_forward() -> None:
    x = st.tensor([1.0, 2.0], dtype=st.float64, requires_grad=True)
    v = st.tensor([1.0, 3.0], dtype=st.float64, requires_grad=True)
    with fwAD.dual_level():
        y = (fwAD.make_dual(x, v) ** 3).sum()
        t = fwAD.unpack_dual(y).tangent
        assert t is not None
        by_x, by_v = st.autograd.grad(t, [x, v], retain_graph=True)
        assert tangent(by_x) is None  # what the tangent's graph saved has none
    assert by_x.tolist() == [6.0, 36.0]
    assert by_v.tolist() == [3.0, 12.0]
    assert st.autograd.grad(t, x)[0].tolist() == [6.0, 36.0]


def test_tangents_of_two_vjps_are_recorded() -> None:
    x = st.tensor([[2.0, 1.0], [1.0, 3.0]], dtype=st.float64, requires_grad=True)
    v = st.tensor([[1.0, 0.5], [0.0, -1.0]], dtype=st.float64)
    with fwAD.dual_level():
        t = fwAD.unpack_dual(st.linalg.det(fwAD.make_dual(x, v))).tangent
        assert t is not None
        assert t.item() == pytest.approx((x.det() * st.trace(x.inverse() @ v)).item())
        (g,) = st.autograd.grad(t, x)
    assert st.allclose(g, st.tensor([[-1.0, 0.0], [-0.5, 1.0]], dtype=st.float64))


def test_tangents_without_history(level: None) -> None:
    x = dual([[2.0, 1.0], [1.0, 3.0]], [[1.0, 0.0], [0.0, 1.0]])
    for y in (x @ x, st.linalg.det(x), x.prod(), st.linalg.eigvalsh(x)):
        t = fwAD.unpack_dual(y).tangent
        assert t is not None
        assert not t.requires_grad


def test_in_place_forward_over_reverse(level: None) -> None:
    x = st.tensor([2.0], requires_grad=True)
    d = fwAD.make_dual(x, st.tensor([1.0])).clone()
    y = d * 1
    y.pow_(3)
    (g,) = st.autograd.grad(y.sum(), x)
    assert g.tolist() == [12.0]
    assert tangent(g) == [12.0]


# --- what refuses --------------------------------------------------------------------------------


def test_out_refuses(level: None) -> None:
    x = dual([1.0], [1.0])
    text = "Trying to use forward AD with add_out that does not support it because it is an out="
    with pytest.raises(NotImplementedError, match=text):
        st.add(x, x, out=st.empty(1))
    with pytest.raises(NotImplementedError, match=text):
        st.add(st.ones(1), 1, out=x)


def test_operators_without_tangents_refuse(level: None) -> None:
    x = dual([[1.0]], [[1.0]])
    with pytest.raises(NotImplementedError, match="Trying to use forward AD with geqrf that does"):
        st.geqrf(x)
    with pytest.raises(NotImplementedError, match="Trying to use forward AD with set_ that does"):
        x.set_(st.ones(1))


# --- whole functions and checks ------------------------------------------------------------------


def test_jacobian_and_hessian() -> None:
    x = st.tensor([0.5, 1.0], dtype=st.float64)
    y = st.tensor([2.0, 3.0, 4.0], dtype=st.float64)

    def function(a: st.Tensor, b: st.Tensor) -> Any:
        return a.sin().sum() * b, (b * b).sum()

    forward: Any = {"vectorize": True, "strategy": "forward-mode"}
    found = functional.jacobian(function, (x, y), **forward)
    expected = functional.jacobian(function, (x, y))
    for row, want in zip(found, expected, strict=True):
        for block, right in zip(row, want, strict=True):
            assert st.allclose(block, right)
            assert block.shape == right.shape
    cubes = functional.hessian(
        lambda a: (a**3).sum(), x, vectorize=True, outer_jacobian_strategy="forward-mode"
    )
    assert st.allclose(cubes, (6 * x).diag())
    empty = functional.jacobian(lambda a: st.ones(2) * a.sum(), st.ones(0), **forward)
    assert empty.shape == (2, 0)
    with pytest.raises(NotImplementedError, match="only implemented for `vectorize=True`"):
        functional.jacobian(st.exp, x, strategy="forward-mode")
    with pytest.raises(RuntimeError, match="`strict=True` and `strategy="):
        functional.jacobian(st.exp, x, strict=True, **forward)
    with pytest.raises(NotImplementedError, match="`create_graph=True` and `strategy="):
        functional.jacobian(st.exp, x, create_graph=True, **forward)


def test_gradcheck() -> None:
    x = st.rand(2, 2, dtype=st.float64, requires_grad=True)
    z = st.randn(2, dtype=st.complex128, requires_grad=True)
    assert gradcheck(lambda a: a @ a.exp(), x, check_forward_ad=True)
    assert gradcheck(lambda a: (a * a, a.abs()), z, check_forward_ad=True)
    assert gradgradcheck(lambda a: a.prod(), x, check_fwd_over_rev=True)
    assert gradgradcheck(
        lambda a: a.tanh(),
        x,
        check_fwd_over_rev=True,
        check_rev_over_rev=False,
        check_undefined_grad=False,
    )
    with pytest.raises(AssertionError, match="at least one of check_forward_ad"):
        gradcheck(st.exp, x, check_backward_ad=False)
    with pytest.raises(AssertionError, match="requires check_forward_ad to be True"):
        gradcheck(st.exp, x, check_batched_forward_grad=True)
    with pytest.raises(AssertionError, match="at least one of check_fwd_over_rev"):
        gradgradcheck(st.exp, x, check_rev_over_rev=False)


def test_modules(level: None) -> None:
    st.manual_seed(0)
    model = st.nn.Sequential(
        st.nn.Conv2d(1, 2, 3),
        st.nn.BatchNorm2d(2),
        st.nn.ReLU(),
        st.nn.MaxPool2d(2),
        st.nn.Flatten(),
        st.nn.LayerNorm(18),
        st.nn.Linear(18, 4),
        st.nn.Softmax(-1),
    ).double()
    x = st.randn(2, 1, 8, 8, dtype=st.float64)
    v = st.randn(2, 1, 8, 8, dtype=st.float64)
    found = fwAD.unpack_dual(model(fwAD.make_dual(x, v))).tangent
    _, expected = functional.jvp(model, x, v)
    assert found is not None
    assert st.allclose(found, expected)
