"""Every function that a class may be asked about hands over itself: the whole table is walked.

What the classes then do with it is in test_overrides.py.
"""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Iterator
from types import GetSetDescriptorType, ModuleType
from typing import Any

import pytest

import shmtensor as st
from shmtensor import Tensor, overrides

calls: list[tuple[Any, tuple[Any, ...], tuple[Any, ...], dict[str, Any]]] = []


@pytest.fixture(autouse=True)
def forget_calls() -> Iterator[None]:
    """Nothing outlives the test."""
    yield
    calls.clear()


class Duck:
    """No tensor at all. It stands for arguments of any kind."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        calls.append((func, tuple(types), tuple(args), dict(kwargs or {})))
        return 7


class Sub(Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        calls.append((func, tuple(types), tuple(args), dict(kwargs or {})))
        return 7


# Operators of Python, and old names, that stand for another method.
OTHER_NAMES = {
    **dict.fromkeys(["__add__", "__radd__"], "add"),
    **dict.fromkeys(["__mul__", "__rmul__"], "mul"),
    **dict.fromkeys(["__truediv__", "__div__"], "div"),
    "__sub__": "sub",
    "__isub__": "sub_",
    "__iadd__": "add_",
    "__imul__": "mul_",
    "__itruediv__": "div_",
    "__ifloordiv__": "floor_divide_",
    "__mod__": "remainder",
    "__imod__": "remainder_",
    "__matmul__": "matmul",
    "__rand__": "bitwise_and",
    "__ror__": "bitwise_or",
    "__rxor__": "bitwise_xor",
    **{f"__{name}__": name for name in ("ne", "lt", "le", "gt", "ge", "neg", "abs")},
    "__pos__": "positive",
    "ndimension": "dim",
    "nelement": "numel",
    "_grad": "grad",
    "_grad_fn": "grad_fn",
}
# Numbers before a matrix product are no operands, so that nobody is asked.
TAKES_A_DUCK = {"__rmatmul__", "__matmul__"}


def name_of(function: Any) -> str:
    owner = getattr(function, "__self__", None)
    return owner.__name__ if isinstance(owner, GetSetDescriptorType) else function.__name__


def expected_of(function: Any) -> Any:
    """What is to be handed over when *function* is called."""
    other = OTHER_NAMES.get(name_of(function))
    if other is None or not overrides.is_tensor_method_or_property(function):
        return function
    is_access = function.__name__ == "__get__"
    return getattr(Tensor, other).__get__ if is_access else getattr(Tensor, other)


TABLE = overrides.get_overridable_functions()
METHODS = TABLE[Tensor]
PROPERTIES = [f for space in TABLE if isinstance(space, GetSetDescriptorType) for f in TABLE[space]]
FUNCTIONS = {
    overrides.resolve_name(function): function
    for space, functions in TABLE.items()
    if isinstance(space, ModuleType)
    for function in functions
}


# What has to be given by name.
BY_NAME: dict[str, dict[str, Any]] = {
    "nonzero_static": {"size": 1},
    "linalg_solve_triangular": {"upper": True},
}


def call_until_asked(function: Any, first: list[Any]) -> None:
    """Call with more and more arguments until there are enough; objects may stand for any."""
    named = BY_NAME.get(name_of(function), {})
    for n in range(14):
        calls.clear()
        try:
            function(*first, *[Duck() for _ in range(n)], **named)
        except (RuntimeError, TypeError, ValueError):
            assert not calls
        if calls:
            return
    raise AssertionError(f"nobody was asked about {function}")


@pytest.mark.check
def test_the_table_is_not_small() -> None:
    assert len(FUNCTIONS) > 700
    assert len(METHODS) > 550
    assert len(PROPERTIES) > 40
    assert len(overrides.get_testing_overrides()) > 1300


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_hands_itself_over(name: str) -> None:
    function = FUNCTIONS[name]
    calls.clear()
    if function is st.einsum:
        function("i,i", Duck(), Duck())
    elif function is st.autograd.grad:
        function((Duck(),), (Duck(),))
    elif function is st.autograd.backward:
        function((Duck(),))
    else:
        call_until_asked(function, [])
    func, types, _, _ = calls[0]
    assert func is function
    assert types == (Duck,)


@pytest.mark.parametrize("method", METHODS, ids=name_of)
def test_method_hands_itself_over(method: Any) -> None:
    calls.clear()
    self = st.ones(2, 3).as_subclass(Sub)
    name = method.__name__
    if name.startswith("__r") and name not in ("__repr__", "__reversed__", "__reduce_ex__"):
        method(self, Duck() if name in TAKES_A_DUCK else 1)
    elif name == "__bool__":
        with pytest.raises(TypeError, match="should return bool, returned int"):
            method(self)
    else:
        call_until_asked(method, [self])
    func, types, args, _ = calls[0]
    assert func == expected_of(method)
    assert types[0] is Sub
    assert args[0] is self


@pytest.mark.parametrize("access", PROPERTIES, ids=name_of)
def test_property_hands_its_access_over(access: Any) -> None:
    calls.clear()
    self = st.ones(2).as_subclass(Sub)
    assert access(self) == 7
    assert [(func, types) for func, types, _, _ in calls] == [(expected_of(access), (Sub,))]
    assert calls[0][2] == (self,) or calls[0][2][0] is self


@pytest.mark.parametrize("name", ["grad", "data", "requires_grad", "real", "_backward_hooks"])
def test_setting_a_property_is_asked_about(name: str) -> None:
    calls.clear()
    self = st.ones(2).as_subclass(Sub)
    setattr(self, name, 1)
    func, types, args, kwargs = calls[0]
    assert func == getattr(Tensor, name).__set__
    assert types == (Sub,)
    assert args[0] is self
    assert args[1:] == (1,)
    assert kwargs == {}


@pytest.mark.check
def test_unbound_methods_ask_too() -> None:
    calls.clear()
    self = st.ones(2).as_subclass(Sub)
    assert Tensor.dim(self) == 7
    assert Tensor.size(self, dim=0) == 7
    assert calls[1][3] == {"dim": 0}
    assert Tensor.float(self) == 7
    assert Tensor.__len__(self) == 7


def test_stand_ins_have_the_signature() -> None:
    stand_ins = overrides.get_testing_overrides()
    relu = stand_ins[st.nn.functional.relu]
    assert list(inspect.signature(relu).parameters) == ["input", "inplace"]
    assert relu(1) == -1


def test_ignored_functions_are_in_no_table() -> None:
    ignored = overrides.get_ignored_functions()
    assert st.zeros in ignored
    assert not ignored & set(overrides.get_testing_overrides())


def test_names_lead_back_to_the_functions() -> None:
    for name, function in FUNCTIONS.items():
        found: Any = st
        for part in name.split(".")[1:]:
            found = getattr(found, part)
        assert found is function
    for method in METHODS:
        name = overrides.resolve_name(method)
        assert name is not None
        assert getattr(Tensor, name.removeprefix("shmtensor.Tensor.")) is method
    assert overrides.resolve_name(Tensor.grad.__set__) == "shmtensor.Tensor.grad.__set__"
    assert overrides.resolve_name(len) is None


# --- what is handed over with it -----------------------------------------------------------------


def test_python_functions_hand_defaults_over_by_name() -> None:
    calls.clear()
    duck = Duck()
    st.nn.functional.softmax(duck, 1)
    _, _, args, kwargs = calls[0]
    assert args == (duck,)
    assert kwargs == {"dim": 1, "_stacklevel": 3, "dtype": None}


def test_operators_hand_arguments_over_as_written() -> None:
    calls.clear()
    duck = Duck()
    st.add(duck, other=2)
    assert calls[0][2:] == ((duck,), {"other": 2})


def test_tensors_count_as_a_class_for_functions_in_python_only() -> None:
    calls.clear()
    weight = Duck()
    st.nn.functional.prelu(st.ones(2), weight)
    st.add(st.ones(2), weight)
    assert calls[0][1] == (Duck,)
    calls.clear()
    st.nn.functional.embedding(st.tensor([0]), weight)
    assert calls[0][1] == (Tensor, Duck)


def test_classes_are_in_the_order_of_the_parameters() -> None:
    calls.clear()
    sub, duck = st.ones(2).as_subclass(Sub), Duck()
    st.add(st.ones(2), out=duck, other=sub)
    assert calls[0][1] == (Sub, Duck)


def test_tensors_do_not_stand_for_numbers() -> None:
    calls.clear()
    sub = st.ones(2).as_subclass(Sub)
    with pytest.raises(TypeError, match=r"argument 'dim' \(position 2\) must be int, not Sub"):
        st.cumsum(st.ones(2), sub)
    assert calls == []


def test_engine_hands_tuples_over() -> None:
    calls.clear()
    sub = st.ones(2).as_subclass(Sub)
    st.autograd.grad(sub, [sub], allow_unused=True)
    func, types, args, kwargs = calls[0]
    assert func is st.autograd.grad
    assert types == (Sub,)
    assert [len(part) for part in args] == [1, 1]
    assert kwargs["allow_unused"] is True
    st.autograd.backward(sub)
    assert calls[1][0] is st.autograd.backward
    assert calls[1][3]["inputs"] is None
    st.autograd.backward(sub, inputs={"a": sub})
    assert calls[2][3]["inputs"] == (sub,)


def test_engine_takes_what_answers_for_one_tensor() -> None:
    class Several:
        @classmethod
        def __torch_function__(cls, *call: Any) -> Any:
            calls.append(call)
            return ("a gradient",)

        def __iter__(self) -> Any:
            return iter(["a", "b"])

    calls.clear()
    several = Several()
    st.autograd.grad(several, several, several)
    assert calls[0][2] == ((several,), (several,))
    assert calls[0][3]["grad_outputs"] is several
    st.autograd.backward(several)
    assert calls[1][2] == ((several,),)
    assert st.autograd.grad(several, {"a": several}) == {"a": "a gradient"}
    assert calls[2][2] == ((several,), (several,))


@pytest.mark.parametrize(
    ("key", "asks"), [(Duck(), True), ((0, Duck()), True), ([Duck()], True), ((0, 1), False)]
)
def test_index_may_answer(key: Any, asks: bool) -> None:
    calls.clear()
    t = st.ones(2, 3)
    t[key]
    t[key] = 1
    names = ["__getitem__", "__setitem__"] if asks else []
    assert [func.__name__ for func, *_ in calls] == names
    t[0] = Duck()
    assert calls[-1][0] is Tensor.__setitem__


def test_list_that_holds_itself_is_no_endless_index() -> None:
    key: list[Any] = []
    key.append(key)
    with pytest.raises((TypeError, IndexError, ValueError, RecursionError)):
        st.ones(2)[key]


@pytest.mark.parametrize(
    ("call", "name", "order"),
    [
        (lambda t, d: t + d, "add", "td"),
        (lambda t, d: d + t, "add", "td"),
        (lambda t, d: t - d, "sub", "td"),
        (lambda t, d: d - t, "__rsub__", "td"),
        (lambda t, d: d / t, "__rtruediv__", "td"),
        (lambda t, d: d**t, "__rpow__", "td"),
        (lambda t, d: t < d, "lt", "td"),
        (lambda t, d: d < t, "gt", "td"),
        (lambda t, d: t == d, "eq", "td"),
        (lambda t, d: t @ d, "matmul", "td"),
    ],
)
def test_operators_of_a_tensor_and_another_object(call: Any, name: str, order: str) -> None:
    calls.clear()
    t, duck = st.ones(2), Duck()
    assert call(t, duck) == 7
    func, _, args, _ = calls[0]
    assert func.__name__ == name
    assert args[0] is t
    assert args[1] is duck


def test_a_tensor_before_a_subclass_stays_first() -> None:
    calls.clear()
    t, sub = st.ones(2), st.ones(2).as_subclass(Sub)
    assert t - sub == 7
    func, types, args, _ = calls[0]
    assert func is Tensor.sub
    assert types == (Sub,)
    assert args[0] is t
    assert args[1] is sub


class Refuses:
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return NotImplemented


class RefusingTensor(Tensor):
    __torch_function__ = Refuses.__dict__["__torch_function__"]


def test_texts_when_nobody_answers() -> None:
    refusing = st.ones(2).as_subclass(RefusingTensor)
    with pytest.raises(TypeError, match=r"Multiple dispatch failed for 'torch\.add'; all .*"):
        st.add(Refuses(), 1)
    with pytest.raises(TypeError, match=r"failed for 'torch\.linalg\.linalg_det'"):
        st.linalg.det(Refuses())
    with pytest.raises(TypeError, match=r"failed for 'torch\.Tensor\.shape\.__get__'"):
        refusing.shape
    with pytest.raises(TypeError, match=r"failed for 'torch\.Tensor\.dim'"):
        refusing.dim()
    with pytest.raises(
        TypeError, match=r"no implementation found for 'torch\.nn\.functional\.relu' on types"
    ):
        st.nn.functional.relu(Refuses())
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \+: 'Refusing"):
        refusing + 1
    assert (refusing == 1) is False


# --- decorated functions are functions -----------------------------------------------------------


def test_decorated_function_looks_like_the_function() -> None:
    relu = st.nn.functional.relu
    assert inspect.isfunction(relu)
    assert inspect.signature(relu).parameters["inplace"].default is False
    assert relu.__name__ == "relu"
    assert relu.__doc__ is not None
    assert repr(relu).startswith("<function relu at")
    assert pickle.loads(pickle.dumps(relu)) is relu
    assert copy.deepcopy(relu) is relu


def test_decorated_function_says_what_it_misses() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'target'"):
        st.nn.functional.mse_loss(Duck())


def test_decorated_function_in_a_class_is_a_method() -> None:
    class Holder(Tensor):
        activate = st.nn.functional.relu

    assert st.tensor([-1.0]).as_subclass(Holder).activate().tolist() == [0.0]


# --- parameters of subclasses --------------------------------------------------------------------


class Kept(Tensor):
    pass


def test_parameter_of_a_subclass_keeps_the_class() -> None:
    data = st.ones(2).as_subclass(Kept)
    parameter = st.nn.Parameter(data)
    assert type(parameter) is Kept
    assert isinstance(parameter, st.nn.Parameter)
    assert not isinstance(parameter, st.nn.Buffer)
    assert parameter.requires_grad
    assert parameter.data_ptr() == data.data_ptr()
    assert repr(parameter) == "Parameter(Kept([1., 1.], requires_grad=True))"
    module = st.nn.Module()
    module.weight = parameter
    module.state = st.nn.Buffer(data)
    assert [type(p) for p in module.parameters()] == [Kept]
    assert [type(b) for b in module.buffers()] == [Kept]


def test_parameter_of_a_class_that_does_not_keep_itself() -> None:
    class Loses(Tensor):
        __torch_function__ = st._C._disabled_torch_function_impl

    with pytest.raises(RuntimeError, match="type Loses requires that detach"):
        st.nn.Parameter(st.ones(2).as_subclass(Loses))
