"""Subclasses of Tensor that answer operators: ``__torch_dispatch__``."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as st
from shmtensor import _C
from shmtensor.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    _get_current_dispatch_mode,
    _get_current_dispatch_mode_stack,
    get_alias_info,
    is_in_torch_dispatch_mode,
    is_traceable_wrapper_subclass,
    is_traceable_wrapper_subclass_type,
    return_and_correct_aliasing,
    transform_subclass,
)
from shmtensor.utils._pytree import tree_map

aten = st.ops.aten
seen: list[str] = []


def _unwrapped(o: Any) -> Any:
    return o.inner if isinstance(o, Wrapper) else o


class Wrapper(st.Tensor):
    """A tensor without memory around another; every operator is written down."""

    inner: st.Tensor

    @staticmethod
    def __new__(cls: type, inner: st.Tensor, requires_grad: bool = False) -> Any:
        made = st.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=inner.device,
            requires_grad=requires_grad,
        )
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        seen.append(str(func))
        out = func(*tree_map(_unwrapped, args), **tree_map(_unwrapped, kwargs or {}))
        wrapped = tree_map(lambda o: cls(o) if isinstance(o, st.Tensor) else o, out)
        return return_and_correct_aliasing(func, args, kwargs, wrapped)

    def __tensor_flatten__(self) -> Any:
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return Wrapper(inner["inner"])


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    seen.clear()


def wrapped(*values: float, grad: bool = False) -> Wrapper:
    made: Wrapper = Wrapper(st.tensor(values, dtype=st.float32), grad)
    return made


# --- what a class is asked -----------------------------------------------------------------------


@pytest.mark.check
def test_operators_functions_methods_and_slots_ask_the_class() -> None:
    x = wrapped(1, 2)
    for result in (x + 1, st.add(x, 1), x.add(1), aten.add.Tensor(x, 1), 1 + x):
        assert type(result) is Wrapper
        assert result.inner.tolist() == [2, 3]
    assert seen == ["aten.add.Tensor"] * 5


def test_the_function_is_the_operator_itself() -> None:
    got: list[Any] = []

    class Sees(Wrapper):
        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            got.append((func, types, args, kwargs))
            return super().__torch_dispatch__(func, types, args, kwargs)

    x = Sees(st.ones(2))
    st.sum(x, 0, keepdim=True)
    func, types, args, kwargs = got[0]
    assert func is aten.sum.dim_IntList
    assert func.overloadpacket == aten.sum
    assert func.name() == "aten::sum.dim_IntList"
    assert types == (Sees,)
    assert args[0] is x
    assert args[1:] == ([0], True)
    assert kwargs == {}


def test_defaults_are_left_out_and_others_are_not() -> None:
    got: list[Any] = []

    class Sees(Wrapper):
        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            got.append((args[1:], kwargs))
            return super().__torch_dispatch__(func, types, args, kwargs)

    x = Sees(st.ones(2))
    _ = x + 1
    st.add(x, 1, alpha=2)
    x.clone(memory_format=st.contiguous_format)
    x.clone()
    assert got == [
        ((1,), {}),
        ((1,), {"alpha": 2}),
        ((), {"memory_format": st.contiguous_format}),
        ((), {}),
    ]


def test_lists_and_keywords_are_searched() -> None:
    x, plain = wrapped(1, 2), st.ones(2)
    assert type(st.cat([plain, x])) is Wrapper
    assert type(st.stack([plain, plain, x])) is Wrapper
    out = Wrapper(st.empty(2))
    assert st.add(plain, plain, out=out) is out
    assert out.inner.tolist() == [2, 2]
    assert type(plain + x) is Wrapper
    assert type(plain[x.inner.long() * 0]) is st.Tensor


def test_subclasses_are_asked_before_their_bases_and_else_from_left_to_right() -> None:
    asked: list[str] = []

    def answering(name: str, *bases: type) -> Any:
        def dispatch(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            asked.append(cls.__name__)
            return NotImplemented

        return type(name, bases or (Wrapper,), {"__torch_dispatch__": classmethod(dispatch)})

    base = answering("Base")
    child, other = answering("Child", base), answering("Other")
    tensors = [kind(st.ones(1)) for kind in (base, other, child)]
    with pytest.raises(
        TypeError, match=r"Multiple dispatch failed for '.*aten\.cat\.default'"
    ) as e:
        st.cat(tensors)
    assert asked == ["Child", "Base", "Other"]
    text = str(e.value)
    assert "all __torch_dispatch__ handlers returned NotImplemented" in text
    for kind in (base, child, other):
        assert f"  - tensor subclass {kind!r}" in text


def test_not_implemented_goes_to_the_next_class() -> None:
    class Shy(Wrapper):
        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return NotImplemented

    result = Shy(st.ones(1)) + wrapped(2)
    assert type(result) is Wrapper


def test_composites_are_taken_apart() -> None:
    x = Wrapper(st.ones(2, 3))
    st.nn.functional.softmin(x, 0)
    assert "aten.softmin.default" not in seen
    assert seen


def test_a_mode_is_asked_first() -> None:
    order: list[str] = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            order.append(f"mode {types}")
            return func(*args, **(kwargs or {}))

    x = wrapped(1)
    with Mode():
        result = x + 1
    assert order == [f"mode {(Wrapper,)}"]
    assert seen == ["aten.add.Tensor"]
    assert type(result) is Wrapper


def test_a_mode_that_returns_not_implemented_leaves_it_to_the_class() -> None:
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return NotImplemented

    with Mode():
        assert (wrapped(1) + 1).inner.tolist() == [2]
        with pytest.raises(TypeError, match="mode object"):
            _ = st.ones(1) + 1


def test_plain_tensors_and_other_subclasses_are_not_asked() -> None:
    class Quiet(st.Tensor):
        pass

    _ = st.ones(2).as_subclass(Quiet) + 1
    assert "PythonBelowAutograd" not in _C._dispatch_keys(st.ones(2))
    assert "PythonBelowAutograd" not in _C._dispatch_keys(st.ones(2).as_subclass(Quiet))
    assert "PythonBelowAutograd" in _C._dispatch_keys(wrapped(1))


# --- classes over memory -------------------------------------------------------------------------


class Over(st.Tensor):
    """A tensor over memory, whose class answers."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        seen.append(str(func))
        return super().__torch_dispatch__(func, types, args, kwargs)


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t.as_subclass(Over),
        lambda t: st.Tensor._make_subclass(Over, t),
    ],
)
def test_super_calls_the_kernel(make: Callable[[Any], Any]) -> None:
    data = st.tensor([1.0, 2.0])
    x = make(data)
    assert (x + 1).tolist() if type(x + 1) is st.Tensor else True
    assert seen.count("aten.add.Tensor") >= 1
    x.mul_(2)
    assert data.tolist() == [2, 4]
    assert x.sum().item() == 6


def test_disabled_torch_dispatch_is_as_if_there_was_none() -> None:
    class Off(st.Tensor):
        __torch_dispatch__ = _C._disabled_torch_dispatch_impl

    x = st.ones(2).as_subclass(Off)
    assert "PythonBelowAutograd" not in _C._dispatch_keys(x)
    assert (x + 1).tolist() == [2, 2]
    with pytest.raises(TypeError, match="must define __torch_dispatch__"):
        st.Tensor._make_wrapper_subclass(Off, (2,))


def test_torch_function_runs_before() -> None:
    order: list[str] = []

    class Both(Wrapper):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            order.append("function")
            return super().__torch_function__(func, types, args, kwargs or {})

        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            order.append("dispatch")
            return super().__torch_dispatch__(func, types, args, kwargs)

    x = Both(st.ones(2))
    order.clear()
    assert type(x + 1) is Both
    assert order == ["function", "dispatch"]


def test_torch_function_may_be_disabled() -> None:
    class Only(Wrapper):
        __torch_function__ = _C._disabled_torch_function_impl

    x = Only(st.ones(2))
    assert type(x + 1) is Only
    assert seen[-1] == "aten.add.Tensor"


# --- results -------------------------------------------------------------------------------------


def test_in_place_and_out_give_the_tensor_back() -> None:
    x = wrapped(1, 2)
    assert x.add_(1) is x
    x += 1
    assert x.inner.tolist() == [3, 4]
    assert x._version == 2
    out = wrapped(0, 0)
    assert st.mul(x, 2, out=out) is out
    assert out.inner.tolist() == [6, 8]


def test_several_results_and_lists() -> None:
    x = Wrapper(st.tensor([[3.0, 1.0], [2.0, 4.0]]))
    values, indices = x.max(0)
    assert (type(values), type(indices)) == (Wrapper, Wrapper)
    assert indices.inner.tolist() == [0, 1]
    parts = x.split(1)
    assert [type(part) for part in parts] == [Wrapper, Wrapper]
    assert [part.inner.tolist() for part in x] == [[3, 1], [2, 4]]


def test_views_share_the_storage_and_the_version() -> None:
    x = Wrapper(st.zeros(2, 3))
    y = x.t()
    assert y._base is x
    assert y.shape == (3, 2)
    assert y.stride() == (1, 3)
    assert y.untyped_storage()._cdata == x.untyped_storage()._cdata
    y.add_(1)
    assert x._version == 1
    assert x.inner.sum().item() == 6
    for view in x.unbind():
        assert view.untyped_storage()._cdata == x.untyped_storage()._cdata


def test_views_in_place_change_the_geometry() -> None:
    x = Wrapper(st.zeros(2, 3))
    assert x.t_() is x
    assert x.shape == (3, 2)
    assert x.unsqueeze_(0).shape == (1, 3, 2)


def test_results_of_other_kinds() -> None:
    class Odd(Wrapper):
        answer: Any = None

        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return cls.answer

    x = Odd(st.ones(2))
    for answer in (None, 3, "text", [st.ones(1)]):
        Odd.answer = answer
        with pytest.raises(RuntimeError, match="sin"):
            st.sin(x)
    Odd.answer = (st.ones(1),)
    with pytest.raises(RuntimeError, match="max"):
        st.max(x, 0)
    Odd.answer = st.ones(5, dtype=st.int64)
    assert st.sin(x).shape == (5,)
    assert st.sin(x).dtype is st.int64


def test_the_class_may_return_its_argument() -> None:
    class Same(Wrapper):
        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func is aten.detach.default:
                return cls(args[0].inner)
            return args[0]

    x = Same(st.ones(2), True)
    y = x * 2
    assert y is not x
    assert x.is_leaf
    z = x.view(2)
    assert z is not x
    y.sum()


def test_empty_and_large_geometries() -> None:
    for size in ((), (0,), (2,) * 8):
        x = Wrapper(st.ones(size))
        assert (x + 1).shape == size
    made = st.Tensor._make_wrapper_subclass(Wrapper, (2, 3))
    assert (made.dtype, made.stride(), made.device.type) == (st.float32, (3, 1), "cpu")
    big = st.Tensor._make_wrapper_subclass(Wrapper, (2**20, 2**20), dtype=st.float64)
    assert big.numel() == 2**40


# --- elements ------------------------------------------------------------------------------------


def test_numbers_are_asked_for() -> None:
    x = wrapped(3)
    assert x.item() == 3
    assert float(x) == 3
    assert int(x) == 3
    assert bool(x)
    assert complex(x) == 3
    assert [0, 1, 2, 3][Wrapper(st.tensor(2))] == 2
    assert set(seen) == {"aten._local_scalar_dense.default"}
    assert st.zeros(4)[Wrapper(st.tensor(1))].item() == 0


def test_indexing_and_assignment() -> None:
    x = Wrapper(st.arange(6.0).view(2, 3))
    assert x[1].inner.tolist() == [3, 4, 5]
    assert x[:, 1].inner.tolist() == [1, 4]
    assert x[0, 2].item() == 2
    assert x[..., None].shape == (2, 3, 1)
    assert x[Wrapper(st.tensor([1, 0]))].inner[0].tolist() == [3, 4, 5]
    assert x[x > 3].inner.tolist() == [4, 5]
    x[0] = 7
    x[1, 1] = wrapped(9)[0]
    x[:, 2] = st.zeros(2)
    assert x.inner.tolist() == [[7, 7, 0], [3, 9, 0]]


def test_conversions_copy_and_print() -> None:
    x = wrapped(1, 2)
    assert x.to(st.float64).dtype is st.float64
    assert x.double().inner.dtype is st.float64
    assert x.cpu() is x
    assert repr(x) == "Wrapper([1., 2.])"
    assert repr(Wrapper(st.ones(2, 2), True)) == (
        "Wrapper([[1., 1.],\n         [1., 1.]], requires_grad=True)"
    )
    again = copy.deepcopy(x)
    assert type(again) is Wrapper
    again.add_(1)
    assert x.inner.tolist() == [1, 2]
    loaded = pickle.loads(pickle.dumps(Wrapper(st.ones(3), True)))
    assert type(loaded) is Wrapper
    assert loaded.requires_grad
    assert loaded.inner.tolist() == [1, 1, 1]
    assert type(x.detach()) is type(x.data) is type(x.clone()) is Wrapper
    assert type(st.zeros_like(x)) is type(x.new_ones(2)) is Wrapper


def test_saved_wrappers_keep_device_and_shape(tmp_path: Any) -> None:
    path = tmp_path / "wrapper.pt"
    x = Wrapper(st.arange(6.0).reshape(2, 3).t(), True)
    st.save({"x": x}, path)
    with st.serialization.safe_globals([Wrapper]):
        safely = st.load(path, weights_only=True)["x"]
    for loaded in (safely, st.load(path, weights_only=False)["x"]):
        assert type(loaded) is Wrapper
        assert loaded.device == st.device("cpu") and not loaded.is_meta
        assert loaded.shape == (3, 2) and loaded.stride() == (1, 3) and loaded.requires_grad
        assert loaded.equal(x) and st.equal(loaded.inner, x.inner)


def test_parts_of_operators_are_asked_about_as_the_whole() -> None:
    x, y = wrapped(1, 2), wrapped(3, 4)
    seen.clear()
    assert st.cat([x, y]).inner.tolist() == [1, 2, 3, 4]
    assert st.stack([x, y], 1).inner.tolist() == [[1, 3], [2, 4]]
    assert seen[0] == "aten.cat.default" and not any("_sized" in name for name in seen)
    seen.clear()
    assert x.as_strided((1,), (1,), 1).inner.tolist() == [2]
    assert seen == ["aten.as_strided.default"]
    leaf = Wrapper(st.ones(2), True)
    seen.clear()
    st.cat([leaf, leaf.as_strided((1,), (2,))]).sum().backward()
    assert leaf.grad is not None and leaf.grad.inner.tolist() == [2, 1]
    assert {"aten.cat.default", "aten.as_strided.default"} <= set(seen)


def test_an_argument_that_is_returned_stays_itself_unless_it_is_recorded() -> None:
    class Sorted(Wrapper):
        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func is aten.sort.default:
                return args[0], st.arange(args[0].numel())
            if func in (aten.clone.default, aten.abs.default):
                return args[0]
            return super().__torch_dispatch__(func, types, args, kwargs)

    x = Sorted(st.tensor([1.0, 2.0]))
    assert x.sort()[0] is x
    assert x.abs() is x
    assert x.clone() is x
    leaf = Sorted(st.tensor([1.0, 2.0]), True)
    found = leaf.sort()[0]
    assert found is not leaf and leaf.is_leaf and found.grad_fn is not None


def test_deepcopy_needs_a_clone_of_the_class() -> None:
    class Loses(Wrapper):
        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func(*tree_map(_unwrapped, args))

    with pytest.raises(RuntimeError, match=r"clone\(\) returned a Tensor"):
        copy.deepcopy(Loses(st.ones(2)))


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.numpy(),
        lambda x: x.tolist(),
        lambda x: x.untyped_storage()[0],
        lambda x: x.untyped_storage().tolist(),
        lambda x: bytes(x),
        lambda x: memoryview(x),
        lambda x: x.__dlpack__(),
        lambda x: st.utils.dlpack.to_dlpack(x),
        lambda x: x.share_memory_(),
        lambda x: x.__arrow_c_array__(),
        lambda x: st.Generator().set_state(x.byte()),
        lambda x: st.frombuffer(x, dtype=st.uint8),
        lambda x: st.zeros(2).set_(x.untyped_storage()),
    ],
)
def test_memory_that_is_not_there_is_refused(read: Callable[[Any], Any]) -> None:
    texts = "for tensor subclasses|doesn't have storage|no data|on different device"
    with pytest.raises(RuntimeError, match=texts):
        read(wrapped(1, 2))


def test_kernels_refuse_tensors_without_memory() -> None:
    x, plain = wrapped(1, 2), st.ones(2)
    with _C._DisableTorchDispatch():
        for call in (
            lambda: x + 1,
            lambda: plain + x,
            lambda: plain.copy_(x),
            lambda: st.cat([plain, x]),
            lambda: st.add(plain, 1, out=x),
            lambda: st.clamp(plain, plain, out=x),
            lambda: st.clamp(x, plain, plain, out=plain),
            lambda: x.sum(),
            lambda: x.item() if x.numel() == 1 else x[0].item(),
            lambda: x.fill_(1),
            lambda: st.where(plain > 0, x, plain),
            lambda: st.nn.functional.one_hot(x.long()),
        ):
            with pytest.raises(RuntimeError, match="doesn't have storage"):
                call()


def test_data_of_a_wrapper_given_to_a_plain_tensor_is_refused_by_kernels() -> None:
    plain = st.ones(2)
    plain.data = wrapped(1, 2)
    with pytest.raises(RuntimeError, match="doesn't have storage"):
        _ = plain + 1
    with pytest.raises(RuntimeError, match="doesn't have storage"):
        plain.tolist()


# --- autograd ------------------------------------------------------------------------------------


def test_backward_goes_through_the_class() -> None:
    x = wrapped(1, 2, 3, grad=True)
    y = (x * x).sum()
    assert seen == ["aten.mul.Tensor", "aten.sum.default"]
    assert y.grad_fn is not None
    y.backward()
    assert type(x.grad) is Wrapper
    assert x.grad.inner.tolist() == [2, 4, 6]
    (x * 3).sum().backward()
    assert x.grad.inner.tolist() == [5, 7, 9]


def test_saved_results_and_double_backward() -> None:
    x = wrapped(0.5, 1, grad=True)
    y = x.exp().sum()
    (g,) = st.autograd.grad(y, x, create_graph=True)
    assert type(g) is Wrapper
    g.sum().backward()
    assert st.allclose(x.grad.inner, x.inner.exp())


def test_in_place_on_views_of_wrappers_is_recorded() -> None:
    leaf = Wrapper(st.ones(2, 2), True)
    x = leaf * 1
    x[0].mul_(3)
    x.sum().backward()
    assert leaf.grad.inner.tolist() == [[3, 3], [1, 1]]


def test_no_grad_detach_and_inference_mode() -> None:
    x = wrapped(1, grad=True)
    with st.no_grad():
        assert (x * 2).grad_fn is None
    assert not x.detach().requires_grad
    with st.inference_mode():
        y = Wrapper(st.ones(1))
        assert (y + 1).inner.tolist() == [2]
    assert x.requires_grad_(False) is x


def test_hooks_see_wrappers() -> None:
    x = wrapped(1, grad=True)
    got: list[type] = []
    x.register_hook(lambda g: got.append(type(g)))
    (x * 2).sum().backward()
    assert got == [Wrapper]


def test_wrapped_parameters_train() -> None:
    plain = st.nn.Linear(3, 2)
    layer = copy.deepcopy(plain)
    layer.weight = st.nn.Parameter(Wrapper(plain.weight.detach().clone()))
    layer.bias = st.nn.Parameter(Wrapper(plain.bias.detach().clone()))
    assert type(layer.weight) is Wrapper
    assert isinstance(layer.weight, st.nn.Parameter)
    x = st.randn(4, 3)
    for make in (
        lambda p: st.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: st.optim.Adam(p, lr=0.1),
        lambda p: st.optim.AdamW(p, lr=0.1),
        lambda p: st.optim.RMSprop(p),
        lambda p: st.optim.Adagrad(p),
    ):
        pairs = [(m, make(m.parameters())) for m in (plain, layer)]
        for _ in range(3):
            for module, optimizer in pairs:
                optimizer.zero_grad()
                module(x).square().sum().backward()
                optimizer.step()
    assert type(layer.weight) is Wrapper
    assert st.allclose(layer.weight.inner, plain.weight, atol=1e-5)
    assert st.allclose(layer.bias.inner, plain.bias, atol=1e-5)


def test_parameter_of_a_class_whose_detach_loses_it_is_refused() -> None:
    class Loses(Wrapper):
        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func(*tree_map(_unwrapped, args))

    with pytest.raises(RuntimeError, match="__torch_dispatch__"):
        st.nn.Parameter(Loses(st.ones(2)))


def test_vmap_and_grad_over_wrappers() -> None:
    x = Wrapper(st.arange(6.0).view(2, 3))
    out = st.func.vmap(lambda row: row.sin() + 1)(x)
    assert type(out) is Wrapper
    assert st.allclose(out.inner, x.inner.sin() + 1)
    gradient = st.func.grad(lambda t: (t * t).sum())(x)
    assert type(gradient) is Wrapper
    assert gradient.inner.tolist() == (2 * x.inner).tolist()


# --- failures, threads, memory -------------------------------------------------------------------


def test_exceptions_go_to_the_caller_and_leave_nothing() -> None:
    class Fails(Wrapper):
        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            raise KeyError("no rule")

    x = Fails(st.ones(2), True)
    watch = weakref.ref(x)
    calls: list[Callable[[Any], Any]] = [
        lambda t: t + 1,
        lambda t: st.cat([t]),
        lambda t: t.sum(),
        lambda t: t[:1].item(),
        lambda t: t[0],
    ]
    for call in calls:
        with pytest.raises(KeyError, match="no rule"):
            call(x)
    with pytest.raises(KeyError, match="no rule"), st.no_grad():
        x.add_(1)
    assert (wrapped(1) + 1).inner.tolist() == [2]
    y = st.ones(2, requires_grad=True)
    (y * 2).sum().backward()
    assert y.grad is not None
    del x
    gc.collect()
    assert watch() is None


def test_endless_recursion_is_an_error() -> None:
    class Loops(Wrapper):
        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func(*args, **(kwargs or {}))

    with pytest.raises(RecursionError):
        _ = Loops(st.ones(2)) + 1


def test_a_call_on_other_instances_asks_again() -> None:
    depth: list[int] = []

    class Outer(Wrapper):
        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            depth.append(1)
            return super().__torch_dispatch__(func, types, args, kwargs)

    x = Outer(Wrapper(st.ones(2)))
    y = x + 1
    assert type(y.inner) is Wrapper
    assert y.inner.inner.tolist() == [2, 2]
    assert len(depth) == 1
    assert seen == ["aten.add.Tensor"] * 2


def test_threads_have_their_own_calls() -> None:
    results: list[Any] = []

    def work() -> None:
        x = wrapped(1, 2, grad=True)
        for _ in range(20):
            (x * 2).sum().backward()
        results.append(x.grad.inner.tolist())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[40, 40]] * 4


def test_classes_and_tensors_end() -> None:
    class Short(Wrapper):
        pass

    x = Short(st.ones(2), True)
    y = (x * 2).sum()
    y.backward()
    watches = [weakref.ref(o) for o in (Short, x, y, x.grad)]
    del x, y, Short
    gc.collect()
    assert [watch() for watch in watches] == [None] * 4


# --- helpers -------------------------------------------------------------------------------------


def test_alias_info() -> None:
    info = get_alias_info(aten.add_.Tensor)
    assert info.args[0].is_write
    assert info.outs[0].is_write
    assert get_alias_info(aten.t.default).views == [(0, 0)]
    assert get_alias_info(aten.add.Tensor).views == []
    assert get_alias_info(aten.squeeze_.default).is_inplace_view_op


def test_traceable_wrappers() -> None:
    x = wrapped(1, 2)
    assert is_traceable_wrapper_subclass(x)
    assert is_traceable_wrapper_subclass_type(Wrapper)
    assert not is_traceable_wrapper_subclass(st.ones(1))
    assert not is_traceable_wrapper_subclass_type(Over)
    doubled = transform_subclass(x, lambda name, inner: inner * 2)
    assert doubled.inner.tolist() == [2, 4]
    with pytest.raises(AssertionError, match="shape"):
        transform_subclass(x, lambda name, inner: inner[:1])


def test_make_wrapper_subclass_refuses_what_it_does_not_know() -> None:
    make = st.Tensor._make_wrapper_subclass
    with pytest.raises(TypeError, match="subclass of Tensor"):
        make(int, (2,))
    with pytest.raises(TypeError, match="must define __torch_dispatch__"):
        make(st.Tensor, (2,))
    with pytest.raises(TypeError, match="dtype"):
        make(Wrapper, (2,), dtype="float")
    with pytest.raises(NotImplementedError, match="dispatch_sizes_strides_policy"):
        make(Wrapper, (2,), dispatch_sizes_strides_policy="sizes")
    with pytest.raises(RuntimeError):
        make(Wrapper, (-1,))
    with pytest.raises(RuntimeError, match="strides"):
        make(Wrapper, (2, 3), strides=(1,))
    with pytest.raises(RuntimeError, match="require gradients"):
        make(Wrapper, (2,), dtype=st.int64, requires_grad=True)
    with pytest.raises(RuntimeError):
        make(Wrapper, (2**62, 2**62))


def test_rules_of_a_class_for_single_operators() -> None:
    class Ruled(Wrapper):
        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return super().__torch_dispatch__(func, types, args, kwargs)

    lib = st.library.Library("aten", "FRAGMENT")

    def rule(cls: Any, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return cls(args[0].inner * 0)

    st.library.register_torch_dispatch(aten.sin.default, Ruled, rule, lib=lib)
    x = Ruled(st.ones(2))
    assert x.sin().inner.tolist() == [0, 0]
    assert x.cos().inner.tolist() == st.ones(2).cos().tolist()
    with pytest.raises(TypeError, match="neither"):
        st.library.register_torch_dispatch(aten.sin.default, st.Tensor, rule)


def test_calls_are_recorded_again_where_the_class_says_so() -> None:
    recorded: list[bool] = []

    class Both(Wrapper):
        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            leaf = st.ones(2, requires_grad=True)
            recorded.append((leaf * 2).requires_grad)
            with st.overrides.enable_reentrant_dispatch():
                recorded.append((leaf * 2).requires_grad)
            recorded.append((leaf * 2).requires_grad)
            return super().__torch_dispatch__(func, types, args, kwargs)

    _ = Both(st.ones(2)) + 1
    assert recorded == [False, True, False]
    assert (st.ones(1, requires_grad=True) * 2).requires_grad


def test_modes_of_the_thread() -> None:
    assert not is_in_torch_dispatch_mode()
    assert _get_current_dispatch_mode() is None
    with TorchDispatchMode() as outer, TorchDispatchMode() as inner:
        assert is_in_torch_dispatch_mode()
        assert _get_current_dispatch_mode() is inner
        assert _get_current_dispatch_mode_stack() == [outer, inner]
        with _disable_current_modes() as modes:
            assert modes == [outer, inner]
            assert (st.ones(1) + 1).item() == 2
        assert _get_current_dispatch_mode() is inner
