"""Hooks on tensors, nodes, leaves and saved tensors; anomaly mode."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections import OrderedDict
from typing import Any

import pytest

import shmtensor as st
from shmtensor.autograd import detect_anomaly, grad
from shmtensor.autograd.graph import register_multi_grad_hook, save_on_cpu, saved_tensors_hooks


def leaf(*values: float) -> st.Tensor:
    return st.tensor([float(v) for v in values], requires_grad=True)


@pytest.mark.check
def test_tensor_hook_replaces_gradient() -> None:
    x = leaf(1, 2)
    y = x * 3
    y.register_hook(lambda g: g * 10)
    y.sum().backward()
    assert x.grad.tolist() == [30, 30]


def test_tensor_hooks_run_in_order() -> None:
    x = leaf(1)
    seen = []
    x.register_hook(lambda g: seen.append("a"))
    x.register_hook(lambda g: seen.append("b"))
    (x * 1).backward(st.ones(1))
    assert seen == ["a", "b"]


def test_tensor_hook_removed_is_not_called() -> None:
    x = leaf(1)
    seen = []
    handle = x.register_hook(lambda g: seen.append(g))
    assert len(x._backward_hooks) == 1
    handle.remove()
    handle.remove()
    assert not x._backward_hooks
    (x * 1).backward(st.ones(1))
    assert seen == []


def test_tensor_hook_handle_as_context() -> None:
    x = leaf(1)
    seen = []
    with x.register_hook(lambda g: seen.append(1)):
        (x * 1).backward(st.ones(1))
    (x * 1).backward(st.ones(1))
    assert seen == [1]


def test_tensor_hook_removes_itself_while_running() -> None:
    x = leaf(1)
    seen = []

    def once(g: st.Tensor) -> None:
        seen.append(1)
        handle.remove()

    handle = x.register_hook(once)
    for _ in range(2):
        (x * 1).backward(st.ones(1))
    assert seen == [1]


def test_tensor_hook_freed_with_its_tensor() -> None:
    class Probe:
        def __call__(self, g: st.Tensor) -> None:
            return None

    probe = Probe()
    alive = weakref.ref(probe)
    x = leaf(1)
    x.register_hook(probe)
    y = x * 2
    y.register_hook(probe)
    del probe
    assert alive() is not None
    del x, y
    gc.collect()
    assert alive() is None


def test_tensor_hook_referring_to_its_tensor_is_collected() -> None:
    class Probe:
        pass

    probe = Probe()
    alive = weakref.ref(probe)
    x = leaf(1)
    x.register_hook(lambda g, keep=(x, probe): None)
    del x, probe
    gc.collect()
    assert alive() is None


def test_tensor_hook_on_plain_tensor_raises() -> None:
    with pytest.raises(RuntimeError, match="cannot register a hook on a tensor that doesn't req"):
        st.ones(1).register_hook(lambda g: g)


@pytest.mark.parametrize(
    ("result", "error", "text"),
    [
        (lambda g: 1, TypeError, "expected Variable, but hook returned 'int'"),
        (lambda g: st.ones(5), RuntimeError, "hook '<lambda>' has changed the size of value"),
        (lambda g: g.double(), RuntimeError, "hook '<lambda>' has changed the type of value"),
    ],
)
def test_tensor_hook_bad_result_raises(result: object, error: type[Exception], text: str) -> None:
    y = leaf(1, 2) * 2
    y.register_hook(result)
    with pytest.raises(error, match=text):
        y.sum().backward()


def test_tensor_hook_exception_comes_through() -> None:
    y = leaf(1, 2) * 2

    def fail(g: st.Tensor) -> None:
        raise KeyError("mine")

    y.register_hook(fail)
    with pytest.raises(KeyError, match="mine"):
        y.sum().backward()


def test_tensor_hook_stays_with_the_value_before_an_in_place_change() -> None:
    x = leaf(1.0)
    y = x * 2
    seen = []
    y.register_hook(lambda g: seen.append(g.item()))
    y.mul_(5)
    y.backward(st.ones(1))
    assert seen == [5]


def test_leaf_hook_sees_captured_gradient() -> None:
    x = leaf(1, 2)
    x.register_hook(lambda g: g * 100)
    (g,) = grad((x * 2).sum(), x)
    assert g.tolist() == [200, 200]


def test_post_accumulate_hook_sees_grad() -> None:
    x = leaf(1, 2)
    seen = []
    x.register_post_accumulate_grad_hook(lambda t: seen.append((t is x, t.grad.tolist())))
    (x * 2).sum().backward()
    assert seen == [(True, [2, 2])]


def test_post_accumulate_hook_may_return_what_it_changed_in_place() -> None:
    x = leaf(1.0)
    with x.register_post_accumulate_grad_hook(lambda t: t.data.add_(t.grad, alpha=-0.5)):
        (x * 2).sum().backward()
    assert x.tolist() == [0.0]
    assert x.grad.tolist() == [2.0]


def test_post_accumulate_hook_must_return_nothing_else() -> None:
    x = leaf(1.0)
    x.register_post_accumulate_grad_hook(lambda t: 3)
    with pytest.raises(TypeError, match="hook returned 'int'"):
        (x * 2).sum().backward()


def test_post_accumulate_hook_on_non_leaf_raises() -> None:
    with pytest.raises(RuntimeError, match="cannot be registered on non-leaf"):
        (leaf(1) * 2).register_post_accumulate_grad_hook(lambda t: None)


def test_node_prehook_and_hook_replace_gradients() -> None:
    x = leaf(1, 2)
    y = x * 3
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 2,))
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] + 1, inputs[1]))
    y.sum().backward()
    assert x.grad.tolist() == [7, 7]


def test_node_hook_wrong_count_raises() -> None:
    y = leaf(1, 2) * 3
    y.grad_fn.register_hook(lambda inputs, outputs: (None, None, None))
    with pytest.raises(RuntimeError, match="incorrect number of values"):
        y.sum().backward()


def test_multi_grad_hook_runs_once_with_all() -> None:
    x, w = leaf(1, 2), leaf(3, 4)
    seen = []
    with register_multi_grad_hook([x, w], lambda gs: seen.append([g.tolist() for g in gs])):
        (x * w).sum().backward()
    assert seen == [[[3, 4], [1, 2]]]


def test_multi_grad_hook_waits_for_what_the_run_brings() -> None:
    a, b, unused = leaf(1, 2), leaf(3, 4), leaf(5, 6)
    product = a * b
    seen = []

    def note(gs: list) -> None:
        seen.append([g is not None for g in gs])

    register_multi_grad_hook([a, b, unused, product], note)
    product.sum().backward(retain_graph=True)
    product.sum().backward(inputs=(a,), retain_graph=True)
    st.autograd.grad(product.sum(), product, retain_graph=True)
    (b * 2).sum().backward()
    assert seen == [
        [True, True, False, True],
        [True, False, False, True],
        [False, False, False, True],
        [False, True, False, False],
    ]


def test_multi_grad_hook_after_a_run_that_failed() -> None:
    a, b = leaf(1, 2), leaf(3, 4)
    seen = []
    failing = b.register_hook(lambda g: 1 / 0)
    register_multi_grad_hook([a, b], lambda gs: seen.append(len(gs)))
    with failing, pytest.raises(ZeroDivisionError):
        (a * b).sum().backward()
    assert seen == []
    (a * b).sum().backward()
    assert seen == [2]


@pytest.mark.check
@pytest.mark.parametrize("mode", ["all", "any"])
def test_multi_grad_hook_in_every_run_and_inside_another(mode: str) -> None:
    a, b, unused = leaf(1, 2), leaf(3, 4), leaf(5, 6)
    calls = []

    def again(_: object) -> None:
        calls.append(len(calls))
        if len(calls) == 1:
            with st.enable_grad():
                (a * b).sum().backward()

    handle = register_multi_grad_hook([a, b, unused], again, mode=mode)
    (a * b).sum().backward()
    assert calls == [0, 1]
    (a * b).sum().backward()
    assert calls == [0, 1, 2]
    handle.remove()
    (a * b).sum().backward()
    assert calls == [0, 1, 2]


def test_multi_grad_hook_keeps_no_graph_alive() -> None:
    class Witness:
        pass

    witness = Witness()
    gone = weakref.ref(witness)
    middle = leaf(1, 2) * 2
    register_multi_grad_hook([middle, middle * 3], lambda gs, keep=witness: None)
    del middle, witness
    gc.collect()
    assert gone() is None


def test_multi_grad_hook_wants_tensors_that_require_grad() -> None:
    with pytest.raises(AssertionError, match="Expected gradient function to be set"):
        register_multi_grad_hook([st.ones(2)], print)


def test_saved_tensor_hooks_pack_and_unpack() -> None:
    packed = []

    def pack(t: st.Tensor) -> object:
        packed.append(t.tolist())
        return ("box", t)

    x, w = leaf(1, 2), leaf(3, 4)
    with saved_tensors_hooks(pack, lambda box: box[1]):
        y = x * w
        z = y.exp()
    z.sum().backward()
    assert sorted(packed)[:2] == [[1, 2], [3, 4]]
    assert len(packed) == 3
    want = st.exp(st.tensor([3.0, 8.0]))
    assert x.grad.tolist() == pytest.approx((want * w.detach()).tolist())


def test_saved_tensor_hooks_end_with_their_context() -> None:
    calls = []
    x = leaf(1, 2)
    with saved_tensors_hooks(lambda t: calls.append(1) or t, lambda t: t):
        pass
    (x * x).sum().backward()
    assert calls == []


def test_saved_tensor_hooks_unpack_must_give_tensor() -> None:
    x = leaf(1, 2)
    with saved_tensors_hooks(lambda t: 1, lambda packed: packed):
        y = x * x
    with pytest.raises(TypeError, match="unpack_hook expected to be a Tensor"):
        y.sum().backward()


PACKINGS = {
    "detached": (lambda t: t.detach(), lambda t: t),
    "as it is": (lambda t: t, lambda t: t),
    "copied": (lambda t: t.clone(), lambda t: t.clone()),
    "an array": (lambda t: t.detach().numpy().copy(), st.from_numpy),
}
FUNCTIONS = {
    "of what is no leaf": lambda x, w: (x * w).sin(),
    "of leaves": lambda x, w: (x * x).pow(w),
    "in place": lambda x, w: (x * 2).mul_(w).sin_() * w,
    "views in place": lambda x, w: _half_scaled(x * 2, w).cos() * w,
}


def _half_scaled(y: st.Tensor, w: st.Tensor) -> st.Tensor:
    y.view(2, 2)[0].mul_(w[:2])
    return y


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_saved_tensor_hooks_keep_second_derivatives(function: str, packing: str) -> None:
    def derivatives() -> list[st.Tensor]:
        y = FUNCTIONS[function](x, w)
        first = grad(y.sum(), (x, w), create_graph=True)
        return [*first, *grad(sum(g.pow(2).sum() for g in first), (x, w))]

    x, w = leaf(0.1, 0.4, 0.6, 0.9), leaf(0.5, 0.6, 0.7, 0.8)
    expected = derivatives()
    with saved_tensors_hooks(*PACKINGS[packing]):
        result = derivatives()
    for got, want in zip(result, expected, strict=True):
        assert st.allclose(got, want)


def test_saved_tensor_of_a_function_has_its_history_after_unpacking() -> None:
    class Scale(st.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            seen.append(ctx.saved_tensors[0].grad_fn.name())
            return g

    seen: list[str] = []
    x = leaf(1, 2)
    with saved_tensors_hooks(lambda t: t.detach(), lambda t: t):
        y = Scale.apply(x * 2)
    y.sum().backward()
    assert seen == ["MulBackward0"]


def test_saved_tensor_that_needs_no_gradient_gets_none_by_unpacking() -> None:
    x, c = leaf(1, 2), st.ones(2)
    with saved_tensors_hooks(lambda t: t, lambda t: t.clone().requires_grad_()):
        y = x * c
    (g,) = grad(y.sum(), x, create_graph=True)
    assert not g.requires_grad


def test_saved_tensor_hooks_that_fail_leave_nothing() -> None:
    def fail(t: st.Tensor) -> st.Tensor:
        raise ValueError("not now")

    x = leaf(1, 2)
    y = x * 2
    with saved_tensors_hooks(fail, fail), pytest.raises(ValueError, match="not now"):
        y.sin()
    node = weakref.ref(y)
    del y
    gc.collect()
    assert node() is None


def test_save_on_cpu_survives_in_place_changes() -> None:
    x = leaf(1, 2)
    with save_on_cpu():
        y = x * 1
        z = y * y
    y.detach().zero_()
    z.sum().backward()
    assert x.grad.tolist() == [2, 4]


def test_anomaly_mode_finds_nan_and_shows_forward() -> None:
    x = leaf(0.0)
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        mode = detect_anomaly()
    with mode:
        y = x * x.log()
        with (
            pytest.warns(UserWarning, match="Traceback of forward call that caused the error"),
            pytest.raises(RuntimeError, match="returned nan values in its 0th output"),
        ):
            (y * float("nan")).backward(st.ones(1))


def test_anomaly_mode_off_costs_no_warning() -> None:
    x = leaf(0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (x * float("nan")).backward(st.ones(1))


def test_hooks_are_told_of_gradients_that_do_not_come() -> None:
    x = leaf(1, 2, 3)
    seen: list = []
    first, second, _ = x.unbind()
    first.register_hook(lambda g: seen.append(g))
    second.register_hook(lambda g: seen.append(g.item()))
    second.backward()
    assert seen == [None, 1.0]
    assert x.grad.tolist() == [0, 1, 0]


class _OnlySecond(st.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: st.Tensor, y: st.Tensor) -> st.Tensor:
        return x + y

    @staticmethod
    def backward(ctx: Any, grad: st.Tensor) -> tuple[None, st.Tensor]:
        return None, grad


def test_hooks_of_a_leaf_and_a_node_that_get_no_gradient() -> None:
    x, y = leaf(1, 2), leaf(3, 4)
    seen: list = []
    x.register_hook(lambda g: seen.append(("leaf", g)))
    x.register_post_accumulate_grad_hook(lambda t: seen.append(("after", t.grad)))
    middle = x * 1
    middle.retain_grad()
    middle.register_hook(lambda g: seen.append(("tensor", g)))
    middle.grad_fn.register_prehook(lambda g: seen.append(("before", g)))
    _OnlySecond.apply(middle, y).sum().backward()
    assert seen == [("tensor", None), ("before", (None,)), ("leaf", None), ("after", None)]
    assert middle.grad is None
    assert y.grad.tolist() == [1, 1]


def test_no_gradient_cannot_be_replaced() -> None:
    for value in (st.ones(()), 5):
        first, second = leaf(1, 2).unbind()
        first.register_hook(lambda g, value=value: value)
        with pytest.raises(RuntimeError, match="can't replace a None gradient with a non-None"):
            second.backward()


def test_what_cannot_be_called_is_refused_when_it_is_called() -> None:
    x = leaf(1, 2)
    y = x * 2
    y.grad_fn.register_hook(3)
    with pytest.raises(TypeError, match="'int' object is not callable"):
        y.sum().backward()
    x = leaf(1, 2)
    x.register_hook("text")
    with pytest.raises(TypeError, match="'str' object is not callable"):
        x.sum().backward()


def test_backward_hooks_can_be_replaced() -> None:
    x = leaf(1, 2)
    seen: list = []
    x.register_hook(lambda g: seen.append("old"))
    x._backward_hooks = {}
    x.sum().backward()
    assert seen == []
    assert x._backward_hooks == {}
    x._backward_hooks = {7: lambda g: g * 10}
    x.grad = None
    x.sum().backward()
    assert x.grad.tolist() == [10, 10]
    x._backward_hooks = None
    x.grad = None
    x.sum().backward()
    assert x.grad.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="Deletion of _backwards_hooks not allowed"):
        del x._backward_hooks


def test_backward_hooks_of_one_output_of_several() -> None:
    first, second = leaf(1, 2).unbind()
    first.register_hook(print)
    assert [*first._backward_hooks.values()] == [print]
    assert second._backward_hooks is None
    second._backward_hooks = {}
    assert len(first._backward_hooks) == 1


def test_multi_grad_hook_of_outputs_of_one_node() -> None:
    seen: list = []
    first, second = leaf(1, 2).unbind()
    register_multi_grad_hook([first, second], lambda gs: seen.append([g is not None for g in gs]))
    second.backward()
    assert seen == [[False, True]]


def test_hook_goes_with_its_node_though_its_handle_stays() -> None:
    def hook(grad: st.Tensor) -> None:
        pass

    gone = weakref.ref(hook)
    y = leaf(1, 2) * 2
    handle = y.register_hook(hook)
    del y, hook
    gc.collect()
    assert gone() is None
    handle.remove()


def test_multi_grad_hook_does_not_wait_for_a_node_that_is_gone() -> None:
    x = leaf(1, 2)
    seen: list = []
    for _ in range(20):  # so that a new node lies where the old one lay
        kept, lost = x * 2, x * 3
        handle = register_multi_grad_hook([kept, lost], lambda gs: seen.append(len(gs)))
        del lost
        (kept + x * 5).sum().backward()
        handle.remove()
    assert seen == [2] * 20


def test_hook_of_a_node_sees_gradients_as_the_inputs_have_them():
    a = st.ones(2, 3, requires_grad=True)
    b = st.ones(3, requires_grad=True, dtype=st.float64)
    seen = []
    y = a + b
    y.grad_fn.register_hook(lambda ins, outs: seen.append([(tuple(g.shape), g.dtype) for g in ins]))
    y.sum().backward()
    assert seen == [[((2, 3), st.float32), ((3,), st.float64)]]
    y = a + b
    y.grad_fn.register_hook(lambda ins, outs: (ins[0], st.ones(2, 3, dtype=st.float64)))
    with pytest.raises(RuntimeError, match="has changed the size of value"):
        y.sum().backward()


def test_retained_gradients_are_those_before_the_hooks_of_the_node() -> None:
    x = leaf(1)
    y = x * 2
    y.retain_grad()
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 5,))
    y.register_hook(lambda g: g * 7)
    (y * 3).backward(st.ones(1))
    assert (y.grad.item(), x.grad.item()) == (21.0, 210.0)


def test_hooks_of_a_node_where_gradients_are_captured_only() -> None:
    x = leaf(1)
    y = x * 2
    seen: list[str] = []
    y.register_hook(lambda g: g * 7)
    y.grad_fn.register_prehook(lambda grads: seen.append("before"))
    y.grad_fn.register_hook(lambda *_: seen.append("after"))
    assert grad(y * 3, y, st.ones(1), retain_graph=True)[0].item() == 21.0
    assert seen == []
    assert [g.item() for g in grad(y * 3, (y, x), st.ones(1))] == [21.0, 42.0]
    assert seen == ["before", "after"]
    y = x * 2
    accumulator = y.grad_fn.next_functions[0][0]
    accumulator.register_prehook(lambda grads: (grads[0] * 5,))
    assert grad(y, x, st.ones(1), retain_graph=True)[0].item() == 2.0
    y.backward(st.ones(1))
    assert x.grad.item() == 10.0


@pytest.mark.parametrize("kind", ["tensor", "before", "after"])
def test_many_hooks_of_one_list_run_as_they_were_when_the_first_one_ran(kind: str) -> None:
    x = leaf(1)
    y = x * 2
    register = {
        "tensor": y.register_hook,
        "before": y.grad_fn.register_prehook,
        "after": y.grad_fn.register_hook,
    }[kind]
    order: list[int] = []

    def first(*_: Any) -> None:
        for handle in handles:
            handle.remove()
        register(lambda *_: order.append(-1))

    own = register(first)
    handles = [register(lambda *_, i=i: order.append(i)) for i in range(700)]
    y.backward(st.ones(1), retain_graph=True)
    assert order == list(range(700))
    y.backward(st.ones(1))
    assert order[700:] == [-1]
    own.remove()  # it has the node, which has it


@pytest.mark.check
def test_hooks_of_a_tensor_are_a_dict_that_can_be_changed() -> None:
    x = leaf(1, 2)

    def gradient() -> list[float]:
        x.grad = None
        x.sum().backward()
        return x.grad.tolist()

    hooks: OrderedDict[int, Any] = OrderedDict()
    x._backward_hooks = hooks
    assert x._backward_hooks is hooks
    hooks[5] = lambda g: g * 2
    assert gradient() == [2, 2]
    handle = x.register_hook(lambda g: g * 10)
    assert list(hooks) == [5, handle.id]
    assert gradient() == [20, 20]
    x._backward_hooks[handle.id] = lambda g: g * 7
    del hooks[5]
    assert gradient() == [7, 7]
    handle.remove()
    assert hooks == {}
    assert gradient() == [1, 1]
    x.register_hook(lambda g: g * 3)
    x._backward_hooks = None
    assert x._backward_hooks is None
    assert gradient() == [1, 1]


def test_a_dict_of_hooks_changes_while_they_run() -> None:
    x = leaf(1)
    hooks = {
        1: lambda g: hooks.clear() or hooks.update({3: lambda g: g * 5}),
        2: lambda g: g * 2,
    }
    x._backward_hooks = hooks
    x.sum().backward()
    assert x.grad.item() == 2
    x.grad = None
    x.sum().backward()
    assert x.grad.item() == 5


def test_a_dict_of_hooks_of_other_tensors() -> None:
    y = leaf(1) * 2
    y._backward_hooks = {1: lambda g: g * 4}
    z = y.clone()
    z.grad_fn._register_hook_dict(y)
    seen: list[float] = []
    y._backward_hooks[2] = lambda g: seen.append(g.item())
    z.sum().backward()
    assert seen == [4, 16]
    plain = st.ones(2)
    plain._backward_hooks = hooks = {}
    assert plain._backward_hooks is hooks
    plain.requires_grad_()
    hooks[1] = lambda g: g * 5
    plain.sum().backward()
    assert plain.grad.tolist() == [5, 5]
    with pytest.raises(TypeError, match="must be a dict or None, not int"):
        plain._backward_hooks = 5


def test_a_dict_of_hooks_that_has_its_tensor_is_collected() -> None:
    x = leaf(1)
    x._backward_hooks = {1: x.mul}
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None


def test_nodes_show_gradients_of_outputs_that_can_have_one() -> None:
    x = st.rand(2, 3, requires_grad=True)
    norm = st.nn.functional.layer_norm
    for result, n in (
        (x.max(1)[0], 1),
        (x.topk(2)[0], 1),
        (norm(x, (3,)), 1),
        (x.unbind(0)[1], 2),
    ):
        node, seen = result.grad_fn, []
        node.register_prehook(lambda grads, seen=seen: seen.append(len(grads)))
        node.register_hook(lambda _, grads, seen=seen: seen.append(len(grads)))
        result.sum().backward()
        assert seen == [n, n]
        assert len(node._input_metadata) == n
    values = x.max(1)[0]
    assert values.grad_fn(st.ones(2)).sum().item() == 2
    with pytest.raises(TypeError, match="expected 1 arguments, got 2 instead"):
        values.grad_fn(st.ones(2), None)
