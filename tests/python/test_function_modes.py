"""`TorchFunctionMode`: what it sees, nesting, and that nothing of it stays."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import shmtensor as T
from shmtensor import overrides
from shmtensor.overrides import (
    BaseTorchFunctionMode,
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    TorchFunctionMode,
    resolve_name,
)


class Names(TorchFunctionMode):
    """Notes the names of what is called."""

    def __init__(self, seen: list[Any], mark: str = "") -> None:
        self.seen = seen
        self.mark = mark

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = resolve_name(func)
        assert name is not None
        self.seen.append(self.mark + name.removeprefix("shmtensor."))
        return func(*args, **(kwargs or {}))


x = T.ones(2, requires_grad=True)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("x + 1", "Tensor.add"),
        ("1 - x", "Tensor.__rsub__"),
        ("x == x", "Tensor.__eq__"),
        ("x.sum()", "Tensor.sum"),
        ("T.add(x, x)", "add"),
        ("T.stack([x, x])", "stack"),
        ("x.shape", "Tensor.shape.__get__"),
        ("x.T", "Tensor.T.__get__"),
        ("x.grad", "Tensor.grad.__get__"),
        ("x[0]", "Tensor.__getitem__"),
        ("len(x)", "Tensor.__len__"),
        ("x.size()", "Tensor.size"),
        ("T.zeros(2)", "zeros"),
        ("T.arange(3)", "arange"),
        ("T.tensor([1.0])", "tensor"),
        ("T.nn.functional.linear(x, x)", "nn.functional.linear"),
        ("T.nn.functional.relu(x)", "nn.functional.relu"),
        ("T.is_tensor(x)", None),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_it_sees_functions_methods_operators_and_properties(
    expression: str, expected: str | None
) -> None:
    seen: list[Any] = []
    with Names(seen):
        eval(expression)
    assert seen == ([] if expected is None else [expected])


@pytest.mark.check
def test_a_mode_changes_no_class() -> None:
    before = dict(vars(T.Tensor))
    shape = T.Tensor.shape.__get__
    with Names([]), Names([]):
        assert dict(vars(T.Tensor)) == before
        assert T.Tensor.shape.__get__ == shape
    assert type(T.tensor).__name__ == "builtin_function_or_method"
    assert overrides._get_current_function_mode() is None


def test_any_number_of_modes_nests() -> None:
    seen: list[Any] = []
    modes = [Names(seen, f"{i} ") for i in range(300)]
    for mode in modes:
        mode.__enter__()
    T.add(x, x)
    for mode in reversed(modes):
        mode.__exit__(None, None, None)
    assert seen == [f"{i} add" for i in reversed(range(300))]


def test_modes_nest_from_the_inside() -> None:
    seen: list[Any] = []
    with Names(seen, "outer ") as outer, Names(seen, "inner ") as inner:
        assert overrides._get_current_function_mode_stack() == [outer, inner]
        T.add(x, x)
        x.shape
    assert seen == [
        "inner add",
        "outer add",
        "inner Tensor.shape.__get__",
        "outer Tensor.shape.__get__",
    ]


def test_its_answer_is_the_call_s() -> None:
    class Always(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return 7

    with Always():
        assert (T.add(x, x), x + 1, x.shape, T.zeros(3)) == (7, 7, 7, 7)


def test_an_answer_may_be_refused() -> None:
    class Never(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return NotImplemented

    with Never(), pytest.raises(TypeError):
        T.add(x, x)
    with pytest.raises(NotImplementedError), TorchFunctionMode():
        T.add(x, x)


def test_classes_are_asked_after_modes() -> None:
    class Noting(T.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append("class")
            return super().__torch_function__(func, types, args, kwargs or {})

    seen: list[Any] = []
    value = T.ones(2).as_subclass(Noting)
    with Names(seen):
        result = T.add(value, value)
    assert seen == ["add", "class"]
    assert type(result) is Noting


@pytest.mark.check
def test_it_belongs_to_the_thread() -> None:
    seen: list[Any] = []
    with Names(seen):
        thread = threading.Thread(target=lambda: (x + 1, T.add(x, x)))
        thread.start()
        thread.join()
    assert seen == []


def test_modes_can_be_off() -> None:
    seen: list[Any] = []
    with Names(seen):
        with DisableTorchFunction():
            x + 1
            T.add(x, x)
        assert seen == []
        with DisableTorchFunctionSubclass():
            T.add(x, x)
    assert seen == ["add"]


def test_an_error_ends_a_mode() -> None:
    with pytest.raises(ZeroDivisionError), Names([]):
        raise ZeroDivisionError
    assert overrides._get_current_function_mode() is None


def test_the_base_mode_lets_everything_go_on() -> None:
    leaf = T.ones(2, requires_grad=True)
    with BaseTorchFunctionMode():
        assert T.equal(T.add(leaf, leaf), leaf.detach() * 2)
        T.nn.Linear(2, 2)(leaf).sum().backward()
    assert leaf.grad is not None


def test_lists_of_functions() -> None:
    functions = overrides.get_overridable_functions()
    assert T.add in functions[T]
    assert T.Tensor.add in functions[T.Tensor]
    assert T.Tensor.shape in functions
    stand_ins = overrides.get_testing_overrides()
    assert stand_ins[T.add](1, 2) == -1
    ignored = overrides.get_ignored_functions()
    assert T.is_tensor in ignored
    assert T.Tensor.as_subclass in ignored
    assert T.add not in ignored
    assert not ignored & set(functions[T])


def test_plain_calls_from_within_an_answer() -> None:
    class Doubled(T.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return overrides.redispatch_function(func, types, args, kwargs) * 2

    assert T.add(T.ones(2).as_subclass(Doubled), 1).tolist() == [4, 4]
