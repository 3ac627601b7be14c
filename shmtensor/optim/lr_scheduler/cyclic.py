"""Schedules that go up and down, with the momentum the other way round."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

from shmtensor.optim.lr_scheduler.base import (
    LRScheduler,
    _check_optimizer,
    _one_for_each_group,
    _saved_function,
    _set_value,
)
from shmtensor.optim.optimizer import Optimizer

__all__ = ["CyclicLR", "OneCycleLR"]


def _check_momentum(optimizer: Optimizer) -> bool:
    """Whether the momentum is the first of two ``betas``; raise if there is none."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
        )
    return "betas" in optimizer.defaults


def _set_momentum(group: dict[str, Any], momentum: float, use_beta1: bool) -> None:
    if use_beta1:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


class CyclicLR(LRScheduler):
    """Up from *base_lr* to *max_lr* and down again, along lines, once a cycle.

    A step is a batch. The height of a cycle may shrink: "triangular" keeps it, "triangular2"
    halves it with every cycle, "exp_range" multiplies it by *gamma* with every step.

    Args:
        optimizer: Whose rates are set.
        base_lr: The lowest rate; a list has one for each group.
        max_lr: The highest rate; a list has one for each group.
        step_size_up: Steps of the way up.
        step_size_down: Steps of the way down; ``None``: as many.
        mode: "triangular", "triangular2" or "exp_range".
        gamma: Factor of "exp_range".
        scale_fn: Gives the factor of the height instead of *mode*.
        scale_mode: What *scale_fn* gets: the "cycle", from 1, or "iterations".
        cycle_momentum: Whether the momentum goes down where the rate goes up.
        base_momentum: The lowest momentum; a list has one for each group.
        max_momentum: The highest momentum; a list has one for each group.
        last_epoch: The last step that was done, to continue a schedule.

    Raises:
        TypeError: *optimizer* is none.
        ValueError: An unknown *mode*; no momentum to cycle; lists of another length.

    Source:
        torch.optim.lr_scheduler.CyclicLR; Smith, "Cyclical learning rates for training neural
        networks", 2017.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: Literal["triangular", "triangular2", "exp_range"] = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: Literal["cycle", "iterations"] = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        groups = optimizer.param_groups
        base_lrs = _one_for_each_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for lr, group in zip(base_lrs, groups, strict=True):
                _set_value(group, "lr", lr)
        self.max_lrs = _one_for_each_group("max_lr", optimizer, max_lr)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up) + float(down)
        self.step_ratio = step_size_up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode: str = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _check_momentum(optimizer)
            self.base_momentums = _one_for_each_group("base_momentum", optimizer, base_momentum)
            self.max_momentums = _one_for_each_group("max_momentum", optimizer, max_momentum)
            if last_epoch == -1:
                for low, high, group in zip(
                    self.base_momentums, self.max_momentums, groups, strict=True
                ):
                    _set_momentum(group, high, self.use_beta1)
                    group["max_momentum"] = high
                    group["base_momentum"] = low
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The factor of the height of a cycle, at the cycle or the step *x*."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        if self.mode == "triangular2":
            return float(0.5 ** (x - 1))
        return float(self.gamma**x)

    def get_lr(self) -> list[Any]:
        """Compute the next rates, and set the momentum."""
        self._warn_unless_stepping()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        place = 1.0 + self.last_epoch / self.total_size - cycle
        if place <= self.step_ratio:
            height = place / self.step_ratio
        else:
            height = (place - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for low, high, group in zip(
                self.base_momentums,
                self.max_momentums,
                self.optimizer.param_groups,
                strict=True,
            ):
                _set_momentum(group, high - (high - low) * height * scale, self.use_beta1)
        return [
            low + (high - low) * height * scale
            for low, high in zip(self.base_lrs, self.max_lrs, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; of *scale_fn*, only attributes of an object."""
        state = super().state_dict()
        state["_scale_fn_custom"] = _saved_function(state.pop("_scale_fn_custom"))
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave; *scale_fn* stays, its attributes change."""
        state = dict(state_dict)
        saved = state.pop("_scale_fn_custom")
        super().load_state_dict(state)
        if saved is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(saved)


class OneCycleLR(LRScheduler):
    """Up to *max_lr*, then down to far below the first rate: one cycle for all of the training.

    A step is a batch. The first rate is ``max_lr / div_factor``, the last
    ``max_lr / div_factor / final_div_factor``.

    Args:
        optimizer: Whose rates are set.
        max_lr: The highest rate; a list has one for each group.
        total_steps: Steps of the cycle; ``None``: *epochs* times *steps_per_epoch*.
        epochs: Epochs of the training.
        steps_per_epoch: Steps of an epoch.
        pct_start: The share of the way up, from 0 to 1.
        anneal_strategy: "cos" or "linear".
        cycle_momentum: Whether the momentum goes down where the rate goes up.
        base_momentum: The lowest momentum; a list has one for each group.
        max_momentum: The highest momentum; a list has one for each group.
        div_factor: Highest rate over first rate.
        final_div_factor: First rate over last rate.
        three_phase: Go down to the first rate as fast as up, then to the last.
        last_epoch: The last step that was done, to continue a schedule.

    Raises:
        TypeError: *optimizer* is none.
        ValueError: The number of steps is not given or is not a whole number above zero;
            *pct_start* is out of its range; an unknown strategy; no momentum to cycle; lists of
            another length.

    Source:
        torch.optim.lr_scheduler.OneCycleLR; Smith, Topin, "Super-convergence: very fast training
        of neural networks using large learning rates", 2018.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        if total_steps is not None:
            self.total_steps = _checked_count("total_steps", total_steps)
        elif epochs is not None and steps_per_epoch is not None:
            self.total_steps = _checked_count("epochs", epochs)
            self.total_steps *= _checked_count("steps_per_epoch", steps_per_epoch)
        else:
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_func_type = anneal_strategy
        max_lrs = _one_for_each_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for highest, group in zip(max_lrs, optimizer.param_groups, strict=True):
                group["initial_lr"] = highest / div_factor
                group["max_lr"] = highest
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _check_momentum(optimizer)
            lows = _one_for_each_group("base_momentum", optimizer, base_momentum)
            highs = _one_for_each_group("max_momentum", optimizer, max_momentum)
            if last_epoch == -1:
                for low, high, group in zip(lows, highs, optimizer.param_groups, strict=True):
                    _set_momentum(group, high, self.use_beta1)
                    group["max_momentum"] = high
                    group["base_momentum"] = low
        super().__init__(optimizer, last_epoch)

    def _anneal_func(self, start: Any, end: Any, share: float) -> Any:
        """A value on the way from *start* to *end*."""
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)
        return (end - start) * share + start

    def get_lr(self) -> list[Any]:
        """Compute the next rates, and set the momentum.

        Raises:
            ValueError: The cycle is over.
        """
        self._warn_unless_stepping()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        begin: float = 0
        for phase in self._schedule_phases:
            end = phase["end_step"]
            if step <= end or phase is self._schedule_phases[-1]:
                break
            begin = end
        share = (step - begin) / (end - begin)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._anneal_func(group[phase["start_lr"]], group[phase["end_lr"]], share))
            if self.cycle_momentum:
                momentum = self._anneal_func(
                    group[phase["start_momentum"]], group[phase["end_momentum"]], share
                )
                _set_momentum(group, momentum, self.use_beta1)
        return rates


def _checked_count(name: str, value: Any) -> int:
    if value <= 0 or not isinstance(value, int):
        raise ValueError(f"Expected positive integer {name}, but got {value}")
    return value


def _phases(total_steps: int, pct_start: float, three_phase: bool) -> list[dict[str, Any]]:
    """The last step of each phase, and the options of a group that it goes from and to."""
    up = float(pct_start * total_steps) - 1
    ends: list[tuple[float, str, str, str, str]] = [
        (up, "initial_lr", "max_lr", "max_momentum", "base_momentum")
    ]
    if three_phase:
        back = float(2 * pct_start * total_steps) - 2
        ends.append((back, "max_lr", "initial_lr", "base_momentum", "max_momentum"))
        ends.append((total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"))
    else:
        ends.append((total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum"))
    names = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
    return [dict(zip(names, phase, strict=True)) for phase in ends]
