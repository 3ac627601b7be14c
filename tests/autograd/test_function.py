"""Functions of the user's own: contexts, saved tensors, in-place, views, errors."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import shmtensor as st
from shmtensor._boundary.autograd import live_nodes
from shmtensor.autograd import Function, NestedIOFunction
from shmtensor.autograd.function import once_differentiable


def leaf(*values: float) -> st.Tensor:
    return st.tensor([float(v) for v in values], requires_grad=True)


class Product(Function):
    @staticmethod
    def forward(ctx: Any, a: st.Tensor, b: st.Tensor, scale: float = 1.0) -> st.Tensor:
        ctx.save_for_backward(a, b)
        ctx.scale = scale
        return a * b * scale

    @staticmethod
    def backward(ctx: Any, g: st.Tensor) -> Any:
        a, b = ctx.saved_tensors
        return g * b * ctx.scale, g * a * ctx.scale, None


@pytest.mark.check
def test_function_forward_and_backward() -> None:
    a, b = leaf(1, 2), leaf(3, 4)
    y = Product.apply(a, b, 10.0)
    assert y.tolist() == [30, 80]
    assert y.grad_fn.name() == type(y.grad_fn).__name__ == "ProductBackward"
    y.sum().backward()
    assert a.grad.tolist() == [30, 40]
    assert b.grad.tolist() == [10, 20]


def test_function_node_shows_its_context() -> None:
    a, b = leaf(1, 2), leaf(3, 4)
    y = Product.apply(a, b)
    assert y.grad_fn.scale == 1.0
    assert y.grad_fn.saved_tensors[0] is a
    assert len(y.grad_fn.next_functions) == 2


def test_function_without_grad_makes_no_node() -> None:
    y = Product.apply(st.ones(2), st.ones(2))
    assert y.grad_fn is None
    with st.no_grad():
        assert Product.apply(leaf(1), leaf(2)).grad_fn is None


def test_function_needs_input_grad() -> None:
    seen = []

    class Look(Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any, c: Any) -> Any:
            seen.append(ctx.needs_input_grad)
            return a + b

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            seen.append(ctx.needs_input_grad)
            return g, None, None

    Look.apply(leaf(1), st.ones(1), 5).backward(st.ones(1))
    assert seen == [(True, False, False)] * 2


def test_function_forward_records_nothing_inside() -> None:
    class Inside(Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            assert not st.is_grad_enabled()
            return a * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            assert not st.is_grad_enabled()
            return g * 2

    x = leaf(1)
    Inside.apply(x).backward(st.ones(1))
    assert x.grad.item() == 2


def test_function_second_backward_raises() -> None:
    y = Product.apply(leaf(1), leaf(2))
    y.backward(st.ones(1))
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward(st.ones(1))


def test_function_saved_tensor_changed_raises() -> None:
    a, b = leaf(1, 2) * 1, leaf(3, 4)
    y = Product.apply(a, b)
    a.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_function_saves_its_output() -> None:
    class Exp(Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            y = a.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (y,) = ctx.saved_tensors
            return g * y

    gc.collect()
    before = live_nodes()
    x = leaf(0.0, 1.0)
    y = Exp.apply(x)
    (g,) = st.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = st.autograd.grad(g.sum(), x)
    assert h.tolist() == pytest.approx([1, 2.7182817])
    del y, g, h
    gc.collect()
    assert live_nodes() == before


def test_function_is_differentiated_twice() -> None:
    a, b = leaf(2.0), leaf(3.0)
    y = Product.apply(a, b) * a
    (g,) = st.autograd.grad(y.sum(), a, create_graph=True)
    assert g.item() == 12
    (h,) = st.autograd.grad(g.sum(), a)
    assert h.item() == 6


def test_function_undefined_gradients_arrive_as_zeros_or_none() -> None:
    seen: list[Any] = []

    class Two(Function):
        materialize = True

        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            ctx.set_materialize_grads(Two.materialize)
            return a * 2, a * 3

        @staticmethod
        def backward(ctx: Any, g1: Any, g2: Any) -> Any:
            seen.append(g2 if g2 is None else g2.tolist())
            return g1 * 2

    for Two.materialize in (True, False):
        Two.apply(leaf(1, 2))[0].sum().backward()
    assert seen == [[0, 0], None]


def test_function_mark_non_differentiable() -> None:
    class Split(Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            sign = a.sign()
            ctx.mark_non_differentiable(sign)
            return a * 2, sign

        @staticmethod
        def backward(ctx: Any, g: Any, unused: Any) -> Any:
            assert unused.tolist() == [0, 0]
            return g * 2

    x = leaf(1, -2)
    y, sign = Split.apply(x)
    assert y.requires_grad
    assert not sign.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]


class AddOne(Function):
    @staticmethod
    def forward(ctx: Any, a: Any) -> Any:
        ctx.mark_dirty(a)
        a.add_(1)
        return a

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 7


def test_function_mark_dirty_returns_the_same_tensor() -> None:
    x = leaf(1, 2)
    y = x * 1
    z = AddOne.apply(y)
    assert z is y
    assert y.grad_fn.name() == "AddOneBackward"
    z.sum().backward()
    assert x.grad.tolist() == [7, 7]


def test_function_mark_dirty_leaf_raises() -> None:
    with pytest.raises(
        RuntimeError, match="a leaf Variable that requires grad has been used in an"
    ):
        AddOne.apply(leaf(1))


def test_function_mark_dirty_view_goes_through_base() -> None:
    x = leaf(1, 2, 3)
    base = x * 1
    AddOne.apply(base[:2])
    base.sum().backward()
    assert x.grad.tolist() == [7, 7, 1]


def test_function_returning_input_gives_it_a_new_history() -> None:
    class Same(Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return a

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 5

    x = leaf(1, 2)
    y = Same.apply(x)
    assert y is not x
    assert x.is_leaf
    assert y.data_ptr() == x.data_ptr()
    y.sum().backward()
    assert x.grad.tolist() == [5, 5]


class _Through(Function):
    @staticmethod
    def forward(ctx: Any, *tensors: Any) -> Any:
        ctx.mark_non_differentiable(*(t for t in tensors if not t.requires_grad))
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads


def test_function_returning_inputs_that_get_no_gradient() -> None:
    x, plain, number = leaf(1, 2), st.ones(2), st.arange(2)
    for on in (True, False):
        with st.set_grad_enabled(on):
            given = (x, plain, number)
            result = _Through.apply(*given)
        for of, made in zip(given, result, strict=True):
            assert made is not of
            assert made._base is of
    assert all(made is not plain for made in _Through.apply(plain, plain))
    _, second, _ = _Through.apply(x, plain, number)
    second.add_(1)
    assert (plain.tolist(), plain._version) == ([2.0, 2.0], 1)
    with pytest.raises(
        RuntimeError, match=r"in no_grad mode and is being modified inplace.*a custom Function"
    ):
        second.add_(x)


def test_function_says_several_views_only_of_those_that_get_gradients() -> None:
    x = leaf(1, 2) * 1
    with pytest.raises(RuntimeError, match="created inside a custom Function"):
        _Through.apply(x, st.ones(2))[0].add_(1)
    with pytest.raises(RuntimeError, match="returns multiple views"):
        _Through.apply(x, x)[0].add_(1)


def test_hooks_of_a_function_see_gradients_of_inputs_that_need_none() -> None:
    seen = []
    x, plain = leaf(1, 2), st.ones(2)
    y, _ = _Through.apply(x, plain)
    y.grad_fn.register_hook(
        lambda grads, _: seen.append([None if g is None else g.tolist() for g in grads])
    )
    y.sum().backward()
    assert seen == [[[1.0, 1.0], [0.0, 0.0]]]
    assert plain.grad is None


def test_names_in_messages_end_before_the_last_backward() -> None:
    class BackwardFunction(Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return a.view(-1)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    with pytest.raises(RuntimeError, match="Output 0 of BackwardFunction is a view"):
        BackwardFunction.apply(leaf(1) * 1).add_(1)


@pytest.mark.check
def test_function_returning_view_cannot_be_changed_in_place() -> None:
    class Flat(Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return a.view(-1)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g.view(2, 1)

    y = Flat.apply(st.ones(2, 1, requires_grad=True) * 1)
    with pytest.raises(RuntimeError, match=r"Output 0 of Flat is a view.*inside a custom Function"):
        y.add_(1)


def test_function_setup_context_form() -> None:
    class Square(Function):
        @staticmethod
        def forward(a: Any) -> Any:
            return a * a

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            (a,) = inputs
            ctx.save_for_backward(a)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (a,) = ctx.saved_tensors
            return 2 * a * g

    x = leaf(3.0)
    Square.apply(x).backward(st.ones(1))
    assert x.grad.item() == 6


def test_function_other_results_pass_through() -> None:
    class Mixed(Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return a * 2, "text", None

        @staticmethod
        def backward(ctx: Any, g: Any, text: Any, none: Any) -> Any:
            assert text is None
            assert none is None
            return g * 2

    x = leaf(1)
    y, text, none = Mixed.apply(x)
    assert (text, none) == ("text", None)
    y.backward(st.ones(1))
    assert x.grad.item() == 2


@pytest.mark.parametrize(
    ("result", "error", "text"),
    [
        (lambda g: g, RuntimeError, r"incorrect number of gradients \(expected 2, got 1\)"),
        (lambda g: (3, g), RuntimeError, r"expected Variable or None \(got int\)"),
        (lambda g: (st.ones(5), None), RuntimeError, r"index 0 - got \[5\] but expected .*\[2\]"),
    ],
)
def test_function_bad_gradients_raise(result: Any, error: type[Exception], text: str) -> None:
    class Bad(Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            return a * b

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return result(g)

    x = leaf(1, 2)
    with pytest.raises(error, match=text):
        Bad.apply(x, x).sum().backward()


def test_function_extra_none_gradients_are_fine() -> None:
    class Extra(Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return a * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g, None, None

    x = leaf(1)
    Extra.apply(x).backward(st.ones(1))
    assert x.grad.item() == 1


def test_function_gradient_for_a_number_raises() -> None:
    class Numbers(Function):
        @staticmethod
        def forward(ctx: Any, a: Any, k: float) -> Any:
            return a * k

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g, g

    with pytest.raises(RuntimeError, match="different than None at position 2"):
        Numbers.apply(leaf(1), 2.0).backward(st.ones(1))


def test_function_save_for_backward_other_type_raises() -> None:
    class Saves(Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            ctx.save_for_backward(a, None, 3)
            return a * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    with pytest.raises(
        TypeError, match="save_for_backward can only save variables, but argument 2"
    ):
        Saves.apply(leaf(1))


def test_function_exceptions_come_through() -> None:
    class Fails(Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return a * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            raise LookupError("from backward")

    with pytest.raises(LookupError, match="from backward"):
        Fails.apply(leaf(1)).backward(st.ones(1))


def test_function_without_backward_raises_when_asked() -> None:
    class Forward(Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return a * 2

    y = Forward.apply(leaf(1))
    with pytest.raises(NotImplementedError, match="implement either the backward or vjp"):
        y.backward(st.ones(1))


def test_function_instance_is_deprecated_and_not_callable() -> None:
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        instance = Product()
    with pytest.raises(RuntimeError, match="Legacy autograd function"):
        instance(leaf(1))


def test_once_differentiable_refuses_second_derivative() -> None:
    class Once(Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            ctx.save_for_backward(a)
            return a * a

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, g: Any) -> Any:
            (a,) = ctx.saved_tensors
            return g * 2 * a

    x = leaf(3.0)
    (g,) = st.autograd.grad(Once.apply(x), x, st.ones(1, requires_grad=True), create_graph=True)
    assert g.item() == 6
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        g.backward(st.ones(1))


def test_nested_function_takes_and_gives_structures() -> None:
    class Nested(NestedIOFunction):
        @staticmethod
        def forward_extended(ctx: Any, pair: Any, named: Any) -> Any:
            return {"sum": pair[0] + pair[1], "scaled": [named["k"] * 2]}

        @staticmethod
        def backward_extended(ctx: Any, grads: Any) -> Any:
            return (grads["sum"], grads["sum"]), {"k": grads["scaled"][0] * 2}

    a, b, k = leaf(1), leaf(2), leaf(3)
    out = Nested.apply((a, b), {"k": k})
    (out["sum"] + out["scaled"][0]).backward(st.ones(1))
    assert (a.grad.item(), b.grad.item(), k.grad.item()) == (1, 1, 2)


def test_function_graph_dropped_frees_context() -> None:
    gc.collect()
    before = live_nodes()
    y = Product.apply(leaf(1), leaf(2))
    node = y.grad_fn
    del y
    assert live_nodes() == before + 1
    del node
    assert live_nodes() == before


class Marks(Function):
    """Marks what it is given beside its input, and returns another tensor."""

    @staticmethod
    def forward(ctx: Any, a: Any, mark: Any, thing: Any) -> Any:
        getattr(ctx, mark)(a if thing is None else thing)
        return a * 2


@pytest.mark.parametrize("mark", ["mark_dirty", "mark_non_differentiable"])
def test_function_marks_tensors_only(mark: str) -> None:
    with pytest.raises(RuntimeError, match=f"{mark} only accepts tensors, but argument 0 is of"):
        Marks.apply(leaf(1), mark, 3)


def test_function_mark_dirty_needs_the_tensor_among_the_outputs() -> None:
    with pytest.raises(RuntimeError, match="marked as dirty during the forward method were not"):
        Marks.apply(leaf(1), "mark_dirty", None)


def test_saved_output_has_its_history_in_every_backward() -> None:
    seen = []

    class Exp(Function):
        @staticmethod
        def forward(ctx: Any, x: st.Tensor) -> st.Tensor:
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, g: st.Tensor) -> Any:
            (y,) = ctx.saved_tensors
            seen.append((y.requires_grad, type(y.grad_fn).__name__, st.is_grad_enabled()))
            return g * y

    x = leaf(1.0)
    made = Exp.apply(x)
    made.backward(retain_graph=True)
    st.autograd.grad(made, x, create_graph=True)
    assert seen == [(True, "ExpBackward", False), (True, "ExpBackward", True)]
    plain = x.exp()
    with st.no_grad():
        assert plain.grad_fn._saved_result.grad_fn is plain.grad_fn
