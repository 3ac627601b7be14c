"""``__torch_function__``: subclasses and other objects that answer calls themselves."""

from __future__ import annotations

from typing import Any

import pytest

import shmtensor as st
from shmtensor import Tensor
from shmtensor.overrides import (
    DisableTorchFunctionSubclass,
    handle_torch_function,
    has_torch_function,
    is_tensor_like,
    is_tensor_method_or_property,
    resolve_name,
    wrap_torch_function,
)


class Logged(Tensor):
    calls: list[str] = []  # noqa: RUF012

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})

    def own(self) -> str:
        return "own"


class Child(Logged):
    pass


class Duck:
    """No tensor at all."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func, types, args, kwargs


class Shy:
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return NotImplemented


def logged() -> Logged:
    """A fresh object; a fixture would outlive the module's check of what is left."""
    made = st.tensor([1.0, 2.0]).as_subclass(Logged)
    Logged.calls.clear()
    return made


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: x + 1, "add"),
        (lambda x: 1 + x, "add"),
        (lambda x: 1 - x, "__rsub__"),
        (lambda x: x * x, "mul"),
        (lambda x: -x, "neg"),
        (lambda x: x == x, "__eq__"),
        (lambda x: x[0], "__getitem__"),
        (lambda x: x.sum(), "sum"),
        (lambda x: x.reshape(2, 1), "reshape"),
        (lambda x: st.add(x, 1), "add"),
        (lambda x: st.cat([x, x]), "cat"),
        (lambda x: st.mul(st.ones(2), x), "mul"),
        (lambda x: st.ones(2) * x, "mul"),
        (lambda x: st.nn.functional.relu(x), "relu"),
    ],
)
def test_calls_are_seen_and_keep_the_class(call: Any, name: str) -> None:
    x = logged()
    result = call(x)
    assert type(result) is Logged
    assert Logged.calls == [name]


@pytest.mark.check
def test_properties_are_seen() -> None:
    x = logged()
    assert x.shape == (2,)
    x.requires_grad = True
    assert x.requires_grad
    assert Logged.calls == ["__get__", "__set__", "__get__"]


def test_in_place_returns_the_object() -> None:
    x = logged()
    y = x
    y += 1
    assert y is x
    assert y.add_(1) is x
    assert x.tolist() == [3, 4]
    assert Logged.calls == ["add_", "add_", "tolist"]


def test_named_results_keep_their_fields() -> None:
    x = logged()
    result = st.max(x, 0)
    assert type(result.values) is Logged
    assert result.indices.item() == 1


def test_methods_of_the_class_itself_are_not_asked_about() -> None:
    x = logged()
    assert x.own() == "own"
    assert Logged.calls == []


def test_the_most_derived_class_is_asked_first() -> None:
    x = logged()
    child = st.ones(2).as_subclass(Child)
    Logged.calls.clear()
    assert type(x + child) is Child
    assert type(st.add(x, child)) is Child
    assert Logged.calls == ["add", "add"]


def _class_that_declines(calls: list[type]) -> type[Tensor]:
    class Declining(Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            calls.append(cls)
            if isinstance(args[0], list):
                args[0].clear()  # the tensors of the other classes may be gone from here on
            return NotImplemented

    return Declining


@pytest.mark.parametrize("n", [15, 16, 17, 63, 64, 65, 200])
def test_any_number_of_classes_is_asked(n: int) -> None:
    calls: list[type] = []
    classes = [_class_that_declines(calls) for _ in range(n)]
    with pytest.raises(TypeError, match="Multiple dispatch failed"):
        st.stack([st.ones(1).as_subclass(cls) for cls in classes])
    assert calls == classes


def test_disabled_region_gives_plain_tensors() -> None:
    x = logged()
    with DisableTorchFunctionSubclass():
        assert type(x + 1) is Tensor
        assert type(st.add(x, 1)) is Tensor
        assert x.shape == (2,)
    assert Logged.calls == []


def test_subclass_without_the_protocol_keeps_its_class() -> None:
    class Plain(Tensor):
        pass

    y = st.ones(2).as_subclass(Plain)
    assert type(y + 1) is Plain
    assert type(st.add(y, 1)) is Plain
    assert not has_torch_function([y])


@pytest.mark.check
def test_parameters_answer_nothing() -> None:
    p = st.nn.Parameter(st.ones(2))
    assert not has_torch_function([p])
    assert type(p + 1) is Tensor


def test_objects_that_are_no_tensors_answer() -> None:
    duck = Duck()
    func, types, args, kwargs = st.add(duck, 1, alpha=2)
    assert func is st.add
    assert types == (Duck,)
    assert args == (duck, 1)
    assert kwargs == {"alpha": 2}
    assert st.cat([duck, st.ones(1)])[0] is st.cat
    func, _, args, _ = st.ones(1).add(duck)
    assert func is Tensor.add
    assert args[1] is duck


def test_nobody_answering_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="all __torch_function__ handlers returned NotImplemented"):
        st.add(Shy(), 1)
    with pytest.raises(TypeError, match="must be Tensor, not object"):
        st.add(object(), 1)


def test_errors_of_an_answer_come_through() -> None:
    x = logged()
    with pytest.raises(RuntimeError, match="size"):
        st.add(x, st.ones(3))


def test_functions_of_users_can_ask() -> None:
    @wrap_torch_function(lambda a, b: (a, b))
    def twice(a: Any, b: Any) -> str:
        return "plain"

    duck = Duck()
    assert twice(1, 2) == "plain"
    assert twice(1, duck)[2] == (1, duck)
    assert handle_torch_function(twice, (duck,), duck)[0] is twice
    with pytest.raises(TypeError, match="no implementation found"):
        handle_torch_function(twice, (Shy(),), 1)


def test_names() -> None:
    assert is_tensor_like(Duck())
    assert not is_tensor_like(1)
    assert is_tensor_method_or_property(Tensor.add)
    assert is_tensor_method_or_property(Tensor.shape.__get__)
    assert not is_tensor_method_or_property(st.add)
    assert resolve_name(Tensor.add) == "shmtensor.Tensor.add"
    assert resolve_name(Tensor.shape.__get__) == "shmtensor.Tensor.shape.__get__"


def test_autograd_goes_through() -> None:
    leaf = st.tensor([2.0], requires_grad=True)
    y = (leaf.as_subclass(Logged) * 3).sum()
    y.backward()
    assert leaf.grad.item() == 3


def test_class_may_answer_by_the_disabled_implementation() -> None:
    class Plain(Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
        ) -> Any:
            return st._C._disabled_torch_function_impl(func, types, args, kwargs or {})

    a = st.ones(2).as_subclass(Plain)
    for result in (a + a, st.add(a, a), a.mul(2)):
        assert type(result) is Tensor
        assert result.tolist() == [2.0, 2.0]
    assert type(a.copy_(a)) is Plain
