"""The engine: sums of gradients, order, freeing, inputs=, grad(), higher derivatives, errors."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest

import shmtensor as st
from shmtensor._boundary.autograd import live_nodes
from shmtensor.autograd import backward, grad
from shmtensor.utils._python_dispatch import TorchDispatchMode


def leaf(*values: float) -> st.Tensor:
    return st.tensor([float(v) for v in values], requires_grad=True)


@pytest.mark.check
def test_backward_product_gives_other_factor() -> None:
    x, w = leaf(1, 2, 3), leaf(4, 5, 6)
    (x * w).sum().backward()
    assert x.grad.tolist() == [4, 5, 6]
    assert w.grad.tolist() == [1, 2, 3]


def test_backward_twice_adds_up() -> None:
    x = leaf(1, 2)
    for _ in range(2):
        (x * 3).sum().backward()
    assert x.grad.tolist() == [6, 6]


def test_backward_leaf_used_often_is_summed_once() -> None:
    x = leaf(2.0)
    calls = []
    x.register_hook(lambda g: calls.append(g.item()))
    y = x * x + x * 3 + x
    y.backward(st.ones(1))
    assert x.grad.item() == 8
    assert calls == [8]


def test_backward_diamond_sums_before_running() -> None:
    x = leaf(3.0)
    h = x * 2
    calls = []
    h.register_hook(lambda g: calls.append(g.item()))
    (h * h + h).sum().backward()
    assert calls == [13]
    assert x.grad.item() == 26


def test_backward_broadcast_sums_to_shape() -> None:
    a = st.ones(2, 3, requires_grad=True)
    b = st.ones(3, requires_grad=True)
    c = st.ones(2, 1, requires_grad=True)
    d = st.tensor(2.0, requires_grad=True)
    (a + b * c * d).sum().backward()
    assert a.grad.shape == (2, 3)
    assert b.grad.tolist() == [4, 4, 4]
    assert c.grad.tolist() == [[6], [6]]
    assert d.grad.item() == 6


def test_backward_other_dtype_casts_to_leaf() -> None:
    x = st.ones(3, requires_grad=True)
    y = st.ones(3, dtype=st.float64, requires_grad=True)
    (x * y).sum().backward()
    assert x.grad.dtype is st.float32
    assert y.grad.dtype is st.float64


def test_backward_grad_of_dense_leaf_keeps_strides() -> None:
    x = st.ones(2, 3).t().detach().requires_grad_()
    (x * st.ones(3, 2)).sum().backward()
    assert x.grad.stride() == x.stride()


def test_backward_given_gradient_is_not_stolen() -> None:
    x = leaf(1, 2)
    g = st.tensor([3.0, 4.0])
    x.view(2).backward(g)
    g.zero_()
    assert x.grad.tolist() == [3, 4]


def test_backward_vector_without_gradient_raises() -> None:
    x = leaf(1, 2)
    with pytest.raises(RuntimeError, match="implicitly created only for scalar outputs"):
        (x * 2).backward()


def test_backward_plain_tensor_raises() -> None:
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad"):
        st.ones(1).backward()


def test_backward_wrong_shape_raises_with_both() -> None:
    x = leaf(1, 2)
    with pytest.raises(RuntimeError, match=r"Mismatch in shape.*\[3\].*\[2\]"):
        (x * 2).backward(st.ones(3))


def test_backward_second_run_raises() -> None:
    x = leaf(1, 2)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()


def test_backward_retain_graph_runs_again() -> None:
    x = leaf(1, 2)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4, 8]


def test_backward_inputs_fill_only_these() -> None:
    x, w = leaf(1, 2), leaf(3, 4)
    h = x * 2
    (h * w).sum().backward(inputs=[w, h])
    assert x.grad is None
    assert w.grad.tolist() == [2, 4]
    assert h.grad.tolist() == [3, 4]


def test_inputs_by_name() -> None:
    x, w = leaf(1, 2), leaf(3, 4)
    named = {"w": w, "x": x}
    got = grad((x * w).sum(), named)
    assert {name: found.tolist() for name, found in got.items()} == {"w": [1, 2], "x": [3, 4]}
    got = grad((x * 2).sum(), named, materialize_grads=True)
    assert list(got) == ["w", "x"] and got["w"].tolist() == [0, 0]
    (x * w).sum().backward(inputs={"x": x})
    assert x.grad.tolist() == [3, 4] and w.grad is None
    with pytest.raises(TypeError, match=r"to `grad\(\)` must be a dict, not mappingproxy"):
        grad((x * w).sum(), MappingProxyType(named))
    backward((x * w).sum(), inputs={"w": w})
    assert x.grad.tolist() == [3, 4] and w.grad.tolist() == [1, 2]
    with pytest.raises(TypeError, match=r"to `backward\(\)` must be a dict, not mappingproxy"):
        (x * w).sum().backward(inputs=MappingProxyType(named))
    with pytest.raises(TypeError, match=r"to `backward\(\)` must be a dict, not mappingproxy"):
        backward((x * w).sum(), inputs=MappingProxyType(named))
    with pytest.raises(RuntimeError, match="cannot be empty"):
        (x * w).sum().backward(inputs={})
    (x * w).sum().backward(inputs=(t for t in (x,)))
    assert x.grad.tolist() == [6, 8]
    with pytest.raises(RuntimeError, match="cannot be empty"):
        grad((x * w).sum(), {})


def test_backward_empty_inputs_raises() -> None:
    x = leaf(1)
    with pytest.raises(RuntimeError, match="cannot be empty"):
        (x * 2).backward(inputs=[])


def test_backward_function_takes_several_roots() -> None:
    x = leaf(1, 2)
    y = x * 2
    backward([y, y.sum()], [st.ones(2), None])
    assert x.grad.tolist() == [4, 4]


def test_backward_unexpected_keyword_raises() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'gradients'"):
        leaf(1).backward(gradients=None)


def test_grad_returns_without_accumulating() -> None:
    x, w = leaf(1, 2), leaf(3, 4)
    gx, gw = grad((x * w).sum(), [x, w])
    assert gx.tolist() == [3, 4]
    assert gw.tolist() == [1, 2]
    assert x.grad is None
    assert not gx.requires_grad


def test_grad_non_leaf_input() -> None:
    x = leaf(1, 2)
    h = x * 3
    (g,) = grad((h * h).sum(), h)
    assert g.tolist() == [6, 12]


def test_grad_same_input_twice_gives_both() -> None:
    x = leaf(1, 2)
    a, b = grad((x * x).sum(), [x, x])
    assert a.tolist() == b.tolist() == [2, 4]


@pytest.mark.check
def test_grad_unused_input_raises_or_is_none() -> None:
    x, w = leaf(1), leaf(2)
    with pytest.raises(RuntimeError, match="Tensor at index 0 appears to not have been used"):
        grad(x.sum() * 2, w)
    assert grad(x.sum() * 2, [x, w], allow_unused=True)[1] is None
    assert grad(x.sum() * 2, [x, w], materialize_grads=True)[1].tolist() == [0]


def test_grad_input_without_requires_grad_raises() -> None:
    with pytest.raises(RuntimeError, match="One of the differentiated Tensors does not require"):
        grad(leaf(1).sum(), st.ones(1))


def test_grad_batched_stacks_runs() -> None:
    x = leaf(1, 2)
    y = x * x
    (g,) = grad(y, x, st.eye(2), is_grads_batched=True)
    assert g.tolist() == [[2, 0], [0, 4]]


def test_grad_create_graph_gives_higher_derivatives() -> None:
    x = leaf(2.0)
    y = (x * x * x).sum()
    for expected in (12, 12, 6):
        (g,) = grad(y, x, create_graph=True)
        assert g.item() == expected
        y = g.sum()


def test_backward_create_graph_records_grad() -> None:
    x = leaf(2.0)
    (x * x * x).sum().backward(create_graph=True)
    assert x.grad.requires_grad
    first = x.grad
    x.grad = None
    first.sum().backward()
    assert x.grad.item() == 12


def test_backward_through_reused_subgraph_of_earlier_run() -> None:
    x = leaf(1, 2)
    h = x + x
    (h + 1).sum().backward()
    (h + 3).sum().backward()
    assert x.grad.tolist() == [4, 4]


def test_backward_deep_graph_runs_and_frees() -> None:
    gc.collect()
    before = live_nodes()
    x = leaf(1.0)
    y = x
    for _ in range(100_000):
        y = y + x
    y.backward(st.ones(1))
    assert x.grad.item() == 100_001
    del y
    assert live_nodes() == before


def test_graph_dropped_frees_all_nodes() -> None:
    gc.collect()
    before = live_nodes()
    x = leaf(1, 2)
    y = ((x * 2).exp() * x).sum()
    assert live_nodes() > before
    del y
    assert live_nodes() == before


def test_graph_saved_output_makes_no_cycle() -> None:
    gc.collect()
    gc.disable()
    try:
        before = live_nodes()
        x = leaf(1, 2)
        y = x.exp()
        z = y.tanh()
        del y, z
        assert live_nodes() == before
    finally:
        gc.enable()


def test_leaf_outlives_its_name_inside_a_graph() -> None:
    x = leaf(1, 2)
    y = (x * x).sum()
    variable = y.grad_fn.next_functions[0][0].next_functions[0][0].variable
    assert variable is x
    del x, variable
    y.backward()
    node = y.grad_fn.next_functions[0][0].next_functions[0][0]
    assert node.variable.grad.tolist() == [2, 4]


def test_reentrant_backward_inside_a_hook() -> None:
    x, w = leaf(1, 2), leaf(3, 4)

    def hook(g: st.Tensor) -> None:
        with st.enable_grad():
            (w * w).sum().backward()

    h = x * 2
    h.register_hook(hook)
    h.sum().backward()
    assert x.grad.tolist() == [2, 2]
    assert w.grad.tolist() == [6, 8]


def test_backward_many_branches_use_the_table() -> None:
    x = leaf(1.0)
    branches = [x * float(i) for i in range(200)]
    total = branches[0]
    for b in branches[1:]:
        total = total + b * b
    total.sum().backward()
    assert x.grad.item() == pytest.approx(sum(2.0 * i * i for i in range(1, 200)))


def test_backward_view_dtype_complex_to_real_takes_real_part() -> None:
    x = leaf(1, 2)
    z = x * st.tensor([1j, 2 + 1j])
    (g,) = grad(z, x, st.ones(2, dtype=st.complex64))
    assert g.dtype is st.float32
    assert g.tolist() == [0, 2]


def test_complex_root_without_gradient_raises() -> None:
    x = st.ones(1, dtype=st.complex64, requires_grad=True)
    with pytest.raises(RuntimeError, match="only for real scalar outputs"):
        (x * 2).sum().backward()


def test_grad_of_multi_output_operator() -> None:
    x = st.arange(6.0).view(3, 2).requires_grad_()
    a, _, c = x.unbind()
    (a * 2 + c * 3).sum().backward()
    assert x.grad.tolist() == [[2, 2], [0, 0], [3, 3]]


def test_backward_list_arguments() -> None:
    parts = [leaf(1.0, 2.0), leaf(3.0)]
    st.cat(parts).dot(st.tensor([1.0, 10.0, 100.0])).backward()
    assert parts[0].grad.tolist() == [1, 10]
    assert parts[1].grad.tolist() == [100]


def test_node_is_asked_for_while_its_object_ends() -> None:
    y = leaf(1.0) * 2
    got: list[Any] = []
    weak = weakref.ref(y.grad_fn, lambda _: got.append(y.grad_fn))
    assert weak() is None
    assert got == [y.grad_fn]
    got.clear()
    assert y.grad_fn.name() == "MulBackward0"


def _called(run: Callable[[], object]) -> list[str]:
    """The operators that *run* calls, those inside of others too."""

    class Calls(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            names.append(func.__name__.split(".")[0])
            return func(*args, **(kwargs or {}))

    names: list[str] = []
    with Calls():
        run()
    return names


def test_only_gradients_that_lead_to_inputs_are_calculated() -> None:
    x, w, b = (st.randn(3, 3, requires_grad=True) for _ in range(3))
    y = (x.exp() @ w) * b
    g = st.ones_like(y)

    def products(*inputs: st.Tensor) -> tuple[int, int]:
        names = _called(lambda: st.autograd.grad(y, inputs, g, retain_graph=True))
        return sum("mm" in name for name in names), sum("mul" in name for name in names)

    assert products(b) == (0, 1)
    assert products(w) == (1, 1)
    assert products(x) == (1, 2)
    assert products(x, w, b) == (2, 3)
    y.backward(g, inputs=[w])
    assert x.grad is None
    assert b.grad is None
    assert w.grad is not None


def test_a_node_called_in_a_hook_calculates_all_its_gradients() -> None:
    x, w = (st.randn(2, 2, requires_grad=True) for _ in range(2))
    inner = x @ w
    seen = []
    y = x * 2
    y.register_hook(lambda g: seen.append(inner.grad_fn(g)))
    st.autograd.grad(y.sum(), x)
    assert all(g is not None for g in seen[0])
    first, second = (st.randn(2, 2, requires_grad=True) for _ in range(2))

    class Nested(st.autograd.Function):
        @staticmethod
        def forward(ctx, a):  # type: ignore[no-untyped-def]
            return a.clone()

        @staticmethod
        def backward(ctx, g):  # type: ignore[no-untyped-def]
            with st.enable_grad():
                (first @ second).sum().backward()
            return g

    st.autograd.grad(Nested.apply(x).sum(), x)
    assert first.grad is not None
    assert second.grad is not None


def test_views_that_were_changed_pass_on_what_is_asked_for() -> None:
    base, other = st.randn(4, requires_grad=True), st.randn(2, requires_grad=True)
    whole = base * 1
    whole[:2].mul_(other)
    for inputs in ([base], [other], [base, other]):
        expected = {id(base): st.cat([other.detach(), st.ones(2)]), id(other): base.detach()[:2]}
        for leaf, got in zip(
            inputs, st.autograd.grad(whole.sum(), inputs, retain_graph=True), strict=True
        ):
            assert st.equal(got, expected[id(leaf)])
