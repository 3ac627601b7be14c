"""func.jvp and what is made of it: forward mode, nested with every other transform."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as T
from shmtensor.autograd import Function
from shmtensor.autograd import forward_ad as fwAD
from shmtensor.func import grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap

D = T.float64
F = T.nn.functional


def close(got: Any, want: Any) -> None:
    assert T.allclose(got, want, rtol=1e-9, atol=1e-9), (got, want)


def data() -> T.Tensor:
    return T.tensor([0.3, 0.4, 0.5, 0.7], dtype=D)


def direction(x: T.Tensor) -> T.Tensor:
    return T.linspace(0.5, 1.5, x.shape[-1], dtype=D)


class Cube(Function):
    """x ** 3 with a forward derivative that is wrong by a factor: one sees which is used."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x**3

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_forward(inputs[0])
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def jvp(ctx: Any, tangent: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 30 * x * x * tangent

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x * x * g

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        return Cube.apply(x), in_dims[0]


class Mapped(Cube):
    vmap = Function.vmap
    generate_vmap_rule = True


class Old(Function):
    """The same with a context in forward."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_forward(x)
        return x**3

    jvp = Cube.jvp


def test_the_jvp_of_a_function_is_used() -> None:
    x = data()
    t = direction(x)
    tenfold = 30 * x * x
    for function in (Cube, Mapped, Old):
        y, tangent = jvp(function.apply, (x,), (t,))
        close(y, x**3)
        close(tangent, tenfold * t)
        close(jacfwd(function.apply)(x), tenfold.diag())
        close(linearize(function.apply, x)[1](t), tenfold * t)
    for function in (Cube, Mapped):
        close(vmap(lambda a, f=function: jvp(f.apply, (a,), (a,))[1])(x), tenfold * x)
        close(jvp(vmap(function.apply), (x,), (t,))[1], tenfold * t)
        close(jvp(lambda a, f=function: jvp(f.apply, (a,), (t,))[1], (x,), (t,))[1], 60 * x * t * t)
        close(jvp(grad(lambda a, f=function: f.apply(a).sum()), (x,), (t,))[1], 6 * x * t)
        close(grad(lambda a, f=function: jvp(f.apply, (a,), (t,))[1].sum())(x), 60 * x * t)
        close(hessian(lambda a, f=function: f.apply(a).sum())(x), (6 * x).diag())


def test_a_function_without_jvp_is_refused() -> None:
    class None_(Cube):
        jvp = Function.jvp

    for push in (lambda x: jvp(None_.apply, (x,), (x,)), jacfwd(None_.apply)):
        with pytest.raises(NotImplementedError, match="must implement the jvp function"):
            push(data())
    assert T._C._level_count() == 0


def test_both_tangents_of_a_nested_function() -> None:
    """Outputs have tangents of both levels, and the second derivative."""
    x = T.tensor(2.0, dtype=D)

    def inner(a: T.Tensor) -> T.Tensor:
        y, by_t = jvp(Cube.apply, (a,), (T.ones_like(a),))
        return T.stack([y, by_t])

    got = jvp(inner, (x,), (T.ones_like(x),))[1]
    close(got, T.tensor([30 * 4.0, 60 * 2.0], dtype=D))


@pytest.mark.check
def test_perturbations_are_not_confused() -> None:
    one, three = T.tensor(1.0), T.tensor(3.0)
    got = jvp(lambda x: x * jvp(lambda y: x + y, (one,), (one,))[1], (three,), (one,))
    assert [v.item() for v in got] == [3.0, 1.0]
    got = jvp(lambda x: x * jvp(lambda y: x * y, (one,), (one,))[1], (three,), (one,))
    assert [v.item() for v in got] == [9.0, 6.0]
    assert grad(lambda x: x * jvp(lambda y: x + y, (one,), (one,))[1])(three).item() == 1
    assert jvp(lambda x: x * grad(lambda y: x + y)(one), (three,), (one,))[1].item() == 1

    # The same function in an inner and an outer role.
    def push(f: Any) -> Any:
        return lambda x: jvp(f, (x,), (T.ones_like(x),))[1]

    assert push(push(push(lambda x: x**4)))(three).item() == 72


# --- every pair of transforms ---------------------------------------------------------------------


def _into_view(x: T.Tensor) -> T.Tensor:
    y = x.clone()
    y[0:1].copy_(x[0:1] * x[1:2])
    return y


def _into_zeros(x: T.Tensor) -> T.Tensor:
    y = T.zeros_like(x)
    y[0:1].copy_(x[0:1] * x[1:2])
    return y * x


def _in_place(x: T.Tensor) -> T.Tensor:
    y = x.sin()
    return y.mul_(y.flip(0).clone()).add_(x)


def _normalized(x: T.Tensor) -> T.Tensor:
    deviation = x - x.mean()
    return deviation / ((deviation * deviation).mean() + 1e-5).sqrt() * x


#: A function, and another that computes the same and whose derivatives backward has.
FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "cube": (lambda x: x**3, lambda x: x * x * x),
    "exp_": (lambda x: (x * 1).exp_() * x, lambda x: x.exp() * x),
    "view": (_into_view, lambda x: T.cat([x[:1] * x[1:2], x[1:]])),
    "zeros": (_into_zeros, lambda x: T.cat([x[:1] ** 2 * x[1:2], x[1:] * 0])),
    "in place": (_in_place, lambda x: x.sin() * x.flip(0).sin() + x),
    "cumprod": (
        lambda x: T.cumprod(x, 0),
        lambda x: T.stack([x[: i + 1].log().sum().exp() for i in range(4)]),
    ),
    "logcumsumexp": (lambda x: T.logcumsumexp(x, 0) * x, lambda x: x.exp().cumsum(0).log() * x),
    "layer_norm": (lambda x: F.layer_norm(x, (4,)) * x, _normalized),
    "mm": (lambda x: (x.view(2, 2) @ x.view(2, 2)).view(4), lambda x: _two_by_two(x)),
    "fft": (lambda x: T.fft.fft(x).abs() * x, lambda x: _fourier(x) * x),
    "index": (lambda x: x[T.tensor([1, 0, 1, 0])] * x, lambda x: T.stack([x[1], x[0]] * 2) * x),
    "no_grad": (lambda x: x * x, lambda x: x * x),
}


def _two_by_two(x: T.Tensor) -> T.Tensor:
    a, b, c, d = x.unbind()
    return T.stack([a * a + b * c, a * b + b * d, c * a + d * c, c * b + d * d])


def _fourier(x: T.Tensor) -> T.Tensor:
    angles = -2 * T.pi / 4 * T.outer(T.arange(4), T.arange(4)).to(D)
    re, im = angles.cos() @ x, angles.sin() @ x
    return (re * re + im * im + 1e-300).sqrt()


def _sum_of_columns(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: jacfwd(f)(x).sum(-1)


def _by_jacobian(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: jacrev(f)(x) @ direction(x)


def _batched(f: Callable[..., Any], dim: int) -> Callable[..., Any]:
    return lambda x: vmap(f, in_dims=dim)(T.stack([x, x * 1.1], dim)).sum(0)


#: A transform, and the same by backward alone.
TRANSFORMS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "jvp": (lambda f: lambda x: jvp(f, (x,), (direction(x),))[1], _by_jacobian),
    "jacfwd": (_sum_of_columns, lambda f: lambda x: jacrev(f)(x).sum(-1)),
    "grad": (lambda f: grad(lambda x: f(x) @ direction(x)),) * 2,
    "vjp": (lambda f: lambda x: vjp(f, x)[1](direction(x))[0],) * 2,
    "jacrev": (lambda f: lambda x: jacrev(f)(x).sum(-1),) * 2,
    "vmap": (lambda f: _batched(f, 0), lambda f: lambda x: f(x) + f(x * 1.1)),
    "vmap of columns": (lambda f: _batched(f, 1), lambda f: lambda x: f(x) + f(x * 1.1)),
}
PAIRS = [p for p in itertools.product(TRANSFORMS, repeat=2) if {"jvp", "jacfwd"} & set(p)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_pairs_of_transforms(name: str) -> None:
    function, plain = FUNCTIONS[name]
    x = data()
    for inner, outer in PAIRS:
        got = TRANSFORMS[outer][0](TRANSFORMS[inner][0](function))(x)
        want = TRANSFORMS[outer][1](TRANSFORMS[inner][1](plain))(x)
        assert T.allclose(got, want, rtol=1e-7, atol=1e-8), (inner, outer, got, want)
        assert not got.requires_grad
    assert T._C._level_count() == 0


@pytest.mark.parametrize("name", ["cube", "in place", "layer_norm"])
def test_three_transforms(name: str) -> None:
    function, plain = FUNCTIONS[name]
    x = data()
    for chain in itertools.product(("jvp", "grad", "vmap"), repeat=3):
        got, want = function, plain
        for transform in chain:
            got, want = TRANSFORMS[transform][0](got), TRANSFORMS[transform][1](want)
        assert T.allclose(got(x), want(x), rtol=1e-6, atol=1e-7), chain


def test_the_tangent_is_recorded_for_gradients_outside() -> None:
    x, t = data().requires_grad_(), direction(data()).requires_grad_()
    _, tangent = jvp(T.sin, (x,), (t,))
    by_x, by_t = T.autograd.grad(tangent.sum(), (x, t))
    close(by_x, -x.sin() * t)
    close(by_t, x.cos())


# --- what forward mode is, and two backward runs are not -----------------------------------------


def test_no_grad_does_not_stop_tangents() -> None:
    x = data()

    def f(a: T.Tensor) -> T.Tensor:
        with T.no_grad():
            return a * a

    close(jvp(f, (x,), (x,))[1], 2 * x * x)
    close(jacfwd(f)(x), (2 * x).diag())
    with T.no_grad():
        close(jvp(f, (x,), (x,))[1], 2 * x * x)
    with T.inference_mode():
        close(jvp(f, (x,), (x,))[1], 2 * x * x)
    with fwAD._set_fwd_grad_enabled(False):
        close(jvp(f, (x,), (x,))[1], 2 * x * x)
        assert not fwAD._is_fwd_grad_enabled()


def test_hooks_do_not_change_tangents() -> None:
    x = data().requires_grad_()

    def f(a: T.Tensor) -> T.Tensor:
        y = a * 2
        y.register_hook(lambda g: g * 5)
        return y

    close(jvp(f, (x,), (x.detach(),))[1], 2 * x.detach())


def test_operators_whose_backward_is_no_transposed_jacobian() -> None:
    weight = T.ones(3, 2, dtype=D)
    i = T.tensor([0, 2])
    got = jvp(lambda w: F.embedding(i, w, padding_idx=0), (weight,), (weight * 7,))[1]
    assert got.tolist() == [[7.0, 7.0], [7.0, 7.0]]
    x = T.tensor([0.0, 1.0, -1.0, 2.0], dtype=D)
    got = jvp(lambda a: T.logcumsumexp(a, 0), (x,), (T.tensor([0.0, 1.0, -1.0, 2.0], dtype=D),))[1]
    weights = x.exp() / x.exp().cumsum(0)[:, None]
    close(got, weights.tril() @ x)


def test_outputs_that_are_no_numbers_of_the_field() -> None:
    x = data()
    y, t = jvp(lambda a: (a * 2, a.argmax(), a > 0.4), (x,), (x,))
    assert [v.dtype for v in t] == [D, T.int64, T.bool]
    assert t[1].item() == 0
    assert not t[2].any()
    assert y[1].item() == 3
    assert jacfwd(lambda a: a.argmax())(x).tolist() == [0, 0, 0, 0]
    assert jacfwd(lambda a: a * 2)(T.zeros(0)).shape == (0, 0)


def test_in_place_changes_of_a_primal_change_its_tangent() -> None:
    x, t = data(), direction(data())
    x0, t0 = x.clone(), t.clone()

    def f(a: T.Tensor) -> T.Tensor:
        a.mul_(3)
        return a * a

    y, tangent = jvp(f, (x,), (t,))
    close(y, 9 * x0 * x0)
    close(tangent, 18 * x0 * t0)
    close(x, 3 * x0)
    close(t, 3 * t0)
    close(jacfwd(f)(x0.clone()), (18 * x0).diag())


def test_jacfwd_calls_the_function_once_for_all_columns() -> None:
    x = data()
    calls = []

    def f(a: T.Tensor) -> T.Tensor:
        calls.append(1)
        scale = 2.0 if a.sum() > 0 else 3.0  # values are those of the input, not of the columns
        return a * a[0].item() * scale

    close(jacfwd(f)(x), T.eye(4, dtype=D) * 0.6)
    assert len(calls) == 1
    with pytest.raises(RuntimeError, match="randomness error mode"):
        jacfwd(lambda a: a * T.rand(4, dtype=D))(x)
    found = jacfwd(lambda a: a * T.rand(4, dtype=D), randomness="same")(x)
    assert (found == found.diag().diag()).all()
    got, aux = jacfwd(lambda a: (a * 2, {"twice": a * 2}), has_aux=True)(x)
    close(got, 2 * T.eye(4, dtype=D))
    close(aux["twice"], 2 * x)


def test_linearize_repeats_the_function_as_it_was() -> None:
    x = data()
    drop = T.nn.Dropout(0.5)
    y, push = linearize(drop, x)
    kept = (y / x).clone()
    x.add_(100)
    state = T.get_rng_state()
    for _ in range(2):
        close(push(T.ones_like(x)), kept)
    assert (T.get_rng_state() == state).all()
    for tangents, text in (
        ((x, x), "same argspec"),
        ((x[:1],), "with shape"),
        ((x.float(),), "dtype"),
    ):
        with pytest.raises(RuntimeError, match=text):
            push(*tangents)


def test_has_aux_and_trees() -> None:
    x = data()

    def f(d: Any) -> Any:
        return {"s": [d["a"] * d["b"], d["a"].sum()]}, {"aux": d["a"] * 3, "n": 4}

    primals = ({"a": x, "b": x + 1},)
    y, t, aux = jvp(f, primals, ({"a": T.ones_like(x), "b": T.zeros_like(x)},), has_aux=True)
    close(y["s"][0], x * (x + 1))
    close(t["s"][0], x + 1)
    assert t["s"][1].item() == 4
    close(aux["aux"], 3 * x)
    with fwAD.dual_level():
        assert fwAD.unpack_dual(aux["aux"]).tangent is None


def test_strict_wants_outputs_that_depend_on_inputs() -> None:
    x = data()
    assert not jvp(lambda a: T.ones(2), (x,), (x,))[1].any()
    with pytest.raises(RuntimeError, match="independent of the inputs"):
        jvp(lambda a: T.ones(2), (x,), (x,), strict=True)
    close(jvp(lambda a, b: a, (x, x), (x, x), strict=True)[1], x)


REFUSED: list[tuple[Callable[[T.Tensor], Any], type[Exception], str]] = [
    (lambda x: jvp(T.sin, [x], [x]), RuntimeError, "Expected primals to be a tuple"),
    (lambda x: jvp(T.sin, (x,), (x[:1],)), RuntimeError, r"size \[4\] while .* size \[1\]"),
    (lambda x: jvp(lambda: x, (), ()), RuntimeError, "to contain at least one Tensor"),
    (lambda x: jvp(T.sin, (x.long(),), (x,)), ValueError, "Expected primal to be floating"),
    (lambda x: jvp(T.sin, (x,), (x.long(),)), ValueError, "Expected tangent to be floating"),
    (lambda x: jvp(lambda a: 3, (x,), (x,)), RuntimeError, "to return only tensors.*int"),
    (lambda x: jvp(lambda a: (), (x,), (x,)), RuntimeError, "non-empty output"),
    (lambda x: jvp(T.sin, (x,), (x,), has_aux=True), RuntimeError, "should be a tuple"),
    (lambda x: jvp(lambda a: T.sin(a, out=T.empty(4)), (x,), (x,)), NotImplementedError, "out="),
    (lambda x: jacfwd(lambda a: a + 1j)(x), RuntimeError, "complex tensor at flat.* idx: 0"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), REFUSED)
def test_what_is_refused(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call(data())
    assert T._C._level_count() == 0
    assert fwAD.enter_dual_level() == 0  # no level of func is left
    fwAD.exit_dual_level()


def test_dual_levels_do_not_begin_inside() -> None:
    x = data()

    def f(a: T.Tensor) -> T.Tensor:
        with fwAD.dual_level():
            return a

    with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported"):
        jvp(f, (x,), (x,))
    with fwAD.dual_level():
        dual = fwAD.make_dual(x, x)
        y, t = jvp(lambda a: a * dual, (x,), (x,))
        close(t, x * x)
        close(fwAD.unpack_dual(y).tangent, x * x)
        close(fwAD.unpack_dual(t).tangent, x * x)


def test_a_jvp_inside_of_a_functions_jvp() -> None:
    class Outer(Cube):
        @staticmethod
        def jvp(ctx: Any, tangent: Any) -> Any:
            (x,) = ctx.saved_tensors
            return jvp(lambda a: a**3, (x,), (tangent,))[1]

        @staticmethod
        def forward(x: Any) -> Any:
            return jvp(lambda a: a**4 / 4, (x,), (T.ones_like(x),))[1]

    x = data()
    close(jvp(Outer.apply, (x,), (x,))[1], 3 * x**3)
    twice = jvp(lambda a: jvp(Outer.apply, (a,), (T.ones_like(a),))[1], (x,), (x,))[1]
    close(twice, 6 * x * x)


def test_levels_of_threads() -> None:
    """Levels of several threads are different ones, and a thread follows what it is given."""
    x = data()
    barrier = threading.Barrier(4)
    found: list[Any] = [None] * 4

    def work(i: int, captured: T.Tensor) -> None:
        def f(a: T.Tensor) -> T.Tensor:
            barrier.wait(30)
            y = a * captured * (i + 1)
            barrier.wait(30)
            return y

        found[i] = jvp(f, (x,), (x,))

    def outer(a: T.Tensor) -> T.Tensor:
        threads = [threading.Thread(target=work, args=(i, a)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return T.stack([tangent for _, tangent in found])

    y, tangent = jvp(outer, (x,), (T.ones_like(x),))
    for i in range(4):
        close(y[i], (i + 1) * x * x)
        close(tangent[i], (i + 1) * x)


def test_tangents_of_batched_tensors_that_are_written() -> None:
    """A tangent that does not differ between examples takes one that does."""
    xs = T.stack([data(), 2 * data()])
    t = direction(data())

    def f(x: T.Tensor) -> T.Tensor:
        return jvp(lambda a: (a * 1).exp_().mul_(a), (x,), (t,))[1]

    close(vmap(f)(xs), (xs.exp() * (xs + 1)) * t)
    close(vmap(f, in_dims=1)(xs.t().contiguous()), (xs.exp() * (xs + 1)) * t)
    close(
        vmap(lambda x: jacfwd(lambda a: (a * 1).exp_().mul_(a))(x).diagonal())(xs),
        xs.exp() * (xs + 1),
    )


def test_operators_of_parts_with_rules_for_vmap_keep_tangents() -> None:
    x = T.tensor([[1.0, 2.0, 4.0], [3.0, 5.0, 4.0]], dtype=T.float64)
    lengths = T.tensor([1, 2])
    for f in (
        T.cov,
        lambda a: T.cov(a, aweights=T.tensor([1.0, 2.0, 1.0])),
        lambda a: T.renorm(a, 2, 0, 1.0),
        lambda a: a.clone().renorm_(2, 0, 1.0),
        lambda a: T.segment_reduce(a[0], "prod", lengths=lengths),
        lambda a: T.segment_reduce(a[0], "mean", lengths=lengths),
    ):
        assert jacfwd(f)(x).allclose(jacrev(f)(x))
        both = T.stack([x, x + 1])
        rows = vmap(lambda a, f=f: jvp(f, (a,), (a * a,))[1])(both)
        assert rows.allclose(T.stack([jvp(f, (a,), (a * a,))[1] for a in both]))
    assert jacfwd(T.cov)(x[0]).allclose(T.tensor([-4 / 3, -1 / 3, 5 / 3], dtype=T.float64))
