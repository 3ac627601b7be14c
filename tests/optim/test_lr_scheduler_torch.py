"""Schedules of learning rates against torch: curves, states, warnings, every epoch by name."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest
from optim.schedules import MAKERS, curve, optimizer_of, rates

import shmtensor

torch = pytest.importorskip("torch")

_WITH_SWA = {
    **MAKERS,
    "swa": lambda o, s: _swa(o).SWALR(o, 0.05, anneal_epochs=5),
    "swa, a line": lambda o, s: _swa(o).SWALR(
        o, [0.05, 0.01], anneal_epochs=20, anneal_strategy="linear"
    ),
    "then swa": lambda o, s: s.SequentialLR(
        o, [s.ExponentialLR(o, 0.9), _swa(o).SWALR(o, 0.05, anneal_epochs=5)], [6]
    ),
}


def _swa(optimizer: Any) -> Any:
    lib = shmtensor if isinstance(optimizer, shmtensor.optim.Optimizer) else torch
    return lib.optim.swa_utils


@pytest.mark.parametrize("name", _WITH_SWA)
def test_two_hundred_steps_are_those_of_torch(name: str) -> None:
    ours, theirs = (curve(lib, _WITH_SWA[name], 200) for lib in (shmtensor, torch))
    np.testing.assert_allclose(ours, theirs, rtol=1e-13, atol=1e-18)


@pytest.mark.parametrize("name", [n for n in MAKERS if "cycl" in n])
def test_betas_are_those_of_torch(name: str) -> None:
    ours, theirs = (curve(lib, MAKERS[name], 50, kind="Adam") for lib in (shmtensor, torch))
    np.testing.assert_allclose(ours, theirs, rtol=1e-13)


def _plain(state: Any) -> Any:
    if isinstance(state, dict):
        return {key: _plain(value) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return [_plain(value) for value in state]
    return state


@pytest.mark.parametrize("name", _WITH_SWA)
def test_states_are_those_of_torch_and_are_exchanged(name: str) -> None:
    found = []
    for lib in (shmtensor, torch):
        optimizer = optimizer_of(lib)
        schedule = _WITH_SWA[name](optimizer, lib.optim.lr_scheduler)
        for _ in range(7):
            optimizer.step()
            schedule.step()
        found.append((optimizer, schedule))
    (ours, mine), (theirs, its) = found
    assert _plain(mine.state_dict()) == _plain(its.state_dict())
    states = [copy.deepcopy((o.state_dict(), s.state_dict())) for o, s in found]
    for (optimizer, schedule), (of_optimizer, of_schedule) in zip(found, states[::-1], strict=True):
        optimizer.load_state_dict(of_optimizer)
        schedule.load_state_dict(of_schedule)
        optimizer.step()
        schedule.step()
    assert rates(ours) == pytest.approx(rates(theirs), rel=1e-13)


@pytest.mark.parametrize("name", _WITH_SWA)
def test_calls_out_of_order_are_told_as_by_torch(name: str) -> None:
    def act(lib: Any) -> list[Any]:
        optimizer = optimizer_of(lib)
        schedule = _WITH_SWA[name](optimizer, lib.optim.lr_scheduler)
        seen: list[Any] = []
        actions = [
            lambda: schedule.step(),
            lambda: schedule.step(),
            lambda: optimizer.step(),
            lambda: schedule.get_lr(),
            lambda: schedule.step(3),
            lambda: schedule.step(17),
            lambda: schedule.step(),
        ]
        for action in actions:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    result = action()
                except Exception as error:
                    result = type(error).__name__
            told = [(w.category.__name__, str(w.message)) for w in caught]
            seen.append((result, told, [round(r, 12) for r in rates(optimizer)]))
        return seen

    assert act(shmtensor) == act(torch)


@pytest.mark.parametrize("last_epoch", range(24))
def test_continued_schedules_go_where_those_of_torch_go(last_epoch: int) -> None:
    def act(lib: Any) -> list[Any]:
        s, w = lib.optim.lr_scheduler, lib.optim.swa_utils
        found = []
        for make in (
            lambda o: s.StepLR(o, 3, last_epoch=last_epoch),
            lambda o: s.LambdaLR(o, lambda epoch: 0.9**epoch, last_epoch=last_epoch),
            lambda o: s.MultiplicativeLR(o, lambda epoch: 0.9, last_epoch=last_epoch),
            lambda o: s.MultiStepLR(o, [4, 6], last_epoch=last_epoch),
            lambda o: s.ConstantLR(o, last_epoch=last_epoch),
            lambda o: s.LinearLR(o, last_epoch=last_epoch),
            lambda o: s.ExponentialLR(o, 0.9, last_epoch=last_epoch),
            lambda o: s.PolynomialLR(o, 20, last_epoch=last_epoch),
            lambda o: s.CosineAnnealingLR(o, 9, last_epoch=last_epoch),
            lambda o: s.CosineAnnealingWarmRestarts(o, 3, 2, last_epoch=last_epoch),
            lambda o: s.CyclicLR(o, 0.1, 0.2, 4, last_epoch=last_epoch),
            lambda o: s.OneCycleLR(o, 0.1, 50, last_epoch=last_epoch),
            lambda o: w.SWALR(o, 0.05, 5, last_epoch=last_epoch),
        ):
            optimizer = optimizer_of(lib)
            for group in optimizer.param_groups:
                group.update(initial_lr=group["lr"] * 2, max_lr=1.0, min_lr=0.001)
                group.update(max_momentum=0.9, base_momentum=0.8)
            schedule = make(optimizer)
            for _ in range(12):
                found.append(rates(optimizer))
                optimizer.step()
                schedule.step()
        return found

    np.testing.assert_allclose(act(shmtensor), act(torch), rtol=1e-13, atol=1e-18)


@pytest.mark.check
@pytest.mark.parametrize(
    "options",
    [
        {"patience": 2},
        {"patience": 1, "mode": "max", "cooldown": 2, "factor": 0.5},
        {"patience": 0, "threshold": 0.2, "threshold_mode": "abs", "min_lr": [0.01, 0.001]},
        {"patience": 0, "mode": "max", "threshold_mode": "abs", "eps": 0.01},
    ],
    ids=str,
)
def test_plateaus_are_those_of_torch(options: dict[str, Any]) -> None:
    metrics = [1, 0.9, 0.9, 0.9, 0.9, 0.5, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1, 1, 1, 1]
    found = []
    for lib in (shmtensor, torch):
        optimizer = optimizer_of(lib)
        schedule = lib.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        points = []
        for metric in metrics:
            schedule.step(metric)
            points.append([*rates(optimizer), schedule.in_cooldown])
        found.append((points, schedule.state_dict()))
    assert found[0] == found[1]


def test_names_are_those_of_torch() -> None:
    ours, theirs = shmtensor.optim.lr_scheduler, torch.optim.lr_scheduler
    assert sorted(ours.__all__) == sorted(theirs.__all__)
    assert issubclass(ours._LRScheduler, ours.LRScheduler)
    ours, theirs = shmtensor.optim.swa_utils, torch.optim.swa_utils
    assert sorted(ours.__all__) == sorted(theirs.__all__)
    assert set(torch.optim.__all__) <= set(shmtensor.optim.__all__)
