"""Calls of modules with other parameters (`nn.utils.stateless`)."""

from __future__ import annotations

from typing import Any

import pytest
from same_as_torch import differences

import shmtensor as T
from shmtensor import nn
from shmtensor.nn.utils.stateless import _functional_call, functional_call


def linear(m: Any) -> Any:
    layer = m.nn.Linear(4, 3)
    with m.no_grad():
        layer.weight.copy_(m.arange(12.0).view(3, 4))
        layer.bias.copy_(m.tensor([0.5, -0.25, 0.125]))
    return layer


def tied(m: Any) -> Any:
    class Tied(m.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first = m.nn.Parameter(m.ones([]))
            self.second = self.first
            self.register_buffer("buffer", m.ones([]))

        def forward(self, x: Any) -> Any:
            return self.first * x + self.second + self.buffer

    return Tied()


EXPRESSIONS = """
m.nn.utils.stateless.functional_call(linear(m), {'weight': m.ones(3, 4)}, m.ones(1, 4))
m.nn.utils.stateless.functional_call(linear(m), {'nope': m.ones(3, 4)}, m.ones(1, 4))
m.nn.utils.stateless.functional_call(linear(m), {'nope': m.ones(3, 4)}, m.ones(1, 4), strict=True)
m.nn.utils.stateless.functional_call(linear(m), {'weight': m.ones(3, 4)}, m.ones(1, 4), strict=True)
m.nn.utils.stateless.functional_call(linear(m), {'weight': m.ones(3, 4), 'bias': m.zeros(3)}, (m.ones(1, 4),), {}, strict=True)
m.nn.utils.stateless.functional_call(tied(m), {'first': m.zeros([])}, m.tensor(5.))
m.nn.utils.stateless.functional_call(tied(m), {'first': m.zeros([])}, m.tensor(5.), tie_weights=False)
m.nn.utils.stateless.functional_call(tied(m), {'first': m.zeros([]), 'second': m.ones([])}, m.tensor(5.))
m.nn.utils.stateless.functional_call(tied(m), {'buffer': m.zeros([])}, m.tensor(5.))
m.nn.utils.stateless.functional_call(tied(m), {'buffer': m.zeros([])}, kwargs={'x': m.tensor(5.)})
m.nn.utils.stateless.functional_call(m.nn.DataParallel(linear(m)), {'weight': m.ones(3, 4)}, m.ones(1, 4))
"""  # noqa: E501


@pytest.mark.check
def test_outcomes_are_torch_s() -> None:
    assert differences(EXPRESSIONS, globals(), ["nn.utils.stateless"]) == []


def test_own_parameters_are_back_afterwards_even_after_an_error() -> None:
    layer = linear(T)
    weight = layer.weight
    _functional_call(layer, {"weight": T.zeros(3, 4)}, T.ones(1, 4))
    assert layer.weight is weight
    with pytest.raises(RuntimeError):
        _functional_call(layer, {"weight": T.zeros(3, 5)}, T.ones(1, 4))
    assert layer.weight is weight


def test_gradients_reach_the_given_tensors() -> None:
    layer = linear(T)
    given = T.zeros(3, 4, requires_grad=True)
    _functional_call(layer, {"weight": given}, T.ones(1, 4)).sum().backward()
    assert T.equal(given.grad, T.ones(3, 4))
    assert layer.weight.grad is None


@pytest.mark.check
def test_buffers_that_the_call_replaces_are_the_caller_s() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", T.zeros(1))

        def forward(self) -> Any:
            self.count = self.count + 1
            return self.count

    counter, given = Counter(), {"count": T.tensor([5.0])}
    assert _functional_call(counter, given, ()).item() == 6
    assert (counter.count.item(), given["count"].item()) == (0, 6)


def test_inner_modules_are_reached_by_names_with_dots() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    out = _functional_call(
        model, {"0.weight": T.zeros(2, 2), "0.bias": T.zeros(2), "1.bias": T.ones(2)}, T.ones(3, 2)
    )
    assert T.equal(out, T.ones(3, 2))


def test_the_older_name_warns() -> None:
    with pytest.warns(FutureWarning, match="deprecated"):
        functional_call(linear(T), {}, T.ones(1, 4))


def test_what_is_no_tensor_is_refused_and_all_is_as_before() -> None:
    layer = nn.Linear(1, 1)
    weight = layer.weight
    with pytest.raises(TypeError, match=r"^1 is not an instance of \w+\.Tensor$"):
        T.func.functional_call(layer, {"weight": T.ones(1, 1), "other": 1}, T.ones(1))
    assert layer.weight is weight and not hasattr(layer, "other")
