"""Operators made of Python functions: schemas from annotations, kernels, derivatives, checks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import shmtensor as st
from shmtensor import Tensor
from shmtensor.library import (
    Library,
    custom_op,
    infer_schema,
    opcheck,
    register_autograd,
    register_fake,
    register_kernel,
    register_torch_dispatch,
)
from shmtensor.library._opcheck import OpCheckError
from shmtensor.utils._python_dispatch import TorchDispatchMode


@custom_op("custom_tests::sine", mutates_args=())
def sine(x: Tensor, scale: float = 1.0) -> Tensor:
    return st.from_numpy(np.sin(x.numpy())) * scale


@sine.register_fake
def _(x: Tensor, scale: float = 1.0) -> Tensor:
    return st.empty_like(x)


def _sine_setup(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.scale = inputs[1]
    ctx.flags = ctx.needs_input_grad


def _sine_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    assert ctx.flags == (True, False)
    return grad * x.cos() * ctx.scale, None


sine.register_autograd(_sine_backward, setup_context=_sine_setup)


# --- schemas -------------------------------------------------------------------------------------


@pytest.mark.check
def test_schema_comes_from_annotations():
    def f(
        x: Tensor,
        ys: list[Tensor],
        zs: Sequence[int],
        w: Tensor | None,
        n: int = 3,
        *,
        s: str = "a",
        v: int | float | bool = 2,
        d: st.dtype | None = None,
        e: st.dtype = st.float32,
    ) -> tuple[Tensor, list[Tensor]]: ...

    assert infer_schema(f, mutates_args=()) == (
        "(Tensor x, Tensor[] ys, SymInt[] zs, Tensor? w, SymInt n=3, *, "
        'str s="a", Scalar v=2, ScalarType? d=None, ScalarType e=float32) -> (Tensor, Tensor[])'
    )


def test_schema_marks_what_is_mutated():
    def f(x: Tensor, y: Tensor, n: int) -> None: ...

    assert infer_schema(f, mutates_args={"y"}, op_name="f") == (
        "f(Tensor x, Tensor(a1!) y, SymInt n) -> ()"
    )
    assert infer_schema(f, mutates_args="unknown") == (
        "(Tensor(a0!) x, Tensor(a1!) y, SymInt n) -> ()"
    )


def _no_annotation(x) -> Tensor: ...
def _no_return(x: Tensor): ...
def _bad_type(x: dict) -> Tensor: ...
def _bad_return(x: Tensor) -> dict: ...
def _bad_default(x: Tensor, n: int = object()) -> Tensor: ...  # type: ignore[assignment]
def _varargs(*x: Tensor) -> Tensor: ...
def _good(x: Tensor, n: int) -> Tensor: ...


@pytest.mark.parametrize(
    ("function", "mutates", "text"),
    [
        (_no_annotation, (), "Parameter x must have a type annotation"),
        (_no_return, (), "No return type annotation"),
        (_bad_type, (), "Parameter x has unsupported type"),
        (_bad_return, (), "Return has unsupported type"),
        (_bad_default, (), "unsupported default value type.*a dtype; for another, give a schema"),
        (_varargs, (), "varargs"),
        (_good, ("z",), "'z'.*not found"),
        (_good, ("n",), "only Tensors"),
        (_good, "x", "'unknown'"),
    ],
)
def test_functions_without_a_schema_are_refused(function, mutates, text):
    with pytest.raises(ValueError, match=text):
        infer_schema(function, mutates_args=mutates)


# --- calling -------------------------------------------------------------------------------------


def test_an_operator_is_callable_by_object_and_by_name():
    x = st.tensor([0.5, 1.0])
    assert sine(x, 2.0).tolist() == pytest.approx([2 * np.sin(0.5), 2 * np.sin(1.0)])
    assert st.ops.custom_tests.sine(x).tolist() == pytest.approx(np.sin(x.numpy()).tolist())
    assert sine(x.to(device="meta")).shape == (2,)
    assert "custom_tests::sine" in repr(sine)


def test_derivative_is_used_and_checked():
    x = st.tensor([0.5, 1.0], dtype=st.float64, requires_grad=True)
    y = sine(x, 3.0)
    assert "custom_tests_sine" in y.grad_fn.name()
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx((3 * np.cos(x.detach().numpy())).tolist())
    assert opcheck(sine, (x, 2.0)) == dict.fromkeys(
        ["test_schema", "test_autograd_registration", "test_faketensor", "test_gradcheck"],
        "SUCCESS",
    )


def test_backward_without_a_formula_says_what_to_do():
    @custom_op("custom_tests::plain", mutates_args=())
    def plain(x: Tensor) -> Tensor:
        return x.detach().clone()

    y = plain(st.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        y.sum().backward()


def test_lists_keyword_only_arguments_and_several_results():
    @custom_op("custom_tests::scale_all", mutates_args=())
    def scale_all(xs: list[Tensor], y: Tensor, *, by: float) -> tuple[Tensor, Tensor]:
        return sum(x.detach() * by for x in xs) + 0, y.detach() * by

    def setup(ctx, inputs, keyword_only_inputs, output):
        ctx.by, ctx.n = keyword_only_inputs["by"], len(inputs[0])
        assert ctx.needs_input_grad == ([True, False], True)

    def backward(ctx, ga, gb):
        return [ga * ctx.by] * ctx.n, gb * ctx.by

    scale_all.register_autograd(backward, setup_context=setup)
    a, b, c = st.ones(2, requires_grad=True), st.ones(2), st.ones(1, requires_grad=True)
    p, q = scale_all([a, b], c, by=3.0)
    (p.sum() + 2 * q.sum()).backward()
    assert p.tolist() == [6, 6]
    assert a.grad.tolist() == [3, 3]
    assert c.grad.tolist() == [6]


def test_mutated_arguments_count_a_version():
    @custom_op("custom_tests::fill", mutates_args={"x"})
    def fill(x: Tensor, value: float) -> None:
        x.numpy()[...] = value

    x = st.zeros(3)
    before = x._version
    assert fill(x, 2.0) is None
    assert x.tolist() == [2, 2, 2]
    assert x._version == before + 1
    with pytest.raises(RuntimeError, match="non-functional operator"):
        fill.register_autograd(lambda ctx: None)


def test_a_result_that_is_an_argument_is_refused():
    @custom_op("custom_tests::same", mutates_args=())
    def same(x: Tensor) -> Tensor:
        return x

    with pytest.raises(RuntimeError, match="may not alias any inputs"):
        same(st.ones(1))


@pytest.mark.check
def test_kernels_by_device_and_redefinition():
    @custom_op("custom_tests::where_am_i", mutates_args=(), device_types="cpu")
    def where(x: Tensor) -> Tensor:
        return x.clone()

    with pytest.raises(NotImplementedError):
        where(st.empty(1, device="meta"))
    where.register_kernel("meta", lambda x: st.empty(7, device="meta"))
    assert where(st.empty(1, device="meta")).shape == (7,)

    @custom_op("custom_tests::where_am_i", mutates_args=())
    def again(x: Tensor) -> Tensor:
        return x + 1

    assert st.ops.custom_tests.where_am_i(st.ones(1)).item() == 2
    with pytest.raises(RuntimeError, match="tpu"):
        again.register_kernel("tpu", lambda x: x)


def test_registrations_by_name():
    with Library("custom_names", "DEF") as lib:
        lib.define("double(Tensor x) -> Tensor")
        register_kernel("custom_names::double", "cpu", lambda x: x.detach() * 2, lib=lib)

        @register_fake("custom_names::double", lib=lib)
        def _(x):
            return st.empty_like(x)

        register_autograd("custom_names::double", lambda ctx, g: g * 2, lib=lib)
        x = st.ones(2, requires_grad=True)
        st.ops.custom_names.double(x).sum().backward()
        assert x.grad.tolist() == [2, 2]
        assert st.ops.custom_names.double(st.empty(3, device="meta")).shape == (3,)


@pytest.mark.parametrize("name", ["sine", "::sine", "a::", "a::b::c", "a::b.c"])
def test_bad_names_are_refused(name):
    with pytest.raises(ValueError, match="name"):
        custom_op(name, lambda x: x, mutates_args=())


def test_schema_and_mutates_args_must_agree():
    with pytest.raises(ValueError, match="mutates_args"):
        custom_op(
            "custom_tests::off", lambda x: None, mutates_args=(), schema="(Tensor(a!) x) -> ()"
        )


# --- opcheck -------------------------------------------------------------------------------------


def test_opcheck_finds_undeclared_mutation_and_wrong_shapes():
    @custom_op("custom_tests::liar", mutates_args=())
    def liar(x: Tensor) -> Tensor:
        x.add_(1)
        return x.sum(0)

    liar.register_fake(lambda x: st.empty_like(x))
    with pytest.raises(OpCheckError, match="argument x is not marked as mutated"):
        opcheck(liar, (st.ones(2),), test_utils="test_schema")
    found = opcheck(liar, (st.ones(2),), test_utils="test_faketensor", raise_exception=False)
    assert "shape" in str(found["test_faketensor"])
    with pytest.raises(ValueError, match="test_magic"):
        opcheck(liar, (), test_utils="test_magic")


def test_kernels_of_a_device_can_stand_aside():
    @custom_op("custom_tests::aside", mutates_args=())
    def aside(x: Tensor) -> Tensor:
        return st.zeros(1)

    aside.register_kernel("cpu", lambda x: st.ones(1))
    x = st.ones(1)
    with aside.set_kernel_enabled("cpu", enabled=False):
        assert aside(x).item() == 0
        with aside.set_kernel_enabled("cpu"):
            assert aside(x).item() == 1
        assert aside(x).item() == 0
        aside.register_kernel("cpu", lambda x: st.full((1,), 2.0))
        assert aside(x).item() == 0
    assert aside(x).item() == 2
    with aside.set_kernel_enabled("cuda", enabled=False):
        assert aside(x).item() == 2


def test_mode_has_a_rule_for_one_operator_while_its_library_lives():
    class Plain(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    class Below(Plain):
        pass

    @custom_op("testrules::same", mutates_args=())
    def same(x: Tensor) -> Tensor:
        return x.clone()

    lib = Library("testrules", "FRAGMENT")

    @register_torch_dispatch("testrules::same", Plain, lib=lib)
    def more(mode: object, func: object, types: object, args: tuple, kwargs: dict) -> Tensor:
        assert isinstance(mode, Plain)
        assert kwargs == {}
        return args[0] + 1

    x = st.ones(2)
    with Plain():
        assert same(x).tolist() == [2.0, 2.0]
        assert x.sin().equal(st.sin(x))
    with Below():
        assert same(x).equal(x)
    assert same(x).equal(x)
    lib._destroy()
    del more
    with Plain():
        assert same(x).equal(x)


def test_rules_are_for_dispatch_modes():
    with pytest.raises(TypeError, match="neither a subclass of TorchDispatchMode"):
        register_torch_dispatch("aten::sin", int, lambda *a: None)


def test_node_of_a_custom_operator_names_its_overload():
    @custom_op("testrules::twice", mutates_args=())
    def twice(x: Tensor) -> Tensor:
        return x + x

    twice.register_autograd(lambda ctx, g: 2 * g)
    node = twice(st.ones(2, requires_grad=True)).grad_fn
    assert node.name() == "GeneratedBackwardFor_testrules_twice_defaultBackward"


def test_kernels_for_devices_that_are_not_here_are_never_called() -> None:
    @st.library.custom_op("mine_elsewhere::moved", mutates_args=(), device_types="cuda")
    def moved(x: st.Tensor) -> st.Tensor:
        raise AssertionError("there is no such device")

    with pytest.raises(NotImplementedError, match="moved"):
        moved(st.ones(1))

    @moved.register_kernel(["cpu", "xpu"])
    def _(x: st.Tensor) -> st.Tensor:
        return x + 1

    assert moved(st.ones(1)).tolist() == [2.0]
    with pytest.raises(RuntimeError, match="cupu"):
        moved.register_kernel("cupu")
