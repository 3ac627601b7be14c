"""Recomputation: the same gradients, fewer saved tensors, and what is refused."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as st
from shmtensor import nn
from shmtensor.autograd import grad
from shmtensor.utils.checkpoint import (
    CheckpointError,
    DefaultDeviceType,
    GraphExecGroup,
    checkpoint,
    checkpoint_sequential,
    get_device_states,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
    set_device_states,
)

VARIANTS: list[dict[str, Any]] = [
    {"use_reentrant": False},
    {"use_reentrant": True},
    {"use_reentrant": False, "early_stop": False},
    {"use_reentrant": False, "preserve_rng_state": False, "determinism_check": "none"},
]


def model() -> nn.Sequential:
    st.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4), nn.Sigmoid())


def source() -> st.Tensor:
    return st.linspace(0, 1, 8).reshape(2, 4).requires_grad_()


def gradients(layers: nn.Sequential, call: Callable[[st.Tensor], st.Tensor]) -> list[st.Tensor]:
    x = source()
    layers.zero_grad()
    call(x).square().sum().backward()
    return [x.grad, *(p.grad for p in layers.parameters())]


@pytest.mark.parametrize("options", VARIANTS)
def test_gradients_are_the_same_and_the_function_runs_twice(options: dict[str, Any]) -> None:
    layers, calls = model(), []

    def run(x: st.Tensor) -> st.Tensor:
        calls.append(x.requires_grad)
        return layers(x)

    expected = gradients(layers, layers)
    result = gradients(layers, lambda x: checkpoint(run, x, **options))
    assert len(calls) == 2
    assert all(a.equal(b) for a, b in zip(result, expected, strict=True))


@pytest.mark.check
@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("segments", [1, 2, 3, 4])
def test_segments_give_the_same_gradients(segments: int, reentrant: bool) -> None:
    layers = model()
    expected = gradients(layers, layers)
    result = gradients(
        layers, lambda x: checkpoint_sequential(layers, segments, x, use_reentrant=reentrant)
    )
    assert all(a.equal(b) for a, b in zip(result, expected, strict=True))


def test_intermediate_tensors_are_not_kept():
    made: list[weakref.ref[st.Tensor]] = []

    def run(x: st.Tensor) -> st.Tensor:
        middle = x.exp()
        made.append(weakref.ref(middle))
        return middle.sin()

    before = checkpoint(run, source(), use_reentrant=False)
    assert made[0]() is None
    before.sum().backward()
    assert len(made) == 2
    assert made[1]() is None


def test_second_derivatives_and_keywords():
    layers = model()
    x = source()

    def second(y: st.Tensor) -> st.Tensor:
        (g,) = grad(y.sum(), x, create_graph=True)
        return grad(g.pow(2).sum(), x)[0]

    expected = second(layers(x).sin() * 2)
    result = second(checkpoint(lambda x, k: layers(x).sin() * k, x, k=2.0, use_reentrant=False))
    assert st.allclose(result, expected)


def test_graph_may_be_run_twice():
    x = source()
    y = checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False)
    (first,) = grad(y.sum(), x, retain_graph=True)
    (again,) = grad(y.sum(), x)
    assert first.equal(again)


def test_checkpoints_may_be_nested():
    layers, calls = model(), []

    def inner(x: st.Tensor) -> st.Tensor:
        calls.append(1)
        return layers(x)

    def outer(x: st.Tensor) -> st.Tensor:
        return checkpoint(inner, x.sin(), use_reentrant=False).cos()

    expected = gradients(layers, lambda x: layers(x.sin()).cos())
    result = gradients(layers, lambda x: checkpoint(outer, x, use_reentrant=False))
    assert len(calls) == 3
    assert all(st.allclose(a, b) for a, b in zip(result, expected, strict=True))


@pytest.mark.parametrize("reentrant", [True, False])
def test_random_numbers_are_drawn_again(reentrant: bool) -> None:
    x = source()
    y = checkpoint(lambda x: x * st.rand(2, 4), x, use_reentrant=reentrant)
    between = st.get_rng_state()
    y.sum().backward()
    assert st.allclose(x.detach() * x.grad, y)
    assert st.get_rng_state().equal(between)


def test_contexts_surround_both_runs():
    entered: list[str] = []

    class Noted:
        def __init__(self, name: str) -> None:
            self.name = name

        def __enter__(self) -> None:
            entered.append(self.name)

        def __exit__(self, *exc: object) -> None:
            entered.append(f"/{self.name}")

    x = source()
    y = checkpoint(
        st.exp, x, use_reentrant=False, context_fn=lambda: (Noted("first"), Noted("again"))
    )
    assert entered == ["first", "/first"]
    y.sum().backward()
    assert entered[2:] == ["again", "/again"]


def test_nothing_is_recorded_without_grad():
    with st.no_grad():
        assert not checkpoint(st.exp, source(), use_reentrant=False).requires_grad


class _Changes:
    """Does the second thing when it is called again."""

    def __init__(self, first: Callable[..., Any], second: Callable[..., Any]) -> None:
        self.todo = [first, second]

    def __call__(self, x: st.Tensor) -> st.Tensor:
        return self.todo.pop(0)(x)


@pytest.mark.parametrize("early_stop", [True, False])
@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        (lambda x: x.sin().cos(), lambda x: x.sin(), "A different number of tensors"),
        (lambda x: x.exp(), lambda x: x[:1].exp(), "different metadata"),
    ],
)
def test_function_that_does_something_else_is_refused(
    first: Callable[..., Any], second: Callable[..., Any], text: str, early_stop: bool
) -> None:
    y = checkpoint(_Changes(first, second), source(), use_reentrant=False, early_stop=early_stop)
    with pytest.raises(CheckpointError, match=text):
        y.sum().backward()


@pytest.mark.check
def test_what_is_saved_beyond_is_refused_unless_the_run_ends_before():
    def make(**options: Any) -> st.Tensor:
        changes = _Changes(lambda x: x.exp(), lambda x: x.exp().exp())
        return checkpoint(changes, source(), use_reentrant=False, **options)

    make().sum().backward()
    with pytest.raises(CheckpointError, match="trying to save more tensors"):
        make(early_stop=False).sum().backward()
    with set_checkpoint_early_stop(False):
        y = make()
    with pytest.raises(CheckpointError, match="trying to save more tensors"):
        y.sum().backward()


def test_debug_tells_the_operators_of_both_runs():
    changes = _Changes(lambda x: x.sin().cos(), lambda x: x.sin())
    with set_checkpoint_debug_enabled(True):
        y = checkpoint(changes, source(), use_reentrant=False)
    with pytest.raises(CheckpointError) as caught:
        y.sum().backward()
    text = str(caught.value)
    assert "$1: float32[2, 4] = aten.sin.default($0)   (1 of 2 in original)" in text
    assert "$2: float32[2, 4] = aten.cos.default($1)   (2 of 2 in original)" in text
    assert "(1 of 1 in recompute)" in text or "(1 of 2 in recompute)" in text
    assert "test_checkpoint.py" in text and ":_Changes" not in text
    assert isinstance(caught.value.__cause__, CheckpointError)


def test_debug_may_be_switched_off_from_outside():
    changes = _Changes(lambda x: x.sin().cos(), lambda x: x.sin())
    with set_checkpoint_debug_enabled(False):
        y = checkpoint(changes, source(), use_reentrant=False, debug=True)
    with pytest.raises(CheckpointError, match="A different number of tensors"):
        y.sum().backward()


def test_changed_shapes_are_told():
    changes = _Changes(lambda x: x.sin(), lambda x: x[:1].sin())
    y = checkpoint(changes, source(), use_reentrant=False)
    with pytest.raises(CheckpointError) as caught:
        y.sum().backward()
    assert (
        "tensor at position 0:\nsaved metadata: {'shape': torch.Size([2, 4]), 'dtype': "
        "torch.float32, 'device': device(type='cpu')}\nrecomputed metadata: {'shape': "
        "torch.Size([1, 4])"
    ) in str(caught.value)


@pytest.mark.parametrize("reentrant", [True, False])
def test_autocast_is_as_it_was(reentrant: bool) -> None:
    seen: list[Any] = []

    def product(x: st.Tensor) -> st.Tensor:
        y = x @ x.t()
        seen.append(y.dtype)
        return y.sin()

    x = source()
    with st.autocast("cpu", dtype=st.bfloat16):
        y = checkpoint(product, x, use_reentrant=reentrant, **({} if reentrant else NO_STOP))
    y.float().sum().backward()
    assert seen == [st.bfloat16, st.bfloat16]
    assert not st.is_autocast_enabled("cpu")


NO_STOP = {"early_stop": False}


def test_reentrance_refuses_given_inputs():
    for run in (grad_of, backward_of):
        x = source()
        y = checkpoint(st.exp, x, use_reentrant=True).sum()
        with pytest.raises(
            RuntimeError, match=r"incompatible with .grad\(\) or passing an `inputs`"
        ):
            run(y, x)


def grad_of(y: st.Tensor, x: st.Tensor) -> None:
    grad(y, x)


def backward_of(y: st.Tensor, x: st.Tensor) -> None:
    y.backward(inputs=[x])


def test_group_of_runs_computes_once():
    n = [0]

    def two(x: st.Tensor) -> tuple[st.Tensor, st.Tensor]:
        n[0] += 1
        return x.sin().exp(), x.cos().exp()

    x = source()
    a, b = checkpoint(two, x, use_reentrant=False)
    with GraphExecGroup():
        a.sum().backward()
        b.sum().backward()
        with pytest.raises(RuntimeError, match="cannot be nested"), GraphExecGroup():
            pass
    assert n == [2]
    plain = source()
    (plain.sin().exp() + plain.cos().exp()).sum().backward()
    assert x.grad.allclose(plain.grad)


def test_states_of_devices_that_are_not_there():
    assert get_device_states(source()) == ([], [])
    set_device_states([], [])
    with pytest.raises(RuntimeError, match=r"there are no devices \[0\]"):
        set_device_states([0], [st.get_rng_state()])
    assert DefaultDeviceType.get_device_type() == "cpu"


def test_refused_arguments():
    x = source()
    with pytest.raises(ValueError, match="Unexpected keyword arguments: k"):
        checkpoint(st.exp, x, k=1, use_reentrant=True)
    with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
        checkpoint(st.exp, x, debug=True, use_reentrant=True)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: z"):
        checkpoint_sequential(model(), 2, x, use_reentrant=True, z=1)
    with pytest.raises(ValueError, match="determinism_check"):
        checkpoint(st.exp, x, use_reentrant=False, determinism_check="other")
    with pytest.raises(RuntimeError, match="none of output has requires_grad=True"):
        checkpoint(st.Tensor.detach, x, use_reentrant=True).sum().backward()


def test_reentrance_is_to_be_said():
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        checkpoint(st.exp, source())
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        checkpoint(st.exp, st.ones(2), use_reentrant=True)


def test_tangents_go_through_a_checkpoint() -> None:
    """Values, gradients of tangents and tangents of gradients are those of the function."""

    def f(a: Any) -> Any:
        return (a.sin() * a).exp()

    def g(a: Any) -> Any:
        return checkpoint(f, a, use_reentrant=False)

    x, t = st.tensor([0.3, 0.5]).double(), st.tensor([1.0, 2.0]).double()
    push = st.func.jvp
    for mine, plain in (
        (push(g, (x,), (t,)), push(f, (x,), (t,))),
        (
            push(st.func.grad(lambda a: g(a).sum()), (x,), (t,)),
            push(st.func.grad(lambda a: f(a).sum()), (x,), (t,)),
        ),
    ):
        for got, want in zip(mine, plain, strict=True):
            assert st.allclose(got, want)
    leaf = x.clone().requires_grad_()
    fwad = st.autograd.forward_ad
    with fwad.dual_level():
        (gradient,) = st.autograd.grad(g(fwad.make_dual(leaf, t)).sum(), leaf)
        got = fwad.unpack_dual(gradient).tangent
    assert st.allclose(got, push(st.func.grad(lambda a: f(a).sum()), (x,), (t,))[1])
