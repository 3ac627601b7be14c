"""Nodes as objects, edges as roots and inputs, what nodes saved, and hooks on one saved tensor."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import shmtensor as st
from shmtensor.autograd import Function, backward, grad, graph
from shmtensor.autograd.graph import (
    GradientEdge,
    Node,
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    get_gradient_edge,
    increment_version,
    saved_tensors_hooks,
)
from shmtensor.utils.hooks import RemovableHandle

UNSIGNED = 2**64


def leaf(*values: float) -> st.Tensor:
    return st.tensor([float(v) for v in values], requires_grad=True)


def chain(*values: float) -> tuple[st.Tensor, st.Tensor, st.Tensor]:
    x = leaf(*values)
    y = x * 2
    return x, y, y * 3


# --- edges ---------------------------------------------------------------------------------------


@pytest.mark.check
def test_edge_names_a_node_and_its_input() -> None:
    x, y, _ = chain(1)
    edge = get_gradient_edge(y)
    assert edge == (y.grad_fn, 0, None)
    assert isinstance(edge, GradientEdge)
    assert get_gradient_edge(x).node.variable is x
    _, high = st.aminmax(y)
    assert get_gradient_edge(high).output_nr == 1


def test_edge_as_input_of_grad() -> None:
    x, y, z = chain(1, 2)
    to_y, to_x = grad(z.sum(), (get_gradient_edge(y), x))
    assert to_y.tolist() == [3, 3]
    assert to_x.tolist() == [6, 6]


def test_edge_as_root() -> None:
    x, _, z = chain(1, 2)
    edge = get_gradient_edge(z)
    del z
    (to_x,) = grad(edge, x, grad_outputs=st.tensor([1.0, 10.0]), retain_graph=True)
    assert to_x.tolist() == [6, 60]
    backward([edge], [st.tensor([1.0, 10.0])])
    assert x.grad.tolist() == [6, 60]


def test_edge_of_one_element_starts_with_one() -> None:
    x = st.tensor(2.0, requires_grad=True)
    (to_x,) = grad(get_gradient_edge(x * x), x)
    assert to_x.item() == 4


def test_edge_as_input_of_backward_method() -> None:
    x, w = leaf(1), leaf(5)
    (x * w).sum().backward(inputs=get_gradient_edge(x))
    assert x.grad.tolist() == [5]
    assert w.grad is None


def test_edge_inside_the_graph_as_input_of_backward_keeps_no_gradient() -> None:
    x, y, z = chain(1, 2)
    backward(z.sum(), inputs=[get_gradient_edge(y)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert x.grad is None and y.grad is None


def test_edges_that_do_not_fit() -> None:
    x, y, z = chain(1, 2)
    with pytest.raises(RuntimeError, match="implicitly created only for scalar outputs"):
        grad(get_gradient_edge(z), x)
    with pytest.raises(RuntimeError, match=r"grad_output\[0\] has a shape of torch.Size\(\[3\]\)"):
        backward(get_gradient_edge(z), st.ones(3))
    with pytest.raises(RuntimeError, match="index 0 appears to not have been used"):
        grad(z.sum(), get_gradient_edge(leaf(1)))
    with pytest.raises(RuntimeError, match="materialize_grads cannot be used"):
        grad(z.sum(), get_gradient_edge(leaf(1)), materialize_grads=True)
    with pytest.raises(RuntimeError, match="all inputs have to be Tensors or GradientEdges"):
        grad(z.sum(), ["x"])
    with pytest.raises(RuntimeError, match="has 1 inputs, there is no input 4"):
        grad(z.sum(), GradientEdge(y.grad_fn, 4))
    with pytest.raises(RuntimeError, match="does not require gradients"):
        get_gradient_edge(st.ones(1))


# --- nodes ---------------------------------------------------------------------------------------


def test_node_has_names_metadata_and_shapes() -> None:
    x = st.ones(2, 3, dtype=st.float64, requires_grad=True)
    fn = (x * 2).grad_fn
    assert isinstance(fn, Node)
    assert fn.name() == "MulBackward0"
    assert [n.name() for n, _ in fn.next_functions if n] == ["torch::autograd::AccumulateGrad"]
    fn.metadata["stage"] = 3
    assert fn.metadata == {"stage": 3}
    (seen,) = fn._input_metadata
    assert (seen.shape, seen.dtype, seen.device) == ((2, 3), st.float64, st.device("cpu"))
    (of_leaf,) = fn.next_functions[0][0]._input_metadata
    assert of_leaf.shape == (2, 3)


def test_hooks_of_another_tensor_run_with_a_node() -> None:
    _, y, z = chain(1)
    seen: list[float] = []
    y.register_hook(lambda g: seen.append(g.item()))
    y.grad_fn._register_hook_dict(y)  # its own: once is enough
    z.grad_fn._register_hook_dict(y)
    z.sum().backward()
    assert seen == [1, 3]
    with pytest.raises(TypeError, match="expected a variable"):
        z.grad_fn._register_hook_dict({})


def test_hook_removed_by_another_still_runs_this_time() -> None:
    y = leaf(1) * 2
    seen: list[int] = []
    handles: list[Any] = []

    def first(grad: Any) -> None:
        seen.append(1)
        handles[0].remove()

    y.register_hook(first)
    handles.append(y.register_hook(lambda g: seen.append(2)))
    y.register_hook(lambda g: seen.append(3))
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert seen == [1, 2, 3, 1, 3]


def test_hooks_after_accumulation_are_listed() -> None:
    x = leaf(1)
    assert x._post_accumulate_grad_hooks is None
    handle = x.register_post_accumulate_grad_hook(print)
    assert list(x._post_accumulate_grad_hooks.values()) == [print]
    handle.remove()
    assert x._post_accumulate_grad_hooks == {}


def test_handles_are_torchs_class() -> None:
    x = leaf(1)
    handles = [x.register_hook(print), (x * 2).grad_fn.register_hook(print)]
    assert all(isinstance(handle, RemovableHandle) for handle in handles)


def test_switches_for_devices_and_compilers() -> None:
    graph.set_warn_on_accumulate_grad_stream_mismatch(False)
    graph.set_override_stale_capture_stream(True)
    for budget, error in ((0.5, RuntimeError), (2, ValueError), ("x", TypeError)):
        with pytest.raises(error), graph.region_activation_memory_budget(budget):
            pass


def test_order_of_hooks_of_all_kinds() -> None:
    x = leaf(1)
    y = x * 2
    seen: list[Any] = []
    y.register_hook(lambda g: seen.append("tensor 1"))
    y.grad_fn.register_prehook(lambda g: seen.append("pre"))
    y.register_hook(lambda g: seen.append("tensor 2"))
    y.grad_fn.register_hook(lambda given, got: seen.append("post"))
    x.register_post_accumulate_grad_hook(lambda t: seen.append("accumulated"))
    x.register_hook(lambda g: seen.append("leaf"))
    y.sum().backward()
    assert seen == ["tensor 1", "tensor 2", "pre", "post", "leaf", "accumulated"]


# --- what nodes saved ----------------------------------------------------------------------------


def test_saved_values_of_all_kinds() -> None:
    x = leaf(1, 2, 3)
    assert x.exp().grad_fn._saved_result.tolist() == pytest.approx([2.71828, 7.38905, 20.08554])
    assert x.cumsum(-1).grad_fn._saved_dim == UNSIGNED - 1
    assert x.sum(0, keepdim=True).grad_fn._saved_dim == (0,)
    assert x.sum(-1, keepdim=True).grad_fn._saved_dim == (UNSIGNED - 1,)
    assert x.sum(0, keepdim=True).grad_fn._saved_keepdim is True
    assert (x**2).grad_fn._saved_exponent == 2
    assert st.nn.functional.gelu(x).grad_fn._saved_approximate == "none"
    assert st.nn.functional.leaky_relu(x).grad_fn._saved_negative_slope == 0.01
    assert x.view(3, 1).grad_fn._saved_self_sym_sizes == (3,)
    assert x.std().grad_fn._saved_dim is None
    values, indices = x.topk(2)
    assert values.grad_fn._saved_indices.equal(indices)
    assert x[st.tensor([0, 2])].grad_fn._saved_indices[0].tolist() == [0, 2]
    assert (
        st.addmm(st.ones(1), st.ones(1, 1, requires_grad=True), st.ones(1, 1)).grad_fn._saved_beta
        == 1
    )


def test_saved_of_what_needs_no_gradient_is_none() -> None:
    fn = (leaf(1) * st.ones(1)).grad_fn
    assert fn._saved_self is None
    assert fn._saved_other.tolist() == [1]
    assert "_saved_other" in dir(fn) and "_raw_saved_other" in dir(fn)


def test_saved_result_has_its_history() -> None:
    y = leaf(1).exp()
    assert y.grad_fn._saved_result.grad_fn is y.grad_fn


@pytest.mark.check
def test_saved_is_gone_after_backward() -> None:
    y = leaf(1).exp()
    fn = y.grad_fn
    y.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        _ = fn._saved_result
    with pytest.raises(RuntimeError, match="after it has been freed"):
        fn._raw_saved_result.register_hooks(lambda t: t, lambda t: t)


def test_saved_that_was_changed_raises() -> None:
    a = leaf(1, 2).clone()
    b = a**2
    a.mul_(2)
    with pytest.raises(RuntimeError, match="is at version 1; expected version 0"):
        _ = b.grad_fn._saved_self


def test_raw_saved_tensor_gets_hooks() -> None:
    x = leaf(1, 2)
    y = x.exp()
    raw = y.grad_fn._raw_saved_result
    assert raw.unpack_hook is None
    packed: list[Any] = []

    def pack(t: st.Tensor) -> int:
        packed.append(t.detach().clone())
        return len(packed) - 1

    raw.register_hooks(pack, lambda i: packed[i] * 10)
    assert raw.data == 0
    assert raw.unpack_hook(0).equal(packed[0] * 10)
    with pytest.raises(RuntimeError, match="hooks have already been set"):
        raw.register_hooks(pack, lambda i: packed[i])
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx([27.1828, 73.8906])


def test_raw_saved_tensor_refuses() -> None:
    fn = (leaf(1) * st.ones(1)).grad_fn
    with pytest.raises(RuntimeError, match="with value None is forbidden"):
        fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(TypeError, match="two callables"):
        fn._raw_saved_other.register_hooks(lambda t: t, 3)
    with pytest.raises(RuntimeError, match="pack hook is modifying its input in place"):
        fn._raw_saved_other.register_hooks(lambda t: t.mul_(2), lambda t: t)


def test_leaf_that_hooks_packed_is_a_leaf() -> None:
    x = leaf(1, 2)
    with saved_tensors_hooks(lambda t: t.clone(), lambda t: t.clone()):
        y = x**2
    again = y.grad_fn._saved_self
    assert again is not x and again.equal(x)
    assert (again.requires_grad, again.is_leaf, again.grad_fn) == (True, True, None)
    (again * 3).sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_pack_hook_must_not_change_its_input() -> None:
    x = leaf(1)
    with (
        saved_tensors_hooks(lambda t: t.add_(1), lambda t: t),
        pytest.raises(RuntimeError, match="pack hook is modifying its input in place"),
    ):
        x.exp()


def test_raw_saved_tensor_outlives_the_tensor() -> None:
    raw = leaf(1).exp().grad_fn._raw_saved_result
    assert raw.unpack().tolist() == pytest.approx([2.71828])


def test_disabled_hooks_say_why() -> None:
    with (
        disable_saved_tensors_hooks("not here"),
        pytest.raises(RuntimeError, match="not here"),
        saved_tensors_hooks(lambda t: t, lambda t: t),
    ):
        pass


def test_graph_with_mutated_saved_tensors_ends_with_its_context() -> None:
    with allow_mutation_on_saved_tensors():
        a = leaf(1, 2).clone()
        b = (a**2).sum()
        a.mul_(3)
    with pytest.raises(AssertionError, match="Trying to backward outside"):
        b.backward()


def test_increment_version_of_several() -> None:
    a, b = st.ones(1), st.ones(1)
    increment_version(iter([a, b, a]))
    assert (a._version, b._version) == (2, 1)


# --- Function ------------------------------------------------------------------------------------


class Scale(Function):
    @staticmethod
    def forward(x: st.Tensor, by: float = 2.0, *, extra: float = 1.0) -> st.Tensor:
        return x * by * extra

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.inputs = inputs[1:]
        ctx.by = inputs[1]

    @staticmethod
    def backward(ctx: Any, g: st.Tensor) -> Any:
        return g * ctx.by, None


def test_function_with_setup_context_fills_in_defaults() -> None:
    x = leaf(1)
    assert Scale.apply(x).grad_fn.inputs == (2.0,)
    y = Scale.apply(x, by=5.0)
    assert y.grad_fn.inputs == (5.0,)
    y.sum().backward()
    assert x.grad.item() == 5


def test_function_without_setup_context_takes_keywords() -> None:
    class Times(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, by: float = 1.0) -> Any:
            ctx.by = by
            return x * by

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.by

    x = leaf(1)
    Times.apply(x, by=7.0).sum().backward()
    assert x.grad.item() == 7


def test_context_is_also_a_node() -> None:
    seen: dict[str, Any] = {}

    class Look(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            seen["name"] = ctx.name()
            seen["next"] = ctx.next_functions[0][0].name()
            seen["raw"] = ctx._raw_saved_tensors[0].unpack().tolist()
            with pytest.raises(AttributeError):
                _ = ctx.no_such_thing
            return g

    Look.apply(leaf(4)).sum().backward()
    assert seen == {"name": "LookBackward", "next": "torch::autograd::AccumulateGrad", "raw": [4]}


def test_saved_tensors_that_go_at_the_first_look() -> None:
    class Once(Function):
        clear_saved_tensors_on_access = True

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            with pytest.raises(RuntimeError, match="can only be accessed once"):
                _ = ctx.saved_tensors
            return g * x

    x = leaf(3)
    Once.apply(x).sum().backward()
    assert x.grad.item() == 3


def test_gradients_in_a_box() -> None:
    class Boxed(Function):
        boxed_grads_call = True

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, grads: list[Any]) -> Any:
            assert isinstance(grads, list)
            second, first = grads.pop(), grads.pop()
            return first * 2 + second * 3

    x = leaf(1)
    a, b = Boxed.apply(x)
    (a + b).sum().backward()
    assert x.grad.item() == 5


def test_marking_what_is_no_input_as_dirty_warns() -> None:
    class Wrong(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x * 2
            ctx.mark_dirty(y)
            return y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    with pytest.warns(UserWarning, match="received a tensor that was not an input"):
        Wrong.apply(leaf(1))


def test_save_for_forward_wants_tensors() -> None:
    class Wrong(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_forward(None, 3)

    with pytest.raises(
        AssertionError, match="save_for_forward expects all arguments to be tensors"
    ):
        Wrong.apply(leaf(1))


# --- as torch ------------------------------------------------------------------------------------

SAVED_AS_IN_TORCH = [
    "(x * y)",
    "x.exp()",
    "x.cumsum(-1)",
    "x.sum(0, keepdim=True)",
    "x.sum(-1)",
    "x ** 2",
    "x.clamp(0, 1)",
    "t.nn.functional.gelu(x)",
    "x.topk(1)[0]",
    "x[t.tensor([0])]",
    "x[0:1]",
    "x.flip(-1)",
    "x.roll(-1, -1)",
    "t.where(x > 0, x, y)",
    "x.max(0)[0]",
    "x.relu()",
    "x - y",
    "x / y",
    "t.lerp(x, y, 0.5)",
    "x.masked_fill(x > 0, 1.)",
    "x.unsqueeze(0)",
    "x.squeeze()",
    "x.repeat(2)",
    "x.unbind()[0]",
    "x.sigmoid()",
    "x.tanh()",
    "t.bmm(x.view(1, 1, 2), y.view(1, 2, 1))",
    "x.abs()",
    "t.nn.functional.pad(x, (1, 1))",
    "t.addcmul(x, y, y, value=2)",
    "t.nn.functional.binary_cross_entropy_with_logits(x, y.detach())",
    "t.nn.functional.mse_loss(x, y)",
    "x.cumprod(0)",
    "x.amax()",
    "x.index_select(0, t.tensor([0]))",
    "x.scatter(0, t.tensor([0]), 1.)",
    "t.nn.functional.leaky_relu(x)",
    "x.view(2, 1).transpose(0, 1)",
]


def _saved(library: Any, expression: str) -> dict[str, Any]:
    x = library.tensor([0.5, 2.0], requires_grad=True)
    y = library.tensor([3.0, 4.0], requires_grad=True)
    fn = eval(expression, {"t": library, "x": x, "y": y}).grad_fn

    def plain(value: Any) -> Any:
        if isinstance(value, library.Tensor):
            return value.tolist()
        return tuple(map(plain, value)) if isinstance(value, tuple) else value

    names = [name for name in dir(fn) if name.startswith(("_saved_", "_raw_saved_"))]
    return {n: plain(getattr(fn, n)) if n.startswith("_saved") else None for n in names}


@pytest.mark.parametrize("expression", SAVED_AS_IN_TORCH)
def test_saved_values_are_torchs(expression: str) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = _saved(st, expression), _saved(torch, expression)
    assert set(ours) == set(theirs)
    for name, value in theirs.items():
        if isinstance(value, list):
            assert st.tensor(ours[name]).allclose(st.tensor(value)), name
        else:
            assert ours[name] == value, name
