"""What a tensor says of the graph: requires_grad, is_leaf, grad, grad_fn, nodes, modes."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest

import shmtensor as st
from shmtensor.autograd import Variable
from shmtensor.autograd.graph import Node, get_gradient_edge


@pytest.mark.check
def test_requires_grad_integral_raises() -> None:
    with pytest.raises(RuntimeError, match="only Tensors of floating point dtype can require"):
        st.ones(2, dtype=st.int64).requires_grad_()


def test_requires_grad_of_result_follows_inputs() -> None:
    x = st.ones(2, requires_grad=True)
    assert (x + 1).requires_grad
    assert not (x.detach() + 1).requires_grad
    assert not (x > 0).requires_grad


def test_requires_grad_cleared_on_non_leaf_raises() -> None:
    y = st.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf"):
        y.requires_grad_(False)
    with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf"):
        y.requires_grad = True


def test_requires_grad_turned_off_stops_accumulation() -> None:
    x = st.ones(2, requires_grad=True)
    w = st.ones(2, requires_grad=True)
    y = (x * w).sum()
    x.requires_grad_(False)
    y.backward()
    assert x.grad is None
    assert w.grad.tolist() == [1, 1]


def test_grad_assignment_checks_shape_dtype_and_type() -> None:
    x = st.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"size '\[3\]' to a tensor of size '\[2\]'"):
        x.grad = st.ones(3)
    with pytest.raises(RuntimeError, match="attempting to assign a gradient with dtype"):
        x.grad = st.ones(2, dtype=st.float64)
    with pytest.raises(TypeError, match="expected to be a Tensor or None but got grad of type int"):
        x.grad = 1
    x.grad = st.ones(2)
    assert x.grad.tolist() == [1, 1]
    x.grad = None
    assert x.grad is None


def test_grad_same_object_each_time() -> None:
    x = st.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad is x.grad


def test_grad_of_non_leaf_warns() -> None:
    y = st.ones(2, requires_grad=True) * 2
    with pytest.warns(UserWarning, match="not a leaf Tensor is being accessed"):
        assert y.grad is None


def test_retain_grad_keeps_gradient_of_non_leaf() -> None:
    x = st.ones(2, requires_grad=True)
    y = x * 2
    y.retain_grad()
    assert y.retains_grad
    (y * 3).sum().backward()
    assert y.grad.tolist() == [3, 3]


def test_retain_grad_on_plain_tensor_raises() -> None:
    with pytest.raises(RuntimeError, match="can't retain_grad on Tensor that has requires_grad=F"):
        st.ones(2).retain_grad()


def test_retain_grad_follows_in_place_change() -> None:
    x = st.ones(2, requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.mul_(5)
    y.sum().backward()
    assert y.grad.tolist() == [1, 1]


@pytest.mark.parametrize("n", [1, 255, 256, 257, 1000])
def test_retain_grad_of_any_number_of_outputs_of_one_node(n: int) -> None:
    rows = st.ones(n, 2, requires_grad=True).unbind(0)
    for row in rows:
        row.retain_grad()
    st.stack([row * i for i, row in enumerate(rows)]).sum().backward()
    assert [row.grad.tolist() for row in rows] == [[i, i] for i in range(n)]


@pytest.mark.parametrize("n", [1, 255, 256, 257, 1000])
def test_gradients_of_any_number_of_outputs_of_one_node(n: int) -> None:
    rows = (st.ones(n, 2, requires_grad=True) * 2).unbind(0)
    total = st.stack([row * i for i, row in enumerate(rows)]).sum()
    total.backward(inputs=list(rows), retain_graph=True)
    assert [row.grad.tolist() for row in rows] == [[i, i] for i in range(n)]
    assert [g.tolist() for g in st.autograd.grad(total, rows)] == [[i, i] for i in range(n)]


def test_is_leaf_and_output_nr() -> None:
    x = st.ones(3, 2, requires_grad=True)
    assert x.is_leaf
    assert x.grad_fn is None
    values, indices = x.max(0)
    assert not values.is_leaf
    assert values.output_nr == 0
    assert indices.is_leaf


def test_read_only_attributes_raise() -> None:
    x = st.ones(2)
    for name in ("is_leaf", "grad_fn", "output_nr", "_version", "_base"):
        with pytest.raises(AttributeError):
            setattr(x, name, 1)


def test_detach_cuts_and_shares() -> None:
    x = st.ones(2, requires_grad=True)
    d = x.detach()
    assert not d.requires_grad
    assert d._base is None
    d.add_(1)
    assert x._version == d._version == 1
    assert x.tolist() == [2, 2]


def test_detach_in_place_cuts_non_leaf() -> None:
    y = st.ones(2, requires_grad=True) * 2
    assert y.detach_() is y
    assert y.is_leaf
    assert not y.requires_grad


def test_detach_in_place_of_view_raises() -> None:
    y = st.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="Can't detach views in-place"):
        y[0].detach_()


def test_node_names_edges_and_numbers() -> None:
    x = st.ones(2, requires_grad=True)
    y = x * 2 + x
    node = y.grad_fn
    assert isinstance(node, Node)
    assert node.name() == type(node).__name__ == "AddBackward0"
    assert repr(node).startswith("<AddBackward0 object at 0x")
    (mul, zero), (accumulate, _) = node.next_functions
    assert mul.name() == "MulBackward0"
    assert zero == 0
    assert type(accumulate).__name__ == "AccumulateGrad"
    assert accumulate.name() == "torch::autograd::AccumulateGrad"
    assert accumulate.variable is x
    assert accumulate.next_functions == ()
    assert mul._sequence_nr() < node._sequence_nr() < accumulate._sequence_nr()
    assert node.requires_grad


@pytest.mark.check
def test_node_edge_without_gradient_is_none() -> None:
    x = st.ones(2, requires_grad=True)
    assert (x * st.ones(2)).grad_fn.next_functions[1] == (None, 0)


def test_node_is_one_object_while_it_is_held() -> None:
    y = st.ones(2, requires_grad=True) * 2
    assert y.grad_fn is y.grad_fn
    y.grad_fn.metadata["a"] = 1
    assert y.grad_fn.metadata == {"a": 1}


def test_node_variable_only_on_accumulate_grad() -> None:
    y = st.ones(2, requires_grad=True) * 2
    with pytest.raises(AttributeError):
        _ = y.grad_fn.variable


def test_node_called_applies_its_derivative() -> None:
    x = st.ones(2, requires_grad=True)
    first, second = (x * 3).grad_fn(st.ones(2))
    assert first.tolist() == [3, 3]
    assert second is None


def test_node_called_wrongly() -> None:
    g = st.ones(2)
    node = (st.ones(2, requires_grad=True) * 2).grad_fn
    for arguments, words in (
        ((g, g), "expected 1 arguments, got 2 instead"),
        ((), "expected 1 arguments, got 0 instead"),
        ((1,), "argument 0 is not a Variable"),
    ):
        with pytest.raises(TypeError, match=words):
            node(*arguments)
    with pytest.raises(TypeError, match="keyword arguments are not supported"):
        node(g=g)


def test_deleting_state_is_refused() -> None:
    t = st.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"Deleting tensor data is not allowed\. Delete"):
        del t.data
    with pytest.raises(RuntimeError, match="requires_grad must be a bool"):
        del t.requires_grad


def test_gradient_edge_of_leaf_and_result() -> None:
    x = st.ones(2, requires_grad=True)
    assert get_gradient_edge(x).node.variable is x
    y = x * 2
    assert get_gradient_edge(y)[:2] == (y.grad_fn, 0)
    with pytest.raises(RuntimeError, match="does not require gradients"):
        get_gradient_edge(st.ones(1))


def test_no_grad_as_context_and_decorator() -> None:
    x = st.ones(2, requires_grad=True)
    with st.no_grad():
        assert not st.is_grad_enabled()
        assert not (x * 2).requires_grad
        with st.enable_grad():
            assert (x * 2).requires_grad
    assert st.is_grad_enabled()

    @st.no_grad()
    def one() -> st.Tensor:
        return x * 2

    @st.no_grad
    def two() -> st.Tensor:
        return x * 2

    assert not one().requires_grad
    assert not two().requires_grad
    assert st.is_grad_enabled()


@pytest.mark.parametrize("switch", [st.no_grad, st.enable_grad, st.inference_mode])
def test_decorated_classes_are_functions_and_told(switch: Any) -> None:
    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):

        @switch()
        class Made:
            def __init__(self) -> None:
                self.records = st.is_grad_enabled()

    assert not isinstance(Made, type)
    assert Made().records == (switch is st.enable_grad)


def test_no_grad_restores_after_exception() -> None:
    with pytest.raises(ZeroDivisionError), st.no_grad():
        _ = 1 / 0
    assert st.is_grad_enabled()


def test_no_grad_generator_switches_only_while_it_runs() -> None:
    @st.no_grad()
    def values() -> object:
        yield st.is_grad_enabled()
        yield st.is_grad_enabled()

    seen = []
    for inside in values():
        seen.append((inside, st.is_grad_enabled()))
    assert seen == [(False, True), (False, True)]


def test_set_grad_enabled_as_function_and_context() -> None:
    st.set_grad_enabled(False)
    try:
        assert not st.is_grad_enabled()
        with st.set_grad_enabled(True):
            assert st.is_grad_enabled()
        assert not st.is_grad_enabled()
    finally:
        st.set_grad_enabled(True)


@pytest.mark.parametrize("mode", [3, "a", None, st.tensor(True)])
def test_set_grad_enabled_takes_a_bool_only(mode: object) -> None:
    with pytest.raises(TypeError, match=r"argument 'enabled' \(position 1\) must be bool, not"):
        st.set_grad_enabled(mode)
    assert st.is_grad_enabled()


def test_repr_of_set_grad_enabled_shows_its_mode() -> None:
    assert repr(st.set_grad_enabled(True)).endswith(".grad_mode.set_grad_enabled(mode=True)")


def test_grad_mode_belongs_to_its_thread() -> None:
    seen = []
    with st.no_grad():
        thread = threading.Thread(target=lambda: seen.append(st.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_inference_mode_records_nothing() -> None:
    x = st.ones(2, requires_grad=True)
    with st.inference_mode():
        assert st.is_inference_mode_enabled()
        assert not (x * 2).requires_grad
    assert not st.is_inference_mode_enabled()

    @st.inference_mode()
    def inside() -> bool:
        return (x * 2).requires_grad

    assert inside() is False


def inference_tensor() -> st.Tensor:
    with st.inference_mode():
        return st.arange(6.0)


def test_what_is_made_in_inference_mode_is_marked() -> None:
    made_inside = inference_tensor()
    x = st.ones(2, requires_grad=True)
    with st.inference_mode():
        product, view, parameter = x * 2, x.view(2), st.ones(2, requires_grad=True)
        with st.inference_mode(False):
            assert not st.ones(1).is_inference()
    assert made_inside.is_inference() and product.is_inference() and parameter.is_inference()
    assert made_inside.view(2, 3).is_inference() and made_inside[1:].is_inference()
    assert made_inside.view(2, 3)._base is None
    assert made_inside.detach().is_inference() and st.is_inference(made_inside.data)
    assert not view.is_inference() and not made_inside.clone().is_inference()
    assert not (made_inside + 1).is_inference() and not copy.deepcopy(made_inside).is_inference()


def test_inference_tensors_have_no_version() -> None:
    made_inside = inference_tensor()
    with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
        _ = made_inside._version
    x = st.ones(2, requires_grad=True)
    with st.inference_mode():
        x.detach().add_(1)
    assert x._version == 1


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda t: t.add_(1), id="in-place"),
        pytest.param(lambda t: t.view(2, 3).zero_(), id="view"),
        pytest.param(lambda t: t.__setitem__(0, 1.0), id="item"),
        pytest.param(lambda t: st.add(st.ones(6), 1, out=t), id="out"),
    ],
)
def test_inference_tensors_change_in_inference_mode_only(change: object) -> None:
    made_inside = inference_tensor()
    before = made_inside.tolist()
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside"):
        change(made_inside)
    assert made_inside.tolist() == before
    with st.inference_mode():
        change(made_inside)
    assert made_inside.tolist() != before


def test_inference_tensors_are_neither_saved_nor_leaves() -> None:
    made_inside = inference_tensor()
    x = st.ones(6, requires_grad=True)
    with pytest.raises(RuntimeError, match="cannot be saved for backward"):
        _ = made_inside * x
    (made_inside + x).sum().backward()
    assert x.grad.tolist() == [1.0] * 6
    with pytest.raises(RuntimeError, match="requires_grad=True on inference tensor"):
        made_inside.requires_grad_()
    made_inside.data = st.ones(6)
    assert not made_inside.is_inference()
    assert (made_inside.requires_grad_() * x).requires_grad


def test_variable_is_the_old_name_of_tensor() -> None:
    t = st.ones(2)
    v = Variable(t, requires_grad=True)
    assert v.requires_grad
    assert isinstance(t, Variable)
    assert v.data_ptr() == t.data_ptr()


def test_underscored_grad_is_the_gradient():
    x, g = st.ones(2, requires_grad=True), st.ones(2)
    x._grad = g
    assert x.grad is g
    assert x._grad is g
    with pytest.raises(RuntimeError, match="attempting to assign a gradient of size"):
        x._grad = st.ones(3)
    with pytest.raises(TypeError, match="expected to be a Tensor or None but got grad of type int"):
        x._grad = 3
    x._grad = None
    assert x.grad is None
