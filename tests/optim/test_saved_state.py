"""``state_dict`` of every optimizer: saved, loaded, copied, and exchanged with torch.

Hooks around saving and loading are in test_optimizer.py.
"""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from optim.cases import ONE_OF_EACH, Case, deviation, gradients, run, starts, steps, tensors

import shmtensor
from shmtensor import nn, optim


def _more(lib: Any, case: Case, params: list[Any], optimizer: Any, n_steps: int) -> None:
    steps(lib, params, optimizer, gradients(20)[10 : 10 + n_steps])


@pytest.mark.parametrize("case", ONE_OF_EACH, ids=str)
def test_loaded_state_goes_on_the_same_way(case: Case) -> None:
    params, optimizer = run(shmtensor, case, 5)
    twins = [p.detach().clone().requires_grad_() for p in params]
    other = getattr(optim, case.name)(twins, lr=123.0)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert other.param_groups[0]["lr"] == case.options["lr"]
    _more(shmtensor, case, params, optimizer, 5)
    _more(shmtensor, case, twins, other, 5)
    # Their further numbers of one element take the parameter's dtype when they are loaded.
    tolerance = 1e-7 if case.name in ("NAdam", "ASGD") else 0.0
    assert deviation(params, twins) <= tolerance


@pytest.mark.parametrize("case", ONE_OF_EACH, ids=str)
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_copies_have_parameters_of_their_own(case: Case, copied: Callable[[Any], Any]) -> None:
    params, optimizer = run(shmtensor, case, 3)
    twins, other = copied((params, optimizer))
    assert other.param_groups[0]["params"][0] is twins[0]
    _more(shmtensor, case, twins, other, 3)
    assert not shmtensor.equal(params[1], twins[1])
    _more(shmtensor, case, params, optimizer, 3)
    assert all(shmtensor.equal(a, b) for a, b in zip(params, twins, strict=True))


@pytest.mark.parametrize("case", ONE_OF_EACH, ids=str)
def test_a_checkpoint_file_keeps_the_state(case: Case) -> None:
    params, optimizer = run(shmtensor, case, 3)
    file = io.BytesIO()
    shmtensor.save(optimizer.state_dict(), file)
    file.seek(0)
    loaded = shmtensor.load(file)
    assert loaded["param_groups"] == optimizer.state_dict()["param_groups"]
    for number, param in enumerate(params):
        for key, value in optimizer.state[param].items():
            assert shmtensor.equal(loaded["state"][number][key], value)


@pytest.mark.check
def test_floating_state_takes_the_dtype_of_its_parameter_and_counters_keep_theirs() -> None:
    _, optimizer = run(shmtensor, Case("Adam", {"lr": 0.1}), 2)
    narrow = tensors(shmtensor, starts("float32"))
    for fused, dtype in ((None, shmtensor.float64), (True, shmtensor.float32)):
        other = optim.Adam(narrow, fused=fused)
        saved = optimizer.state_dict()
        saved = {
            "state": {
                n: {k: v.double() if k == "step" else v for k, v in entry.items()}
                for n, entry in saved["state"].items()
            },
            "param_groups": [{**saved["param_groups"][0], "fused": fused}],
        }
        other.load_state_dict(saved)
        entry = other.state[narrow[0]]
        assert entry["exp_avg"].dtype == shmtensor.float32
        assert entry["step"].dtype == dtype


def test_state_of_other_kinds_is_kept() -> None:
    param = shmtensor.ones(2, requires_grad=True)
    optimizer = optim.SGD([param])
    state = {0: {"list": [shmtensor.ones(2).double()], "text": "x", "n": 3}, "free": {"a": 1}}
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    assert optimizer.state[param]["list"][0].dtype == shmtensor.float32
    assert optimizer.state[param]["text"] == "x"
    assert optimizer.state_dict()["state"]["free"] == {"a": 1}


@pytest.mark.check
def test_states_before_counters_were_tensors_are_understood() -> None:
    param = shmtensor.ones(2, requires_grad=True)
    optimizer = optim.Adam([param])
    optimizer.load_state_dict(
        {
            "state": {0: {"step": 7, "exp_avg": param.detach(), "exp_avg_sq": param.detach()}},
            "param_groups": [{"params": [0], "lr": 0.1, "betas": (0.9, 0.9), "eps": 1e-8,
                              "weight_decay": 0}],
        }
    )  # fmt: skip
    param.grad = shmtensor.ones(2)
    optimizer.step()
    assert optimizer.state[param]["step"].item() == 8
    assert optimizer.param_groups[0]["maximize"] is False


def test_a_module_and_its_optimizer_stay_together() -> None:
    layer = nn.Linear(2, 1)
    optimizer = optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
    layer(shmtensor.ones(1, 2)).sum().backward()
    optimizer.step()
    twin, other = pickle.loads(pickle.dumps((layer, optimizer)))
    assert other.param_groups[0]["params"][0] is twin.weight
    assert twin.weight in other.state


# --- torch ---------------------------------------------------------------------------------------


def _translated(state: Any, lib: Any) -> Any:
    """A state with the tensors of *lib*."""
    if hasattr(state, "detach"):
        return lib.from_numpy(np.array(state.detach().numpy()))
    if isinstance(state, dict):
        return {key: _translated(value, lib) for key, value in state.items()}
    if isinstance(state, list):
        return [_translated(value, lib) for value in state]
    return state


@pytest.mark.parametrize("case", ONE_OF_EACH, ids=str)
@pytest.mark.parametrize("ours_first", [True, False])
def test_training_moves_between_the_libraries(case: Case, ours_first: bool) -> None:
    torch = pytest.importorskip("torch")
    ends = []
    for first, second in ((torch, torch), (shmtensor, torch) if ours_first else (torch, shmtensor)):
        params, optimizer = run(first, case, 5)
        others = [second.from_numpy(np.array(p.detach().numpy())).requires_grad_() for p in params]
        other = getattr(second.optim, case.name)(others)
        other.load_state_dict(_translated(optimizer.state_dict(), second))
        steps(second, others, other, gradients(10)[5:])
        ends.append(others)
    assert deviation(*ends) < 1e-12


@pytest.mark.parametrize("case", ONE_OF_EACH, ids=str)
def test_saved_states_look_like_those_of_torch(case: Case) -> None:
    torch = pytest.importorskip("torch")

    def described(state: Any) -> Any:
        if hasattr(state, "detach"):
            return tuple(state.shape), str(state.dtype), state.requires_grad
        if isinstance(state, dict):
            return {key: described(value) for key, value in state.items()}
        if isinstance(state, list):
            return [described(value) for value in state]
        return state

    ours, theirs = (run(lib, case, 2)[1].state_dict() for lib in (shmtensor, torch))
    assert described(ours) == described(theirs)
    assert [list(entry) for entry in ours["state"].values()] == [
        list(entry) for entry in theirs["state"].values()
    ]
    assert list(ours["param_groups"][0]) == list(theirs["param_groups"][0])


@pytest.mark.parametrize("ours_first", [True, False])
def test_checkpoint_files_move_between_the_libraries(ours_first: bool) -> None:
    torch = pytest.importorskip("torch")
    case = Case("AdamW", {"lr": 0.02, "amsgrad": True})
    first, second = (shmtensor, torch) if ours_first else (torch, shmtensor)
    whole, _ = run(torch, case, 10)
    params, optimizer = run(first, case, 5)
    file = io.BytesIO()
    first.save({"params": [p.detach() for p in params], "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    loaded = second.load(file)
    others = [p.clone().requires_grad_() for p in loaded["params"]]
    other = second.optim.AdamW(others)
    other.load_state_dict(loaded["optimizer"])
    steps(second, others, other, gradients(10)[5:])
    assert deviation(others, whole) < 1e-12
