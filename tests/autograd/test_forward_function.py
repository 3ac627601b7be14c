"""Forward mode through Functions of the user's own: jvp, and the errors of one that is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import shmtensor as st
from shmtensor.autograd import Function, gradcheck
from shmtensor.autograd import forward_ad as fwAD


@pytest.fixture
def level() -> Iterator[None]:
    with fwAD.dual_level():
        yield


def dual(values: list[Any], tangent: list[Any]) -> st.Tensor:
    return fwAD.make_dual(st.tensor(values), st.tensor(tangent))


def tangent(t: st.Tensor) -> Any:
    found = fwAD.unpack_dual(t).tangent
    return None if found is None else found.tolist()


class Cube(Function):
    @staticmethod
    def forward(ctx: Any, x: st.Tensor, y: Any = None) -> st.Tensor:
        ctx.save_for_forward(x)
        assert not fwAD._is_fwd_grad_enabled()
        return x**3

    @staticmethod
    def jvp(ctx: Any, tx: Any, ty: Any = None) -> Any:
        (x,) = ctx.saved_tensors
        ctx.given = ty
        return 3 * x * x * tx


@pytest.mark.check
def test_function(level: None) -> None:
    x = dual([1.0, 2.0], [1.0, 1.0])
    assert tangent(Cube.apply(x)) == [3.0, 12.0]
    assert tangent(Cube.apply(x, 5)) == [3.0, 12.0]
    assert tangent(Cube.apply(st.ones(1))) is None
    w = st.tensor([2.0], requires_grad=True)
    assert tangent(Cube.apply(fwAD.make_dual(w, st.ones(1)))) == [12.0]


def _function(forward: Any, jvp: Any = None) -> Any:
    methods = {"forward": staticmethod(forward)}
    if jvp is not None:
        methods["jvp"] = staticmethod(jvp)
    return type("Made", (Function,), methods)


def _doubled_in_place(ctx: Any, x: st.Tensor) -> st.Tensor:
    ctx.mark_dirty(x)
    return x.mul_(2)


@pytest.mark.parametrize(
    ("function", "error", "text"),
    [
        (_function(lambda ctx, x: x * 2), NotImplementedError, "must implement the jvp function"),
        (
            _function(lambda ctx, x: x * 2, lambda ctx, t: (t, t)),
            RuntimeError,
            r"invalid number of forward gradients \(expected 1 but got 2\)",
        ),
        (
            _function(lambda ctx, x: x * 2, lambda ctx, t: 3),
            RuntimeError,
            r"expected Variable or None \(got int\) for grad output 0",
        ),
        (
            _function(lambda ctx, x: x * 2, lambda ctx, t: st.ones(7)),
            RuntimeError,
            "has a different size than that of the original Tensor",
        ),
        (
            _function(_doubled_in_place, lambda ctx, t: t * 2),
            RuntimeError,
            "not modifying the forward mode gradients inplace",
        ),
        (
            _function(lambda ctx, x: x.view(-1), lambda ctx, t: t.clone()),
            RuntimeError,
            "the jvp is not returning a view",
        ),
    ],
)
def test_functions_that_raise(
    level: None, function: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        function.apply(dual([1.0, 2.0], [1.0, 1.0]).clone())


@pytest.mark.check
def test_functions_in_place_and_views(level: None) -> None:
    x = dual([1.0, 2.0], [1.0, 3.0]).clone()
    y = _function(_doubled_in_place, lambda ctx, t: t.mul_(2)).apply(x)
    assert y is x
    assert tangent(x) == [2.0, 6.0]
    y = _function(lambda ctx, x: x.view(2, 1), lambda ctx, t: t.view(2, 1)).apply(x)
    assert tangent(y) == [[2.0], [6.0]]
    y.mul_(0.5)
    assert tangent(x) == [1.0, 3.0]


def test_zeros_reach_jvp_unless_told(level: None) -> None:
    seen: list[Any] = []

    def product(ctx: Any, x: Any, y: Any) -> Any:
        ctx.set_materialize_grads(len(seen) == 0)
        return x * y

    def jvp(ctx: Any, tx: Any, ty: Any) -> Any:
        seen.append(ty)

    function = _function(product, jvp)
    assert tangent(function.apply(dual([1.0], [1.0]), st.ones(1))) is None
    assert seen[0].tolist() == [0.0]
    function.apply(dual([1.0], [1.0]), st.ones(1))
    assert seen[1] is None


def test_gradcheck_finds_a_wrong_jvp() -> None:
    x = st.rand(2, 2, dtype=st.float64, requires_grad=True)
    wrong = _function(lambda ctx, a: a.exp(), lambda ctx, t: t * 3)
    with pytest.raises(RuntimeError, match="computed with forward mode mismatch for output 0"):
        gradcheck(wrong.apply, x, check_forward_ad=True, check_backward_ad=False)
