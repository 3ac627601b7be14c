"""Tangents where a function has a corner, a pole or equal values: the values are torch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as st
from shmtensor.autograd import forward_ad as fwAD

F = st.nn.functional
INF, NAN = float("inf"), float("nan")


def tangent_of(function: Callable[..., Any], inputs: Any, tangents: Any) -> st.Tensor | None:
    with fwAD.dual_level():
        args = []
        for values, moves in zip(inputs, tangents, strict=True):
            x = st.tensor(values)
            x = x if x.is_complex() else x.double()
            t = None if moves is None else st.tensor(moves).to(x.dtype).expand_as(x).clone()
            args.append(x if t is None else fwAD.make_dual(x, t))
        found: st.Tensor | None = fwAD.unpack_dual(function(*args)).tangent
        return found


ONE: list[tuple[str, Callable[..., Any], list[Any], Any, list[Any]]] = [
    ("sgn of complex", st.sgn, [0j, 3 + 4j], 1 + 0j, [0j, 0.128 - 0.096j]),
    ("angle of complex", st.angle, [0j, 3 + 4j], 1 + 0j, [0.0, -0.16]),
    ("abs of complex", st.abs, [0j, 3 + 4j], 1 + 0j, [0.0, 0.6]),
    ("abs", st.abs, [0.0, -0.0, -2.0], 1.0, [0.0, 0.0, -1.0]),
    ("sgn", st.sgn, [0.0, 2.0], 1.0, [0.0, 0.0]),
    ("relu", F.relu, [0.0, NAN, 1.0], 1.0, [0.0, 1.0, 1.0]),
    ("sqrt", st.sqrt, [0.0, 4.0], 1.0, [INF, 0.25]),
    ("sinc", st.sinc, [0.0], 1.0, [0.0]),
    ("pow(x, 0)", lambda x: x**0, [0.0, INF], 1.0, [0.0, 0.0]),
    ("pow(x, 1)", lambda x: x**1, [0.0], 1.5, [1.5]),
    ("pow(0, x)", lambda x: st.pow(0, x), [0.0, 1.0], 1.0, [0.0, 0.0]),
    ("clamp with equal bounds", lambda x: st.clamp(x, 1.0, 1.0), [0.0, 1.0, 2.0], 1.0, [0, 1, 0]),
    ("clamp", lambda x: st.clamp(x, -1.0, 1.0), [-1.0, 1.0, 2.0], 1.0, [1.0, 1.0, 0.0]),
    ("norm of zeros", st.linalg.vector_norm, [0.0, 0.0], 1.0, 0.0),
    ("std of equal numbers", st.std, [1.0, 1.0, 1.0], [1.0, 2.0, 4.0], 0.0),
    ("var of equal numbers", st.var, [1.0, 1.0, 1.0], [1.0, 2.0, 4.0], 0.0),
    ("prod with zeros", st.prod, [0.0, 2.0, 0.0], 1.0, 0.0),
    ("prod with a zero", st.prod, [0.0, 2.0, 3.0], 1.0, 6.0),
    ("cumprod with zeros", lambda x: x.cumprod(0), [1.0, 0.0, 1.0], 1.0, [1.0, 1.0, 1.0]),
    ("amax of equal numbers", st.amax, [1.0, 1.0, 0.0], [1.0, 3.0, 5.0], 2.0),
    ("logsumexp of -inf", lambda x: st.logsumexp(x, 0), [-INF, 1.0], 1.0, 1.0),
    (
        "logcumsumexp",
        lambda x: st.logcumsumexp(x, 0),
        [-INF, 0.0, 800.0],
        [1.0, -2.0, 3.0],
        [0.0, -2.0, 3.0],
    ),
]  # fmt: skip


@pytest.mark.check
@pytest.mark.parametrize(("name", "function", "x", "t", "want"), ONE, ids=[c[0] for c in ONE])
def test_tangents_of_one_argument(name: str, function: Any, x: Any, t: Any, want: Any) -> None:
    got = tangent_of(function, [x], [t])
    assert got is not None
    close = st.allclose(got, st.tensor(want).to(got.dtype), equal_nan=True)
    assert close, (got, want)


def _above(x: Any, low: Any) -> Any:
    return st.clamp(x, min=low)


def _between(x: Any, bound: Any) -> Any:
    return st.clamp(x, bound, bound)


def _parts_of_polar(length: Any, angle: Any) -> Any:
    return st.view_as_real(st.polar(length, angle))


TWO: list[tuple[str, Callable[..., Any], list[float], list[float], list[float], list[float]]] = [
    ("maximum", st.maximum, [1.0, 0.0, NAN], [1.0, NAN, 0.0], [0.5, 0.0, 0.0], [0.5, 1.0, 1.0]),
    ("minimum", st.minimum, [1.0, 0.0, NAN], [1.0, NAN, 0.0], [0.5, 0.0, 0.0], [0.5, 1.0, 1.0]),
    ("fmax", st.fmax, [1.0, 0.0, NAN], [1.0, NAN, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]),
    ("clamp from below", _above, [1.0, 2.0, 0.0], [1.0, 1.0, NAN], [0, 1, 0], [1, 0, 1]),
    ("clamp to one place", _between, [0.0, 1.0, 2.0], [1.0, 1.0, 1.0], [0, 1, 0], [1, 0, 1]),
    ("polar", _parts_of_polar, [0.0], [1.0], [0.5403023, 0.8414710], [0.0, 0.0]),
    ("pow", st.pow, [0.0, 0.0, 2.0], [0.0, 2.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.3862944]),
    ("atan2", st.atan2, [0.0, 1.0], [0.0, 0.0], [NAN, 0.0], [NAN, -1.0]),
    ("xlogy", st.xlogy, [0.0, 2.0], [0.0, 1.0], [0.0, 0.0], [NAN, 2.0]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "f", "x", "y", "by_x", "by_y"), TWO, ids=[c[0] for c in TWO])
def test_tangents_of_two_arguments(name: str, f: Any, x: Any, y: Any, by_x: Any, by_y: Any) -> None:
    for tangents, want in (([1.0, None], by_x), ([None, 1.0], by_y)):
        got = tangent_of(f, [x, y], tangents)
        assert got is not None
        close = st.allclose(got.flatten(), st.tensor(want).to(got.dtype), equal_nan=True)
        assert close, (tangents, got, want)


UNRECORDED = [
    ("_ctc_loss", lambda x: F.ctc_loss(x, st.tensor([[1, 2]]), st.tensor([3]), st.tensor([2]))),
    ("_multi_margin", lambda x: F.multi_margin_loss(x[:, 0], st.tensor([0, 1, 2]))),
]


@pytest.mark.parametrize(("name", "function"), UNRECORDED, ids=[c[0] for c in UNRECORDED])
def test_a_backward_that_is_not_recorded_is_no_tangent_of_zero(name: str, function: Any) -> None:
    x = st.arange(12.0).view(3, 1, 4).sin().log_softmax(-1)
    with pytest.raises(NotImplementedError, match=f"forward AD with {name} that does not support"):
        st.func.jvp(function, (x,), (x,))


# --- derivatives of tangents ----------------------------------------------------------------------

NORMALIZED: list[tuple[str, Callable[[Any], Any], tuple[int, ...]]] = [
    ("layer_norm", lambda x: F.layer_norm(x, (4,), x[0], x[1]), (3, 4)),
    ("group_norm", lambda x: F.group_norm(x, 2), (2, 4, 3)),
    ("instance_norm", F.instance_norm, (2, 4, 3)),
    ("batch_norm", lambda x: F.batch_norm(x, None, None, training=True), (3, 4, 2)),
    (
        "batch_norm in evaluation",
        lambda x: F.batch_norm(x, st.zeros(4).double(), st.ones(4).double()) * x,
        (3, 4, 2),
    ),
    ("rms_norm", lambda x: F.rms_norm(x, (4,)), (3, 4)),
    ("logcumsumexp", lambda x: st.logcumsumexp(x, -1), (3, 4)),
    ("polar", lambda x: st.polar(x.exp(), x).real, (3, 4)),
]


@pytest.mark.parametrize(("name", "f", "shape"), NORMALIZED, ids=[c[0] for c in NORMALIZED])
def test_tangents_depend_on_statistics_through_the_input(name: str, f: Any, shape: Any) -> None:
    """The derivative of the tangent, backward and forward, against central differences."""
    n = st.zeros(shape).numel()
    x = st.arange(float(n), dtype=st.float64).mul(1.7).sin().view(shape)
    t, v = (x * 3).cos(), (x * 5).sin()
    w = (f(x) * 2 + st.arange(float(f(x).numel()), dtype=st.float64).view(f(x).shape)).cos()

    def product(a: Any) -> Any:
        return (st.func.jvp(f, (a,), (t,))[1] * w).sum()

    want = (product(x + 1e-5 * v) - product(x - 1e-5 * v)).item() / 2e-5
    assert (st.func.grad(product)(x) * v).sum().item() == pytest.approx(want, rel=1e-5, abs=1e-6)
    assert st.func.jvp(product, (x,), (v,))[1].item() == pytest.approx(want, rel=1e-5, abs=1e-6)
