"""Parameters and state that are swapped in for a while."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import shmtensor
from shmtensor.optim import Adam, Optimizer, swap_in_optimizer_params_and_state


def _stepped() -> tuple[list[Any], Optimizer, dict[str, Any]]:
    params = [shmtensor.full((2,), float(i + 1)).requires_grad_() for i in range(2)]
    optimizer = Adam(params, lr=0.1)
    _step(optimizer)
    return params, optimizer, copy.deepcopy(optimizer.state_dict())


def _step(optimizer: Optimizer) -> None:
    for param in optimizer.param_groups[0]["params"]:
        param.grad = shmtensor.ones(2)
    optimizer.step()


def _others() -> dict[str, Any]:
    return {"a": shmtensor.full((2,), 5.0), "b": shmtensor.full((2,), 6.0)}


@pytest.mark.check
def test_steps_inside_change_what_was_swapped_in() -> None:
    params, optimizer, state = _stepped()
    before = [p.tolist() for p in params]
    others = _others()
    state["param_groups"][0]["lr"] = 0.5
    with swap_in_optimizer_params_and_state(optimizer, others, state):
        _step(optimizer)
    assert others["a"].tolist() == pytest.approx([4.5, 4.5])
    assert state["state"][0]["step"].item() == 2
    assert [p.tolist() for p in params] == before
    assert optimizer.state[params[0]]["step"].item() == 1
    assert optimizer.param_groups[0]["lr"] == 0.1


def test_what_is_assigned_inside_is_forgotten() -> None:
    params, optimizer, state = _stepped()
    try:
        with swap_in_optimizer_params_and_state(optimizer, _others(), state):
            param = optimizer.param_groups[0]["params"][0]
            optimizer.state[param]["new"] = 1
            optimizer.param_groups[0]["lr"] = 7
            raise KeyError("out")
    except KeyError:
        pass
    assert optimizer.param_groups[0]["params"][0] is params[0]
    assert "new" not in state["state"][0]
    assert state["param_groups"][0]["lr"] == 0.1


def _with_group(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[..., Any]:
    return lambda state: {**state, "param_groups": [change(state["param_groups"][0])]}


@pytest.mark.check
@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda state: None, "requires a DCP-style optimizer state_dict"),
        (lambda state: {}, r"swapin_optim_state\['state'\] to be a dict .* got NoneType"),
        (lambda state: {"state": {}}, r"\['param_groups'\] to be a list .* got NoneType"),
        (lambda state: {**state, "param_groups": []}, "a different number of parameter groups"),
        (lambda state: {**state, "param_groups": [3]}, "each optimizer param group to be a dict"),
        (_with_group(lambda g: {**g, "params": ["x", "y"]}), "keyed by packed parameter ids"),
        (_with_group(lambda g: {**g, "params": [0]}), "group 0 has a different number of params"),
        (
            _with_group(lambda g: {**g, "x": 1}),
            r"only in swap-in: \['x'\]. Keys only in live: \[\]",
        ),
        (lambda state: {**state, "state": {0: 3}}, "state entries to be dictionaries"),
        (lambda state: {**state, "state": {7: {}}}, r"got extra keys \[7\]"),
    ],
)
def test_other_layouts_are_refused(change: Callable[[Any], Any], text: str) -> None:
    _, optimizer, state = _stepped()
    with (
        pytest.raises(RuntimeError, match=text),
        swap_in_optimizer_params_and_state(optimizer, _others(), change(state)),
    ):
        pass


def test_too_few_parameters_and_an_optimizer_without_state_are_refused() -> None:
    _, optimizer, state = _stepped()
    for given, owner, text in (
        ({"a": shmtensor.ones(2)}, optimizer, "to match optimizer.param_groups ordering"),
        (_others(), Adam([shmtensor.ones(2)]), "requires initialized optimizer state"),
    ):
        with (
            pytest.raises(RuntimeError, match=text),
            swap_in_optimizer_params_and_state(owner, given, state),
        ):
            pass
