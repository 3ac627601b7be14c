"""Schedules of learning rates: their curves by formula, order of calls, state, refusals.

Against torch: test_lr_scheduler_torch.py. Averages of models and SWALR: test_swa_utils.py.
"""

from __future__ import annotations

import copy
import gc
import math
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from optim.schedules import MAKERS, curve, optimizer_of, rates

import shmtensor
from shmtensor import optim
from shmtensor.optim import lr_scheduler as S


def _cosine(t: float, length: float, low: float) -> float:
    return low + (0.1 - low) * (1 + math.cos(math.pi * t / length)) / 2


def _triangle(t: int, up: int, down: int) -> float:
    place = t % (up + down)
    return place / up if place <= up else (up + down - place) / down


_FORMULAS: dict[str, Callable[[int], float]] = {
    "lambda": lambda t: 0.1 * 0.9**t,
    "multiplicative": lambda t: 0.1 * math.prod(1 - 1 / (k + 5) for k in range(1, t + 1)),
    "step": lambda t: 0.1 * 0.5 ** (t // 7),
    "multistep": lambda t: 0.1 * 0.3 ** sum(t >= m for m in (2, 5, 5, 9, 100)),
    "constant": lambda t: 0.1 * (0.3 if t < 4 else 1),
    "linear": lambda t: 0.1 * (0.2 + 0.5 * min(t, 30) / 30),
    "exponential": lambda t: 0.1 * 0.97**t,
    "polynomial": lambda t: 0.1 * (1 - min(t, 90) / 90) ** 1.5,
    "cosine": lambda t: _cosine(t, 25, 0.01),
    "restarts": lambda t: _cosine(t % 10, 10, 0.0),
    "cyclic": lambda t: 0.01 + 0.09 * _triangle(t, 4, 4),
    "cyclic 2": lambda t: 0.01 + 0.09 * _triangle(t, 4, 2) * 0.5 ** (t // 6),
    "cyclic exp": lambda t: 0.01 + 0.09 * _triangle(t, 3, 3) * 0.99**t,
    "chain": lambda t: 0.1 * 0.9**t * (0.1 if t < 4 else 1),
    "sequence": lambda t: (
        0.1 * (0.1 if t < 4 else 1)
        if t < 5
        else 0.1 * 0.9 ** (t - 5)
        if t < 9
        else 0.1 * 0.1 ** ((t - 9) // 2)
    ),
}


@pytest.mark.parametrize("name", _FORMULAS)
def test_rates_follow_the_formula(name: str) -> None:
    for t, point in enumerate(curve(shmtensor, MAKERS[name], 120)):
        assert point[0] == pytest.approx(_FORMULAS[name](t), rel=1e-9, abs=1e-15), t


@pytest.mark.check
def test_one_cycle_goes_up_and_far_down() -> None:
    points = curve(shmtensor, MAKERS["one cycle"], 210)
    assert points[0][0] == pytest.approx(1 / 25)
    assert points[0][2] == pytest.approx(0.95)
    assert points[62][0] == pytest.approx(1.0)
    assert points[62][2] == pytest.approx(0.85)
    assert points[209][0] == pytest.approx(1 / 25 / 1e4)
    assert points[209][2] == pytest.approx(0.95)


def test_restarts_may_become_longer() -> None:
    points = curve(shmtensor, MAKERS["longer restarts"], 22)
    assert [t for t, point in enumerate(points) if point[0] == 0.1] == [0, 3, 9, 21]


def test_momentum_of_adam_is_its_first_beta() -> None:
    points = curve(shmtensor, MAKERS["cyclic"], 5, kind="Adam")
    assert [p[2] for p in points] == pytest.approx([0.9, 0.875, 0.85, 0.825, 0.8])
    assert {p[3] for p in points} == {0.999}


@pytest.mark.parametrize("name", MAKERS)
def test_a_tensor_stays_the_learning_rate(name: str) -> None:
    optimizer = optimizer_of(shmtensor, lr=shmtensor.tensor(0.1, dtype=shmtensor.float64))
    tensors = [group["lr"] for group in optimizer.param_groups]
    schedule = MAKERS[name](optimizer, S)
    for point in curve(shmtensor, MAKERS[name], 8):
        assert rates(optimizer) == pytest.approx(point[:2])
        optimizer.step()
        schedule.step()
    assert all(group["lr"] is t for group, t in zip(optimizer.param_groups, tensors, strict=True))
    assert all(a is not b for a, b in zip(schedule.get_last_lr(), tensors, strict=True))


@pytest.mark.parametrize("name", MAKERS)
def test_loaded_state_goes_on_the_same_way(name: str) -> None:
    optimizer = optimizer_of(shmtensor)
    schedule = MAKERS[name](optimizer, S)
    for _ in range(6):
        optimizer.step()
        schedule.step()
    other = optimizer_of(shmtensor)
    twin = MAKERS[name](other, S)
    twin.load_state_dict(copy.deepcopy(schedule.state_dict()))
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for _ in range(8):
        for o, s in ((optimizer, schedule), (other, twin)):
            o.step()
            s.step()
        assert rates(optimizer) == rates(other)
        assert schedule.get_last_lr() == rates(optimizer)


# The wrapper around the optimizer's step is not copied.
@pytest.mark.filterwarnings("ignore:.*has been overridden after learning rate:UserWarning")
@pytest.mark.parametrize("name", MAKERS)
def test_a_copy_has_an_optimizer_of_its_own(name: str) -> None:
    optimizer = optimizer_of(shmtensor)
    schedule = MAKERS[name](optimizer, S)
    twin = copy.deepcopy(schedule)
    assert twin.optimizer is not optimizer
    before = rates(optimizer)
    for _ in range(12):
        twin.optimizer.step()
        twin.step()
    assert rates(optimizer) == before
    assert rates(twin.optimizer) == pytest.approx(curve(shmtensor, MAKERS[name], 13)[12][:2])


@pytest.mark.filterwarnings("ignore:.*has been overridden after learning rate:UserWarning")
def test_schedules_can_be_pickled() -> None:
    optimizer = optimizer_of(shmtensor)
    twin = pickle.loads(pickle.dumps(S.StepLR(optimizer, 1)))
    twin.optimizer.step()
    twin.step()
    assert rates(twin.optimizer) == pytest.approx([0.01, 0.02])


def test_state_keeps_attributes_of_objects_and_nothing_of_functions() -> None:
    schedule = MAKERS["lambdas"](optimizer_of(shmtensor), S)
    state = schedule.state_dict()
    assert "optimizer" not in state
    assert state["lr_lambdas"] == [None, {"base": 0.8}]
    state["lr_lambdas"][1]["base"] = 0.5
    schedule.load_state_dict(state)
    assert schedule.lr_lambdas[1].base == 0.5


def test_a_schedule_does_not_keep_its_optimizer_alive_by_a_cycle() -> None:
    optimizer = optimizer_of(shmtensor)
    schedule = S.StepLR(optimizer, 1)
    gone = weakref.ref(optimizer)
    gc.disable()
    try:
        del optimizer, schedule
        assert gone() is None
    finally:
        gc.enable()


# --- order of calls ------------------------------------------------------------------------------


def test_a_schedule_that_steps_first_is_told() -> None:
    schedule = S.StepLR(optimizer_of(shmtensor), 3)
    with pytest.warns(UserWarning, match=r"`lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
        schedule.step()
    schedule.step()  # once is enough


def test_a_step_that_was_replaced_is_told() -> None:
    optimizer = optimizer_of(shmtensor)
    schedule = S.StepLR(optimizer, 3)
    optimizer.step = lambda: None
    optimizer.step()
    with pytest.warns(UserWarning, match="has been overridden after learning rate scheduler"):
        schedule.step()


def test_two_schedules_count_the_same_step() -> None:
    optimizer = optimizer_of(shmtensor)
    first, second = S.ExponentialLR(optimizer, 0.5), S.StepLR(optimizer, 1, gamma=0.1)
    optimizer.step()
    first.step()
    second.step()
    assert rates(optimizer) == pytest.approx([0.005, 0.01])


@pytest.mark.check
def test_get_lr_outside_of_a_step_is_told() -> None:
    schedule = S.ExponentialLR(optimizer_of(shmtensor), 0.5)
    with pytest.warns(UserWarning, match=r"please use `get_last_lr\(\)`"):
        assert schedule.get_lr() == [0.05, 0.1]


@pytest.mark.parametrize("name", ["step", "multistep", "constant", "linear", "cosine"])
def test_an_epoch_that_is_named_is_reached_at_once(name: str) -> None:
    optimizer = optimizer_of(shmtensor)
    schedule = MAKERS[name](optimizer, S)
    optimizer.step()
    for epoch in (3, 1, 7, 40):
        with pytest.warns(UserWarning, match="epoch parameter in `scheduler.step"):
            schedule.step(epoch)
        assert rates(optimizer)[0] == pytest.approx(_FORMULAS[name](epoch))
        assert schedule.last_epoch == epoch


def test_restarts_take_fractions_of_epochs() -> None:
    optimizer = optimizer_of(shmtensor)
    schedule = S.CosineAnnealingWarmRestarts(optimizer, 10)
    schedule.step(2.5)
    assert rates(optimizer)[0] == pytest.approx(_cosine(2.5, 10, 0.0))
    with pytest.raises(ValueError, match="Expected non-negative epoch, but got -1"):
        schedule.step(-1)


@pytest.mark.parametrize("name", ["step", "exponential", "cosine", "linear"])
def test_a_schedule_may_be_continued_without_its_state(name: str) -> None:
    makers = {
        "step": lambda o, last: S.StepLR(o, 7, 0.5, last),
        "exponential": lambda o, last: S.ExponentialLR(o, 0.97, last),
        "cosine": lambda o, last: S.CosineAnnealingLR(o, 25, 0.01, last),
        "linear": lambda o, last: S.LinearLR(o, 0.2, 0.7, 30, last),
    }
    optimizer = optimizer_of(shmtensor, lr=_FORMULAS[name](5))
    with pytest.raises(KeyError, match=r"'initial_lr' is not specified in param_groups\[0\]"):
        makers[name](optimizer, 4)
    for i, group in enumerate(optimizer.param_groups):
        group["initial_lr"] = 0.1 * (i + 1)
    schedule = makers[name](optimizer, 4)
    for t in range(5, 20):
        assert rates(optimizer)[0] == pytest.approx(_FORMULAS[name](t)), t
        optimizer.step()
        schedule.step()


# --- metrics -------------------------------------------------------------------------------------


def _plateau(metrics: list[float], **options: Any) -> list[float]:
    optimizer = optimizer_of(shmtensor)
    schedule = S.ReduceLROnPlateau(optimizer, factor=0.5, **options)
    found = []
    for metric in metrics:
        schedule.step(metric)
        found.append(rates(optimizer)[0])
    return found


def test_a_plateau_halves_the_rate() -> None:
    assert _plateau([1, 1, 1, 1], patience=1) == [0.1, 0.1, 0.05, 0.05]
    assert _plateau([1, 0.9, 0.8], patience=0) == [0.1, 0.1, 0.1]
    assert _plateau([1, 0.9, 0.8], patience=0, mode="max") == [0.1, 0.05, 0.025]
    assert _plateau([1, 0.95, 0.9], patience=0, threshold=0.2) == [0.1, 0.05, 0.025]
    assert _plateau([1, 0.95, 0.7], patience=0, threshold=0.2, threshold_mode="abs") == [
        0.1,
        0.05,
        0.05,
    ]
    assert _plateau([1, 1, 1, 1], patience=0, cooldown=2) == [0.1, 0.05, 0.05, 0.05]
    assert _plateau([1, 1, 1, 1], patience=0, min_lr=0.04) == [0.1, 0.05, 0.04, 0.04]
    assert _plateau([1, 1, 1, 1], patience=0, eps=0.03) == [0.1, 0.05, 0.05, 0.05]
    assert _plateau([math.nan, math.nan], patience=0) == [0.05, 0.025]


def test_a_metric_may_be_a_tensor_and_state_is_kept() -> None:
    optimizer = optimizer_of(shmtensor)
    schedule = S.ReduceLROnPlateau(optimizer, patience=1)
    schedule.step(shmtensor.tensor(1.0))
    schedule.step(shmtensor.tensor(2.0))
    assert schedule.get_last_lr() == [0.1, 0.2]
    twin = S.ReduceLROnPlateau(optimizer, mode="max", patience=9)
    twin.load_state_dict(schedule.state_dict())
    twin.step(3.0)
    assert twin.get_last_lr() == pytest.approx([0.01, 0.02])
    assert not twin.in_cooldown


def test_groups_that_come_later_have_a_lowest_rate_if_all_had_the_same() -> None:
    for lowest in (0.03, [0.03, 0.03]):
        optimizer = optimizer_of(shmtensor)
        schedule = S.ReduceLROnPlateau(optimizer, patience=0, min_lr=lowest)
        optimizer.add_param_group({"params": [shmtensor.ones(1)]})
        schedule.step(1.0)
        if isinstance(lowest, float):
            schedule.step(1.0)
            assert rates(optimizer) == [0.03, 0.03, 0.03]
        else:
            with pytest.raises(RuntimeError, match=r"groups in the `optimizer` \(3\) differs"):
                schedule.step(1.0)


# --- refusals ------------------------------------------------------------------------------------


def _sgd(**options: Any) -> Any:
    return optimizer_of(shmtensor, **options)


def _no_momentum() -> Any:
    return optim.Rprop([shmtensor.ones(1)])


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: S.StepLR(3, 1), TypeError, "int is not an Optimizer"),
        (lambda: S.LambdaLR(_sgd(), [abs]), ValueError, "Expected 2 lr_lambdas, but got 1"),
        (lambda: S.MultiplicativeLR(_sgd(), [abs]), ValueError, "Expected 2 lr_lambdas, but got 1"),
        (lambda: S.ConstantLR(_sgd(), factor=1.5), ValueError, "to be between 0 and 1"),
        (
            lambda: S.LinearLR(_sgd(), start_factor=0.0),
            ValueError,
            "greater than 0 and less",
        ),
        (lambda: S.LinearLR(_sgd(), end_factor=1.1), ValueError, "Ending multiplicative factor"),
        (lambda: S.CosineAnnealingWarmRestarts(_sgd(), 0), ValueError, "positive integer T_0"),
        (lambda: S.CosineAnnealingWarmRestarts(_sgd(), 1, 0), ValueError, "T_mult >= 1, but got 0"),
        (
            lambda: S.CosineAnnealingWarmRestarts(_sgd(), 1, eta_min="a"),
            ValueError,
            "eta_min, but got a of type <class 'str'>",
        ),
        (lambda: S.ReduceLROnPlateau(_sgd(), mode="x"), ValueError, "mode x is unknown!"),
        (lambda: S.ReduceLROnPlateau(_sgd(), factor=1.0), ValueError, "Factor should be < 1.0"),
        (
            lambda: S.ReduceLROnPlateau(_sgd(), min_lr=[1.0]),
            ValueError,
            "expected 2 min_lrs, got",
        ),
        (
            lambda: S.ReduceLROnPlateau(_sgd(), threshold_mode="x"),
            ValueError,
            "threshold mode x is unknown!",
        ),
        (
            lambda: S.CyclicLR(_sgd(), 0.1, 0.2, mode="x"),
            ValueError,
            "mode is invalid and",
        ),
        (
            lambda: S.CyclicLR(_no_momentum(), 0.1, 0.2),
            ValueError,
            "must support momentum",
        ),
        (lambda: S.CyclicLR(_sgd(), [0.1], 0.2), ValueError, "base_lr has 1 values, param_groups"),
        (lambda: S.OneCycleLR(_sgd(), 0.1), ValueError, "You must define either total_steps OR"),
        (lambda: S.OneCycleLR(_sgd(), 0.1, 0), ValueError, "integer total_steps, but got 0"),
        (
            lambda: S.OneCycleLR(_sgd(), 0.1, epochs=0, steps_per_epoch=3),
            ValueError,
            "positive integer epochs, but got 0",
        ),
        (lambda: S.OneCycleLR(_sgd(), 0.1, 3, pct_start=2.0), ValueError, "pct_start, but got 2.0"),
        (lambda: S.OneCycleLR(_sgd(), 0.1, 3, anneal_strategy="x"), ValueError, "instead got x"),
        (
            lambda: S.OneCycleLR(_no_momentum(), 0.1, 3),
            ValueError,
            "must support momentum",
        ),
        (lambda: S.SequentialLR(_sgd(), [], []), ValueError, "got no scheduler"),
        (lambda: S.SequentialLR(_sgd(), [3], []), TypeError, "at index 0 should have `optimizer`"),
        (lambda: S.ChainedScheduler([]), ValueError, "got no scheduler"),
        (lambda: S.LRScheduler(_sgd()), NotImplementedError, None),
    ],
)
def test_wrong_arguments_are_refused(
    make: Callable[[], Any], kind: type[Exception], text: str | None
) -> None:
    with pytest.raises(kind, match=text):
        make()


def test_combined_schedules_have_one_optimizer_and_go_by_epochs() -> None:
    one, other = _sgd(), _sgd()
    first, stranger = S.ConstantLR(one), S.ExponentialLR(other, 0.9)
    plateau = S.ReduceLROnPlateau(one)
    text = r"belong to the same optimizer, but got scheduler ExponentialLR at index 1"
    with pytest.raises(ValueError, match=text):
        S.SequentialLR(one, [first, stranger], [1])
    with pytest.raises(ValueError, match=text):
        S.ChainedScheduler([first, stranger])
    for make in (
        lambda: S.SequentialLR(one, [first, plateau], [1]),
        lambda: S.ChainedScheduler([first, plateau]),
    ):
        with pytest.raises(ValueError, match=r"does not support `ReduceLROnPlateau`.*at index 1"):
            make()
    with pytest.raises(ValueError, match=r"number of schedulers 2 and the number .* equal to 2"):
        S.SequentialLR(one, [first, S.ExponentialLR(one, 0.9)], [1, 2])


def test_one_cycle_ends() -> None:
    optimizer = _sgd()
    schedule = S.OneCycleLR(optimizer, 0.1, total_steps=3)
    for _ in range(3):
        optimizer.step()
        schedule.step()
    with pytest.raises(ValueError, match=r"Tried to step 4 times\. .* of total steps is 3"):
        schedule.step()


def test_a_milestone_at_the_start_begins_with_the_later_schedule() -> None:
    optimizer = _sgd(lr=0.5)
    parts = [S.ConstantLR(optimizer, 0.5, 10), S.ExponentialLR(optimizer, 0.9)]
    schedule = S.SequentialLR(optimizer, parts, [0])
    rates = [schedule.get_last_lr()[0]]
    for _ in range(2):
        optimizer.step()
        schedule.step()
        rates.append(schedule.get_last_lr()[0])
    assert rates == pytest.approx([0.5, 0.45, 0.405])


@pytest.mark.parametrize(
    "make",
    [
        lambda o: optim.lr_scheduler.LambdaLR(o, lambda e: 0.5**e),
        lambda o: optim.lr_scheduler.MultiplicativeLR(o, lambda e: 0.5),
        lambda o: optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 3),
        lambda o: optim.lr_scheduler.CyclicLR(o, 0.1, 1.0, cycle_momentum=False),
    ],
)
def test_a_group_that_a_schedule_does_not_know_is_refused(make):
    """Its rate would stay without a word."""
    optimizer = optim.SGD([shmtensor.zeros(1, requires_grad=True)], lr=1.0)
    schedule = make(optimizer)
    optimizer.add_param_group({"params": [shmtensor.zeros(1, requires_grad=True)], "lr": 2.0})
    optimizer.step()
    with pytest.raises(ValueError, match="zip"):
        schedule.step()
