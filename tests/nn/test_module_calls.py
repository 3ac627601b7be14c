"""Calls and attributes of modules: what they go through, and whom they ask.

Hooks are in test_forward_hooks.py and test_backward_hooks.py, traces in tests/fx.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import pytest
from python_calls import python_functions_in

import shmtensor as T
from shmtensor import fx, nn


class Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(T.tensor(2.0))
        self.register_buffer("shift", T.tensor(1.0))
        self.inner = nn.Identity()

    def forward(self, x: Any, *, twice: bool = False) -> Any:
        y = self.inner(x) * self.factor + self.shift
        return y * 2 if twice else y


# --- what is in the way -------------------------------------------------------------------------


@pytest.mark.check
def test_a_call_of_a_module_calls_forward_alone() -> None:
    scale, x = Scale(), T.ones(1)
    scale(x)
    assert python_functions_in(lambda: scale(x)) == ["forward", "forward"]
    layers = nn.Sequential(nn.Identity(), nn.Identity())
    layers(x)
    assert python_functions_in(lambda: layers(x)) == ["forward"] * 3


def test_parameters_are_found_without_a_function_of_python() -> None:
    scale = Scale()
    scale(T.ones(1))
    assert python_functions_in(lambda: (scale.factor, scale.shift, scale.inner)) == []


# --- calls --------------------------------------------------------------------------------------


def test_arguments_reach_forward_as_they_were_given() -> None:
    scale = Scale()
    assert scale(T.ones(1)).tolist() == [3.0]
    assert scale(x=T.ones(1)).tolist() == [3.0]
    assert scale(T.ones(1), twice=True).tolist() == [6.0]
    assert nn.Module.__call__(scale, T.ones(1), twice=True).tolist() == [6.0]
    with pytest.raises(TypeError, match="forward"):
        scale()
    with pytest.raises(TypeError, match="Module"):
        nn.Module.__call__(3, T.ones(1))
    assert str(inspect.signature(scale)) == "(*args, **kwargs)"


def test_forward_may_be_set_on_a_module_and_on_its_class() -> None:
    scale = Scale()
    assert scale(T.ones(1)).tolist() == [3.0]
    scale.forward = lambda x: x
    assert scale(T.ones(1)).tolist() == [1.0]
    del scale.forward
    assert scale(T.ones(1)).tolist() == [3.0]

    class Other(Scale):
        pass

    other = Other()
    assert other(T.ones(1)).tolist() == [3.0]
    Other.forward = lambda self, x: self.factor
    assert float(other(None)) == 2.0


def test_hooks_of_any_kind_are_seen_however_they_came() -> None:
    scale, seen = Scale(), []
    scale(T.ones(1))
    scale._forward_hooks[0] = lambda *args: seen.append("own")
    scale(T.ones(1))
    scale._forward_hooks = OrderedDict()
    scale(T.ones(1))
    assert seen == ["own"]
    handle = nn.modules.module.register_module_forward_hook(lambda *args: seen.append("all"))
    try:
        scale(T.ones(1), twice=True)
    finally:
        handle.remove()
    scale(T.ones(1))
    assert seen == ["own", "all", "all"]  # of the module and of the one inside


def test_a_module_that_was_not_set_up_says_so() -> None:
    class Bare(nn.Module):
        def __init__(self) -> None:
            pass

        def forward(self, x: Any) -> Any:
            return x

    with pytest.raises(AttributeError, match="'Bare' object has no attribute '_forward_hooks'"):
        Bare()(T.ones(1))
    with pytest.raises(NotImplementedError, match="missing the required"):
        nn.Module()(T.ones(1))


def test_calls_may_be_overridden_and_replaced() -> None:
    class Loud(Scale):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return "loud", super().__call__(*args, **kwargs)

    assert Loud()(T.ones(1))[0] == "loud"
    plain, scale = nn.Module.__call__, Scale()
    nn.Module.__call__ = lambda self, *args: "replaced"
    try:
        assert scale(T.ones(1)) == "replaced"
    finally:
        nn.Module.__call__ = plain
    assert scale(T.ones(1)).tolist() == [3.0]


# --- attributes ---------------------------------------------------------------------------------


def called_scale() -> Scale:
    """One of a class of its own, whose modules were called before."""

    class Own(Scale):
        pass

    scale = Own()
    scale(T.ones(1))
    return scale


def test_missing_attributes_are_named() -> None:
    scale = called_scale()
    with pytest.raises(AttributeError, match=r"^'Own' object has no attribute 'nothing'$"):
        _ = scale.nothing
    assert not hasattr(scale, "nothing") and getattr(scale, "nothing", 3) == 3
    scale.factor = None
    assert scale.factor is None and hasattr(scale, "factor")
    del scale.factor
    assert not hasattr(scale, "factor")


def test_a_method_for_missing_attributes_of_a_class_is_asked_from_when_it_is_there() -> None:
    scale = called_scale()
    cls = type(scale)
    cls.__getattr__ = lambda self, name: (name, super(cls, self).__getattr__("factor"))
    assert scale.shift == ("shift", scale._parameters["factor"])
    scale.forward = lambda x: x
    scale(None)  # does not undo it
    assert scale.shift[0] == "shift"
    del cls.__getattr__
    assert float(scale.shift) == 1.0
    scale(None)
    assert float(scale.shift) == 1.0


def test_a_method_for_all_attributes_of_a_class_is_asked() -> None:
    asked = []

    class Asked(Scale):
        def __getattribute__(self, name: str) -> Any:
            asked.append(name)
            return super().__getattribute__(name)

    module = Asked()
    module(T.ones(1))
    asked.clear()
    module(T.ones(1))
    assert {"_forward_hooks", "forward", "factor"} <= set(asked)


def test_registries_of_other_classes_are_asked() -> None:
    class Lazily(OrderedDict):
        def __getitem__(self, key: str) -> Any:
            return f"lazily {key}"

    scale = called_scale()
    scale._parameters = Lazily(scale._parameters)
    assert scale.factor == "lazily factor"
    assert float(scale.shift) == 1.0


def test_properties_come_before_what_is_registered() -> None:
    class Hidden(Scale):
        @property
        def factor(self) -> Any:
            if "original" in self.__dict__:
                return "property"
            raise AttributeError("no original")

        @factor.setter
        def factor(self, value: Any) -> None:
            self._parameters["factor"] = value

    hidden = Hidden()
    hidden._parameters["factor"] = T.tensor(2.0)
    assert float(hidden.factor) == 2.0  # as for any class with a __getattr__
    hidden(T.ones(1))
    assert float(hidden.factor) == 2.0
    hidden.__dict__["original"] = True
    assert hidden.factor == "property"

    class Broken(Scale):
        @property
        def bad(self) -> Any:
            raise ValueError("bad")

    broken = Broken()
    broken(T.ones(1))
    with pytest.raises(ValueError, match="bad"):
        _ = broken.bad


def test_attributes_are_found_during_a_trace_and_after_it() -> None:
    scale = called_scale()
    traced = fx.symbolic_trace(scale, concrete_args={"twice": False})
    assert {"factor", "shift"} <= {node.target for node in traced.graph.nodes}
    for _ in range(2):
        assert traced(T.ones(1)).tolist() == [3.0]
        assert scale(T.ones(1)).tolist() == [3.0]
        assert python_functions_in(lambda: (scale.factor, scale.inner)) == []


def test_bases_may_change() -> None:
    class Extra(nn.Module):
        def __getattr__(self, name: str) -> Any:
            return "extra" if name == "surplus" else super().__getattr__(name)

    scale = called_scale()
    type(scale).__bases__ = (Extra, Scale)
    assert scale.surplus == "extra"
    scale(T.ones(1))
    assert scale.surplus == "extra" and float(scale.factor) == 2.0


@pytest.fixture(autouse=True)
def module_is_as_it_was() -> Iterator[None]:
    before = nn.Module.__call__, nn.Module.__getattr__
    yield
    assert (nn.Module.__call__, nn.Module.__getattr__) == before
