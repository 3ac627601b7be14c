"""grad, vjp, jvp, Jacobians and their nesting; per-sample gradients, ensembles, meta-learning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as T
from shmtensor.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    replace_all_batch_norm_modules_,
    stack_module_state,
    vjp,
    vmap,
)

D = T.float64


def close(a: T.Tensor, b: T.Tensor) -> None:
    assert a.shape == b.shape and a.allclose(b, atol=1e-10, rtol=1e-9), (a, b)


def cube(x: T.Tensor) -> T.Tensor:
    return (x**3).sum()


def data() -> T.Tensor:
    T.manual_seed(1)
    return T.randn(3, 4, dtype=D)


@pytest.mark.check
def test_gradients_leave_grad_alone_and_have_no_history() -> None:
    x = data()
    g, value = grad_and_value(cube)(x)
    close(g, 3 * x**2)
    close(value, cube(x))
    assert not g.requires_grad and not value.requires_grad
    leaf = x.clone().requires_grad_()
    assert grad(cube)(leaf).requires_grad and leaf.grad is None
    with T.no_grad():
        inside = grad(cube)(leaf)
    close(inside, 3 * x**2)
    assert not inside.requires_grad


def test_arguments() -> None:
    x = data()

    def f(a: T.Tensor, b: T.Tensor) -> T.Tensor:
        return (a * b).sum()

    a, b = x[0], x[1]
    for numbers, want in (((0, 1), (b, a)), ((-1,), (a,)), ((1, 0), (a, b))):
        got = grad(f, argnums=numbers)(a, b)
        for one, right in zip(got, want, strict=True):
            close(one, right)
    close(grad(f, argnums=1)(a, b), a)
    tree = grad(lambda d: (d["a"] * d["b"][0]).sum())({"a": a, "b": [b]})
    close(tree["a"], b)
    close(tree["b"][0], a)
    g, aux = grad(lambda t: (t.sum(), {"twice": t * 2}), has_aux=True)(a)
    close(g, T.ones_like(a))
    close(aux["twice"], 2 * a)
    close(grad(lambda p, q: q.sum())(a, b), T.zeros_like(a))


def test_no_confusion_of_perturbations() -> None:
    one = T.tensor(1.0, dtype=D)
    assert grad(lambda a: a * grad(lambda b: a + b)(one))(one).item() == 1
    assert grad(lambda a: a * jvp(lambda b: a * b, (one,), (one,))[1])(one).item() == 2
    # d/da of a * (d/db of a * b at 1) = d/da of a * a
    assert vmap(grad(lambda a: a * grad(lambda b: a * b)(one)))(one.expand(3)).tolist() == [2, 2, 2]


def _push(f: Callable[[T.Tensor], T.Tensor], t: T.Tensor) -> T.Tensor:
    return jvp(f, (t,), (T.ones_like(t),))[1]


NESTED: list[tuple[str, Callable[[T.Tensor], T.Tensor]]] = [
    ("grad of grad", lambda x: vmap(vmap(grad(grad(lambda a: a**3))))(x)),
    ("grad of vmap of grad", lambda x: grad(lambda t: vmap(grad(cube))(t).sum())(x)),
    ("vmap of jvp of grad", lambda x: vmap(lambda t: _push(grad(cube), t))(x)),
    ("vmap of vjp of grad", lambda x: vmap(lambda t: vjp(grad(cube), t)[1](T.ones_like(t))[0])(x)),
    ("jvp of vjp", lambda x: _push(lambda t: vjp(cube, t)[1](T.ones((), dtype=D))[0], x)),
    ("vmap of hessian", lambda x: vmap(hessian(cube))(x).diagonal(dim1=1, dim2=2)),
    ("jacfwd of jacrev", lambda x: jacfwd(jacrev(cube))(x.flatten()).diagonal().reshape(3, 4)),
    ("jacrev of jacfwd", lambda x: jacrev(jacfwd(cube))(x.flatten()).diagonal().reshape(3, 4)),
    ("jacrev of jacrev", lambda x: jacrev(jacrev(cube))(x.flatten()).diagonal().reshape(3, 4)),
    ("jacfwd of jacfwd", lambda x: jacfwd(jacfwd(cube))(x.flatten()).diagonal().reshape(3, 4)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "second"), NESTED)
def test_all_ways_to_a_second_derivative(name: str, second: Any) -> None:
    x = data()
    got = second(x)
    close(got, 6 * x)
    assert not got.requires_grad
    leaf = x.clone().requires_grad_()
    (outer,) = T.autograd.grad(second(leaf).sum(), leaf)
    close(outer, T.full_like(x, 6))
    assert T._C._level_count() == 0


def test_closures_are_constants_inside_and_differentiable_outside() -> None:
    x = data()
    two = T.tensor(2.0, dtype=D)
    want = (x.cos() - 2 * x * (2 * x).sin() * 0).sum() * 0 + (
        (x * 2).cos() - x * 2 * (x * 2).sin()
    ).sum()
    for f in (
        lambda y: vmap(grad(lambda t: (t * y).sin().sum()))(x).sum(),
        lambda y: grad(lambda t: (t * y).sin().sum())(x).sum(),
        lambda y: vmap(lambda t: jvp(lambda z: (z * y).sin(), (t,), (T.ones_like(t),))[1])(x).sum(),
        lambda y: vmap(lambda t: vjp(lambda z: (z * y).sin(), t)[1](T.ones_like(t))[0])(x).sum(),
        lambda y: sum(jacrev(lambda z: (z * y).sin())(row).sum() for row in x),
        lambda y: sum(jacfwd(lambda z: (z * y).sin())(row).sum() for row in x),
    ):
        close(grad(f)(two), want)


def test_products_with_jacobians() -> None:
    x = data()
    w = T.randn(4, 2, dtype=D)

    def f(t: T.Tensor) -> T.Tensor:
        return (t.sin() @ w).cos()

    t, v = x[0], x[1]
    j = jacrev(f)(t)
    close(jacfwd(f)(t), j)
    close(jacrev(f, chunk_size=1)(t), j)
    value, pull = vjp(f, t)
    close(value, f(t))
    u = T.randn(2, dtype=D)
    close(pull(u)[0], u @ j)
    close(jvp(f, (t,), (v,))[1], j @ v)
    value, push = linearize(f, t)
    close(value, f(t))
    close(push(v), j @ v)
    close(vmap(push)(x), x @ j.T)
    both = jacrev(lambda a, b: {"p": a * b, "s": a.sum()}, argnums=(0, 1))(t, v)
    close(both["p"][0], v.diag())
    close(both["s"][1], T.zeros(4, dtype=D))


@pytest.mark.check
def test_in_place_writes_inside_of_transforms() -> None:
    x = data()

    def f(t: T.Tensor) -> T.Tensor:
        z = t.new_zeros(4)
        z[1] = t[0] * 2
        z = z * t
        z[2:] += t[:2] ** 2
        return z.sum()

    want = T.stack([T.autograd.functional.jacobian(f, row) for row in x])
    close(vmap(grad(f))(x), want)
    close(T.stack([grad(f)(row) for row in x]), want)


def _net() -> T.nn.Module:
    T.manual_seed(0)
    nn = T.nn
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(16, 5), nn.LayerNorm(5), nn.Linear(5, 3),
    ).double()  # fmt: skip


def test_gradients_for_each_sample() -> None:
    net = _net()
    params = {k: p.detach() for k, p in net.named_parameters()}
    x, y = T.randn(5, 1, 6, 6, dtype=D), T.tensor([0, 1, 2, 1, 0])

    def loss(p: dict[str, T.Tensor], a: T.Tensor, b: T.Tensor) -> T.Tensor:
        return T.nn.functional.cross_entropy(functional_call(net, p, (a[None],)), b[None])

    for chunk in (None, 2):
        each = vmap(grad(loss), in_dims=(None, 0, 0), chunk_size=chunk)(params, x, y)
        for i in range(5):
            net.zero_grad()
            T.nn.functional.cross_entropy(net(x[i : i + 1]), y[i : i + 1]).backward()
            for name, p in net.named_parameters():
                close(each[name][i], p.grad)


def test_ensembles() -> None:
    nets = [_net() for _ in range(3)]
    for i, net in enumerate(nets):
        with T.no_grad():
            for p in net.parameters():
                p.mul_(1 + i / 3)
    params, buffers = stack_module_state(nets)
    assert all(p.is_leaf and p.requires_grad for p in params.values())
    x = T.randn(2, 1, 6, 6, dtype=D)
    out = vmap(lambda p, b: functional_call(nets[0], (p, b), (x,)))(params, buffers)
    for i, net in enumerate(nets):
        close(out[i], net(x))
    out.square().sum().backward()
    nets[1](x).square().sum().backward()
    for name, p in nets[1].named_parameters():
        close(params[name].grad[1], p.grad)


def test_inner_loop_of_meta_learning() -> None:
    x = data()

    def inner(w: T.Tensor, data: T.Tensor) -> T.Tensor:
        return ((data @ w).sin() ** 2).mean()

    def outer(w: T.Tensor) -> T.Tensor:
        for step in range(2):
            w = w - 0.1 * grad(inner)(w, x + step)
        return inner(w, x + 2)

    w = T.randn(4, 2, dtype=D)
    g = grad(outer)(w)
    eps = 1e-6
    for i, j in ((0, 0), (3, 1)):
        d = T.zeros_like(w)
        d[i, j] = eps
        difference = (outer(w + d) - outer(w - d)) / (2 * eps)
        assert abs(difference.item() - g[i, j].item()) < 1e-7
    close(vmap(grad(outer))(T.stack([w, w]))[1], g)


class Scaled(T.autograd.Function):
    """sin(x) * y with derivatives that say that it was theirs."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: T.Tensor, y: T.Tensor) -> T.Tensor:
        return x.sin() * y

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: T.Tensor) -> Any:
        x, y = ctx.saved_tensors
        return 2 * g * x.cos() * y, g * x.sin()


class Squared(T.autograd.Function):
    """x ** 2 with a vmap of its own."""

    @staticmethod
    def forward(x: T.Tensor) -> T.Tensor:
        return x**2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: T.Tensor) -> Any:
        return 3 * g * ctx.saved_tensors[0]

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: T.Tensor) -> Any:
        assert info.batch_size == x.shape[in_dims[0]]
        return Squared.apply(x.movedim(in_dims[0], 0)), 0


def test_functions_with_a_derivative_of_their_own() -> None:
    x = data()
    y = T.full((4,), 2.0, dtype=D)
    for f, want in (
        (lambda t: Scaled.apply(t, y), 4 * x.cos()),
        (Squared.apply, 3 * x),
    ):
        close(vmap(grad(lambda t, f=f: f(t).sum()))(x), want)
        close(grad(lambda t, f=f: vmap(f)(t).sum())(x), want)
        close(vmap(lambda t, f=f: jacrev(f)(t).diagonal())(x), want)
    close(grad(lambda t: vmap(lambda a: Scaled.apply(a, t))(x).sum())(y), x.sin().sum(0))

    class Plain(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: T.Tensor) -> T.Tensor:
            return a

    with pytest.raises(RuntimeError, match="must override the setup_context"):
        vmap(Plain.apply)(x)
    Plain.forward = staticmethod(lambda a: a)
    Plain.setup_context = staticmethod(lambda ctx, inputs, output: None)
    with pytest.raises(RuntimeError, match="it does not have vmap support"):
        vmap(Plain.apply)(x)


def test_batch_norms() -> None:
    net = T.nn.Sequential(T.nn.BatchNorm1d(4), T.nn.Linear(4, 2))
    x = T.randn(3, 5, 4)
    with pytest.raises(RuntimeError, match="updated in place, were not batched"):
        vmap(net)(x)
    assert replace_all_batch_norm_modules_(net) is net
    assert vmap(net)(x).allclose(T.stack([net(a) for a in x]), atol=1e-6)


WRONG: list[tuple[Callable[[T.Tensor], Any], str]] = [
    (
        lambda x: grad(lambda t: t)(x),
        "Expected f.* to return a scalar Tensor, got tensor with 2 dims",
    ),
    (lambda x: grad(lambda t: 1.0)(x), "to return a Tensor, got <class 'float'>"),
    (lambda x: grad(cube)(x.long()), "only Tensors of floating point dtype can require gradients"),
    (lambda x: grad(cube, argnums=3)(x), "Got argnum=3, but only 1 positional inputs"),
    (lambda x: grad(cube, has_aux=True)(x), r"should be a tuple: \(output, aux\)"),
    (lambda x: grad(lambda t: t.mul_(2).sum())(x), "leaf Variable that requires grad"),
    (lambda x: grad(lambda t: (t.sum().backward(), t.sum())[1])(x), "inside a functorch transform"),
    (lambda x: grad(lambda t: t.requires_grad_().sum())(x), r"Tensor.requires_grad_\(\)"),
    (lambda x: jvp(cube, x, x), "Expected primals to be a tuple"),
    (lambda x: jvp(cube, (x,), (x, x)), "to have the same python structure"),
    (lambda x: jvp(cube, (x,), (1,)), "only contain Tensors, got <class 'int'>"),
    (lambda x: jvp(cube, (x,), (x[0],)), r"size \[3, 4\] while .* size \[4\]"),
    (lambda x: vjp(cube, x)[1]((x, x)), "Expected pytree structure of cotangents"),
    (lambda x: jacrev(lambda t: 1.0)(x), "expected f.* to return only tensors"),
    (lambda x: jacfwd(lambda t: 1.0)(x), "expected f.* to return only tensors"),
    (lambda x: stack_module_state([]), "Expected at least one model, got 0"),
    (lambda x: functionalize(cube, remove="views"), "received invalid argument for kwarg"),
]


@pytest.mark.parametrize(("call", "text"), WRONG)
def test_wrong_calls(call: Any, text: str) -> None:
    x = data()
    with pytest.raises(RuntimeError, match=text):
        call(x)
    assert T._C._level_count() == 0 and T.is_grad_enabled()


def test_jacobians_of_numbers_and_of_nothing() -> None:
    x = T.tensor(3.0, dtype=D)
    for jacobian in (jacrev, jacfwd):
        assert jacobian(lambda a: a * a)(x).equal(T.tensor(6.0, dtype=D))
        both = jacobian(lambda a, b: a * b, argnums=(0, 1))(x, x + 1)
        assert both[0].equal(x + 1) and both[1].equal(x)
        assert jacobian(jacobian(lambda a: a**3))(x).equal(6 * x)
        assert jacobian(lambda a: a[:0])(T.ones(3)).shape == (0, 3)
        assert jacobian(lambda a: a * 2)(T.ones(0)).shape == (0, 0)
    assert hessian(lambda a: a**3)(x).equal(6 * x)


def test_what_is_not_differentiable_is_refused() -> None:
    x = data()
    text = "All outputs of f must be floating-point or complex Tensors, got Tensor with dtype"
    for f in (lambda a: a > 0, lambda a: a.sort()[1], lambda a: (a, a.long())):
        with pytest.raises(RuntimeError, match=text):
            vjp(f, x)
        with pytest.raises(RuntimeError, match=text):
            jacrev(f)(x)
    for transform in (grad, jacrev):
        for wrong in (3.0, {"a": x, "b": None}, [x, "text"]):
            with pytest.raises(ValueError, match="passed to transform API must be Tensor, got <cl"):
                transform(lambda a: x.sum())(wrong)
    for empty, shown in ((None, r"\[None\]"), ((), r"\[\]")):

        def nothing(_: T.Tensor, found: Any = empty) -> Any:
            return found

        with pytest.raises(RuntimeError, match=rf"non-empty output \(got output = {shown}"):
            vjp(nothing, x)
        with pytest.raises(RuntimeError, match=rf"non-empty output \(got output = {shown}"):
            jvp(nothing, (x,), (x,))
        with pytest.raises(RuntimeError, match=rf"non-empty output \(got output = {shown}"):
            jacfwd(nothing)(x)
    for jacobian, name in ((jacrev, "jacrev"), (jacfwd, "jacfwd")):
        with pytest.raises(RuntimeError, match=f"{name}: Expected all inputs to be real .* idx: 1"):
            jacobian(lambda a, b: a)(x, x + 1j)


def test_what_changes_recording_is_refused_inside() -> None:
    x, outside = T.ones(3), (T.ones(3, requires_grad=True) * 2)
    text = r"call Tensor.requires_grad_\(\) .* inside of a function being transformed"
    for on in (True, False):
        for tensor in (None, T.ones(3)):

            def change(a: T.Tensor, on: bool = on, given: Any = tensor) -> T.Tensor:
                return (a if given is None else given).requires_grad_(on).sum() + a.sum()

            with pytest.raises(RuntimeError, match=text):
                grad(change)(x)
            with pytest.raises(RuntimeError, match=text):
                vmap(change)(T.ones(2, 3))
    for keep in (lambda a: (a * 2).retain_grad(), lambda a: outside.retain_grad()):
        with pytest.raises(RuntimeError, match=r"call Tensor.retain_grad\(\) inside of a function"):
            grad(keep)(x)
    with pytest.raises(RuntimeError, match="accessing `data` under vmap transform is not allowed"):
        vmap(lambda a: a.data)(x)
    with pytest.raises(RuntimeError, match=r"mutating directly with `\.data` under vmap transform"):
        vmap(lambda a: setattr(a, "data", T.ones(())))(x)
    assert vmap(lambda a: outside.data * a)(T.ones(2, 3)).shape == (2, 3)
    with pytest.raises(RuntimeError, match="provide an explicit positive num_classes argument"):
        vmap(T.nn.functional.one_hot)(T.tensor([[0, 1]]))


def test_arguments_of_wrong_kinds() -> None:
    x, net = data(), T.nn.Linear(4, 2)
    weight = net.weight
    with pytest.raises(TypeError, match=r"^3 is not an instance of torch\.Tensor"):
        functional_call(net, {"weight": 3}, (x,))
    assert net.weight is weight
    with pytest.raises(TypeError, match=r"attribute `in_features`: 4 is not an instance of torch"):
        functional_call(net, {"weight": weight, "in_features": x}, (x,))
    assert net.weight is weight and net.in_features == 4
    with pytest.raises(
        ValueError, match="Expected primal to be floating point or complex, but got"
    ):
        linearize(lambda a: a * 2, T.arange(3))
    with pytest.raises(RuntimeError, match=r"elements must be unique, got \(0, 0\)"):
        grad(lambda a, b: (a * b).sum(), argnums=(0, -2))(x, x)
    with pytest.raises(RuntimeError, match=r"Only allowed values for randomness are .* Got some"):
        jacfwd(T.sin, randomness="some")(x)
