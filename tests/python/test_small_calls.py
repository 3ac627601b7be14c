"""Calls that do hardly any work: what they go through, and that each way of calling is the same.

How long they take is in benchmarks/bench_call.py. Calls and attributes of modules are in
tests/nn/test_module_calls.py, the rules of ``__torch_function__`` in test_overrides.py.
"""

from __future__ import annotations

import copy
import gc
import pickle
import sys
from collections.abc import Callable
from typing import Any

import pytest
from python_calls import python_functions_in

import shmtensor as T
from shmtensor.overrides import TorchFunctionMode

# --- tensors alone ------------------------------------------------------------------------------

_ALONE: dict[str, dict[str, Any]] = {
    "contiguous": {"memory_format": T.contiguous_format},
    "clone": {"memory_format": None},
    "sum": {"dtype": None},
    "mean": {"dtype": None},
    "argmax": {"dim": None, "keepdim": False},
    "std": {"dim": None, "correction": 1},
    "t": {},
    "detach": {},
    "round": {"decimals": 0},
    "nan_to_num": {"nan": None, "posinf": None, "neginf": None},
    "squeeze": {},
    "abs_": {},
    "zero_": {},
}


@pytest.mark.check
@pytest.mark.parametrize("name", _ALONE)
def test_a_call_with_one_tensor_alone_has_the_defaults(name: str) -> None:
    alone, spelled = T.tensor([[1.5, -2.5], [3.0, 4.0]]), T.tensor([[1.5, -2.5], [3.0, 4.0]])
    by_default, by_name = getattr(alone, name)(), getattr(spelled, name)(**_ALONE[name])
    assert T.equal(by_default, by_name)
    assert by_default.dtype is by_name.dtype and by_default.stride() == by_name.stride()
    if hasattr(T, name):
        assert T.equal(getattr(T, name)(alone), getattr(T, name)(input=alone))


_PAIRS: dict[str, dict[str, Any]] = {
    "add": {"alpha": 1},
    "sub": {"alpha": 1},
    "mul": {},
    "div": {"rounding_mode": None},
    "pow": {},
    "atan2": {},
    "maximum": {},
    "matmul": {},
    "lt": {},
    "add_": {"alpha": 1},
    "div_": {"rounding_mode": None},
    "addcmul_": {"value": 1},
    "where": {},
}
#: What the last tensor is called, where it is not "other".
_LAST = {"pow": "exponent", "addcmul_": "tensor2"}


@pytest.mark.parametrize("name", _PAIRS)
def test_a_call_with_several_tensors_alone_has_the_defaults(name: str) -> None:
    def tensors() -> list[T.Tensor]:
        first = T.tensor([[1.5, 2.5], [3.0, 4.0]])
        if name == "where":
            return [first, first > 2, -first]
        return [first, first + 1, first * 2] if name == "addcmul_" else [first, first + 1]

    alone, spelled = tensors(), tensors()
    by_default = getattr(alone[0], name)(*alone[1:])
    last = {_LAST.get(name, "other"): spelled[-1]}
    by_name = getattr(spelled[0], name)(*spelled[1:-1], **_PAIRS[name], **last)
    assert T.equal(by_default, by_name) and by_default.dtype is by_name.dtype
    assert (by_default is alone[0]) is name.endswith("_")


def test_functions_and_methods_have_their_own_order() -> None:
    x = T.tensor([1.0, -1.0])
    assert T.where(x > 0, x, x * 5).tolist() == x.where(x > 0, x * 5).tolist() == [1.0, -5.0]


def test_tensors_of_several_devices_are_refused_or_mixed_as_ever() -> None:
    x, meta = T.ones(2), T.ones(2, device="meta")
    with pytest.raises(RuntimeError, match="same device"):
        x.add(meta)
    assert meta.add(T.tensor(1.0)).is_meta
    assert T.empty_like(meta).copy_(x).is_meta


def test_a_number_may_stand_for_a_tensor_as_ever() -> None:
    x = T.tensor([1.0, 2.0])
    assert x.add(1).tolist() == [2.0, 3.0] and x.pow(2).tolist() == [1.0, 4.0]
    assert x.max(T.tensor([3.0, 0.0])).tolist() == [3.0, 2.0]
    assert x.max(0).values.item() == 2.0 and x.max().item() == 2.0
    assert x.add(T.tensor(1)).dtype is T.float32


def test_what_returns_its_argument_returns_the_same_object() -> None:
    x = T.ones(2)
    assert x.contiguous() is x and x.abs_() is x and x.zero_() is x
    assert T.relu_(x) is x


def test_calls_with_one_tensor_alone_are_recorded() -> None:
    x = T.tensor([1.0, -2.0], requires_grad=True)
    y = x.abs().sum()
    assert y.grad_fn is not None and y.grad_fn.name() == "SumBackward0"
    y.backward()
    assert x.grad is not None and x.grad.tolist() == [1.0, -1.0]
    assert x.detach().grad_fn is None and x.detach()._version == x._version


def test_a_call_with_one_tensor_alone_still_needs_its_arguments() -> None:
    x = T.ones(2)
    with pytest.raises(TypeError, match=r"cumsum\(\)"):
        x.cumsum()
    with pytest.raises(TypeError, match=r"contiguous\(\)"):
        x.contiguous(1)
    with pytest.raises(TypeError, match=r"detach\(\)"):
        T.detach()
    with pytest.raises(RuntimeError, match="Long"):
        T.ones(2, dtype=T.int64).mean()


_ANSWERED = ("detach", "relu", "add")


def test_modes_and_classes_answer_calls_with_tensors_alone() -> None:
    asked: list[str] = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            asked.append(func.__name__)
            return func(*args, **(kwargs or {}))

    class Own(T.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            asked.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs)

    with Mode():
        T.ones(2).detach()
        T.relu(T.ones(2))
        T.ones(2).add(T.ones(2))
    assert [name for name in asked if name != "ones"] == ["detach", "relu", "add"]
    asked.clear()
    x = T.ones(2).as_subclass(Own)
    assert type(x.detach()) is Own and type(T.relu(x)) is Own
    assert type(T.ones(2).add(x)) is Own
    assert [name for name in asked if name in _ANSWERED] == ["detach", "relu", "add"]


def test_vmap_sees_calls_with_one_tensor_alone() -> None:
    x = T.arange(6.0).view(2, 3)
    assert T.equal(T.func.vmap(lambda row: row.sum())(x), x.sum(1))
    assert T.equal(T.func.vmap(lambda row: row.contiguous().neg())(x), -x)


# --- sizes --------------------------------------------------------------------------------------


def test_sizes_that_follow_one_another_are_values_of_their_own() -> None:
    kept = [T.ones(*range(1, n + 1)).shape for n in range(1, 8)]
    for _ in range(100):  # more than are kept for the next
        _ = [T.ones(2, 3).shape for _ in range(50)]
    assert [tuple(size) for size in kept] == [tuple(range(1, n + 1)) for n in range(1, 8)]
    assert [hash(size) for size in kept] == [hash(tuple(size)) for size in kept]
    big = T.empty(12345, 0, 67890).shape  # of numbers that Python does not keep
    del kept
    gc.collect()
    assert big == (12345, 0, 67890) and isinstance(big, T.Size)
    assert T.ones(()).shape == () and T.ones(()).shape.numel() == 1


def test_sizes_are_copied_and_derived_from() -> None:
    size = T.ones(2, 3).shape
    assert pickle.loads(pickle.dumps(size)) == size and type(copy.deepcopy(size)) is T.Size

    class Named(T.Size):
        note = "mine"

    for _ in range(50):
        named = Named(size)
        named.extra = [named]  # a cycle, which the collector ends
        assert named == (2, 3) and named.numel() == 6
        del named
    gc.collect()
    assert T.ones(2, 3).shape == (2, 3)


def test_references_of_sizes_are_given_back() -> None:
    def references() -> int:
        return sys.getrefcount(T.Size)

    for n in (0, 1, 5, 6):
        x = T.ones([1] * n)
        _ = [x.shape for _ in range(100)]
        before = references()
        for _ in range(1000):
            _ = x.shape
        assert references() <= before + 1


# --- switches of recording ----------------------------------------------------------------------

_SWITCHES = {
    "no_grad": (T.no_grad, False),
    "enable_grad": (T.enable_grad, True),
    "set_grad_enabled": (lambda: T.set_grad_enabled(False), False),
    "inference_mode": (T.inference_mode, False),
}


@pytest.mark.parametrize("name", _SWITCHES)
def test_a_switch_calls_no_function_of_python(name: str) -> None:
    make, _ = _SWITCHES[name]

    def switched() -> None:
        with make():
            pass

    with T.set_grad_enabled(True):
        seen = python_functions_in(switched)
    assert [each for each in seen if each != "<lambda>"] == []


@pytest.mark.parametrize("name", _SWITCHES)
@pytest.mark.parametrize("before", [False, True])
def test_a_switch_ends_as_it_began(name: str, before: bool) -> None:
    make, inside = _SWITCHES[name]
    with T.enable_grad() if before else T.no_grad():
        seen = []

        def fail_inside() -> None:
            with make():
                seen.append(T.is_grad_enabled())
                raise KeyError

        with pytest.raises(KeyError):
            fail_inside()
        assert seen == [inside]
        assert T.is_grad_enabled() is before
        assert not T.is_inference_mode_enabled()


def test_switches_may_be_made_once_and_used_often() -> None:
    off = T.no_grad()
    for _ in range(2):
        with off:
            assert not T.is_grad_enabled()
        assert T.is_grad_enabled()
    with off as value:
        assert value is None
    assert T.set_grad_enabled(True).mode is True and T.inference_mode(False).mode is False


def pickled(o: Any) -> Any:
    return pickle.loads(pickle.dumps(o))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
def test_switches_are_copied_with_what_they_switch_to(copied: Callable[[Any], Any]) -> None:
    mine = T.no_grad()
    mine.note = "mine"
    assert copied(mine).note == "mine"
    with copied(mine):
        assert not T.is_grad_enabled()
    inference = copied(T.inference_mode(False))
    assert inference.mode is False
    with inference:
        assert T.is_grad_enabled() and not T.is_inference_mode_enabled()
    setter = T.set_grad_enabled(True)
    assert copied(setter).mode is True


def test_switches_decorate() -> None:
    @T.no_grad
    def bare() -> bool:
        return T.is_grad_enabled()

    @T.no_grad()
    def called() -> bool:
        return T.is_grad_enabled()

    @T.inference_mode
    def inference() -> bool:
        return T.is_inference_mode_enabled()

    @T.inference_mode(mode=False)
    def no_inference() -> bool:
        return T.is_inference_mode_enabled()

    @T.set_grad_enabled(False)
    def setter() -> bool:
        return T.is_grad_enabled()

    assert T.is_grad_enabled()
    assert (bare(), called(), setter()) == (False, False, False)
    assert (inference(), no_inference()) == (True, False)
    assert bare.__name__ == "bare" and not isinstance(bare, T.no_grad)


def test_classes_derived_from_switches_keep_their_mode() -> None:
    class Quiet(T.no_grad):
        def __init__(self) -> None:
            self.entered = 0

        def __enter__(self) -> None:
            super().__enter__()
            self.entered += 1

    quiet = Quiet()
    with quiet:
        assert not T.is_grad_enabled()
    assert quiet.entered == 1 and T.is_grad_enabled()
    with pytest.raises(TypeError):
        T._C._GradToggle()
    with pytest.raises(TypeError):
        T.no_grad(1, 2)
    with pytest.raises(TypeError, match="mode"):
        T.set_grad_enabled()
